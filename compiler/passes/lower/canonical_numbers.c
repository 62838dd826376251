// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `canonical`: operations remember their numbers in the canonical form. Later passes move, split and
// remove operations; messages, reports and debug information name those of the canonical form.
#include "compiler/passes/pass.h"

static void remember(ir_op *op, void *context) {
  (void)context;
  if (!op->place.operation) op->place.operation = op->number + 1;
}

kiln_status kiln_pass_canonical(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  ir_number(kernel);
  ir_walk(kernel->body, remember, NULL);
  return KILN_OK;
}
