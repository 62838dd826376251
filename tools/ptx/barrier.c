// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs barriers: bar.sync and bar.arrive with a number and a count, bar.warp.sync.
#include <string.h>

#include "tools/ptx/handlers.h"

static void add_members(ptx_block *block, const ptx_warp *w, uint32_t lanes, uint64_t *set) {
  PTX_EACH_LANE(lane, lanes) {
    uint32_t thread = w->index * PTX_LANES + lane;
    if (thread < block->thread_count) set[thread / 64] |= 1ull << thread % 64;
  }
}

static void open_barrier(ptx_run *run, ptx_block *block, uint32_t number) {
  ptx_barrier *b = &block->barriers[number];
  ptx_race_meet(run, block, b->members);
  *b = (ptx_barrier){0};
  for (uint32_t w = 0; w < block->warp_count; w++)
    for (uint32_t s = 0; s < block->warps[w].strand_count; s++) {
      ptx_strand *strand = &block->warps[w].strands[s];
      if (strand->state == STATE_WAITS && strand->barrier == number) strand->state = STATE_RUNS;
    }
}

// Without a count a barrier waits for the warps that are alive.
void ptx_barrier_check(ptx_run *run, ptx_block *block, uint32_t number) {
  ptx_barrier *b = &block->barriers[number];
  uint32_t expected = b->expected ? b->expected : block->live_warps * PTX_LANES;
  if (b->is_open && b->arrived >= expected) open_barrier(run, block, number);
}

static void warp_sync(ptx_exec *x) {
  uint64_t members[PTX_SET_WORDS] = {0};
  add_members(x->block, x->warp, x->mask, members);
  ptx_race_meet(x->run, x->block, members);
}

// Operands: number, count. A warp arrives as a whole, whatever lanes it has left.
static void arrive(ptx_exec *x, bool waits) {
  const ptx_instruction *i = x->i;
  uint64_t nb[PTX_LANES], cb[PTX_LANES];
  uint32_t lane = (uint32_t)__builtin_ctz(x->mask);
  uint64_t number = ptx_decider(x, &i->operands[0], nb, "the barrier's number")[lane];
  uint64_t count =
      i->operand_count > 1 ? ptx_decider(x, &i->operands[1], cb, "the barrier's count")[lane] : 0;
  if (number >= PTX_BARRIERS ||
      (i->operand_count > 1 && (!count || count % PTX_LANES || count > PTX_MAX_THREADS))) {
    ptx_find(x->run, PTX_BARRIER,
             "barrier %llu with a count of %llu; numbers are 0 to 15, counts multiples of 32",
             (unsigned long long)number, (unsigned long long)count);
    return;
  }
  ptx_barrier *b = &x->block->barriers[number];
  if (b->is_open && b->expected != count) {
    ptx_find(x->run, PTX_BARRIER,
             "%s waits for %llu threads at barrier %llu, where line %u waits for %u (0: all)",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)count, (unsigned long long)number,
             b->line, b->expected);
    return;
  }
  if (!b->is_open) *b = (ptx_barrier){.is_open = true, .expected = (uint32_t)count, .line = i->line};
  b->arrived += PTX_LANES;
  uint32_t expected = b->expected ? b->expected : x->block->live_warps * PTX_LANES;
  if (b->arrived > expected) {
    ptx_find(x->run, PTX_BARRIER, "%u threads at barrier %llu, which waits for %u", b->arrived,
             (unsigned long long)number, expected);
    return;
  }
  add_members(x->block, x->warp, x->mask, b->members);
  if (waits) {
    x->strand->state = STATE_WAITS;
    x->strand->barrier = (uint32_t)number;
  }
  ptx_barrier_check(x->run, x->block, (uint32_t)number);
}

void ptx_do_bar(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  if (ptx_has_word(i, WORD_warp)) warp_sync(x);
  else if (ptx_has_word(i, WORD_cluster)) ptx_cluster_barrier(x);
  else if (ptx_has_word(i, WORD_red) || !i->operand_count)
    ptx_find(x->run, PTX_UNKNOWN, "this form of a barrier is not modelled");
  else arrive(x, !ptx_has_word(i, WORD_arrive));
}
