// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packing the objects of a plan into a bundle, which kiln-tool does.
#ifndef KILN_TOOLS_BUILD_PACK_H
#define KILN_TOOLS_BUILD_PACK_H

#include "tools/build/session.h"

/// What kiln-tool packs. `by_key`: the same with each object's key in place of its bytes.
void pack_manifest(const plan *p, bool by_key, kiln_buffer *out);
/// Runs `tool`, which packs the objects of the plan into a bundle.
kiln_status pack_bundle(const session *s, const session_bundle *how, const toolchain_program *tool,
                        kiln_buffer *bundle, kiln_error *err);
/// Writes the bytes of a bundle to where `how` says.
kiln_status pack_write(const session_bundle *how, const void *bytes, size_t size, kiln_error *err);

#endif
