// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is written before a load that the copy engine does ahead of the program.
#ifndef KILN_COMPILER_PASSES_GPU_WRITTEN_H
#define KILN_COMPILER_PASSES_GPU_WRITTEN_H

#include "compiler/ir/ir.h"

/// A write that happens before a load, in the text or in an earlier turn of a loop, and may be of the same memory.
typedef struct kiln_earlier_write {
  ir_op *op;
  ir_op *outermost; ///< what the write stands in, or is, in the innermost block that has the load as well
  int to, from;     ///< parameters that the write and the load are of; -1: not known
} kiln_earlier_write;

typedef void kiln_write_visit(const kiln_earlier_write *write, void *context);

/// Visits them. `program` is the block that a program starts with: a loop around it is no loop of the program.
void kiln_visit_earlier_writes(const ir_kernel *kernel, const ir_block *program, const ir_op *load,
                               kiln_write_visit *visit, void *context);

/// Whether the producer may wait there for the consumers' writes where memory overlaps: they are of two
/// parameters, and no loop without another one in it has both, which would wait in every turn.
bool kiln_can_meet_after(const kiln_earlier_write *write);

#endif
