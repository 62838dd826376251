// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the kernels that long rows are divided among (`launches` of kernels/): those of the parts, and those
// that put them together, with spans of one block of columns and of several.
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/cases.h"

enum { MOST_ROWS = 4 };

typedef void divided_case(run *r, kiln_scalar s, int rows, int cols, int span);

static void each_division(run *r, kiln_scalar one, kiln_scalar other, divided_case *f) {
  static const int sizes[][3] = {
      {3, 3000, 1024}, {1, 4096, 2048}, {4, 2056, 1024}, {2, 1, 1024}, {2, 5003, 3072}};
  for (int i = 0; i < 5; i++) {
    f(r, one, sizes[i][0], sizes[i][1], sizes[i][2]);
    f(r, other, sizes[i][0], sizes[i][1], sizes[i][2]);
  }
}

static double *numbers(int count) { return calloc((size_t)count, sizeof(double)); }

/// Room for a number of each part.
static array *of_parts(run *r, kiln_scalar s, int rows, int cols, int span) {
  return output(r, s, (size_t)rows * ((cols + span - 1) / span));
}

// ------------------------------------------------------------------------------------- probabilities

static double log_sum(const double *x, int cols) {
  double top = -INFINITY, sum = 0;
  for (int c = 0; c < cols; c++) top = fmax(top, x[c]);
  for (int c = 0; c < cols; c++) sum += exp(x[c] - top);
  return top + log(sum);
}

static void probabilities(run *r, kiln_scalar s, int rows, int cols, int span) {
  array *x = input_rows(r, s, rows, cols, -8, 8), *y = output_rows(r, s, rows, cols),
        *tops = of_parts(r, KILN_F32, rows, cols, span), *totals = of_parts(r, KILN_F32, rows, cols, span);
  double *want = numbers(rows * cols);
  const char *type = kiln_scalars[s].spelling;
  const bool is_log = s != KILN_F16 && span > 1024;
  CALL(r, instance("softmax_parts", s), A(x), A(tops), A(totals), I(rows), I(cols), I(x->around.pitch),
       I(span));
  CALL(r, named("softmax_from[T=%s,LOG=%s]", type, is_log ? "true" : "false"), A(x), A(tops), A(totals), A(y),
       I(rows), I(cols), I(x->around.pitch), I(y->around.pitch), I(span));
  for (int i = 0; i < rows * cols; i++) {
    const double logarithm = x->v[i] - log_sum(x->v + i / cols * cols, cols);
    want[i] = is_log ? logarithm : exp(logarithm);
  }
  expect(r, y, want, is_log ? 1e-5 : 1e-7, 16 * tolerance(s));
  free(want);
}

static void losses(run *r, kiln_scalar s, int rows, int cols, int span) {
  double labels[MOST_ROWS], want[MOST_ROWS];
  array *x = input(r, s, (size_t)(rows * cols), -8, 8), *loss = output(r, KILN_F32, rows),
        *tops = of_parts(r, KILN_F32, rows, cols, span), *totals = of_parts(r, KILN_F32, rows, cols, span);
  for (int i = 0; i < rows; i++) {
    labels[i] = i == 1 ? -1 : (int)drawn(r, (size_t)cols);
    want[i] = i == 1 ? 0 : log_sum(x->v + i * cols, cols) - x->v[i * cols + (int)labels[i]];
  }
  array *l = given(r, KILN_I32, rows, labels);
  CALL(r, instance("softmax_parts", s), A(x), A(tops), A(totals), I(rows), I(cols), I(cols), I(span));
  CALL(r, instance("cross_entropy_join", s), A(x), A(l), A(tops), A(totals), A(loss), I(rows), I(cols),
       I(tops->count / (size_t)rows));
  expect(r, loss, want, 2e-5, 1e-5);
}

static void divided_probabilities(run *r) {
  each_division(r, KILN_F32, KILN_BF16, probabilities);
  probabilities(r, KILN_F16, 2, 2100, 1024);
}
static void divided_losses(run *r) { each_division(r, KILN_F32, KILN_BF16, losses); }

// --------------------------------------------------------------------------------------------- norms

/// Mean and variance of a row.
static void moments(const double *x, int cols, double *mean, double *variance) {
  *mean = *variance = 0;
  for (int c = 0; c < cols; c++) *mean += x[c] / cols;
  for (int c = 0; c < cols; c++) *variance += (x[c] - *mean) * (x[c] - *mean) / cols;
}

static void norms(run *r, kiln_scalar s, int rows, int cols, int span) {
  const size_t n = (size_t)(rows * cols);
  const double eps = 1e-2;
  double mean[MOST_ROWS], variance[MOST_ROWS], rstd[MOST_ROWS], *want = numbers(rows * cols);
  array *x = input(r, s, n, -3, 5), *w = input(r, s, cols, -2, 2), *b = input(r, s, cols, -1, 1),
        *y = output(r, s, n), *m = output(r, KILN_F32, rows), *d = output(r, KILN_F32, rows),
        *mu = output(r, KILN_F32, rows), *var = output(r, KILN_F32, rows),
        *means = of_parts(r, KILN_F32, rows, cols, span), *squares = of_parts(r, KILN_F32, rows, cols, span);
  CALL(r, instance("mean_var_parts", s), A(x), A(means), A(squares), I(rows), I(cols), I(span));
  CALL(r, "mean_var_join", A(means), A(squares), A(mu), A(var), I(rows), I(cols), I(span));
  CALL(r, named("norm_from[T=%s,CENTRED=true]", kiln_scalars[s].spelling), A(x), A(w), A(b), A(means),
       A(squares), A(y), A(m), A(d), I(rows), I(cols), R(eps), I(span));
  for (int i = 0; i < rows; i++) {
    moments(x->v + i * cols, cols, &mean[i], &variance[i]);
    rstd[i] = 1 / sqrt(variance[i] + eps);
    for (int c = 0; c < cols; c++)
      want[i * cols + c] = (x->v[i * cols + c] - mean[i]) * rstd[i] * w->v[c] + b->v[c];
  }
  expect(r, mu, mean, 1e-5, 1e-5);
  expect(r, var, variance, 1e-5, 1e-4);
  expect(r, y, want, 1e-4, 2 * tolerance(s));
  expect(r, m, mean, 1e-5, 1e-5);
  expect(r, d, rstd, 1e-5, 1e-4);
  free(want);
}

static void residual_norms(run *r, kiln_scalar s, int rows, int cols, int span) {
  const size_t n = (size_t)(rows * cols);
  const double eps = 1e-2;
  double rstd[MOST_ROWS] = {0}, *sum = numbers(rows * cols), *want = numbers(rows * cols);
  array *x = input(r, s, n, -3, 3), *res = input(r, s, n, -3, 3), *w = input(r, s, cols, -2, 2),
        *y = output(r, s, n), *d = output(r, KILN_F32, rows),
        *means = of_parts(r, KILN_F32, rows, cols, span), *squares = of_parts(r, KILN_F32, rows, cols, span);
  for (int i = 0; i < rows * cols; i++) sum[i] = x->v[i] + res->v[i];
  CALL(r, instance("add_parts", s), A(x), A(res), A(means), A(squares), I(rows), I(cols), I(span));
  expect(r, res, sum, 1e-6, tolerance(s));
  CALL(r, named("norm_from[T=%s,CENTRED=false]", kiln_scalars[s].spelling), A(res), A(w), A(w), A(means),
       A(squares), A(y), A(d), A(d), I(rows), I(cols), R(eps), I(span));
  for (int i = 0; i < rows; i++) {
    for (int c = 0; c < cols; c++) rstd[i] += sum[i * cols + c] * sum[i * cols + c] / cols;
    rstd[i] = 1 / sqrt(rstd[i] + eps);
    for (int c = 0; c < cols; c++) want[i * cols + c] = sum[i * cols + c] * rstd[i] * w->v[c];
  }
  expect(r, y, want, 1e-5, 4 * tolerance(s)); // of the rounded sum
  expect(r, d, rstd, 1e-5, 1e-5);
  free(sum), free(want);
}

static void divided_norms(run *r) {
  each_division(r, KILN_F32, KILN_BF16, norms);
  norms(r, KILN_F16, 2, 2100, 1024);
}
static void divided_residual_norms(run *r) {
  each_division(r, KILN_F32, KILN_BF16, residual_norms);
  residual_norms(r, KILN_F16, 2, 2100, 1024);
}

// ------------------------------------------------------------------------------------ codes of a byte

static void codes_of(run *r, kiln_scalar s, kiln_scalar q, int rows, int cols, int span) {
  const size_t n = (size_t)(rows * cols);
  const double most = q == KILN_I8 ? 127 : 448;
  double scales[MOST_ROWS];
  array *x = input(r, s, n, -3, 3), *codes = output(r, q, n), *scale = output(r, KILN_F32, rows),
        *tops = of_parts(r, KILN_F32, rows, cols, span), *y = output(r, s, n);
  for (int i = 0; i < rows; i++) {
    scales[i] = 1e-12 / most;
    for (int c = 0; c < cols; c++) scales[i] = fmax(scales[i], fabs(x->v[i * cols + c]) / most);
  }
  CALL(r, instance("largest_parts", s), A(x), A(tops), I(rows), I(cols), I(span));
  CALL(r, named("quantise_from[T=%s,Q=%s]", kiln_scalars[s].spelling, kiln_scalars[q].spelling), A(x),
       A(tops), A(codes), A(scale), I(rows), I(cols), I(span));
  expect(r, scale, scales, 0, 1e-6);
  CALL(r, instance(q == KILN_I8 ? "dequantise_i8" : "dequantise_fp8", s), A(codes), A(scale), A(y), I(rows),
       I(cols));
  // Half a step of the code, and the rounding of the result.
  expect(r, y, x->v, q == KILN_I8 ? 3.0 / most * 0.51 : 3.0 / 448 / 512,
         (q == KILN_I8 ? 0 : 1.0 / 15.9) + tolerance(s));
}

static void codes(run *r, kiln_scalar s, int rows, int cols, int span) {
  codes_of(r, s, KILN_I8, rows, cols, span);
  codes_of(r, s, KILN_E4M3, rows, cols, span);
}
static void divided_codes(run *r) { each_division(r, KILN_F32, KILN_BF16, codes); }

// ---------------------------------------------------------------------------------- searches and sums

static void largest(run *r, kiln_scalar s, int rows, int cols, int span) {
  double values[MOST_ROWS], places[MOST_ROWS];
  array *x = input(r, s, (size_t)(rows * cols), -8, 8), *v = output(r, s, rows),
        *at = output(r, KILN_I32, rows), *of = of_parts(r, KILN_F32, rows, cols, span),
        *places_of = of_parts(r, KILN_I32, rows, cols, span);
  for (int i = 0; i < rows; i++) {
    int best = 0; // of equal ones the first counts
    for (int c = 1; c < cols; c++)
      if (x->v[i * cols + c] > x->v[i * cols + best]) best = c;
    values[i] = x->v[i * cols + best], places[i] = best;
  }
  CALL(r, instance("argmax_parts", s), A(x), A(of), A(places_of), I(rows), I(cols), I(span));
  CALL(r, instance("argmax_join", s), A(of), A(places_of), A(v), A(at), I(rows), I(of->count / (size_t)rows));
  expect(r, v, values, 0, 0);
  expect(r, at, places, 0, 0);
}

/// Of small integers, so that any order of adding gives the same floats.
static void running_sums(run *r, kiln_scalar s, int rows, int cols, int span) {
  const size_t n = (size_t)(rows * cols);
  double *want = numbers(rows * cols);
  array *x = given(r, s, n, input(r, KILN_I32, n, -50, 50)->v), *y = output(r, s, n),
        *of = of_parts(r, s, rows, cols, span);
  CALL(r, instance("cumsum_parts", s), A(x), A(of), I(rows), I(cols), I(span));
  CALL(r, instance("cumsum_from", s), A(x), A(of), A(y), I(rows), I(cols), I(span));
  for (int i = 0; i < rows * cols; i++) want[i] = x->v[i] + (i % cols ? want[i - 1] : 0);
  expect(r, y, want, 0, 0);
  free(want);
}

static void divided_searches(run *r) { each_division(r, KILN_F32, KILN_BF16, largest); }
static void divided_sums(run *r) { each_division(r, KILN_F32, KILN_I32, running_sums); }

/// Values outside of the bins are not counted.
static void counts(run *r, int n, int count, int copies, bool adds) {
  array *x = input(r, KILN_I32, n, -3, count + 3), *from = output(r, KILN_I32, (size_t)(count * copies)),
        *bins = input(r, KILN_I32, count, 0, 1000);
  double *want = numbers(count);
  for (int i = 0; i < count; i++) want[i] = adds ? bins->v[i] : 0;
  for (int i = 0; i < n; i++)
    if (x->v[i] >= 0 && x->v[i] < count) want[(int)x->v[i]]++;
  CALL(r, "clear", A(from), I(count * copies));
  CALL(r, "histogram_copies", A(x), A(from), I(n), I(count), I(copies));
  CALL(r, adds ? "histogram_join[ADD=true]" : "histogram_join[ADD=false]", A(from), A(bins), I(count),
       I(copies));
  expect(r, bins, want, 0, 0);
  free(want);
}

static void divided_counts(run *r) {
  counts(r, 5001, 10, 64, true);
  counts(r, 700, 333, 2, false);
  counts(r, 3, 1, 1, true);
}

const kernel_case row_part_cases[] = {
    {"parts.softmax", divided_probabilities},
    {"parts.cross_entropy", divided_losses},
    {"parts.norms", divided_norms},
    {"parts.residual_norms", divided_residual_norms},
    {"parts.quantise", divided_codes},
    {"parts.argmax", divided_searches},
    {"parts.cumsum", divided_sums},
    {"parts.histogram", divided_counts},
    {NULL, NULL},
};
