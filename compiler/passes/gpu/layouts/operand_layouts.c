// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layouts in which operations take their operands (ir_op.operand_layouts), once those of their results are chosen.
#include "compiler/passes/gpu/layouts/sort_network.h"

static bool is_tile(ir_type type) { return type.rank && !type.is_view && !type.slots; }

static const kiln_layout *keep(kiln_layouts *c, kiln_layout layout) {
  return kiln_arena_copy(c->arena, &layout, sizeof layout);
}

static void take(kiln_layouts *c, ir_op *op, uint32_t i, const kiln_layout *layout) {
  if (!is_tile(op->operands[i]->type)) return;
  if (!op->operand_layouts)
    op->operand_layouts = KILN_NEW_ARRAY(c->arena, const kiln_layout *, op->operand_count);
  op->operand_layouts[i] = layout;
}

static void take_all(kiln_layouts *c, ir_op *op, const kiln_layout *layout) {
  for (uint32_t i = 0; i < op->operand_count; i++) take(c, op, i, layout);
}

/// Element by element in the layout of the result.
static void take_result(kiln_layouts *c, ir_op *op) {
  if (op->results[0].layout) take_all(c, op, op->results[0].layout);
}

static void take_store(kiln_layouts *c, ir_op *op) {
  if (op->operands[0]->type.rank) take_all(c, op, keep(c, kiln_layout_of_access(c, op)));
}

static void take_fetch(kiln_layouts *c, ir_op *op) {
  take_all(c, op, &kiln_slot_layouts_of(c, op->operands[2])->writer);
}

static void take_slot_store(kiln_layouts *c, ir_op *op) {
  take_all(c, op, &kiln_slot_layouts_of(c, op->operands[0])->writer);
}

static void take_reduce(kiln_layouts *c, ir_op *op) {
  const uint32_t axis = layout_axis_mask(op->operands[0]->type, op->attrs.axis);
  take_all(c, op, keep(c, kiln_layout_of_reduction(c, op, axis)));
}

static void take_scan(kiln_layouts *c, ir_op *op) {
  take_all(c, op, keep(c, layout_sequential(op->operands[0]->type, op->attrs.axis, c->lanes, c->warps)));
}

/// Without matrix instructions the operands go through shared memory from wherever they lie.
static void take_dot(kiln_layouts *c, ir_op *op) {
  const kiln_dot_shape s = kiln_dot_shape_of(op);
  const kiln_matrix_form *f = kiln_dot_form(c, op);
  kiln_dot_layouts *l = KILN_NEW(c->arena, kiln_dot_layouts);
  if (f) *l = kiln_dot_form_layouts(c, op, &s, f);
  else
    *l = (kiln_dot_layouts){.left = kiln_layout_of_operand(c, op->operands[0]),
                            .right = kiln_layout_of_operand(c, op->operands[1]),
                            .accumulator = kiln_dot_plain_layout(c, &s)};
  kiln_notes_of(c, &op->results[0])->product = l;
  take(c, op, 0, &l->left);
  take(c, op, 1, &l->right);
  take(c, op, 2, &l->accumulator);
}

static void take_sort(kiln_layouts *c, ir_op *op) { take_all(c, op, keep(c, kiln_layout_of_sorted(c, op))); }

static void take_gather(kiln_layouts *c, ir_op *op) {
  take(c, op, 0, keep(c, kiln_layout_of_operand(c, op->operands[0])));
  take(c, op, 1, op->results[0].layout);
}

static void take_sums(kiln_layouts *c, ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (is_tile(op->operands[i]->type))
      take(c, op, i, keep(c, kiln_layout_of_accumulator(c, op->operands[i]->type)));
}

static void take_mma(kiln_layouts *c, ir_op *op) {
  const kiln_mma_split split = kiln_mma_split_of(c, op->operands[0]->type);
  take(c, op, 0, keep(c, kiln_layout_of_accumulator(c, op->operands[0]->type)));
  if (is_tile(op->operands[2]->type))
    take(c, op, 2, keep(c, kiln_layout_of_mma_left(c, op->operands[2]->type, &split)));
}

static void take_assert(kiln_layouts *c, ir_op *op) {
  if (op->operands[0]->type.rank) take(c, op, 0, keep(c, kiln_layout_of_operand(c, op->operands[0])));
}

/// A tile of one element, or of two that are split, becomes scalars: all threads have them.
static void take_elements(kiln_layouts *c, ir_op *op) {
  const ir_type type = op->operands[0]->type;
  if (!op->results[0].type.rank && type.rank)
    take(c, op, 0, keep(c, layout_whole(ir_log2_elements(type), c->lanes, c->warps)));
}

// ----------------------------------------------------------------------------------------- control

static void take_as(kiln_layouts *c, ir_op *op, uint32_t first, ir_value *const *likes) {
  for (uint32_t i = first; i < op->operand_count; i++) take(c, op, i, likes[i - first]->layout);
}

static void take_initials(kiln_layouts *c, ir_op *op) {
  take_as(c, op, ir_loop_bounds(op), ir_loop_args(op));
}

static void take_results_of(kiln_layouts *c, ir_op *end, uint32_t first, ir_op *outer) {
  for (uint32_t i = first; i < end->operand_count; i++) take(c, end, i, outer->results[i - first].layout);
}

static void take_yield(kiln_layouts *c, ir_op *op) {
  ir_op *outer = op->block->parent;
  if (ir_is_loop(outer)) take_as(c, op, 0, ir_loop_args(outer));
  else if (outer->code == IR_IF) take_results_of(c, op, 0, outer);
}

static void take_cond(kiln_layouts *c, ir_op *op) { take_results_of(c, op, 1, op->block->parent); }

static void take_operands(ir_op *op, void *context) {
  static void (*const takers[IR_OPCODE_COUNT])(kiln_layouts *, ir_op *) = {
      [IR_LOAD] = take_result,
      [IR_STORE] = take_store,
      [IR_ATOMIC] = take_result,
      [IR_CAS] = take_result,
      [IR_ASM] = take_result,
      [IR_REDUCE] = take_reduce,
      [IR_SCAN] = take_scan,
      [IR_DOT] = take_dot,
      [IR_SORT] = take_sort,
      [IR_GATHER] = take_gather,
      [IR_ASSERT] = take_assert,
      [IR_EXPAND] = take_elements,
      [IR_BROADCAST] = take_elements,
      [IR_RESHAPE] = take_elements,
      [IR_TRANS] = take_elements,
      [IR_JOIN] = take_elements,
      [IR_SPLIT] = take_elements,
      [IR_FOR] = take_initials,
      [IR_WHILE] = take_initials,
      [IR_YIELD] = take_yield,
      [IR_COND] = take_cond,
      [IR_MMA] = take_mma,
      [IR_MMA_WAIT] = take_sums,
      [IR_CLUSTER_SUM] = take_sums,
      [IR_CLUSTER_SCATTER] = take_sums,
      [IR_STAGE] = take_sums,
      [IR_PUT] = take_sums,
      [IR_FETCH] = take_fetch,
      [IR_SLOT_STORE] = take_slot_store,
  };
  op->operand_layouts = NULL;
  if (takers[op->code]) takers[op->code](context, op);
  else if (ir_has(op->code, IR_EACH)) take_result(context, op);
}

void kiln_layouts_choose_operand_layouts(kiln_layouts *c) { ir_walk(c->kernel->body, take_operands, c); }

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
