// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves what a loop does not change out of it (loop-invariant code motion). Scalars always leave a loop
// that does not change them; tiles only when they are dear to compute (division, roots, reductions, dot),
// with the cheap tiles that those need: a cheap tile costs more to keep than to make again.
//
// Needs nothing. Only pure operations move, and none of them can trap.
#include "compiler/passes/pass.h"

typedef struct hoisting {
  uint8_t *inside; // by value id: defined in the loop that is looked at, and not invariant
  bool changed;
} hoisting;

static void mark_block(hoisting *h, const ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++) h->inside[block->args[i]->id] = 1;
  for (const ir_op *op = block->first; op; op = op->next) {
    for (uint32_t i = 0; i < op->result_count; i++) h->inside[op->results[i].id] = 1;
    for (uint32_t i = 0; i < op->region_count; i++) mark_block(h, op->regions[i]);
  }
}

/// Takes `op` and what it needs of this block before the loop.
static void move_out(hoisting *h, ir_op *op, const ir_block *block, ir_op *loop) {
  if (op->block != block) return;
  KILN_ASSERT(ir_ops[op->code].effect == IR_PURE && !op->region_count);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->def) move_out(h, op->operands[i]->def, block, loop);
  ir_move(op, loop->block, loop);
  h->changed = true;
}

static void hoist(hoisting *h, ir_block *block) {
  for (ir_op *loop = block->first; loop; loop = loop->next) {
    for (uint32_t i = 0; i < loop->region_count; i++) hoist(h, loop->regions[i]);
    if (!ir_is_loop(loop)) continue;
    for (uint32_t i = 0; i < loop->region_count; i++) mark_block(h, loop->regions[i]);
    for (uint32_t r = 0; r < loop->region_count; r++) {
      // What is computed of invariant values alone is invariant.
      for (const ir_op *op = loop->regions[r]->first; op; op = op->next) {
        bool varies = ir_ops[op->code].effect != IR_PURE || op->region_count;
        for (uint32_t i = 0; i < op->operand_count; i++) varies |= h->inside[op->operands[i]->id];
        for (uint32_t i = 0; !varies && i < op->result_count; i++) h->inside[op->results[i].id] = 0;
      }
      for (ir_op *op = loop->regions[r]->first, *next; op; op = next) {
        next = op->next;
        bool is_invariant = op->result_count && !h->inside[op->results[0].id] &&
                            ir_ops[op->code].effect == IR_PURE && !op->region_count;
        if (is_invariant && (op->results[0].type.rank == 0 || ir_has(op->code, IR_DEAR)))
          move_out(h, op, loop->regions[r], loop);
      }
    }
  }
}

kiln_status kiln_pass_licm(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  kiln_arena *scratch = kiln_arena_create();
  hoisting h = {.inside = KILN_NEW_ARRAY(scratch, uint8_t, ir_number(kernel) + 1u)};
  hoist(&h, kernel->body);
  kiln_arena_destroy(scratch);
  context->changed |= h.changed;
  return KILN_OK;
}
