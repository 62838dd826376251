// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests kernels that work on rows with drawn numbers of rows and columns: of each length that chooses another
// config, from one column to rows that no program holds in registers.
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/cases.h"

enum { FEW_ROWS = 80, MOST_ROWS = 1100, ELEMENTS = 50000 }; // programs have up to 1,024 rows of one column

typedef void length_case(run *r, kiln_scalar s, int rows, int cols);

static void each_length(run *r, length_case *f) {
  static const kiln_scalar types[] = {KILN_F32, KILN_BF16};
  static const int limits[] = {0,   1,    2,    4,    8,    16,    32,    64,   256,
                               512, 1024, 2048, 4096, 8192, 16384, 32768, 50000};
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; i + 1 < sizeof limits / sizeof *limits; i++) {
      int cols = limits[i] + 1 + (int)drawn(r, (size_t)(limits[i + 1] - limits[i]));
      if (drawn(r, 2) && cols > 16) cols &= ~15; // what the variant for 16 bytes takes
      int most = cols <= 8 ? MOST_ROWS : FEW_ROWS;
      if (ELEMENTS / cols < most) most = ELEMENTS / cols < 2 ? 2 : ELEMENTS / cols;
      f(r, types[t], 1 + (int)drawn(r, (size_t)most), cols);
    }
}

static double *numbers(int count) { return calloc((size_t)count, sizeof(double)); }

/// What rounding a mean may add: few columns may lie close together, and 1/sqrt(variance) is large then.
static double room(int cols) { return cols < 64 ? 4e-3 : 3e-5; }

/// log(sum(exp(x))) of a row.
static double log_sum(const double *x, int cols) {
  double top = -INFINITY, sum = 0;
  for (int c = 0; c < cols; c++) top = fmax(top, x[c]);
  for (int c = 0; c < cols; c++) sum += exp(x[c] - top);
  return top + log(sum);
}

static void probabilities(run *r, kiln_scalar s, int rows, int cols) {
  array *x = input(r, s, (size_t)(rows * cols), -8, 8), *y = output(r, s, (size_t)(rows * cols)),
        *z = output(r, s, (size_t)(rows * cols)), *l = output(r, s, (size_t)(rows * cols));
  double *want = numbers(rows * cols), *logs = numbers(rows * cols);
  for (int i = 0; i < rows; i++) {
    double sum = log_sum(x->v + i * cols, cols);
    for (int c = i * cols; c < (i + 1) * cols; c++) logs[c] = x->v[c] - sum;
  }
  CALL(r, instance("softmax", s), A(x), A(y), I(rows), I(cols), I(cols), I(cols));
  CALL(r, instance("softmax_looped", s), A(x), A(z), I(rows), I(cols));
  CALL(r, instance("log_softmax", s), A(x), A(l), I(rows), I(cols));
  for (int i = 0; i < rows * cols; i++) want[i] = exp(logs[i]);
  expect(r, y, want, 1e-7, 16 * tolerance(s));
  expect(r, z, want, 1e-7, 16 * tolerance(s));
  expect(r, l, logs, 1e-5, 2 * tolerance(s));
  free(want), free(logs);
}

static void losses(run *r, kiln_scalar s, int rows, int cols) {
  double labels[MOST_ROWS], want[MOST_ROWS];
  array *x = input(r, s, (size_t)(rows * cols), -8, 8), *y = output(r, KILN_F32, (size_t)rows);
  for (int i = 0; i < rows; i++) {
    int label = i % 5 == 4 ? -1 : (int)drawn(r, (size_t)cols);
    labels[i] = label;
    want[i] = label < 0 ? 0 : log_sum(x->v + i * cols, cols) - x->v[i * cols + label];
  }
  array *l = given(r, KILN_I32, (size_t)rows, labels);
  CALL(r, instance("cross_entropy", s), A(x), A(l), A(y), I(rows), I(cols));
  expect(r, y, want, 2e-5, 1e-5);
}

/// Means and 1/sqrt(variance + eps); means stay 0 for RMS.
static void moments(const double *x, int rows, int cols, double eps, bool centred, double *mean,
                    double *rstd) {
  for (int i = 0; i < rows; i++) {
    double sum = 0, square = 0;
    for (int c = 0; c < cols; c++) sum += x[i * cols + c];
    mean[i] = centred ? sum / cols : 0;
    for (int c = 0; c < cols; c++) square += (x[i * cols + c] - mean[i]) * (x[i * cols + c] - mean[i]);
    rstd[i] = 1 / sqrt(square / cols + eps);
  }
}

static void norms(run *r, kiln_scalar s, int rows, int cols) {
  size_t n = (size_t)(rows * cols);
  double mean[MOST_ROWS], rstd[MOST_ROWS], variance[MOST_ROWS], *want = numbers(rows * cols);
  array *x = input(r, s, n, -3, 5), *w = input(r, s, (size_t)cols, -2, 2),
        *b = input(r, s, (size_t)cols, -1, 1), *y = output(r, s, n), *m = output(r, KILN_F32, (size_t)rows),
        *d = output(r, KILN_F32, (size_t)rows);
  CALL(r, instance("layer_norm", s), A(x), A(w), A(b), A(y), A(m), A(d), I(rows), I(cols), R(1e-5));
  moments(x->v, rows, cols, 1e-5, true, mean, rstd);
  for (int i = 0; i < rows * cols; i++)
    want[i] = (x->v[i] - mean[i / cols]) * rstd[i / cols] * w->v[i % cols] + b->v[i % cols];
  expect(r, y, want, room(cols), 2 * tolerance(s));
  expect(r, m, mean, 1e-5, 1e-5);
  expect(r, d, rstd, 1e-5, room(cols));

  m = output(r, KILN_F32, (size_t)rows), d = output(r, KILN_F32, (size_t)rows);
  CALL(r, instance("mean_var", s), A(x), A(m), A(d), I(rows), I(cols));
  for (int i = 0; i < rows; i++) variance[i] = 1 / (rstd[i] * rstd[i]) - 1e-5;
  expect(r, m, mean, 1e-5, 1e-5);
  expect(r, d, variance, 1e-5, 1e-4);

  y = output(r, s, n), d = output(r, KILN_F32, (size_t)rows);
  CALL(r, instance("rms_norm", s), A(x), A(w), A(y), A(d), I(rows), I(cols), R(1e-5));
  moments(x->v, rows, cols, 1e-5, false, mean, rstd);
  for (int i = 0; i < rows * cols; i++) want[i] = x->v[i] * rstd[i / cols] * w->v[i % cols];
  expect(r, y, want, 1e-5, 2 * tolerance(s));
  expect(r, d, rstd, 1e-6, 1e-5);
  free(want);
}

static void residual_norms(run *r, kiln_scalar s, int rows, int cols) {
  size_t n = (size_t)(rows * cols);
  double mean[MOST_ROWS], rstd[MOST_ROWS], *sum = numbers(rows * cols), *want = numbers(rows * cols);
  array *x = input(r, s, n, -3, 3), *res = input(r, s, n, -3, 3), *w = input(r, s, (size_t)cols, -2, 2),
        *y = output(r, s, n);
  for (int i = 0; i < rows * cols; i++) sum[i] = x->v[i] + res->v[i];
  CALL(r, instance("add_rmsnorm", s), A(x), A(res), A(w), A(y), I(rows), I(cols), R(1e-5));
  moments(sum, rows, cols, 1e-5, false, mean, rstd);
  for (int i = 0; i < rows * cols; i++) want[i] = sum[i] * rstd[i / cols] * w->v[i % cols];
  expect(r, res, sum, 1e-6, tolerance(s));
  expect(r, y, want, 1e-5, 4 * tolerance(s)); // long rows take the rounded sum
  free(sum), free(want);
}

/// The gradients of x -> (x - mean) * rstd * w, where mean is 0 for RMS.
static void gradients(run *r, kiln_scalar s, int rows, int cols, bool centred) {
  size_t n = (size_t)(rows * cols);
  double mean[MOST_ROWS], rstd[MOST_ROWS], *dx = numbers(rows * cols), *dw = numbers(cols),
                                           *db = numbers(cols);
  array *x = input(r, s, n, -3, 5), *g = input(r, s, n, -1, 1), *w = input(r, s, (size_t)cols, -2, 2);
  moments(x->v, rows, cols, 1e-2, centred, mean, rstd); // the kernels are given what eps was
  array *m = given(r, KILN_F32, (size_t)rows, mean), *d = given(r, KILN_F32, (size_t)rows, rstd),
        *ox = output(r, s, n), *ow = zeros(r, KILN_F32, (size_t)cols), *ob = zeros(r, KILN_F32, (size_t)cols);
  if (centred)
    CALL(r, instance("layer_norm_backward", s), A(g), A(x), A(w), A(m), A(d), A(ox), A(ow), A(ob), I(rows),
         I(cols));
  else CALL(r, instance("rms_norm_backward", s), A(g), A(x), A(w), A(d), A(ox), A(ow), I(rows), I(cols));
  for (int i = 0; i < rows; i++) {
    const double *xs = x->v + i * cols, *gs = g->v + i * cols;
    double c1 = 0, c2 = 0;
    for (int c = 0; c < cols; c++) {
      double hat = (xs[c] - m->v[i]) * d->v[i], wdy = w->v[c] * gs[c];
      c1 += hat * wdy / cols, c2 += centred ? wdy / cols : 0;
      dw[c] += gs[c] * hat, db[c] += gs[c];
    }
    for (int c = 0; c < cols; c++)
      dx[i * cols + c] = (w->v[c] * gs[c] - (xs[c] - m->v[i]) * d->v[i] * c1 - c2) * d->v[i];
  }
  expect(r, ox, dx, 5e-5, 2 * tolerance(s));
  expect(r, ow, dw, 1e-4, 1e-4);
  if (centred) expect(r, ob, db, 1e-4, 1e-4);
  free(dx), free(dw), free(db);
}

static void layer_gradients(run *r, kiln_scalar s, int rows, int cols) { gradients(r, s, rows, cols, true); }
static void rms_gradients(run *r, kiln_scalar s, int rows, int cols) { gradients(r, s, rows, cols, false); }

static void bytes_of(run *r, kiln_scalar s, int rows, int cols, const char *forth, const char *back,
                     kiln_scalar q, double most) {
  size_t n = (size_t)(rows * cols);
  double scales[MOST_ROWS];
  array *x = input(r, s, n, -3, 3), *codes = output(r, q, n), *scale = output(r, KILN_F32, (size_t)rows),
        *y = output(r, s, n);
  for (int i = 0; i < rows; i++) {
    double top = 1e-12;
    for (int c = 0; c < cols; c++) top = fmax(top, fabs(x->v[i * cols + c]));
    scales[i] = top / most;
  }
  CALL(r, instance(forth, s), A(x), A(codes), A(scale), I(rows), I(cols));
  expect(r, scale, scales, 0, 1e-6);
  CALL(r, instance(back, s), A(codes), A(scale), A(y), I(rows), I(cols));
  // Half a step of the code, and the rounding of the result.
  expect(r, y, x->v, q == KILN_I8 ? 3.0 / most * 0.51 : 3.0 / 448 / 512,
         (q == KILN_I8 ? 0 : 1.0 / 15.9) + tolerance(s));
}

static void bytes(run *r, kiln_scalar s, int rows, int cols) {
  bytes_of(r, s, rows, cols, "quantise_i8", "dequantise_i8", KILN_I8, 127);
  bytes_of(r, s, rows, cols, "quantise_fp8", "dequantise_fp8", KILN_E4M3, 448);
}

static void searches(run *r, kiln_scalar s, int rows, int cols) {
  size_t n = (size_t)(rows * cols);
  double values[MOST_ROWS], places[MOST_ROWS], *sums = numbers(rows * cols);
  array *x = input(r, s, n, -8, 8), *v = output(r, s, (size_t)rows), *at = output(r, KILN_I32, (size_t)rows);
  CALL(r, instance("argmax", s), A(x), A(v), A(at), I(rows), I(cols));
  for (int i = 0; i < rows; i++) {
    int best = 0; // rows have ties: the first one counts
    for (int c = 1; c < cols; c++)
      if (x->v[i * cols + c] > x->v[i * cols + best]) best = c;
    values[i] = x->v[i * cols + best], places[i] = best;
  }
  expect(r, v, values, 0, 0);
  expect(r, at, places, 0, 0);

  // small integers, so that any order of adding gives the same floats
  kiln_scalar t = s == KILN_F32 ? KILN_F32 : KILN_I32;
  array *k = input(r, KILN_I32, n, -50, 50), *in = t == KILN_I32 ? k : given(r, KILN_F32, n, k->v),
        *y = output(r, t, n);
  CALL(r, instance("cumsum", t), A(in), A(y), I(rows), I(cols));
  for (int i = 0; i < rows * cols; i++) sums[i] = k->v[i] + (i % cols ? sums[i - 1] : 0);
  expect(r, y, sums, 0, 0);
  free(sums);
}

static void of_probabilities(run *r) { each_length(r, probabilities); }
static void of_losses(run *r) { each_length(r, losses); }
static void of_norms(run *r) { each_length(r, norms); }
static void of_residual_norms(run *r) { each_length(r, residual_norms); }
static void of_layer_gradients(run *r) { each_length(r, layer_gradients); }
static void of_rms_gradients(run *r) { each_length(r, rms_gradients); }
static void of_bytes(run *r) { each_length(r, bytes); }
static void of_searches(run *r) { each_length(r, searches); }

const kernel_case length_cases[] = {
    {"lengths.probabilities", of_probabilities},
    {"lengths.entropies", of_losses},
    {"lengths.norms", of_norms},
    {"lengths.residual-norms", of_residual_norms},
    {"lengths.layer-gradients", of_layer_gradients},
    {"lengths.mean-square-gradients", of_rms_gradients},
    {"lengths.bytes", of_bytes},
    {"lengths.searches", of_searches},
    {NULL, NULL},
};
