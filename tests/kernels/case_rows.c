// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests kernels that work on rows: softmax, losses, norms, quantisation, searching.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cases.h"

enum { ROWS = 5, WIDE = 3000 };
static const int widths[] = {1, 64, 1000, 1024, WIDE};

typedef void row_function(const double *x, double *y, int cols);

static void softmax(const double *x, double *y, int cols) {
  double top = -INFINITY, sum = 0;
  for (int c = 0; c < cols; c++) top = fmax(top, x[c]);
  for (int c = 0; c < cols; c++) sum += y[c] = exp(x[c] - top);
  for (int c = 0; c < cols; c++) y[c] /= sum;
}

static void log_softmax(const double *x, double *y, int cols) {
  double top = -INFINITY, sum = 0;
  for (int c = 0; c < cols; c++) top = fmax(top, x[c]);
  for (int c = 0; c < cols; c++) sum += exp(x[c] - top);
  for (int c = 0; c < cols; c++) y[c] = x[c] - top - log(sum);
}

static void each_row(const array *x, double *want, int cols, row_function *f) {
  for (int row = 0; row < ROWS; row++) f(x->v + row * cols, want + row * cols, cols);
}

static void softmaxes(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_F16, KILN_BF16};
  double want[ROWS * WIDE];
  for (int t = 0; t < 3; t++)
    for (int w = 0; w < 5; w++) {
      int cols = widths[w];
      array *x = input_rows(r, types[t], ROWS, cols, -8, 8), *y = output_rows(r, types[t], ROWS, cols);
      CALL(r, instance("softmax", types[t]), A(x), A(y), I(ROWS), I(cols), I((int64_t)x->around.pitch),
           I((int64_t)y->around.pitch));
      each_row(x, want, cols, softmax);
      expect(r, y, want, 1e-7, 4 * tolerance(types[t]));
    }
}

static const kiln_scalar two[] = {KILN_F32, KILN_BF16};

static void looped(run *r) {
  double want[ROWS * WIDE];
  for (int t = 0; t < 2; t++)
    for (int w = 0; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, two[t], ROWS * cols, -8, 8), *y = output(r, two[t], ROWS * cols);
      CALL(r, instance("softmax_looped", two[t]), A(x), A(y), I(ROWS), I(cols));
      each_row(x, want, cols, softmax);
      expect(r, y, want, 1e-7, 4 * tolerance(two[t]));
    }
}

static void logs(run *r) {
  double want[ROWS * WIDE];
  for (int t = 0; t < 2; t++)
    for (int w = 1; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, two[t], ROWS * cols, -8, 8), *y = output(r, two[t], ROWS * cols);
      CALL(r, instance("log_softmax", two[t]), A(x), A(y), I(ROWS), I(cols));
      each_row(x, want, cols, log_softmax);
      expect(r, y, want, 1e-5, 2 * tolerance(two[t]));
    }
}

static void losses(run *r) {
  static const double labels[ROWS] = {0, 63, -1, 17, 40};
  for (int t = 0; t < 2; t++) {
    enum { COLS = 1000 };
    array *x = input(r, two[t], ROWS * COLS, -8, 8), *l = given(r, KILN_I32, ROWS, labels),
          *y = output(r, KILN_F32, ROWS);
    double row[COLS], want[ROWS];
    CALL(r, instance("cross_entropy", two[t]), A(x), A(l), A(y), I(ROWS), I(COLS));
    for (int i = 0; i < ROWS; i++) {
      log_softmax(x->v + i * COLS, row, COLS);
      want[i] = labels[i] < 0 ? 0 : -row[(int)labels[i]];
    }
    expect(r, y, want, 2e-5, 1e-5);
  }
}

/// Mean and 1/sqrt(variance + eps) of a row; mean stays 0 for RMS.
static void moments(const double *x, int cols, double eps, bool centred, double *mean, double *rstd) {
  double sum = 0, square = 0;
  for (int c = 0; c < cols; c++) sum += x[c];
  *mean = centred ? sum / cols : 0;
  for (int c = 0; c < cols; c++) square += (x[c] - *mean) * (x[c] - *mean);
  *rstd = 1 / sqrt(square / cols + eps);
}

static void layer_norms(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_F16, KILN_BF16};
  double want[ROWS * WIDE], means[ROWS], rstds[ROWS];
  for (int t = 0; t < 3; t++)
    for (int w = 1; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, types[t], ROWS * cols, -3, 5), *g = input(r, types[t], cols, -2, 2),
            *b = input(r, types[t], cols, -1, 1);
      array *y = output(r, types[t], ROWS * cols), *m = output(r, KILN_F32, ROWS),
            *s = output(r, KILN_F32, ROWS);
      CALL(r, instance("layer_norm", types[t]), A(x), A(g), A(b), A(y), A(m), A(s), I(ROWS), I(cols),
           R(1e-5));
      for (int i = 0; i < ROWS; i++) {
        moments(x->v + i * cols, cols, 1e-5, true, &means[i], &rstds[i]);
        for (int c = 0; c < cols; c++)
          want[i * cols + c] = (x->v[i * cols + c] - means[i]) * rstds[i] * g->v[c] + b->v[c];
      }
      expect(r, y, want, 2e-5, 2 * tolerance(types[t]));
      expect(r, m, means, 1e-5, 1e-5);
      expect(r, s, rstds, 1e-5, 1e-5);
    }
}

static void layer_norm_gradients(run *r) {
  enum { COLS = 1000 };
  for (int t = 0; t < 2; t++) {
    array *x = input(r, two[t], ROWS * COLS, -3, 5), *g = input(r, two[t], ROWS * COLS, -1, 1),
          *w = input(r, two[t], COLS, -2, 2);
    double means[ROWS], rstds[ROWS], dx[ROWS * COLS], dw[COLS] = {0}, db[COLS] = {0};
    for (int i = 0; i < ROWS; i++) moments(x->v + i * COLS, COLS, 1e-5, true, &means[i], &rstds[i]);
    array *m = given(r, KILN_F32, ROWS, means), *s = given(r, KILN_F32, ROWS, rstds);
    array *out = output(r, two[t], ROWS * COLS), *ow = zeros(r, KILN_F32, COLS),
          *ob = zeros(r, KILN_F32, COLS);
    CALL(r, instance("layer_norm_backward", two[t]), A(g), A(x), A(w), A(m), A(s), A(out), A(ow), A(ob),
         I(ROWS), I(COLS));
    for (int i = 0; i < ROWS; i++) {
      double c1 = 0, c2 = 0;
      for (int c = 0; c < COLS; c++) {
        double hat = (x->v[i * COLS + c] - means[i]) * rstds[i], wdy = w->v[c] * g->v[i * COLS + c];
        c1 += hat * wdy / COLS, c2 += wdy / COLS;
        dw[c] += g->v[i * COLS + c] * hat, db[c] += g->v[i * COLS + c];
      }
      for (int c = 0; c < COLS; c++)
        dx[i * COLS + c] =
            (w->v[c] * g->v[i * COLS + c] - (x->v[i * COLS + c] - means[i]) * rstds[i] * c1 - c2) * rstds[i];
    }
    expect(r, out, dx, 2e-5, 2 * tolerance(two[t]));
    expect(r, ow, dw, 1e-4, 1e-4);
    expect(r, ob, db, 1e-4, 1e-4);
  }
}

static void rms_norms(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_F16, KILN_BF16};
  double want[ROWS * WIDE], mean, rstds[ROWS];
  for (int t = 0; t < 3; t++)
    for (int w = 1; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, types[t], ROWS * cols, -3, 5), *g = input(r, types[t], cols, -2, 2);
      array *y = output(r, types[t], ROWS * cols), *s = output(r, KILN_F32, ROWS);
      CALL(r, instance("rms_norm", types[t]), A(x), A(g), A(y), A(s), I(ROWS), I(cols), R(1e-5));
      for (int i = 0; i < ROWS; i++) {
        moments(x->v + i * cols, cols, 1e-5, false, &mean, &rstds[i]);
        for (int c = 0; c < cols; c++) want[i * cols + c] = x->v[i * cols + c] * rstds[i] * g->v[c];
      }
      expect(r, y, want, 1e-5, 2 * tolerance(types[t]));
      expect(r, s, rstds, 1e-6, 1e-5);
    }
}

static void rms_norm_gradients(run *r) {
  enum { COLS = 1000 };
  for (int t = 0; t < 2; t++) {
    array *x = input(r, two[t], ROWS * COLS, -3, 5), *g = input(r, two[t], ROWS * COLS, -1, 1),
          *w = input(r, two[t], COLS, -2, 2);
    double mean, rstds[ROWS], dx[ROWS * COLS], dw[COLS] = {0};
    for (int i = 0; i < ROWS; i++) moments(x->v + i * COLS, COLS, 1e-5, false, &mean, &rstds[i]);
    array *s = given(r, KILN_F32, ROWS, rstds), *out = output(r, two[t], ROWS * COLS),
          *ow = zeros(r, KILN_F32, COLS);
    CALL(r, instance("rms_norm_backward", two[t]), A(g), A(x), A(w), A(s), A(out), A(ow), I(ROWS), I(COLS));
    for (int i = 0; i < ROWS; i++) {
      double m = 0, k = rstds[i];
      for (int c = 0; c < COLS; c++) m += x->v[i * COLS + c] * w->v[c] * g->v[i * COLS + c] / COLS;
      for (int c = 0; c < COLS; c++) {
        double v = x->v[i * COLS + c], dy = g->v[i * COLS + c];
        dx[i * COLS + c] = (w->v[c] * dy - v * m * k * k) * k;
        dw[c] += dy * v * k;
      }
    }
    expect(r, out, dx, 2e-5, 2 * tolerance(two[t]));
    expect(r, ow, dw, 1e-4, 1e-4);
  }
}

static void residual_norms(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_F16, KILN_BF16};
  double sum[ROWS * WIDE], want[ROWS * WIDE], mean, rstd;
  for (int t = 0; t < 3; t++)
    for (int w = 1; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, types[t], ROWS * cols, -3, 3), *res = input(r, types[t], ROWS * cols, -3, 3),
            *g = input(r, types[t], cols, -2, 2);
      array *y = output(r, types[t], ROWS * cols);
      CALL(r, instance("add_rmsnorm", types[t]), A(x), A(res), A(g), A(y), I(ROWS), I(cols), R(1e-5));
      for (int i = 0; i < ROWS; i++) {
        for (int c = i * cols; c < (i + 1) * cols; c++) sum[c] = x->v[c] + res->v[c];
        moments(sum + i * cols, cols, 1e-5, false, &mean, &rstd);
        for (int c = 0; c < cols; c++) want[i * cols + c] = sum[i * cols + c] * rstd * g->v[c];
      }
      expect(r, res, sum, 1e-6, tolerance(types[t]));
      expect(r, y, want, 1e-5, 2 * tolerance(types[t]));
    }
}

static void group_norms(run *r) {
  enum { BATCH = 2, CHANNELS = 12, GROUPS = 4, SPATIAL = 333, ALL = BATCH * CHANNELS * SPATIAL };
  for (int t = 0; t < 2; t++) {
    array *x = input(r, two[t], ALL, -3, 5), *w = input(r, two[t], CHANNELS, -2, 2),
          *b = input(r, two[t], CHANNELS, -1, 1);
    array *y = output(r, two[t], ALL);
    static double want[ALL];
    CALL(r, instance("group_norm", two[t]), A(x), A(w), A(b), A(y), I(GROUPS), I(CHANNELS), I(SPATIAL),
         R(1e-5), I(BATCH));
    for (int group = 0; group < BATCH * GROUPS; group++) {
      int size = CHANNELS / GROUPS * SPATIAL, base = group * size;
      double mean, rstd;
      moments(x->v + base, size, 1e-5, true, &mean, &rstd);
      for (int i = base; i < base + size; i++) {
        int channel = i / SPATIAL % CHANNELS;
        want[i] = (x->v[i] - mean) * rstd * w->v[channel] + b->v[channel];
      }
    }
    expect(r, y, want, 2e-5, 2 * tolerance(two[t]));
  }
}

static void moments_by_welford(run *r) {
  for (int t = 0; t < 2; t++)
    for (int w = 1; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, two[t], ROWS * cols, 100, 110), *m = output(r, KILN_F32, ROWS),
            *v = output(r, KILN_F32, ROWS);
      double means[ROWS], variances[ROWS], rstd;
      CALL(r, instance("mean_var", two[t]), A(x), A(m), A(v), I(ROWS), I(cols));
      for (int i = 0; i < ROWS; i++) {
        moments(x->v + i * cols, cols, 0, true, &means[i], &rstd);
        variances[i] = 1 / (rstd * rstd);
      }
      expect(r, m, means, 0, 1e-5);
      expect(r, v, variances, 1e-4, 1e-4);
    }
}

static void quantised(run *r, const char *forth, const char *back, kiln_scalar q, double most) {
  enum { COLS = 1000 };
  for (int t = 0; t < 2; t++) {
    array *x = input(r, two[t], ROWS * COLS, -3, 3), *codes = output(r, q, ROWS * COLS),
          *scale = output(r, KILN_F32, ROWS);
    array *y = output(r, two[t], ROWS * COLS);
    double scales[ROWS];
    for (int i = 0; i < ROWS; i++) {
      double top = 0;
      for (int c = 0; c < COLS; c++) top = fmax(top, fabs(x->v[i * COLS + c]));
      scales[i] = top / most;
    }
    CALL(r, instance(forth, two[t]), A(x), A(codes), A(scale), I(ROWS), I(COLS));
    expect(r, scale, scales, 0, 1e-6);
    CALL(r, instance(back, two[t]), A(codes), A(scale), A(y), I(ROWS), I(COLS));
    // Half a step of the code, and the rounding of the result.
    expect(r, y, x->v, q == KILN_I8 ? 3.0 / most * 0.51 : 3.0 / 448 / 512,
           (q == KILN_I8 ? 0 : 1.0 / 15.9) + tolerance(two[t]));
  }
}

static void int8_rows(run *r) { quantised(r, "quantise_i8", "dequantise_i8", KILN_I8, 127); }
static void fp8_rows(run *r) { quantised(r, "quantise_fp8", "dequantise_fp8", KILN_E4M3, 448); }

static void argmaxes(run *r) {
  for (int t = 0; t < 2; t++)
    for (int w = 0; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, two[t], ROWS * cols, -8, 8), *v = output(r, two[t], ROWS),
            *at = output(r, KILN_I32, ROWS);
      double values[ROWS], places[ROWS];
      CALL(r, instance("argmax", two[t]), A(x), A(v), A(at), I(ROWS), I(cols));
      for (int i = 0; i < ROWS; i++) {
        int best = 0; // bf16 rows have ties: the first one counts
        for (int c = 1; c < cols; c++)
          if (x->v[i * cols + c] > x->v[i * cols + best]) best = c;
        values[i] = x->v[i * cols + best], places[i] = best;
      }
      expect(r, v, values, 0, 0);
      expect(r, at, places, 0, 0);
    }
}

static void topks(run *r) {
  enum { K = 9 };
  for (int t = 0; t < 2; t++)
    for (int w = 1; w < 5; w++) {
      int cols = widths[w];
      array *x = input(r, two[t], ROWS * cols, -8, 8), *v = output(r, two[t], ROWS * K),
            *at = output(r, KILN_I32, ROWS * K);
      double values[ROWS * K], places[ROWS * K];
      CALL(r, instance("top_k", two[t]), A(x), A(v), A(at), I(ROWS), I(cols), I(K));
      for (int i = 0; i < ROWS; i++) {
        char taken[WIDE] = {0};
        for (int k = 0; k < K; k++) {
          int best = -1;
          for (int c = 0; c < cols; c++)
            if (!taken[c] && (best < 0 || x->v[i * cols + c] > x->v[i * cols + best])) best = c;
          taken[best] = 1;
          values[i * K + k] = x->v[i * cols + best], places[i * K + k] = best;
        }
      }
      expect(r, v, values, 0, 0);
      expect(r, at, places, 0, 0);
    }
}

static void cumsums(run *r) {
  static const kiln_scalar types[] = {KILN_F32, KILN_I32};
  double want[ROWS * WIDE];
  for (int t = 0; t < 2; t++)
    for (int w = 0; w < 5; w++) {
      int cols = widths[w];
      // small integers, so that any order of adding gives the same floats
      array *x = input(r, KILN_I32, ROWS * cols, -50, 50),
            *in = t ? x : given(r, KILN_F32, ROWS * cols, x->v), *y = output(r, types[t], ROWS * cols);
      CALL(r, instance("cumsum", types[t]), A(in), A(y), I(ROWS), I(cols));
      for (int i = 0; i < ROWS * cols; i++) want[i] = x->v[i] + (i % cols ? want[i - 1] : 0);
      expect(r, y, want, 0, 0);
    }
}

/// Bins that programs count in shared memory, and more than fit there; fewer elements than a program takes, and
/// more than it takes in one turn; all in one bin.
static void histograms(run *r) {
  static const struct {
    int n, count;
    bool in_one;
  } shapes[] = {{5003, 37},     {100001, 1}, {100000, 70},   {100001, 513},      {500001, 1513},
                {900003, 8192}, {3, 1000},   {20001, 20000}, {300000, 100, true}};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    const int n = shapes[k].n, count = shapes[k].count, lo = shapes[k].in_one ? count / 2 : -3;
    array *x = input(r, KILN_I32, (size_t)n, lo, shapes[k].in_one ? lo : count + 3),
          *bins = input(r, KILN_I32, (size_t)count, 0, 1000), *counts = output(r, KILN_I32, (size_t)count);
    double *want = calloc(2 * (size_t)count, sizeof *want), *sums = want + count;
    for (int i = 0; i < n; i++)
      if (x->v[i] >= 0 && x->v[i] < count) want[(int)x->v[i]]++;
    for (int i = 0; i < count; i++) sums[i] = bins->v[i] + want[i];
    CALL(r, "histogram", A(x), A(bins), I(n), I(count));
    CALL(r, "bincount", A(x), A(counts), I(n), I(count));
    expect(r, bins, sums, 0, 0);
    expect(r, counts, want, 0, 0);
    free(want);
  }
}

/// Column of the `k`-th element of row `x` in rising or falling order; of equals the first comes first.
static void order_row(const double *x, int cols, bool falls, double *places) {
  for (int c = 0; c < cols; c++) {
    int before = 0;
    for (int i = 0; i < cols; i++)
      before += falls ? x[i] > x[c] || (x[i] == x[c] && i < c) : x[i] < x[c] || (x[i] == x[c] && i < c);
    places[before] = c;
  }
}

static const int sorted_widths[] = {8, 61, 64, 200, 512, 1000, 2048, 4096};
enum { SORTED_ROWS = 5, SORTED_TYPES = 3 };
static const kiln_scalar sorted_types[SORTED_TYPES] = {KILN_F32, KILN_BF16, KILN_I32};

static void sort_case(run *r, kiln_scalar scalar, int cols) {
  size_t n = (size_t)SORTED_ROWS * cols;
  double *places = malloc(2 * n * sizeof *places), *values = places + n;
  array *x = input(r, scalar, n, -90, 90), *v = output(r, scalar, n), *w = output(r, scalar, n),
        *at = output(r, KILN_I32, n);
  for (int i = 0; i < SORTED_ROWS; i++) {
    order_row(x->v + i * cols, cols, false, places + i * cols);
    for (int c = 0; c < cols; c++) values[i * cols + c] = x->v[i * cols + (int)places[i * cols + c]];
  }
  CALL(r, instance("sort_rows", scalar), A(x), A(v), I(SORTED_ROWS), I(cols));
  CALL(r, instance("argsort_rows", scalar), A(x), A(w), A(at), I(SORTED_ROWS), I(cols));
  expect(r, v, values, 0, 0);
  expect(r, w, values, 0, 0);
  expect(r, at, places, 0, 0);
  free(places);
}

static void sorts(run *r) {
  for (int t = 0; t < SORTED_TYPES; t++)
    for (size_t w = 0; w < sizeof sorted_widths / sizeof *sorted_widths; w++)
      sort_case(r, sorted_types[t], sorted_widths[w]);
}

static void top_case(run *r, const char *name, kiln_scalar scalar, int k, int cols) {
  size_t n = (size_t)SORTED_ROWS * k;
  double *order = malloc(((size_t)cols + 2 * n) * sizeof *order), *places = order + cols,
         *values = places + n;
  array *x = input(r, scalar, (size_t)SORTED_ROWS * cols, -90, 90), *v = output(r, scalar, n),
        *at = output(r, KILN_I32, n);
  for (int i = 0; i < SORTED_ROWS; i++) {
    order_row(x->v + i * cols, cols, true, order);
    for (int c = 0; c < k; c++) {
      places[i * k + c] = order[c];
      values[i * k + c] = x->v[i * cols + (int)order[c]];
    }
  }
  CALL(r, name, A(x), A(v), A(at), I(SORTED_ROWS), I(cols));
  expect(r, v, values, 0, 0);
  expect(r, at, places, 0, 0);
  free(order);
}

static void tops(run *r) {
  static const struct {
    const char *name;
    kiln_scalar scalar;
    int k;
  } rows[] = {{"top_rows[T=f32,K=8]", KILN_F32, 8},     {"top_rows[T=bf16,K=8]", KILN_BF16, 8},
              {"top_rows[T=i32,K=8]", KILN_I32, 8},     {"top_rows[T=f32,K=64]", KILN_F32, 64},
              {"top_rows[T=bf16,K=64]", KILN_BF16, 64}, {"top_rows[T=i32,K=64]", KILN_I32, 64}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t w = 0; w < sizeof sorted_widths / sizeof *sorted_widths; w++)
      if (sorted_widths[w] >= rows[i].k)
        top_case(r, rows[i].name, rows[i].scalar, rows[i].k, sorted_widths[w]);
}

const kernel_case row_cases[] = {
    {"softmax", softmaxes},
    {"softmax_looped", looped},
    {"log_softmax", logs},
    {"cross_entropy", losses},
    {"layer_norm", layer_norms},
    {"layer_norm_backward", layer_norm_gradients},
    {"rms_norm", rms_norms},
    {"rms_norm_backward", rms_norm_gradients},
    {"add_rmsnorm", residual_norms},
    {"group_norm", group_norms},
    {"mean_var", moments_by_welford},
    {"quantise_i8", int8_rows},
    {"quantise_fp8", fp8_rows},
    {"argmax", argmaxes},
    {"top_k", topks},
    {"sort_rows", sorts},
    {"top_rows", tops},
    {"cumsum", cumsums},
    {"histogram", histograms},
    {NULL, NULL},
};
