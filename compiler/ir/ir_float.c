// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bit patterns of the float types (IEEE 754 binary16/32/64, bfloat16, OCP 8-bit floating point E4M3 and E5M2)
// and doubles.
#include "compiler/ir/ir.h"

#include <math.h>
#include <string.h>

typedef struct format {
  uint8_t exponent, mantissa; // bits
  bool infinity;              // e4m3 has none: its largest pattern is NaN
} format;

// By scalar; f32 and f64 are the machine's own.
static const format formats[KILN_SCALAR_COUNT] = {
    [KILN_F16] = {5, 10, true},
    [KILN_BF16] = {8, 7, true},
    [KILN_E4M3] = {4, 3, false},
    [KILN_E5M2] = {5, 2, true},
};

static uint64_t nan_bits(format f) {
  uint64_t exponent = ((1u << f.exponent) - 1u) << f.mantissa;
  return f.infinity ? exponent | 1u << (f.mantissa - 1) : exponent | ((1u << f.mantissa) - 1u);
}

/// The largest finite pattern.
static uint64_t largest(format f) {
  return f.infinity ? (((1u << f.exponent) - 1u) << f.mantissa) - 1u : nan_bits(f) - 1u;
}

// The same for what is a normal number and stays one: the exponent is moved, the last place rounded to even.
static bool encode_normal(format f, double value, uint64_t *out) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  int bias = (1 << (f.exponent - 1)) - 1, exponent = (int)(bits >> 52 & 0x7ff) - 1023,
      shift = 52 - f.mantissa;
  if (exponent < 1 - bias || exponent >= bias) return false;
  uint64_t magnitude = (uint64_t)(exponent + bias) << 52 | (bits & ((UINT64_C(1) << 52) - 1));
  magnitude += ((UINT64_C(1) << (shift - 1)) - 1) + (magnitude >> shift & 1);
  *out = bits >> 63 << (f.exponent + f.mantissa) | magnitude >> shift;
  return true;
}

// One rounding from the exact double: scale the magnitude to units of the last place, round to even, and let
// a carry run into the exponent.
static uint64_t encode(format f, double value, bool saturate) {
  uint64_t normal;
  if (encode_normal(f, value, &normal)) return normal;
  uint64_t sign = signbit(value) ? 1ull << (f.exponent + f.mantissa) : 0;
  int bias = (1 << (f.exponent - 1)) - 1, e;
  if (isnan(value)) return nan_bits(f);
  double magnitude = fabs(value);
  if (isinf(value)) return sign | (saturate ? largest(f) : f.infinity ? largest(f) + 1 : nan_bits(f));
  if (magnitude == 0) return sign;
  frexp(magnitude, &e); // magnitude in [2^(e-1), 2^e)
  int exponent = e - 1 < 1 - bias ? 1 - bias : e - 1;
  double units = nearbyint(ldexp(magnitude, f.mantissa - exponent));
  uint64_t bits = (uint64_t)units;
  if (bits >> f.mantissa) bits += (uint64_t)(exponent + bias - 1) << f.mantissa;
  if (bits > largest(f)) bits = saturate ? largest(f) : f.infinity ? largest(f) + 1 : nan_bits(f);
  return sign | bits;
}

uint64_t ir_float_to_bits(kiln_scalar scalar, double value, bool saturate) {
  if (scalar == KILN_F64) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  if (scalar == KILN_F32) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
  }
  bool fp8 = kiln_scalars[scalar].type_class == KILN_CLASS_FP8;
  return encode(formats[scalar], value, fp8 && saturate);
}

// A normal number is put into a double's fields; of the rest a denormal is so many units of the last place.
static double decode(format f, uint64_t bits) {
  uint64_t sign = bits >> (f.exponent + f.mantissa) & 1, top = (UINT64_C(1) << f.exponent) - 1,
           bias = top >> 1, exponent = bits >> f.mantissa & top, all = (UINT64_C(1) << f.mantissa) - 1,
           mantissa = bits & all;
  if (exponent == top && f.infinity) return mantissa ? NAN : sign ? -INFINITY : INFINITY;
  if (exponent == top && mantissa == all) return NAN;
  uint64_t unit = 1023 - bias + 1 - f.mantissa; // the exponent of a denormal's last place, as a double has it
  uint64_t number = exponent ? sign << 63 | (exponent + 1023 - bias) << 52 | mantissa << (52 - f.mantissa)
                             : sign << 63 | unit << 52;
  double out;
  memcpy(&out, &number, sizeof out);
  return exponent ? out : out * (double)mantissa;
}

double ir_bits_to_float(kiln_scalar scalar, uint64_t bits) {
  if (scalar == KILN_F64) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
  }
  if (scalar == KILN_F32) {
    uint32_t narrow = (uint32_t)bits;
    float v;
    memcpy(&v, &narrow, sizeof v);
    return v;
  }
  return decode(formats[scalar], bits);
}
