// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which writes happen before a load, as the order of memory has it (docs/ir.md): of the same parameter, or of
// another one that does not promise to be alone.
#include "compiler/passes/gpu/written.h"

#include "compiler/analysis/provenance.h"

typedef struct search {
  const ir_kernel *kernel;
  const ir_block *program;
  const ir_op *load;
  kiln_write_visit *visit;
  void *context;
} search;

/// What `op` stands in, or is, in the block; NULL: it is elsewhere.
static ir_op *outermost_in(const ir_block *block, ir_op *op) {
  while (op && op->block != block) op = op->block->parent;
  return op;
}

static bool comes_before(const ir_op *first, const ir_op *second) {
  for (const ir_op *op = first->next; op; op = op->next)
    if (op == second) return true;
  return false;
}

static bool has_turns(const ir_block *block, const ir_block *program) {
  for (; block != program && block->parent; block = block->parent->block)
    if (ir_is_loop(block->parent)) return true;
  return false;
}

static void visit_write(ir_op *op, void *context) {
  const search *s = context;
  if (ir_ops[op->code].effect != IR_WRITE) return;
  kiln_earlier_write w = {.op = op,
                          .to = op->operand_count ? kiln_param_of(op->operands[0]) : -1,
                          .from = kiln_param_of(s->load->operands[0])};
  const bool are_known = w.to >= 0 && w.from >= 0;
  if (are_known && w.to != w.from && (s->kernel->params[w.to].noalias || s->kernel->params[w.from].noalias))
    return;
  const ir_block *block = s->load->block;
  while (!(w.outermost = outermost_in(block, op))) block = block->parent->block;
  const ir_op *load = outermost_in(block, (ir_op *)s->load);
  if (w.outermost == load ? has_turns(block, s->program)
                          : comes_before(w.outermost, load) || has_turns(block, s->program))
    s->visit(&w, s->context);
}

void kiln_visit_earlier_writes(const ir_kernel *kernel, const ir_block *program, const ir_op *load,
                               kiln_write_visit *visit, void *context) {
  search s = {kernel, program, load, visit, context};
  ir_walk((ir_block *)program, visit_write, &s);
}

bool kiln_can_meet_after(const kiln_earlier_write *write) {
  if (write->to < 0 || write->from < 0 || write->to == write->from) return false;
  const ir_op *loop = write->outermost->block->parent;
  while (loop && loop->code != IR_FOR) loop = loop->block->parent;
  return !loop || ir_find(loop->regions[0], IR_FOR);
}
