// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which codes share a dictionary: those of one kind of machine. Sibling processors share most of their bytes, so they are one family.
#ifndef KILN_TOOLS_TOOL_PACK_FAMILY_H
#define KILN_TOOLS_TOOL_PACK_FAMILY_H

#include <stdint.h>

#include "base/status.h"

enum { KILN_TOOL_FAMILY = 32 };
/// The family ("ptx", "cubin", "gfx9", "host-x86_64") and the KILN_BUNDLE_CODE_ flags of a code. Errors: TARGET, UNSUPPORTED (a format that is never
/// in bundles).
kiln_status kiln_tool_family(const char *target, uint8_t format, char out[KILN_TOOL_FAMILY], uint32_t *out_flags, kiln_error *err);

#endif
