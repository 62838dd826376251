// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between the parts of the pass `roles` (roles.c says what it does): sites, memory, positions, the two roles.
#ifndef KILN_COMPILER_PASSES_GPU_ROLES_INNER_H
#define KILN_COMPILER_PASSES_GPU_ROLES_INNER_H

#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/ring.h"

enum { MAX_RINGS = 8, MAX_LOADS = 2, MAX_SITES = 32 };
enum { EXCHANGE_BYTES = 512 }; // of exchanges within a group of consumers

typedef struct roles_ring {
  kiln_ring ring;
  uint32_t rows[MAX_LOADS], columns[MAX_LOADS]; ///< of the tile that are copied; 0: all
  ir_value *full, *empty;                       ///< barriers, one a slot
  bool is_left[MAX_LOADS];
  bool is_mn[MAX_LOADS];     ///< rows in shared memory have the product's rows or columns
  unsigned parts[MAX_LOADS]; ///< different ones that the blocks which share the program have
  uint32_t bytes;            ///< of a slot, in all blocks of the cluster together
  uint32_t part;             ///< of a slot, in one of them
  bool is_in_loop;
  bool by_warps; ///< each warp releases a slot for itself: where no product may follow the wait for it
  bool is_put;   ///< for a computed operand: `tiles[0]`
  bool is_order; ///< no memory: `full` says that the consumers have written what copies may read
} roles_ring;

typedef struct site {
  unsigned ring, count;
  const ir_op *left;
  ir_op *loads[MAX_LOADS]; ///< in order of the text
  ir_op *dot;              ///< the last that reads them, where several do
  ir_value *slot;          ///< consumer: held
  bool is_held; ///< consumer: between the first and the last of several products in the block of the loads
} site;

typedef struct position {
  ir_value *slot, *phase;
} position;

typedef struct splitting {
  ir_kernel *kernel;
  const kiln_matrix_machine *machine;
  roles_ring rings[MAX_RINGS];
  site sites[MAX_SITES];
  struct {
    ir_op *dot;
    kiln_product how;
    unsigned ring;  ///< of what it puts
    bool is_zero;   ///< the accumulator is zero each time
    bool from_zero; ///< the loop around carries the accumulator, and it starts from zero there
  } products[MAX_SITES];
  unsigned ring_count, site_count, product_count, groups, blocks;
  uint32_t top;                ///< shared memory claimed
  unsigned staged;             ///< logarithm of the bytes of a row that groups stage at a time
  ir_value *staging[2];        ///< for stores of 16 bits, for sums of 32: the same bytes
  ir_op *exchanges[MAX_SITES]; ///< the consumers', of sums
  unsigned exchange_count;
  ir_op *scatter;   ///< that of parts of the sums; NULL: none
  ir_value *taken;  ///< barrier: what was exchanged over the slots has been read; NULL: it has its own memory
  ir_value *passed; ///< barrier: the producers have seen that
  unsigned split;   ///< blocks of a cluster that share a loop; 0: none
  unsigned spread, columns; ///< blocks that share a program; of these, side by side
  bool meets;               ///< the producer may have to wait for what consumers write
  unsigned order;           ///< the ring for that
  position at[MAX_RINGS];
  ir_builder b;
  bool is_producer;
  kiln_report_reason reason; ///< why it does not fit
} splitting;

// roles_rings.c
/// The loads that the consumers' products read: sites, their rings, computed operands. Sets `reason` where
/// there are too many.
void roles_find_sites(splitting *s);

// roles_order.c
/// Where copies may read what was written before, a barrier behind the question whether they do. Sets `meets`.
void roles_order(splitting *s);

/// Shared memory of what is staged, exchanged and copied, and the barriers, before the roles. False
/// where two slots of each ring have no room.
bool roles_alloc(splitting *s, const kiln_target *target, ir_block *consumer);
/// Stores that go through shared memory.
bool roles_is_staged(const ir_op *op);

// roles_ends.c
/// What is emitted next stands before `op`, or after it.
void roles_before(splitting *s, ir_op *op);
void roles_after(splitting *s, ir_op *op);
/// `phase`: NULL for operations that have none.
void roles_emit_barrier(splitting *s, ir_opcode code, ir_value *barriers, ir_value *slot, ir_value *phase);
/// An arrival of each warp group, or of each of its warps.
void roles_emit_arrival(splitting *s, ir_value *barriers, ir_value *slot, bool by_warps);
/// The position moves to the next slot of the ring.
void roles_advance(splitting *s, unsigned ring);

/// A load. Producer: it becomes copies after the last load of its site. `seen`: of all sites, the loads of the
/// block so far. Consumers: where the product stands deeper, they wait at the last load.
void roles_load(splitting *s, ir_op *load, ir_op **seen);
/// A product reads the slots of its loads.
void roles_consume(splitting *s, ir_op *dot);
/// The slot is no longer read.
void roles_release(splitting *s, const site *x);
/// A store that goes through shared memory.
void roles_stage(splitting *s, ir_op *op);
/// A barrier where copies may read what was written before (roles_order), in either role.
void roles_meet(splitting *s, ir_op *barrier);

#endif
