// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GPU made of fibers: the shared GPU lowering is run for a machine whose prelude calls back into the test,
// compiled for the host and executed thread by thread, with warps that exchange values, barriers, and matrix
// instructions as the PTX ISA describes their fragments. Threads are scheduled in an order that the caller
// picks, so that a missing barrier shows as a difference.
#ifndef KILN_TESTS_CODEGEN_GPU_SIM_H
#define KILN_TESTS_CODEGEN_GPU_SIM_H

#include "compiler/ir/ir.h"
#include "targets/targets.h"

typedef struct sim_options {
  bool reverse;        ///< threads of a block run from the last to the first
  uint64_t seed;       ///< not 0: they run in an order drawn with it, another one after each barrier
  bool no_order;       ///< leave out the pass memory-order: what tests plant
  bool *diverged;      ///< set where threads wait for different things; NULL: the test ends then
  bool no_matrix;      ///< multiplies and adds only
  bool wide;           ///< 64 lanes a warp, no matrix instructions
  bool turned;         ///< 64 lanes, f16 products of 32 x 32 x 16 and reads that turn, as CDNA 4 has them
  unsigned max_shared; ///< bytes a block may have; 0: 160 KiB
} sim_options;

/// Lowers `kernel` (after kiln_lower for sm_80) and runs every program of the grid. Ends the test when
/// something fails.
void sim_run(ir_kernel *kernel, const kiln_target *target, const void *args, const uint32_t grid[3],
             const sim_options *options);

#endif
