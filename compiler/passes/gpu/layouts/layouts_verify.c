// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code generation relies on in layouts.
#include "compiler/passes/gpu/layouts/layouts.h"

typedef struct checking {
  const kiln_layouts *choice;
  kiln_error *err;
  kiln_status status;
  bool is_exchanged; ///< products take what lies in shared memory, else also what other threads have
} checking;

/// Register bases are independent: no two registers of a thread hold the same element.
static bool registers_differ(const kiln_layout *l) {
  uint32_t set;
  for (unsigned i = 0; i < l->registers; i++)
    if (layout_solve(l->basis, i, l->basis[i], &set)) return false; // a zero basis is the empty sum
  return true;
}

static const char *fault_of(const kiln_layouts *c, const ir_value *value) {
  const kiln_layout *l = value->layout;
  if (!value->type.rank || value->type.is_view) return "has a layout and is no tile";
  if (l->bits != ir_log2_elements(value->type)) return "has a layout of another size";
  if (layout_places(l) > LAYOUT_MAX_PLACES) return "has a layout of more bits than one holds";
  for (unsigned i = layout_places(l); i < LAYOUT_MAX_PLACES; i++)
    if (l->basis[i]) return "has a layout with a basis after its last one";
  if (l->lanes != c->lanes || l->warps != c->warps) return "has the layout of another block";
  if (!layout_is_complete(l)) return "has a layout that does not reach every element";
  return registers_differ(l) ? NULL : "has a layout with an element twice in a thread";
}

static void check_value(checking *k, const ir_op *op, const ir_value *value) {
  const char *fault = value->layout ? fault_of(k->choice, value) : NULL;
  if (fault && k->status == KILN_OK)
    k->status = kiln_fail_at(k->err, KILN_STATUS_INTERNAL, ir_operation(op), "operation %u: value %u %s",
                             ir_operation(op), value->id, fault);
}

static void fail_operand(checking *k, const ir_op *op, uint32_t operand, const char *fault) {
  if (k->status == KILN_OK)
    k->status = kiln_fail_at(k->err, KILN_STATUS_INTERNAL, ir_operation(op), "operation %u: operand %u %s",
                             ir_operation(op), operand, fault);
}

/// What a loop or branch carries has a home: a variable is the same registers wherever it comes from.
static void check_carried(checking *k, const ir_op *op, const ir_value *a, const ir_value *b) {
  if (!a->type.rank || k->status != KILN_OK) return;
  if (!a->layout || !b->layout || !layout_equal(a->layout, b->layout))
    k->status = kiln_fail_at(k->err, KILN_STATUS_INTERNAL, ir_operation(op),
                             "operation %u: values %u and %u are one variable in two layouts",
                             ir_operation(op), a->id, b->id);
}

/// An operand of a product by matrix instructions that lies in a slot or, before the pass `exchange`, anywhere,
/// or such a tile in another shape.
static bool is_taken_as_it_lies(const checking *k, const ir_op *op, uint32_t i) {
  const ir_value *v = op->operands[i];
  if (op->code != IR_DOT || i > 1 || !kiln_dot_form(k->choice, op)) return false;
  while (!v->layout && v->def && v->def->operand_count == 1) v = v->def->operands[0];
  return v->layout && (!k->is_exchanged || (v->def && v->def->code == IR_SLOT_LOAD));
}

static void check_taken(ir_op *op, void *context) {
  for (uint32_t i = 0; op->operand_layouts && i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    if (kiln_is_tile(v) != (op->operand_layouts[i] != NULL))
      fail_operand(context, op, i, "has no layout to be taken in");
    if (!op->operand_layouts[i] || is_taken_as_it_lies(context, op, i)) continue;
    if (!v->layout || !layout_equal(v->layout, op->operand_layouts[i]))
      fail_operand(context, op, i, "does not lie as it is taken");
  }
}

static void check(ir_op *op, void *context) {
  checking *k = context;
  for (uint32_t i = 0; i < op->result_count; i++) check_value(k, op, &op->results[i]);
  for (uint32_t r = 0; r < op->region_count; r++)
    for (uint32_t i = 0; i < op->regions[r]->arg_count; i++) check_value(k, op, op->regions[r]->args[i]);
  for (uint32_t i = 0; op->code == IR_FOR && i < op->result_count; i++)
    check_carried(k, op, ir_loop_args(op)[i], &op->results[i]);
  for (uint32_t i = 0; op->code == IR_IF && i < op->result_count; i++)
    check_carried(k, op, &op->results[i], &op->results[i]);
}

kiln_status kiln_layouts_verify(const ir_kernel *kernel, kiln_error *err) {
  checking k = {.choice = kernel->layouts, .err = err};
  ir_walk(kernel->body, check, &k);
  return k.status;
}

kiln_status kiln_conversions_verify(const ir_kernel *kernel, bool is_exchanged, kiln_error *err) {
  checking k = {.choice = kernel->layouts, .err = err, .is_exchanged = is_exchanged};
  ir_walk(kernel->body, check, &k);
  ir_walk(kernel->body, check_taken, &k);
  return k.status;
}
