// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes do to loops and branches: more carried values, more results; scalars before them; the loop over a block's
// programs.
#ifndef KILN_COMPILER_PASSES_GPU_LOOPS_H
#define KILN_COMPILER_PASSES_GPU_LOOPS_H

#include "compiler/passes/gpu/gpu.h"

/// The `for` before which `b` stands, with `count` more carried values, whose arguments its body has
/// already: they begin as `first` and go on as `next`. Results are forwarded to those of the new loop. NULL
/// after an error of the builder.
ir_op *kiln_carry_more(ir_builder *b, ir_op *loop, ir_value *const *first, ir_value *const *next,
                       uint32_t count);

/// The `if` with one more result, that of `values` which its side has. Its results so far are forwarded to others.
ir_value *kiln_give_more(ir_builder *b, ir_op *branch, ir_value *const values[2]);

enum { KILN_PRODUCER, KILN_CONSUMER }; ///< regions of IR_ROLES

/// The last loop of that role: the one over its programs. NULL: there is none.
ir_op *kiln_program_loop(const ir_kernel *kernel, unsigned role);

/// Whether all that the operation gives are scalars, without an effect.
bool kiln_is_scalars(const ir_op *op);

/// Scalars of the loop's body that depend on nothing in it are hoisted.
void kiln_hoist_scalars(ir_op *loop);

#endif
