// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ways of tiles into and out of shared memory, for the files that move them (gpu_tile.c).
#ifndef KILN_COMPILER_CODEGEN_GPU_TILE_H
#define KILN_COMPILER_CODEGEN_GPU_TILE_H

#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

/// A tile's way into or out of shared memory: how registers make pieces, and where a thread's first
/// element lies.
typedef struct gpu_shared_tile {
  const layout_memory *memory;
  const kiln_layout *layout;
  unsigned log2_bytes;
  kiln_pieces pieces;
  uint32_t start;     ///< byte offset of the tile
  LLVMValueRef base;  ///< byte offset of the thread's first element within it
  LLVMValueRef plain; ///< the same without what is left free
  uint32_t base_bits; ///< bits that the latter can have
  LLVMValueRef slot;  ///< byte offset of a slot, or NULL
  bool shares_base;   ///< pieces that differ in bits no thread has are offsets of one base
} gpu_shared_tile;

gpu_shared_tile gpu_shared_tile_open(gpu *g, const layout_memory *memory, const kiln_layout *layout,
                                     unsigned log2_bytes, uint32_t start);
/// Where the piece of register `r` lies.
LLVMValueRef gpu_shared_tile_pointer(gpu *g, const gpu_shared_tile *p, uint32_t r);
/// A tile that lies in a slot and is read in parts, when they are needed; shared memory is dirty then.
typedef struct gpu_staged {
  gpu_tile to; ///< its registers are filled as they are asked for; with all of them, nothing is read
  LLVMTypeRef type;
  const kiln_slot_layouts *slots;
  LLVMValueRef slot; ///< byte offset of the slot, or NULL
  const kiln_slot_read *read;
  gpu_shared_tile shared; ///< from the first read on
} gpu_staged;

/// `read` stays the caller's.
gpu_staged gpu_stage_slot(gpu *g, const gpu_place *place, ir_type type, const kiln_slot_read *read);
/// Registers [first, first + count) of the tile.
const LLVMValueRef *gpu_staged_read(gpu *g, gpu_staged *s, uint32_t first, uint32_t count);
/// gpu_write_tile, from `slot` bytes after `start` on; NULL: none.
void gpu_write_tile_in_slot(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                            uint32_t start, LLVMValueRef slot);
/// Reads the piece that starts at register `r`.
void gpu_shared_tile_read(gpu *g, const gpu_shared_tile *p, LLVMTypeRef type, uint32_t r, LLVMValueRef *regs);
/// Reads a tile from scratch.
gpu_tile gpu_read_tile(gpu *g, const layout_memory *memory, LLVMTypeRef type, const kiln_layout *layout,
                       unsigned log2_bytes);
/// Bytes of an element, logarithm.
unsigned gpu_log2_bytes_of(gpu *g, LLVMTypeRef type);

/// One matrix load: piece `r` of the registers.
void gpu_read_matrix_piece(gpu *g, const kiln_matrix_load *plan, const gpu_shared_tile *p, LLVMTypeRef type,
                           uint32_t r, LLVMValueRef *regs);
/// Reads a whole tile from scratch.
gpu_tile gpu_read_matrices(gpu *g, const kiln_matrix_load *plan, const layout_memory *memory,
                           LLVMTypeRef type, const kiln_layout *to);

#endif
