// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all machine operations of Hopper need of a warpgroup and its shared memory: addresses of slots, the
// group's barrier, how the pieces of a row are exchanged.
#include "compiler/codegen/nvptx/nvptx_async.h"
#include "compiler/passes/gpu/gpu.h"

void nvptx_find_group(gpu *g) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder), entry = LLVMGetInstructionParent(g->thread);
  LLVMValueRef next = LLVMGetNextInstruction(g->thread);
  if (next) LLVMPositionBuilderBefore(g->builder, next);
  else LLVMPositionBuilderAtEnd(g->builder, entry);
  g->group = g->program_group = LLVMBuildLShr(g->builder, nvptx_warp(g), gpu_i32(g, 2), "");
  g->shared_address = LLVMBuildPtrToInt(g->builder, g->shared, g->i32, "");
  LLVMSetAlignment(g->shared, NVPTX_SHARED_ALIGN);
  LLVMPositionBuilderAtEnd(g->builder, here);
}

LLVMValueRef nvptx_warp(gpu *g) {
  LLVMValueRef warp = LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, 5), "");
  return kl_call(&g->prelude, KL_kl_shfl_idx_i32, (LLVMValueRef[2]){warp, gpu_i32(g, 0)}, 2);
}

LLVMValueRef nvptx_slot_address(gpu *g, ir_value *memory, ir_value *slot) {
  const ir_alloc *alloc = &memory->def->attrs.alloc;
  LLVMValueRef start = LLVMBuildAdd(g->builder, g->shared_address, gpu_i32(g, alloc->at), "");
  if (!slot) return start;
  uint32_t bytes = kiln_memory_bytes(memory->type, alloc->rows, alloc->columns) / nvptx_parts(memory->def);
  LLVMValueRef offset = LLVMBuildMul(g->builder, gpu_scalar(g, slot), gpu_i32(g, bytes), "");
  return LLVMBuildAdd(g->builder, start, offset, "");
}

void nvptx_group_barrier(gpu *g) {
  LLVMValueRef barrier = LLVMBuildAdd(g->builder, g->group, gpu_i32(g, NVPTX_GROUP_BARRIER), "");
  LLVMValueRef arguments[2] = {barrier, gpu_i32(g, NVPTX_GROUP_THREADS)};
  kl_call(&g->prelude, KL_kl_named_barrier, arguments, 2);
}

/// How 16-byte pieces of a row are exchanged. 128-byte rows: piece ^= row & 7; 64: piece ^= (row / 2) & 3;
/// 32: piece ^= (row / 4) & 1
LLVMValueRef nvptx_turn_of_row(gpu *g, unsigned bytes, LLVMValueRef row) {
  unsigned shift = bytes == 128 ? 0 : bytes == 64 ? 1 : 2;
  LLVMValueRef v = LLVMBuildLShr(g->builder, row, gpu_i32(g, shift), "");
  return LLVMBuildAnd(g->builder, v, gpu_i32(g, bytes / 16 - 1), "");
}
