// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver's printf: `vprintf(format, values)`, where the values lie one after another in the thread's local memory, each at a
// multiple of its size, as the CUDA programming guide has it. Each thread prints its line at once.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "tools/ptx/handlers.h"

enum { MOST_SPECIFIER = 32 };

/// `size` bytes at the next value; false where there is no memory.
static bool take_value(ptx_exec *x, uint32_t lane, uint64_t *at, uint32_t size, uint64_t *out) {
  *at = (*at + size - 1) & ~(uint64_t)(size - 1);
  ptx_place place = ptx_locate(x, lane, SPACE_GENERIC, *at, size, size);
  if (!place.region) return false;
  *out = 0;
  memcpy(out, place.region->bytes + place.offset, size);
  for (uint32_t i = 0; place.region->defined && i < size; i++)
    if (!place.region->defined[place.offset + i]) {
      ptx_find(x->run, PTX_UNDEFINED, "%s prints an undefined value",
               ptx_who(x->block, ptx_thread_of(x, lane)));
      return false;
    }
  *at += size;
  return true;
}

/// One value as `specifier`, which ends in its conversion, says.
static bool put_value(ptx_exec *x, uint32_t lane, kiln_buffer *out, const char *specifier, uint64_t *at) {
  const char conversion = specifier[strlen(specifier) - 1];
  const bool is_float = strchr("eEfFgGaA", conversion), is_wide = strstr(specifier, "ll") || is_float;
  uint64_t bits;
  double value;
  char text[2048], wide[MOST_SPECIFIER + 4];
  if (!strchr("diuxXeEfFgGaA", conversion)) {
    ptx_find(x->run, PTX_UNKNOWN, "vprintf: '%s' is not supported", specifier);
    return false;
  }
  if (!take_value(x, lane, at, is_wide ? 8 : 4, &bits)) return false;
  memcpy(&value, &bits, sizeof value);
  // Integers are printed as of 64 bits.
  snprintf(wide, sizeof wide, "%.*s%s%c", (int)(strcspn(specifier + 1, "ldiuxX") + 1), specifier,
           is_float ? "" : "ll", conversion);
  if (!is_wide && strchr("di", conversion)) bits = (uint64_t)(int64_t)(int32_t)bits;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (is_float) snprintf(text, sizeof text, specifier, value);
  else snprintf(text, sizeof text, wide, (unsigned long long)bits);
#pragma GCC diagnostic pop
  kiln_buffer_bytes(out, text, strlen(text));
  return true;
}

static void print_lane(ptx_exec *x, uint32_t lane, uint64_t format, uint64_t values) {
  kiln_buffer out = {0}, text = {0};
  bool is_good = true;
  do { // a format that does not end in its memory is a finding
    ptx_place at = ptx_locate(x, lane, SPACE_GENERIC, format + text.size, 1, 1);
    is_good = at.region != NULL;
    kiln_buffer_u8(&text, is_good ? at.region->bytes[at.offset] : 0);
  } while (text.bytes[text.size - 1]);
  for (const char *c = (const char *)text.bytes; *c && is_good;) {
    if (*c != '%' || c[1] == '%') {
      kiln_buffer_u8(&out, (uint8_t)*c);
      c += *c == '%' ? 2 : 1;
      continue;
    }
    char specifier[MOST_SPECIFIER] = "";
    const size_t size = 2 + strspn(c + 1, "-+ #0123456789.l");
    if (size < sizeof specifier) memcpy(specifier, c, size);
    is_good = size < sizeof specifier && put_value(x, lane, &out, specifier, &values);
    c += size;
  }
  if (is_good) fwrite(out.bytes, 1, out.size, stdout);
  kiln_buffer_deinit(&out);
  kiln_buffer_deinit(&text);
}

void ptx_do_vprintf(ptx_exec *x) {
  uint64_t formats[PTX_LANES], places[PTX_LANES];
  uint32_t defined = ~0u;
  const uint64_t *format = ptx_source(x, &x->i->operands[0], formats, &defined),
                 *values = ptx_source(x, &x->i->operands[1], places, &defined);
  if (x->mask & ~defined) {
    ptx_find(x->run, PTX_UNDEFINED, "vprintf of an undefined address");
    return;
  }
  PTX_EACH_LANE(lane, x->mask) print_lane(x, lane, format[lane], values[lane]);
}
