// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts of a table without pointers to them. A pointer in a constant table is relocated whenever a program
// starts, which touches its page, and costs a library 24 bytes more.
#ifndef KILN_BASE_TEXTS_H
#define KILN_BASE_TEXTS_H

#include <stddef.h>
#include <string.h>

/// Text `n`, from 0, of texts that follow one another, each ended by a NUL: "first\0" "second\0".
static inline const char *kiln_text_at(const char *texts, size_t n) {
  while (n--) texts += strlen(texts) + 1;
  return texts;
}

#endif
