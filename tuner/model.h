// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a config promises before it is measured, by its compiled code: which of a large space are tried first.
#ifndef KILN_TUNER_MODEL_H
#define KILN_TUNER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/// What a code needs of a processor, and how much of it there is to do.
typedef struct kiln_model_needs {
  uint32_t block_threads, registers, shared_bytes, spill_bytes;
  uint64_t blocks;       ///< of the grid
  uint64_t instructions; ///< of the code, where each is executed once: it has no loop; 0: not known
} kiln_model_needs;

/// A number that is higher the better a GPU with so many compute units is filled: the share of its threads
/// that blocks hold at a time (half of them are enough to hide latency), times how full the last wave is,
/// less for spills. 0: no block fits. 1 where nothing is known (the host has no registers to count).
double kiln_model_score(const kiln_model_needs *needs, uint32_t units);

/// The instructions that all threads together execute: what one config does compared with another. The bytes that
/// are moved are those of the arguments, so the same for all. 0: not known.
double kiln_model_work(const kiln_model_needs *needs);

/// In how many knobs two configs ("BLOCK=64,warps=4") differ.
unsigned kiln_model_knobs_apart(const char *a, const char *b);

#endif
