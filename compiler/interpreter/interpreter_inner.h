// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that runs one program instance after another; the simulator of tests runs blocks in it too.
#ifndef KILN_COMPILER_PASSES_LOWER_INTERPRETER_INNER_H
#define KILN_COMPILER_PASSES_LOWER_INTERPRETER_INNER_H

#include "compiler/interpreter/interpreter.h"

/// A value is one 64-bit pattern an element, row-major. A view is base, extents, strides. Each SSA value has
/// one place, used again in each trip.
typedef struct machine {
  ir_kernel *kernel;
  kiln_arena *arena;
  uint64_t **places; // by value id; NULL until the value is first computed
  uint32_t program[3], grid[3];
  const kiln_interpret_options *options;
  uint64_t steps;
  kiln_error *err;
} machine;

typedef kiln_status execute(machine *m, const ir_op *op);

static inline size_t element_count(ir_type type) {
  return type.is_view ? 1u + 2u * type.rank : (size_t)1 << ir_log2_elements(type);
}

/// The place of a value; made when it is first asked for.
uint64_t *machine_place(machine *m, const ir_value *v);
static inline uint64_t *operand_place(machine *m, const ir_op *op, uint32_t i) {
  return machine_place(m, op->operands[i]);
}
static inline uint64_t *result_place(machine *m, const ir_op *op, uint32_t i) {
  return machine_place(m, &op->results[i]);
}

/// What executes an operation; NULL: it is one of a machine.
execute *machine_executor(ir_opcode code);
/// Runs the operations of a block; the terminator is left to the caller.
kiln_status machine_run(machine *m, const ir_block *block);
/// Copies values at once, so that they may trade places.
void machine_copy(machine *m, ir_value *const *from, ir_value *const *to, uint32_t count);

#endif
