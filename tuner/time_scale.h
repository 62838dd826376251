// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The logarithmic axis on which a chart shows times: a config that takes twice as long is as much further
// wherever it stands.
#ifndef KILN_TUNER_TIME_SCALE_H
#define KILN_TUNER_TIME_SCALE_H

/// Both ends are 1, 2 or 5 times a power of ten.
typedef struct kiln_time_scale {
  double from, to; ///< ns; from < to
} kiln_time_scale;

/// The scale for times from `least` to `most` ns; times below 1 ns count as 1. It begins well below `least`,
/// so that the bar of the fastest can be seen.
kiln_time_scale kiln_time_scale_of(double least, double most);
/// Where a time stands, from 0 (`from`) to 1 (`to`); times outside stand at the ends.
double kiln_time_scale_place(const kiln_time_scale *scale, double ns);

#endif
