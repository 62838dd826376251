// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which codes share a compression dictionary: those for one kind of machine. Codes for similar processors
// have most of their bytes in common, so they are one family.
#ifndef KILN_TOOLS_BUNDLE_DICTIONARY_FAMILY_H
#define KILN_TOOLS_BUNDLE_DICTIONARY_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cache/bundle/writer.h"
#include "targets/targets.h"

enum { DICTIONARY_FAMILY = 32 };
/// The family ("ptx", "cubin", "gfx9", "host-x86_64") and the KILN_BUNDLE_CODE_ flags of a code. Errors:
/// TARGET, UNSUPPORTED (a format that is never in bundles).
kiln_status dictionary_family(const char *target, uint8_t format, char out[DICTIONARY_FAMILY],
                              uint32_t *out_flags, kiln_error *err);

/// The name that bundles use for a target that the user names: "x86-64-v3" for "host". Unknown names are
/// copied unchanged.
const char *bundle_target_name(const char *text, char out[KILN_TARGET_NAME]);

#endif
