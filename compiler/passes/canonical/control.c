// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow that is known: constant branches, loops of zero or one trip, values that a loop or both
// branches only pass on.
//
// Needs nothing. Leaves unused results to DCE.
#include "compiler/passes/pass.h"

/// Moves what stands in `block` before `op`, without the terminator, which is returned.
static ir_op *inline_block(ir_block *block, ir_op *op) {
  ir_op *end = ir_terminator(block);
  for (ir_op *inner = block->first, *next; inner != end; inner = next) {
    next = inner->next;
    ir_move(inner, op->block, op);
  }
  return end;
}

static void forward_results(ir_op *op, ir_value *const *values) {
  for (uint32_t i = 0; i < op->result_count; i++) ir_forward(&op->results[i], ir_resolve(values[i]));
}

static bool constant_if(ir_op *op) {
  int64_t taken;
  if (!ir_constant_int(ir_if_condition(op), &taken)) return false;
  ir_op *end = inline_block(op->regions[taken ? 0 : 1], op);
  forward_results(op, end->operands);
  ir_remove(op);
  return true;
}

/// A result that both branches take from outside, from the same value.
static bool common_results(ir_op *op) {
  bool changed = false;
  const ir_op *ends[2] = {ir_if_end(op, 0), ir_if_end(op, 1)};
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *v = ir_resolve(ends[0]->operands[i]);
    if (op->results[i].forward || v != ir_resolve(ends[1]->operands[i])) continue;
    ir_forward(&op->results[i], v);
    changed = true;
  }
  return changed;
}

static bool known_trips(ir_op *op) {
  int64_t lo, hi, step;
  if (!ir_constant_int(ir_for_lower(op), &lo) || !ir_constant_int(ir_for_upper(op), &hi)) return false;
  if (lo >= hi) {
    forward_results(op, ir_loop_initials(op));
    ir_remove(op);
    return true;
  }
  if (!ir_constant_int(ir_for_step(op), &step) || step <= 0 || (uint64_t)hi - (uint64_t)lo > (uint64_t)step)
    return false;
  ir_forward(ir_for_counter(op), ir_resolve(ir_for_lower(op)));
  for (uint32_t i = 0; i < ir_carried_count(op); i++)
    ir_forward(ir_loop_args(op)[i], ir_resolve(ir_loop_initials(op)[i]));
  ir_op *end = inline_block(ir_loop_body(op), op);
  forward_results(op, end->operands);
  ir_remove(op);
  return true;
}

/// A carried value that no trip changes is the initial one.
static bool unchanged_carried(ir_op *op) {
  bool changed = false;
  ir_op *end = ir_loop_next(op);
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *initial = ir_resolve(ir_loop_initials(op)[i]), *next = ir_resolve(end->operands[i]),
             *arg = ir_loop_args(op)[i];
    if (arg->forward || (next != arg && next != initial)) continue;
    ir_forward(arg, initial);
    ir_forward(&op->results[i], initial);
    end->operands[i] = initial;
    changed = true;
  }
  return changed;
}

kiln_status kiln_pass_control(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  for (ir_op *op = ir_next(kernel->body, NULL), *after; op;
       op = op->block ? ir_next(kernel->body, op) : after) {
    after = ir_after(kernel->body, op);
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
    if (op->code == IR_IF) context->changed |= constant_if(op) || common_results(op);
    if (op->code == IR_FOR) context->changed |= known_trips(op) || unchanged_carried(op);
  }
  ir_apply_forwards(kernel);
  return KILN_OK;
}
