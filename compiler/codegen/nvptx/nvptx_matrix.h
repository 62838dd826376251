// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The hook of gpu_machine for mma.sync.
#ifndef KILN_COMPILER_CODEGEN_NVPTX_MATRIX_H
#define KILN_COMPILER_CODEGEN_NVPTX_MATRIX_H

#include "compiler/codegen/gpu/gpu_lower.h"

void nvptx_emit_product(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                        const LLVMValueRef *right, LLVMValueRef *accumulator);

#endif
