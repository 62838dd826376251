// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A few numbers that describe a code, so that two codes can be compared without their bytes: the one that a
// tuned choice was measured with, and the one that a build or a later measurement has in its place.
#ifndef KILN_TOOLS_COMMON_CODE_METRICS_H
#define KILN_TOOLS_COMMON_CODE_METRICS_H

#include "base/record.h"
#include "base/tuned.h"

enum { CODE_METRICS_ID = 16, CODE_METRICS_TEXT = 200 };

typedef struct code_metrics {
  char id[CODE_METRICS_ID + 1]; ///< digits of the digest of its bytes; "": there is no code
  bool is_machine;              ///< the numbers are known; for PTX they are not
  uint64_t registers, spills;   ///< registers per thread; spilled bytes
  uint64_t instructions;        ///< for NVIDIA GPUs; words for AMD GPUs, bytes for the host
} code_metrics;

code_metrics code_metrics_of(const kiln_code_info *info, const uint8_t *code, size_t size);

/// The fields of a line of a table; texts are borrowed from `arena`, or from the line.
void code_metrics_write(const code_metrics *figures, kiln_arena *arena, kiln_tuned_entry *entry);
code_metrics code_metrics_read(const kiln_tuned_entry *entry);

typedef enum code_similarity {
  CODE_SAME,    ///< the same bytes
  CODE_ALIKE,   ///< the same numbers
  CODE_CHANGED, ///< other numbers
  CODE_UNKNOWN  ///< one of them has none
} code_similarity;
code_similarity code_metrics_compare(const code_metrics *a, const code_metrics *b);
/// "38 -> 40 registers, 96 -> 104 instructions": the differences from `a` to `b`.
const char *code_metrics_difference(const code_metrics *a, const code_metrics *b,
                                    char out[CODE_METRICS_TEXT]);

#endif
