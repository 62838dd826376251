// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the kernels of kernels/elementwise.kiln against plain C.
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/cases.h"

enum { N = 5003 }; // not a multiple of any block

typedef double unary(double x);

static double same(double x) { return x; }
static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2.0))); }
static double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double silu(double x) { return x / (1 + exp(-x)); }

static void unary_case(run *r, const char *kernel, kiln_scalar s, unary *f, double relative) {
  array *x = input(r, s, N, s == KILN_I8 ? -128 : -6, s == KILN_I8 ? 127 : 6), *y = output(r, s, N);
  double want[N];
  CALL(r, instance(kernel, s), A(x), A(y), I(N));
  for (int i = 0; i < N; i++) want[i] = f(x->v[i]);
  expect(r, y, want, relative ? 2e-6 : 0, relative);
}

static void copies(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_F16, KILN_BF16, KILN_I8};
  for (int i = 0; i < 4; i++) unary_case(r, "copy", types[i], same, 0);
}

static const kiln_scalar floats[] = {KILN_F32, KILN_F16, KILN_BF16};

static void gelus(run *r) {
  for (int i = 0; i < 3; i++) unary_case(r, "gelu", floats[i], gelu, tolerance(floats[i]));
}

static void tanh_gelus(run *r) {
  for (int i = 0; i < 3; i++) unary_case(r, "gelu_tanh", floats[i], gelu_tanh, 4 * tolerance(floats[i]));
}

static void sums(run *r) {
  for (int t = 0; t < 3; t++) {
    array *x = input(r, floats[t], N, -4, 4), *y = input(r, floats[t], N, -4, 4),
          *z = output(r, floats[t], N);
    double want[N];
    CALL(r, instance("add", floats[t]), A(x), A(y), A(z), I(N));
    for (int i = 0; i < N; i++) want[i] = x->v[i] + y->v[i];
    expect(r, z, want, 0, tolerance(floats[t]));
  }
}

static void chains(run *r) {
  for (int t = 0; t < 2; t++) {
    array *x = input(r, floats[t], N, -1, 1), *y = output(r, floats[t], N);
    double want[N];
    CALL(r, instance("fma_chain", floats[t]), A(x), A(y), I(N), I(50), R(0.75), R(0.5));
    for (int i = 0; i < N; i++) {
      want[i] = x->v[i];
      for (int k = 0; k < 50; k++) want[i] = want[i] * 0.75 + 0.5;
    }
    expect(r, y, want, 0, tolerance(floats[t]));
  }
}

static void gated(run *r) {
  for (int t = 0; t < 3; t++) {
    array *g = input(r, floats[t], N, -6, 6), *u = input(r, floats[t], N, -3, 3),
          *y = output(r, floats[t], N);
    double want[N];
    CALL(r, instance("silu_mul", floats[t]), A(g), A(u), A(y), I(N));
    for (int i = 0; i < N; i++) want[i] = silu(g->v[i]) * u->v[i];
    expect(r, y, want, 2e-6, 2 * tolerance(floats[t]));
  }
}

static void geglus(run *r) {
  static const int shapes[][2] = {{1100, 1}, {600, 2}, {300, 3}, {150, 7}, {70, 13},
                                  {40, 25},  {40, 50}, {5, 200}, {3, 400}, {3, 1500}};
  double want[3 * 1500];
  for (size_t t = 0; t < 3 * sizeof shapes / sizeof *shapes; t++) {
    const kiln_scalar s = floats[t % 3];
    const int rows = shapes[t / 3][0], cols = shapes[t / 3][1];
    array *x = input(r, s, (size_t)(rows * 2 * cols), -4, 4), *y = output(r, s, (size_t)(rows * cols));
    CALL(r, instance("geglu", s), A(x), A(y), I(rows), I(cols));
    for (int i = 0; i < rows; i++)
      for (int c = 0; c < cols; c++)
        want[i * cols + c] = gelu(x->v[i * 2 * cols + c]) * x->v[i * 2 * cols + cols + c];
    expect(r, y, want, 4e-6, 2 * tolerance(s));
  }
}

static void empties(run *r) { // a launch of nothing writes nothing
  double want[4] = {0};
  array *x = input(r, KILN_F32, 4, -1, 1), *y = zeros(r, KILN_F32, 4);
  CALL(r, "copy[T=f32]", A(x), A(y), I(0));
  expect(r, y, want, 0, 0);
}

const kernel_case elementwise_cases[] = {
    {"copy", copies},
    {"add", sums},
    {"fma_chain", chains},
    {"gelu", gelus},
    {"gelu_tanh", tanh_gelus},
    {"silu_mul", gated},
    {"geglu", geglus},
    {"empty_launch", empties},
    {NULL, NULL},
};
