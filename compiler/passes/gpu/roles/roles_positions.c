// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all parts of the pass emit: waits and arrivals at barriers, and the step of a position in its ring.
#include "compiler/passes/gpu/roles/roles_inner.h"

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
  ir_value *flipped = ir_binary(&s->b, IR_XOR, 0, p->phase, ir_const_int(&s->b, KILN_I32, 1));
  if (ring->slots == 1) {
    p->phase = flipped;
    return;
  }
  ir_value *wraps;
  p->slot = kiln_ring_after(ring, p->slot, &s->b, &wraps);
  p->phase = ir_ternary(&s->b, IR_SELECT, 0, wraps, flipped, p->phase);
}
