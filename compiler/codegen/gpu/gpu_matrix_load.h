// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads of matrices, for those that read tiles from shared memory (gpu_matrix_load.c).
#ifndef KILN_COMPILER_CODEGEN_GPU_MATRIX_LOAD_H
#define KILN_COMPILER_CODEGEN_GPU_MATRIX_LOAD_H

#include "compiler/codegen/gpu/gpu_shared.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

/// One matrix load: piece `r` of the registers.
void gpu_read_matrix_piece(gpu *g, const kiln_matrix_load *plan, const gpu_shared_tile *p, LLVMTypeRef type,
                           uint32_t r, LLVMValueRef *regs);
/// Reads a whole tile from scratch.
gpu_tile gpu_read_matrices(gpu *g, const kiln_matrix_load *plan, const layout_memory *memory,
                           LLVMTypeRef type, const kiln_layout *to);

#endif
