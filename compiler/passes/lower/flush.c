// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `@fp(ftz)` on the host, whose mode register would take f64's denormals too and belongs to the application:
// denormal operands and results of f32 and bf16 arithmetic are replaced by zero of their sign, by operations.
// GPUs do it by the mode of the kernel, but for what they compute by other operations or pass on as it is: remainders
// and scans.
//
// Needs no views; stands before the expansion, so that what an operation is expanded to may use denormals
// inside. On the host it clears fp_flush: what follows keeps denormals.
#include "compiler/ir/scalar.h"
#include "compiler/passes/lower/expand_inner.h"
#include "compiler/passes/pass.h"

static const double least_normal = 0x1p-126;

static int64_t exponent_of(ir_type type) { return type.scalar == KILN_BF16 ? 0x7f80 : 0x7f800000; }

/// A value that holds no denormal: one that was flushed, or a constant.
static bool is_clean(const ir_value *v) {
  double d;
  int64_t mask;
  if (ir_constant_float(v, &d)) return d == 0 || d >= least_normal || d <= -least_normal;
  const ir_op *test = v->def && v->def->code == IR_SELECT ? v->def->operands[0]->def : NULL;
  const ir_op *exponent =
      test && test->code == IR_CMP && test->attrs.kind == IR_EQ ? test->operands[0]->def : NULL;
  return exponent && exponent->code == IR_AND && ir_constant_int(exponent->operands[1], &mask) &&
         mask == exponent_of(v->type);
}

/// By the bits of the exponent: where the machine takes denormals for zero, LLVM takes x == 0 ? 0 : x for x.
static ir_value *flushed(expanding *x, ir_value *v) {
  bool half = v && v->type.scalar == KILN_BF16;
  if (!v || is_clean(v) || (v->type.scalar != KILN_F32 && !half)) return v;
  ir_value *bits = x_bits(x, v, half ? KILN_I16 : KILN_I32);
  ir_value *exponent = x_opi(x, IR_AND, bits, exponent_of(v->type));
  ir_value *sign = x_bits(x, x_opi(x, IR_AND, bits, half ? 0x8000 : 0x80000000), v->type.scalar);
  return x_select(x, x_cmp(x, IR_EQ, exponent, x_int(x, exponent, 0)), sign, v);
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
  const bool by_mode =
      kiln_family_of(x->target->processor->family)->flushes && op->code != IR_REM && op->code != IR_SCAN;
  if (x->b.error.status != KILN_OK || by_mode || !kiln_scalar_flushes(op) || op->operand_count > 3 ||
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
  if (!kernel->fp_flush) return KILN_OK;
  ir_walk(kernel->body, visit, &x);
  ir_apply_forwards(kernel);
  if (x.b.error.status != KILN_OK) return kiln_fail(err, x.b.error.status, "%s", x.b.error.text);
  if (!kiln_family_of(target->processor->family)->flushes) kernel->fp_flush = false;
  return kiln_pass_simplify(kernel, context, err);
}
