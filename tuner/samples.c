// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the fastest of several candidates from noisy times, by medians and their confidence intervals.
#include "tuner/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void kiln_samples_deinit(kiln_samples *s) {
  free(s->ns);
  memset(s, 0, sizeof *s);
}

void kiln_samples_add(kiln_samples *s, double ns) {
  if (s->count == s->capacity) {
    s->capacity = s->capacity ? s->capacity * 2 : 32;
    s->ns = realloc(s->ns, s->capacity * sizeof *s->ns);
    if (!s->ns) abort();
  }
  size_t at = s->count++;
  for (; at && s->ns[at - 1] > ns; at--) s->ns[at] = s->ns[at - 1];
  s->ns[at] = ns;
}

void kiln_samples_clear(kiln_samples *s) { s->count = 0; }

// The largest r for which the r-th lowest and the r-th highest of `count` samples hold the median between
// them with at least 95 %: the count of samples below the median is binomial (count, 1/2). 0: there is none.
static size_t rank_of(size_t count) {
  double term = exp2(-(double)count), tail = 0; // P(X = 0)
  size_t r = 0;
  if (count > 1000)
    return (size_t)((double)count / 2 - 0.98 * sqrt((double)count)); // the normal distribution
  for (; r < count / 2; r++) {
    tail += term;
    if (2 * tail > 0.05) break;
    term *= (double)(count - r) / (double)(r + 1);
  }
  return r;
}

kiln_estimate kiln_samples_estimate(const kiln_samples *s) {
  size_t n = s->count, r = rank_of(n);
  if (!n) return (kiln_estimate){INFINITY, 0, INFINITY};
  double median = n % 2 ? s->ns[n / 2] : (s->ns[n / 2 - 1] + s->ns[n / 2]) / 2;
  if (!r) return (kiln_estimate){median, 0, INFINITY};
  return (kiln_estimate){median, s->ns[r - 1], s->ns[n - r]};
}

// The index of the lowest median of those that are in; `count` when there is none.
static size_t fastest(const kiln_contender *contenders, size_t count) {
  size_t best = count;
  double least = INFINITY;
  for (size_t i = 0; i < count; i++) {
    if (contenders[i].is_out) continue;
    double median = kiln_samples_estimate(&contenders[i].samples).median;
    if (best == count || median < least) best = i, least = median;
  }
  return best;
}

static size_t count_in(const kiln_contender *contenders, size_t count) {
  size_t in = 0;
  for (size_t i = 0; i < count; i++) in += !contenders[i].is_out;
  return in;
}

static double lowest_median(const kiln_contender *contenders, size_t count) {
  size_t best = fastest(contenders, count);
  return best < count ? kiln_samples_estimate(&contenders[best].samples).median : INFINITY;
}

size_t kiln_contest_narrow(kiln_contender *contenders, size_t count, unsigned rounds) {
  static const double far[KILN_CONTEST_SURE] = {1.25, 1.25, 1.12, 1.08}; // after that many rounds
  double least = lowest_median(contenders, count), least_high = INFINITY;
  for (size_t i = 0; i < count; i++)
    if (!contenders[i].is_out)
      least_high = fmin(least_high, kiln_samples_estimate(&contenders[i].samples).high);
  for (size_t i = 0; i < count; i++) {
    if (contenders[i].is_out) continue;
    kiln_estimate e = kiln_samples_estimate(&contenders[i].samples);
    contenders[i].is_out = rounds < KILN_CONTEST_SURE
                               ? e.median > least * far[rounds]
                               : e.low > least_high && e.median > least * (1 + KILN_CONTEST_TIE);
  }
  return count_in(contenders, count);
}

void kiln_contest_halve(kiln_contender *contenders, size_t count, size_t usual, size_t enough) {
  enum { NEAR_PERCENT = 5 };
  size_t in = count_in(contenders, count), left = in / 2 > enough ? in / 2 : enough;
  double near = lowest_median(contenders, count) * (1 + NEAR_PERCENT / 100.0);
  while (in > left) {
    size_t slowest = count;
    double most = near;
    for (size_t i = 0; i < count; i++) {
      double median = contenders[i].is_out ? 0 : kiln_samples_estimate(&contenders[i].samples).median;
      if (i != usual && median > most) slowest = i, most = median;
    }
    if (slowest == count) return;
    contenders[slowest].is_out = true;
    in--;
  }
}

bool kiln_contest_is_tie(const kiln_contender *contenders, size_t count) {
  size_t best = fastest(contenders, count);
  if (best == count) return true;
  double most = kiln_samples_estimate(&contenders[best].samples).low * (1 + KILN_CONTEST_TIE);
  for (size_t i = 0; i < count; i++)
    if (!contenders[i].is_out && kiln_samples_estimate(&contenders[i].samples).high > most) return false;
  return true;
}

void kiln_contest_keep(kiln_contender *contenders, size_t count, double share) {
  bool *kept = calloc(count + 1, sizeof *kept);
  if (!kept) abort();
  size_t wanted = (size_t)ceil((double)count_in(contenders, count) * share);
  if (!wanted) wanted = 1;
  for (size_t round = 0; round < wanted; round++) {
    size_t best = fastest(contenders, count);
    if (best == count) break;
    kept[best] = contenders[best].is_out = true;
  }
  for (size_t i = 0; i < count; i++) contenders[i].is_out = !kept[i];
  free(kept);
}

size_t kiln_contest_winner(const kiln_contender *contenders, size_t count, size_t usual) {
  size_t best = fastest(contenders, count);
  if (best == count || usual >= count || contenders[usual].is_out) return best;
  kiln_estimate u = kiln_samples_estimate(&contenders[usual].samples),
                b = kiln_samples_estimate(&contenders[best].samples);
  return u.low <= b.high || u.median <= b.median * (1 + KILN_CONTEST_TIE) ? usual : best;
}
