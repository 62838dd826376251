// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who wins from times with noise: intervals hold what they promise, a tie keeps the usual one, and somebody
// always stays.
#include <math.h>
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
      if (!c[i].is_out) kiln_samples_add(&c[i].samples, noisy(state, ns[i]));
    if (kiln_contest_narrow(c, count) == 1) break;
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
