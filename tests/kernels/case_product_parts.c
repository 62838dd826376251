// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the kernels that products launch in their place (parts of long sums, copies of operands), each by
// itself, and the forms of products that no other case launches.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/cases.h"

static const char *const words[] = {"false", "true"};

typedef struct shape {
  int M, N, K, span;
} shape;

/// Element [row, k] of an operand, which may be stored as [k, row].
static double of(const array *a, bool is_turned, int row, int k) {
  return a->v[is_turned ? (size_t)k * a->around.columns + (size_t)row
                        : (size_t)row * a->around.columns + (size_t)k];
}

/// Sums of `span` products each, a matrix [M, N] a part; A is stored as [K, M] if `ta`, B as [K, N] unless
/// `tb`.
static double *parts_of(const array *a, bool ta, const array *b, bool tb, const shape *z) {
  double *want = calloc((size_t)((z->K + z->span - 1) / z->span) * z->M * z->N + 1, sizeof *want), *to = want;
  for (int first = 0; first < z->K; first += z->span)
    for (int m = 0; m < z->M; m++)
      for (int n = 0; n < z->N; n++, to++)
        for (int k = first; k < z->K && k < first + z->span; k++) *to += of(a, ta, m, k) * of(b, !tb, n, k);
  return want;
}

static array *parts_output(run *r, const shape *z) {
  return output(r, KILN_F32, (size_t)((z->K + z->span - 1) / z->span) * z->M * z->N);
}

/// f32 values of TF32 have as few bits as f16 has, which it keeps.
static array *operand(run *r, kiln_scalar s, bool is_short, bool is_turned, int rows, int K) {
  const size_t down = is_turned ? K : rows, across = is_turned ? rows : K;
  if (!is_short) return input_rows(r, s, down, across, -1, 1);
  return given_rows(r, s, down, across, input(r, KILN_F16, down * across, -1, 1)->v);
}

static void part(run *r, kiln_scalar s, bool ta, bool tb, bool is_tf32, shape z) {
  array *a = operand(r, s, is_tf32, ta, z.M, z.K), *b = operand(r, s, is_tf32, !tb, z.N, z.K),
        *parts = parts_output(r, &z);
  char name[96];
  snprintf(name, sizeof name, "gemm_parts[T=%s,TA=%s,TB=%s,TF32=%s]", kiln_scalars[s].spelling, words[ta],
           words[tb], words[is_tf32]);
  CALL(r, name, A(a), A(b), A(parts), I(z.M), I(z.N), I(z.K), LD(a), LD(b), I(z.span));
  double *want = parts_of(a, ta, b, tb, &z);
  expect(r, parts, want, z.span * 0x1p-13,
         tolerance(KILN_F32)); // what tensor cores keep of up to 128 products
  free(want);
}

/// Few rows, few columns, both, and more; rows that begin at multiples of 16 bytes and anywhere.
static const shape shapes[] = {
    {7, 70, 600, 256}, {30, 45, 700, 512}, {70, 72, 520, 256}, {64, 100, 259, 512}};

static void gemm_parts(run *r) {
  for (int i = 0; i < 8; i++) {
    r->apart = i % 2 * 8;
    for (int form = 0; form < 4; form++) {
      part(r, KILN_BF16, form & 1, form & 2, false, shapes[i / 2]);
      part(r, KILN_F16, form & 1, form & 2, false, shapes[i / 2]);
    }
    part(r, KILN_F32, false, true, false, shapes[i / 2]);
    part(r, KILN_F32, false, true, true, shapes[i / 2]);
  }
}

/// As many tiles of 128 x 128 as processors, which f32 has a config for.
static void wide_parts(run *r) { part(r, KILN_F32, false, true, false, (shape){33, 16805, 20, 256}); }

static double activation(int act, double x) {
  if (act == 1) return 0.5 * x * (1 + erf(x / sqrt(2.0)));
  if (act == 3) return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
  return act == 2 ? x / (1 + exp(-x)) : x;
}

static void added(run *r, kiln_scalar s, int act, bool has_bias, int M, int N, int count) {
  array *parts = input(r, KILN_F32, (size_t)count * M * N, -1, 1), *bias = input(r, s, N, -1, 1),
        *c = output_rows(r, s, M, N);
  double *want = calloc((size_t)M * N, sizeof *want);
  char name[96];
  snprintf(name, sizeof name, "add_parts[T=%s,ACT=%d,BIAS=%s]", kiln_scalars[s].spelling, act,
           words[has_bias]);
  for (int i = 0; i < M * N; i++) {
    double sum = has_bias ? bias->v[i % N] : 0;
    for (int p = 0; p < count; p++) sum += parts->v[p * M * N + i];
    want[i] = activation(act, sum);
  }
  CALL(r, name, A(parts), A(bias), A(c), I(M), I(N), LD(c), I(count));
  expect(r, c, want, count * 1e-6, tolerance(s));
  free(want);
}

static void sums(run *r) {
  static const int counts[] = {1, 31, 32, 70};
  for (int i = 0; i < 4; i++) {
    static const kiln_scalar types[] = {KILN_BF16, KILN_F16, KILN_F32};
    for (int t = 0; t < 6; t++) added(r, types[t / 2], 0, t % 2, 5 + i, 37, counts[i]);
    for (int act = 1; act <= 3; act++) added(r, KILN_BF16, act, true, 3, 64 + i, counts[i]);
    added(r, KILN_BF16, 2, false, 9, 50, counts[i]);
  }
}

typedef struct matrix {
  int rows, columns;
} matrix;

/// Of a matrix without rows nothing is copied.
static void copied(run *r, kiln_scalar s, matrix a, matrix b) {
  enum { WHOLE = 64 };
  const matrix sizes[] = {a, b};
  array *from[2], *to[2];
  for (int i = 0; i < 2; i++) {
    const size_t rows = (size_t)sizes[i].rows, columns = (size_t)sizes[i].columns;
    from[i] = input_rows(r, s, rows, columns, -100, 100);
    to[i] = output_pitched(r, s, rows, columns, (columns + WHOLE - 1) / WHOLE * WHOLE);
  }
  CALL(r, instance("align_operands", s), A(from[0]), A(from[1]), A(to[0]), A(to[1]), I(a.rows), I(a.columns),
       I(b.rows), I(b.columns), LD(from[0]), LD(from[1]));
  for (int i = 0; i < 2; i++) expect(r, to[i], from[i]->v, 0, 0);
}

static void copies(run *r) {
  static const kiln_scalar types[] = {KILN_BF16, KILN_F16, KILN_F32, KILN_I8};
  for (int t = 0; t < 4; t++) {
    copied(r, types[t], (matrix){13, 300}, (matrix){5, 71});
    copied(r, types[t], (matrix){0, 300}, (matrix){9, 257});
    copied(r, types[t], (matrix){1, 64}, (matrix){0, 3});
  }
}

static void vector_parts(run *r) {
  static const kiln_scalar types[] = {KILN_BF16, KILN_F16, KILN_F32};
  static const int sizes[][3] = {{5, 3000, 2048}, {3, 4096, 2048}, {1, 9001, 4096}};
  r->apart = 8;
  for (int i = 0; i < 9; i++) {
    const int rows = sizes[i / 3][0], cols = sizes[i / 3][1], span = sizes[i / 3][2],
              count = (cols + span - 1) / span;
    array *a = input_rows(r, types[i % 3], rows, cols, -1, 1), *x = input(r, types[i % 3], cols, -1, 1),
          *parts = output(r, KILN_F32, (size_t)rows * count);
    double want[64] = {0};
    for (int k = 0; k < rows * cols; k++) want[k % cols / span * rows + k / cols] += a->v[k] * x->v[k % cols];
    CALL(r, instance("gemv_parts", types[i % 3]), A(a), A(x), A(parts), I(rows), I(cols), LD(a), I(span));
    expect(r, parts, want, span * 1e-6, tolerance(KILN_F32));
  }
}

static double *product_of(const array *a, const array *b, int M, int N, int K) {
  return parts_of(a, false, b, true, &(shape){M, N, K, K ? K : 1});
}

static void integer_rows(run *r) {
  static const int sizes[][3] = {{70, 72, 176}, {33, 20, 45}, {300, 500, 500}, {1, 130, 64}};
  r->apart = 16;
  for (int i = 0; i < 4; i++) {
    const int M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
    array *a = input_rows(r, KILN_I8, M, K, -128, 127), *b = input_rows(r, KILN_I8, N, K, -128, 127),
          *sa = input(r, KILN_F32, M, 0.01, 0.02), *sb = input(r, KILN_F32, N, 0.01, 0.02),
          *c = output(r, KILN_F32, (size_t)M * N);
    CALL(r, "gemm_i8_rows", A(a), A(b), A(sa), A(sb), A(c), I(M), I(N), I(K), LD(a), LD(b));
    double *want = product_of(a, b, M, N, K);
    for (int k = 0; k < M * N; k++) want[k] *= sa->v[k / N] * sb->v[k % N];
    expect(r, c, want, 1e-9, 1e-6);
    free(want);
  }
}

// Matrix units sum fp8 products with about 13 bits below the largest: 2^-13 a product of operands up to 1.
static void fast_fp8(run *r, kiln_scalar left, int M, int N, int K) {
  r->apart = 16;
  array *a = input_rows(r, left, M, K, -1, 1), *b = input_rows(r, KILN_E4M3, N, K, -1, 1),
        *sa = input(r, KILN_F32, M, 0.5, 1), *sb = input(r, KILN_F32, N, 0.5, 1),
        *c = output_rows(r, KILN_BF16, M, N);
  char name[96];
  snprintf(name, sizeof name, "gemm_fp8[S=%s,T=e4m3,FAST=true]", kiln_scalars[left].spelling);
  CALL(r, name, A(a), A(b), A(sa), A(sb), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
  double *want = product_of(a, b, M, N, K);
  for (int i = 0; i < M * N; i++) want[i] *= sa->v[i / N] * sb->v[i % N];
  expect(r, c, want, K * 0x1p-13, tolerance(KILN_BF16));
  free(want);
}

static void fast_products(run *r) {
  static const int sizes[][3] = {
      {64, 64, 64}, {70, 72, 176}, {530, 200, 300}, {1, 64, 1025}, {300, 504, 512}};
  for (int i = 0; i < 5; i++) {
    fast_fp8(r, KILN_E4M3, sizes[i][0], sizes[i][1], sizes[i][2]);
    fast_fp8(r, KILN_E5M2, sizes[i][0], sizes[i][1], sizes[i][2]);
  }
}

static void tanh_products(run *r) {
  static const int sizes[][3] = {{100, 72, 64}, {33, 50, 45}};
  for (int i = 0; i < 2; i++) {
    const int M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
    array *a = input_rows(r, KILN_BF16, M, K, -1, 1), *b = input_rows(r, KILN_BF16, N, K, -1, 1),
          *bias = input(r, KILN_BF16, N, -1, 1), *c = output_rows(r, KILN_BF16, M, N);
    CALL(r, "gemm[T=bf16,ACT=3,BIAS=true]", A(a), A(b), A(bias), A(c), I(M), I(N), I(K), LD(a), LD(b), LD(c));
    double *want = product_of(a, b, M, N, K);
    for (int k = 0; k < M * N; k++) want[k] = activation(3, want[k] + bias->v[k % N]);
    expect(r, c, want, K * 1e-6, tolerance(KILN_BF16));
    free(want);
  }
}

const kernel_case product_part_cases[] = {
    {"parts.gemm", gemm_parts},       {"parts.gemm_wide", wide_parts},   {"parts.add", sums},
    {"parts.align", copies},          {"parts.gemv", vector_parts},      {"gemm_i8_rows", integer_rows},
    {"gemm_fp8_fast", fast_products}, {"gemm_gelu_tanh", tanh_products}, {NULL, NULL},
};
