// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which writes happen before a load, as the order of memory has it (docs/ir.md): of the same parameter, or of
// another one that does not promise to be alone.
#include "compiler/passes/gpu/written.h"

#include "compiler/analysis/provenance.h"

/// What `op` stands in, or is, in the block; NULL: it is elsewhere.
static ir_op *outermost_in(const ir_block *block, ir_op *op) {
  while (op && op->block != block) op = op->block->parent;
  return op;
}

void kiln_visit_earlier_writes(const ir_kernel *kernel, const ir_block *program, const ir_op *load,
                               kiln_write_visit *visit, void *context) {
  const int from = kiln_param_of(load->operands[0]);
  for (ir_op *op = ir_next(program, NULL); op; op = ir_next(program, op)) {
    if (ir_ops[op->code].effect != IR_WRITE || op->code == IR_PRINT) continue;
    kiln_earlier_write w = {
        .op = op, .to = op->operand_count ? kiln_param_of(op->operands[0]) : -1, .from = from};
    const bool are_known = w.to >= 0 && w.from >= 0;
    if (are_known && w.to != w.from && (kernel->params[w.to].noalias || kernel->params[w.from].noalias))
      continue;
    // Both are in this block, or inside of operations of it.
    const ir_block *block = load->block;
    while (!(w.outermost = outermost_in(block, op))) block = block->parent->block;
    const ir_op *outer = outermost_in(block, (ir_op *)load), *after = w.outermost->next;
    while (after && after != outer) after = after->next;
    bool is_earlier = after != NULL; // or it is, in another turn of a loop around both
    for (const ir_block *b = block; b != program && b->parent; b = b->parent->block)
      is_earlier |= ir_is_loop(b->parent);
    if (is_earlier) visit(&w, context);
  }
}

bool kiln_can_meet_after(const kiln_earlier_write *write) {
  if (write->to < 0 || write->from < 0 || write->to == write->from) return false;
  const ir_op *loop = write->outermost->block->parent;
  while (loop && loop->code != IR_FOR) loop = loop->block->parent;
  return !loop || ir_find(loop->regions[0], IR_FOR);
}
