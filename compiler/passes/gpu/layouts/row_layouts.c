// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations along the rows of a tile: in which layout reductions take their operands, and what gathers make.
#include "compiler/passes/gpu/layouts/layouts.h"

/// Every machine bit belongs to the axis or to the rest, not both.
static bool is_separable(const kiln_layout *l, uint32_t axis) {
  for (unsigned i = 0; i < layout_places(l); i++)
    if (l->basis[i] & axis && l->basis[i] & ~axis) return false;
  return true;
}

/// Along the axis registers lie below lanes and those below warps, each kind in order.
static bool is_in_order(const kiln_layout *l, uint32_t axis) {
  uint32_t last = 0;
  for (unsigned i = 0; i < layout_places(l); i++) {
    if (!(l->basis[i] & axis)) continue;
    if (l->basis[i] <= last) return false;
    last = l->basis[i];
  }
  return true;
}

kiln_layout kiln_layout_of_reduction(const kiln_layouts *c, const ir_op *op, uint32_t axis) {
  ir_type type = op->operands[0]->type;
  kiln_layout layout;
  bool is_ordered = op->attrs.kind == IR_COMBINE_REGION;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (kiln_layout_offered(op->operands[i], &layout) && is_separable(&layout, axis) &&
        (!is_ordered || is_in_order(&layout, axis)))
      return layout;
  return is_ordered ? layout_sequential(type, op->attrs.axis, c->lanes, c->warps)
                    : kiln_layout_default(c, type);
}

kiln_layout kiln_layout_of_gather(const kiln_layouts *c, const ir_op *op) {
  kiln_layout layout;
  return kiln_layout_offered(op->operands[1], &layout) ? layout : kiln_layout_default(c, op->results[0].type);
}
