// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The producer knows where a program's tiles are before it may copy them. What it computes of the program's
// number alone,
//
//   for t in block .. programs step blocks { where = f(t); copies at where }
//
// it computes for the first program in front of the loop, where threads have not met yet, and for each other
// one behind the copies of the program before:
//
//   first = f(block);  for t in block .. programs step blocks, where = first { copies; next = f(t + blocks) }
//
// f is scalars without effects: what is computed for a program that does not exist is not used.
#include <string.h>

#include "compiler/gpu/gpu.h"

enum { MOST_SCALARS = 128, MOST_CARRIED = 16 };

typedef struct moving {
  ir_kernel *kernel;
  ir_op *loop;
  ir_block *body;
  ir_op *scalars[MOST_SCALARS]; ///< f, in order
  ir_value *wanted[MOST_CARRIED];
  unsigned count, wanted_count;
} moving;

static bool is_scalar(const ir_op *op) {
  if (!ir_is_pure(op) || op->region_count || op->result_count != 1) return false;
  ir_type type = op->results[0].type;
  return !type.rank && !type.is_view && !type.slots;
}

/// ir_value.slot of what f computes, and of the number it is computed from, is not NULL.
static bool is_of_number(const moving *m, const ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    bool is_inside = v->def ? v->def->block == m->body : v->block == m->body;
    if (is_inside && !v->slot) return false;
  }
  return true;
}

static bool is_invariant(const moving *m, const ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    if (v->def ? v->def->block == m->body : v->block == m->body) return false;
  }
  return true;
}

static void find_scalars(moving *m) {
  ir_for_counter(m->loop)->slot = m->loop;
  for (ir_op *op = m->body->first, *next; op; op = next) {
    next = op->next;
    if (!is_scalar(op)) continue;
    if (is_invariant(m, op)) ir_move(op, m->loop->block, m->loop);
    else if (m->count < MOST_SCALARS && is_of_number(m, op)) {
      m->scalars[m->count++] = op;
      op->results[0].slot = op;
    }
  }
}

/// What others than f read of it.
static void note_wanted(ir_op *op, void *context) {
  moving *m = context;
  if (op->block == m->body && op->result_count && op->results[0].slot) return;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    ir_value *v = op->operands[i];
    bool is_of_f = v->slot && v->def && v->def->block == m->body, is_known = false;
    for (unsigned k = 0; k < m->wanted_count; k++) is_known |= m->wanted[k] == v;
    if (!is_of_f || is_known) continue;
    if (m->wanted_count < MOST_CARRIED) m->wanted[m->wanted_count] = v;
    m->wanted_count++;
  }
}

/// f of `number`; what is wanted of it.
static void compute(const moving *m, ir_builder *b, ir_value *number, ir_value **out) {
  ir_for_counter(m->loop)->slot = number;
  for (unsigned i = 0; i < m->count; i++) ir_clone(b, m->scalars[i]);
  for (unsigned i = 0; i < m->wanted_count; i++) out[i] = m->wanted[i]->slot;
}

static ir_value **joined(const moving *m, ir_value **from, uint32_t count, ir_value *const *more) {
  ir_value **out = KILN_NEW_ARRAY(m->kernel->arena, ir_value *, count + m->wanted_count);
  if (count) memcpy(out, from, count * sizeof *out);
  memcpy(out + count, more, m->wanted_count * sizeof *out);
  return out;
}

static void carry(moving *m, ir_builder *before, ir_builder *behind) {
  ir_op *loop = m->loop, *end = ir_terminator(m->body);
  ir_value *first[MOST_CARRIED], *next[MOST_CARRIED];
  compute(m, before, ir_for_lower(loop), first);
  compute(m, behind, ir_binary(behind, IR_ADD, 0, ir_for_counter(loop), ir_for_step(loop)), next);
  end->operands = joined(m, end->operands, end->operand_count, next);
  end->operand_count += m->wanted_count;
  for (unsigned i = 0; i < m->wanted_count; i++)
    m->wanted[i]->forward = ir_block_arg(m->kernel->arena, m->body, m->wanted[i]->type);
  ir_value **operands = joined(m, loop->operands, loop->operand_count, first);
  uint32_t count = loop->operand_count + m->wanted_count;
  ir_op *made = ir_emit(before, IR_FOR, &loop->attrs, operands, count, NULL, loop->regions, 1);
  if (!made) return;
  for (uint32_t i = 0; i < loop->result_count; i++) loop->results[i].forward = &made->results[i];
  loop->region_count = 0;
  ir_remove(loop);
}

kiln_status kiln_gpu_compute_ahead(ir_kernel *kernel, kiln_error *err) {
  moving m = {.kernel = kernel};
  ir_block *producer = kernel->body->last->regions[0];
  for (ir_op *op = producer->first; op; op = op->next)
    if (op->code == IR_FOR) m.loop = op;
  if (!m.loop) return KILN_OK;
  m.body = ir_loop_body(m.loop);
  ir_number(kernel); // clears slots
  find_scalars(&m);
  ir_walk(m.body, note_wanted, &m);
  if (!m.wanted_count || m.wanted_count > MOST_CARRIED) return KILN_OK;
  ir_builder before = {.arena = kernel->arena, .block = producer, .before = m.loop, .machine = true},
             behind = {
                 .arena = kernel->arena, .block = m.body, .before = ir_terminator(m.body), .machine = true};
  carry(&m, &before, &behind);
  kiln_error *failed = before.error.status != KILN_OK ? &before.error : &behind.error;
  if (failed->status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "ahead: %s", failed->text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
