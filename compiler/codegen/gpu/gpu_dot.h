// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of tiles, for the files that lower `dot`: gpu_dot.c, gpu_dot_layout.c, gpu_dot_adds.c.
#ifndef KILN_COMPILER_CODEGEN_GPU_DOT_H
#define KILN_COMPILER_CODEGEN_GPU_DOT_H

#include "compiler/codegen/gpu/gpu_lower.h"

/// Logarithms of one dot, and how its tiles lie.
typedef struct gpu_dot_shape {
  unsigned batch, m, n, k;
  ir_type left, right, accumulator;
} gpu_dot_shape;

/// How many bits of each direction go to warps and, above one instruction, to registers.
typedef struct gpu_dot_split {
  unsigned warp_batch, warp_m, warp_n;
  unsigned reg_batch, reg_m, reg_n, reg_k;
  /// The bit of the reduced index that stands for bit i of the instruction's, and behind those for the steps.
  uint8_t order[LAYOUT_MAX_BITS];
} gpu_dot_split;

typedef struct gpu_dot_layouts {
  kiln_layout left, right, accumulator;
  gpu_dot_split split;
} gpu_dot_layouts;

gpu_dot_shape gpu_dot_shape_of(const ir_op *op);
/// The matrix instruction that computes it; NULL: none does.
const gpu_matrix_form *gpu_dot_form(gpu *g, const ir_op *op);
/// The same, and why there is none.
const gpu_matrix_form *gpu_dot_form_or_why(gpu *g, const ir_op *op, kiln_report_reason *out_why);
/// The instruction takes rows and columns alike: exchanged operands give the exchanged product.
bool gpu_dot_is_symmetric(const gpu_matrix_form *f);
gpu_dot_layouts gpu_dot_form_layouts(gpu *g, const ir_op *op, const gpu_dot_shape *s,
                                     const gpu_matrix_form *f);
/// Without matrix instructions: four columns and four rows a thread where there are enough, lanes over
/// columns, then rows.
kiln_layout gpu_dot_plain_layout(gpu *g, const gpu_dot_shape *s);

/// By multiplies and adds over operands in shared memory. The reduced index goes through it in as many parts
/// as it takes.
gpu_tile gpu_dot_by_adds(gpu *g, ir_op *op, const gpu_dot_shape *whole);

#endif
