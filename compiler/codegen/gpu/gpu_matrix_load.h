// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of matrix loads, for those that read tiles from shared memory (gpu_matrix_load.c).
#ifndef KILN_COMPILER_CODEGEN_GPU_MATRIX_LOAD_H
#define KILN_COMPILER_CODEGEN_GPU_MATRIX_LOAD_H

#include "compiler/codegen/gpu/gpu_shared.h"

/// ldmatrix: 8 rows of 16 bytes a matrix. Each lane names a row; a thread gets a word of a row (plain), so
/// that elements may have any size up to that, or two neighbours of 16 bits of a column (transposed).
/// `address` is the layout of those rows: registers are the row's elements, then what is left of the
/// reader's; lanes are the row number, then up to two matrix bits.
typedef struct gpu_matrix_load {
  bool is_transposed;
  unsigned word;     ///< elements of a word, logarithm
  unsigned matrices; ///< logarithm
  unsigned wanted; ///< elements of a row that shall lie together, logarithm: as many as are read, or written
  uint32_t row[4]; ///< of its elements, as many as gpu_matrix_row_bits says
  kiln_layout address;
} gpu_matrix_load;

typedef enum gpu_rows_written { GPU_WHOLE_ROWS, GPU_PARTS_OF_ROWS } gpu_rows_written;

/// True when `to` is what a matrix load yields and `from` can write rows: whole ones, or any part of them.
bool gpu_plan_matrix_load(gpu *g, const kiln_layout *from, const kiln_layout *to, unsigned log2_bytes,
                          gpu_rows_written written, gpu_matrix_load *out);
/// Elements of a row, logarithm.
unsigned gpu_matrix_row_bits(const gpu_matrix_load *plan);
/// How a tile in layout `from` lies in shared memory when the plan reads it.
layout_memory gpu_matrix_memory(const gpu_matrix_load *plan, const kiln_layout *from, unsigned log2_bytes);
/// One matrix load: piece `r` of the registers.
void gpu_read_matrix_piece(gpu *g, const gpu_matrix_load *plan, const gpu_shared_tile *p, LLVMTypeRef type,
                           uint32_t r, LLVMValueRef *regs);
/// Reads a whole tile from scratch.
gpu_tile gpu_read_matrices(gpu *g, const gpu_matrix_load *plan, const layout_memory *memory, LLVMTypeRef type,
                           const kiln_layout *to);

#endif
