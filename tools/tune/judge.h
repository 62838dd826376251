// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expected contents of a kernel's buffers after a launch, and comparing with them.
#ifndef KILN_TOOLS_TUNE_JUDGE_H
#define KILN_TOOLS_TUNE_JUDGE_H

#include "tools/bundle/view.h"
#include "tools/tune/worker.h"

typedef struct tune_judge {
  const char *by; ///< "case", "interpreter" or "first": what `want` of the subject is from
  bool coarse;    ///< the kernel multiplies matrices in less than f32
} tune_judge;

/// The cost of the config for these arguments (@cost); INT64_MAX: none is stated, or it cannot be computed.
int64_t tune_cost_of(const tune_subject *subject, uint32_t config);

/// Whether the kernel has no loop, according to a bundle of `kiln build --tuning`; false: it has loops, or
/// the bundle does not say.
bool tune_judge_is_straight(const tune_subject *subject, const bundle_view *view);

/// Fills `want` with the results of the reference interpreter, which runs the kernel in a bundle of `kiln
/// build --tuning` in a process of its own. TIMEOUT after `limit_ms`; NOT_FOUND when the bundle has no kernel
/// for these arguments.
kiln_status tune_judge_interpret(tune_judge *judge, tune_subject *subject, const bundle_view *view,
                                 unsigned limit_ms, kiln_error *err);
/// Fills `want` from the recorded launch of the subject.
void tune_judge_recorded(tune_judge *judge, tune_subject *subject, const bundle_view *view);
/// Accepts `got` as the expected contents: the results of the first config.
void tune_judge_accept(tune_judge *judge, tune_subject *subject);
/// Compares `got` with `want`, with the tolerances of recorded cases. MISMATCH names argument and element.
kiln_status tune_judge_compare(const tune_judge *judge, const tune_subject *subject, kiln_error *err);

#endif
