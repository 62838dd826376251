// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the axis of charts of times, with drawn times: a test that measures sees the rare ones once in a
// hundred runs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"
#include "tuner/time_scale.h"

static double uniform(uint64_t *state) {
  return (double)(kiln_test_random(state) >> 11) / 9007199254740992.0;
}

static bool is_125(double ns) {
  char text[32];
  snprintf(text, sizeof text, "%.17g", ns * 1000); // ps: a whole number
  size_t digits = strspn(text + 1, "0");
  return (*text == '1' || *text == '2' || *text == '5') && (!text[1 + digits] || text[1 + digits] == 'e');
}

// From 1 ns to 1,000 s, half of the pairs within a factor of 3 of each other; a few below 1 ns, and equal ones.
TEST(tuner_time_scale, ends_are_round_and_every_bar_can_be_seen) {
  uint64_t state = 20261130;
  for (unsigned i = 0; i < 200000; i++) {
    double least = i % 1000 ? pow(10, 12 * uniform(&state)) : uniform(&state);
    double ratio = i % 2 ? 1 + 2 * uniform(&state) : pow(10, 4 * uniform(&state));
    double most = i % 500 == 1 ? least : least * ratio;
    kiln_time_scale s = kiln_time_scale_of(least, most);
    if (!is_125(s.from) || !is_125(s.to))
      FAIL("%.17g to %.17g ns for %.17g to %.17g", s.from, s.to, least, most);
    CHECK(s.from < least || least < 1);
    CHECK(s.to >= most && s.to >= 2 * least);
    // Nor do the ends lie far outside.
    CHECK(s.from * 1.5 * 2.5 >= fmax(least, 1) && s.to <= 2.5 * fmax(most, 2 * fmax(least, 1)));
    double fast = kiln_time_scale_place(&s, least), slow = kiln_time_scale_place(&s, most);
    CHECK(fast > 0.02 && fast < 0.95 && fast <= slow && slow <= 1);
  }
}

TEST(tuner_time_scale, ends_that_are_reached_and_times_outside) {
  kiln_time_scale s = kiln_time_scale_of(15, 20);
  CHECK(s.from == 10 && s.to == 50); // twice 15 is beyond 20
  s = kiln_time_scale_of(1500, 2000000);
  CHECK(s.from == 1000 && s.to == 2000000);
  CHECK(kiln_time_scale_place(&s, 1000) == 0 && kiln_time_scale_place(&s, 2000000) == 1);
  CHECK(kiln_time_scale_place(&s, 3) == 0 && kiln_time_scale_place(&s, 1e12) == 1);
  s = kiln_time_scale_of(0, 0); // nothing was measured
  CHECK(s.from == 0.5 && s.to == 2);
}
