// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remembers what the last launches of a kernel chose, if choosing takes long because its configs have costs
// (@cost). An entry holds those bits of the arguments that a choice depends on, and what was chosen. Readers
// take no lock: an entry whose version is odd, or changed while it was read, does not count.
#ifndef KILN_RUNTIME_CHOICE_MEMO_H
#define KILN_RUNTIME_CHOICE_MEMO_H

#include <stdatomic.h>

#include "runtime/device/device.h"

enum { KILN_MEMO_WORDS = 24, KILN_MEMO_ENTRIES = 16 };

typedef struct kiln_chosen {
  uint32_t code, grid[3]; // `code`: its index
} kiln_chosen;
enum { KILN_CHOSEN_WORDS = sizeof(kiln_chosen) / sizeof(uint32_t) };

typedef struct kiln_memo_entry {
  _Atomic uint32_t version; // 0: never written; odd: being written
  _Atomic uint32_t chosen[KILN_CHOSEN_WORDS];
  _Atomic uint64_t words[KILN_MEMO_WORDS];
} kiln_memo_entry;

struct kiln_choice_memo {
  uint32_t word_count;
  uint64_t relevant[KILN_MEMO_WORDS]; // bits of the block that a choice depends on
  kiln_memo_entry entries[KILN_MEMO_ENTRIES];
};

/// Sets the bits of `size` bytes of the block, on which a choice depends.
void kiln_memo_note(struct kiln_choice_memo *m, uint32_t offset, uint32_t size, uint64_t mask);

#endif
