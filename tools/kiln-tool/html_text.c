// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Escapes text for HTML pages.
#include "tools/kiln-tool/html_text.h"

#include "tools/common/cli.h"

// The size of the UTF-8 character at `s`; 0 if it is invalid or a control character that HTML does not allow.
static unsigned character_size(const char *s) {
  uint32_t code;
  unsigned size = cli_utf8(s, &code);
  bool is_text = code >= 0x20 && (code < 0x7f || code >= 0xa0) && (code & 0xfffe) != 0xfffe &&
                 (code < 0xfdd0 || code > 0xfdef);
  return size && is_text ? size : 0;
}

static void put_text(kiln_buffer *out, const char *text, size_t most, const char *after_comma) {
  static const char *const entities[128] = {
      ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
  for (size_t count = 0; *text; count++) {
    if (count == most) {
      kiln_buffer_format(out, "\xe2\x80\xa6");
      return;
    }
    unsigned size = character_size(text);
    const char *entity = (uint8_t)*text < 128 ? entities[(uint8_t)*text] : NULL;
    if (!size) kiln_buffer_format(out, "\xef\xbf\xbd");
    else if (entity) kiln_buffer_format(out, "%s", entity);
    else kiln_buffer_bytes(out, text, size);
    if (*text == ',') kiln_buffer_format(out, "%s", after_comma);
    text += size ? size : 1;
  }
}

void html_text(kiln_buffer *out, const char *text, size_t most) { put_text(out, text, most, ""); }

void html_list(kiln_buffer *out, const char *text, size_t most) { put_text(out, text, most, "<wbr/>"); }
