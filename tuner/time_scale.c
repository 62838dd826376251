// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rounds the ends of a logarithmic axis to 1, 2 and 5 times powers of ten.
#include "tuner/time_scale.h"

#include <math.h>
#include <stdbool.h>

// The next 1, 2 or 5 times a power of ten from `value` on, or the last up to it; `value` is at least 0.5.
// Products of such numbers are exact up to 2^53.
static double round_to_125(double value, bool up) {
  double end = 0.5, next = 1;
  for (unsigned i = 1; next <= value; i++) {
    end = next;
    next *= i % 3 == 2 ? 2.5 : 2;
  }
  return up && end < value ? next : end;
}

kiln_time_scale kiln_time_scale_of(double least, double most) {
  least = fmax(least, 1);
  return (kiln_time_scale){round_to_125(least / 1.5, false), round_to_125(fmax(most, 2 * least), true)};
}

double kiln_time_scale_place(const kiln_time_scale *scale, double ns) {
  return fmin(1, fmax(0, log(fmax(ns, 1) / scale->from) / log(scale->to / scale->from)));
}
