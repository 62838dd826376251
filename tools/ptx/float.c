// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes with floats as exact doubles that are rounded once at the end.
//
// Every float but f64 is a double exactly. Sums and products of the narrow types are made in double and
// rounded to odd there: such a result, rounded once more to a format at least two bits narrower, is as if
// rounded once. f64 itself uses the machine's arithmetic in the rounding mode that is asked for.
#include "tools/ptx/float.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

typedef struct format {
  int mantissa, least, most; // stored bits; exponents of the smallest and largest normal numbers
  bool has_infinity;
} format;

static format format_of(ptx_type type) {
  switch (type) {
  case PTX_TYPE_f16:
  case PTX_TYPE_f16x2: return (format){10, -14, 15, true};
  case PTX_TYPE_bf16:
  case PTX_TYPE_bf16x2: return (format){7, -126, 127, true};
  case PTX_TYPE_tf32: return (format){10, -126, 127, true};
  case PTX_TYPE_e4m3:
  case PTX_TYPE_e4m3x2: return (format){3, -6, 8, false};
  case PTX_TYPE_e5m2:
  case PTX_TYPE_e5m2x2: return (format){2, -14, 15, true};
  case PTX_TYPE_f64: return (format){52, -1022, 1023, true};
  default: return (format){23, -126, 127, true};
  }
}

// Where a type's bits begin in its register: tf32 are the upper bits of an f32.
static int stored_mantissa(ptx_type type) { return type == PTX_TYPE_tf32 ? 23 : format_of(type).mantissa; }
static int stored_bits(ptx_type type) {
  switch (type) {
  case PTX_TYPE_e4m3:
  case PTX_TYPE_e5m2: return 8;
  default: return (int)ptx_bits(type);
  }
}

ptx_type ptx_half_type(ptx_type type) {
  switch (type) {
  case PTX_TYPE_f16x2: return PTX_TYPE_f16;
  case PTX_TYPE_bf16x2: return PTX_TYPE_bf16;
  case PTX_TYPE_e4m3x2: return PTX_TYPE_e4m3;
  case PTX_TYPE_e5m2x2: return PTX_TYPE_e5m2;
  default: return type;
  }
}

static uint64_t bits_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static double double_of(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

double ptx_float_unpack(ptx_type type, uint64_t bits) {
  if (type == PTX_TYPE_f64) return double_of(bits);
  if (type == PTX_TYPE_f32) { // as below, but quick
    uint32_t narrow = (uint32_t)bits;
    float v;
    memcpy(&v, &narrow, sizeof v);
    return v;
  }
  format f = format_of(type);
  int stored = stored_mantissa(type), width = stored_bits(type);
  bits &= ptx_mask_bits((uint32_t)width);
  double sign = bits >> (width - 1) & 1 ? -1.0 : 1.0;
  uint64_t mantissa = bits & ptx_mask_bits((uint32_t)stored);
  int exponent = (int)(bits >> stored & ptx_mask_bits((uint32_t)(width - 1 - stored)));
  int last = (1 << (width - 1 - stored)) - 1;
  if (!f.has_infinity && exponent == last && mantissa == ptx_mask_bits((uint32_t)stored)) return sign * NAN;
  if (f.has_infinity && exponent == last) return mantissa ? sign * NAN : sign * INFINITY;
  if (!exponent) return sign * ldexp((double)mantissa, f.least - stored);
  return sign * ldexp((double)(mantissa | 1ull << stored), exponent - 1 + f.least - stored);
}

// Whether the magnitude whose dropped part is `rest` of `one` goes up.
static bool goes_up(ptx_rounding rounding, bool is_negative, bool is_odd, uint64_t rest, uint64_t one) {
  switch (rounding) {
  case ROUND_Z: return false;
  case ROUND_M: return is_negative && rest;
  case ROUND_P: return !is_negative && rest;
  case ROUND_A: return 2 * rest >= one && rest;
  default: return 2 * rest > one || (2 * rest == one && is_odd);
  }
}

static uint64_t largest(format f, int stored) {
  uint64_t exponent = (uint64_t)(f.most - f.least + 1), mantissa = ptx_mask_bits((uint32_t)f.mantissa)
                                                                   << (stored - f.mantissa);
  return exponent << stored | (f.has_infinity ? mantissa : mantissa - 1);
}

static uint64_t special_bits(ptx_type type, bool is_nan) {
  format f = format_of(type);
  int stored = stored_mantissa(type), width = stored_bits(type);
  if (is_nan) return ptx_mask_bits((uint32_t)(width - 1)); // 0x7fff, 0x7fffffff, 0x7f
  return f.has_infinity ? ptx_mask_bits((uint32_t)(width - 1 - stored)) << stored
                        : ptx_mask_bits((uint32_t)(width - 1));
}

uint64_t ptx_float_pack(ptx_type type, double value, ptx_rounding rounding, bool saturates) {
  if (type == PTX_TYPE_f64) return isnan(value) ? 0x7fffffffffffffff : bits_of(value);
  format f = format_of(type);
  int stored = stored_mantissa(type), width = stored_bits(type), exponent;
  if (type == PTX_TYPE_f32 && rounding <= ROUND_N && !saturates && !isnan(value)) { // as below, but quick
    float v = (float)value;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
  }
  bool is_negative = signbit(value);
  uint64_t sign = (uint64_t)is_negative << (width - 1);
  if (isnan(value)) return special_bits(type, true);
  if (isinf(value)) return saturates ? sign | largest(f, stored) : sign | special_bits(type, false);
  if (value == 0) return sign;
  uint64_t whole =
      (uint64_t)ldexp(frexp(fabs(value), &exponent), 53); // 53 bits, value = whole * 2^(exponent - 53)
  int unit =
      exponent - 1 < f.least ? f.least - f.mantissa : exponent - 1 - f.mantissa; // of the last bit kept
  int drop = unit - (exponent - 53);
  uint64_t kept = drop > 60 ? 0 : whole >> drop, one = 1ull << (drop > 60 ? 60 : drop),
           rest = drop > 60 ? 1 : whole & (one - 1);
  if (goes_up(rounding, is_negative, kept & 1, rest, one)) kept++;
  double result = ldexp((double)kept, unit);
  double most = ptx_float_unpack(type, largest(f, stored));
  if (result > most) {
    bool stays = saturates || rounding == ROUND_Z || (rounding == ROUND_M && !is_negative) ||
                 (rounding == ROUND_P && is_negative);
    return sign | (stays ? largest(f, stored) : special_bits(type, false));
  }
  // kept < 2^(mantissa + 1) or exactly that after a carry; the encoding is then continuous
  int step = unit - (f.least - f.mantissa);
  uint64_t encoded = kept >> f.mantissa ? ((uint64_t)step << f.mantissa) + kept : kept;
  return sign | encoded << (stored - f.mantissa);
}

// ---------------------------------------------------------------------------------------- to odd, in double

// The sum was rounded to nearest; with an error it becomes the neighbour that is odd.
static double make_odd(double sum, double error) {
  if (error == 0 || isnan(error) || isinf(sum) || bits_of(sum) & 1) return sum;
  return double_of(bits_of(sum) + ((error > 0) == (sum > 0) ? 1 : (uint64_t)-1));
}

static double add_odd(double a, double b) {
  volatile double sum = a + b, part = sum - a, rest = sum - part;
  return make_odd(sum, (a - rest) + (b - part));
}

double ptx_odd_double(uint64_t magnitude, bool is_negative) {
  double high = (double)(magnitude >> 32) * 4294967296.0, v = add_odd(high, (double)(magnitude & 0xffffffff));
  return is_negative ? -v : v;
}

static double divide_odd(double a, double b) {
  volatile double q = a / b;
  if (isnan(q) || isinf(q) || q == 0 || isinf(b)) return q;
  double rest = fma(-q, b, a); // exact
  return make_odd(q, b > 0 ? rest : -rest);
}

static double sqrt_odd(double a) {
  volatile double r = sqrt(a);
  if (isnan(r) || isinf(r) || r == 0) return r;
  return make_odd(r, fma(-r, r, a));
}

// ------------------------------------------------------------------------------------------ f64 itself

static const int modes[] = {[ROUND_NONE] = FE_TONEAREST, [ROUND_N] = FE_TONEAREST, [ROUND_Z] = FE_TOWARDZERO,
                            [ROUND_M] = FE_DOWNWARD,     [ROUND_P] = FE_UPWARD,    [ROUND_A] = FE_TONEAREST};

static double compute(ptx_float_code code, double a, double b, double c) {
  volatile double x = a, y = b, z = c, r = 0; // so that nothing moves across the change of mode
  switch (code) {
  case FLOAT_ADD: r = x + y; break;
  case FLOAT_SUB: r = x - y; break;
  case FLOAT_MUL: r = x * y; break;
  case FLOAT_FMA: r = fma(x, y, z); break;
  case FLOAT_DIV: r = x / y; break;
  default: break;
  }
  return r;
}

static double compute_f64(ptx_float_code code, ptx_rounding rounding, double a, double b, double c) {
  if (modes[rounding] == FE_TONEAREST) return compute(code, a, b, c);
  fesetround(modes[rounding]);
  double r = compute(code, a, b, c);
  fesetround(FE_TONEAREST);
  return r;
}

// Products of two f32 are exact in double; f32's fma adds to one.
static double compute_narrow(ptx_float_code code, double a, double b, double c) {
  switch (code) {
  case FLOAT_ADD: return add_odd(a, b);
  case FLOAT_SUB: return add_odd(a, -b);
  case FLOAT_MUL: return a * b;
  case FLOAT_FMA: return add_odd(a * b, c);
  case FLOAT_DIV: return divide_odd(a, b);
  default: return 0;
  }
}

// --------------------------------------------------------------------------------------------- the whole

static uint64_t flush(ptx_type type, uint64_t bits) {
  uint64_t exponent = type == PTX_TYPE_f32 ? 0x7f800000 : type == PTX_TYPE_f16 ? 0x7c00 : 0;
  return exponent && !(bits & exponent) ? bits & 1ull << (ptx_bits(type) - 1) : bits;
}

static bool is_nan(ptx_type type, uint64_t bits) { return isnan(ptx_float_unpack(type, bits)); }

uint64_t ptx_float_extreme(ptx_type type, uint64_t a, uint64_t b, bool is_max, bool keeps_nan) {
  bool na = is_nan(type, a), nb = is_nan(type, b);
  if ((na && nb) || (keeps_nan && (na || nb))) return special_bits(type, true);
  if (na) return b;
  if (nb) return a;
  double x = ptx_float_unpack(type, a), y = ptx_float_unpack(type, b);
  bool a_less = x < y || (x == y && signbit(x) && !signbit(y)); // -0 < +0
  return a_less == is_max ? b : a;
}

static uint64_t clamp(ptx_type type, uint64_t bits) {
  double v = ptx_float_unpack(type, bits);
  return isnan(v) || v <= 0 ? 0 : v > 1 ? ptx_float_pack(type, 1, ROUND_N, false) : bits;
}

static uint64_t one_operation(const ptx_instruction *i, ptx_type type, ptx_float_code code, uint64_t a,
                              uint64_t b, uint64_t c) {
  uint64_t sign = 1ull << (ptx_bits(type) - 1), result;
  if (i->ftz) a = flush(type, a), b = flush(type, b), c = flush(type, c);
  if (code == FLOAT_ABS) return a & ~sign;
  if (code == FLOAT_NEG) return a ^ sign;
  if (code == FLOAT_MIN || code == FLOAT_MAX)
    return ptx_float_extreme(type, a, b, code == FLOAT_MAX, i->keeps_nan);
  double x = ptx_float_unpack(type, a), y = ptx_float_unpack(type, b), z = ptx_float_unpack(type, c);
  bool is_wide = type == PTX_TYPE_f64;
  result =
      ptx_float_pack(type, is_wide ? compute_f64(code, i->rounding, x, y, z) : compute_narrow(code, x, y, z),
                     i->rounding, false);
  // An exact zero of a sum is -0 only downwards, or where both were.
  if (!is_wide && i->rounding == ROUND_M && !(result & ~sign) &&
      (code == FLOAT_ADD || code == FLOAT_SUB || code == FLOAT_FMA))
    result = ptx_float_pack(type, compute_f64(code, ROUND_M, x, y, z), ROUND_M, false);
  if (i->ftz) result = flush(type, result);
  if (i->sat) result = clamp(type, result);
  if (i->is_relu && (result & sign || is_nan(type, result)))
    result = is_nan(type, result) ? special_bits(type, true) : 0;
  return result;
}

// Mixed precision: all sources but the last are of the second type, and are widened, which is exact.
static const uint64_t *widen(const ptx_instruction *i, const uint64_t *s, uint32_t count, uint64_t out[3]) {
  if (i->type_count < 2) return s;
  for (uint32_t k = 0; k + 1 < count; k++)
    out[k] = ptx_float_pack(i->types[0], ptx_float_unpack(i->types[1], s[k]), ROUND_N, false);
  out[count - 1] = s[count - 1];
  return out;
}

uint64_t ptx_float_operation(const ptx_instruction *i, ptx_float_code code, const uint64_t *s) {
  ptx_type type = i->types[0], part = ptx_half_type(type);
  uint32_t count = i->operand_count - 1, bits = ptx_bits(part);
  uint64_t wide[3];
  s = widen(i, s, count, wide);
  uint64_t result = 0, mask = ptx_mask_bits(bits);
  for (uint32_t at = 0; at < ptx_bits(type); at += bits)
    result |= (one_operation(i, part, code, s[0] >> at & mask, count > 1 ? s[1] >> at & mask : 0,
                             count > 2 ? s[2] >> at & mask : 0) &
               mask)
              << at;
  return result;
}

uint64_t ptx_fma(const ptx_instruction *i, const uint64_t *s) { return ptx_float_operation(i, FLOAT_FMA, s); }

uint64_t ptx_float_add(ptx_type type, uint64_t a, uint64_t b, ptx_rounding rounding) {
  ptx_instruction i = {.rounding = rounding};
  return one_operation(&i, type, FLOAT_ADD, a, b, 0);
}

bool ptx_float_compare(ptx_type type, ptx_compare how, uint64_t a, uint64_t b, bool ftz) {
  if (ftz) a = flush(type, a), b = flush(type, b);
  double x = ptx_float_unpack(type, a), y = ptx_float_unpack(type, b);
  bool unordered = isnan(x) || isnan(y);
  switch (how) {
  case COMPARE_EQ: return x == y;
  case COMPARE_NE: return !unordered && x != y;
  case COMPARE_LT: return x < y;
  case COMPARE_LE: return x <= y;
  case COMPARE_GT: return x > y;
  case COMPARE_GE: return x >= y;
  case COMPARE_EQU: return unordered || x == y;
  case COMPARE_NEU: return unordered || x != y;
  case COMPARE_LTU: return unordered || x < y;
  case COMPARE_LEU: return unordered || x <= y;
  case COMPARE_GTU: return unordered || x > y;
  case COMPARE_GEU: return unordered || x >= y;
  case COMPARE_NUM: return !unordered;
  case COMPARE_NAN: return unordered;
  case COMPARE_NONE: break;
  }
  return false;
}

// ------------------------------------------------------------------------------------------ functions

// The exact value rounded once is within every bound of the manual. f64's approximations are of 20 bits or
// so: the exact ones are within those as well.
static uint64_t function(const ptx_instruction *i, const uint64_t *s, double (*f)(double)) {
  ptx_type type = i->types[0], part = ptx_half_type(type);
  uint32_t bits = ptx_bits(part);
  uint64_t result = 0;
  for (uint32_t at = 0; at < ptx_bits(type); at += bits) {
    uint64_t v = s[0] >> at & ptx_mask_bits(bits);
    if (i->ftz) v = flush(part, v);
    uint64_t r = ptx_float_pack(part, f(ptx_float_unpack(part, v)), i->rounding, false);
    if (i->ftz) r = flush(part, r);
    result |= r << at;
  }
  return result;
}

static double reciprocal(double v) { return divide_odd(1, v); }
static double reciprocal_root(double v) { return v == 0 ? copysign(INFINITY, v) : 1 / sqrt(v); }

static uint64_t f64_function(const ptx_instruction *i, double v, bool is_root) {
  fesetround(modes[i->rounding]);
  volatile double x = v, r = is_root ? sqrt(x) : 1 / x;
  fesetround(FE_TONEAREST);
  return ptx_float_pack(PTX_TYPE_f64, r, ROUND_N, false);
}

uint64_t ptx_rcp(const ptx_instruction *i, const uint64_t *s) {
  return i->types[0] == PTX_TYPE_f64 ? f64_function(i, double_of(s[0]), false) : function(i, s, reciprocal);
}
uint64_t ptx_sqrt(const ptx_instruction *i, const uint64_t *s) {
  return i->types[0] == PTX_TYPE_f64 ? f64_function(i, double_of(s[0]), true) : function(i, s, sqrt_odd);
}
uint64_t ptx_rsqrt(const ptx_instruction *i, const uint64_t *s) { return function(i, s, reciprocal_root); }
uint64_t ptx_ex2(const ptx_instruction *i, const uint64_t *s) { return function(i, s, exp2); }
uint64_t ptx_lg2(const ptx_instruction *i, const uint64_t *s) { return function(i, s, log2); }
uint64_t ptx_sin(const ptx_instruction *i, const uint64_t *s) { return function(i, s, sin); }
uint64_t ptx_cos(const ptx_instruction *i, const uint64_t *s) { return function(i, s, cos); }
uint64_t ptx_tanh(const ptx_instruction *i, const uint64_t *s) { return function(i, s, tanh); }

// The sign of the first, the rest of the second.
uint64_t ptx_copysign(const ptx_instruction *i, const uint64_t *s) {
  uint64_t sign = 1ull << (ptx_bits(i->types[0]) - 1);
  return (s[0] & sign) | (s[1] & ~sign);
}

uint64_t ptx_testp(const ptx_instruction *i, const uint64_t *s) {
  double v = ptx_float_unpack(i->types[0], s[0]);
  double least = i->types[0] == PTX_TYPE_f64 ? 0x1p-1022 : 0x1p-126;
  switch (i->words[0]) {
  case WORD_finite: return isfinite(v);
  case WORD_infinite: return isinf(v) != 0;
  case WORD_number: return !isnan(v);
  case WORD_notanumber: return isnan(v);
  case WORD_normal: return isfinite(v) && fabs(v) >= least;
  default: return v != 0 && fabs(v) < least;
  }
}
