// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `canonical`: operations remember their numbers in the canonical form. Later passes move, split and
// remove operations; messages, reports and debug information name those of the canonical form.
#include "compiler/passes/pass.h"

kiln_status kiln_pass_canonical(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  ir_number(kernel);
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (!op->place.operation) op->place.operation = op->number + 1;
  return KILN_OK;
}
