// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The consumers: products that read slots, stores through shared memory.
#include <string.h>

#include "compiler/passes/gpu/roles/roles_inner.h"

static ir_value *wait_for(splitting *s, const site *x) {
  position *p = &s->at[x->ring];
  ir_value *slot = p->slot;
  roles_emit_barrier(s, IR_BAR_WAIT, s->rings[x->ring].full, p->slot, p->phase);
  roles_advance(s, x->ring);
  return slot;
}

void roles_release(splitting *s, const site *x) {
  roles_emit_arrival(s, s->rings[x->ring].empty, x->slot, s->rings[x->ring].by_warps);
}

/// False in the first iteration of the loop that carries the accumulator, when it starts from zero there;
/// constant where the accumulator is zero each time.
static ir_value *keep_of(splitting *s, const ir_op *dot, bool *out_starts) {
  const ir_value *acc = ir_resolve(dot->operands[2]);
  uint64_t bits;
  *out_starts = false;
  if (ir_constant_bits(acc, &bits) && !bits) return ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 0);
  const ir_op *loop = acc->def ? NULL : acc->block->parent;
  if (!loop || loop->code != IR_FOR || acc->block != dot->block || acc->index == 0 || acc->uses != 1 ||
      !ir_constant_bits(ir_loop_initials(loop)[acc->index - 1], &bits) || bits)
    return ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 1);
  *out_starts = true;
  return ir_compare(&s->b, IR_NE, 0, loop->regions[0]->args[0], loop->operands[0]);
}

static site *site_of(splitting *s, const ir_op *load) {
  return load && ir_is_mapped(load) ? &s->sites[load->attrs.access.site - 1] : NULL;
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
  ir_mma how = {.precision = dot->attrs.precision,
                .b_mn = p.right_mn,
                .a_mn = (left || p.put) && p.left_mn,
                .is_partial = p.is_partial};
  bool starts = false;
  roles_before(s, dot);
  ir_value *right_slot = slot_for(s, right, dot);
  ir_value *left_slot = !left ? NULL : left == right ? right_slot : slot_for(s, left, dot);
  operands[count++] = dot->operands[2];
  operands[count++] =
      p.is_partial ? ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 1) : keep_of(s, dot, &starts);
  operands[count++] = left ? memory_of(s, left, p.left) : dot->operands[0];
  if (left) operands[count++] = left_slot;
  if (p.put) put(s, s->products[number].ring, p.put, dot, operands + 2), count = 4;
  operands[count++] = memory_of(s, right, p.right);
  operands[count++] = right_slot;
  how.is_first = starts;
  ir_op *made = ir_emit(&s->b, IR_MMA, &(ir_attrs){.mma = how}, operands, count, NULL, NULL, 0);
  if (!made) return;
  release_after(s, right, dot);
  if (left && left != right) release_after(s, left, dot);
  dot->results[0].forward = &made->results[0];
  ir_remove(dot);
}

void roles_hold(splitting *s, ir_op *load) {
  site *x = &s->sites[load->attrs.access.site - 1];
  if (x->dot->block == load->block || x->loads[x->count - 1] != load) return;
  roles_after(s, load);
  x->slot = wait_for(s, x);
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
