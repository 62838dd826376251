// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dependency files as make and ninja read them.
#ifndef KILN_TOOLS_BUILD_DEPFILE_H
#define KILN_TOOLS_BUILD_DEPFILE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/status.h"

/// Appends the name of a file so that make and ninja read the same name, the one that was given.
/// INVALID_ARGUMENT if no spelling means the same to both. `is_target`: the name stands before the colon.
kiln_status depfile_name(kiln_buffer *out, const char *name, bool is_target, kiln_error *err);

#endif
