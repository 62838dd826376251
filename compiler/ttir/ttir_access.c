// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Access modes of parameters, found from use: which pointers each load, store and atomic can reach.
//
// Values that may hold the same pointer are joined into one class (union-find): what goes through shape
// operations, selections, loops and branches. A class knows what is done through it; a parameter gets the
// mode of its class. A pointer that leaves sight (turned into an integer, stored, given to assembly) may be
// used in any way.
//
// Needs: a complete kernel. Keeps it; numbers it, uses the slots.
#include <string.h>

#include "compiler/ttir/ttir_reader.h"

enum { READ = 1, WRITTEN = 2, ADDED = 4, CHANGED = 8 };

typedef struct classes {
  uint32_t *parent;
  uint8_t *used;
} classes;

static uint32_t root(const classes *c, uint32_t v) {
  while (c->parent[v] != v) v = c->parent[v] = c->parent[c->parent[v]];
  return v;
}

static void join(classes *c, const ir_value *a, const ir_value *b) {
  uint32_t x = root(c, a->id), y = root(c, b->id);
  if (x == y) return;
  c->parent[y] = x;
  c->used[x] |= c->used[y];
}

static void use(classes *c, const ir_value *v, uint8_t how) { c->used[root(c, v->id)] |= how; }

static bool holds_pointer(const ir_value *v) { return v->type.pointer || v->type.is_view; }

static void join_all(classes *c, ir_value *const *from, uint32_t count, ir_value *const *to) {
  for (uint32_t i = 0; i < count; i++)
    if (holds_pointer(from[i])) join(c, from[i], to[i]);
}

static void join_results(classes *c, ir_op *op, ir_value *const *from, uint32_t count) {
  for (uint32_t i = 0; i < count && i < op->result_count; i++)
    if (holds_pointer(from[i])) join(c, from[i], &op->results[i]);
}

static void flow_control(classes *c, ir_op *op) {
  if (op->code == IR_FOR) {
    const ir_block *body = op->regions[0];
    const ir_op *end = ir_terminator(body);
    join_all(c, op->operands + 3, op->operand_count - 3, body->args + 1);
    join_all(c, end->operands, end->operand_count, body->args + 1);
    join_results(c, op, body->args + 1, body->arg_count - 1);
  } else if (op->code == IR_WHILE) {
    const ir_block *before = op->regions[0], *after = op->regions[1];
    const ir_op *test = ir_terminator(before), *end = ir_terminator(after);
    join_all(c, op->operands, op->operand_count, before->args);
    join_all(c, test->operands + 1, test->operand_count - 1, after->args);
    join_all(c, end->operands, end->operand_count, before->args);
    join_results(c, op, after->args, after->arg_count);
  } else if (op->code == IR_IF) {
    for (uint32_t i = 0; i < 2; i++) {
      const ir_op *end = ir_terminator(op->regions[i]);
      join_results(c, op, end->operands, end->operand_count);
    }
  }
}

// What an operation does through its first operand; 0 for those that only pass pointers on.
static uint8_t use_of(const ir_op *op) {
  switch (op->code) {
  case IR_LOAD:
  case IR_VIEW_LOAD: return READ;
  case IR_STORE:
  case IR_VIEW_STORE: return WRITTEN;
  case IR_ATOMIC: return op->attrs.kind == IR_COMBINE_ADD ? ADDED : CHANGED;
  case IR_VIEW_ATOMIC: return op->attrs.kind == IR_COMBINE_ADD ? ADDED : CHANGED;
  case IR_CAS: return CHANGED;
  default: return 0;
  }
}

static void flow(ir_op *op, void *context) {
  classes *c = context;
  if (ir_ops[op->code].effect == IR_CONTROL) {
    flow_control(c, op);
    return;
  }
  uint8_t how = use_of(op);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    if (!holds_pointer(v) || op->code == IR_CMP || op->code == IR_DIM) continue;
    if (how && i == 0) use(c, v, how);
    else if (how || op->code == IR_ASM) use(c, v, CHANGED); // stored, or out of sight
    else if (op->code == IR_BITCAST && !op->results[0].type.pointer) use(c, v, CHANGED);
    for (uint32_t k = 0; k < op->result_count; k++)
      if (holds_pointer(&op->results[k]) && !how) join(c, v, &op->results[k]);
  }
}

static ir_access mode_of(uint8_t used) {
  switch (used) {
  case 0:
  case READ: return IR_ACCESS_IN;
  case WRITTEN: return IR_ACCESS_OUT;
  case ADDED: return IR_ACCESS_ACCUM;
  default: return IR_ACCESS_INOUT;
  }
}

void ttir_set_access(ir_kernel *kernel, kiln_arena *scratch) {
  uint32_t count = ir_number(kernel);
  classes c = {.parent = KILN_NEW_ARRAY(scratch, uint32_t, count + 1u),
               .used = KILN_NEW_ARRAY(scratch, uint8_t, count + 1u)};
  for (uint32_t i = 0; i < count; i++) c.parent[i] = i;
  ir_walk(kernel->body, flow, &c);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    const ir_value *v = kernel->body->args[i];
    if (holds_pointer(v)) kernel->params[i].access = (uint8_t)mode_of(c.used[root(&c, v->id)]);
  }
}
