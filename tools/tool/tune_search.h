// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which configs of a large space are tried: first what promises most by a model of the compiled code and what
// won for shapes nearby or on other devices, then what is one knob away from the best.
#ifndef KILN_TOOLS_TOOL_TUNE_SEARCH_H
#define KILN_TOOLS_TOOL_TUNE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

/// What a code needs of a processor, and how much of it there is to do.
typedef struct tune_needs {
  uint32_t block_threads, registers, shared_bytes, spill_bytes;
  uint64_t blocks; ///< of the grid
} tune_needs;

/// A number that is higher the better a GPU with so many compute units is filled: the share of its threads
/// that blocks hold at a time (half of them are enough to hide latency), times how full the last wave is,
/// less for spills. 0: no block fits. 1 where nothing is known (the host has no registers to count).
double tune_model_score(const tune_needs *needs, uint32_t units);

/// In how many knobs two configs ("BLOCK=64,warps=4") differ.
unsigned tune_knobs_apart(const char *a, const char *b);

#endif
