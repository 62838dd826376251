// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: says what a kernel means, plainly. One program instance after another, over host
// memory.
//
// Mathematical operations (exp2, sin, ...) are libm's, in double, rounded once: near what a back end yields,
// not equal to it. To compare bit for bit, interpret a kernel after kiln_lower for the host: everything left
// in it is exact.
#ifndef KILN_COMPILER_PASSES_LOWER_INTERPRETER_H
#define KILN_COMPILER_PASSES_LOWER_INTERPRETER_H

#include "compiler/ir/ir.h"

/// A piece of memory that the kernel may touch.
typedef struct kiln_memory_range {
  const void *begin; ///< borrowed
  size_t size;
} kiln_memory_range;

typedef struct kiln_interpret_options {
  const kiln_memory_range
      *ranges; ///< accesses outside these are errors; with range_count 0 nothing is checked
  size_t range_count;
  uint64_t max_steps; ///< operations executed before TIMEOUT; 0: no limit
  /// Called with every result as it is computed, element by element in row-major order; may be NULL.
  void (*observe)(void *context, const ir_value *value, const uint64_t *elements);
  void *context;
} kiln_interpret_options;

/// Runs grid[0] x grid[1] x grid[2] programs in order of their ids. `args` is the packed block of
/// base/record.h. `options` may be NULL. Errors: ASSERT (an assert of the kernel; names the operation),
/// LAUNCH (access out of range: operation, address), UNSUPPORTED (asm), TIMEOUT (max_steps).
kiln_status kiln_interpret(ir_kernel *kernel, const void *args, const uint32_t grid[3],
                           const kiln_interpret_options *options, kiln_error *err);

#endif
