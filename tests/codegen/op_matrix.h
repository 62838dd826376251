// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One small kernel around each operation of ops.def and each element type, made from the operation's typing
// rule. Used by test_op_matrix.c.
#ifndef KILN_TESTS_CODEGEN_OP_MATRIX_H
#define KILN_TESTS_CODEGEN_OP_MATRIX_H

#include "compiler/front.h"
#include "compiler/passes/lower/legality.h"
#include "tests/harness.h"

enum {
  COLUMN_POINTER = KILN_SCALAR_COUNT, ///< the column after the scalars: pointers to f32 as elements
  COLUMNS,
  MAX_BUFFERS = 128,
  SIDE_LOG2 = 4,
  ELEMENTS = 1 << 2 * SIDE_LOG2, ///< of every buffer
};

/// What a buffer of a cell's kernel holds, and how it is filled.
typedef struct cell_buffer {
  ir_type element;
  bool plain; ///< floats are small powers of two, so that sums and products are exact in any order
} cell_buffer;

/// A cell of the table: the kernel with every variant (flags, kinds, result types) of one operation on one
/// type.
typedef struct cell {
  kiln_arena *arena; ///< borrowed
  ir_kernel *kernel;
  ir_builder b;
  ir_opcode code;
  ir_type element;
  const kiln_target *target;
  cell_buffer buffers[MAX_BUFFERS];
  uint32_t buffer_count;
  uint32_t built, refused;            ///< variants
  kiln_legal legal;                   ///< the most that a built variant needs
  const char *how;                    ///< of that variant
  char reason[KILN_ERROR_TEXT];       ///< of the last variant that the builder refused
  char disagreement[KILN_ERROR_TEXT]; ///< "" or how builder and legality table differ
} cell;

ir_type op_matrix_column(unsigned column);
const char *op_matrix_column_name(unsigned column);
/// False for a cell that does not exist: operations without an element type have one column, i32.
bool op_matrix_exists(ir_opcode code, unsigned column);
/// Builds the kernel; the same each time it is asked for.
void op_matrix_build(kiln_arena *arena, ir_opcode code, unsigned column, const kiln_target *target,
                     cell *out);

#endif
