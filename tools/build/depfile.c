// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Escapes names for dependency files, and refuses names that make and ninja would read differently.
#include "tools/build/depfile.h"

#include <stdint.h>
#include <string.h>

#include "tools/common/cli.h"

// Characters to which one of the two gives another meaning, however they are escaped: ninja (1.11) ends a
// name at most of these, and make reads recipes, order-only prerequisites and assignments in the others. No
// name can have line ends, and no name for ninja a tab.
static const char refused[] = "\"&'*;<>?^`|=";

// The character for which `name` cannot be written, or NULL.
static const char *find_refused(const char *name, bool is_target) {
  size_t length = strlen(name);
  if (*name == '~') return name; // somebody's home folder
  if (length &&
      strchr(is_target ? ":&)\\" : ":)\\", name[length - 1])) // with what follows, or a part of an archive
    return name + length - 1;
  for (const char *at = name; *at; at++) {
    bool is_pattern = is_target && *at == '%';
    bool hides = *at == '\\' && at[1] && strchr("#:$", at[1]); // the two count backslashes differently
    if ((uint8_t)*at < 0x20 || *at == 0x7f || strchr(refused, *at) || is_pattern || hides) return at;
  }
  return NULL;
}

kiln_status depfile_name(kiln_buffer *out, const char *name, bool is_target, kiln_error *err) {
  const char *bad = find_refused(name, is_target);
  if (bad)
    return kiln_fail(
        err, KILN_STATUS_INVALID_ARGUMENT,
        "--depfile: '%s' cannot be named in a dependency file for make and ninja: character %zu is 0x%02x",
        cli_name(name), (size_t)(bad - name) + 1, (unsigned)(uint8_t)*bad);
  for (const char *at = name; *at; at++) {
    // Backslashes are themselves, but those right before a space count double.
    if (*at == '\\' && at[strspn(at, "\\")] == ' ') kiln_buffer_u8(out, '\\');
    if (strchr(" #:", *at)) kiln_buffer_u8(out, '\\');
    if (*at == '$') kiln_buffer_u8(out, '$');
    kiln_buffer_u8(out, (uint8_t)*at);
  }
  return KILN_OK;
}
