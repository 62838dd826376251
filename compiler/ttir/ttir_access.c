// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Access modes of parameters, found from use: which pointers each load, store and atomic can reach.
//
// A parameter gets the mode of all that is done through pointers that may be made of it. A pointer that
// leaves sight (turned into an integer, stored, given to assembly) may be used in any way.
//
// Needs: a complete kernel. Keeps it; numbers it.
#include "compiler/analysis/provenance.h"
#include "compiler/ttir/ttir_reader.h"

enum { READ = 1, WRITTEN = 2, ADDED = 4, CHANGED = 8 };

typedef struct uses {
  kiln_sources sources;
  uint8_t *used; // by parameter
  uint8_t how;   // of the use that is looked at
} uses;

static void note(const ir_value *source, void *context) {
  uses *u = context;
  if (!source->def) u->used[source->index] |= u->how;
}

static void use(uses *u, const ir_value *v, uint8_t how) {
  u->how = how;
  kiln_visit_sources(&u->sources, v, note, u);
}

static bool holds_pointer(const ir_value *v) { return v->type.pointer || v->type.is_view; }

// What an operation does through its first operand; 0 for those that only pass pointers on.
static uint8_t use_of(const ir_op *op) {
  switch ((ir_effect)ir_ops[op->code].effect) {
  case IR_READ: return READ;
  case IR_WRITE:
    if (op->code == IR_STORE || op->code == IR_VIEW_STORE) return WRITTEN;
    bool is_atomic = op->code == IR_ATOMIC || op->code == IR_VIEW_ATOMIC;
    return is_atomic && op->attrs.kind == IR_COMBINE_ADD ? ADDED : CHANGED;
  default: return 0;
  }
}

static void visit(ir_op *op, void *context) {
  uses *u = context;
  uint8_t how = use_of(op);
  bool hides = op->code == IR_BITCAST && !op->results[0].type.pointer;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_value *v = op->operands[i];
    if (!holds_pointer(v)) continue;
    if (how && i == 0) use(u, v, how);
    else if (how || hides) use(u, v, CHANGED); // stored, or out of sight
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
  uses u = {.sources = kiln_sources_of(scratch, kernel),
            .used = KILN_NEW_ARRAY(scratch, uint8_t, kernel->param_count + 1u)};
  ir_walk(kernel->body, visit, &u);
  for (uint32_t i = 0; i < kernel->param_count; i++)
    if (holds_pointer(kernel->body->args[i])) kernel->params[i].access = (uint8_t)mode_of(u.used[i]);
}
