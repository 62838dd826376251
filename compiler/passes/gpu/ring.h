// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A ring: slots of shared memory, one after another in a circle, in which the tiles that a loop loads wait for
// its products. Three passes fill one, each in its way:
//
//   pass            who fills a slot                          when it is full         when it may be filled again
//   roles           one thread, by bulk copies (TMA)          `full` barrier          `empty` barrier
//   fetch           all threads, by asynchronous copies       fetch_wait, barrier     the same barrier
//   double-buffer   all threads, through their registers      barrier                 the same barrier
//
// `prefetch` needs none: what it loads ahead waits in registers.
#ifndef KILN_COMPILER_PASSES_GPU_RING_H
#define KILN_COMPILER_PASSES_GPU_RING_H

#include "compiler/ir/ir.h"

enum {
  KILN_RING_TILES = 4,
  KILN_RING_ALIGN = 1024 ///< bytes, of slots that products read (PTX ISA, "Matrix Descriptor Format")
};

typedef struct kiln_ring {
  unsigned slots;
  unsigned count; ///< tiles that a slot holds
  ir_type tiles[KILN_RING_TILES];
  ir_value *memory[KILN_RING_TILES]; ///< of each of these tiles, in all slots
} kiln_ring;

/// Adds a tile to what a slot holds; its memory is allocated later. Returns its number.
unsigned kiln_ring_add(kiln_ring *ring, ir_type tile);

/// Emits the allocation of tile `i`, at the place that `where` says.
void kiln_ring_alloc(kiln_ring *ring, unsigned i, ir_alloc where, ir_builder *b);

/// Emits the number of the slot after `slot`, and of the one before it; the first follows the last. `out_wraps`:
/// whether it does (NULL: not wanted).
ir_value *kiln_ring_after(const kiln_ring *ring, ir_value *slot, ir_builder *b, ir_value **out_wraps);
ir_value *kiln_ring_before(const kiln_ring *ring, ir_value *slot, ir_builder *b);

/// A load of tile `i` becomes a read of that slot, at the builder's place. `is_turned`: the slot has a matrix with rows
/// and columns exchanged.
void kiln_ring_replace_load(const kiln_ring *ring, unsigned i, ir_op *load, ir_value *slot, bool is_turned,
                            ir_builder *b);

/// The first byte of shared memory that is free while the loop runs: those before it have slots of loops around it.
uint32_t kiln_ring_floor(const ir_op *loop);

/// Emits what ends the use of the ring's memory, after `loop`.
void kiln_ring_end(const kiln_ring *ring, ir_op *loop, ir_builder *b);

#endif
