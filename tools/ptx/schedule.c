// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which strand runs next and for how long, and brings lanes together where an instruction joins
// them.
#include <string.h>
#include <stdio.h>

#include "tools/ptx/handlers.h"
#include "tools/ptx/schedule.h"

enum { SLICE = 48, SPLIT_ONE_IN = 24, OUT_OF_ORDER_ONE_IN = 8, HURRY_ONE_IN = 4, BULK_ONE_IN = 64 };

ptx_strand *ptx_strand_add(ptx_warp *w, uint32_t pc, uint32_t mask) {
  ptx_strand *s = &w->strands[w->strand_count++];
  *s = (ptx_strand){.pc = pc, .mask = mask};
  return s;
}

static void remove_strand(ptx_warp *w, ptx_strand *s) { *s = w->strands[--w->strand_count]; }

static void end_warp(ptx_run *run, ptx_block *block) {
  block->live_warps--;
  for (uint32_t b = 0; b < PTX_BARRIERS && block->live_warps; b++) ptx_barrier_check(run, block, b);
  if (block->live_warps) return;
  block->has_ended = true;
  ptx_race_block_end(run, block);
  ptx_bulk_check_end(run, block);
  ptx_resizes_check_end(run, block);
}

void ptx_exit_lanes(ptx_exec *x, uint32_t lanes) {
  ptx_warp *w = x->warp;
  for (uint32_t k = 0; k < PTX_LANES; k++)
    w->groups[k] += lanes >> k & 1; // what was never committed lands too
  ptx_copies_land(x, lanes, 0);
  PTX_EACH_LANE(lane, lanes) x->block->bulk_groups[ptx_thread_of(x, lane)]++;
  ptx_bulk_wait(x, lanes, 0, false);
  w->live &= ~lanes;
  x->strand->mask &= ~lanes;
  for (uint32_t s = 0; s < w->strand_count; s++)
    if (w->strands[s].state == STATE_JOINS) w->strands[s].state = STATE_RUNS; // fewer have to come
  if (!w->live) end_warp(x->run, x->block);
  ptx_cluster_check(x->block->cluster);
}

// --------------------------------------------------------------------------------------------- joining

// The operand that names the members; NULL: all lanes of the warp that are alive.
static const ptx_operand *member_operand(const ptx_instruction *i) {
  bool is_warp_barrier = i->words[0] == WORD_warp;
  if (i->has_sync && !i->is_aligned) return &i->operands[i->operand_count - 1];
  return is_warp_barrier ? &i->operands[0] : NULL;
}

static bool may_meet(const ptx_kernel *kernel, const ptx_strand *a, const ptx_strand *b) {
  const ptx_instruction *i = &kernel->code[a->pc], *j = &kernel->code[b->pc];
  return a->pc == b->pc || (i->words[0] == WORD_warp && j->words[0] == WORD_warp);
}

// Whether the warp is sure to be whole at an instruction that takes all of it.
static bool meets(ptx_exec *x) {
  ptx_warp *w = x->warp;
  if (!x->i->loop) w->apart = 0;
  if (!w->apart || w->apart != x->i->loop) return true;
  ptx_find(x->run, PTX_BARRIER,
           "'%s' in a loop with several entries, into which lanes of the warp part at line %u: they need not "
           "meet again",
           x->i->spelling, w->apart_line);
  return false;
}

// Lanes of the strand that name the same members as its first lane; the others become a strand of their own.
static bool same_members(ptx_exec *x, uint32_t *out_members) {
  uint64_t buffer[PTX_LANES];
  const ptx_operand *o = member_operand(x->i);
  uint32_t first = (uint32_t)__builtin_ctz(x->mask), same = 0;
  *out_members = x->warp->live;
  if (!o) return meets(x);
  const uint64_t *v = ptx_decider(x, o, buffer, "the member mask");
  PTX_EACH_LANE(lane, x->mask) {
    if (!((uint32_t)v[lane] >> lane & 1)) {
      ptx_find(x->run, PTX_BARRIER, "%s is not in the member mask 0x%08x that it gives",
               ptx_who(x->block, ptx_thread_of(x, lane)), (uint32_t)v[lane]);
      return false;
    }
    same |= (uint32_t)(v[lane] == v[first]) << lane;
  }
  *out_members = (uint32_t)v[first] & x->warp->live;
  if (same != x->mask) {
    ptx_strand_add(x->warp, x->strand->pc, x->mask & ~same);
    x->strand->mask = x->mask = same;
  }
  return true;
}

// The barrier of a cluster takes each thread as it comes, unless it says otherwise.
static bool joins(const ptx_instruction *i) {
  return i->op->joins && (i->is_aligned || !ptx_has_word(i, WORD_cluster));
}

// True when all members are there: they are in x->mask then, and those of other strands have moved on unless
// they are in this one now.
static bool join_lanes(ptx_exec *x) {
  ptx_warp *w = x->warp;
  uint32_t members, there;
  if (!same_members(x, &members)) return false;
  x->strand->state = STATE_JOINS;
  x->strand->members = members;
  there = x->strand->mask;
  for (uint32_t s = 0; s < w->strand_count; s++) {
    const ptx_strand *other = &w->strands[s];
    bool joins = other != x->strand && other->state == STATE_JOINS && other->members == members;
    if (joins && may_meet(x->run->kernel, other, x->strand)) there |= other->mask;
  }
  if ((there & members) != members) return false;
  uint32_t pc = x->strand->pc, mine = x->strand->mask;
  for (uint32_t s = 0; s < w->strand_count; s++) {
    ptx_strand *other = &w->strands[s];
    if (other == x->strand || other->state != STATE_JOINS || other->members != members) continue;
    if (!may_meet(x->run->kernel, other, x->strand)) continue;
    other->state = STATE_RUNS;
    if (other->pc != pc) {
      other->pc++; // another bar.warp.sync
    } else {
      mine |= other->mask;
      other->mask = 0;
    }
  }
  x->strand->mask = mine;
  x->strand->state = STATE_RUNS;
  x->mask = there;
  return true;
}

static void remove_empty(ptx_warp *w) {
  for (uint32_t s = w->strand_count; s-- > 0;)
    if (!w->strands[s].mask) remove_strand(w, &w->strands[s]);
}

// ------------------------------------------------------------------------------------------ one instruction

/// Each bit of its result is made of one bit of each source, or of none; a last source of 32 bits says of which.
static bool moves_bits(const ptx_instruction *i) {
  static ptx_element *const all[] = {ptx_and, ptx_or,  ptx_xor, ptx_not, ptx_lop3,
                                     ptx_shl, ptx_shr, ptx_shf, ptx_prmt};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    if (i->op->element == all[k]) return true;
  return false;
}

/// The bytes of the result that are the same whatever the undefined bits of the sources are.
static uint8_t same_bytes(ptx_exec *x, uint32_t lane, const uint64_t *values, uint32_t count) {
  const ptx_instruction *i = x->i;
  const bool is_told = i->op->shape[strlen(i->op->shape) - 1] == 'u';
  const uint32_t sources = is_told ? count - 1 : count;
  const uint64_t result = i->op->element(i, values);
  uint64_t changes = 0, undefined[4] = {0};
  if (is_told && ptx_defined_bytes(x, &i->operands[count], lane) != 0xff) return 0;
  for (uint32_t k = 0; k < sources; k++)
    for (uint32_t byte = 0; byte < 8; byte++)
      if (!(ptx_defined_bytes(x, &i->operands[k + 1], lane) >> byte & 1)) undefined[k] |= 0xffull << 8 * byte;
  for (uint32_t filled = 0; filled < 1u << sources; filled++) {
    uint64_t other[4] = {0};
    for (uint32_t k = 0; k < count; k++)
      other[k] = filled >> k & 1 ? values[k] | undefined[k] : values[k] & ~undefined[k];
    changes |= result ^ i->op->element(i, other);
  }
  uint8_t defined = 0xff;
  for (uint32_t byte = 0; byte < 8; byte++)
    if (changes >> 8 * byte & 0xff) defined &= (uint8_t) ~(1u << byte);
  return defined;
}

static void run_element(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  const ptx_operand *to = &i->operands[0];
  uint64_t buffers[4][PTX_LANES], values[4] = {0};
  const uint64_t *s[4] = {0};
  uint32_t defined = ~0u, count = i->operand_count - 1;
  for (uint32_t k = 0; k < count; k++) s[k] = ptx_source(x, &i->operands[k + 1], buffers[k], &defined);
  PTX_EACH_LANE(lane, x->mask) {
    for (uint32_t k = 0; k < count; k++) values[k] = s[k][lane];
    const bool is_defined = defined >> lane & 1;
    const uint8_t parts = is_defined ? 0xff : moves_bits(i) ? same_bytes(x, lane, values, count) : 0;
    ptx_write_parts(x, to, lane, i->op->element(i, values), parts);
  }
}

// selp takes one of its sources: only that one and the predicate have to be defined.
static void run_select(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t ab[PTX_LANES], bb[PTX_LANES], pb[PTX_LANES];
  uint32_t ignored = ~0u, defined = ~0u;
  const uint64_t *a = ptx_source(x, &o[1], ab, &ignored), *b = ptx_source(x, &o[2], bb, &ignored),
                 *p = ptx_source(x, &o[3], pb, &defined);
  PTX_EACH_LANE(lane, x->mask) {
    const ptx_operand *taken = p[lane] ? &o[1] : &o[2];
    ptx_write_parts(x, &o[0], lane, p[lane] ? a[lane] : b[lane],
                    defined >> lane & 1 ? ptx_defined_bytes(x, taken, lane) : 0);
  }
}

static void run_instruction(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  if (i->op->element == ptx_selp) run_select(x);
  else if (i->carries && i->op->element) ptx_do_carry(x);
  else if (i->op->element) run_element(x);
  else i->op->handler(x);
}

// Lanes whose guard holds; an undefined guard is a finding.
static uint32_t guarded(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  if (i->guard < 0) return x->mask;
  uint64_t buffer[PTX_LANES];
  ptx_operand guard = {.kind = OPERAND_REGISTER, .index = i->guard};
  const uint64_t *v = ptx_decider(x, &guard, buffer, "the guard");
  uint32_t lanes = 0;
  PTX_EACH_LANE(lane, x->mask) lanes |= (uint32_t)((v[lane] & 1) != i->guard_negated) << lane;
  return lanes;
}

// False: the strand has to wait, has ended, or became another one.
static bool step(ptx_exec *x) {
  ptx_strand *s = x->strand;
  x->i = x->run->at = &x->run->kernel->code[s->pc];
  x->mask = s->mask;
  uint32_t lanes = guarded(x);
  x->run->steps++;
  if (joins(x->i) && lanes) {
    if (lanes != s->mask) { // the others pass by
      ptx_strand_add(x->warp, s->pc + 1, s->mask & ~lanes);
      s->mask = lanes;
    }
    x->mask = lanes;
    if (!join_lanes(x)) return false;
    uint32_t own = s->mask;
    s->pc++;
    run_instruction(x);
    s->mask = own;
    remove_empty(x->warp);
    return false;
  }
  s->pc++;
  x->mask = lanes;
  if (lanes) run_instruction(x);
  if (s->state != STATE_RUNS) return false;
  if (!s->mask) remove_strand(x->warp, s);
  else return x->i->op->handler != ptx_do_bra;
  return false;
}

// --------------------------------------------------------------------------------------------- choosing

static void merge(ptx_warp *w, ptx_strand *s) {
  for (uint32_t k = w->strand_count; k-- > 0;) {
    ptx_strand *other = &w->strands[k];
    if (other == s || other->state != STATE_RUNS || other->pc != s->pc) continue;
    s->mask |= other->mask;
    ptx_strand *last = &w->strands[w->strand_count - 1];
    remove_strand(w, other);
    if (s == last) s = other;
  }
}

static bool can_run(const ptx_warp *w) {
  for (uint32_t s = 0; s < w->strand_count; s++)
    if (w->strands[s].state == STATE_RUNS) return true;
  return false;
}

// Mostly the strand that has come least far, so that strands meet again; sometimes any.
static ptx_strand *choose_strand(ptx_run *run, ptx_warp *w) {
  ptx_strand *best = NULL;
  bool is_random = ptx_random(run) % OUT_OF_ORDER_ONE_IN == 0;
  uint32_t count = 0;
  for (uint32_t k = 0; k < w->strand_count; k++) {
    ptx_strand *s = &w->strands[k];
    if (s->state != STATE_RUNS) continue;
    count++;
    if (!best || (is_random ? ptx_random(run) % count == 0 : s->pc < best->pc)) best = s;
  }
  return best;
}

static void split(ptx_run *run, ptx_warp *w, ptx_strand *s) {
  uint32_t part = s->mask & (uint32_t)ptx_random(run);
  if (!part || part == s->mask) return;
  s->mask &= ~part;
  ptx_strand_add(w, s->pc, part);
}

static void run_slice(ptx_run *run, ptx_warp *w) {
  ptx_strand *s = choose_strand(run, w);
  uint32_t length = 1 + (uint32_t)ptx_random(run) % SLICE, other_pc = UINT32_MAX;
  bool splits = ptx_random(run) % SPLIT_ONE_IN == 0;
  if (w->copy_count && ptx_random(run) % HURRY_ONE_IN == 0) ptx_copies_hurry(run, w);
  if (w->block->bulk_count && ptx_random(run) % BULK_ONE_IN == 0) ptx_bulk_land(run, w->block);
  if (splits) {
    split(run, w, s);
  } else {
    uint32_t lowest = s->mask & -s->mask;
    merge(w, s);
    for (uint32_t k = 0; k < w->strand_count; k++)
      if (w->strands[k].mask & lowest) s = &w->strands[k];
    for (uint32_t k = 0; k < w->strand_count; k++)
      if (&w->strands[k] != s && w->strands[k].pc > s->pc && w->strands[k].pc < other_pc &&
          w->strands[k].state == STATE_RUNS)
        other_pc = w->strands[k].pc;
  }
  ptx_exec x = {.run = run, .block = w->block, .warp = w, .strand = s};
  for (uint32_t n = 0; n < length && !run->is_stopped; n++) {
    if (s->pc >= run->kernel->code_count) { // the end of the text is an exit
      run->at = &run->kernel->code[run->kernel->code_count - 1];
      x.mask = s->mask;
      ptx_exit_lanes(&x, s->mask);
      remove_strand(w, s);
      return;
    }
    if (!step(&x) || s->pc == other_pc) return;
  }
}

bool ptx_block_runs(ptx_run *run, ptx_block *block) {
  uint32_t start = (uint32_t)ptx_random(run) % block->warp_count;
  for (uint32_t n = 0; n < block->warp_count; n++) {
    ptx_warp *w = &block->warps[(start + n) % block->warp_count];
    if (!can_run(w)) continue;
    run_slice(run, w);
    return true;
  }
  return ptx_bulk_land(run, block); // what lands may wake a warp
}

void ptx_block_stuck(ptx_run *run, const ptx_block *block) {
  char text[300];
  int used = 0;
  for (uint32_t w = 0; w < block->warp_count; w++)
    for (uint32_t k = 0; k < block->warps[w].strand_count; k++) {
      const ptx_strand *s = &block->warps[w].strands[k];
      bool waits = s->state == STATE_WAITS && s->barrier < PTX_BARRIERS;
      const ptx_instruction *i = &run->kernel->code[waits ? s->pc - 1 : s->pc];
      run->at = i;
      if (used < (int)sizeof text - 60)
        used += snprintf(text + used, sizeof text - (size_t)used, "; warp %u, lanes 0x%08x wait at line %u",
                         w, s->mask, i->line);
    }
  ptx_find(run, PTX_DEADLOCK, "block %u cannot go on%.*s", block->number, used, text);
}
