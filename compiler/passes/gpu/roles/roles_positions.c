// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The position in a ring is a pair (slot, phase), carried through loops and branches like any value.
#include <string.h>

#include "compiler/passes/gpu/roles/roles_inner.h"

void roles_advance(splitting *s, unsigned number) {
  position *p = &s->at[number];
  const kiln_ring *ring = &s->rings[number].ring;
  ir_value *flipped = ir_binary(&s->b, IR_XOR, 0, p->phase, ir_const_int(&s->b, KILN_I32, 1));
  if (ring->slots == 1) {
    p->phase = flipped;
    return;
  }
  ir_value *wraps;
  p->slot = kiln_ring_after(ring, p->slot, &s->b, &wraps);
  p->phase = ir_ternary(&s->b, IR_SELECT, 0, wraps, flipped, p->phase);
}

typedef struct noting {
  const splitting *s;
  unsigned rings; ///< a set
} noting;

static void note_ring(ir_op *op, void *context) {
  noting *n = context;
  if (op->code == IR_VIEW_LOAD && op->attrs.access.is_mapped)
    n->rings |= 1u << n->s->sites[op->attrs.access.site - 1].ring;
  if (op->code == IR_BARRIER && n->s->meets && n->s->is_producer) n->rings |= 1u << n->s->order;
  for (unsigned i = 0; op->code == IR_DOT && i < n->s->product_count; i++)
    if (n->s->products[i].dot == op && n->s->products[i].how.put) n->rings |= 1u << n->s->products[i].ring;
}

/// The rings that a block's text moves on, as a set.
static unsigned rings_within(const splitting *s, ir_block *block) {
  noting n = {.s = s};
  ir_walk(block, note_ring, &n);
  return n.rings;
}

/// The parts of the positions of a set of rings, in order; those of single slots have no slot number.
static unsigned parts_of(splitting *s, unsigned set, ir_value **out[2 * MAX_RINGS]) {
  unsigned count = 0;
  for (unsigned i = 0; i < s->ring_count; i++) {
    if (!(set >> i & 1)) continue;
    if (s->rings[i].ring.slots > 1) out[count++] = &s->at[i].slot;
    out[count++] = &s->at[i].phase;
  }
  return count;
}

static ir_value **joined(splitting *s, ir_value **from, uint32_t count, ir_value **const *more, unsigned n) {
  ir_value **out = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, count + n);
  if (count) memcpy(out, from, count * sizeof *out);
  for (unsigned i = 0; i < n; i++) out[count + i] = *more[i];
  return out;
}

static void extend_end(splitting *s, ir_block *block, ir_value **const *parts, unsigned n) {
  ir_op *end = ir_terminator(block);
  end->operands = joined(s, end->operands, end->operand_count, parts, n);
  end->operand_count += n;
}

/// `op` made anew with `operands` and more results; the regions move over.
static void remake(splitting *s, ir_op *op, ir_value **operands, uint32_t count, ir_value **const *parts,
                   unsigned n) {
  s->b.block = op->block, s->b.before = op, s->b.place = op->place;
  uint32_t regions = op->region_count;
  ir_op *made = ir_emit(&s->b, op->code, &op->attrs, operands, count, NULL, op->regions, regions);
  if (!made) return;
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].forward = &made->results[i];
  for (unsigned i = 0; i < n; i++) *parts[i] = &made->results[op->result_count + i];
  op->region_count = 0;
  ir_remove(op);
}

void roles_rewrite_for(splitting *s, ir_op *op) {
  ir_value **parts[2 * MAX_RINGS] = {NULL};
  unsigned n = parts_of(s, rings_within(s, op->regions[0]), parts);
  ir_value **operands = joined(s, op->operands, op->operand_count, parts, n);
  for (unsigned i = 0; i < n; i++)
    *parts[i] = ir_block_arg(s->kernel->arena, op->regions[0], ir_scalar_type(KILN_I32));
  roles_rewrite_block(s, op->regions[0]);
  if (!n) return;
  extend_end(s, op->regions[0], parts, n);
  remake(s, op, operands, op->operand_count + n, parts, n);
}

void roles_rewrite_if(splitting *s, ir_op *op) {
  ir_value **parts[2 * MAX_RINGS] = {NULL};
  position before[MAX_RINGS];
  unsigned n = parts_of(s, rings_within(s, op->regions[0]) | rings_within(s, op->regions[1]), parts);
  memcpy(before, s->at, sizeof before);
  for (unsigned r = 0; r < 2; r++) {
    memcpy(s->at, before, sizeof before);
    roles_rewrite_block(s, op->regions[r]);
    extend_end(s, op->regions[r], parts, n);
  }
  if (n) remake(s, op, op->operands, op->operand_count, parts, n);
}
