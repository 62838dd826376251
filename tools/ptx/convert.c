// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs cvt in all its forms: between integers, between floats, between the two, and packing of two floats.
#include <math.h>

#include "tools/ptx/float.h"

double ptx_integral(double v, ptx_rounding rounding) {
  switch (rounding) {
  case ROUND_Z: return trunc(v);
  case ROUND_M: return floor(v);
  case ROUND_P: return ceil(v);
  default: return nearbyint(v); // to even: the mode is never left changed
  }
}

static bool is_float(ptx_type type) { return ptx_types[type].kind == PTX_CLASS_FLOAT; }
static bool is_signed(ptx_type type) { return ptx_types[type].kind == PTX_CLASS_SIGNED; }

static int64_t extend(ptx_type type, uint64_t v) {
  uint32_t shift = 64 - ptx_bits(type);
  return is_signed(type) ? (int64_t)(v << shift) >> shift : (int64_t)(v << shift >> shift);
}

static uint64_t integer_to_integer(const ptx_instruction *i, uint64_t v) {
  ptx_type to = i->types[0], from = i->types[1];
  __int128 number =
      is_signed(from) ? (__int128)extend(from, v) : (__int128)(v & ptx_mask_bits(ptx_bits(from)));
  uint32_t bits = ptx_bits(to);
  __int128 most = is_signed(to) ? ((__int128)1 << (bits - 1)) - 1 : ((__int128)1 << bits) - 1,
           least = is_signed(to) ? -most - 1 : 0;
  if (i->sat) number = number > most ? most : number < least ? least : number;
  // A register that is wider than the result gets its extension.
  uint64_t cut = (uint64_t)number & ptx_mask_bits(bits);
  return (uint64_t)extend(to, cut);
}

// Out of range: the nearest. NaN: 0, and only the top bit where one of the two has 64 bits.
static uint64_t float_to_integer(const ptx_instruction *i, uint64_t v) {
  ptx_type to = i->types[0];
  double value = ptx_float_unpack(i->types[1], v);
  uint32_t bits = ptx_bits(to);
  if (isnan(value)) return i->types[1] == PTX_TYPE_f64 || bits == 64 ? 1ull << (bits - 1) : 0;
  if (i->ftz && fabs(value) < 0x1p-126) value = 0;
  value = ptx_integral(value, i->rounding);
  double most = ldexp(1, (int)bits - is_signed(to));
  if (value >= most) return ptx_mask_bits(bits - is_signed(to));
  if (is_signed(to))
    return value < -most ? (uint64_t)extend(to, 1ull << (bits - 1)) : (uint64_t)(int64_t)value;
  return value < 0 ? 0 : (uint64_t)value;
}

static uint64_t integer_to_float(const ptx_instruction *i, uint64_t v) {
  ptx_type from = i->types[1];
  int64_t number = extend(from, v);
  bool is_negative = is_signed(from) && number < 0;
  uint64_t magnitude = is_negative ? 0 - (uint64_t)number : (uint64_t)number;
  if (i->types[0] != PTX_TYPE_f64)
    return ptx_float_pack(i->types[0], ptx_odd_double(magnitude, is_negative), i->rounding, false);
  // 64 bits may not fit a double: high and low halves are exact, their sum rounds once.
  ptx_instruction sum = {.types = {PTX_TYPE_f64}, .rounding = i->rounding, .operand_count = 3};
  double high = (double)(magnitude >> 32) * 4294967296.0, low = (double)(magnitude & 0xffffffff);
  uint64_t parts[2] = {ptx_float_pack(PTX_TYPE_f64, is_negative ? -high : high, ROUND_N, false),
                       ptx_float_pack(PTX_TYPE_f64, is_negative ? -low : low, ROUND_N, false)};
  return ptx_float_operation(&sum, FLOAT_ADD, parts);
}

static uint64_t float_to_float(const ptx_instruction *i, ptx_type to, ptx_type from, uint64_t v) {
  double value = ptx_float_unpack(from, v);
  bool is_narrow = ptx_bits(to) <= 8;
  if (i->ftz && from == PTX_TYPE_f32 && fabs(value) < 0x1p-126) value = copysign(0, value);
  if (i->is_integral) value = ptx_integral(value, i->rounding);
  if (i->is_relu && value < 0) value = 0;
  if (i->sat && !is_narrow)
    value = isnan(value) || value <= 0 ? 0 : value > 1 ? 1 : value; // .satfinite is of the narrow types
  uint64_t bits = ptx_float_pack(to, value, i->is_integral ? ROUND_N : i->rounding, is_narrow && i->sat);
  if (i->ftz && to == PTX_TYPE_f32 && !(bits & 0x7f800000)) bits &= 0x80000000;
  return bits;
}

// cvt.f16x2.f32 d, a, b: a above b. cvt.f16x2.e4m3x2 d, a: both halves.
static uint64_t convert_pair(const ptx_instruction *i, const uint64_t *s) {
  ptx_type to = ptx_half_type(i->types[0]), from = ptx_half_type(i->types[1]);
  uint32_t to_bits = ptx_bits(to), from_bits = ptx_bits(from);
  bool is_two = i->operand_count == 3;
  uint64_t low = is_two ? s[1] : s[0] & ptx_mask_bits(from_bits), high = is_two ? s[0] : s[0] >> from_bits;
  return float_to_float(i, to, from, high) << to_bits | float_to_float(i, to, from, low);
}

uint64_t ptx_cvt(const ptx_instruction *i, const uint64_t *s) {
  ptx_type to = i->types[0], from = i->types[1];
  if (ptx_types[to].kind == PTX_CLASS_PAIR) return convert_pair(i, s);
  if (is_float(to)) return is_float(from) ? float_to_float(i, to, from, s[0]) : integer_to_float(i, s[0]);
  return is_float(from) ? float_to_integer(i, s[0]) : integer_to_integer(i, s[0]);
}
