// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Estimates how fast a config will be from its compiled code, to decide which are measured first.
#include "tuner/model.h"

#include <string.h>

// What compute units of the GPUs of the last years have; older ones have less, which only moves the score.
enum { UNIT_THREADS = 2048, UNIT_REGISTERS = 65536, UNIT_SHARED = 228 << 10, UNIT_BLOCKS = 32 };

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

double kiln_model_score(const kiln_model_needs *n, uint32_t units) {
  if (!n->registers || !n->block_threads || !units || !n->blocks) return 1;
  uint64_t resident = least(UNIT_BLOCKS, UNIT_THREADS / n->block_threads);
  resident = least(resident, UNIT_REGISTERS / ((uint64_t)n->registers * n->block_threads));
  if (n->shared_bytes) resident = least(resident, UNIT_SHARED / n->shared_bytes);
  if (!resident) return 0;
  uint64_t at_once = resident * units, waves = (n->blocks + at_once - 1) / at_once;
  double occupied = (double)(resident * n->block_threads) / UNIT_THREADS,
         full = (double)n->blocks / (double)(waves * at_once);
  return (occupied < 0.5 ? 2 * occupied : 1) * full / (1 + n->spill_bytes / 64.0);
}

double kiln_model_work(const kiln_model_needs *n) {
  return (double)n->instructions * n->block_threads * (double)n->blocks;
}

// Knobs of `a` that `b` lacks or has with another value.
static unsigned missing(const char *a, const char *b) {
  unsigned count = 0;
  for (const char *at = a; *at; at += strcspn(at, ","), at += *at == ',') {
    size_t length = strcspn(at, ",");
    const char *found = b;
    while (*found && (strcspn(found, ",") != length || memcmp(found, at, length)))
      found += strcspn(found, ","), found += *found == ',';
    count += !*found;
  }
  return count;
}

unsigned kiln_model_knobs_apart(const char *a, const char *b) {
  unsigned x = missing(a, b), y = missing(b, a);
  return x > y ? x : y;
}
