// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands around a buffer that a kernel gets, so that an access outside of it is seen: the rows of the
// buffer lie in a larger block of bytes, with a pattern before them, after them and between them. Around
// what is only read stand NaNs (of integers: -1), which show in results; all of it is compared after the
// launch.
//
// For programs that run kernels and judge what they leave: kernel-check, generated-check, `kiln check-case`
// and tests. tests/python/canary.py is the same for Python.
#ifndef KILN_BASE_CANARY_H
#define KILN_BASE_CANARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A buffer of `rows` times `columns` elements in its block. Its sizes are the caller's own: they are not
/// checked for overflow.
typedef struct kiln_canary {
  size_t element;       ///< bytes
  size_t rows, columns; ///< what is the buffer's
  size_t pitch;         ///< elements from a row to the next, at least `columns`
  size_t before, after; ///< bytes around them
  bool is_read;         ///< NaNs stand around it, not the pattern
} kiln_canary;

/// Bytes of the block; the buffer begins `before` bytes into it. After the last column of the last row are
/// `after` bytes.
size_t kiln_canary_bytes(const kiln_canary *c);
/// Fills the block, the buffer with `elements`, which lie row after row without gaps; NULL: with the pattern,
/// too.
void kiln_canary_write(const kiln_canary *c, const void *elements, uint8_t *block);
/// The buffer's elements, row after row without gaps.
void kiln_canary_read(const kiln_canary *c, const uint8_t *block, void *elements);
/// Whether nothing around the buffer has changed. Else `out` says what has been written, first and how many
/// bytes: "c: row 3, column 100 is written (of 100 columns in rows of 128), and 511 bytes more".
bool kiln_canary_holds(const kiln_canary *c, const char *name, const uint8_t *block, char *out, size_t size);

#endif
