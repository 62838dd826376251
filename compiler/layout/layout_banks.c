// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conflicts in shared memory: 32 banks of 4 bytes, at most 128 bytes a cycle.
#include <string.h>

#include "compiler/layout/layout.h"

enum { BANKS = 32, BANK_BYTES = 4, CYCLE_BYTES = BANKS * BANK_BYTES };

/// Words of one bank, distinct ones, that `count` lanes from `first` on touch: most of any bank.
static unsigned ways_of(const layout_memory *memory, const kiln_layout *layout, unsigned log2_bytes,
                        uint32_t bytes, uint32_t first, uint32_t count) {
  uint32_t words[BANKS][CYCLE_BYTES], used[BANKS] = {0}, most = 0;
  for (uint32_t lane = first; lane < first + count; lane++) {
    uint32_t offset = layout_offset(memory, layout_element(layout, lane << layout->registers)),
             start = layout_padded(memory, offset) << log2_bytes;
    for (uint32_t at = start / BANK_BYTES; at <= (start + bytes - 1) / BANK_BYTES; at++) {
      uint32_t bank = at % BANKS, seen = 0;
      while (seen < used[bank] && words[bank][seen] != at) seen++;
      if (seen == used[bank] && used[bank] < CYCLE_BYTES) words[bank][used[bank]++] = at;
    }
  }
  for (unsigned i = 0; i < BANKS; i++)
    if (used[i] > most) most = used[i];
  return most;
}

unsigned layout_bank_ways(const layout_memory *memory, const kiln_layout *layout, unsigned log2_bytes) {
  uint8_t registers[8];
  unsigned vector = layout_memory_vector(memory, layout, 4 - log2_bytes, registers), most = 1;
  uint32_t bytes = 1u << (vector + log2_bytes), lanes = 1u << layout->lanes;
  uint32_t together = bytes > BANK_BYTES ? CYCLE_BYTES / bytes : BANKS;
  for (uint32_t first = 0; first < lanes; first += together) {
    unsigned ways = ways_of(memory, layout, log2_bytes, bytes, first, together < lanes ? together : lanes);
    if (ways > most) most = ways;
  }
  return most;
}
