// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine operations on NVIDIA GPUs that have tensor maps and products from shared memory (sm_90a).
#ifndef KILN_COMPILER_CODEGEN_NVPTX_NVPTX_ASYNC_H
#define KILN_COMPILER_CODEGEN_NVPTX_NVPTX_ASYNC_H

#include <stdio.h>

#include "compiler/codegen/gpu/gpu_lower.h"

enum { NVPTX_ROW = 128 }; ///< bytes of the widest row in shared memory

/// The first row of a group, i32. Its place among the rows is in its number, from bit `from` on.
LLVMValueRef nvptx_group_row(gpu *g, const kiln_mma_split *split, LLVMValueRef group, unsigned from);
/// The first column of this thread's group, i32.
LLVMValueRef nvptx_group_column(gpu *g, const kiln_mma_split *split, unsigned columns);
/// Blocks of a cluster; 1: each is alone.
static inline unsigned nvptx_cluster(const ir_roles *roles) {
  return (roles->cluster ? roles->cluster : 1) * (roles->spread ? roles->spread : 1);
}
/// Finds the block's place among those that share the program and its iterations, and this thread's and its
/// group's numbers among all of the program's. `groups`: of a block.
void nvptx_find_place(gpu *g, unsigned groups);
/// Number, in the cluster, of the block that has place `place` among those that share this block's program
/// and its iterations; and of the block with this block's place among those with the iterations of number
/// `share`.
LLVMValueRef nvptx_block_at(gpu *g, LLVMValueRef place);
LLVMValueRef nvptx_block_of_share(gpu *g, unsigned share);
/// The thread's warp: the same number in all lanes, so that the compiler knows it as uniform.
LLVMValueRef nvptx_warp(gpu *g);
/// In a kernel without roles, for its products from shared memory: the number of this thread's group, and where the
/// block's shared memory begins, from the start of the kernel on.
void nvptx_find_group(gpu *g);
enum { NVPTX_SHARED_ALIGN = 1024 }; ///< of a block's memory that products read: eight rows of 128 bytes
enum { NVPTX_GROUP_THREADS = 128 };
/// Named barriers: of all consumers, of where the roles begin, of a group each.
enum { NVPTX_BLOCK_BARRIER = 1, NVPTX_ROLES_BARRIER = 2, NVPTX_GROUP_BARRIER = 3 };
/// Waits for the threads of this group.
void nvptx_group_barrier(gpu *g);
/// Shared window address of a slot; `slot` NULL: of the first.
LLVMValueRef nvptx_slot_address(gpu *g, ir_value *memory, ir_value *slot);

/// Scalars that are read after a loop with products are computed before it.
void nvptx_enter_loop(gpu *g, ir_op *loop);

/// What a warpgroup has staged: rows and columns as the view has them, in 16-byte pieces that are
/// exchanged by the row.
typedef struct nvptx_staged {
  LLVMValueRef memory;    ///< window address
  unsigned row, box;      ///< bytes of a row in memory; from one column of such rows to the next
  unsigned rows, columns; ///< that are staged
  LLVMValueRef first_row, first_column; ///< i32, from the indices of the access on
} nvptx_staged;
/// By what the number of a 16-byte piece of the row `row` of `bytes` is XORed. 128-byte rows: row & 7; 64: (row / 2) & 3;
/// 32: (row / 4) & 1.
static inline LLVMValueRef nvptx_turn_of_row(gpu *g, unsigned bytes, LLVMValueRef row) {
  unsigned shift = bytes == 128 ? 0 : bytes == 64 ? 1 : 2;
  LLVMValueRef v = LLVMBuildLShr(g->builder, row, gpu_i32(g, shift), "");
  return LLVMBuildAnd(g->builder, v, gpu_i32(g, bytes / 16 - 1), "");
}
/// Stores, or adds, what the copy engine does not: of rows that end within 16 bytes the last elements.
void nvptx_store_rest(gpu *g, const ir_op *op, const nvptx_staged *s);

void nvptx_lower_mma(gpu *g, ir_op *op);
void nvptx_lower_mma_wait(gpu *g, ir_op *op);
void nvptx_lower_cluster_sum(gpu *g, ir_op *op);
void nvptx_lower_cluster_scatter(gpu *g, ir_op *op);
/// All machine operations.
void nvptx_lower_machine(gpu *g, ir_op *op);
void nvptx_meet_engine(gpu *g);

#endif
