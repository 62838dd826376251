// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Issues loads that wait for a product to take its operand (compiler/passes/gpu/layouts/feeds.c).
#include "compiler/codegen/gpu/gpu_lower.h"

void gpu_issue_feeds(gpu *g, const ir_block *block, const ir_op *dot) {
  bool any = false;
  if (!g->machine->hold_loads) return;
  for (ir_op *op = block->last; op; op = op->prev) {
    const kiln_feed *feed = op->code == IR_LOAD ? &kiln_notes_of(g->layouts, &op->results[0])->feed : NULL;
    if (!feed || !feed->waits || (dot && feed->dot != dot)) continue;
    gpu_value *loaded = gpu_value_of(g, &op->results[0]);
    if (loaded->is_issued) continue;
    loaded->is_issued = true;
    any = true;
    gpu_lower_op(g, op);
  }
  if (any) g->machine->hold_loads(g);
}
