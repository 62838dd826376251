// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the mathematical library against a reference in long double: units in the last place over
// sweeps of bit patterns.
#ifndef KILN_TESTS_COMPILER_MATHLIB_SWEEP_H
#define KILN_TESTS_COMPILER_MATHLIB_SWEEP_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/harness.h"

typedef long double reference(long double x);

typedef struct function {
  const char *text; // of the expression in x
  reference *exact;
  double ulps;     // bound
  double absolute; // an error that is no larger is none
} function;

// A type of floats: `digits` with the hidden bit, `least` and `largest` as frexp has them.
typedef struct format {
  const char *name;
  int digits, exponent, least;
  long double largest;
  size_t size;
} format;

static const format single_format = {"f32", 24, 8, -125, 0x1.fffffep127L, 4};
static const format double_format = {"f64", 53, 11, -1021, 0x1.fffffffffffffp1023L, 8};
static const format half_format = {"f16", 11, 5, -13, 65504, 2};
static const format brain_format = {"bf16", 8, 8, -125, 0x1.fep127L, 2};

enum { TILE = 1024 };

// Runs `expression` of x in type `type` and y in type `second` over `count` elements (a multiple of TILE).
static inline void run_second(const char *type, const char *expression, const char *second, const void *x,
                              const void *y, void *out, size_t count, size_t size, size_t second_size) {
  char source[600];
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  snprintf(source, sizeof source,
           "kiln 1\nkernel k(a: in *%s, b: in *%s, o: out *%s) @grid(1) {\n  let i = pid(0) * %d + "
           "iota(%d)\n  let x = load(a + i)\n  let y = load(b + i)\n"
           "  store(o + i, %s)\n}\n",
           type, second, type, TILE, TILE, expression);
  kiln_unit *unit = kiln_unit_open(arena, "sweep.kiln", source, strlen(source), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d) : NULL;
  if (!kernel) FAIL("%s: %s", expression, d.items[0].text);
  kiln_error err;
  const void *args[] = {x, y, out};
  uint32_t grid[] = {(uint32_t)(count / TILE), 1, 1};
  kiln_memory_range ranges[] = {{x, count * size}, {y, count * second_size}, {out, count * size}};
  kiln_interpret_options options = {.ranges = ranges, .range_count = 3};
  CHECK_OK(kiln_interpret(kernel, args, grid, &options, &err), err);
  kiln_arena_destroy(arena);
}

static inline void run(const char *type, const char *expression, const void *x, const void *y, void *out,
                       size_t count, size_t size) {
  run_second(type, expression, type, x, y, out, count, size, size);
}

// Distance in units in the last place of `exact` rounded to the type. Zeros have signs.
static inline double ulps(long double got, long double exact, const format *t) {
  long double near = t->largest * (1 - fmaxl(1e-7L, ldexpl(1, 1 - t->digits)));
  if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
  if (isnan(got) || (exact == 0 && got != 0)) return INFINITY;
  if ((exact == 0 || isinf(got)) && !signbit(got) != !signbit(exact)) return INFINITY;
  if (fabsl(exact) > t->largest) return fabsl(got) >= near && !signbit(got) == !signbit(exact) ? 0 : INFINITY;
  if (isinf(got)) return fabsl(exact) > near ? 0 : INFINITY;
  int e;
  frexpl(exact, &e);
  if (e < t->least) e = t->least;
  return (double)fabsl((got - exact) / ldexpl(1, e - t->digits));
}

static inline long double number(const format *t, uint64_t bits) {
  uint32_t low = (uint32_t)(t == &brain_format ? bits << 16 : bits);
  float single;
  double wide;
  _Float16 half;
  memcpy(&single, &low, 4), memcpy(&wide, &bits, 8), memcpy(&half, &bits, 2);
  return t->size == 8 ? (long double)wide : t == &half_format ? (long double)half : (long double)single;
}
static inline long double element(const format *t, const void *array, size_t i) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)array + i * t->size, t->size);
  return number(t, bits);
}

// A bit pattern of the type: half of them any, half with exponent and mantissa at edges: zeros, denormals, powers of
// two, integers and halves and what is next to them, the largest, infinities, NaN.
static inline uint64_t draw(uint64_t *state, const format *t) {
  int m = t->digits - 1;
  uint64_t r = kiln_test_random(state), any = kiln_test_random(state) >> (64 - 8 * t->size), one = 1;
  if (r & 1) return any;
  uint64_t top = (one << t->exponent) - 1, bias = top / 2, ones = (one << m) - 1;
  uint64_t bit = one << (r >> 20) % (unsigned)m, near = bias - 3 + (r >> 8) % (unsigned)(m + 6);
  uint64_t exponents[] = {0,       0,  1, 2, bias - 1, bias, bias + 1, near, near, near, any >> m & top,
                          top - 1, top};
  uint64_t mantissas[] = {0,         0, 1, ones, ones - 1, (ones + 1) / 2, ones / 2, bit, ones & ~(bit - 1),
                          any & ones};
  return (r >> 63) << (m + t->exponent) | exponents[(r >> 32) % (sizeof exponents / 8)] << m |
         mantissas[(r >> 40) % (sizeof mantissas / 8)];
}
static inline void *draw_all(const format *t, size_t count, uint64_t seed) {
  char *x = calloc(count, t->size);
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = draw(&seed, t);
    memcpy(x + i * t->size, &bits, t->size);
  }
  return x;
}

// Draws `count` arguments; of a type of 16 bits it takes all.
static inline void sweep(const format *t, const function *f, size_t count) {
  if (t->size == 2) count = 1 << 16;
  char *x = draw_all(t, count, 7), *y = calloc(count, t->size);
  for (size_t i = 0; t->size == 2 && i < count; i++) memcpy(x + 2 * i, &(uint16_t){(uint16_t)i}, 2);
  double worst = 0;
  long double at = 0, got = 0;
  run(t->name, f->text, x, x, y, count, t->size);
  for (size_t i = 0; i < count; i++) {
    long double v = element(t, x, i), r = element(t, y, i), exact = f->exact(v);
    double u = fabsl(r - exact) <= (long double)f->absolute ? 0 : ulps(r, exact, t);
    if (u > worst) worst = u, at = v, got = r;
  }
  free(x), free(y);
  double bound = t->size == 2 ? 1 : f->ulps;
  printf("%-4s %-14s %6.2f ulp at %.9Lg (bound %g)\n", t->name, f->text, worst, at, bound);
  if (!(worst <= bound))
    FAIL("%s %s: %.3f ulp at %.17Lg (%La): %La, expected %La; the bound is %g", t->name, f->text, worst, at,
         at, got, f->exact(at), bound);
}

typedef struct pair_function {
  const char *text; // of the expression in x and y
  long double (*exact)(long double x, long double y);
  double ulps, ulps_64;
  double slope_64; // more of f64 per binary order of the result
} pair_function;

static inline void sweep_pairs(const format *t, const pair_function *f) {
  size_t count = kiln_test_full() ? 1 << 17 : 1 << 14;
  void *x = draw_all(t, count, 3), *y = draw_all(t, count, 4), *out = calloc(count, t->size);
  double bound = t->size == 2 && f->ulps > 0 ? 1 : t->size == 8 ? f->ulps_64 : f->ulps, worst = 0;
  // every fourth y is x, or as large
  for (size_t i = 0; i < count; i += 4) {
    memcpy((char *)y + i * t->size, (char *)x + i * t->size, t->size);
    ((char *)y)[i * t->size] = (char)(i >> 2);
  }
  run(t->name, f->text, x, y, out, count, t->size);
  for (size_t i = 0; i < count; i++) {
    long double a = element(t, x, i), b = element(t, y, i), got = element(t, out, i), want = f->exact(a, b);
    double u = ulps(got, want, t);
    if (u > worst) worst = u;
    double orders = t->size == 8 && isnormal(want) ? (double)fabsl(log2l(fabsl(want))) : 0;
    if (!(u <= bound + f->slope_64 * fmin(orders, 1075)))
      FAIL("%s of %La and %La in %s is %La, expected %La: %.2f ulp", f->text, a, b, t->name, got, want, u);
  }
  printf("%-4s %-14s %6.2f ulp (bound %g)\n", t->name, f->text, worst, bound);
  free(x), free(y), free(out);
}

#endif
