// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The uniform part of an offset goes to the pointer, so that it is added once:
//
//   splat(p) + (splat(s) + t)  =>  splat(p + s) + t
//
// A sum of 32 bits wraps, and then is another number than s and t one after another. So it is taken apart
// only where ranges say that it does not; a sum of 64 bits is one modulo 2^64, as addresses are.
//
// Needs nothing. Leaves unused operations to DCE.
#include "compiler/analysis/facts.h"
#include "compiler/passes/pass.h"

kiln_status kiln_pass_offsets(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  ir_builder b = {.arena = kernel->arena};
  kiln_facts *facts = NULL; // made when the first sum of 32 bits is found
  kiln_arena *scratch = kiln_arena_create();
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    if (op->code != IR_PTRADD) continue;
    ir_value *base = ir_splat_source(op->operands[0]), *uniform = NULL;
    const ir_op *sum = ir_producer(op->operands[1], IR_ADD);
    if (!base || !sum) continue;
    unsigned i = 0;
    while (i < 2 && !(uniform = ir_splat_source(sum->operands[i]))) i++;
    if (!uniform) continue;
    if (sum->results[0].type.scalar != KILN_I64) {
      if (!facts) facts = kiln_facts_compute(scratch, kernel);
      if (!kiln_fact_does_not_wrap(facts, sum)) continue;
    }
    ir_build_before(&b, op);
    ir_value *moved = ir_binary(&b, IR_PTRADD, 0, base, uniform);
    op->operands[0] = ir_splat(&b, moved, op->operands[0]->type);
    op->operands[1] = sum->operands[1 - i];
    context->changed = true;
  }
  kiln_arena_destroy(scratch);
  return KILN_OK;
}
