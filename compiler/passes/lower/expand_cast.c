// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions that a target lacks, as integer sequences. Values with 8 or 16 bits go through f32, which holds
// them exactly.
#include "compiler/passes/lower/expand_inner.h"

/// A float format narrower than f32.
typedef struct narrow_format {
  unsigned exponent, mantissa; // bits
  bool infinity;               // e4m3 has none
} narrow_format;

static narrow_format format_of(kiln_scalar scalar) {
  switch (scalar) {
  case KILN_E4M3: return (narrow_format){4, 3, false};
  case KILN_E5M2: return (narrow_format){5, 2, true};
  case KILN_BF16: return (narrow_format){8, 7, true};
  default: return (narrow_format){5, 10, true};
  }
}

static unsigned bias_of(narrow_format f) { return (1u << (f.exponent - 1)) - 1; }
static uint32_t top_of(narrow_format f) {
  return ((1u << f.exponent) - 1) << f.mantissa;
} // all ones in the exponent
static uint32_t nan_of(narrow_format f) {
  return f.infinity ? top_of(f) | 1u << (f.mantissa - 1) : top_of(f) | ((1u << f.mantissa) - 1);
}
static kiln_scalar integer_of(kiln_scalar scalar) { return ir_integer_of(kiln_scalars[scalar].bits); }

/// Narrow pattern to f32. Normal: exponent rebased. Below the smallest normal: mantissa times a power of two.
/// Top: infinity or NaN.
static ir_value *decode(expanding *x, ir_value *v) {
  kiln_scalar scalar = v->type.scalar;
  narrow_format f = format_of(scalar);
  unsigned width = kiln_scalars[scalar].bits, shift = 23 - f.mantissa;
  ir_value *u = x_zext(x, x_bits(x, v, integer_of(scalar)), KILN_I32);
  if (scalar == KILN_BF16) return x_bits(x, x_opi(x, IR_SHL, u, 16), KILN_F32);
  ir_value *sign = x_opi(x, IR_SHL, x_opi(x, IR_AND, u, 1u << (width - 1)), 32 - width);
  ir_value *mag = x_opi(x, IR_AND, u, (1u << (width - 1)) - 1);
  ir_value *rebased = x_opi(x, IR_ADD, x_opi(x, IR_SHL, mag, shift), (127 - bias_of(f)) << 23);
  ir_value *small = x_cast(x, mag, KILN_F32);
  double unit = 1.0 / (double)(1ull << (bias_of(f) - 1 + f.mantissa));
  small = x_bits(x, x_op(x, IR_MUL, small, x_real(x, small, unit)), KILN_I32);
  ir_value *bits = x_select(x, x_cmp(x, IR_LT, mag, x_int(x, mag, 1u << f.mantissa)), small, rebased);
  if (f.infinity) {
    ir_value *top = x_opi(x, IR_ADD, x_opi(x, IR_SHL, mag, shift), (255u - (1u << f.exponent) + 1) << 23);
    bits = x_select(x, x_cmp(x, IR_GE, mag, x_int(x, mag, top_of(f))), top, bits);
  } else {
    bits = x_select(x, x_cmp(x, IR_EQ, mag, x_int(x, mag, nan_of(f))), x_int(x, mag, 0x7fc00000), bits);
  }
  return x_bits(x, x_op(x, IR_OR, bits, sign), KILN_F32);
}

/// f32 to a narrow pattern. Normal results: add half a unit less one and the last bit, shift, rebase; a carry
/// runs into the exponent. Below the smallest normal: count units. Too large: the largest finite, infinity or
/// NaN.
static ir_value *encode(expanding *x, ir_value *v, kiln_scalar to, uint32_t flags, bool to_zero) {
  narrow_format f = format_of(to);
  unsigned shift = 23 - f.mantissa, width = kiln_scalars[to].bits;
  ir_value *u = x_bits(x, v, KILN_I32);
  ir_value *a = x_opi(x, IR_AND, u, 0x7fffffff),
           *sign = x_opi(x, IR_AND, x_opi(x, IR_SHR, u, 32 - width), 1u << (width - 1));
  ir_value *rounded = a;
  if (!to_zero) {
    ir_value *odd = x_opi(x, IR_AND, x_opi(x, IR_SHR, a, shift), 1);
    rounded = x_op(x, IR_ADD, x_opi(x, IR_ADD, a, (1u << (shift - 1)) - 1), odd);
  }
  ir_value *q = x_opi(x, IR_SHR, rounded, shift);
  if (f.exponent < 8) {
    ir_value *normal = x_opi(x, IR_SUB, q, (127 - bias_of(f)) << f.mantissa);
    ir_value *size = x_bits(x, a, KILN_F32);
    ir_value *units = x_op(x, IR_MUL, size, x_real(x, size, (double)(1ull << (bias_of(f) - 1 + f.mantissa))));
    units = ir_unary(&x->b, to_zero ? IR_FLOOR : IR_ROUND, 0, units);
    ir_value *is_small = x_cmp(x, IR_LT, a, x_int(x, a, (128 - bias_of(f)) << 23));
    q = x_select(x, is_small, x_cast(x, units, KILN_I32), normal);
  }
  bool fp8 = kiln_scalars[to].type_class == KILN_CLASS_FP8, saturate = fp8 && !(flags & IR_SATURATE_OFF);
  uint32_t largest = f.infinity ? top_of(f) - 1 : nan_of(f) - 1, over = saturate ? largest : largest + 1;
  ir_value *is_over = x_cmp(x, IR_GT, q, x_int(x, q, largest));
  ir_value *beyond = x_int(x, q, over);
  if (to_zero && !saturate)
    beyond = x_select(x, x_cmp(x, IR_EQ, a, x_int(x, a, 0x7f800000)), beyond, x_int(x, q, largest));
  q = x_op(x, IR_OR, x_select(x, is_over, beyond, q), sign);
  q = x_select(x, x_cmp(x, IR_GT, a, x_int(x, a, 0x7f800000)), x_int(x, q, nan_of(f)), q);
  return x_bits(x, x_cast(x, q, integer_of(to)), to);
}

/// One unit nearer to zero where `condition` holds.
static ir_value *step_back(expanding *x, ir_value *v, ir_value *condition) {
  kiln_scalar scalar = v->type.scalar;
  ir_value *bits = x_bits(x, v, integer_of(scalar));
  return x_bits(x, x_select(x, condition, x_opi(x, IR_SUB, bits, 1), bits), scalar);
}

static ir_value *narrow_to_zero(expanding *x, ir_value *wide) {
  ir_value *near = x_cast(x, wide, KILN_F32), *again = x_cast(x, near, KILN_F64);
  ir_value *is_larger = x_cmp(x, IR_GT, ir_unary(&x->b, IR_ABS, 0, again), ir_unary(&x->b, IR_ABS, 0, wide));
  return step_back(x, near, is_larger);
}

/// f64 to f32 so that a second rounding to fewer bits comes out as one: cut, and the last bit set when
/// something was cut.
static ir_value *narrow_to_odd(expanding *x, ir_value *wide) {
  ir_value *cut = narrow_to_zero(x, wide), *bits = x_bits(x, cut, KILN_I32);
  ir_value *inexact = x_cmp(x, IR_NE, x_cast(x, cut, KILN_F64), wide);
  return x_bits(x, x_select(x, inexact, x_opi(x, IR_OR, bits, 1), bits), KILN_F32);
}

/// An integer of 64 bits as f64, cut: high and low half are exact, and the error of their sum, which is
/// `out_rest`, says on which side it fell.
static ir_value *cut_integer(expanding *x, ir_value *v, uint32_t flags, ir_value **out_rest) {
  ir_value *high = ir_cast(&x->b, ir_binary(&x->b, IR_SHR, flags & IR_UNSIGNED, v, x_int(x, v, 32)), KILN_F64,
                           flags, IR_ROUND_NEAREST);
  ir_value *low = x_zext(x, x_opi(x, IR_AND, v, 0xffffffff), KILN_F64);
  high = x_op(x, IR_MUL, high, x_real(x, high, 0x1p32));
  ir_value *sum = x_op(x, IR_ADD, high, low), *rest = x_op(x, IR_SUB, low, x_op(x, IR_SUB, sum, high));
  ir_value *zero = x_real(x, sum, 0);
  ir_value *past = x_cmp(x, IR_LT, x_op(x, IR_MUL, rest, sum), zero);
  *out_rest = rest;
  return step_back(x, sum, past);
}

static ir_value *integer_to_zero(expanding *x, ir_value *v, uint32_t flags) {
  ir_value *rest;
  if (ir_type_bits(v->type) <= 32) return ir_cast(&x->b, v, KILN_F64, flags, IR_ROUND_NEAREST);
  return cut_integer(x, v, flags, &rest);
}

static ir_value *integer_to_odd(expanding *x, ir_value *v, uint32_t flags) {
  ir_value *rest, *cut = cut_integer(x, v, flags, &rest), *bits = x_bits(x, cut, KILN_I64);
  ir_value *inexact = x_cmp(x, IR_NE, rest, x_real(x, rest, 0));
  return x_bits(x, x_select(x, inexact, x_opi(x, IR_OR, bits, 1), bits), KILN_F64);
}

/// An integer of 32 bits as f32 to odd: of numbers from 2^24 on the last 8 bits become one, so that 24 are
/// left.
static ir_value *word_to_odd(expanding *x, ir_value *v, uint32_t flags) {
  ir_value *low = x_opi(x, IR_AND, v, 0xff);
  ir_value *some = x_opi(x, IR_AND, x_opi(x, IR_ADD, low, 0xff), 0x100);
  ir_value *merged = x_op(x, IR_OR, x_op(x, IR_XOR, v, low), some);
  bool is_unsigned = flags & IR_UNSIGNED;
  ir_value *size = is_unsigned ? v : x_opi(x, IR_ADD, v, 1u << 24);
  ir_value *is_exact =
      ir_compare(&x->b, IR_LT, IR_UNSIGNED, size, x_int(x, v, is_unsigned ? 1u << 24 : 1u << 25));
  return ir_cast(&x->b, x_select(x, is_exact, v, merged), KILN_F32, flags, IR_ROUND_NEAREST);
}

/// bf16 is the one narrow type that an integer can both fit and have more bits than f32.
static ir_value *to_f32(expanding *x, ir_value *v, kiln_scalar to, uint32_t flags, bool to_zero) {
  kiln_scalar from = v->type.scalar;
  unsigned class = kiln_scalars[from].type_class;
  if (from == KILN_F32) return v;
  if (from == KILN_F64) return to_zero ? narrow_to_zero(x, v) : narrow_to_odd(x, v);
  if (to_zero && class == KILN_CLASS_INT) return narrow_to_zero(x, integer_to_zero(x, v, flags));
  if (to == KILN_BF16 && from == KILN_I32) return word_to_odd(x, v, flags);
  if (to == KILN_BF16 && from == KILN_I64) return narrow_to_odd(x, integer_to_odd(x, v, flags));
  return ir_cast(&x->b, v, KILN_F32, flags, IR_ROUND_NEAREST);
}

static ir_value *from_f32(expanding *x, ir_value *v, kiln_scalar to, uint32_t flags, ir_round round) {
  ir_type type = ir_with_element(v->type, ir_scalar_type(to));
  ir_attrs attrs = {.flags = flags,
                    .round = (uint8_t)(to == KILN_F64 ? IR_ROUND_NEAREST : round)}; // widening is exact
  if (to == KILN_F32) return v;
  ir_op *op = ir_emit(&x->b, IR_CAST, &attrs, &v, 1, &type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

ir_value *expand_cast(expanding *x, const ir_op *op) {
  ir_value *v = op->operands[0];
  kiln_scalar from = v->type.scalar, to = op->results[0].type.scalar;
  uint32_t flags = op->attrs.flags;
  bool to_zero = op->attrs.round == IR_ROUND_ZERO,
       is_integer = kiln_scalars[from].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL);
  if (to == KILN_I1) {
    if (kiln_scalars[from].type_class == KILN_CLASS_FP8) v = decode(x, v);
    return x_cmp(x, IR_NE, v, x_real(x, v, 0));
  }
  if (to == KILN_F64 && is_integer) return integer_to_zero(x, v, flags);
  if (to == KILN_F32 && (from == KILN_F64 || is_integer)) return to_f32(x, v, to, flags, to_zero);
  if (from == KILN_F32 && kiln_scalars[to].bits <= 16) return encode(x, v, to, flags, to_zero);
  bool narrow = kiln_scalars[from].bits <= 16 && !is_integer;
  bool needs_decode = narrow && to == KILN_F32;
  if (needs_decode) return decode(x, v);
  return from_f32(x, to_f32(x, v, to, flags, to_zero), to, flags, op->attrs.round);
}
