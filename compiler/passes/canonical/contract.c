// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contraction: the multiply and add of the source become explicit fma, here and nowhere else, so that every
// target rounds alike.
//
//   x * y + c -> fma(x, y, c)      x * y - c -> fma(x, y, -c)      c - x * y -> fma(-x, y, c)
//
// Needs nothing. A product that is used twice is kept as it is. Of two products in one sum the left one is
// taken.
#include "compiler/passes/pass.h"

/// The product that `v` is, when it is used only here; also through a splat or broadcast it would not pay.
static ir_op *product(const ir_value *v) {
  return v->def && v->def->code == IR_MUL && v->uses == 1 ? v->def : NULL;
}

static ir_value *negated(ir_builder *b, ir_value *v) {
  return ir_binary(b, IR_SUB, 0, ir_const_like(b, v->type, -0.0), v);
}

static ir_value *contracted(ir_builder *b, const ir_op *op) {
  ir_value *left = op->operands[0], *right = op->operands[1];
  ir_op *l = product(left), *r = product(right);
  if (left == right) return NULL;
  if (op->code == IR_ADD && l) return ir_ternary(b, IR_FMA, 0, l->operands[0], l->operands[1], right);
  if (op->code == IR_ADD && r) return ir_ternary(b, IR_FMA, 0, r->operands[0], r->operands[1], left);
  if (op->code == IR_SUB && l)
    return ir_ternary(b, IR_FMA, 0, l->operands[0], l->operands[1], negated(b, right));
  if (op->code == IR_SUB && r)
    return ir_ternary(b, IR_FMA, 0, negated(b, r->operands[0]), r->operands[1], left);
  return NULL;
}

kiln_status kiln_pass_contract(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  ir_builder b = {.arena = kernel->arena};
  if (kernel->fp_strict) return KILN_OK;
  ir_count_uses(kernel);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (op->code != IR_ADD && op->code != IR_SUB) continue;
    if (ir_type_class(op->results[0].type) != KILN_CLASS_FLOAT) continue;
    for (uint32_t i = 0; i < 2; i++) op->operands[i] = ir_resolve(op->operands[i]);
    ir_build_before(&b, op);
    ir_value *fused = contracted(&b, op);
    if (!fused) continue;
    fused->uses = op->results[0].uses;
    ir_forward(&op->results[0], fused);
    ir_remove(op);
    context->changed = true;
  }
  ir_apply_forwards(kernel);
  return KILN_OK;
}
