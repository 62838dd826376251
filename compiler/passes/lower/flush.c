// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `@fp(ftz)` on the host, whose mode register would take f64's denormals too and belongs to the application:
// denormal operands and results of f32 and bf16 arithmetic are replaced by zero of their sign, by operations.
// GPUs do it by the mode of the kernel.
//
// Needs no views; stands before the expansion, so that what an operation is expanded to may use denormals
// inside. Clears fp_flush: what follows keeps denormals.
#include "compiler/ir/scalar.h"
#include "compiler/passes/lower/expand_inner.h"
#include "compiler/passes/pass.h"

static const double least_normal = 0x1p-126;

/// A value that holds no denormal: one that was flushed, or a constant.
static bool is_clean(const ir_value *v) {
  double d;
  if (ir_constant_float(v, &d)) return d == 0 || d >= least_normal || d <= -least_normal;
  const ir_op *test = v->def && v->def->code == IR_SELECT ? v->def->operands[0]->def : NULL;
  return test && test->code == IR_CMP && test->attrs.kind == IR_LT &&
         ir_constant_float(test->operands[1], &d) && d == least_normal;
}

static ir_value *flushed(expanding *x, ir_value *v) {
  bool half = v && v->type.scalar == KILN_BF16;
  if (!v || is_clean(v) || (v->type.scalar != KILN_F32 && !half)) return v;
  kiln_scalar as = half ? KILN_I16 : KILN_I32;
  ir_value *sign = x_bits(x, x_opi(x, IR_AND, x_bits(x, v, as), half ? 0x8000 : 0x80000000), v->type.scalar);
  ir_value *size = ir_unary(&x->b, IR_ABS, 0, v);
  return x_select(x, x_cmp(x, IR_LT, size, x_real(x, v, least_normal)), sign, v);
}

static ir_value *rewritten(expanding *x, const ir_op *op) {
  ir_value *operands[3];
  // bf16 arithmetic is f32 arithmetic, flushed before it is rounded; a reduction keeps its type.
  bool widened = op->operands[0]->type.scalar == KILN_BF16 && op->code != IR_REDUCE && op->code != IR_SCAN;
  bool to_half = op->results[0].type.scalar == KILN_BF16;
  ir_type type = op->results[0].type;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    ir_value *v = widened ? x_cast(x, op->operands[i], KILN_F32) : op->operands[i];
    operands[i] = flushed(x, v);
  }
  if (widened && to_half) type.scalar = KILN_F32;
  ir_op *again = ir_emit(&x->b, op->code, &op->attrs, operands, op->operand_count, &type, NULL, 0);
  ir_value *v = flushed(x, again ? &again->results[0] : NULL);
  return v && widened && to_half ? x_cast(x, v, KILN_BF16) : v;
}

static void visit(ir_op *op, void *context) {
  expanding *x = context;
  if (x->b.error.status != KILN_OK || !kiln_scalar_flushes(op) || op->operand_count > 3 ||
      op->result_count != 1)
    return;
  for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
  x->b.block = op->block;
  x->b.before = op;
  x->b.place = op->place;
  ir_value *v = rewritten(x, op);
  if (!v) return;
  ir_forward(&op->results[0], v);
  ir_remove(op);
}

kiln_status kiln_pass_flush(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_target *target = context->target;
  expanding x = {.b = {.arena = kernel->arena}, .target = target};
  if (!kernel->fp_flush || kiln_family_of(target->processor->family)->flushes) return KILN_OK;
  ir_walk(kernel->body, visit, &x);
  ir_apply_forwards(kernel);
  if (x.b.error.status != KILN_OK) return kiln_fail(err, x.b.error.status, "%s", x.b.error.text);
  kernel->fp_flush = false;
  return kiln_pass_simplify(kernel, context, err);
}
