// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The producer knows where a program's tiles are before it may copy them. What it computes of the program's
// number alone,
//
//   for t in block .. programs step blocks { where = f(t); copies at where }
//
// it computes for the first program before the loop, where threads have not met yet, and for each other
// one after the copies of the program before:
//
//   first = f(block);  for t in block .. programs step blocks, where = first { copies; next = f(t + blocks) }
//
// f is scalars without effects, branches among them: what is computed for a program that does not exist is
// not used.
#include "compiler/passes/gpu/loops.h"

enum { MOST_SCALARS = 128, MOST_CARRIED = 16 };

typedef struct moving {
  ir_op *loop;
  ir_block *body;
  ir_op *scalars[MOST_SCALARS]; ///< f, in order
  ir_value *wanted[MOST_CARRIED];
  unsigned count, wanted_count;
} moving;

/// f of `number`; what is wanted of it.
static void compute(const moving *m, ir_builder *b, ir_value *number, ir_value **out) {
  ir_for_counter(m->loop)->slot = number;
  for (unsigned i = 0; i < m->count; i++) ir_clone(b, m->scalars[i]);
  for (unsigned i = 0; i < m->wanted_count; i++) out[i] = m->wanted[i]->slot;
}

kiln_status kiln_pass_next_program(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  moving m = {.loop = kiln_program_loop(kernel, KILN_PRODUCER)};
  if (!m.loop) return KILN_OK;
  m.body = ir_loop_body(m.loop);
  kiln_hoist_scalars(m.loop);
  // f is what depends on nothing else of the body than the number and what f computes: their slots are not NULL.
  ir_number(kernel); // clears slots
  ir_for_counter(m.loop)->slot = m.loop;
  for (ir_op *op = m.body->first; op; op = op->next) {
    bool is_of_number = kiln_is_scalars(op) && m.count < MOST_SCALARS;
    for (const ir_op *in = op; is_of_number && in != op->next; in = ir_next(op->block, in))
      for (uint32_t i = 0; i < in->operand_count; i++)
        if (ir_home(in->operands[i]) == m.body && !in->operands[i]->slot) is_of_number = false;
    if (!is_of_number) continue;
    m.scalars[m.count++] = op;
    for (uint32_t i = 0; i < op->result_count; i++) op->results[i].slot = op;
  }
  // What others than f read of it is wanted.
  for (const ir_op *op = ir_next(m.body, NULL); op; op = ir_next(m.body, op)) {
    const ir_op *outer = op; // in the loop's body
    while (outer->block != m.body) outer = outer->block->parent;
    if (outer->result_count && outer->results[0].slot) continue;
    for (uint32_t i = 0; i < op->operand_count; i++) {
      ir_value *v = op->operands[i];
      bool is_of_f = v->def && v->slot && v->def->block == m.body, is_known = false;
      for (unsigned k = 0; k < m.wanted_count && k < MOST_CARRIED; k++) is_known |= m.wanted[k] == v;
      if (!is_of_f || is_known) continue;
      if (m.wanted_count < MOST_CARRIED) m.wanted[m.wanted_count] = v;
      m.wanted_count++;
    }
  }
  if (!m.wanted_count || m.wanted_count > MOST_CARRIED) return KILN_OK;
  ir_builder before = {.arena = kernel->arena, .block = m.loop->block, .before = m.loop, .machine = true},
             after = {
                 .arena = kernel->arena, .block = m.body, .before = ir_terminator(m.body), .machine = true};
  ir_value *first[MOST_CARRIED], *next[MOST_CARRIED];
  compute(&m, &before, ir_for_lower(m.loop), first);
  compute(&m, &after, ir_binary(&after, IR_ADD, 0, ir_for_counter(m.loop), ir_for_step(m.loop)), next);
  for (unsigned i = 0; i < m.wanted_count; i++)
    m.wanted[i]->forward = ir_block_arg(kernel->arena, m.body, m.wanted[i]->type);
  kiln_carry_more(&before, m.loop, first, next, m.wanted_count);
  kiln_error *failed = before.error.status != KILN_OK ? &before.error : &after.error;
  if (failed->status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "ahead: %s", failed->text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
