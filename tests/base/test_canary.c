// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the patterns around buffers (base/canary.h): every changed byte outside of a buffer is reported
// with its place, and changes inside are not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/canary.h"
#include "tests/harness.h"

static size_t draw(uint64_t *seed, size_t below) { return (size_t)(kiln_test_random(seed) >> 20) % below; }

static kiln_canary drawn(uint64_t *seed) {
  static const size_t elements[] = {1, 2, 4, 8};
  kiln_canary c = {.element = elements[draw(seed, 4)], .rows = draw(seed, 6), .columns = draw(seed, 9)};
  c.pitch = c.columns + draw(seed, 5) + !c.columns;
  c.before = draw(seed, 4) * 8, c.after = draw(seed, 4) * 8;
  c.is_read = draw(seed, 2);
  return c;
}

/// The text for a changed byte, by other arithmetic than the helper's: elements are counted one by one.
static void expected(const kiln_canary *c, size_t at, char *out, size_t size) {
  size_t begin = c->before;
  for (size_t n = 1; at < c->before; n++)
    if (at + n * c->element >= c->before) {
      snprintf(out, size, "x: element %zu before the first is written", n);
      return;
    }
  for (size_t row = 0; row < c->rows; row++)
    for (size_t column = 0; column < c->pitch; column++, begin += c->element) {
      if (row + 1 == c->rows && column == c->columns) goto behind;
      if (at < begin || at >= begin + c->element) continue;
      if (column < c->columns) *out = 0;
      else
        snprintf(out, size, "x: row %zu, column %zu is written (of %zu columns in rows of %zu)", row, column,
                 c->columns, c->pitch);
      return;
    }
behind:
  for (size_t n = 1;; n++, begin += c->element)
    if (at < begin + c->element) {
      snprintf(out, size, "x: element %zu after the last is written", n);
      return;
    }
}

TEST(canary, every_byte) {
  uint64_t seed = 1;
  for (unsigned i = 0; i < 300; i++) {
    kiln_canary c = drawn(&seed);
    const size_t bytes = kiln_canary_bytes(&c), dense = c.rows * c.columns * c.element;
    uint8_t *block = malloc(bytes + 1), *elements = malloc(dense + 1), *back = malloc(dense + 1);
    char got[200], want[200];
    for (size_t k = 0; k < dense; k++) elements[k] = (uint8_t)kiln_test_random(&seed);
    kiln_canary_write(&c, elements, block);
    CHECK(kiln_canary_holds(&c, "x", block, got, sizeof got));
    kiln_canary_read(&c, block, back);
    CHECK(!memcmp(elements, back, dense));
    for (size_t at = 0; at < bytes; at++) {
      block[at] ^= 0x10;
      *got = 0;
      bool holds = kiln_canary_holds(&c, "x", block, got, sizeof got);
      expected(&c, at, want, sizeof want);
      CHECK_TEXT(got, want);
      CHECK_INT(holds, !*want);
      block[at] ^= 0x10;
    }
    free(block), free(elements), free(back);
  }
}

/// Around what is read all bits are set, which is NaN in every float type.
TEST(canary, surroundings) {
  kiln_canary c = {
      .element = 2, .rows = 2, .columns = 1, .pitch = 2, .before = 2, .after = 2, .is_read = true};
  uint8_t block[10];
  const uint16_t elements[2] = {0x1234, 0x5678};
  CHECK_INT(kiln_canary_bytes(&c), sizeof block);
  kiln_canary_write(&c, elements, block);
  static const uint8_t want[] = {0xff, 0xff, 0x34, 0x12, 0xff, 0xff, 0x78, 0x56, 0xff, 0xff};
  CHECK(!memcmp(block, want, sizeof want));
  c.is_read = false; // an output: poisoned whole
  kiln_canary_write(&c, NULL, block);
  for (size_t i = 0; i < sizeof block; i++) CHECK(block[i] && block[i] != 0xff);
}
