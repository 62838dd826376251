// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements mbarrier: phases that end when all arrivals and all bytes have come.
//
// The state is kept beside shared memory, by address. A phase's end releases what its arrivals and copies did
// to those whose wait succeeds.
#include <stdlib.h>

#include "base/check.h"
#include "tools/ptx/handlers.h"

static ptx_phase *find_phase(ptx_block *block, uint64_t address) {
  for (uint32_t k = 0; k < block->phase_count; k++)
    if (block->phases[k].address == address) return &block->phases[k];
  return NULL;
}

void ptx_phase_deinit(ptx_block *block) {
  for (uint32_t k = 0; k < block->phase_count; k++) {
    ptx_view_drop(block->phases[k].arriving);
    ptx_view_drop(block->phases[k].completed);
  }
  free(block->phases);
}

void ptx_wake(ptx_block *block) {
  for (uint32_t w = 0; w < block->warp_count; w++)
    for (uint32_t s = 0; s < block->warps[w].strand_count; s++) {
      ptx_strand *strand = &block->warps[w].strands[s];
      if (strand->state == STATE_WAITS && strand->barrier == PTX_AT_PHASE) strand->state = STATE_RUNS;
    }
}

void ptx_sleep(ptx_exec *x) {
  uint32_t others = x->strand->mask & ~x->mask;
  if (others) ptx_strand_add(x->warp, x->strand->pc, others);
  x->strand->mask = x->mask;
  x->strand->pc--;
  x->strand->state = STATE_WAITS;
  x->strand->barrier = PTX_AT_PHASE;
}

static void check_end(ptx_block *block, ptx_phase *p) {
  if (p->left || p->bytes) return;
  ptx_view_drop(p->completed);
  p->completed = p->arriving;
  p->arriving = NULL;
  p->left = p->count;
  p->phase++;
  ptx_wake(block);
}

void ptx_phase_bytes(ptx_run *run, ptx_block *block, uint64_t address, uint32_t size, uint32_t thread) {
  ptx_phase *p = find_phase(block, address);
  if (!p) {
    ptx_find(run, PTX_BARRIER, "bytes arrive at 0x%llx, where no mbarrier was initialised",
             (unsigned long long)address);
    return;
  }
  p->bytes -= size;
  ptx_race_release_to(run, block, thread, &p->arriving);
  check_end(block, p);
}

static void initialise(ptx_exec *x, uint32_t lane, uint64_t address, uint64_t count) {
  ptx_block *b = x->block;
  ptx_phase *p = find_phase(b, address);
  ptx_place at = ptx_locate(x, lane, SPACE_SHARED, address, 8, 8);
  if (!at.region) return;
  if (!count || count >= 1 << 20) ptx_find(x->run, PTX_BARRIER, "a count of %llu", (unsigned long long)count);
  ptx_race_write(x->run, b, ptx_thread_of(x, lane), at.region, at.offset, 8, false, NULL);
  for (uint32_t k = 0; k < 8; k++) at.region->defined[at.offset + k] = 1;
  if (!p) {
    if (b->phase_count == b->phase_capacity) {
      b->phase_capacity = b->phase_capacity ? 2 * b->phase_capacity : 16;
      b->phases = realloc(b->phases, b->phase_capacity * sizeof *b->phases);
      KILN_ASSERT(b->phases);
    }
    p = &b->phases[b->phase_count++];
    *p = (ptx_phase){.address = address};
  }
  p->count = p->left = (uint32_t)count;
  p->phase = 0;
  p->bytes = 0;
}

// The barrier at a lane's address, whose initialisation has to be ordered before this; NULL was reported.
static ptx_phase *phase_at(ptx_exec *x, uint32_t lane, uint64_t address) {
  ptx_phase *p = find_phase(x->block, address);
  if (!p) {
    ptx_find(x->run, PTX_BARRIER, "%s: no mbarrier was initialised at 0x%llx",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)address);
    return NULL;
  }
  ptx_race_read(x->run, x->block, ptx_thread_of(x, lane), &x->block->shared, address, 8, READ_STRONG);
  return p;
}

static void arrive(ptx_exec *x, uint32_t lane, ptx_phase *p, uint64_t arrivals, uint64_t bytes) {
  p->bytes += (int64_t)bytes;
  if (!arrivals) return;
  if (arrivals > p->left) {
    ptx_find(x->run, PTX_BARRIER, "%s arrives at the mbarrier 0x%llx, whose phase waits for no more",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)p->address);
    return;
  }
  p->left -= (uint32_t)arrivals;
  ptx_race_release_to(x->run, x->block, ptx_thread_of(x, lane), &p->arriving);
  check_end(x->block, p);
}

// mbarrier.try_wait.parity p, [address], parity: true when the phase of that parity has ended. A try_wait
// that fails in all lanes sleeps until some phase ends.
static void wait_parity(ptx_exec *x, bool may_sleep) {
  const ptx_operand *o = x->i->operands;
  uint64_t addresses[PTX_LANES], buffer[PTX_LANES];
  uint32_t ended = 0;
  ptx_addresses(x, &o[1], addresses);
  const uint64_t *parity = ptx_decider(x, &o[2], buffer, "the parity");
  PTX_EACH_LANE(lane, x->mask) {
    ptx_phase *p = phase_at(x, lane, addresses[lane]);
    if (!p) return;
    ended |= (uint32_t)((p->phase & 1) != (parity[lane] & 1)) << lane;
  }
  if (!ended && may_sleep) {
    ptx_sleep(x);
    return;
  }
  PTX_EACH_LANE(lane, x->mask) {
    ptx_write(x, &o[0], lane, ended >> lane & 1, true);
    if (ended >> lane & 1)
      ptx_race_acquire(x->block, ptx_thread_of(x, lane), find_phase(x->block, addresses[lane])->completed);
  }
}

// The operand that is the address, and the number after it, where there is one.
void ptx_do_mbarrier(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  uint64_t addresses[PTX_LANES], buffer[PTX_LANES];
  uint32_t at = 0;
  while (at < i->operand_count && i->operands[at].kind != OPERAND_ADDRESS) at++;
  bool is_wait = ptx_has_word(i, WORD_try_wait) || ptx_has_word(i, WORD_test_wait),
       has_number = at + 1 < i->operand_count;
  bool is_known = at < i->operand_count &&
                  (!is_wait || (ptx_has_word(i, WORD_parity) && at == 1 && has_number)) &&
                  !ptx_has_word(i, WORD_complete_tx);
  if (!is_known || (at == 1 && !is_wait && i->operands[0].kind != OPERAND_SINK)) {
    ptx_find(x->run, PTX_UNKNOWN, "this form of an mbarrier is not modelled");
    return;
  }
  if (is_wait) {
    wait_parity(x, ptx_has_word(i, WORD_try_wait));
    return;
  }
  ptx_addresses(x, &i->operands[at], addresses);
  const uint64_t *number = has_number ? ptx_decider(x, &i->operands[at + 1], buffer, "the count") : NULL;
  PTX_EACH_LANE(lane, x->mask) {
    if (ptx_has_word(i, WORD_init)) {
      initialise(x, lane, addresses[lane], number ? number[lane] : 0);
      continue;
    }
    ptx_phase *p = phase_at(x, lane, addresses[lane]);
    if (!p) return;
    bool is_bytes = ptx_has_word(i, WORD_expect_tx), is_arrival = ptx_has_word(i, WORD_arrive);
    if (is_bytes || is_arrival)
      arrive(x, lane, p, is_arrival ? (is_bytes || !number ? 1 : number[lane]) : 0,
             is_bytes && number ? number[lane] : 0);
  }
}
