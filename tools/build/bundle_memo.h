// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finished bundles in the cache: two keys lead to each.
//
// The bundle's own key covers what it is made of (kernels, keys of objects, notes), how it is packed, and by
// which program: a changed comment in a source gives the same bundle. To compute that key, the sources must
// be read, checked and lowered, so a second, small entry records the result. Its key is everything that the
// front end sees: the bytes of the sources with their paths, the options, targets, tools, and this program,
// whose front end it is.
#ifndef KILN_TOOLS_BUILD_BUNDLE_MEMO_H
#define KILN_TOOLS_BUILD_BUNDLE_MEMO_H

#include "tools/build/session.h"

/// Everything that the results and messages of the front end depend on: the bytes and paths of the sources,
/// options, targets, tools, and this program.
kiln_status bundle_memo_inputs(const session *s, kiln_buffer *out, kiln_error *err);

#endif
