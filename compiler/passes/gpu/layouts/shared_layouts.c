// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slots of shared memory that threads fill: how a tile lies in one follows from who writes it, the layout of
// the fetch or the store, and who reads it, the first product that takes it from a slot_load.
#include "compiler/passes/gpu/layouts/layouts.h"

kiln_slot_layouts *kiln_slot_layouts_of(const kiln_layouts *c, const ir_value *memory) {
  kiln_layout_notes *notes = kiln_notes_of(c, memory);
  if (!notes->slots) notes->slots = KILN_NEW(c->arena, kiln_slot_layouts);
  return notes->slots;
}

void kiln_slots_are_fetched(kiln_layouts *c, const ir_op *op, const kiln_layout *layout) {
  kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[2]);
  s->writer = *layout;
  if (!s->has_reader) s->reader = *layout;
}

void kiln_slots_are_stored(kiln_layouts *c, const ir_op *op) {
  kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[0]);
  if (!kiln_layout_offered(op->operands[2], &s->writer))
    s->writer = kiln_layout_default(c, op->operands[2]->type);
  if (!s->has_reader) s->reader = s->writer;
}

void kiln_slots_are_read(kiln_layouts *c, const ir_op *dot) {
  for (unsigned i = 0; i < 2 && kiln_dot_form(c, dot); i++) {
    const ir_value *v = dot->operands[i];
    while (v->def && (v->def->code == IR_TRANS || v->def->code == IR_RESHAPE || v->def->code == IR_EXPAND))
      v = v->def->operands[0];
    if (!v->def || v->def->code != IR_SLOT_LOAD) continue;
    kiln_slot_layouts *s = kiln_slot_layouts_of(c, v->def->operands[0]);
    if (s->has_reader) continue;
    s->has_reader = true;
    s->reader = kiln_layout_of_dot_operand(c, dot, i);
    for (v = dot->operands[i]; v->def->code != IR_SLOT_LOAD; v = v->def->operands[0]) {
      kiln_layout there = layout_backward(v->def, &s->reader);
      s->reader = there;
    }
  }
}
