// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the buffers of a kernel are to hold after a launch, and whether they do.
#ifndef KILN_TOOLS_TUNE_JUDGE_H
#define KILN_TOOLS_TUNE_JUDGE_H

#include "tools/bundle/view.h"
#include "tools/tune/worker.h"

typedef struct tune_judge {
  const char *by; ///< "case", "interpreter" or "first": what `want` of the subject is from
  bool coarse;    ///< the kernel multiplies matrices in less than f32
} tune_judge;

/// What the config costs for these arguments (@cost); INT64_MAX: none is stated, or it cannot be computed.
int64_t tune_cost_of(const tune_subject *subject, uint32_t config);

/// Whether the kernel has no loop, by what a bundle of `kiln build --tuning` says of it; false: it has, or
/// nothing is said.
bool tune_judge_is_straight(const tune_subject *subject, const bundle_view *view);

/// Fills `want` by the reference interpreter, with the kernel that a bundle of `kiln build --tuning` has, in
/// a process of its own. TIMEOUT after `limit_ms`; NOT_FOUND when the bundle has no kernel for these
/// arguments.
kiln_status tune_judge_interpret(tune_judge *judge, tune_subject *subject, const bundle_view *view,
                                 unsigned limit_ms, kiln_error *err);
/// Fills `want` from the recorded launch that the subject is.
void tune_judge_recorded(tune_judge *judge, tune_subject *subject, const bundle_view *view);
/// Takes what is in `got` as right: what the first config computed.
void tune_judge_accept(tune_judge *judge, tune_subject *subject);
/// Compares `got` with `want`, with the tolerances of recorded cases. MISMATCH names argument and element.
kiln_status tune_judge_compare(const tune_judge *judge, const tune_subject *subject, kiln_error *err);

#endif
