// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Assigns each code to the family that shares a compression dictionary.
#include "tools/bundle/dictionary_family.h"

#include <stdio.h>

#include "base/bundle_format.h"
#include "base/record.h"

/// The part of a processor's name that is in the name of its dictionary, after the prefix.
typedef enum suffix { SUFFIX_NONE, SUFFIX_MAJOR, SUFFIX_ARCH } suffix;

typedef struct format_row {
  const char *prefix;
  suffix suffix;
  uint32_t flags;
} format_row;

static const format_row formats[] = {
    [KILN_FORMAT_PTX] = {"ptx", SUFFIX_NONE, KILN_BUNDLE_CODE_PTX},
    [KILN_FORMAT_CUBIN] = {"cubin", SUFFIX_NONE, 0},
    [KILN_FORMAT_HSACO] = {"gfx", SUFFIX_MAJOR, 0},
    [KILN_FORMAT_HOST] = {"host-", SUFFIX_ARCH, KILN_BUNDLE_CODE_HOST},
};

kiln_status dictionary_family(const char *target, uint8_t format, char out[DICTIONARY_FAMILY],
                              uint32_t *out_flags, kiln_error *err) {
  kiln_target parsed;
  *out_flags = 0;
  if (format >= sizeof formats / sizeof *formats || !formats[format].prefix)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "code of format %u for %s cannot be in a bundle", format,
                     target);
  const format_row *row = &formats[format];
  KILN_TRY(kiln_target_parse(target, &parsed, err));
  const kiln_processor *p = parsed.processor;
  const kiln_family_info *family = kiln_family_of(p->family);
  if (format != family->plain && format != family->assembled)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "code of format %u is marked as made for %s", format,
                     target);
  *out_flags = row->flags;
  const char *arch = kiln_host_processor_of(p)->arch;
  switch (row->suffix) {
  case SUFFIX_NONE: snprintf(out, DICTIONARY_FAMILY, "%s", row->prefix); break;
  case SUFFIX_MAJOR: snprintf(out, DICTIONARY_FAMILY, "%s%u", row->prefix, (unsigned)p->major); break;
  case SUFFIX_ARCH: snprintf(out, DICTIONARY_FAMILY, "%s%s", row->prefix, arch[0] ? arch : "native"); break;
  }
  return KILN_OK;
}

const char *bundle_target_name(const char *text, char out[KILN_TARGET_NAME]) {
  kiln_target target;
  if (kiln_target_parse(text, &target, NULL) == KILN_OK) return kiln_target_name(&target, out);
  snprintf(out, KILN_TARGET_NAME, "%s", text);
  return out;
}
