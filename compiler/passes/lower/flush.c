// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `@fp(ftz)` on the host, whose mode register would take f64's denormals too and belongs to the application:
// denormal operands and results of f32 and bf16 arithmetic are replaced by zero of their sign, by operations.
// GPUs do it by the mode of the kernel, but for what they compute by other operations or pass on as it is:
// remainders, scans, conversions to and from f64, and what LLVM takes for a move or a change of sign (x * 1.0, -x).
// The last only where an operation takes the result that keeps denormals: all others take them away themselves.
//
// Needs no views; stands before the expansion, so that what an operation is expanded to may use denormals
// inside. On the host it clears fp_flush: what follows keeps denormals.
#include <math.h>

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

/// f64 as bf16, by way of f32, whose denormals are zeros.
static ir_value *narrowed(expanding *x, const ir_op *op) {
  ir_value *v = op->operands[0];
  ir_value *single = flushed(x, ir_cast(&x->b, v, KILN_F32, 0, op->attrs.round));
  ir_value *half = ir_cast(&x->b, v, KILN_BF16, op->attrs.flags, op->attrs.round);
  ir_value *exponent = x_opi(x, IR_AND, x_bits(x, single, KILN_I32), exponent_of(ir_scalar_type(KILN_F32)));
  return x_select(x, x_cmp(x, IR_EQ, exponent, x_int(x, exponent, 0)), x_cast(x, single, KILN_BF16), half);
}

static ir_value *rewritten(expanding *x, const ir_op *op) {
  ir_value *operands[3];
  if (op->code == IR_CAST && op->operands[0]->type.scalar == KILN_F64 &&
      op->results[0].type.scalar == KILN_BF16)
    return narrowed(x, op);
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

static bool is_constant(const ir_value *v, double size) {
  double d;
  return ir_constant_float(v, &d) && (d == size || d == -size);
}

/// The mode of a GPU does not reach the operation, whatever its operands are. LLVM compares bits with those of a zero.
static bool is_beside_mode(const ir_op *op) {
  switch (op->code) {
  case IR_REM:
  case IR_SCAN:
  case IR_CAST: return true; // f64; i1 is a comparison
  case IR_CMP:
    return op->attrs.kind <= IR_NE && (is_constant(op->operands[0], 0) || is_constant(op->operands[1], 0));
  default: return false;
  }
}

static bool is_extreme(const ir_op *op) {
  return op && (op->code == IR_MIN || op->code == IR_MAX) && !op->region_count;
}

/// min(x, x), min(x, NaN), min(max(x, y), x).
static bool extreme_is_move(const ir_op *op) {
  for (unsigned i = 0; i < 2; i++) {
    const ir_value *v = op->operands[i], *other = op->operands[1 - i];
    const ir_op *inner = v->def;
    double d;
    if (v == other || (ir_constant_float(v, &d) && !isfinite(d))) return true;
    if (is_extreme(inner) && (inner->operands[0] == other || inner->operands[1] == other)) return true;
  }
  return false;
}

/// LLVM may take the operation for its operand or for that with the other sign, in any mode.
static bool is_move(const ir_op *op) {
  ir_value *const *v = op->operands;
  switch (op->code) {
  case IR_ADD:
  case IR_SUB: return is_constant(v[0], 0) || is_constant(v[1], 0);
  case IR_MUL: return is_constant(v[0], 1) || is_constant(v[1], 1);
  case IR_DIV: return is_constant(v[1], 1);
  case IR_FMA: return is_constant(v[2], 0) && (is_constant(v[0], 1) || is_constant(v[1], 1));
  case IR_MIN:
  case IR_MAX: return extreme_is_move(op);
  case IR_REDUCE: // the elements of an extreme may be one value
    return !v[0]->type.log2[op->attrs.axis] || op->attrs.kind == IR_COMBINE_MIN ||
           op->attrs.kind == IR_COMBINE_MAX;
  default: return false;
  }
}

kiln_status kiln_pass_flush(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_target *target = context->target;
  expanding x = {.b = {.arena = kernel->arena}, .target = target};
  if (!kernel->fp_flush) return KILN_OK;
  const bool has_mode = kiln_family_of(target->processor->family)->flushes;
  ir_number(kernel); // clears slots
  // In ir_value.slot: whether an operation that keeps denormals reads the value.
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    for (uint32_t i = 0; i < op->operand_count && !kiln_scalar_flushes(op); i++)
      op->operands[i]->slot = op->operands[i];
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (!kiln_scalar_flushes(op) || op->operand_count > 3 || op->result_count != 1) continue;
    if (has_mode && !is_beside_mode(op) && !(op->results[0].slot && is_move(op))) continue;
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
    ir_build_before(&x.b, op);
    ir_value *v = rewritten(&x, op);
    if (x.b.error.status != KILN_OK) return kiln_fail(err, x.b.error.status, "%s", x.b.error.text);
    if (!v) continue;
    ir_forward(&op->results[0], v);
    ir_remove(op);
  }
  ir_apply_forwards(kernel);
  if (!has_mode) kernel->fp_flush = false;
  return kiln_pass_simplify(kernel, context, err);
}
