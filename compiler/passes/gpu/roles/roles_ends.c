// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the two roles do with a ring. The producer waits until a slot is empty and has the copy engine fill it; a
// consumer waits until it is full, reads it in products, and says that it is empty again. Both go round the ring slot
// by slot, each with a position of its own.
#include <string.h>

#include "compiler/passes/gpu/roles/roles_inner.h"

// ----------------------------------------------------------------------------------------- positions

void roles_before(splitting *s, ir_op *op) {
  s->b.block = op->block, s->b.before = op, s->b.place = op->place;
}

void roles_after(splitting *s, ir_op *op) {
  s->b.block = op->block, s->b.before = op->next, s->b.place = op->place;
}

void roles_emit_barrier(splitting *s, ir_opcode code, ir_value *barriers, ir_value *slot, ir_value *phase) {
  ir_value *operands[3] = {barriers, slot, phase};
  // Consumers have written what was exchanged over the slots, which producers of other blocks copy to next. Of slots
  // they only read.
  const ir_attrs attrs = {.arrive = {.is_cluster = barriers == s->taken && s->spread > 1}};
  ir_emit(&s->b, code, &attrs, operands, phase ? 3 : 2, NULL, NULL, 0);
}

void roles_emit_arrival(splitting *s, ir_value *barriers, ir_value *slot, bool by_warps) {
  ir_value *operands[2] = {barriers, slot};
  const ir_attrs attrs = {.arrive = {.blocks = s->spread > 1 ? (uint8_t)s->spread : 0,
                                     .by_warps = by_warps,
                                     .is_cluster = barriers == s->taken && s->spread > 1}};
  ir_emit(&s->b, IR_BAR_ARRIVE, &attrs, operands, 2, NULL, NULL, 0);
}

void roles_advance(splitting *s, unsigned number) {
  position *p = &s->at[number];
  const kiln_ring *ring = &s->rings[number].ring;
  ir_value *flipped = ir_binary_int(&s->b, IR_XOR, 0, p->phase, 1);
  if (ring->slots == 1) {
    p->phase = flipped;
    return;
  }
  ir_value *wraps;
  p->slot = kiln_ring_after(ring, p->slot, &s->b, &wraps);
  p->phase = ir_ternary(&s->b, IR_SELECT, 0, wraps, flipped, p->phase);
}

void roles_release(splitting *s, const site *x) {
  roles_emit_arrival(s, s->rings[x->ring].empty, x->slot, s->rings[x->ring].by_warps);
}

// --------------------------------------------------------------------------------------------- loads

static ir_value *wait_for(splitting *s, const site *x) {
  position *p = &s->at[x->ring];
  ir_value *slot = p->slot;
  roles_emit_barrier(s, IR_BAR_WAIT, s->rings[x->ring].full, p->slot, p->phase);
  roles_advance(s, x->ring);
  return slot;
}

void roles_load(splitting *s, ir_op *load, ir_op **seen) {
  site *x = &s->sites[load->attrs.access.site - 1];
  if (!s->is_producer) { // a product in the same block waits itself
    if (x->dot->block == load->block || x->loads[x->count - 1] != load) return;
    roles_after(s, load);
    x->slot = wait_for(s, x);
    return;
  }
  ir_op **loads = &seen[(load->attrs.access.site - 1) * MAX_LOADS];
  unsigned have = 0;
  while (have < x->count && loads[have]) have++;
  loads[have] = load;
  if (have + 1 != x->count) return;
  roles_ring *r = &s->rings[x->ring];
  position *p = &s->at[x->ring];
  roles_after(s, load);
  roles_emit_barrier(s, IR_BAR_WAIT, r->empty, p->slot, p->phase);
  const ir_attrs bytes = {.expect = {.bytes = r->bytes, .part = r->part}};
  ir_emit(&s->b, IR_BAR_EXPECT, &bytes, (ir_value *[]){r->full, p->slot}, 2, NULL, NULL, 0);
  for (unsigned i = 0; i < x->count; i++) {
    ir_value *operands[IR_MAX_RANK + 4];
    uint32_t count = loads[i]->operand_count;
    memcpy(operands, loads[i]->operands, count * sizeof *operands);
    operands[count++] = r->ring.memory[i];
    operands[count++] = p->slot;
    operands[count++] = r->full;
    ir_copy how = {.rows = r->rows[i], .columns = r->columns[i], .is_multicast = s->spread > r->parts[i]};
    if (s->spread > 1)
      how.parts = (uint8_t)s->spread, how.operand = r->is_left[i] ? 0 : 1, how.is_mn = r->is_mn[i];
    ir_emit(&s->b, IR_COPY, &(ir_attrs){.copy = how}, operands, count, NULL, NULL, 0);
  }
  roles_advance(s, x->ring);
}

// ------------------------------------------------------------------------------------------ products

static site *site_of(splitting *s, const ir_op *load) {
  return load && load->attrs.access.site ? &s->sites[load->attrs.access.site - 1] : NULL;
}

static ir_value *memory_of(splitting *s, const site *x, const ir_op *load) {
  return s->rings[x->ring].ring.memory[x->loads[0] == load ? 0 : 1];
}

/// The slot that a product reads; waits for it when the loads stand in the product's block.
static ir_value *slot_for(splitting *s, site *x, const ir_op *dot) {
  if (x->loads[0]->block != dot->block || x->is_held) return x->slot;
  x->is_held = true;
  return x->slot = wait_for(s, x);
}

/// After the last product that reads it.
static void release_after(splitting *s, site *x, const ir_op *dot) {
  if (x->loads[0]->block != dot->block || x->dot != dot) return;
  x->is_held = false;
  roles_release(s, x);
}

/// Writes a computed left operand where it is computed; all meet before the product. Gives its memory and
/// slot.
static void put(splitting *s, unsigned number, ir_op *turn, const ir_op *dot, ir_value *out[2]) {
  roles_ring *r = &s->rings[number];
  out[0] = r->ring.memory[0], out[1] = s->at[number].slot;
  ir_value *operands[3] = {out[0], out[1], turn->operands[0]};
  roles_before(s, turn);
  ir_emit(&s->b, IR_PUT, NULL, operands, 3, NULL, NULL, 0);
  roles_before(s, (ir_op *)dot);
  ir_emit(&s->b, IR_BARRIER, NULL, NULL, 0, NULL, NULL, 0);
  roles_advance(s, number);
}

void roles_consume(splitting *s, ir_op *dot) {
  unsigned number = 0;
  while (number < s->product_count && s->products[number].dot != dot) number++;
  if (number == s->product_count) return;
  kiln_product p = s->products[number].how;
  site *left = site_of(s, p.left), *right = site_of(s, p.right);
  ir_value *operands[6];
  uint32_t count = 0;
  const ir_mma how = {.precision = dot->attrs.precision,
                      .b_mn = p.right_mn,
                      .a_mn = (left || p.put) && p.left_mn,
                      .is_partial = p.is_partial,
                      .is_first = s->products[number].from_zero && !p.is_partial};
  roles_before(s, dot);
  ir_value *right_slot = slot_for(s, right, dot);
  ir_value *left_slot = !left ? NULL : left == right ? right_slot : slot_for(s, left, dot);
  operands[count++] = dot->operands[2];
  // Whether the accumulator counts: not in the first iteration of a loop where it starts from zero.
  const ir_op *loop = dot->block->parent;
  operands[count++] = how.is_first ? ir_compare(&s->b, IR_NE, 0, loop->regions[0]->args[0], loop->operands[0])
                                   : ir_const_bits(&s->b, ir_scalar_type(KILN_I1),
                                                   p.is_partial || !s->products[number].is_zero);
  operands[count++] = left ? memory_of(s, left, p.left) : dot->operands[0];
  if (left) operands[count++] = left_slot;
  if (p.put) put(s, s->products[number].ring, p.put, dot, operands + 2), count = 4;
  operands[count++] = memory_of(s, right, p.right);
  operands[count++] = right_slot;
  ir_op *made = ir_emit(&s->b, IR_MMA, &(ir_attrs){.mma = how}, operands, count, NULL, NULL, 0);
  if (!made) return;
  release_after(s, right, dot);
  if (left && left != right) release_after(s, left, dot);
  dot->results[0].forward = &made->results[0];
  ir_remove(dot);
}

void roles_stage(splitting *s, ir_op *op) {
  ir_value *operands[IR_MAX_RANK + 4];
  uint32_t count = op->operand_count - 1;
  memcpy(operands, op->operands, count * sizeof *operands);
  operands[count++] = s->staging[kiln_scalars[op->operands[0]->type.scalar].bytes == 4];
  operands[count++] = kiln_staged_value(op);
  roles_before(s, op);
  ir_view_access how = op->attrs.access;
  how.is_mapped = false, how.adds = op->code == IR_VIEW_ATOMIC;
  ir_emit(&s->b, IR_STAGE, &(ir_attrs){.access = how}, operands, count, NULL, NULL, 0);
  ir_remove(op);
}

// ---------------------------------------------------------------------------- copies after writes, in both

void roles_meet(splitting *s, ir_op *barrier) {
  if (s->is_producer) {
    roles_before(s, barrier);
    roles_emit_barrier(s, IR_BAR_WAIT, s->rings[s->order].full, s->at[s->order].slot, s->at[s->order].phase);
    roles_advance(s, s->order);
    ir_remove(barrier);
    return;
  }
  roles_after(s, barrier);
  roles_emit_arrival(s, s->rings[s->order].full, ir_const_int(&s->b, KILN_I32, 0), false);
}
