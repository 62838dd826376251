// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the mathematical library against a reference in long double: units in the last place over
// sweeps of bit patterns.
#ifndef KILN_TESTS_COMPILER_MATHLIB_SWEEP_H
#define KILN_TESTS_COMPILER_MATHLIB_SWEEP_H

#include <math.h>
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
  double lo, hi; // sweep where |x| lies between; signs both
  double ulps;   // bound
  bool positive; // only x > 0
} function;

enum { TILE = 1024 };

// Runs `expression` in type `type` over `count` elements (a multiple of TILE).
static inline void run(const char *type, const char *expression, const void *x, const void *y, void *out,
                       size_t count, size_t size) {
  char source[600];
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  snprintf(source, sizeof source,
           "kiln 1\nkernel k(a: in *%s, b: in *%s, o: out *%s) @grid(1) {\n  let i = pid(0) * %d + "
           "iota(%d)\n  let x = load(a + i)\n  let y = load(b + i)\n"
           "  store(o + i, %s)\n}\n",
           type, type, type, TILE, TILE, expression);
  kiln_unit *unit = kiln_unit_open(arena, "sweep.kiln", source, strlen(source), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, NULL, &d) : NULL;
  if (!kernel) FAIL("%s: %s", expression, d.items[0].text);
  kiln_error err;
  const void *args[] = {x, y, out};
  uint32_t grid[] = {(uint32_t)(count / TILE), 1, 1};
  kiln_memory_range ranges[] = {{x, count * size}, {y, count * size}, {out, count * size}};
  kiln_interpret_options options = {.ranges = ranges, .range_count = 3};
  CHECK_OK(kiln_interpret(kernel, args, grid, &options, &err), err);
  kiln_arena_destroy(arena);
}

// Distance in units in the last place of `exact` rounded to a type with `digits` bits and least exponent
// `least`.
static inline double ulps(long double got, long double exact, int digits, int least, long double largest) {
  if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
  if (isnan(got)) return INFINITY;
  if (fabsl(exact) > largest)
    return isinf(got) || fabsl(got) >= largest * 0.9999999L ? !signbit(got) == !signbit(exact) ? 0 : INFINITY
                                                            : INFINITY;
  if (isinf(got)) return fabsl(exact) > largest * 0.9999999L ? 0 : INFINITY;
  if (exact == 0) return got == 0 ? 0 : INFINITY;
  int e;
  frexpl(exact, &e);
  if (e < least) e = least;
  return (double)fabsl((got - exact) / ldexpl(1, e - digits));
}

static inline void report(const char *type, const function *f, double worst, long double at) {
  printf("%-4s %-14s %6.2f ulp at %.9Lg (bound %g)\n", type, f->text, worst, at, f->ulps);
  if (!(worst <= f->ulps))
    FAIL("%s %s: %.3f ulp at %.17Lg (%La), the bound is %g", type, f->text, worst, at, at, f->ulps);
}

static inline bool in_range(const function *f, double v) {
  return fabs(v) >= f->lo && fabs(v) <= f->hi && !(f->positive && !(v > 0));
}

static inline void sweep_single(const function *f, size_t count) {
  float *x = calloc(count, sizeof *x), *y = calloc(count, sizeof *y);
  double worst = 0;
  long double at = 0;
  uint32_t step = (uint32_t)(UINT64_C(0x100000000) / count) | 1;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits = (uint32_t)i * step;
    memcpy(&x[i], &bits, 4);
  }
  run("f32", f->text, x, x, y, count, sizeof *x);
  for (size_t i = 0; i < count; i++) {
    if (!in_range(f, x[i])) continue;
    double u = ulps(y[i], f->exact(x[i]), 24, -125, 0x1.fffffep127L);
    if (u > worst) worst = u, at = x[i];
  }
  free(x), free(y);
  report("f32", f, worst, at);
}

static inline void sweep_double(const function *f, size_t count) {
  double *x = calloc(count, sizeof *x), *y = calloc(count, sizeof *y), worst = 0;
  long double at = 0;
  uint64_t state = 7;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = kiln_test_random(&state);
    if (i % 2)
      bits = (bits & ~(UINT64_C(0x7ff) << 52)) | (UINT64_C(1000) + bits % 40)
                                                     << 52; // half of them of everyday size
    memcpy(&x[i], &bits, 8);
  }
  run("f64", f->text, x, x, y, count, sizeof *x);
  for (size_t i = 0; i < count; i++) {
    if (!in_range(f, x[i])) continue;
    double u = ulps(y[i], f->exact(x[i]), 53, -1021, 0x1.fffffffffffffp1023L);
    if (u > worst) worst = u, at = x[i];
  }
  free(x), free(y);
  report("f64", f, worst, at);
}

#endif
