// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The matrix instructions of NVIDIA processors, one row each.
#ifndef KILN_COMPILER_CODEGEN_NVPTX_MATRIX_H
#define KILN_COMPILER_CODEGEN_NVPTX_MATRIX_H

#include "compiler/codegen/gpu/gpu_lower.h"

extern const gpu_matrix_form nvptx_forms[];
extern const size_t nvptx_form_count;

#endif
