// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In which layout a value comes cheapest: its own, or that of what it renames.
#include "compiler/passes/gpu/layouts/layouts.h"

kiln_layout kiln_layout_default(const kiln_layouts *c, ir_type type) {
  unsigned vector = 0, threads = c->lanes + c->warps, bits = ir_log2_elements(type);
  if (bits > threads && type.rank) vector = bits - threads < 2 ? bits - threads : 2;
  if (type.rank && vector > type.log2[type.rank - 1]) vector = type.log2[type.rank - 1];
  return layout_blocked(type, type.rank ? type.rank - 1u : 0, vector, c->lanes, c->warps);
}

static bool is_renaming(const ir_value *value) {
  const ir_op *op = value->def;
  return op && (op->code == IR_EXPAND || op->code == IR_RESHAPE || op->code == IR_TRANS) &&
         op->operands[0]->type.rank && value->type.rank;
}

/// Goes down a chain of shape operations to what has a home, then back up.
bool kiln_layout_offered(const ir_value *value, kiln_layout *out) {
  enum { MOST = 32 };
  const ir_op *chain[MOST];
  unsigned count = 0;
  while (!value->layout) {
    if (!is_renaming(value) || count == MOST) return false;
    chain[count++] = value->def;
    value = value->def->operands[0];
  }
  *out = *value->layout;
  while (count) {
    kiln_layout inner = *out;
    layout_forward(chain[--count], &inner, out);
  }
  return true;
}

kiln_layout kiln_layout_of_operand(const kiln_layouts *c, const ir_value *value) {
  kiln_layout layout;
  return kiln_layout_offered(value, &layout) ? layout : kiln_layout_default(c, value->type);
}

kiln_layout kiln_layout_before(const ir_op *op, const kiln_layout *layout) {
  if (ir_has(op->code, IR_EACH)) return *layout;
  if (op->code == IR_JOIN) return layout_without(layout, 1);
  if (op->code != IR_SPLIT) return layout_backward(op, layout);
  kiln_layout out = *layout;
  out.bits++;
  out.registers++;
  for (unsigned i = LAYOUT_MAX_PLACES - 1; i; i--) out.basis[i] = layout->basis[i - 1] << 1;
  out.basis[0] = 1;
  return out;
}
