// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the existing name that is closest to a misspelt one, for "did you mean" in messages.
#include "base/nearest.h"

#include <string.h>

enum { LONGEST = 40 };

kiln_nearest kiln_nearest_to(const char *want) {
  size_t length = strlen(want);
  return (kiln_nearest){.want = want, .score = 1 + (length >= 2) + (length >= 4) + (length >= 8)};
}

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

static bool is_other_letter(char a, char b) { return (a ^ b) & ~0x20; }

// Edits from `a` to `b`, none for a letter of the other case; more than LONGEST when a name is too long to be told.
static unsigned distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  unsigned rows[3][LONGEST + 1];
  if (n > LONGEST || m > LONGEST) return LONGEST + 1;
  unsigned *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= m; j++) last[j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      row[j] = least(last[j - 1] + is_other_letter(a[i - 1], b[j - 1]), least(last[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], before[j - 2] + 1);
    }
    unsigned *free = before;
    before = last, last = row, row = free;
  }
  return last[m];
}

bool kiln_same_digits(const char *a, const char *b) {
  static const char digits[] = "0123456789";
  for (;; a++, b++) {
    a += strcspn(a, digits);
    b += strcspn(b, digits);
    if (*a != *b) return false;
    if (!*a) return true;
  }
}

void kiln_nearest_consider(kiln_nearest *n, const char *name) {
  unsigned d = distance(n->want, name);
  if (d < n->score && d < strlen(name) && strcmp(n->want, name)) n->score = d, n->best = name;
}
