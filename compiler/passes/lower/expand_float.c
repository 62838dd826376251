// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Float operations in plain arithmetic, exact: remainder, and fma where the machine has none.
#include "compiler/passes/lower/expand_inner.h"

// --------------------------------------------------------------------------------------- remainder

/// A float as mantissa (an i64 with the hidden bit) and exponent (at least 1, biased, i64).
typedef struct parts {
  ir_value *mantissa, *exponent;
} parts;

typedef struct real_format {
  kiln_scalar integer;
  unsigned mantissa, exponent; // bits
  unsigned chunk, trips;       // quotient bits a trip, trips that cover the largest difference of exponents
} real_format;

static ir_value *wide(expanding *x, ir_value *v) {
  return v && v->type.scalar == KILN_I64 ? v : x_zext(x, v, KILN_I64);
}

static parts take_apart(expanding *x, ir_value *magnitude, real_format f) {
  ir_value *bits = wide(x, magnitude), *exponent = x_opi(x, IR_SHR, bits, f.mantissa);
  ir_value *mantissa = x_opi(x, IR_AND, bits, ((uint64_t)1 << f.mantissa) - 1), *zero = x_int(x, bits, 0);
  ir_value *denormal = x_cmp(x, IR_EQ, exponent, zero);
  ir_value *with_hidden = x_opi(x, IR_OR, mantissa, (uint64_t)1 << f.mantissa);
  return (parts){x_select(x, denormal, mantissa, with_hidden), x_op(x, IR_MAX, exponent, x_int(x, bits, 1))};
}

/// r = (r << min(d, chunk)) % m; d -= chunk: `trips` times.
static ir_value *shifted_rest(expanding *x, ir_value *rest, ir_value *difference, ir_value *modulus,
                              real_format f) {
  ir_block *body = KILN_NEW(x->b.arena, ir_block);
  ir_value *lo = ir_const_int(&x->b, KILN_I32, 0), *hi = ir_const_int(&x->b, KILN_I32, f.trips),
           *step = ir_const_int(&x->b, KILN_I32, 1);
  expanding in = {.b = {.arena = x->b.arena, .block = body}, .target = x->target};
  ir_block_arg(x->b.arena, body, ir_scalar_type(KILN_I32));
  ir_value *r = ir_block_arg(x->b.arena, body, rest->type),
           *d = ir_block_arg(x->b.arena, body, difference->type);
  ir_value *chunk = x_int(&in, d, f.chunk), *zero = x_int(&in, d, 0);
  ir_value *shift = x_op(&in, IR_MAX, x_op(&in, IR_MIN, d, chunk), zero);
  ir_value *next = x_unsigned(&in, IR_REM, x_op(&in, IR_SHL, r, shift), modulus);
  ir_yield(&in.b, (ir_value *[]){next, x_op(&in, IR_SUB, d, chunk)}, 2);
  if (in.b.error.status != KILN_OK) x->b.error = in.b.error;
  ir_op *loop = ir_emit(&x->b, IR_FOR, NULL, (ir_value *[]){lo, hi, step, rest, difference}, 5, NULL,
                        (ir_block *[]){body}, 1);
  return loop ? &loop->results[0] : NULL;
}

// With a = ma 2^ea and b = mb 2^eb: where ea >= eb, a rem b = ((ma 2^(ea-eb)) mod mb) 2^eb, and where ea < eb
// it is a.
ir_value *expand_remainder(expanding *x, const ir_op *op) {
  ir_value *a = op->operands[0], *b = op->operands[1];
  kiln_scalar scalar = a->type.scalar;
  real_format f =
      scalar == KILN_F32 ? (real_format){KILN_I32, 23, 8, 39, 8} : (real_format){KILN_I64, 52, 11, 10, 210};
  uint64_t sign = (uint64_t)1 << (f.mantissa + f.exponent), infinity = (((uint64_t)1 << f.exponent) - 1)
                                                                       << f.mantissa;
  ir_value *ia = x_bits(x, a, f.integer), *sa = x_opi(x, IR_AND, ia, sign);
  ir_value *ma = x_opi(x, IR_AND, ia, sign - 1), *mb = x_opi(x, IR_AND, x_bits(x, b, f.integer), sign - 1);
  parts pa = take_apart(x, ma, f), pb = take_apart(x, mb, f);
  if (!pb.exponent || !pa.exponent) return NULL;
  ir_value *modulus = x_op(x, IR_MAX, pb.mantissa, x_int(x, pb.mantissa, 1));
  ir_value *difference = x_op(x, IR_SUB, pa.exponent, pb.exponent);
  ir_value *rest = x_unsigned(x, IR_REM, pa.mantissa, modulus);
  if (!rest || !difference) return NULL;
  rest = shifted_rest(x, rest, difference, modulus, f);
  if (!rest) return NULL;
  ir_value *value = x_cast(x, rest, scalar);
  ir_value *power =
      x_opi(x, IR_SHL, f.integer == KILN_I64 ? pb.exponent : x_cast(x, pb.exponent, KILN_I32), f.mantissa);
  value = x_op(x, IR_MUL, value, x_real(x, value, scalar == KILN_F32 ? 0x1p-23 : 0x1p-52));
  value = x_op(x, IR_MUL, value, x_bits(x, power, scalar));
  value = x_bits(x, x_op(x, IR_OR, x_bits(x, value, f.integer), sa), scalar);
  ir_value *smaller = x_cmp(x, IR_LT, ma, mb); // also where b is infinite
  value = x_select(x, smaller, a, value);
  ir_value *top = x_int(x, ma, infinity), *zero = x_int(x, ma, 0);
  ir_value *none = x_op(x, IR_OR, x_cmp(x, IR_GE, ma, top),
                        x_op(x, IR_OR, x_cmp(x, IR_GT, mb, top), x_cmp(x, IR_EQ, mb, zero)));
  uint64_t quiet = infinity | (uint64_t)1 << (f.mantissa - 1);
  return x_select(x, none, x_bits(x, x_int(x, ma, quiet), scalar), value);
}

// --------------------------------------------------------------------------------------------- fma

typedef struct pair {
  ir_value *high, *low;
} pair;

/// high + low is a + b exactly.
static pair two_sum(expanding *x, ir_value *a, ir_value *b) {
  ir_value *s = x_op(x, IR_ADD, a, b), *t = x_op(x, IR_SUB, s, a);
  ir_value *low = x_op(x, IR_ADD, x_op(x, IR_SUB, a, x_op(x, IR_SUB, s, t)), x_op(x, IR_SUB, b, t));
  return (pair){s, low};
}

/// Halves of 26 bits: the pattern rounded to its upper 26 mantissa bits, and the signed rest.
static pair halves(expanding *x, ir_value *a) {
  ir_value *rounded = x_opi(x, IR_ADD, x_bits(x, a, KILN_I64), 0x4000000);
  ir_value *high = x_bits(x, x_opi(x, IR_AND, rounded, ~(uint64_t)0x7ffffff), KILN_F64);
  return (pair){high, x_op(x, IR_SUB, a, high)};
}

/// high + low is a * b exactly, where nothing underflows.
static pair two_product(expanding *x, ir_value *a, ir_value *b) {
  pair p = halves(x, a), q = halves(x, b);
  ir_value *high = x_op(x, IR_MUL, a, b);
  ir_value *low = x_op(x, IR_SUB, x_op(x, IR_MUL, p.high, q.high), high);
  low = x_op(x, IR_ADD, low, x_op(x, IR_MUL, p.high, q.low));
  low = x_op(x, IR_ADD, low, x_op(x, IR_MUL, p.low, q.high));
  return (pair){high, x_op(x, IR_ADD, low, x_op(x, IR_MUL, p.low, q.low))};
}

/// The f64 sum with its last bit set where it is inexact: rounding it again then comes out as one rounding.
static ir_value *sum_to_odd(expanding *x, pair sum) {
  ir_value *bits = x_bits(x, sum.high, KILN_I64), *zero = x_real(x, sum.high, 0), *none = x_int(x, bits, 0),
           *one = x_int(x, bits, 1);
  ir_value *inexact = x_op(x, IR_OR, x_cmp(x, IR_LT, sum.low, zero), x_cmp(x, IR_GT, sum.low, zero));
  ir_value *even = x_cmp(x, IR_EQ, x_op(x, IR_AND, bits, one), none);
  ir_value *same_side = x_cmp(x, IR_EQ, x_cmp(x, IR_LT, sum.low, zero), x_cmp(x, IR_LT, sum.high, zero));
  ir_value *moved = x_select(x, same_side, x_op(x, IR_ADD, bits, one), x_op(x, IR_SUB, bits, one));
  return x_bits(x, x_select(x, x_op(x, IR_AND, inexact, even), moved, bits), KILN_F64);
}

ir_value *expand_fma(expanding *x, const ir_op *op) {
  ir_value *a = op->operands[0], *b = op->operands[1], *c = op->operands[2];
  if (a->type.scalar == KILN_F32) {
    ir_value *product = x_op(x, IR_MUL, x_cast(x, a, KILN_F64), x_cast(x, b, KILN_F64));
    return x_cast(x, sum_to_odd(x, two_sum(x, product, x_cast(x, c, KILN_F64))), KILN_F32);
  }
  pair product = two_product(x, a, b), inner = two_sum(x, c, product.low),
       outer = two_sum(x, product.high, inner.high);
  ir_value *exact = x_op(x, IR_ADD, outer.high, sum_to_odd(x, two_sum(x, inner.low, outer.low)));
  ir_value *plain = x_op(x, IR_ADD, product.high, c), *magnitude = ir_unary(&x->b, IR_ABS, 0, plain);
  // Infinities and NaN spoil the error terms; they are right in the plain sum.
  ir_value *finite = x_cmp(x, IR_LT, magnitude, x_real(x, magnitude, 0x1p1000));
  return x_select(x, x_op(x, IR_AND, finite, x_cmp(x, IR_EQ, exact, exact)), exact, plain);
}
