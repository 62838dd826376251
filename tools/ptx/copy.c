// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs cp.async: copies that land as late as their groups allow, or at random before that.
//
// At its issue a copy is checked as a read of its source and a write of its destination, whose bytes are
// pending from then on. Moving the bytes may happen at any time after that; pending ends where the issuing
// thread waits.
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/handlers.h"

static void issue(ptx_exec *x, uint32_t lane, uint64_t to, uint64_t from, uint32_t size, uint32_t filled) {
  ptx_warp *w = x->warp;
  uint32_t thread = ptx_thread_of(x, lane);
  if (size != 4 && size != 8 && size != 16)
    ptx_find(x->run, PTX_UNKNOWN, "%u bytes; copies have 4, 8 or 16", size);
  if (filled > size)
    ptx_find(x->run, PTX_OUTSIDE, "%s reads %u bytes of a source of %u", ptx_who(x->block, thread), filled,
             size);
  if (x->run->is_stopped) return;
  ptx_place dst = ptx_locate(x, lane, SPACE_SHARED, to, size, size);
  ptx_place src = {0};
  if (dst.region && filled) src = ptx_locate(x, lane, SPACE_GLOBAL, from, filled, 1);
  if (dst.region && from % size)
    ptx_find(x->run, PTX_MISALIGNED, "%s copies %u bytes from 0x%llx", ptx_who(x->block, thread), size,
             (unsigned long long)from);
  if (x->run->is_stopped) return;
  if (filled) ptx_race_read(x->run, x->block, thread, src.region, src.offset, filled, READ_COPY);
  ptx_race_write(x->run, x->block, thread, dst.region, dst.offset, size, false, NULL);
  for (uint32_t k = 0; k < size; k++) ptx_region_shadow(dst.region, dst.offset + k)->pending = x->i->line;
  if (w->copy_count == w->copy_capacity) {
    w->copy_capacity = w->copy_capacity ? 2 * w->copy_capacity : 256;
    w->copies = realloc(w->copies, w->copy_capacity * sizeof *w->copies);
    KILN_ASSERT(w->copies);
  }
  w->copies[w->copy_count++] = (ptx_copy){.to = to,
                                          .from = from,
                                          .size = size,
                                          .filled = filled,
                                          .lane = lane,
                                          .group = w->groups[lane],
                                          .line = x->i->line};
}

static void move(ptx_run *run, ptx_warp *w, ptx_copy *c) {
  ptx_region *shared = &w->block->shared,
             *source = c->filled ? ptx_memory_find(run->memory, c->from, c->filled) : NULL;
  if (c->is_moved) return;
  c->is_moved = true;
  memset(shared->bytes + c->to, 0, c->size);
  memset(shared->defined + c->to, 1, c->size);
  if (!source) return;
  memcpy(shared->bytes + c->to, source->bytes + (c->from - source->address), c->filled);
  if (source->defined)
    memcpy(shared->defined + c->to, source->defined + (c->from - source->address), c->filled);
}

static void complete(ptx_run *run, ptx_warp *w, ptx_copy *c) {
  uint32_t thread = w->index * PTX_LANES + c->lane;
  ptx_region *source = c->filled ? ptx_memory_find(run->memory, c->from, c->filled) : NULL;
  move(run, w, c);
  for (uint32_t k = 0; k < c->size; k++) ptx_region_shadow(&w->block->shared, c->to + k)->pending = 0;
  if (source) ptx_race_read(run, w->block, thread, source, c->from - source->address, c->filled, READ_COPY);
  ptx_race_write(run, w->block, thread, &w->block->shared, c->to, c->size, false, NULL);
}

void ptx_copies_land(ptx_exec *x, uint32_t lanes, uint32_t open_groups) {
  ptx_warp *w = x->warp;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < w->copy_count; k++) {
    ptx_copy *c = &w->copies[k];
    bool is_done = lanes >> c->lane & 1 && c->group + open_groups < w->groups[c->lane];
    if (is_done) complete(x->run, w, c);
    else w->copies[kept++] = *c;
  }
  w->copy_count = kept;
}

void ptx_copies_hurry(ptx_run *run, ptx_warp *w) {
  if (w->copy_count) move(run, w, &w->copies[ptx_random(run) % w->copy_count]);
}

static void copy(ptx_exec *x) {
  const ptx_operand *o = x->i->operands;
  uint64_t to[PTX_LANES], from[PTX_LANES], sb[PTX_LANES], fb[PTX_LANES];
  if (o[0].kind != OPERAND_ADDRESS || o[1].kind != OPERAND_ADDRESS || x->i->operand_count < 3 ||
      x->i->space != SPACE_SHARED || x->i->to_space != SPACE_GLOBAL) {
    ptx_find(x->run, PTX_UNKNOWN, "this form of cp.async is not modelled");
    return;
  }
  ptx_addresses(x, &o[0], to);
  ptx_addresses(x, &o[1], from);
  const uint64_t *size = ptx_decider(x, &o[2], sb, "the size");
  const uint64_t *filled =
      x->i->operand_count > 3 ? ptx_decider(x, &o[3], fb, "the size of the source") : size;
  PTX_EACH_LANE(lane, x->mask)
  if (!x->run->is_stopped) issue(x, lane, to[lane], from[lane], (uint32_t)size[lane], (uint32_t)filled[lane]);
}

void ptx_do_cp(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  ptx_word word = i->words[1];
  if (ptx_has_word(i, WORD_bulk)) {
    ptx_do_bulk(x);
    return;
  }
  if (i->words[0] != WORD_async) ptx_find(x->run, PTX_UNKNOWN, "this form of cp is not modelled");
  else if (word == WORD_NONE) copy(x);
  else if (word == WORD_wait_group) ptx_copies_land(x, x->mask, (uint32_t)i->operands[0].immediate);
  else if (word != WORD_commit_group && word != WORD_wait_all)
    ptx_find(x->run, PTX_UNKNOWN, "this form of cp.async is not modelled");
  if (word == WORD_commit_group || word == WORD_wait_all)
    PTX_EACH_LANE(lane, x->mask) x->warp->groups[lane]++;
  if (word == WORD_wait_all) ptx_copies_land(x, x->mask, 0);
}
