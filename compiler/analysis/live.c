// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adds up, for each operation of a body, the bytes of the values that are alive there, and takes the most.
#include "compiler/analysis/live.h"

// From where to where a value is needed, by numbers of operations; `bytes` is 0 for what is not counted:
// scalars, and tiles that are cheap to make again.
typedef struct life {
  uint32_t begin, end;
  uint64_t bytes;
} life;

typedef struct lives {
  life *of; // by id
  uint32_t count;
} lives;

static uint32_t last_inside(const ir_op *op) {
  while (op->region_count && op->regions[op->region_count - 1]->last)
    op = op->regions[op->region_count - 1]->last;
  return op->number;
}

// Where `user` needs the value for the last time: what a loop uses of what is outside it needs in each round.
static uint32_t last_need(const ir_value *v, const ir_op *user) {
  uint32_t last = user->number;
  for (const ir_op *op = user->block->parent; op; op = op->block->parent)
    if (ir_is_loop(op) && !ir_is_inside(ir_home(v), op)) last = last_inside(op);
  return last;
}

static uint64_t bytes_of(const ir_value *v) {
  ir_type type = v->type;
  bool is_counted = type.rank && !type.is_view && !type.slots && ir_type_class(type) == KILN_CLASS_FLOAT;
  return is_counted ? ((uint64_t)ir_type_bits(type) << ir_log2_elements(type)) / 8 : 0;
}

static void note_value(lives *l, const ir_value *v, uint32_t begin) {
  l->of[v->id] = (life){begin, begin, bytes_of(v)};
}

static void note_op(lives *l, const ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) note_value(l, &op->results[i], last_inside(op));
  if (ir_is_renaming(op) || op->code == IR_CONST) l->of[op->results[0].id].bytes = 0;
  for (uint32_t r = 0; r < op->region_count; r++)
    for (uint32_t i = 0; i < op->regions[r]->arg_count; i++)
      note_value(l, op->regions[r]->args[i], op->number);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    // Whoever uses a renamed value uses what it was made of.
    for (uint32_t last = last_need(v, op);; v = v->def->operands[0]) {
      if (l->of[v->id].end < last) l->of[v->id].end = last;
      if (!v->def || !ir_is_renaming(v->def)) break;
    }
  }
}

uint64_t kiln_live_bytes(kiln_arena *arena, ir_kernel *kernel) {
  lives l = {.count = ir_number(kernel)};
  l.of = KILN_NEW_ARRAY(arena, life, l.count + 1);
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) note_op(&l, op);
  uint64_t most = 0;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    uint64_t sum = 0;
    const bool is_loop = ir_is_loop(op);
    if (!is_loop && op->code != IR_REDUCE) continue;
    for (uint32_t i = 0; i < l.count; i++) {
      const life *v = &l.of[i];
      const bool has_begun = is_loop ? v->begin <= op->number : v->begin < op->number;
      if (has_begun && v->end > op->number) sum += v->bytes;
    }
    if (sum > most) most = sum;
  }
  return most;
}
