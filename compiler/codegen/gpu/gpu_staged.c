// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products in slots of shared memory, read in parts when asked for.
#include "compiler/codegen/gpu/gpu_matrix_load.h"

struct gpu_staged {
  gpu_tile to; ///< its registers are filled as they are asked for
  LLVMTypeRef type;
  bool is_matrix;
  unsigned log2_bytes;
  uint32_t start;
  LLVMValueRef slot;
  kiln_matrix_load plan;
  layout_memory memory;
  gpu_shared_tile shared;
};

/// NULL: the slot begins at the first.
static LLVMValueRef slot_offset(gpu *g, const gpu_place *place) {
  if (LLVMIsAConstantInt(place->slot) && !LLVMConstIntGetZExtValue(place->slot)) return NULL;
  if (place->slots->is_by_bytes) return place->slot;
  return LLVMBuildMul(g->builder, place->slot, gpu_i32(g, place->slots->bytes), "");
}

/// Operands of multiply-adds are words, read by so many instructions that a register for each address spills.
static bool shares_base(const gpu *g, unsigned log2_bytes) {
  return g->machine->shares_bases && log2_bytes == 2;
}

/// A matrix load needs its rows in one piece; the slots were laid out for the first reader.
gpu_staged *gpu_stage_slot(gpu *g, const gpu_place *place, ir_type element, const kiln_layout *to) {
  const kiln_slot_layouts *slots = place->slots;
  gpu_staged s = {.type = gpu_type(g, element), .start = slots->start, .memory = slots->memory};
  s.log2_bytes = gpu_log2_bytes_of(g, s.type);
  s.is_matrix = kiln_plan_matrix_load(&g->layouts->machine, &slots->writer, to, s.log2_bytes,
                                      KILN_PARTS_OF_ROWS, &s.plan);
  for (unsigned i = 0; s.is_matrix && i < kiln_matrix_row_bits(&s.plan); i++)
    s.is_matrix = layout_offset(&s.memory, s.plan.row[i]) == 1u << i;
  s.slot = slot_offset(g, place);
  s.to = gpu_tile_new(g, to);
  gpu_note_exchange(g, &s.memory, slots->is_exchange ? &slots->writer : NULL,
                    s.is_matrix ? &s.plan.address : to, s.log2_bytes, s.is_matrix);
  return kiln_arena_copy(g->arena, &s, sizeof s);
}

void gpu_write_slot(gpu *g, const gpu_place *place, const gpu_tile *tile) {
  const kiln_slot_layouts *s = place->slots;
  gpu_write_tile_in_slot(g, tile, &s->memory, s->log2_bytes, s->start, slot_offset(g, place));
}

LLVMValueRef gpu_slot_pointer(gpu *g, const gpu_place *place, uint32_t r) {
  const kiln_slot_layouts *s = place->slots;
  gpu_shared_tile p = gpu_shared_tile_open(g, &s->memory, &s->writer, s->log2_bytes, s->start);
  p.slot = slot_offset(g, place);
  p.shares_base = shares_base(g, s->log2_bytes);
  return gpu_shared_tile_pointer(g, &p, r);
}

const LLVMValueRef *gpu_staged_read(gpu *g, gpu_staged *s, uint32_t first, uint32_t count) {
  const kiln_layout *l = s->is_matrix ? &s->plan.address : &s->to.layout;
  if (!s->shared.base) {
    s->shared = gpu_shared_tile_open(g, &s->memory, l, s->log2_bytes, s->start);
    s->shared.slot = s->slot;
    s->shared.shares_base = shares_base(g, s->log2_bytes);
  }
  for (uint32_t r = first; r < first + count; r++) {
    if (s->to.regs[r]) continue;
    if (s->is_matrix) {
      gpu_read_matrix_piece(g, &s->plan, &s->shared, s->type, r >> (s->plan.word + s->plan.matrices),
                            s->to.regs);
      continue;
    }
    gpu_shared_tile_read(g, &s->shared, s->type, r & ~s->shared.pieces.mask, s->to.regs);
  }
  return s->to.regs + first;
}
