// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views that loops carry, branches yield and selects choose are taken apart: base, extents and strides are
// carried one by one, and a view is put together again where the loop's body begins and after the operation.
// Afterwards every view is the result of a `view` operation.
//
// Needs view parameters taken apart. What a loop does not change, the clean-up that follows takes out of it
// again.
#include "compiler/passes/lower/views.h"

#include <string.h>

typedef struct splitting {
  ir_builder b;
  bool too_many;
} splitting;

static uint32_t part_count(ir_type type) { return type.is_view ? 1u + 2u * type.rank : 1u; }

static ir_type part_type(ir_type view, uint32_t part) {
  return part ? ir_scalar_type(KILN_I64) : ir_pointer_type(view.scalar);
}

static bool is_control(const ir_op *op) { return ir_is_loop(op) || op->code == IR_IF; }

/// The view of `parts`, at the builder's place.
static ir_value *joined(splitting *s, ir_type type, ir_value *const *parts) {
  ir_op *op = ir_emit(&s->b, IR_VIEW, NULL, parts, part_count(type), &type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

// --------------------------------------------------------------------------------------- arguments

static bool has_view(ir_value *const *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i]->type.is_view) return true;
  return false;
}

/// Adds the parts of one argument of `block`, and the view made of them to its beginning.
static void split_argument(splitting *s, ir_block *block, ir_value *old) {
  ir_value *parts[1 + 2 * IR_MAX_RANK];
  for (uint32_t i = 0; i < part_count(old->type); i++)
    parts[i] = ir_block_arg(s->b.arena, block, part_type(old->type, i));
  s->b.block = block;
  s->b.before = block->first;
  old->forward = joined(s, old->type, parts);
}

static void split_arguments(splitting *s, ir_block *block) {
  uint32_t count = block->arg_count;
  ir_value **old = block->args;
  if (!has_view(old, count)) return;
  block->args = NULL;
  block->arg_count = block->arg_capacity = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (old[i]->type.is_view) split_argument(s, block, old[i]);
    else old[i]->forward = ir_block_arg(s->b.arena, block, old[i]->type);
  }
}

// ----------------------------------------------------------------------------------------- results

/// Results lie in an array inside the operation: all move to a new one and the old ones forward to it.
static void split_results(splitting *s, ir_op *op) {
  uint32_t count = 0, to = 0;
  for (uint32_t i = 0; i < op->result_count; i++) count += part_count(op->results[i].type);
  if (count == op->result_count) return;
  if (count > IR_MAX_RESULTS) {
    s->too_many = true;
    return;
  }
  ir_value *results = KILN_NEW_ARRAY(s->b.arena, ir_value, count), *parts[1 + 2 * IR_MAX_RANK];
  s->b.block = op->block;
  s->b.before = op->next;
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *old = &op->results[i];
    for (uint32_t k = 0; k < part_count(old->type); k++, to++) {
      results[to] =
          (ir_value){.type = old->type.is_view ? part_type(old->type, k) : old->type, .def = op, .index = to};
      parts[k] = &results[to];
    }
    old->forward = old->type.is_view ? joined(s, old->type, parts) : parts[0];
  }
  op->results = results;
  op->result_count = count;
}

// ---------------------------------------------------------------------------------------- operands

/// Every view is the result of a view operation now, whose operands are its parts.
static ir_value *const *parts_of(ir_value *v) { return ir_resolve(v)->def->operands; }

/// A view that is selected is a view of selected parts.
static void split_select(splitting *s, ir_op *op) {
  ir_value *const *yes = parts_of(op->operands[1]), *const *no = parts_of(op->operands[2]);
  ir_value *parts[1 + 2 * IR_MAX_RANK];
  ir_type type = op->results[0].type;
  s->b.block = op->block;
  s->b.before = op;
  s->b.place = op->place;
  for (uint32_t i = 0; i < part_count(type); i++)
    parts[i] = yes[i] == no[i] ? yes[i] : ir_ternary(&s->b, IR_SELECT, 0, op->operands[0], yes[i], no[i]);
  op->results[0].forward = joined(s, type, parts);
  ir_remove(op);
}

static void split_operands(ir_op *op, void *context) {
  splitting *s = context;
  uint32_t count = 0, to = 0;
  if (op->code == IR_SELECT && op->results[0].type.is_view) split_select(s, op);
  if ((!is_control(op) && !ir_is_terminator(op)) || !has_view(op->operands, op->operand_count)) return;
  for (uint32_t i = 0; i < op->operand_count; i++) count += part_count(op->operands[i]->type);
  ir_value **operands = KILN_NEW_ARRAY(s->b.arena, ir_value *, count);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    ir_value *v = op->operands[i];
    uint32_t parts = part_count(v->type);
    if (v->type.is_view) memcpy(operands + to, parts_of(v), parts * sizeof *operands);
    else operands[to] = v;
    to += parts;
  }
  op->operands = operands;
  op->operand_count = count;
}

kiln_status kiln_split_views(ir_kernel *kernel, kiln_error *err) {
  splitting s = {.b = {.arena = kernel->arena}};
  for (ir_op *op = ir_next(kernel->body, NULL); op && !s.too_many; op = ir_next(kernel->body, op)) {
    if (!is_control(op)) continue;
    s.b.place = op->place;
    for (uint32_t i = 0; i < op->region_count; i++) split_arguments(&s, op->regions[i]);
    split_results(&s, op);
  }
  if (s.too_many)
    return kiln_fail(err, KILN_STATUS_LIMIT,
                     "views that a loop or branch yields are carried as base, extents and strides; these are "
                     "more than %d values",
                     IR_MAX_RESULTS);
  if (s.b.error.status != KILN_OK)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "carried views: %s", s.b.error.text);
  ir_apply_forwards(kernel);
  ir_walk(kernel->body, split_operands, &s);
  if (s.b.error.status != KILN_OK)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "selected views: %s", s.b.error.text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
