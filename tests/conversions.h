// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between all pairs of element types against exact arithmetic: what is converted, kernels that
// convert it, and what must come out by integers of 128 bits. Shares nothing with the compiler but the table
// of types.
//
// A float becomes an integer by truncation; what does not fit saturates and NaN gives 0. To a float is one
// rounding, to the nearest with ties to even or to zero. fp8 saturates unless said otherwise; rounding to
// zero leaves a number that is too large the largest one.
#ifndef KILN_TESTS_CONVERSIONS_H
#define KILN_TESTS_CONVERSIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/types.h"

enum { CONVERSION_TILE = 256, MOST_CONVERSIONS = 64 };

typedef struct conversion {
  kiln_scalar from, to;
  bool is_unsigned, to_zero, no_saturation;
} conversion;

static inline bool conversion_is(kiln_scalar s, unsigned classes) {
  return kiln_scalars[s].type_class & classes;
}

/// All from one type, in the order of the kernel's outputs; returns how many.
static inline unsigned conversions_from(kiln_scalar from, conversion out[MOST_CONVERSIONS]) {
  unsigned count = 0;
  for (unsigned to = 0; to < KILN_SCALAR_COUNT; to++)
    for (unsigned bits = 0; bits < 8 && to != from; bits++) {
      conversion c = {from, (kiln_scalar)to, bits & 1, bits >> 1 & 1, bits >> 2 & 1};
      bool to_float = conversion_is(c.to, KILN_CLASS_FLOAT | KILN_CLASS_FP8);
      bool integers = conversion_is(from, KILN_CLASS_INT) || conversion_is(c.to, KILN_CLASS_INT);
      if ((c.is_unsigned && !integers) || (c.to_zero && !to_float) ||
          (c.no_saturation && !conversion_is(c.to, KILN_CLASS_FP8)))
        continue;
      out[count++] = c;
    }
  return count;
}

static inline const char *conversion_text(conversion c, const char *operand, char out[128]) {
  snprintf(out, 128, "%s(%s, %s%s%s)", c.is_unsigned ? "ucast" : "cast", operand, kiln_scalars[c.to].spelling,
           c.to_zero ? ", round = rtz" : "", c.no_saturation ? ", sat = false" : "");
  return out;
}

/// Kernel from_T: out pointers o0, o1, ... in order, the input last.
static inline void conversion_kernel(kiln_scalar from, char *out, size_t size) {
  conversion all[MOST_CONVERSIONS];
  unsigned count = conversions_from(from, all);
  size_t at = (size_t)snprintf(out, size, "kernel from_%s(", kiln_scalars[from].spelling);
  char text[128];
  for (unsigned i = 0; i < count; i++)
    at += (size_t)snprintf(out + at, size - at, "o%u: out *%s, ", i, kiln_scalars[all[i].to].spelling);
  at += (size_t)snprintf(out + at, size - at,
                         "x: in *%s, n: i32) @grid(cdiv(n, %d)) {\n  let i = pid(0) * %d + iota(%d)\n"
                         "  let v = load(x + i)\n",
                         kiln_scalars[from].spelling, CONVERSION_TILE, CONVERSION_TILE, CONVERSION_TILE);
  for (unsigned i = 0; i < count; i++)
    at += (size_t)snprintf(out + at, size - at, "  store(o%u + i, %s)\n", i,
                           conversion_text(all[i], "v", text));
  snprintf(out + at, size - at, "}\n");
}

// --------------------------------------------------------------------------------------------- inputs

typedef struct conversion_format {
  unsigned exponent, fraction; // bits
  bool infinity;               // e4m3 has none: its largest pattern is NaN
} conversion_format;

static inline conversion_format conversion_format_of(kiln_scalar s) {
  switch (s) {
  case KILN_F16: return (conversion_format){5, 10, true};
  case KILN_BF16: return (conversion_format){8, 7, true};
  case KILN_F32: return (conversion_format){8, 23, true};
  case KILN_F64: return (conversion_format){11, 52, true};
  case KILN_E4M3: return (conversion_format){4, 3, false};
  default: return (conversion_format){5, 2, true};
  }
}

/// splitmix64, as the harness has it, which programs that are carried do not link.
static inline uint64_t conversion_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/// `digits` leading bits of a number of `length` bits, then a half, less, more, or none of it.
static inline uint64_t near_halves(uint64_t *random, unsigned length) {
  uint64_t r = conversion_random(random) >> 8;
  unsigned digits = (unsigned)(r % (length ? length : 1)) + 1;
  uint64_t top =
      length
          ? (UINT64_C(1) << (length - 1) | (conversion_random(random) & ((UINT64_C(1) << (length - 1)) - 1)))
          : 0;
  if (digits >= length) return top;
  unsigned rest = length - digits;
  uint64_t half = UINT64_C(1) << (rest - 1), kept = top >> rest << rest;
  static const int64_t beside[] = {0, 0, 0, 1, -1, 2, -2};
  switch (r >> 20 & 3) {
  case 0: return kept | half;
  case 1: return kept + half + (uint64_t)beside[(r >> 24) % 7];
  case 2: return kept + (uint64_t)beside[(r >> 24) % 7];
  default: return kept | half | (UINT64_C(1) << ((r >> 24) % rest)); // a bit somewhere below
  }
}

/// The bits of input `k` of `count`: all patterns where they are no more than that, else drawn.
static inline uint64_t conversion_input(kiln_scalar s, uint64_t k, uint64_t count, uint64_t *random) {
  unsigned bits = kiln_scalars[s].bits;
  uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX, r = conversion_random(random) >> 8;
  if (bits <= 16 && count >> bits) return k & mask;
  if (r % 8 == 0) return conversion_random(random) & mask;
  if (!conversion_is(s, KILN_CLASS_FLOAT | KILN_CLASS_FP8)) {
    uint64_t size = near_halves(random, (unsigned)(r >> 8) % (bits + 1));
    return (r >> 16 & 1 ? 0 - size : size) & mask;
  }
  conversion_format f = conversion_format_of(s);
  uint64_t fraction = near_halves(random, f.fraction + 1) & ((UINT64_C(1) << f.fraction) - 1),
           sign = r >> 16 & 1, top = (UINT64_C(1) << f.exponent) - 1,
           exponent = conversion_random(random) >> 16 & top;
  if (r >> 17 & 1) exponent = (top >> 1) + (r >> 20) % 80 - 12; // near integers and the small types
  if (r >> 30 & 1) exponent &= top;
  if (exponent > top || r % 64 == 1) exponent = r & 128 ? top : 0;
  return (sign << (bits - 1) | exponent << f.fraction | fraction) & mask;
}

// -------------------------------------------------------------------------------------------- reference

/// sign * m * 2^e.
typedef struct exact_number {
  bool is_nan, is_infinite, negative;
  unsigned __int128 m;
  int e;
} exact_number;

static inline exact_number exact_of(conversion c, uint64_t bits) {
  exact_number n = {0};
  unsigned width = kiln_scalars[c.from].bits;
  if (!conversion_is(c.from, KILN_CLASS_FLOAT | KILN_CLASS_FP8)) {
    n.negative = conversion_is(c.from, KILN_CLASS_INT) && !c.is_unsigned && bits >> (width - 1) & 1;
    n.m = n.negative ? ((unsigned __int128)1 << width) - bits : bits;
    return n;
  }
  conversion_format f = conversion_format_of(c.from);
  uint64_t fraction = bits & ((UINT64_C(1) << f.fraction) - 1), top = (UINT64_C(1) << f.exponent) - 1,
           exponent = bits >> f.fraction & top;
  n.negative = bits >> (width - 1) & 1;
  bool is_last = exponent == top;
  n.is_nan = is_last && (f.infinity ? fraction != 0 : fraction == (UINT64_C(1) << f.fraction) - 1);
  n.is_infinite = is_last && f.infinity && !fraction;
  n.m = exponent ? fraction | UINT64_C(1) << f.fraction : fraction;
  n.e = (int)(exponent ? exponent : 1) - (int)(top >> 1) - (int)f.fraction;
  return n;
}

static inline uint64_t exact_to_integer(conversion c, exact_number n) {
  unsigned width = kiln_scalars[c.to].bits;
  bool from_float = conversion_is(c.from, KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  uint64_t mask = width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;
  if (n.is_nan) return 0;
  if (!from_float) return (n.negative ? 0 - (uint64_t)n.m : (uint64_t)n.m) & mask; // integers wrap
  unsigned __int128 limit = c.is_unsigned ? (n.negative ? 0 : mask)
                            : n.negative  ? (mask >> 1) + (unsigned __int128)1
                                          : mask >> 1;
  unsigned __int128 size = n.m;
  if (n.is_infinite || (n.m && n.e > 64)) size = limit;
  else if (n.e >= 0) size = n.m << n.e; // at most 53 bits and 64 more
  else size = n.e < -127 ? 0 : n.m >> -n.e;
  if (size > limit) size = limit;
  return (n.negative ? 0 - (uint64_t)size : (uint64_t)size) & mask;
}

static inline uint64_t exact_to_float(conversion c, exact_number n) {
  conversion_format f = conversion_format_of(c.to);
  bool saturates = conversion_is(c.to, KILN_CLASS_FP8) && !c.no_saturation;
  int bias = (1 << (f.exponent - 1)) - 1, length = 0;
  uint64_t top = ((UINT64_C(1) << f.exponent) - 1) << f.fraction,
           sign = (uint64_t)n.negative << (f.exponent + f.fraction),
           largest = f.infinity ? top - 1 : top + (UINT64_C(1) << f.fraction) - 2, beyond = largest + 1;
  if (n.is_nan) return f.infinity ? top | 1 : largest + 1;
  if (n.is_infinite) return sign | (saturates ? largest : beyond);
  if (!n.m) return sign;
  for (unsigned __int128 m = n.m; m; m >>= 1) length++;
  int last = length - 1 + n.e - (int)f.fraction; // exponent of the result's last place
  if (last < 1 - bias - (int)f.fraction) last = 1 - bias - (int)f.fraction;
  int shift = last - n.e;
  uint64_t units;
  if (shift <= 0) {
    units = (uint64_t)(n.m << -shift);
  } else if (shift > 120) {
    units = 0; // less than half of the least
  } else {
    unsigned __int128 rest = n.m & (((unsigned __int128)1 << shift) - 1),
                      half = (unsigned __int128)1 << (shift - 1);
    units = (uint64_t)(n.m >> shift);
    if (!c.to_zero) units += rest > half || (rest == half && units & 1);
  }
  unsigned __int128 bits =
      (unsigned __int128)units + ((unsigned __int128)(last + (int)f.fraction + bias - 1) << f.fraction);
  if (bits > largest) bits = c.to_zero || saturates ? largest : beyond;
  return sign | (uint64_t)bits;
}

static inline bool conversion_is_nan(kiln_scalar s, uint64_t bits) {
  return conversion_is(s, KILN_CLASS_FLOAT | KILN_CLASS_FP8) &&
         exact_of((conversion){.from = s, .to = s}, bits).is_nan;
}

/// What must come out; any NaN stands for all.
static inline uint64_t conversion_result(conversion c, uint64_t bits) {
  exact_number n = exact_of(c, bits);
  if (c.to == KILN_I1) return n.is_nan || n.is_infinite || n.m != 0;
  return conversion_is(c.to, KILN_CLASS_INT) ? exact_to_integer(c, n) : exact_to_float(c, n);
}

static inline bool conversion_agrees(conversion c, uint64_t want, uint64_t got) {
  return want == got || (conversion_is_nan(c.to, want) && conversion_is_nan(c.to, got));
}

#endif
