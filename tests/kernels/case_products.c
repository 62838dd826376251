// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests other forms of products: all transposes, C as input, one product per expert.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/cases.h"

static const char *const words[] = {"false", "true"};

typedef struct shape {
  int M, N, K;
} shape;

static void product(run *r, kiln_scalar s, bool ta, bool tb, bool has_beta, double beta, shape z) {
  array *a = ta ? input_rows(r, s, z.K, z.M, -1, 1) : input_rows(r, s, z.M, z.K, -1, 1);
  array *b = tb ? input_rows(r, s, z.N, z.K, -1, 1) : input_rows(r, s, z.K, z.N, -1, 1);
  array *d = output_rows(r, s, z.M, z.N), *c;
  char name[96];
  if (beta != 0) c = input_rows(r, s, z.M, z.N, -1, 1);
  else { // must not be read
    double *nans = calloc((size_t)z.M * z.N, sizeof *nans);
    for (int i = 0; i < z.M * z.N; i++) nans[i] = NAN;
    c = given_rows(r, s, z.M, z.N, nans);
    free(nans);
  }
  double *want = calloc((size_t)z.M * z.N, sizeof *want);
  for (int m = 0; m < z.M; m++)
    for (int n = 0; n < z.N; n++) {
      double sum = beta != 0 ? beta * c->v[m * z.N + n] : 0;
      for (int k = 0; k < z.K; k++)
        sum += a->v[ta ? k * z.M + m : m * z.K + k] * b->v[tb ? n * z.K + k : k * z.N + n];
      want[m * z.N + n] = sum;
    }
  snprintf(name, sizeof name, "gemm_general[T=%s,TA=%s,TB=%s,BETA=%s]", kiln_scalars[s].spelling, words[ta],
           words[tb], words[has_beta]);
  CALL(r, name, A(a), A(b), A(c), A(d), I(z.M), I(z.N), I(z.K), LD(a), LD(b), LD(c), LD(d), R(beta));
  expect(r, d, want, (z.K + 1) * 2e-6, tolerance(s));
  free(want);
}

static const shape shapes[] = {{64, 64, 32},  {128, 256, 64}, {1, 8, 8},  {70, 72, 40},
                               {100, 37, 61}, {129, 65, 3},   {40, 56, 0}};

static void transposed(run *r) {
  static const kiln_scalar types[] = {KILN_BF16, KILN_F16, KILN_F32};
  for (int t = 0; t < 3; t++)
    for (int form = 0; form < 4; form++)
      for (int i = 0; i < 7; i++) product(r, types[t], form & 1, form & 2, true, i % 2 ? 0 : -1.5, shapes[i]);
  for (int form = 0; form < 4; form++)
    for (int i = 0; i < 7; i++) product(r, KILN_BF16, form & 1, form & 2, false, 0, shapes[i]);
}

// As many tiles as configs for large problems ask for, with ragged edges.
static void transposed_large(run *r) {
  static const shape large[] = {{1150, 1288, 40}, {1160, 2600, 24}};
  for (int form = 0; form < 4; form++)
    for (int i = 0; i < 2; i++) product(r, KILN_BF16, form & 1, form & 2, i, i ? 0.5 : 0, large[i]);
}

// Rows that begin anywhere, for which copies of the operands, and shares of the sums, cost least.
static void with_scratch(run *r) {
  static const shape some[] = {{515, 777, 390}, {7, 70, 3001}, {33, 45, 2049}, {130, 20, 2600}};
  for (int form = 0; form < 4; form++)
    for (int i = 0; i < 4; i++) {
      product(r, i % 2 ? KILN_F16 : KILN_BF16, form & 1, form & 2, false, 0, some[i]);
      product(r, KILN_BF16, form & 1, form & 2, true, i % 2 ? 0 : 0.5, some[i]);
    }
}

/// C += A B in place: `d` is `c`.
static void in_place(run *r) {
  enum { M = 70, N = 72, K = 40 };
  array *a = input(r, KILN_BF16, M * K, -1, 1), *b = input(r, KILN_BF16, K * N, -1, 1),
        *c = input_rows(r, KILN_BF16, M, N, -1, 1);
  static double want[M * N];
  for (int i = 0; i < M * N; i++) {
    want[i] = c->v[i];
    for (int k = 0; k < K; k++) want[i] += a->v[i / N * K + k] * b->v[k * N + i % N];
  }
  CALL(r, "gemm_general[T=bf16,TA=false,TB=false,BETA=true]", A(a), A(b), A(c), A(c), I(M), I(N), I(K), L(K),
       L(N), LD(c), LD(c), R(1.0));
  expect(r, c, want, K * 2e-6, tolerance(KILN_BF16));
}

static double activation(int act, double x) {
  if (act == 1) return 0.5 * x * (1 + erf(x / sqrt(2.0)));
  return act == 2 ? x / (1 + exp(-x)) : x;
}

/// `sizes` of each expert; rows after the last stay as they are.
static void grouped(run *r, const char *name, kiln_scalar s, int act, int experts, const int *sizes, int rows,
                    int N, int K) {
  int expert = 0;
  r->apart = 8;
  array *a = input_rows(r, s, rows, K, -1, 1), *w = input(r, s, (size_t)experts * N * K, -1, 1),
        *c = input_rows(r, s, rows, N, -1, 1);
  double *ends = calloc((size_t)experts, sizeof *ends), *want = calloc((size_t)rows * N, sizeof *want);
  for (int e = 0; e < experts; e++) ends[e] = (e ? ends[e - 1] : 0) + sizes[e];
  for (int m = 0; m < rows; m++) {
    while (expert < experts && m >= ends[expert]) expert++;
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int k = 0; expert < experts && k < K; k++)
        sum += a->v[m * K + k] * w->v[((size_t)expert * N + n) * K + k];
      want[m * N + n] = expert < experts ? activation(act, sum) : c->v[m * N + n];
    }
  }
  array *e = given(r, KILN_I32, experts, ends);
  CALL(r, name, A(a), A(w), A(e), A(c), I(rows), I(experts), I(N), I(K), LD(a), LD(c));
  expect(r, c, want, (K + 1) * 2e-6, tolerance(s));
  free(ends);
  free(want);
}

static void experts(run *r) {
  static const int some[] = {0, 70, 1, 0, 64, 129, 0}, none[] = {0, 0, 0}, one[] = {100},
                   many[] = {300, 20, 513, 130};
  static int ninety[90];
  for (int i = 0; i < 90; i++) ninety[i] = i * 37 % 23;
  for (int act = 0; act < 3; act++) {
    char name[64];
    snprintf(name, sizeof name, "gemm_grouped[T=bf16,ACT=%d]", act);
    grouped(r, name, KILN_BF16, act, 7, some, 264, 72, 40);
    grouped(r, name, KILN_BF16, act, 4, many, 1000, 264, 72);
  }
  grouped(r, "gemm_grouped[T=bf16,ACT=0]", KILN_BF16, 0, 3, none, 40, 16, 24);
  grouped(r, "gemm_grouped[T=bf16,ACT=0]", KILN_BF16, 0, 1, one, 100, 24, 0);
  grouped(r, "gemm_grouped[T=bf16,ACT=0]", KILN_BF16, 0, 90, ninety, 1100, 37, 21);
  grouped(r, "gemm_grouped[T=f16,ACT=0]", KILN_F16, 0, 7, some, 300, 64, 64);
  grouped(r, "gemm_grouped[T=f32,ACT=0]", KILN_F32, 0, 7, some, 300, 64, 64);
}

static void silu(run *r) {
  enum { M = 100, N = 72, K = 64 };
  static double want[M * N];
  for (int bias = 0; bias < 2; bias++) {
    array *a = input_rows(r, KILN_BF16, M, K, -1, 1), *b = input_rows(r, KILN_BF16, N, K, -1, 1),
          *x = input(r, KILN_BF16, N, -1, 1), *c = output_rows(r, KILN_BF16, M, N);
    char name[64];
    snprintf(name, sizeof name, "gemm[T=bf16,ACT=2,BIAS=%s]", words[bias]);
    CALL(r, name, A(a), A(b), A(x), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
    for (int i = 0; i < M * N; i++) {
      double sum = bias ? x->v[i % N] : 0;
      for (int k = 0; k < K; k++) sum += a->v[i / N * K + k] * b->v[i % N * K + k];
      want[i] = activation(2, sum);
    }
    expect(r, c, want, K * 1e-6, tolerance(KILN_BF16));
  }
}

const kernel_case product_cases[] = {
    {"gemm_general", transposed},
    {"gemm_general_large", transposed_large},
    {"gemm_scratch", with_scratch},
    {"gemm_in_place", in_place},
    {"gemm_grouped", experts},
    {"gemm_silu", silu},
    {NULL, NULL},
};
