// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits loads from shared memory that hand out fragments of matrix instructions (layouts/matrix_load.c).
#include "compiler/codegen/gpu/gpu_matrix_load.h"

enum { WORD_BYTES = 2 }; // logarithm

void gpu_read_matrix_piece(gpu *g, const kiln_matrix_load *plan, const gpu_shared_tile *p, LLVMTypeRef type,
                           uint32_t r, LLVMValueRef *regs) {
  static const kl_function functions[2][3] = {
      {KL_kl_ldmatrix_x1, KL_kl_ldmatrix_x2, KL_kl_ldmatrix_x4},
      {KL_kl_ldmatrix_x1_trans, KL_kl_ldmatrix_x2_trans, KL_kl_ldmatrix_x4_trans}};
  LLVMValueRef pointer = gpu_shared_tile_pointer(g, p, r << kiln_matrix_row_bits(plan));
  if (g->machine->read_turned) {
    LLVMValueRef read = g->machine->read_turned(g, pointer, type);
    for (uint32_t i = 0; i < 1u << plan->matrices; i++)
      regs[r << plan->matrices | i] = LLVMBuildExtractElement(g->builder, read, gpu_i32(g, i), "");
    return;
  }
  LLVMValueRef loaded = kl_call(&g->prelude, functions[plan->is_transposed][plan->matrices], &pointer, 1);
  for (uint32_t m = 0; m < 1u << plan->matrices; m++) {
    LLVMValueRef word =
        plan->matrices ? LLVMBuildExtractElement(g->builder, loaded, gpu_i32(g, m), "") : loaded;
    gpu_unpack(g, word, type, regs + (((size_t)r << plan->matrices | m) << plan->word), 1u << plan->word);
  }
}

gpu_tile gpu_read_matrices(gpu *g, const kiln_matrix_load *plan, const layout_memory *memory,
                           LLVMTypeRef type, const kiln_layout *to) {
  gpu_tile out = gpu_tile_new(g, to);
  gpu_shared_tile p =
      gpu_shared_tile_open(g, memory, &plan->address, WORD_BYTES - plan->word, g->scratch_base);
  for (uint32_t r = 0; r < 1u << (to->registers - plan->word - plan->matrices); r++)
    gpu_read_matrix_piece(g, plan, &p, type, r, out.regs);
  return out;
}
