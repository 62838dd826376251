// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the choice of the fastest candidate from noisy times: intervals hold what they promise, a tie keeps
// the usual one, and a winner always remains.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"
#include "tuner/samples.h"

enum { MOST = 4 };

static double uniform(uint64_t *state) {
  return (double)(kiln_test_random(state) >> 11) / 9007199254740992.0;
}

// Skewed, as times are: most near `ns`, some far above. Its median is ns * 1.0231.
static double noisy(uint64_t *state, double ns) { return ns * (1 - 0.033333 * log(1 - uniform(state))); }

static void deinit(kiln_contender *c, size_t count) {
  for (size_t i = 0; i < count; i++) kiln_samples_deinit(&c[i].samples);
}

TEST(tuner_samples, median_and_order) {
  kiln_samples s = {0};
  static const double times[] = {5, 1, 4, 2, 3};
  for (unsigned i = 0; i < 5; i++) kiln_samples_add(&s, times[i]);
  CHECK(kiln_samples_estimate(&s).median == 3);
  CHECK(isinf(kiln_samples_estimate(&s).high)); // five samples say nothing with 95 %
  kiln_samples_add(&s, 6);
  CHECK(kiln_samples_estimate(&s).median == 3.5);
  CHECK(kiln_samples_estimate(&s).low == 1 && kiln_samples_estimate(&s).high == 6); // 2 / 2^6 = 3.1 %
  kiln_samples_deinit(&s);
}

// Of 4000 intervals at least 95 % hold the true median.
TEST(tuner_samples, intervals_hold_the_median) {
  uint64_t state = 11;
  static const size_t sizes[] = {6, 9, 15, 30, 61, 1001};
  double median = 100 * (1 + 0.033333 * log(2));
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned held = 0, rounds = sizes[i] > 100 ? 400 : 4000;
    for (unsigned round = 0; round < rounds; round++) {
      kiln_samples s = {0};
      for (size_t k = 0; k < sizes[i]; k++) kiln_samples_add(&s, noisy(&state, 100));
      kiln_estimate e = kiln_samples_estimate(&s);
      held += e.low <= median && median <= e.high;
      kiln_samples_deinit(&s);
    }
    if (held < 0.94 * rounds) FAIL("%zu samples: %u of %u intervals hold the median", sizes[i], held, rounds);
  }
}

// What one run of a contest ends with; `ns` are the true times.
static size_t contest(uint64_t *state, const double *ns, size_t count, size_t usual, unsigned rounds) {
  kiln_contender c[MOST] = {0};
  for (unsigned round = 0; round < rounds; round++) {
    for (size_t i = 0; i < count; i++)
      for (unsigned k = 0; k < 3 && !c[i].is_out; k++) kiln_samples_add(&c[i].samples, noisy(state, ns[i]));
    if (kiln_contest_narrow(c, count, round + 1) == 1) break;
  }
  size_t winner = kiln_contest_winner(c, count, usual);
  deinit(c, count);
  return winner;
}

TEST(tuner_samples, a_tenth_is_found_and_equal_ones_keep_the_usual) {
  uint64_t state = 5;
  unsigned right = 0, kept = 0;
  for (int i = 0; i < 200; i++) {
    right += contest(&state, (const double[]){100, 90, 104, 97}, 4, 0, 60) == 1;
    kept += contest(&state, (const double[]){100, 100, 100}, 3, 2, 60) == 2;
  }
  if (right < 198) FAIL("%u of 200 contests found the fastest", right);
  if (kept < 190) FAIL("%u of 200 contests among equals kept the usual one", kept);
}

// As kiln tune measures: in rounds, three launches at a time that share half of their noise, the first rounds
// slower; the slower half is dropped. The fastest of the candidates are near to each other, the default is
// one of them.
static size_t whole_contest(uint64_t *state, const double *ns, size_t count, size_t usual) {
  kiln_contender *c = calloc(count, sizeof *c);
  for (unsigned round = 0; round < 60; round++) {
    for (size_t i = 0; i < count; i++) {
      double shared = 1 + 0.01 * (uniform(state) + uniform(state) - 1) + 0.04 * uniform(state) / (1 + round);
      for (unsigned k = 0; k < 3 && !c[i].is_out; k++)
        kiln_samples_add(&c[i].samples, (1 - 0.4 * 0.033333 * log(1 - uniform(state))) * ns[i] * shared);
    }
    kiln_contest_halve(c, count, usual, 4);
    size_t in = kiln_contest_narrow(c, count, round + 1);
    if (round + 1 >= KILN_CONTEST_SURE && (in < 2 || kiln_contest_is_tie(c, count))) break;
  }
  size_t winner = kiln_contest_winner(c, count, usual);
  deinit(c, count);
  free(c);
  return winner;
}

TEST(tuner_samples, two_runs_agree_or_tie) {
  enum { COUNT = 12, SHAPES = 300 };
  uint64_t state = 3;
  unsigned agree = 0, good = 0;
  for (unsigned shape = 0; shape < SHAPES; shape++) {
    double ns[COUNT], best = 1e9;
    for (unsigned i = 0; i < COUNT; i++) {
      ns[i] = i < 5 ? 100 + 8 * uniform(&state) : 105 + 100 * uniform(&state);
      if (ns[i] < best) best = ns[i];
    }
    size_t a = whole_contest(&state, ns, COUNT, 0), b = whole_contest(&state, ns, COUNT, 0);
    agree += fmax(ns[a], ns[b]) <= 1.02 * fmin(ns[a], ns[b]);
    good += ns[a] <= 1.02 * best;
  }
  printf("%u of %u agree or tie, %u are within 2 %% of the best\n", agree, SHAPES, good);
  if (agree < 0.98 * SHAPES) FAIL("two runs agree or tie on %u of %u shapes", agree, SHAPES);
  if (good < 0.97 * SHAPES) FAIL("%u of %u are within 2 %% of the best", good, SHAPES);
}

// The first rounds are slower for whoever comes first; nobody near is out before the contest is sure.
TEST(tuner_samples, a_slow_begin_costs_nobody_the_contest) {
  kiln_contender c[2] = {0};
  for (unsigned round = 1; round <= 8; round++) {
    for (int k = 0; k < 3; k++) {
      kiln_samples_add(&c[0].samples, round <= 2 ? 104 + k / 10.0 : 98 + k / 10.0);
      kiln_samples_add(&c[1].samples, 100 + k / 10.0);
    }
    CHECK_INT(kiln_contest_narrow(c, 2, round), round < 8 ? 2 : 1); // a quarter of the samples is slow
  }
  CHECK_INT(kiln_contest_winner(c, 2, 1), 0);
  deinit(c, 2);
}

// Half a hundredth is no difference, however sure it is.
TEST(tuner_samples, a_tie_keeps_the_usual_and_ends) {
  kiln_contender c[3] = {0};
  for (unsigned k = 0; k < 60; k++) {
    kiln_samples_add(&c[0].samples, 100.5 + k % 3 / 100.0);
    kiln_samples_add(&c[1].samples, 100 + k % 3 / 100.0);
    kiln_samples_add(&c[2].samples, 102 + k % 3 / 100.0);
  }
  CHECK(!kiln_contest_is_tie(c, 3));
  CHECK_INT(kiln_contest_narrow(c, 3, 20), 2);
  CHECK(c[2].is_out);
  CHECK(kiln_contest_is_tie(c, 3));
  CHECK_INT(kiln_contest_winner(c, 3, 0), 0);
  CHECK_INT(kiln_contest_winner(c, 3, 2), 1);
  deinit(c, 3);
}

TEST(tuner_samples, halves_keep_the_usual_and_what_is_near) {
  kiln_contender c[10] = {0};
  for (size_t i = 0; i < 10; i++)
    for (int k = 0; k < 3; k++) kiln_samples_add(&c[i].samples, 100 + 10.0 * (double)i);
  kiln_contest_halve(c, 10, 9, 4);
  for (size_t i = 0; i < 10; i++) CHECK_INT(c[i].is_out, i > 3 && i < 9);
  kiln_contest_halve(c, 10, 9, 4);
  for (size_t i = 0; i < 10; i++) CHECK_INT(c[i].is_out, i > 2 && i < 9);
  kiln_contest_halve(c, 10, 9, 4); // four are enough
  CHECK(!c[2].is_out);
  deinit(c, 10);
  kiln_contender near[10] = {0};
  for (size_t i = 0; i < 10; i++)
    for (int k = 0; k < 3; k++) kiln_samples_add(&near[i].samples, 100 + 0.5 * (double)i);
  kiln_contest_halve(near, 10, 0, 4);
  for (size_t i = 0; i < 10; i++) CHECK(!near[i].is_out);
  deinit(near, 10);
}

TEST(tuner_samples, somebody_stays) {
  kiln_contender c[MOST] = {0};
  static const double shares[] = {0, 1e-9, 0.2, 0.25, 0.26, 0.5, 1};
  static const size_t left[] = {1, 1, 1, 1, 2, 2, 4};
  for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
    for (size_t i = 0; i < MOST; i++) {
      if (!s)
        for (int k = 0; k < 9; k++) kiln_samples_add(&c[i].samples, 10 - (double)i);
      c[i].is_out = false;
    }
    kiln_contest_keep(c, MOST, shares[s]);
    size_t in = 0;
    for (size_t i = 0; i < MOST; i++) in += !c[i].is_out;
    CHECK_INT(in, left[s]);
    CHECK(!c[MOST - 1].is_out); // the fastest
  }
  deinit(c, MOST);
}

TEST(tuner_samples, all_out_has_no_winner) {
  kiln_contender c[2] = {{.is_out = true}, {.is_out = true}};
  CHECK_INT(kiln_contest_winner(c, 2, 0), 2);
  kiln_contest_keep(c, 2, 0.5);
  CHECK(c[0].is_out && c[1].is_out);
}
