// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between the parts of the expansion pass: shared state and small words for emitting integer sequences.
#ifndef KILN_COMPILER_PASSES_LOWER_EXPAND_INNER_H
#define KILN_COMPILER_PASSES_LOWER_EXPAND_INNER_H

#include "compiler/ir/ir.h"
#include "targets/targets.h"

typedef struct expanding {
  ir_builder b; // stands before the operation that is rewritten
  const kiln_target *target;
  bool changed;
} expanding;

/// What replaces the result of a cast, or NULL with the builder's error set.
ir_value *expand_cast(expanding *x, const ir_op *op);
/// What replaces a float remainder in f32 or f64.
ir_value *expand_remainder(expanding *x, const ir_op *op);
/// What replaces fma in f32 or f64 where there is no instruction.
ir_value *expand_fma(expanding *x, const ir_op *op);

/// What replaces inline PTX that kiln_asm_legality calls expanded.
ir_value *expand_asm(expanding *x, const ir_op *op);

static inline ir_value *x_int(expanding *x, ir_value *like, uint64_t bits) {
  if (!like) return NULL;
  ir_value *v = ir_const_bits(&x->b, ir_element(like->type), bits);
  return like->type.rank ? ir_splat(&x->b, v, like->type) : v;
}
static inline ir_value *x_real(expanding *x, ir_value *like, double n) {
  return like ? ir_const_like(&x->b, like->type, n) : NULL;
}
static inline ir_value *x_op(expanding *x, ir_opcode code, ir_value *a, ir_value *b) {
  return ir_binary(&x->b, code, 0, a, b);
}
static inline ir_value *x_unsigned(expanding *x, ir_opcode code, ir_value *a, ir_value *b) {
  return ir_binary(&x->b, code, IR_UNSIGNED, a, b);
}
static inline ir_value *x_select(expanding *x, ir_value *c, ir_value *a, ir_value *b) {
  return ir_ternary(&x->b, IR_SELECT, 0, c, a, b);
}
static inline ir_value *x_cmp(expanding *x, ir_predicate p, ir_value *a, ir_value *b) {
  return ir_compare(&x->b, p, 0, a, b);
}
static inline ir_value *x_bits(expanding *x, ir_value *v, kiln_scalar as) {
  return ir_bitcast(&x->b, v, ir_scalar_type(as));
}
static inline ir_value *x_cast(expanding *x, ir_value *v, kiln_scalar to) {
  return ir_cast(&x->b, v, to, 0, IR_ROUND_NEAREST);
}
static inline ir_value *x_zext(expanding *x, ir_value *v, kiln_scalar to) {
  return ir_cast(&x->b, v, to, IR_UNSIGNED, IR_ROUND_NEAREST);
}
/// x op constant, integers.
static inline ir_value *x_opi(expanding *x, ir_opcode code, ir_value *a, uint64_t n) {
  return x_unsigned(x, code, a, x_int(x, a, n));
}

#endif
