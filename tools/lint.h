// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Included before all else where `make lint` analyses a file: analysers see one file at a time, so they are
// told here what they would have to know of others.
#include "base/status.h"

// Both return the status that they are given: what follows a call that failed is not reached by a caller that
// looks.
#define kiln_fail(err, status, ...) ((kiln_fail)((err), (status), __VA_ARGS__), (status))
#define kiln_context(err, status, ...) ((kiln_context)((err), (status), __VA_ARGS__), (status))

// So does this one.
#ifdef KILN_LINT_RUNTIME
#include "runtime/bundle/internal.h"
#define kiln_bundle_damaged(...) ((kiln_bundle_damaged)(__VA_ARGS__), KILN_STATUS_CORRUPT)
#endif
