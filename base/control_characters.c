// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds control characters in text from outside and shows them in escaped form.
#include "base/control_characters.h"

#include <stdint.h>
#include <string.h>

size_t kiln_control_size(const char *text, size_t size) {
  const uint8_t *at = (const uint8_t *)text;
  if (!size) return 0;
  if (*at < 0x20 || *at == 0x7f) return 1;
  return size > 1 && *at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

bool kiln_is_plain(const char *text) {
  size_t left = strlen(text);
  while (left && !kiln_control_size(text, left)) text++, left--;
  return !left;
}

void kiln_show_controls(const char *text, bool is_name, char *out, size_t capacity) {
  static const char digits[] = "0123456789abcdef";
  size_t left = strlen(text);
  while (left) {
    size_t controls = !is_name && (*text == '\n' || *text == '\t') ? 0 : kiln_control_size(text, left);
    size_t whole = controls ? controls : 1;
    if (capacity <= (controls ? 4 * controls : 1)) break;
    for (size_t i = 0; i < whole; i++, text++, left--) {
      uint8_t byte = (uint8_t)*text;
      if (controls) *out++ = '\\', *out++ = 'x', *out++ = digits[byte >> 4], *out++ = digits[byte & 15];
      else *out++ = (char)byte;
      capacity -= controls ? 4 : 1;
    }
  }
  *out = 0;
}
