// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests matrix products and the transpose.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cases.h"

static const kiln_scalar floats[] = {KILN_F32, KILN_F16, KILN_BF16};

/// sum over k of a[m, k] * b[n, k]
static double inner(const double *a, const double *b, int k) {
  double sum = 0;
  for (int i = 0; i < k; i++) sum += a[i] * b[i];
  return sum;
}

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2.0))); }

typedef struct epilogue {
  bool activate, has_bias;
} epilogue;

static void product(run *r, const char *name, kiln_scalar s, int M, int N, int K, epilogue e) {
  array *a = input_rows(r, s, M, K, -1, 1), *b = input_rows(r, s, N, K, -1, 1), *bias = input(r, s, N, -1, 1);
  array *c = output_rows(r, s, M, N);
  double *want = calloc((size_t)M * N, sizeof *want);
  CALL(r, name, A(a), A(b), A(bias), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      double v = inner(a->v + m * K, b->v + n * K, K) + (e.has_bias ? bias->v[n] : 0);
      want[m * N + n] = e.activate ? gelu(v) : v;
    }
  expect(r, c, want, K * 1e-6, tolerance(s));
  free(want);
}

static void products(run *r) {
  static const int shapes[][3] = {{64, 64, 32}, {128, 128, 64}, {1, 512, 256}, {100, 72, 40}, {192, 320, 96}};
  char name[64];
  for (int t = 0; t < 3; t++)
    for (int bias = 0; bias < 2; bias++)
      for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "gemm[T=%s,ACT=0,BIAS=%s]", kiln_scalars[floats[t]].spelling,
                 bias ? "true" : "false");
        product(r, name, floats[t], shapes[i][0], shapes[i][1], shapes[i][2], (epilogue){.has_bias = bias});
      }
}

// As many tiles as the configs for large problems ask for, with ragged edges; the last is large for a host.
static void large_products(run *r) {
  static const int shapes[][3] = {{1150, 1288, 40}, {1160, 2600, 72}, {300, 500, 500}};
  for (int i = 0; i < 3; i++)
    product(r, "gemm[T=bf16,ACT=0,BIAS=true]", KILN_BF16, shapes[i][0], shapes[i][1], shapes[i][2],
            (epilogue){.has_bias = true});
  product(r, "gemm[T=f32,ACT=0,BIAS=false]", KILN_F32, 300, 500, 500, (epilogue){0});
  product(r, "gemm[T=f32,ACT=0,BIAS=true]", KILN_F32, 1290, 1251, 45, (epilogue){.has_bias = true});
}

/// Sizes of all kinds, rows of all distances: what a tile writes may end anywhere in a row.
static void drawn_products(run *r) {
  char name[64];
  for (int i = 0; i < 60; i++) {
    kiln_scalar s = floats[drawn(r, 5) < 2 ? drawn(r, 2) : 2];
    bool is_large = i % 10 == 9;
    int M = 1 + (int)drawn(r, is_large ? 1300 : 300), N = 1 + (int)drawn(r, is_large ? 1300 : 300),
        K = (int)drawn(r, is_large ? 70 : 200);
    snprintf(name, sizeof name, "gemm[T=%s,ACT=0,BIAS=false]", kiln_scalars[s].spelling);
    product(r, name, s, M, N, K, (epilogue){0});
    if (r->text[0]) {
      size_t end = strlen(r->text);
      snprintf(r->text + end, sizeof r->text - end, " (%s, %d x %d x %d)", name, M, N, K);
      return;
    }
  }
}

static void activated(run *r) {
  product(r, "gemm[T=bf16,ACT=1,BIAS=true]", KILN_BF16, 100, 72, 64, (epilogue){true, true});
}

static void batch(run *r, kiln_scalar s, int M, int N, int K) {
  enum { BATCH = 3 };
  array *a = input(r, s, (size_t)BATCH * M * K, -1, 1), *b = input(r, s, (size_t)BATCH * N * K, -1, 1),
        *c = output(r, s, (size_t)BATCH * M * N);
  double *want = calloc((size_t)BATCH * M * N, sizeof *want);
  CALL(r, instance("gemm_batched", s), A(a), A(b), A(c), I(M), I(N), I(K), L(M * K), L(N * K), L(M * N),
       I(BATCH));
  for (int i = 0; i < BATCH * M * N; i++) {
    int e = i / (M * N), m = i / N % M, n = i % N;
    want[i] = inner(a->v + (e * M + m) * K, b->v + (e * N + n) * K, K);
  }
  expect(r, c, want, K * 1e-6, tolerance(s));
  free(want);
}

static void batches(run *r) {
  for (int t = 0; t < 3; t++) batch(r, floats[t], 70, 72, 40);
  for (int t = 0; t < 3; t++) batch(r, floats[t], 72, 75, 40); // the other variants
  for (int t = 0; t < 3; t++) batch(r, floats[t], 72, 80, 45);
  batch(r, KILN_F32, 200, 248, 500);
}

static void split(run *r, int K) {
  enum { M = 70, N = 72 };
  for (int t = 0; t < 3; t++) {
    array *a = input(r, floats[t], M * K, -1, 1), *b = input(r, floats[t], N * K, -1, 1),
          *c = zeros(r, KILN_F32, M * N);
    static double want[M * N];
    CALL(r, instance("gemm_split_k", floats[t]), A(a), A(b), A(c), I(M), I(N), I(K), I(4));
    for (int i = 0; i < M * N; i++) want[i] = inner(a->v + i / N * K, b->v + i % N * K, K);
    expect(r, c, want, K * 1e-6, 1e-5);
  }
}

static void splits(run *r) {
  split(r, 328);
  split(r, 331); // rows that begin anywhere
}

static void integer_product(run *r, int M, int N, int K) {
  array *a = input(r, KILN_I8, (size_t)M * K, -128, 127), *b = input(r, KILN_I8, (size_t)N * K, -128, 127);
  array *sa = input(r, KILN_F32, M, 0.01, 0.02), *sb = input(r, KILN_F32, N, 0.01, 0.02),
        *c = output(r, KILN_F32, (size_t)M * N);
  double *want = calloc((size_t)M * N, sizeof *want);
  CALL(r, "gemm_i8", A(a), A(b), A(sa), A(sb), A(c), I(M), I(N), I(K));
  for (int i = 0; i < M * N; i++)
    want[i] = inner(a->v + i / N * K, b->v + i % N * K, K) * sa->v[i / N] * sb->v[i % N];
  expect(r, c, want, 1e-9, 1e-6);
  free(want);
}

static void integers(run *r) {
  integer_product(r, 70, 72, 176);
  integer_product(r, 300, 500, 500);
}

// Matrix units sum fp8 products with about 13 bits below the largest: 2^-13 a product of operands up to 1.
static void fp8_product(run *r, const char *name, kiln_scalar left, int M, int N, int K) {
  r->apart = 16;
  array *a = input_rows(r, left, M, K, -1, 1), *b = input_rows(r, KILN_E4M3, N, K, -1, 1);
  array *sa = input(r, KILN_F32, M, 0.5, 1), *sb = input(r, KILN_F32, N, 0.5, 1),
        *c = output_rows(r, KILN_BF16, M, N);
  double *want = calloc((size_t)M * N, sizeof *want);
  CALL(r, name, A(a), A(b), A(sa), A(sb), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
  for (int i = 0; i < M * N; i++)
    want[i] = inner(a->v + i / N * K, b->v + i % N * K, K) * sa->v[i / N] * sb->v[i % N];
  expect(r, c, want, K * 0x1p-13, tolerance(KILN_BF16));
  free(want);
}

static void fp8_products(run *r) {
  static const int shapes[][3] = {
      {64, 64, 64}, {70, 72, 176}, {128, 192, 256}, {1, 64, 1024}, {300, 504, 512}};
  for (int i = 0; i < 5; i++) {
    fp8_product(r, "gemm_fp8[S=e4m3,T=e4m3,FAST=false]", KILN_E4M3, shapes[i][0], shapes[i][1], shapes[i][2]);
    fp8_product(r, "gemm_fp8[S=e5m2,T=e4m3,FAST=false]", KILN_E5M2, shapes[i][0], shapes[i][1], shapes[i][2]);
  }
}

/// f32 values with as few bits as f16 has, which tf32 keeps.
static array *short_input(run *r, size_t rows, size_t columns) {
  const array *x = input(r, KILN_F16, rows * columns, -1, 1);
  return given_rows(r, KILN_F32, rows, columns, x->v);
}

static void tf32_product(run *r, int M, int N, int K) {
  array *a = short_input(r, M, K), *b = short_input(r, N, K), *c = output_rows(r, KILN_F32, M, N);
  double *want = calloc((size_t)M * N, sizeof *want);
  CALL(r, "gemm_tf32", A(a), A(b), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
  for (int i = 0; i < M * N; i++) want[i] = inner(a->v + i / N * K, b->v + i % N * K, K);
  expect(r, c, want, K * 1e-6, tolerance(KILN_F32));
  free(want);
}

/// Of operands with all bits: cut off where tf32 ends, sums of what has one sign would be too small by a
/// 1,500th; rounded to the nearest their errors cancel.
static void tf32_sums(run *r) {
  enum { M = 130, N = 132, K = 512 };
  array *a = input_rows(r, KILN_F32, M, K, 0.5, 1), *b = input_rows(r, KILN_F32, N, K, 0.5, 1),
        *c = output_rows(r, KILN_F32, M, N);
  static double want[M * N];
  CALL(r, "gemm_tf32", A(a), A(b), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
  for (int i = 0; i < M * N; i++) want[i] = inner(a->v + i / N * K, b->v + i % N * K, K);
  expect(r, c, want, 0, 1e-4);
}

static void tf32_products(run *r) {
  static const int shapes[][3] = {{64, 64, 32}, {70, 72, 176},    {1, 512, 256},    {33, 50, 45},
                                  {100, 72, 0}, {1150, 1288, 40}, {1160, 2599, 72}, {300, 500, 500}};
  for (int i = 0; i < 8; i++) tf32_product(r, shapes[i][0], shapes[i][1], shapes[i][2]);
  tf32_sums(r);
}

static void vectors(run *r) {
  enum { MOST_ROWS = 2100 };
  static const int shapes[][2] = {{64, 64},    {1, 1000}, {37, 2056}, {130, 4096}, {2100, 33},
                                  {2050, 200}, {3, 9000}, {60, 8200}}; // of the last two the sums are divided
  for (int t = 0; t < 3; t++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      int rows = shapes[i][0], cols = shapes[i][1];
      r->apart = 8;
      array *a = input_rows(r, floats[t], rows, cols, -1, 1), *x = input(r, floats[t], cols, -1, 1),
            *y = output(r, floats[t], rows);
      static double want[MOST_ROWS];
      CALL(r, instance("gemv", floats[t]), A(a), A(x), A(y), I(rows), I(cols), LD(a));
      for (int m = 0; m < rows; m++) want[m] = inner(a->v + (size_t)m * cols, x->v, cols);
      expect(r, y, want, cols * 1e-6, tolerance(floats[t]));
    }
}

static void transposes(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_F16, KILN_I8};
  static const int shapes[][2] = {{64, 64}, {100, 37}, {1, 200}, {96, 160}};
  static double want[20000];
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 4; i++) {
      int rows = shapes[i][0], cols = shapes[i][1];
      array *x = input(r, types[t], rows * cols, -100, 100), *y = output(r, types[t], rows * cols);
      CALL(r, instance("transpose", types[t]), A(x), A(y), I(rows), I(cols));
      for (int k = 0; k < rows * cols; k++) want[k % cols * rows + k / cols] = x->v[k];
      expect(r, y, want, 0, 0);
    }
}

// Few programs and long sums, which are divided among more of them; rows that begin anywhere, which are copied.
static void products_of_parts(run *r) {
  product(r, "gemm[T=f32,ACT=0,BIAS=false]", KILN_F32, 70, 60, 3000, (epilogue){0});
  product(r, "gemm[T=f32,ACT=0,BIAS=true]", KILN_F32, 9, 100, 2050, (epilogue){.has_bias = true});
  product(r, "gemm[T=f32,ACT=0,BIAS=false]", KILN_F32, 30, 200, 2051, (epilogue){0});
  tf32_product(r, 70, 60, 3000);
  tf32_product(r, 33, 90, 3001);
  fp8_product(r, "gemm_fp8[S=e4m3,T=e4m3,FAST=false]", KILN_E4M3, 70, 64, 14000);
  fp8_product(r, "gemm_fp8[S=e5m2,T=e4m3,FAST=false]", KILN_E5M2, 20, 72, 14000);
}

static void products_of_copies(run *r) {
  product(r, "gemm[T=f32,ACT=0,BIAS=false]", KILN_F32, 600, 600, 2001, (epilogue){0});
  tf32_product(r, 600, 600, 2001);
  integer_product(r, 601, 600, 2008);
}

const kernel_case matrix_cases[] = {
    {"gemm", products},
    {"gemm_large", large_products},
    {"gemm_drawn", drawn_products},
    {"gemm_gelu", activated},
    {"gemm_batched", batches},
    {"gemm_split_k", splits},
    {"gemm_parts", products_of_parts},
    {"gemm_copies", products_of_copies},
    {"gemm_i8", integers},
    {"gemm_fp8", fp8_products},
    {"gemm_tf32", tf32_products},
    {"gemv", vectors},
    {"transpose", transposes},
    {NULL, NULL},
};
