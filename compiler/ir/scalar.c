// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operations on bit patterns; see the header for the rules.
#include "compiler/ir/scalar.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

int64_t kiln_scalar_signed(uint64_t bits, unsigned width) {
  if (width >= 64) return (int64_t)bits;
  uint64_t sign = (uint64_t)1 << (width - 1);
  bits = kiln_scalar_mask(bits, width);
  return (int64_t)((bits ^ sign) - sign);
}

uint64_t kiln_scalar_mask(uint64_t bits, unsigned width) {
  return width >= 64 ? bits : bits & (((uint64_t)1 << width) - 1);
}

// ---------------------------------------------------------------------------------------- integers

/// An integer operation sees both readings of its operands; the result is cut to the width.
typedef struct integers {
  uint64_t a, b;  // zero-extended
  int64_t sa, sb; // sign-extended
  unsigned width;
  bool is_unsigned;
} integers;

/// How an element of an operation is computed: by its class, or by a function of the whole operation.
typedef struct arithmetic {
  uint64_t (*of_integers)(const integers *x);
  double (*of_float)(double a);
  double (*of_floats)(double a, double b);
  uint64_t (*whole)(const ir_op *op, const uint64_t *bits);
} arithmetic;

static arithmetic arithmetic_of(ir_opcode code);

static uint64_t int_add(const integers *x) { return x->a + x->b; }
static uint64_t int_sub(const integers *x) { return x->a - x->b; }
static uint64_t int_mul(const integers *x) { return x->a * x->b; }
static uint64_t int_and(const integers *x) { return x->a & x->b; }
static uint64_t int_or(const integers *x) { return x->a | x->b; }
static uint64_t int_xor(const integers *x) { return x->a ^ x->b; }
static uint64_t int_shl(const integers *x) { return x->a << (x->b & (x->width - 1)); }

static uint64_t int_shr(const integers *x) {
  unsigned count = (unsigned)(x->b & (x->width - 1));
  return x->is_unsigned ? x->a >> count : (uint64_t)(x->sa >> count);
}

static uint64_t int_div(const integers *x) {
  if (x->b == 0) return 0;
  if (x->is_unsigned) return x->a / x->b;
  return x->sb == -1 ? 0 - x->a : (uint64_t)(x->sa / x->sb);
}

static uint64_t int_rem(const integers *x) {
  if (x->b == 0) return 0;
  if (x->is_unsigned) return x->a % x->b;
  return x->sb == -1 ? 0 : (uint64_t)(x->sa % x->sb);
}

static uint64_t int_min(const integers *x) {
  bool less = x->is_unsigned ? x->a < x->b : x->sa < x->sb;
  return less ? x->a : x->b;
}

static uint64_t int_max(const integers *x) {
  bool less = x->is_unsigned ? x->a < x->b : x->sa < x->sb;
  return less ? x->b : x->a;
}

static uint64_t int_mulhi(const integers *x) {
  if (x->is_unsigned) return (uint64_t)(((unsigned __int128)x->a * x->b) >> x->width);
  return (uint64_t)(((__int128)x->sa * x->sb) >> x->width);
}

static uint64_t int_abs(const integers *x) { return x->sa < 0 ? 0 - x->a : x->a; }

static uint64_t integer_eval(ir_opcode code, unsigned width, uint32_t flags, uint64_t a, uint64_t b) {
  integers x = {.a = kiln_scalar_mask(a, width),
                .b = kiln_scalar_mask(b, width),
                .sa = kiln_scalar_signed(a, width),
                .sb = kiln_scalar_signed(b, width),
                .width = width,
                .is_unsigned = (flags & IR_UNSIGNED) != 0 || width == 1};
  const arithmetic known = arithmetic_of(code);
  KILN_ASSERT(known.of_integers != NULL);
  return kiln_scalar_mask(known.of_integers(&x), width);
}

// ------------------------------------------------------------------------------------------ floats

static float float_of(kiln_scalar scalar, uint64_t bits) {
  if (scalar != KILN_F32) return (float)ir_bits_to_float(scalar, bits);
  uint32_t low = (uint32_t)bits;
  float f;
  memcpy(&f, &low, sizeof f);
  return f;
}

static double double_of(kiln_scalar scalar, uint64_t bits) {
  if (scalar != KILN_F64) return float_of(scalar, bits);
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}

static uint64_t bits_of_float(kiln_scalar scalar, float value) {
  if (isnan(value)) value = NAN; // one pattern, whatever the machine that folds makes of it
  if (scalar != KILN_F32) return ir_float_to_bits(scalar, value, false);
  uint32_t low;
  memcpy(&low, &value, sizeof low);
  return low;
}

/// The bits of an exact double after the roundings of the type: f16 and bf16 pass through f32. Computing + -
/// * / and sqrt in double and rounding to f32 gives the f32 result: 53 >= 2 * 24 + 2.
static uint64_t bits_of(kiln_scalar scalar, double value) {
  if (scalar != KILN_F64) return bits_of_float(scalar, (float)value);
  if (isnan(value)) value = NAN;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double real_add(double a, double b) { return a + b; }
static double real_sub(double a, double b) { return a - b; }
static double real_mul(double a, double b) { return a * b; }
static double real_div(double a, double b) { return a / b; }
static double real_min(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}
static double real_max(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
  if (a == b) return signbit(a) ? b : a;
  return a < b ? b : a;
}
static double real_sqrt(double a) { return a < 0 ? (double)NAN : sqrt(a); } // an instruction, no call of libm
static double real_rsqrt(double a) { return 1.0 / sqrt(a); }

static uint64_t binary_float(ir_opcode code, kiln_scalar scalar, uint32_t flags, uint64_t left,
                             uint64_t right) {
  double a = double_of(scalar, left), b = double_of(scalar, right);
  bool is_choice = code == IR_MIN || code == IR_MAX;
  if (is_choice && (flags & IR_NAN) && (isnan(a) || isnan(b))) return bits_of(scalar, NAN);
  const arithmetic known = arithmetic_of(code);
  KILN_ASSERT(known.of_floats != NULL);
  return bits_of(scalar, known.of_floats(a, b));
}

static uint64_t eval_fma(const ir_op *op, const uint64_t *bits) {
  const kiln_scalar scalar = op->operands[0]->type.scalar;
  if (scalar == KILN_F64)
    return bits_of(scalar,
                   fma(double_of(scalar, bits[0]), double_of(scalar, bits[1]), double_of(scalar, bits[2])));
  return bits_of_float(scalar,
                       fmaf(float_of(scalar, bits[0]), float_of(scalar, bits[1]), float_of(scalar, bits[2])));
}

static uint64_t binary(ir_opcode code, kiln_scalar scalar, uint32_t flags, uint64_t a, uint64_t b) {
  if (kiln_scalars[scalar].type_class & KILN_CLASS_FLOAT) return binary_float(code, scalar, flags, a, b);
  return integer_eval(code, kiln_scalars[scalar].bits, flags, a, b);
}

// ------------------------------------------------------------------------------------- comparisons

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };
static const uint8_t predicate_holds[] = {
    [IR_EQ] = EQUAL,   [IR_NE] = LESS | GREATER | UNORDERED,
    [IR_LT] = LESS,    [IR_LE] = LESS | EQUAL,
    [IR_GT] = GREATER, [IR_GE] = GREATER | EQUAL,
};

static unsigned relation_float(double a, double b) {
  if (isnan(a) || isnan(b)) return UNORDERED;
  return a < b ? LESS : a > b ? GREATER : EQUAL;
}
static unsigned relation_unsigned(uint64_t a, uint64_t b) { return a < b ? LESS : a > b ? GREATER : EQUAL; }
static unsigned relation_signed(int64_t a, int64_t b) { return a < b ? LESS : a > b ? GREATER : EQUAL; }

static uint64_t compare(const ir_op *op, const uint64_t *bits) {
  ir_type type = op->operands[0]->type;
  unsigned width = ir_type_bits(type), class = ir_type_class(type), relation;
  if (class == KILN_CLASS_FLOAT)
    relation = relation_float(double_of(type.scalar, bits[0]), double_of(type.scalar, bits[1]));
  else if ((op->attrs.flags & IR_UNSIGNED) || class != KILN_CLASS_INT)
    relation = relation_unsigned(kiln_scalar_mask(bits[0], width), kiln_scalar_mask(bits[1], width));
  else relation = relation_signed(kiln_scalar_signed(bits[0], width), kiln_scalar_signed(bits[1], width));
  return (predicate_holds[op->attrs.kind] & relation) != 0;
}

// ------------------------------------------------------------------------------------------- casts

/// `value` rounded to the float type; toward zero: nearest, then one step back when that went past, to
/// infinity or to e4m3's NaN in place of a number too.
static uint64_t round_to(kiln_scalar to, double value, uint32_t flags, ir_round round) {
  bool saturate = (kiln_scalars[to].type_class & KILN_CLASS_FP8) && !(flags & IR_SATURATE_OFF);
  uint64_t bits = ir_float_to_bits(to, isnan(value) ? (double)NAN : value, saturate);
  bool past = !(fabs(ir_bits_to_float(to, bits)) <= fabs(value));
  if (round == IR_ROUND_ZERO && isfinite(value) && past) bits--;
  return bits;
}

static uint64_t float_to_int(double value, unsigned width, bool is_unsigned) {
  if (isnan(value)) return 0;
  double top = ldexp(1.0, (int)(is_unsigned ? width : width - 1)), bottom = is_unsigned ? 0 : -top;
  if (value >= top) return kiln_scalar_mask(is_unsigned ? UINT64_MAX : (UINT64_MAX >> (65 - width)), width);
  if (value <= bottom) return is_unsigned ? 0 : (uint64_t)1 << (width - 1);
  return kiln_scalar_mask(is_unsigned ? (uint64_t)value : (uint64_t)(int64_t)value, width);
}

uint64_t kiln_scalar_cast(kiln_scalar from, kiln_scalar to, uint32_t flags, ir_round round, uint64_t bits) {
  enum { INTEGRAL = KILN_CLASS_BOOL | KILN_CLASS_INT };
  const kiln_scalar_info *source = &kiln_scalars[from], *target = &kiln_scalars[to];
  bool is_unsigned = (flags & IR_UNSIGNED) || source->type_class == KILN_CLASS_BOOL;
  if (!(source->type_class & INTEGRAL)) {
    double value = double_of(from, bits);
    if (target->type_class == KILN_CLASS_BOOL) return value != 0;
    if (target->type_class == KILN_CLASS_INT)
      return float_to_int(value, target->bits, (flags & IR_UNSIGNED) != 0);
    return from == to ? bits : round_to(to, value, flags, round);
  }
  int64_t wide =
      is_unsigned ? (int64_t)kiln_scalar_mask(bits, source->bits) : kiln_scalar_signed(bits, source->bits);
  if (target->type_class == KILN_CLASS_BOOL) return kiln_scalar_mask(bits, source->bits) != 0;
  if (target->type_class == KILN_CLASS_INT) return kiln_scalar_mask((uint64_t)wide, target->bits);
  bool negative = !is_unsigned && wide < 0;
  uint64_t magnitude = negative ? 0 - (uint64_t)wide : (uint64_t)wide;
  // To each type in one rounding.
  if (to == KILN_F64) {
    double d = (double)magnitude;
    if (round == IR_ROUND_ZERO && (d >= 0x1p64 || (uint64_t)d > magnitude)) d = nextafter(d, 0);
    return bits_of(to, negative ? -d : d);
  }
  // Cut to 53 bits, the last one set when something was cut: a second rounding to fewer bits comes out as one.
  const uint64_t low = 0x7ff;
  if (magnitude >> 53 && magnitude & low) magnitude = (magnitude & ~low) | (low + 1);
  const double d = (double)magnitude;
  return round_to(to, negative ? -d : d, flags, round);
}

// --------------------------------------------------------------------------------------- the whole

static uint64_t eval_select(const ir_op *op, const uint64_t *bits) {
  (void)op;
  return bits[0] & 1 ? bits[1] : bits[2];
}
static uint64_t eval_copy(const ir_op *op, const uint64_t *bits) {
  (void)op;
  return bits[0];
}
static uint64_t eval_abs(const ir_op *op, const uint64_t *bits) {
  const ir_type type = op->operands[0]->type;
  const unsigned width = ir_type_bits(type);
  if (ir_type_class(type) != KILN_CLASS_FLOAT) return integer_eval(IR_ABS, width, 0, bits[0], 0);
  return bits[0] & ~((uint64_t)1 << (width - 1));
}
static uint64_t eval_cast(const ir_op *op, const uint64_t *bits) {
  return kiln_scalar_cast(op->operands[0]->type.scalar, op->results[0].type.scalar, op->attrs.flags,
                          op->attrs.round, bits[0]);
}

static arithmetic arithmetic_of(ir_opcode code) {
  switch (code) {
  case IR_ADD: return (arithmetic){.of_integers = int_add, .of_floats = real_add};
  case IR_SUB: return (arithmetic){.of_integers = int_sub, .of_floats = real_sub};
  case IR_MUL: return (arithmetic){.of_integers = int_mul, .of_floats = real_mul};
  case IR_DIV: return (arithmetic){.of_integers = int_div, .of_floats = real_div};
  case IR_REM: return (arithmetic){.of_integers = int_rem, .of_floats = fmod};
  case IR_MIN: return (arithmetic){.of_integers = int_min, .of_floats = real_min};
  case IR_MAX: return (arithmetic){.of_integers = int_max, .of_floats = real_max};
  case IR_MULHI: return (arithmetic){.of_integers = int_mulhi};
  case IR_AND: return (arithmetic){.of_integers = int_and};
  case IR_OR: return (arithmetic){.of_integers = int_or};
  case IR_XOR: return (arithmetic){.of_integers = int_xor};
  case IR_SHL: return (arithmetic){.of_integers = int_shl};
  case IR_SHR: return (arithmetic){.of_integers = int_shr};
  case IR_ABS: return (arithmetic){.of_integers = int_abs, .whole = eval_abs};
  case IR_FLOOR: return (arithmetic){.of_float = floor};
  case IR_CEIL: return (arithmetic){.of_float = ceil};
  case IR_ROUND: return (arithmetic){.of_float = nearbyint};
  case IR_SQRT: return (arithmetic){.of_float = real_sqrt};
  case IR_RSQRT: return (arithmetic){.of_float = real_rsqrt};
  case IR_EXP2: return (arithmetic){.of_float = exp2};
  case IR_LOG2: return (arithmetic){.of_float = log2};
  case IR_SIN: return (arithmetic){.of_float = sin};
  case IR_COS: return (arithmetic){.of_float = cos};
  case IR_TANH: return (arithmetic){.of_float = tanh};
  case IR_ERF: return (arithmetic){.of_float = erf};
  case IR_FMA: return (arithmetic){.whole = eval_fma};
  case IR_CMP: return (arithmetic){.whole = compare};
  case IR_SELECT: return (arithmetic){.whole = eval_select};
  case IR_CAST: return (arithmetic){.whole = eval_cast};
  case IR_BITCAST:
  case IR_HINT: return (arithmetic){.whole = eval_copy};
  default: return (arithmetic){0};
  }
}

bool kiln_scalar_knows(ir_opcode code) {
  const arithmetic a = arithmetic_of(code);
  return a.of_integers || a.of_float || a.of_floats || a.whole;
}

uint64_t kiln_scalar_eval(const ir_op *op, const uint64_t *bits) {
  const arithmetic a = arithmetic_of(op->code);
  const kiln_scalar scalar = op->operands[0]->type.scalar;
  if (a.whole) return a.whole(op, bits);
  if (!a.of_float) return binary(op->code, scalar, op->attrs.flags, bits[0], bits[1]);
  const uint64_t result = bits_of(scalar, a.of_float(double_of(scalar, bits[0])));
  const bool flushes = op->attrs.flags & IR_FTZ && scalar == KILN_F32;
  return flushes ? kiln_scalar_flush(scalar, result) : result;
}

uint64_t kiln_scalar_combine(ir_combine kind, kiln_scalar scalar, uint32_t flags, uint64_t left,
                             uint64_t right) {
  if (kind == IR_COMBINE_XCHG) return right;
  KILN_ASSERT((unsigned)kind < IR_COMBINE_COUNT && ir_combines[kind].operation < IR_OPCODE_COUNT);
  return binary(ir_combines[kind].operation, scalar, flags, left, right);
}

// ------------------------------------------------------------------------------- without denormals

static bool is_flushed_scalar(kiln_scalar scalar) { return scalar == KILN_F32 || scalar == KILN_BF16; }

static bool is_flushed_type(ir_type type) {
  return !type.pointer && !type.is_view && is_flushed_scalar(type.scalar);
}

bool kiln_scalar_flushes_cast(kiln_scalar from, kiln_scalar to) {
  return is_flushed_scalar(from) ? to == KILN_F64 || to == KILN_I1
                                 : from == KILN_F64 && is_flushed_scalar(to);
}

bool kiln_scalar_flushes(const ir_op *op) {
  if (!op->operand_count || op->region_count) return false;
  if (op->code == IR_CAST)
    return kiln_scalar_flushes_cast(op->operands[0]->type.scalar, op->results[0].type.scalar);
  const arithmetic a = arithmetic_of(op->code);
  const bool computes = a.of_float || a.of_floats || op->code == IR_FMA || op->code == IR_CMP;
  return (computes || op->code == IR_REDUCE || op->code == IR_SCAN) && is_flushed_type(op->operands[0]->type);
}

uint64_t kiln_scalar_flush(kiln_scalar scalar, uint64_t bits) {
  if (scalar == KILN_F32) return bits & 0x7f800000 ? bits : bits & 0x80000000;
  if (scalar == KILN_BF16) return bits & 0x7f80 ? bits : bits & 0x8000;
  return bits;
}

/// bf16 arithmetic is f32 arithmetic, flushed before it is rounded.
static uint64_t eval_half_flushed(const ir_op *op, const uint64_t *bits) {
  ir_value operands[3], *places[3], result = op->results[0];
  uint64_t wide[3] = {0};
  ir_op single = *op;
  single.operands = places;
  single.results = &result;
  result.type.scalar = KILN_F32;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    operands[i] = *op->operands[i];
    operands[i].type.scalar = KILN_F32;
    places[i] = &operands[i];
    wide[i] = bits[i] << 16;
  }
  float f = float_of(KILN_F32, kiln_scalar_flush(KILN_F32, kiln_scalar_eval(&single, wide)));
  return bits_of_float(KILN_BF16, f);
}

uint64_t kiln_scalar_cast_flushed(kiln_scalar from, kiln_scalar to, uint32_t flags, ir_round round,
                                  uint64_t bits) {
  bits = kiln_scalar_flush(from, bits);
  const uint64_t result = kiln_scalar_cast(from, to, flags, round, bits);
  if (to != KILN_BF16) return kiln_scalar_flush(to, result);
  const uint64_t single = kiln_scalar_flush(KILN_F32, kiln_scalar_cast(from, KILN_F32, 0, round, bits));
  return single & 0x7fffffff ? result : single >> 16;
}

uint64_t kiln_scalar_eval_flushed(const ir_op *op, const uint64_t *bits) {
  uint64_t flushed[3] = {0};
  if (!kiln_scalar_flushes(op)) return kiln_scalar_eval(op, bits);
  kiln_scalar to = op->results[0].type.scalar;
  if (op->code == IR_CAST)
    return kiln_scalar_cast_flushed(op->operands[0]->type.scalar, to, op->attrs.flags, op->attrs.round,
                                    bits[0]);
  for (uint32_t i = 0; i < op->operand_count; i++)
    flushed[i] = kiln_scalar_flush(op->operands[i]->type.scalar, bits[i]);
  return to == KILN_BF16 ? eval_half_flushed(op, flushed)
                         : kiln_scalar_flush(to, kiln_scalar_eval(op, flushed));
}
