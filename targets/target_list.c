// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads lists of processors, by which a config of a kernel names those that it is for.
//
//   list = item { "," item }        item = processor | prefix "*" | "host"
//
// Canonical: items in the order of the text, '|' between them, no spaces.
#include <string.h>

#include "targets/targets.h"

static const char blanks[] = " \t";

static bool item_has(const char *item, size_t length, const kiln_processor *p) {
  const kiln_family_info *family = kiln_family_of(p->family);
  if (family->is_listed && strlen(family->name) == length && !memcmp(item, family->name, length)) return true;
  if (item[length - 1] == '*') return !strncmp(item, p->name, length - 1);
  return strlen(p->name) == length && !memcmp(item, p->name, length);
}

static kiln_status check_prefix(const char *item, size_t length, kiln_error *err) {
  if (length > 1 && !memchr(item, '*', length - 1))
    for (size_t i = 0; i < kiln_processor_count(); i++)
      if (item_has(item, length, kiln_processor_at(i))) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_TARGET, "no target has a name like '%s'; `kiln targets` lists all", item);
}

static kiln_status check_item(const char *item, size_t length, kiln_error *err) {
  kiln_target target;
  if (!length) return kiln_fail(err, KILN_STATUS_TARGET, "expected the name of a processor, found none");
  if (item[length - 1] == '*') return check_prefix(item, length, err);
  KILN_TRY(kiln_target_parse(item, &target, err));
  if (strchr(item, ':'))
    return kiln_fail(err, KILN_STATUS_TARGET, "expected a processor without settings, found '%s'", item);
  if (target.native_cpu[0])
    return kiln_fail(err, KILN_STATUS_TARGET,
                     "'native' is another processor on each machine; 'host' stands for all hosts");
  return KILN_OK;
}

static bool is_there(const char *list, const char *item, size_t length) {
  for (const char *at = list; *at;) {
    size_t size = strcspn(at, "|");
    if (size == length && !memcmp(at, item, length)) return true;
    at += size + (at[size] == '|');
  }
  return false;
}

kiln_status kiln_target_list_parse(const char *text, char out[KILN_TARGET_LIST], kiln_error *err) {
  size_t used = 0;
  out[0] = 0;
  for (const char *at = text;;) {
    char item[KILN_TARGET_NAME];
    at += strspn(at, blanks);
    size_t whole = strcspn(at, ","), length = whole;
    while (length && strchr(blanks, at[length - 1])) length--;
    if (length >= sizeof item || used + length + 2 > KILN_TARGET_LIST)
      return kiln_fail(err, KILN_STATUS_TARGET, "the list of targets has more than %d bytes at '%.40s'",
                       length >= sizeof item ? KILN_TARGET_NAME : KILN_TARGET_LIST, at);
    memcpy(item, at, length);
    item[length] = 0;
    KILN_TRY(check_item(item, length, err));
    if (is_there(out, item, length)) return kiln_fail(err, KILN_STATUS_TARGET, "'%s' is there already", item);
    if (used) out[used++] = '|';
    memcpy(out + used, item, length + 1);
    used += length;
    if (!at[whole]) return KILN_OK;
    at += whole + 1;
  }
}

bool kiln_target_list_has(const char *list, const kiln_processor *processor) {
  for (const char *at = list; *at;) {
    size_t length = strcspn(at, "|");
    if (item_has(at, length, processor)) return true;
    at += length + (at[length] == '|');
  }
  return false;
}
