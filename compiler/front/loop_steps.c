// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The step of a 'for' is above zero. Where the text does not show it, an assert before the loop does: nothing
// else would tell a loop that can never end from one that was meant.
//
// Needs a built kernel; numbers it, and adds operations where a step may be zero or less. A loop that an
// assert of its step stands before is left alone, so that printed kernels read back as they are.
#include "compiler/analysis/facts.h"
#include "compiler/front/native.h"

static bool is_zero(const ir_value *v) {
  int64_t n;
  return ir_constant_int(v, &n) && n == 0;
}

// step > 0, or 0 < step.
static bool says_positive(const ir_value *claim, const ir_value *step) {
  const ir_op *op = claim->def;
  if (!op || op->code != IR_CMP || op->attrs.flags & IR_UNSIGNED) return false;
  return (op->attrs.kind == IR_GT && op->operands[0] == step && is_zero(op->operands[1])) ||
         (op->attrs.kind == IR_LT && op->operands[1] == step && is_zero(op->operands[0]));
}

static bool is_asserted(const ir_op *loop) {
  for (const ir_op *op = loop->prev; op; op = op->prev)
    if (op->code == IR_ASSERT && says_positive(op->operands[0], ir_for_step(loop))) return true;
  return false;
}

void kiln_native_guard_steps(ir_kernel *kernel) {
  kiln_facts *facts = NULL; // of the kernel as it was built, once a loop needs them
  for (ir_op *loop = ir_next(kernel->body, NULL); loop; loop = ir_next(kernel->body, loop)) {
    int64_t known;
    if (loop->code != IR_FOR || ir_constant_int(ir_for_step(loop), &known)) continue;
    ir_value *step = ir_for_step(loop);
    if (!facts) facts = kiln_facts_compute(kernel->arena, kernel);
    if (kiln_fact_of(facts, step)->lo >= 1 || is_asserted(loop)) continue;
    ir_builder b = {.arena = kernel->arena, .block = loop->block, .before = loop, .place = loop->place};
    ir_value *positive = ir_compare(&b, IR_GT, 0, step, ir_const_int(&b, (kiln_scalar)step->type.scalar, 0));
    ir_attrs attrs = {.assertion = {"step of a 'for': expected at least 1", loop->place.line}};
    ir_emit(&b, IR_ASSERT, &attrs, &positive, 1, NULL, NULL, 0);
  }
}
