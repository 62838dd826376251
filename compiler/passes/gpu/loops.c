// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes loops and branches for passes: adds carried values and results, moves scalars in front, finds the loop over
// programs.
#include "compiler/passes/gpu/loops.h"

#include <string.h>

static ir_value **extended(ir_builder *b, ir_value *const *from, uint32_t count, ir_value *const *more,
                           uint32_t more_count) {
  ir_value **out = KILN_NEW_ARRAY(b->arena, ir_value *, count + more_count);
  if (count) memcpy(out, from, count * sizeof *out);
  if (more_count) memcpy(out + count, more, more_count * sizeof *out);
  return out;
}

ir_op *kiln_carry_more(ir_builder *b, ir_op *loop, ir_value *const *first, ir_value *const *next,
                       uint32_t count) {
  ir_op *end = ir_loop_next(loop);
  end->operands = extended(b, end->operands, end->operand_count, next, count);
  end->operand_count += count;
  ir_value **operands = extended(b, loop->operands, loop->operand_count, first, count);
  ir_op *made =
      ir_emit(b, IR_FOR, &loop->attrs, operands, loop->operand_count + count, NULL, loop->regions, 1);
  if (!made) return NULL;
  for (uint32_t i = 0; i < loop->result_count; i++) loop->results[i].forward = &made->results[i];
  loop->region_count = 0; // the body is the new loop's
  ir_remove(loop);
  return made;
}

ir_value *kiln_give_more(ir_builder *b, ir_op *branch, ir_value *const values[2]) {
  const uint32_t count = branch->result_count;
  for (unsigned i = 0; i < 2; i++) {
    ir_op *end = ir_if_end(branch, i);
    end->operands = extended(b, end->operands, count, &values[i], 1);
    end->operand_count++;
  }
  // results lie in an array inside of the operation: all move to a new one
  ir_value *results = KILN_NEW_ARRAY(b->arena, ir_value, count + 1u);
  for (uint32_t i = 0; i <= count; i++) {
    results[i] =
        (ir_value){.type = i < count ? branch->results[i].type : values[0]->type, .def = branch, .index = i};
    if (i < count) branch->results[i].forward = &results[i];
  }
  branch->results = results;
  return &results[branch->result_count++];
}

ir_op *kiln_program_loop(const ir_kernel *kernel, unsigned role) {
  ir_op *found = NULL;
  for (ir_op *op = kernel->body->last->regions[role]->first; op; op = op->next)
    if (op->code == IR_FOR) found = op;
  return found;
}

bool kiln_is_scalars(const ir_op *op) {
  if (!ir_is_pure(op) || !op->result_count) return false;
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_type type = op->results[i].type;
    if (type.rank || type.is_view || type.slots) return false;
  }
  return true;
}

void kiln_hoist_scalars(ir_op *loop) {
  const ir_block *body = ir_loop_body(loop);
  for (ir_op *op = body->first, *next; op; op = next) {
    next = op->next;
    bool is_invariant = kiln_is_scalars(op) && !op->region_count;
    for (uint32_t i = 0; i < op->operand_count && is_invariant; i++)
      is_invariant = ir_home(op->operands[i]) != body;
    if (is_invariant) ir_move(op, loop->block, loop);
  }
}
