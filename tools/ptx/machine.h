// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch while it runs: blocks, warps, and the strands that a warp's lanes are divided into.
//
// A strand is a set of lanes of one warp at one instruction. Branches split strands, so does the scheduler at
// random; strands that meet at an instruction become one again. Warps and strands run in a random order by
// the seed.
#ifndef KILN_TOOLS_PTX_MACHINE_H
#define KILN_TOOLS_PTX_MACHINE_H

#include "tools/ptx/race.h"

enum {
  PTX_BARRIERS = 16,
  PTX_AT_PHASE = 16,
  PTX_CLUSTER = 16, ///< blocks at most
  PTX_MAX_THREADS = 1024,
  PTX_SET_WORDS = PTX_MAX_THREADS / 64,
  PTX_COPY_GROUPS = 64
};

/// A register of all lanes of a warp.
typedef struct ptx_register {
  uint64_t v[PTX_LANES];
  uint32_t full;           ///< lanes where all bytes are defined
  uint8_t part[PTX_LANES]; ///< of the others: which bytes are
  uint32_t product;        ///< line of the wgmma that is still writing it; 0: none
  uint64_t written;        ///< the step of the last write by anything else
} ptx_register;

typedef enum ptx_state { STATE_RUNS, STATE_JOINS, STATE_WAITS } ptx_state;

typedef struct ptx_strand {
  uint32_t pc, mask;
  ptx_state state;
  uint32_t members; ///< JOINS: the lanes that have to come
  uint32_t barrier; ///< WAITS
} ptx_strand;

/// One cp.async of one lane, until it lands.
typedef struct ptx_copy {
  uint64_t to, from;
  uint32_t size, filled; ///< bytes; from `filled` on zeros are written
  uint32_t lane, group, line;
  bool is_moved; ///< its bytes are there, though nobody may know it
} ptx_copy;

/// A wgmma of one warp until it is waited for: what it reads of shared memory, and the registers that it
/// writes.
typedef struct ptx_product {
  uint32_t group;
  uint32_t *chunks; ///< owned; offsets of 16 bytes each; none when another warp's wait has ended the reads
  uint32_t chunk_count;
  ptx_view *ended;       ///< counted; what that wait knew
  const ptx_operand *to; ///< of the module
} ptx_product;

/// Groups of products that the warps of a warpgroup may be apart.
enum { PTX_COMMITS = 64 };

/// By whom arrivals at a phase barrier were, which decides what a wait orders: threads of the barrier's own
/// block, and copies; others with the scope of the cluster; others with a narrower scope.
enum { ARRIVED_OWN, ARRIVED_CLUSTER, ARRIVED_NARROW, ARRIVED_KINDS };

/// A wait for the end of a phase, which has succeeded.
typedef struct ptx_phase_wait {
  uint64_t wait; ///< ptx_race_wait
  uint32_t line;
} ptx_phase_wait;

/// A phase barrier in shared memory.
typedef struct ptx_phase {
  uint64_t address; ///< offset
  uint32_t count, left, phase;
  int64_t bytes;                                                ///< that are still to come
  ptx_view *arriving[ARRIVED_KINDS], *completed[ARRIVED_KINDS]; ///< counted
  ptx_phase_wait *waits;                                        ///< owned; for the last phase that ended
  uint32_t wait_count, wait_capacity;
} ptx_phase;

/// A tensor as cuTensorMapEncodeTiled describes it; what the interpreter's maps hold.
typedef struct ptx_tensor {
  uint32_t magic, element_bytes, rank, swizzle;
  bool is_nan_filled;
  ptx_element_kind kind;
  uint64_t address, extents[5], strides[4];
  uint32_t box[5];
} ptx_tensor;

typedef enum ptx_bulk_kind {
  BULK_LOAD,
  BULK_STORE,
  BULK_ADD,
  BULK_MOVE, ///< from the block's shared memory to that of `to`
  BULK_SEND  ///< st.async
} ptx_bulk_kind;
/// A bulk copy of one thread until it has landed.
typedef struct ptx_bulk {
  ptx_bulk_kind kind;
  ptx_tensor tensor; ///< LOAD, STORE, ADD
  int32_t at[5];
  uint64_t shared;  ///< offset: the destination, of a STORE the source
  uint64_t source;  ///< MOVE: offset
  ptx_block *to;    ///< whose shared memory is written; NULL: none
  uint64_t barrier; ///< offset in the same block
  uint32_t thread, group, size;
  ptx_moment issued;
  ptx_view *before; ///< counted; what was before the issue
  const ptx_instruction *by;
  uint8_t *bytes; ///< owned; what a STORE has read, what a SEND sends; NULL: not yet
} ptx_bulk;

typedef struct ptx_warp {
  ptx_block *block;
  uint32_t index, live;
  ptx_strand strands[PTX_LANES];
  uint32_t strand_count;
  ptx_register *registers; ///< owned
  uint32_t carry;          ///< the condition code's carry, a bit a lane
  ptx_copy *copies;        ///< owned, in order of issue
  uint32_t copy_count, copy_capacity;
  uint32_t groups[PTX_LANES]; ///< copy groups that each lane has committed
  ptx_product *products;      ///< owned, in order of issue
  uint32_t product_count, product_capacity, product_groups;
  ptx_view *commits[PTX_COMMITS]; ///< counted; what its threads had done when they committed the last groups
  uint64_t product_fence;         ///< the step of the last wgmma.fence
  uint32_t apart;                 ///< the loop with several entries that its lanes entered apart; 0: none
  uint32_t apart_line;            ///< where they parted
  uint32_t held;                  ///< registers per thread; 0: nothing bounds them
  uint32_t resizes;               ///< how often setmaxnreg has run
  const ptx_instruction *resized; ///< the last of them
} ptx_warp;

typedef struct ptx_barrier {
  uint32_t expected, arrived;      ///< threads; expected 0: all that are alive
  uint64_t members[PTX_SET_WORDS]; ///< that arrived
  uint32_t line;                   ///< of the first arrival
  bool is_open;                    ///< someone has arrived
} ptx_barrier;

/// The last access of a block's shared memory by a thread of another block.
typedef struct ptx_visit {
  uint64_t stamp; ///< 0: none
  const ptx_instruction *at;
} ptx_visit;

/// Blocks that start together and reach each other's shared memory; most often one.
typedef struct ptx_cluster {
  ptx_block *blocks[PTX_CLUSTER]; ///< owned, by rank
  uint32_t block_count;
  uint32_t at[3];
  uint32_t phase; ///< of its barrier: how many have ended
  bool has_arrivals;
  ptx_view *arriving, *completed, *arriving_inits, *completed_inits; ///< counted
} ptx_cluster;

struct ptx_block {
  ptx_cluster *cluster; ///< borrowed
  uint32_t rank;        ///< in the cluster
  bool has_ended;
  ptx_visit *visits; ///< owned, by rank and thread; NULL: none
  uint32_t number, at[3];
  uint32_t thread_count, warp_count, live_warps;
  ptx_warp *warps;     ///< owned
  ptx_thread *threads; ///< owned
  uint32_t epoch;
  ptx_region shared;
  ptx_region *locals; ///< owned, one a thread; NULL when the kernel has no local memory
  ptx_barrier barriers[PTX_BARRIERS];
  uint32_t pool;     ///< registers per thread of a warp that setmaxnreg may take
  ptx_phase *phases; ///< owned
  uint32_t phase_count, phase_capacity;
  ptx_bulk *bulks; ///< owned, in order of issue
  uint32_t bulk_count, bulk_capacity;
  uint32_t *bulk_groups; ///< owned; that each thread has committed
};

typedef struct ptx_reader_node {
  uint64_t stamp;
  uint32_t line, load, next;
} ptx_reader_node;

typedef struct ptx_location {
  uint64_t address; ///< 0: free
  ptx_view *released;
  uint32_t block; ///< where the last writer's scope was its block: that one
  bool is_block_only;
} ptx_location;

struct ptx_run {
  const ptx_module *module;
  const ptx_kernel *kernel;
  const ptx_launch *launch;
  ptx_memory *memory;
  ptx_report *report;
  ptx_report
      *read_races; ///< races of loads, which count only if the value reaches something; NULL: a second run
  ptx_journal *journal; ///< borrowed; NULL: a second run
  uint64_t *raced;      ///< borrowed: loads whose values are undefined in the second run, hashed; 0 is free
  uint32_t raced_count, raced_capacity;
  ptx_region parameters;
  uint32_t cluster[3]; ///< blocks of each
  uint64_t random, steps, next_cluster, cluster_count;
  bool is_stopped;           ///< a finding after which nothing can be said
  const ptx_instruction *at; ///< the current one, for findings
  ptx_cluster **clusters;    ///< owned; NULL: a free place
  uint32_t resident;         ///< clusters
  ptx_reader_node *nodes;    ///< owned; 0 is no node
  uint32_t node_count, node_capacity, free_node;
  ptx_location *locations; ///< owned; hashed by address
  uint32_t location_count, location_capacity;
};

/// What an instruction's handler gets.
struct ptx_exec {
  ptx_run *run;
  ptx_block *block;
  ptx_warp *warp;
  ptx_strand *strand;
  const ptx_instruction *i;
  uint32_t mask; ///< lanes that execute it
};

uint64_t ptx_random(ptx_run *run);
/// Adds a finding about the current instruction unless it is known; kinds after which the machine's state
/// means nothing stop the run.
void ptx_find(ptx_run *run, ptx_finding_kind kind, const char *format, ...) KILN_PRINTF(3, 4);
/// Adds a race between a load, by its block, thread and number, and a write.
void ptx_find_read_race(ptx_run *run, uint32_t block, uint32_t thread, uint32_t load, const char *format, ...)
    KILN_PRINTF(5, 6);
bool ptx_raced_has(const ptx_run *run, uint32_t block, uint32_t thread, uint32_t load);
/// "block 3, thread 17"; static storage, a few at a time.
const char *ptx_who(const ptx_block *block, uint32_t thread);

#define PTX_EACH_LANE(lane, lanes)               \
  for (uint32_t lane##_left = (lanes), lane = 0; \
       lane##_left && ((lane = (uint32_t)__builtin_ctz(lane##_left)), true); lane##_left &= lane##_left - 1)

/// The values of an operand in all lanes: of the register itself, or in `buffer`. Clears the bits of lanes
/// with an undefined value from `out_defined`.
const uint64_t *ptx_source(ptx_exec *x, const ptx_operand *o, uint64_t *buffer, uint32_t *out_defined);
/// The same of an operand that decides something: an undefined value is a finding.
const uint64_t *ptx_decider(ptx_exec *x, const ptx_operand *o, uint64_t *buffer, const char *what);
/// Which bytes of a lane's value are defined.
uint8_t ptx_defined_bytes(ptx_exec *x, const ptx_operand *o, uint32_t lane);
/// Writes a lane of a register (SINK: nothing), cut to the register's width.
void ptx_write(ptx_exec *x, const ptx_operand *o, uint32_t lane, uint64_t value, bool is_defined);
void ptx_write_parts(ptx_exec *x, const ptx_operand *o, uint32_t lane, uint64_t value, uint8_t defined);
static inline uint32_t ptx_thread_of(const ptx_exec *x, uint32_t lane) {
  return x->warp->index * PTX_LANES + lane;
}

/// Generic addresses of other spaces lie in windows.
enum { PTX_WINDOW_SHIFT = 40 };
/// Above the offset, a shared::cluster address has the rank of its block plus one; 0: the block's own.
enum { PTX_RANK_SHIFT = 24 };
static inline uint64_t ptx_window(ptx_space space) {
  return space == SPACE_SHARED || space == SPACE_CLUSTER ? 1ull << PTX_WINDOW_SHIFT
         : space == SPACE_LOCAL                          ? 2ull << PTX_WINDOW_SHIFT
         : space == SPACE_PARAM                          ? 3ull << PTX_WINDOW_SHIFT
                                                         : 0;
}

/// What a lane accesses.
typedef struct ptx_place {
  ptx_region *region; ///< NULL: there is nothing, and it was reported
  uint64_t offset;
} ptx_place;
/// Resolves an address of a space; checks bounds and alignment.
ptx_place ptx_locate(ptx_exec *x, uint32_t lane, ptx_space space, uint64_t address, uint32_t size,
                     uint32_t alignment);
/// A number that names the place among those of atomics, whatever its address was spelled as.
static inline uint64_t ptx_location_of(ptx_place at) {
  uint64_t block = at.region->owner ? (uint64_t)at.region->owner->number + 1 : 0;
  return at.region->address + at.offset + (block << 44) + (block ? 1ull << PTX_WINDOW_SHIFT : 0);
}
/// The address that the operand has in each lane.
void ptx_addresses(ptx_exec *x, const ptx_operand *o, uint64_t *out);
/// Lands copies of these lanes up to a count of groups that may stay open.
void ptx_copies_land(ptx_exec *x, uint32_t lanes, uint32_t open_groups);
/// Lets some copies land early, at random.
void ptx_copies_hurry(ptx_run *run, ptx_warp *warp);

/// Lets a bulk copy of the block land, at random. False when there is none.
bool ptx_bulk_land(ptx_run *run, ptx_block *block);
/// Lands the stores of these lanes that are not in the last `open_groups`; `reads_only`: only their reads of
/// shared memory end.
void ptx_bulk_wait(ptx_exec *x, uint32_t lanes, uint32_t open_groups, bool reads_only);
void ptx_bulk_deinit(ptx_block *block);
/// st.async of one lane: the value is the copy's own, `shared` and `barrier` are offsets in `to`.
void ptx_bulk_send(ptx_exec *x, uint32_t lane, ptx_place to, ptx_place barrier, const uint8_t *value,
                   const uint8_t *defined, uint32_t size);
/// Copies into the shared memory of a block that has just ended are a finding.
void ptx_bulk_check_end(ptx_run *run, const ptx_block *block);
/// The bytes of a copy of this block have arrived for its phase barrier.
void ptx_phase_bytes(ptx_run *run, const ptx_block *block, const ptx_bulk *copy);
/// A copy that will bring bytes to the barrier is issued. False when there is none, which was reported.
bool ptx_phase_names(ptx_exec *x, uint32_t lane, ptx_place barrier);
void ptx_phase_deinit(ptx_block *block);
/// The strand runs its instruction again after a wake of the block.
void ptx_sleep(ptx_exec *x);
void ptx_wake(ptx_block *block);
void ptx_products_deinit(ptx_warp *warp);
/// Registers per thread that a kernel begins with (resize.c).
uint32_t ptx_start_registers(const ptx_kernel *kernel);
/// Warpgroups of which only some warps ran a setmaxnreg are a finding.
void ptx_resizes_check_end(ptx_run *run, const ptx_block *block);

/// Clusters (cluster.c). A shared::cluster address leads to a block and an offset in its shared memory; NULL
/// when the space does not reach it.
ptx_block *ptx_cluster_reach(const ptx_exec *x, ptx_space space, uint64_t address, uint64_t *out_offset);
ptx_block *ptx_cluster_find(const ptx_cluster *cluster, uint32_t block);
void ptx_cluster_barrier(ptx_exec *x);
/// Threads have ended: its barrier may be waiting for nobody else.
void ptx_cluster_check(ptx_cluster *cluster);
void ptx_cluster_deinit(ptx_cluster *cluster);

/// Strands and barriers (schedule.c, barrier.c).
void ptx_exit_lanes(ptx_exec *x, uint32_t lanes);
void ptx_barrier_check(ptx_run *run, ptx_block *block, uint32_t number);
/// Adds a strand; the warp has room, as strands have different lanes.
ptx_strand *ptx_strand_add(ptx_warp *warp, uint32_t pc, uint32_t mask);

#endif
