// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products in registers, loaded an iteration ahead (`prefetch`), where they do not go through
// slots of shared memory:
//
//   for iv in lo..hi { x = load p(iv); dot(x, ...) }   =>   x0 = load p(lo) if lo < hi
//                                                           for iv in lo..hi (x = x0) {
//                                                             x1 = load p(iv + step) if there is a next
//                                                             dot(x, ...); yield x1 }
#include "compiler/passes/gpu/pipeline.h"

typedef struct prefetching {
  ir_kernel *kernel;
  const kiln_fetch_machine *machine;
  kiln_error error;
} prefetching;

static void mark(kiln_pipeline *a) {
  for (unsigned i = 0; i < a->count; i++) a->loads[i].load->attrs.flags |= IR_FEEDS;
}

static void carry(kiln_pipeline *a, const kiln_fetch_machine *machine) {
  ir_value *first[KILN_PIPELINE_LOADS], *next[KILN_PIPELINE_LOADS];
  kiln_pipeline_open_before(a, 1);
  for (unsigned i = 0; i < a->count; i++) first[i] = kiln_pipeline_load_at(a, a->loads[i].load, KILN_FIRST);
  kiln_pipeline_open_inside(a, 1);
  if (machine->has_buffers) kiln_pipeline_stay(a);
  for (unsigned i = 0; i < a->count; i++) next[i] = kiln_pipeline_load_at(a, a->loads[i].load, KILN_NEXT);
  if (a->b.error.status != KILN_OK) return;
  for (unsigned i = 0; i < a->count; i++) {
    ir_op *load = a->loads[i].load;
    ir_forward(&load->results[0], ir_block_arg(a->kernel->arena, a->body, load->results[0].type));
    ir_remove(load);
  }
  kiln_pipeline_remake(a, first, next, a->count);
}

/// Values that are computed with before the product too, unless they are too many. Those that are too many to
/// carry are loads of operands all the same, and marked.
static void visit(ir_op *op, void *context) {
  prefetching *p = context;
  if (op->code != IR_FOR || p->error.status != KILN_OK) return;
  kiln_pipeline *a = kiln_pipeline_open(p->kernel, op, p->machine);
  bool fits = kiln_pipeline_find(a, true, KILN_NEXT) && kiln_pipeline_has_room(a);
  if (!fits) fits = kiln_pipeline_find(a, false, KILN_NEXT) && kiln_pipeline_has_room(a);
  if (p->machine->has_buffers) mark(a);
  if (!fits) return;
  carry(a, p->machine);
  p->error = a->b.error;
}

kiln_status kiln_pass_prefetch(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_fetch_machine *machine = &context->machine;
  prefetching p = {.kernel = kernel, .machine = machine};
  ir_walk(kernel->body, visit, &p);
  if (p.error.status == KILN_OK) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INTERNAL, "prefetch: %s", p.error.text);
}
