// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the name that was probably meant: the nearest existing one, by letters changed, added, dropped or
// swapped with the next.
#ifndef KILN_BASE_NEAREST_H
#define KILN_BASE_NEAREST_H

#include <stdbool.h>

typedef struct kiln_nearest {
  const char *want; ///< borrowed
  const char *best; ///< borrowed; NULL: nothing near enough so far
  unsigned score;   ///< a name must be nearer than this
} kiln_nearest;

/// A search for what was written as `want`. Short names must be nearer than long ones.
kiln_nearest kiln_nearest_to(const char *want);
/// The first of equally near names stays.
void kiln_nearest_consider(kiln_nearest *n, const char *name);
/// Whether both have the same digits in order: if numbers distinguish processors, another number is not a
/// spelling error.
bool kiln_same_digits(const char *a, const char *b);

#endif
