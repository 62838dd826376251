// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements mbarrier: phases that end when all arrivals and all bytes have come.
//
// The state is kept outside of shared memory, by address. A phase's end releases what its arrivals and copies did
// to those whose wait succeeds. Between blocks of a cluster that takes the scope of the cluster at both ends;
// with a narrower one only what is over when the arrival is made is ordered: reads, and writes by copies that
// were waited for. That is how memory is freed for the next copy.
#include <stdlib.h>

#include "base/check.h"
#include "tools/ptx/handlers.h"

enum { TIMEOUT_ONE_IN = 8 };

static ptx_phase *find_phase(ptx_block *block, uint64_t address) {
  for (uint32_t k = 0; k < block->phase_count; k++)
    if (block->phases[k].address == address) return &block->phases[k];
  return NULL;
}

void ptx_phase_deinit(ptx_block *block) {
  for (uint32_t k = 0; k < block->phase_count; k++) {
    for (uint32_t kind = 0; kind < ARRIVED_KINDS; kind++) {
      ptx_view_drop(block->phases[k].arriving[kind]);
      ptx_view_drop(block->phases[k].completed[kind]);
    }
    free(block->phases[k].waits);
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

static void keep_wait(ptx_phase *p, uint64_t wait, uint32_t line) {
  if (p->wait_count == p->wait_capacity) {
    p->wait_capacity = p->wait_capacity ? 2 * p->wait_capacity : 64;
    p->waits = realloc(p->waits, p->wait_capacity * sizeof *p->waits);
    KILN_ASSERT(p->waits);
  }
  p->waits[p->wait_count++] = (ptx_phase_wait){wait, line};
}

// A wait tells phases apart by one bit: the threads that waited for the phase before have to have seen its end
// before this one ends. One that comes later takes this phase for the one to come, and waits for good.
static void check_waits(ptx_run *run, ptx_block *block, ptx_phase *p) {
  for (uint32_t k = 0; k < p->wait_count && !run->is_stopped; k++) {
    bool is_ordered = false;
    for (uint32_t kind = 0; kind < ARRIVED_KINDS && !is_ordered; kind++)
      is_ordered = ptx_race_has_wait(p->arriving[kind], p->waits[k].wait);
    if (!is_ordered)
      ptx_find(
          run, PTX_BARRIER,
          "a phase of the mbarrier 0x%llx of block %u ends, and nothing orders before it the wait of thread "
          "%u (line %u) for the phase before: coming later, that thread would wait for good",
          (unsigned long long)p->address, block->number, ptx_race_waiter(p->waits[k].wait), p->waits[k].line);
  }
  p->wait_count = 0;
}

static void check_end(ptx_run *run, ptx_block *block, ptx_phase *p) {
  if (p->left || p->bytes) return;
  check_waits(run, block, p);
  for (uint32_t kind = 0; kind < ARRIVED_KINDS; kind++) {
    ptx_view_drop(p->completed[kind]);
    p->completed[kind] = p->arriving[kind];
    p->arriving[kind] = NULL;
  }
  p->left = p->count;
  p->phase++;
  ptx_wake(block);
}

void ptx_phase_bytes(ptx_run *run, const ptx_block *block, const ptx_bulk *copy) {
  ptx_phase *p = find_phase(copy->to, copy->barrier);
  if (!p) {
    ptx_find(run, PTX_BARRIER, "bytes arrive at 0x%llx of block %u, where no mbarrier was initialised",
             (unsigned long long)copy->barrier, copy->to->number);
    return;
  }
  p->bytes -= copy->size;
  ptx_race_complete(block, copy->thread, copy->issued, copy->before, &p->arriving[ARRIVED_OWN]);
  check_end(run, copy->to, p);
}

// Where a barrier is; only arrivals may be at one of another block.
static ptx_place place_of(ptx_exec *x, uint32_t lane, uint64_t address, bool may_be_remote) {
  ptx_place at = ptx_locate(x, lane, x->i->space, address, 8, 8);
  if (!at.region || (at.region->owner && (may_be_remote || at.region->owner == x->block))) return at;
  ptx_find(x->run, PTX_OUTSIDE, "%s: an mbarrier at 0x%llx, which is not in shared memory of its block",
           ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)address);
  return (ptx_place){0};
}

static void initialise(ptx_exec *x, uint32_t lane, uint64_t address, uint64_t count) {
  ptx_block *b = x->block;
  ptx_place at = place_of(x, lane, address, false);
  if (!at.region) return;
  ptx_phase *p = find_phase(b, at.offset);
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
    *p = (ptx_phase){.address = at.offset};
  }
  p->count = p->left = (uint32_t)count;
  p->phase = 0;
  p->bytes = 0;
  p->wait_count = 0;
}

// The barrier at a place, whose initialisation has to be ordered before this; NULL was reported.
static ptx_phase *phase_at(ptx_exec *x, uint32_t lane, ptx_place at) {
  if (!at.region) return NULL;
  ptx_race_read(x->run, x->block, ptx_thread_of(x, lane), at.region, at.offset, 8, READ_PHASE);
  ptx_phase *p = find_phase(at.region->owner, at.offset);
  if (!p && !x->run->is_stopped)
    ptx_find(x->run, PTX_BARRIER, "%s: no mbarrier was initialised at 0x%llx of block %u",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)at.offset,
             at.region->owner->number);
  return p;
}

bool ptx_phase_names(ptx_exec *x, uint32_t lane, ptx_place barrier) {
  return phase_at(x, lane, barrier) != NULL;
}

static void arrive(ptx_exec *x, uint32_t lane, ptx_block *owner, ptx_phase *p, uint64_t arrivals,
                   uint64_t bytes) {
  uint32_t kind = owner == x->block              ? ARRIVED_OWN
                  : x->i->scope >= SCOPE_CLUSTER ? ARRIVED_CLUSTER
                                                 : ARRIVED_NARROW;
  p->bytes += (int64_t)bytes;
  if (!arrivals) return;
  if (arrivals > p->left) {
    ptx_find(x->run, PTX_BARRIER,
             "%s arrives at the mbarrier 0x%llx of block %u, whose phase waits for no more",
             ptx_who(x->block, ptx_thread_of(x, lane)), (unsigned long long)p->address, owner->number);
    return;
  }
  p->left -= (uint32_t)arrivals;
  ptx_race_publish(x->run, x->block, ptx_thread_of(x, lane), x->i->order, &p->arriving[kind]);
  check_end(x->run, owner, p);
}

static void acquire(ptx_exec *x, uint32_t lane, const ptx_phase *p) {
  bool is_narrow = x->i->scope < SCOPE_CLUSTER;
  if (x->i->order == ORDER_RELAXED) return;
  ptx_race_acquire(x->block, ptx_thread_of(x, lane), p->completed[ARRIVED_OWN]);
  for (uint32_t kind = ARRIVED_CLUSTER; kind < ARRIVED_KINDS; kind++) {
    bool is_whole = kind == ARRIVED_CLUSTER && !is_narrow;
    ptx_view *v = is_whole ? ptx_view_hold(p->completed[kind]) : ptx_view_of_reads(p->completed[kind]);
    ptx_race_acquire(x->block, ptx_thread_of(x, lane), v);
    ptx_view_drop(v);
  }
}

// mbarrier.try_wait.parity p, [address], parity: true when the phase of that parity has ended. A try_wait
// that fails in all lanes sleeps until some phase ends, or until its time is up, which is at once now and
// then.
static void wait_parity(ptx_exec *x, bool may_sleep) {
  const ptx_operand *o = x->i->operands;
  uint64_t addresses[PTX_LANES], buffer[PTX_LANES];
  ptx_phase *phases[PTX_LANES];
  uint32_t ended = 0;
  ptx_addresses(x, &o[1], addresses);
  const uint64_t *parity = ptx_decider(x, &o[2], buffer, "the parity");
  PTX_EACH_LANE(lane, x->mask) {
    phases[lane] = phase_at(x, lane, place_of(x, lane, addresses[lane], false));
    const ptx_phase *p = phases[lane];
    if (!p) return;
    ended |= (uint32_t)((p->phase & 1) != (parity[lane] & 1)) << lane;
  }
  if (!ended && may_sleep && ptx_random(x->run) % TIMEOUT_ONE_IN) {
    ptx_sleep(x);
    return;
  }
  PTX_EACH_LANE(lane, x->mask) {
    ptx_write(x, &o[0], lane, ended >> lane & 1, true);
    if (!(ended >> lane & 1)) continue;
    keep_wait(phases[lane], ptx_race_wait(x->block, ptx_thread_of(x, lane)), x->i->line);
    acquire(x, lane, phases[lane]);
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
    ptx_place place = place_of(x, lane, addresses[lane], i->space == SPACE_CLUSTER);
    ptx_phase *p = phase_at(x, lane, place);
    if (!p) return;
    bool is_bytes = ptx_has_word(i, WORD_expect_tx), is_arrival = ptx_has_word(i, WORD_arrive);
    if (is_bytes || is_arrival)
      arrive(x, lane, place.region->owner, p, is_arrival ? (is_bytes || !number ? 1 : number[lane]) : 0,
             is_bytes && number ? number[lane] : 0);
  }
}
