// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lays the rows of a buffer into a larger block with a known pattern around them, and finds bytes of that
// pattern that a kernel changed.
#include "base/canary.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

static size_t row_bytes(const kiln_canary *c) { return c->columns * c->element; }
static size_t pitch_bytes(const kiln_canary *c) { return c->pitch * c->element; }
/// Of the buffer, with the gaps between its rows.
static size_t inner_bytes(const kiln_canary *c) {
  return c->rows ? (c->rows - 1) * pitch_bytes(c) + row_bytes(c) : 0;
}

size_t kiln_canary_bytes(const kiln_canary *c) { return c->before + inner_bytes(c) + c->after; }

/// Differs from place to place, so that what is copied from elsewhere is seen, and is never 0.
static uint8_t pattern_at(const kiln_canary *c, size_t at) {
  return c->is_read ? 0xff : (uint8_t)(0xa5 ^ (at * 7 & 0x1f));
}

void kiln_canary_write(const kiln_canary *c, const void *elements, uint8_t *block) {
  const size_t bytes = kiln_canary_bytes(c);
  KILN_ASSERT(c->element && c->pitch >= c->columns);
  for (size_t i = 0; i < bytes; i++) block[i] = pattern_at(c, i);
  for (size_t row = 0; elements && row_bytes(c) && row < c->rows; row++)
    memcpy(block + c->before + row * pitch_bytes(c), (const uint8_t *)elements + row * row_bytes(c),
           row_bytes(c));
}

void kiln_canary_read(const kiln_canary *c, const uint8_t *block, void *elements) {
  for (size_t row = 0; row_bytes(c) && row < c->rows; row++)
    memcpy((uint8_t *)elements + row * row_bytes(c), block + c->before + row * pitch_bytes(c), row_bytes(c));
}

/// Whether byte `at` of the block is the buffer's.
static bool is_inner(const kiln_canary *c, size_t at) {
  if (at < c->before || at >= c->before + inner_bytes(c)) return false;
  return (at - c->before) % pitch_bytes(c) < row_bytes(c);
}

static void describe(const kiln_canary *c, const char *name, size_t at, size_t more, char *out, size_t size) {
  char rest[48] = "";
  const size_t inner = at - c->before, end = c->before + inner_bytes(c);
  if (more) snprintf(rest, sizeof rest, ", and %zu bytes more", more);
  if (at < c->before)
    snprintf(out, size, "%s: element %zu before the first is written%s", name,
             (c->before - at - 1) / c->element + 1, rest);
  else if (at >= end)
    snprintf(out, size, "%s: element %zu after the last is written%s", name, (at - end) / c->element + 1,
             rest);
  else
    snprintf(out, size, "%s: row %zu, column %zu is written (of %zu columns in rows of %zu)%s", name,
             inner / pitch_bytes(c), inner % pitch_bytes(c) / c->element, c->columns, c->pitch, rest);
}

bool kiln_canary_holds(const kiln_canary *c, const char *name, const uint8_t *block, char *out, size_t size) {
  const size_t bytes = kiln_canary_bytes(c);
  size_t first = bytes, count = 0;
  for (size_t i = 0; i < bytes; i++) {
    if (block[i] == pattern_at(c, i) || is_inner(c, i)) continue;
    if (!count++) first = i;
  }
  if (count) describe(c, name, first, count - 1, out, size);
  return !count;
}
