// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats the values of `print`.
#include "base/printed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"

int kiln_printed_width(unsigned log2) {
  int width = 1;
  for (uint64_t rest = (((uint64_t)1 << log2) - 1) / 10; rest; rest /= 10) width++;
  return width;
}

static void put_integer(kiln_buffer *out, const kiln_printed *what, uint64_t bits) {
  const bool is_wide = what->scalar == KILN_I64;
  if (what->is_pointer) kiln_buffer_format(out, "0x%" PRIx64, bits);
  else if (what->digits) kiln_buffer_format(out, "0x%0*" PRIx64, what->digits, bits);
  else if (what->is_unsigned) kiln_buffer_format(out, "%" PRIu64, bits);
  else kiln_buffer_format(out, "%" PRId64, is_wide ? (int64_t)bits : (int64_t)(int32_t)bits);
}

static void put_value(kiln_buffer *out, const kiln_printed *what, const uint8_t *at) {
  uint64_t bits = 0;
  float single;
  double value;
  memcpy(&bits, at, kiln_scalars[what->scalar].bytes);
  switch (what->scalar) {
  case KILN_F32: memcpy(&single, at, sizeof single), kiln_buffer_format(out, "%f", (double)single); break;
  case KILN_F64: memcpy(&value, at, sizeof value), kiln_buffer_format(out, "%f", value); break;
  default: put_integer(out, what, bits); break;
  }
}

static void put_index(kiln_buffer *out, const kiln_printed *what, uint64_t element) {
  unsigned below = 0;
  for (unsigned i = 0; i < what->rank; i++) below += what->log2[i];
  kiln_buffer_format(out, " idx (");
  for (unsigned i = 0; i < what->rank; i++) {
    below -= what->log2[i];
    const uint64_t index = element >> below & (((uint64_t)1 << what->log2[i]) - 1);
    kiln_buffer_format(out, "%s%*" PRIu64, i ? ", " : "", kiln_printed_width(what->log2[i]), index);
  }
  kiln_buffer_u8(out, ')');
}

void kiln_print_lines(const kiln_printed *what, const char *text, const uint32_t program_id[3],
                      const void *elements) {
  kiln_buffer out = {0};
  unsigned bits = 0;
  for (unsigned i = 0; i < what->rank; i++) bits += what->log2[i];
  for (uint64_t i = 0; i < (uint64_t)1 << bits; i++) {
    kiln_buffer_format(&out, "pid (%" PRIu32 ", %" PRIu32 ", %" PRIu32 ")", program_id[0], program_id[1],
                       program_id[2]);
    if (what->has_value) put_index(&out, what, i);
    kiln_buffer_bytes(&out, text, strlen(text));
    if (what->has_value)
      put_value(&out, what, (const uint8_t *)elements + i * kiln_scalars[what->scalar].bytes);
    kiln_buffer_u8(&out, '\n');
  }
  fwrite(out.bytes, 1, out.size, stdout);
  fflush(stdout);
  kiln_buffer_deinit(&out);
}
