// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finished bundles in the cache: two keys lead to each.
//
// The bundle's own key is what it is made of (kernels, keys of objects, notes), how it is packed, and by
// whom: another comment in a source is the same bundle. To know that key the sources must be read, checked
// and lowered, so a second, small entry says what came of it. Its key is everything that the front end sees:
// the bytes of the sources with their paths, the options, targets, tools, and this program, whose front end
// it is.
#ifndef KILN_TOOLS_BUILD_BUNDLE_MEMO_H
#define KILN_TOOLS_BUILD_BUNDLE_MEMO_H

#include "tools/build/session.h"

/// Everything that reading, checking and lowering what was read depends on, and what is said about it: the
/// bytes and paths of the sources, options, targets, tools, and this program.
kiln_status bundle_memo_inputs(const session *s, kiln_buffer *out, kiln_error *err);

/// Keeps a bundle whose objects are all in it and are what their keys say. What does not work costs the next
/// build time, no more. `cost`: nanoseconds of packing.
void bundle_memo_keep(session *s, const session_bundle *how, toolchain_program *tool,
                      const kiln_buffer *bundle, uint64_t cost);

#endif
