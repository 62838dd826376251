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

typedef struct parting {
  ir_kernel *kernel;
  kiln_arena *scratch;
  kiln_facts *facts; ///< made when the first sum of 32 bits is found
  ir_builder b;
  bool changed;
} parting;

static bool is_exact(parting *p, const ir_op *sum) {
  if (sum->results[0].type.scalar == KILN_I64) return true;
  if (!p->facts) p->facts = kiln_facts_compute(p->scratch, p->kernel);
  return kiln_fact_does_not_wrap(p->facts, sum);
}

static void visit(ir_op *op, void *context) {
  parting *p = context;
  if (op->code != IR_PTRADD) return;
  ir_value *base = ir_splat_source(op->operands[0]), *uniform = NULL;
  const ir_op *sum = ir_producer(op->operands[1], IR_ADD);
  if (!base || !sum) return;
  unsigned i = 0;
  while (i < 2 && !(uniform = ir_splat_source(sum->operands[i]))) i++;
  if (!uniform || !is_exact(p, sum)) return;
  p->b.block = op->block;
  p->b.before = op;
  p->b.place = op->place;
  ir_value *moved = ir_binary(&p->b, IR_PTRADD, 0, base, uniform);
  op->operands[0] = ir_splat(&p->b, moved, op->operands[0]->type);
  op->operands[1] = sum->operands[1 - i];
  p->changed = true;
}

kiln_status kiln_pass_offsets(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  parting p = {.kernel = kernel, .scratch = kiln_arena_create(), .b = {.arena = kernel->arena}};
  if (!p.scratch) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a pass");
  ir_walk(kernel->body, visit, &p);
  kiln_arena_destroy(p.scratch);
  context->changed |= p.changed;
  return KILN_OK;
}
