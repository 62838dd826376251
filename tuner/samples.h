// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of several candidates is the fastest, from times that have noise: medians with confidence intervals
// from the order of the samples, which assume nothing of how the noise is distributed.
#ifndef KILN_TUNER_SAMPLES_H
#define KILN_TUNER_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Times of one candidate in nanoseconds. Zeroed is empty.
typedef struct kiln_samples {
  double *ns; ///< owned; in ascending order
  size_t count, capacity;
} kiln_samples;

void kiln_samples_deinit(kiln_samples *samples);
void kiln_samples_add(kiln_samples *samples, double ns);
void kiln_samples_clear(kiln_samples *samples);

/// The median, and an interval that holds the true one with at least 95 %. With fewer than 6 samples no
/// interval does: then it is from 0 to infinity.
typedef struct kiln_estimate {
  double median, low, high;
} kiln_estimate;
kiln_estimate kiln_samples_estimate(const kiln_samples *samples);

/// What is known of a candidate.
typedef struct kiln_contender {
  kiln_samples samples;
  bool is_out; ///< dropped by the caller, or as slower than another
} kiln_contender;

/// What is no difference: the same code differs by as much from process to process.
#define KILN_CONTEST_TIE 0.01
/// So many rounds say which of two is the faster; the first ones are often slower than those that follow.
enum { KILN_CONTEST_SURE = 4 };

/// After each round, in which all that are in were timed the same number of times; `rounds`: how many there
/// were. Takes out what is slower: first what is far slower by its median, from round KILN_CONTEST_SURE on
/// those whose interval lies wholly above that of another one, but none within a tie of the lowest median. At
/// least one stays. Returns how many are in.
size_t kiln_contest_narrow(kiln_contender *contenders, size_t count, unsigned rounds);
/// Takes the slower half out, down to `enough`; `usual` (an index) stays, and what is near to the best.
void kiln_contest_halve(kiln_contender *contenders, size_t count, size_t usual, size_t enough);
/// Whether all that are in are a tie, with their intervals: no further round tells more.
bool kiln_contest_is_tie(const kiln_contender *contenders, size_t count);
/// Takes all out but the fastest `share` (0 to 1) of those that are in; at least one stays.
void kiln_contest_keep(kiln_contender *contenders, size_t count, double share);
/// The winner of those that are in: `usual` (an index) where it is in and a tie with the lowest median, or
/// its interval meets that one's; else the lowest median, of equal ones the first. `count` when all are out.
size_t kiln_contest_winner(const kiln_contender *contenders, size_t count, size_t usual);

#endif
