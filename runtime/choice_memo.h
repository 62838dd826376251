// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remembers what the last launches of a kernel chose, if choosing takes long because its configs have costs
// (@cost). An entry holds those bits of the arguments that a choice depends on, and what was chosen. Readers
// take no lock: an entry whose version is odd, or changed while it was read, does not count.
#ifndef KILN_RUNTIME_CHOICE_MEMO_H
#define KILN_RUNTIME_CHOICE_MEMO_H

#include <stdatomic.h>
#include <string.h>

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

static inline uint64_t kiln_memo_word(const struct kiln_choice_memo *m, const uint8_t *block, uint32_t i) {
  uint64_t word;
  memcpy(&word, block + 8 * i, 8);
  return word & m->relevant[i];
}

/// The entry for arguments like these.
static inline kiln_memo_entry *kiln_memo_place(struct kiln_choice_memo *m, const uint8_t *block) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < m->word_count; i++)
    hash = (hash ^ kiln_memo_word(m, block, i)) * UINT64_C(0x9e3779b97f4a7c15); // 2^64 / golden ratio
  return &m->entries[hash >> 60];
}

static inline bool kiln_memo_find(const struct kiln_choice_memo *m, kiln_memo_entry *e, const uint8_t *block,
                                  kiln_chosen *out) {
  uint64_t differs = 0;
  uint32_t words[KILN_CHOSEN_WORDS];
  uint32_t version = atomic_load_explicit(&e->version, memory_order_acquire);
  for (uint32_t i = 0; i < m->word_count; i++)
    differs |= atomic_load_explicit(&e->words[i], memory_order_acquire) ^ kiln_memo_word(m, block, i);
  for (uint32_t i = 0; i < KILN_CHOSEN_WORDS; i++)
    words[i] = atomic_load_explicit(&e->chosen[i], memory_order_acquire);
  memcpy(out, words, sizeof *out);
  return version && !(version & 1) && !differs &&
         atomic_load_explicit(&e->version, memory_order_relaxed) == version;
}

/// Does nothing while another thread writes the entry.
static inline void kiln_memo_keep(const struct kiln_choice_memo *m, kiln_memo_entry *e, const uint8_t *block,
                                  const kiln_chosen *chosen) {
  uint32_t words[KILN_CHOSEN_WORDS], version = atomic_load_explicit(&e->version, memory_order_relaxed);
  memcpy(words, chosen, sizeof words);
  if (version & 1 || !atomic_compare_exchange_strong_explicit(&e->version, &version, version + 1,
                                                              memory_order_acq_rel, memory_order_relaxed))
    return;
  for (uint32_t i = 0; i < m->word_count; i++)
    atomic_store_explicit(&e->words[i], kiln_memo_word(m, block, i), memory_order_relaxed);
  for (uint32_t i = 0; i < KILN_CHOSEN_WORDS; i++)
    atomic_store_explicit(&e->chosen[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&e->version, version + 2 ? version + 2 : 2, memory_order_release);
}

#endif
