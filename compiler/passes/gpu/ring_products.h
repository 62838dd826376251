// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a loop that warpgroups multiply (wgmma) right from slots that threads filled: of the pass `fetch`.
#ifndef KILN_COMPILER_PASSES_GPU_RING_PRODUCTS_H
#define KILN_COMPILER_PASSES_GPU_RING_PRODUCTS_H

#include "compiler/passes/gpu/pipeline.h"

enum {
  KILN_RING_PRODUCTS = 8, ///< in one loop
  KILN_RING_STORED = 4    ///< tiles that threads store for them
};

typedef enum kiln_operand_from {
  KILN_FROM_RING,      ///< a load of the loop
  KILN_FROM_REGISTERS, ///< left operands of 16 bits alone
  KILN_FROM_STORED, ///< a tile that threads store: before the loop, if it does not change there, or in each iteration
} kiln_operand_from;

typedef struct kiln_ring_operand {
  kiln_operand_from from;
  unsigned number; ///< of the load, or of the stored tile
  bool is_mn;      ///< lies in memory with rows (left), columns (right) contiguous, not the reduced index
} kiln_ring_operand;

/// Where a scalar of the body is `when`, the sum is zero afterwards.
typedef struct kiln_clearing {
  ir_value *condition;
  bool when;
} kiln_clearing;

typedef struct kiln_ring_product {
  ir_op *dot;
  kiln_ring_operand operands[2];
  bool is_partial; ///< see kiln_product
  bool is_late;    ///< carried for it alone, until it is cleared: it goes on while the next iteration begins
  bool is_cleared; ///< the loop carries zero on instead of the sum, as `clearing` says
  kiln_clearing clearing;
  ir_op *reader; ///< of a late sum that is cleared: the branch that reads it before; NULL: none does
} kiln_ring_product;

typedef struct kiln_stored_tile {
  ir_value *value, *memory;
  bool is_kept;   ///< stored once, before the loop
  bool is_turned; ///< its memory has a matrix with rows and columns exchanged
  bool is_there;  ///< while products are emitted: has been stored
} kiln_stored_tile;

typedef struct kiln_ring_products {
  kiln_ring_product list[KILN_RING_PRODUCTS];
  unsigned count, late;
  bool is_chain; ///< each but the first follows from another one
  kiln_stored_tile stored[KILN_RING_STORED];
  unsigned stored_count;
  bool fills_ahead; ///< the loop fills slots of iterations to come
  bool has_stored;  ///< while products are emitted: in the iteration, which has waited for that
  ir_op *first;     ///< of those that have been emitted
  ir_value *first_keep,
      *next_keeps[KILN_RING_PRODUCTS]; ///< i1 that the loop carries more, for sums that are cleared:
  unsigned keep_count;                 ///< whether they were not
} kiln_ring_products;

/// Finds the products of the loop that warpgroups can multiply from shared memory. False: none. `axis`: for each load, the
/// one along which its elements are neighbours in memory, the last in its slot. May double the kernel's warps, where a
/// thread of more of them has room for its sums.
bool kiln_ring_products_find(const kiln_pipeline *a, const kiln_facts *facts, const uint8_t *axis,
                             kiln_ring_products *out);

/// No product goes on while the next iteration begins.
void kiln_ring_products_end(kiln_ring_products *products);

/// Bytes of shared memory for what threads store.
uint32_t kiln_ring_products_bytes(const kiln_ring_products *products);

/// Before the loop: allocates what threads store from byte `at` on, and stores what does not change. Without loads in a
/// ring, threads meet then.
void kiln_ring_products_open(kiln_pipeline *a, uint32_t at, kiln_ring_products *products);
/// Emits the products where they stand; they read slot `slot` of the ring.
void kiln_ring_products_emit(kiln_pipeline *a, const kiln_ring *ring, ir_value *slot,
                             kiln_ring_products *products);
/// Whether the first product of the loop can go on while the next slot is filled, and others wait for it in any case.
bool kiln_ring_products_overlap(const kiln_ring_products *products);
/// Emits the wait for it, at the builder's place.
void kiln_ring_products_wait(kiln_pipeline *a, kiln_ring_products *products);
/// After the loop, which has been made anew: waits for the late products, and frees what was stored.
void kiln_ring_products_close(kiln_pipeline *a, const kiln_ring_products *products);

#endif
