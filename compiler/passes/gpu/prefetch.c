// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products in registers, loaded an iteration ahead (`prefetch`), where they do not go through
// slots of shared memory:
//
//   for iv in lo..hi { x = load p(iv); dot(x, ...) }   =>   x0 = load p(lo) if lo < hi
//                                                           for iv in lo..hi (x = x0) {
//                                                             x1 = load p(iv + step) if there is a next
//                                                             dot(x, ...); yield x1 }
#include "compiler/passes/gpu/pipeline.h"

/// Values that are computed with before the product too, unless they are too many. Those that are too many to
/// carry are loads of operands all the same, and marked.
static void prefetch_loop(kiln_pipeline *a) {
  bool fits = kiln_pipeline_find(a, true, KILN_NEXT) && kiln_pipeline_has_room(a);
  if (!fits) fits = kiln_pipeline_find(a, false, KILN_NEXT) && kiln_pipeline_has_room(a);
  for (unsigned i = 0; a->machine->has_buffers && i < a->count; i++)
    a->loads[i].load->attrs.flags |= IR_FEEDS;
  if (!fits) return;
  ir_value *first[KILN_PIPELINE_LOADS], *next[KILN_PIPELINE_LOADS];
  kiln_pipeline_open_before(a, 1);
  for (unsigned i = 0; i < a->count; i++) first[i] = kiln_pipeline_load_at(a, a->loads[i].load, KILN_FIRST);
  kiln_pipeline_open_inside(a, 1);
  if (a->machine->has_buffers) kiln_pipeline_stay(a);
  for (unsigned i = 0; i < a->count; i++) next[i] = kiln_pipeline_load_at(a, a->loads[i].load, KILN_NEXT);
  if (a->b.error.status != KILN_OK) return;
  for (unsigned i = 0; i < a->count; i++) {
    ir_op *load = a->loads[i].load;
    ir_forward(&load->results[0], ir_block_arg(a->kernel->arena, a->body, load->results[0].type));
    ir_remove(load);
  }
  kiln_pipeline_remake(a, first, next, a->count);
}

kiln_status kiln_pass_prefetch(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  return kiln_pipeline_loops(kernel, context, prefetch_loop, "prefetch", err);
}
