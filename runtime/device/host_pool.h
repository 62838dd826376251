// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that run the program instances of host kernels. Instances start in order of their numbers, x
// fastest, and one that has started makes progress: a thread stays with an instance until it ends. Launches
// from several threads share the pool.
#ifndef KILN_RUNTIME_DEVICE_HOST_POOL_H
#define KILN_RUNTIME_DEVICE_HOST_POOL_H

#include "base/record.h"
#include "base/status.h"

typedef struct kiln_host_pool kiln_host_pool;

/// `threads` counts the launching thread; 0: as many as the process may use. Threads start with the first
/// launch that needs them.
kiln_host_pool *kiln_host_pool_create(unsigned threads);
/// No launch may be running.
void kiln_host_pool_destroy(kiln_host_pool *pool);
/// In the child of a fork, whose only thread is the calling one: threads start anew with the next launch.
/// What was running is the parent's.
void kiln_host_pool_in_child(kiln_host_pool *pool);
unsigned kiln_host_pool_threads(const kiln_host_pool *pool);

/// How the instances of a launch ended.
typedef struct kiln_host_outcome {
  int32_t failed;    ///< 0, or what the first failing instance returned; after it no further one started
  uint64_t instance; ///< its number
  uint64_t stuck;    ///< not 0: that many had started, each waited for others, and no thread could start one
  uint64_t total;
} kiln_host_outcome;

/// Runs the whole grid (no extent is zero) and returns when it has ended.
kiln_status kiln_host_pool_run(kiln_host_pool *pool, kiln_host_kernel *kernel, const void *args,
                               const uint32_t grid[3], size_t scratch_bytes, kiln_host_outcome *out,
                               kiln_error *err);
/// For objects with KILN_HOST_WAIT, whose instances a pool runs.
kiln_host_wait kiln_host_pool_wait;

#endif
