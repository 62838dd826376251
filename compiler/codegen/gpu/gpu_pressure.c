// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many registers a thread needs at least, once homes are chosen.
#include "compiler/codegen/gpu/gpu_lower.h"

/// Made of indices and scalars alone.
static bool is_index(gpu *g, ir_value *value) {
  const ir_op *op = value->def;
  if (!value->type.rank) return true;
  if (!op || !(op->code == IR_IOTA || ir_has(op->code, IR_EACH) || ir_has(op->code, IR_RENAMES)))
    return false;
  gpu_value *v = gpu_value_of(g, value);
  if (v->has_index_answer) return v->is_index;
  v->is_index = true;
  for (uint32_t i = 0; v->is_index && i < op->operand_count; i++) v->is_index = is_index(g, op->operands[i]);
  v->has_index_answer = true;
  return v->is_index;
}

/// 32-bit words of a thread. Pointers, masks and indices do not count: they mostly are computed again.
static uint64_t words_of(gpu *g, ir_value *value) {
  const gpu_value *v = value->slot;
  if (!value->type.rank || !v || !value->layout || g->layouts->notes[value->id]->is_deferred ||
      value->type.pointer || value->type.scalar == KILN_I1 || is_index(g, value))
    return 0;
  return ((uint64_t)ir_type_bits(value->type) << value->layout->registers) / 32;
}

uint64_t gpu_live_words(gpu *g) {
  const ir_block *body = g->kernel->body;
  uint32_t at = 0; // the operation of the body that is, or has inside, what is looked at
  for (ir_op *op = body->first; op; op = op->next, at++)
    for (ir_op *user = op; user != op->next; user = ir_next(body, user))
      for (uint32_t i = 0; i < user->operand_count; i++)
        if (user->operands[i]->def && user->operands[i]->def->block == body)
          gpu_value_of(g, user->operands[i])->last_use = at;
  uint64_t *ends = KILN_NEW_ARRAY(g->arena, uint64_t, at + 1), live = 0, most = 0;
  at = 0;
  for (ir_op *op = body->first; op; op = op->next, at++) {
    live -= ends[at];
    for (uint32_t i = 0; i < op->result_count; i++) {
      uint32_t last = gpu_value_of(g, &op->results[i])->last_use;
      if (last <= at) continue;
      live += words_of(g, &op->results[i]);
      ends[last] += words_of(g, &op->results[i]);
    }
    if (live > most) most = live;
  }
  return most;
}
