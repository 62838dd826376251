// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of tiles, for the files that lower `dot`: gpu_dot.c, gpu_dot_adds.c.
#ifndef KILN_COMPILER_CODEGEN_GPU_DOT_H
#define KILN_COMPILER_CODEGEN_GPU_DOT_H

#include "compiler/codegen/gpu/gpu_lower.h"

/// By multiplies and adds over operands in shared memory. The reduced index goes through it in as many parts
/// as it takes.
gpu_tile gpu_dot_by_adds(gpu *g, ir_op *op);

#endif
