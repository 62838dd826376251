// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A simulator of kernels in the GPU form (compiler/passes/gpu/gpu.h): producer and consumers are coroutines
// that a seed interleaves, copies land late and in parts, asynchronous products read their slots at any time
// until the wait for them, staged stores reach memory late.
//
// Besides the results it watches the order of events: every role, and every slot of shared memory, has a
// counter, and barriers hand the counters on (vector clocks). So a read before the copy, a copy over what is
// still read, or an accumulator used in flight is found whichever way the seed went.
//
// A kernel without roles (compiler/passes/gpu/fetch.c) is run by some threads that have a part of every fetch
// each and compute all of the rest; fetches land at any time until the wait for them, and what slot_load
// gives counts as read up to the next barrier.
//
// It knows slots and tiles, not addresses; pure operations are the reference interpreter's.
#ifndef KILN_TESTS_MACHINE_SIM_H
#define KILN_TESTS_MACHINE_SIM_H

#include "compiler/ir/ir.h"

typedef struct machine_sim_run {
  const void *args; ///< packed, as for kiln_interpret
  uint32_t grid[3]; ///< of the launch: programs
  uint32_t blocks;  ///< of the persistent grid; clusters where the kernel has those
  uint64_t seed;    ///< of the schedule
} machine_sim_run;

typedef struct machine_sim_result {
  bool is_good;
  char text[300];  ///< what went wrong
  uint64_t events; ///< copies, products, staged stores, fetches
  uint64_t most;   ///< of one block, or of one cluster
} machine_sim_result;

/// Runs a kernel whose body is `alloc`s and one `roles`, or one without roles, whose blocks are programs.
void machine_sim(ir_kernel *kernel, const machine_sim_run *run, machine_sim_result *out);

#endif
