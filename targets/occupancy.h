// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many blocks of a kernel a processor of a device holds at a time. Thread safe; allocates nothing.
#ifndef KILN_TARGETS_OCCUPANCY_H
#define KILN_TARGETS_OCCUPANCY_H

#include "targets/targets.h"

/// What a block of a kernel takes: registers of a thread (0: not known, and then not counted on NVPTX), bytes
/// of shared memory.
typedef struct kiln_cost {
  uint32_t threads, registers, shared;
} kiln_cost;

/// Blocks and waves (warps) that a multiprocessor or compute unit holds at a time, of `most` waves. Not known
/// on the host and on processors whose limits are not in the table.
typedef struct kiln_occupancy {
  bool is_known;
  uint32_t blocks, waves, most;
} kiln_occupancy;

kiln_occupancy kiln_target_occupancy(const kiln_target *target, const kiln_cost *cost);

#endif
