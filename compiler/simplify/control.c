// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow that is known: constant branches, loops of zero or one trip, values that a loop or both
// branches only pass on.
//
// Needs nothing. Leaves unused results to DCE.
#include "compiler/simplify/simplify.h"

typedef struct flowing {
  ir_kernel *kernel;
  bool changed;
} flowing;

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
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].forward = ir_resolve(values[i]);
}

static bool constant_if(ir_op *op) {
  int64_t taken;
  if (!ir_constant_int(op->operands[0], &taken)) return false;
  ir_op *end = inline_block(op->regions[taken ? 0 : 1], op);
  forward_results(op, end->operands);
  ir_remove(op);
  return true;
}

/// A result that both branches take from outside, from the same value.
static bool common_results(ir_op *op) {
  bool changed = false;
  ir_op *ends[2] = {ir_terminator(op->regions[0]), ir_terminator(op->regions[1])};
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *v = ir_resolve(ends[0]->operands[i]);
    if (op->results[i].forward || v != ir_resolve(ends[1]->operands[i])) continue;
    op->results[i].forward = v;
    changed = true;
  }
  return changed;
}

static bool known_trips(ir_op *op) {
  int64_t lo, hi, step;
  if (!ir_constant_int(op->operands[0], &lo) || !ir_constant_int(op->operands[1], &hi)) return false;
  ir_block *body = op->regions[0];
  if (lo >= hi) {
    forward_results(op, op->operands + 3);
    ir_remove(op);
    return true;
  }
  if (!ir_constant_int(op->operands[2], &step) || step <= 0 || (uint64_t)hi - (uint64_t)lo > (uint64_t)step)
    return false;
  for (uint32_t i = 0; i < body->arg_count; i++)
    body->args[i]->forward = ir_resolve(op->operands[i ? 2 + i : 0]);
  ir_op *end = inline_block(body, op);
  forward_results(op, end->operands);
  ir_remove(op);
  return true;
}

/// A carried value that no trip changes is the initial one.
static bool unchanged_carried(ir_op *op) {
  bool changed = false;
  ir_block *body = op->regions[0];
  ir_op *end = ir_terminator(body);
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *initial = ir_resolve(op->operands[3 + i]), *next = ir_resolve(end->operands[i]),
             *arg = body->args[1 + i];
    if (arg->forward || (next != arg && next != initial)) continue;
    arg->forward = op->results[i].forward = initial;
    end->operands[i] = initial;
    changed = true;
  }
  return changed;
}

static void visit(ir_op *op, void *context) {
  flowing *f = context;
  for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
  if (op->code == IR_IF) f->changed |= constant_if(op) || common_results(op);
  if (op->code == IR_FOR) f->changed |= known_trips(op) || unchanged_carried(op);
}

bool kiln_simplify_control(ir_kernel *kernel) {
  flowing f = {.kernel = kernel};
  ir_walk(kernel->body, visit, &f);
  ir_apply_forwards(kernel);
  return f.changed;
}
