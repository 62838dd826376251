// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the benches in C share: the clock, and medians.
#ifndef KILN_BENCH_TIMING_H
#define KILN_BENCH_TIMING_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/// Nanoseconds of a clock that only goes forward.
static inline uint64_t bench_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int bench_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/// Sorts the values; at least one.
static inline double bench_median(double *values, size_t count) {
  qsort(values, count, sizeof *values, bench_by_value);
  return values[count / 2];
}

#endif
