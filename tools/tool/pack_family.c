// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/tool/pack_family.h"

#include <stdio.h>

#include "base/bundle_format.h"
#include "base/record.h"

typedef struct format_row {
  kiln_family family;
  uint32_t flags;
  const char *prefix;
} format_row;

static const format_row formats[] = {
    [KILN_FORMAT_PTX] = {KILN_FAMILY_NVPTX, KILN_BUNDLE_CODE_PTX, "ptx"},
    [KILN_FORMAT_CUBIN] = {KILN_FAMILY_NVPTX, 0, "cubin"},
    [KILN_FORMAT_HSACO] = {KILN_FAMILY_AMDGPU, 0, "gfx"},
    [KILN_FORMAT_HOST] = {KILN_FAMILY_HOST, KILN_BUNDLE_CODE_HOST, "host-"},
};

kiln_status kiln_tool_family(const char *target, uint8_t format, char out[KILN_TOOL_FAMILY],
                             uint32_t *out_flags, kiln_error *err) {
  kiln_target parsed;
  *out_flags = 0;
  if (format >= sizeof formats / sizeof *formats || !formats[format].prefix)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "code of format %u for %s cannot be in a bundle", format,
                     target);
  const format_row *row = &formats[format];
  KILN_TRY(kiln_target_parse(target, &parsed, err));
  if (parsed.processor->family != row->family)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "code of format %u is marked as made for %s", format,
                     target);
  *out_flags = row->flags;
  snprintf(out, KILN_TOOL_FAMILY, "%s", row->prefix);
  if (row->family == KILN_FAMILY_AMDGPU)
    snprintf(out, KILN_TOOL_FAMILY, "gfx%u", (unsigned)parsed.processor->major);
  if (row->family == KILN_FAMILY_HOST)
    snprintf(out, KILN_TOOL_FAMILY, "host-%s", *parsed.processor->arch ? parsed.processor->arch : "native");
  return KILN_OK;
}

const char *kiln_tool_target(const char *text, char out[KILN_TARGET_NAME]) {
  kiln_target target;
  if (kiln_target_parse(text, &target, NULL) == KILN_OK) return kiln_target_name(&target, out);
  snprintf(out, KILN_TARGET_NAME, "%s", text);
  return out;
}

bool kiln_tool_dictionary(const char *text, kiln_bundle_dictionary *out) {
  static const char *const names[] = {[KILN_BUNDLE_DICTIONARY_AUTO] = "auto",
                                      [KILN_BUNDLE_DICTIONARY_NONE] = "none",
                                      [KILN_BUNDLE_DICTIONARY_SMALL] = "small",
                                      [KILN_BUNDLE_DICTIONARY_LARGE] = "large"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(text, names[i])) return *out = (kiln_bundle_dictionary)i, true;
  return false;
}
