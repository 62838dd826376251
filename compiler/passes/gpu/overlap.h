// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether buffers overlap, asked by the kernel itself: the bytes that a program may touch by an access lie in
// an interval whose ends are computed from scalars when the program starts.
#ifndef KILN_COMPILER_PASSES_GPU_OVERLAP_H
#define KILN_COMPILER_PASSES_GPU_OVERLAP_H

#include "compiler/analysis/address.h"

typedef struct kiln_overlaps kiln_overlaps; ///< lives in its arena

/// The interval of an access: operations that stand in no block of the kernel yet.
typedef struct kiln_extent {
  bool is_known;
  ir_block *block;         ///< where they are
  ir_value *first, *after; ///< i64 addresses of the first byte, and after the last one
  ir_value *is_wrong;      ///< i1: index arithmetic wraps, so the interval says nothing; NULL: it cannot
} kiln_extent;

/// Questions are asked before `place`, an operation of the block that a program starts with. The kernel has
/// numbers, and keeps them while reaches are made.
kiln_overlaps *kiln_overlaps_create(ir_kernel *kernel, kiln_arena *scratch, kiln_addresses *addresses,
                                    const kiln_facts *facts, ir_op *place);

/// Made once an access, by its number.
const kiln_extent *kiln_extent_of(kiln_overlaps *o, const ir_op *access);

/// Asks, before `place`, whether the accesses may touch the same bytes; adds to what was asked before.
void kiln_overlaps_ask(kiln_overlaps *o, const ir_op *first, const ir_op *second);
/// i1: whether any of the questions is to be answered with yes; NULL: nothing was asked. After it there are
/// no further ones.
ir_value *kiln_overlaps_answer(kiln_overlaps *o, kiln_error *err);

#endif
