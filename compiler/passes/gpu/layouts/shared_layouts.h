// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How tiles lie in shared memory between threads that write them and a product that reads them.
#ifndef KILN_COMPILER_PASSES_GPU_LAYOUTS_SHARED_LAYOUTS_H
#define KILN_COMPILER_PASSES_GPU_LAYOUTS_SHARED_LAYOUTS_H

#include "compiler/passes/gpu/layouts/layouts.h"

// ------------------------------------------------------------------------------------ matrix_load.c

typedef enum kiln_rows_written { KILN_WHOLE_ROWS, KILN_PARTS_OF_ROWS } kiln_rows_written;

/// True when `to` is what a matrix load yields and `from` can write rows: whole ones, or any part of them.
bool kiln_plan_matrix_load(const kiln_fetch_machine *machine, const kiln_layout *from, const kiln_layout *to,
                           unsigned log2_bytes, kiln_rows_written written, kiln_matrix_load *out);
/// How a tile in layout `from` lies in shared memory when the plan reads it.
layout_memory kiln_matrix_memory(const kiln_matrix_load *plan, const kiln_layout *from, unsigned log2_bytes);

// --------------------------------------------------------------------------------- shared_layouts.c

/// How an operand in layout `from` lies in shared memory when a product reads it in layout `to`; true where
/// matrix loads read it, and `out_plan` says how.
bool kiln_operand_memory(const kiln_fetch_machine *machine, const kiln_layout *from, const kiln_layout *to,
                         unsigned log2_bytes, kiln_matrix_load *out_plan, layout_memory *out_memory);
/// For ir_walk, with the layouts as context: sets where the slots lie that the operation fetches or stores to, and
/// how a tile lies in one, as the first of them writes it.
void kiln_slots_place(ir_op *op, void *layouts);
/// Sets what follows from the operation and from `memory`.
void kiln_slots_measure(const ir_op *alloc, kiln_slot_layouts *s);
/// Emits an `alloc` of one slot for a tile, at byte `at`. Sets all of `slots` but its writer and reader, which
/// are given; they are for the notes of the result once the kernel is numbered again. NULL after an error.
ir_value *kiln_slots_alloc(const kiln_layouts *c, ir_builder *b, const ir_value *tile, uint32_t at,
                           kiln_slot_layouts *slots);
/// Emits a `slot_store` of a tile as it lies.
void kiln_slots_store(const kiln_layouts *c, ir_builder *b, ir_value *memory, ir_value *slot, ir_value *tile);

/// The end of the shared memory that the rings and barriers of warp specialization have, where exchanges begin; 0:
/// the kernel has none.
uint32_t kiln_roles_end(const kiln_layouts *c);

/// The slots in use at a place of the text: from the first fetch or store on, up to a `fetch_end`.
typedef struct kiln_shared_use {
  struct kiln_open_slots *open;
  uint32_t end;   ///< of the last of them; what lies above is free for exchanges
  uint32_t floor; ///< what lies below is in use all the time
} kiln_shared_use;
/// Goes on after an operation of the kernel, in the order of ir_walk.
void kiln_shared_use_step(kiln_shared_use *u, const kiln_layouts *c, const ir_op *op);

// Before code is made:
/// In what pieces the fetch copies, for its slots (kiln_slot_layouts.fetches).
const kiln_fetch_pieces *kiln_plan_fetch(kiln_layouts *c, const ir_op *fetch);
/// Which operands a product by matrix instructions reads from slots, and how (kiln_dot_layouts.sources).
void kiln_plan_product(kiln_layouts *c, const ir_op *dot);
/// How a tile is read from a slot in layout `to`.
kiln_slot_read kiln_plan_slot_read(const kiln_layouts *c, const kiln_slot_layouts *s, const kiln_layout *to);

#endif
