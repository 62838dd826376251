// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which accesses are ordered: happens-before by vector clocks.
//
// A thread's accesses carry a stamp: its block, the block's epoch, the thread and the thread's clock. A
// barrier of the whole block begins a new epoch: all stamps of the block's earlier epochs are ordered before
// what follows. What orders fewer threads (barriers of some warps, bar.warp.sync, atomics with acquire and
// release) joins views: what a thread knows to be before it, as clocks of the threads of blocks.
#ifndef KILN_TOOLS_PTX_RACE_H
#define KILN_TOOLS_PTX_RACE_H

#include "tools/ptx/memory.h"
#include "tools/ptx/program.h"

enum { PTX_CLOCK_BITS = 15, PTX_EPOCH_BITS = 18, PTX_BLOCK_BITS = 20, PTX_THREAD_BITS = 10 };

/// Immutable once others hold it.
typedef struct ptx_view ptx_view;

typedef struct ptx_thread {
  ptx_view *known;    ///< counted; what is ordered before it beyond its block's earlier epochs
  ptx_view *released; ///< counted; what its last fence released
  ptx_view *seen;     ///< counted; released by what it read without acquiring; a fence acquires it
  uint32_t clock;
  uint32_t loads;   ///< numbers its loads
  ptx_view *fenced; ///< counted; what it knew at its last fence.proxy.async
  uint32_t fenced_epoch, fenced_clock;
  ptx_view *inits_released, *inits;         ///< counted; as `released` and `known`, of fence.mbarrier_init
  uint32_t cluster_arrivals, cluster_waits; ///< at the barrier of its cluster
} ptx_thread;

typedef struct ptx_run ptx_run;
typedef struct ptx_block ptx_block;

typedef enum ptx_reading {
  READ_WEAK,
  READ_STRONG,
  READ_COPY,
  READ_PHASE ///< an operation on an mbarrier, whose initialisation fence.mbarrier_init may have ordered
} ptx_reading;
/// A load of a thread begins: its accesses belong together. True when the value is to be taken as undefined,
/// because the first run of this launch found that it races.
bool ptx_race_load(ptx_run *run, ptx_block *block, uint32_t thread);
/// Records an access of `size` bytes and reports the races that it is part of. Atomics and relaxed accesses
/// (strong) do not race with each other; a copy is the source of an asynchronous one. `value`: what is about
/// to be written, or NULL; two writes that leave the same byte are no race, as either order gives the same
/// memory.
void ptx_race_read(ptx_run *run, ptx_block *block, uint32_t thread, ptx_region *r, uint64_t offset,
                   uint32_t size, ptx_reading how);
void ptx_race_write(ptx_run *run, ptx_block *block, uint32_t thread, ptx_region *r, uint64_t offset,
                    uint32_t size, bool is_strong, const uint8_t *value);
/// All these threads of the block (bits of a set of 1024) meet: each knows what all did.
void ptx_race_meet(ptx_run *run, ptx_block *block, const uint64_t *threads);
/// When a thread issued an asynchronous copy. What the copy does counts as done then, in the clocks of the
/// thread; its completion orders nothing else that the thread did.
typedef struct ptx_moment {
  uint32_t epoch, clock;
} ptx_moment;
ptx_moment ptx_race_issue(ptx_run *run, ptx_block *block, uint32_t thread);
/// Makes the thread's accesses count as of a moment; returns what to go back to.
ptx_moment ptx_race_go_to(ptx_block *block, uint32_t thread, ptx_moment moment);
/// Adds what was done in that moment to a view, and of what was `before` the issue the waits.
void ptx_race_complete(const ptx_block *block, uint32_t thread, ptx_moment moment, const ptx_view *before,
                       ptx_view **view);
/// A fence between the generic and the asynchronous proxy.
void ptx_race_proxy_fence(ptx_run *run, ptx_block *block, uint32_t thread);
/// A read of shared memory through the asynchronous proxy that begins now, and its end, from which on it is a
/// read by the thread.
void ptx_race_async_read(ptx_run *run, ptx_block *block, uint32_t thread, uint64_t offset, uint32_t size);
void ptx_race_async_read_end(ptx_run *run, ptx_block *block, uint32_t thread, uint64_t offset, uint32_t size);
/// Adds what the thread did and knows to a view, which is made when it is NULL.
void ptx_race_release_to(ptx_run *run, ptx_block *block, uint32_t thread, ptx_view **view);
/// The same of an operation with an order: a relaxed one adds what the thread's last fence released.
void ptx_race_publish(ptx_run *run, ptx_block *block, uint32_t thread, ptx_order order, ptx_view **view);
void ptx_race_acquire(ptx_block *block, uint32_t thread, ptx_view *view);
/// A thread's wait at an mbarrier that has ended now, and whether a view, or NULL, has it.
uint64_t ptx_race_wait(const ptx_block *block, uint32_t thread);
bool ptx_race_has_wait(const ptx_view *view, uint64_t wait);
/// Which thread of the block it was.
uint32_t ptx_race_waiter(uint64_t wait);
/// What the lanes (a mask) of a warp that begins with `thread` did so far, as a view that the caller drops.
ptx_view *ptx_race_moment_of(ptx_run *run, ptx_block *block, uint32_t thread, uint32_t lanes);
/// Of what a view has, the thread learns only of the waits.
void ptx_race_acquire_waits(ptx_block *block, uint32_t thread, ptx_view *view);
/// A view in which only the waits of another are ordered. The caller drops it.
ptx_view *ptx_view_of_waits(const ptx_view *view);
/// A view in which only the reads of another are ordered, and writes by copies; NULL of NULL. The caller
/// drops it.
ptx_view *ptx_view_of_reads(ptx_view *view);
void ptx_view_add(ptx_view **to, ptx_view *view);
/// fence.mbarrier_init: orders initialisations only.
void ptx_race_init_fence(ptx_run *run, ptx_block *block, uint32_t thread);
/// All threads of the block have ended: accesses of its shared memory by other blocks have to be ordered
/// before the end of one of them.
void ptx_race_block_end(ptx_run *run, ptx_block *block);
ptx_view *ptx_view_hold(ptx_view *view);
void ptx_view_drop(ptx_view *view);
/// Orders memory as the manual says of a fence.
void ptx_race_fence(ptx_run *run, ptx_block *block, uint32_t thread);
/// A strong read or write, or both, of a location, with its order and scope.
void ptx_race_atomic(ptx_run *run, ptx_block *block, uint32_t thread, uint64_t address, ptx_order order,
                     ptx_scope scope, bool reads, bool writes);
/// A dependent launch begins: what the launch before it accessed is an access that only griddepcontrol.wait
/// orders. `is_first`: of two runs of the launch, the first.
void ptx_race_succeed(ptx_region *r, bool is_first);
/// griddepcontrol.wait: the launch before this one is over.
void ptx_race_after_predecessor(ptx_block *block, uint32_t thread);
void ptx_race_block_deinit(ptx_block *block);
void ptx_race_run_deinit(ptx_run *run);

#endif
