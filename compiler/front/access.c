// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The access modes of parameters are promises that compiler, tuner and recorder rely on: through an `in`
// parameter nothing is written, through an `out` parameter nothing is read. A view with a stride of 0 puts
// many elements of a tile on one place: it can be loaded, not stored to.
//
// Needs a built kernel with places; changes nothing. Pointers that come from memory or that branches choose
// are not followed.
#include <string.h>

#include "compiler/front/native.h"

typedef struct checking {
  const ir_kernel *kernel;
  const char *file;
  kiln_diagnostics *d;
} checking;

static bool passes_pointer(ir_opcode code) {
  switch (code) {
  case IR_PTRADD:
  case IR_SPLAT:
  case IR_BROADCAST:
  case IR_EXPAND:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_HINT:
  case IR_VIEW_BASE:
  case IR_VIEW: return true;
  default: return false;
  }
}

/// What a loop's argument is before the first trip; NULL for other blocks.
static const ir_value *initial(const ir_value *v) {
  const ir_op *loop = v->block ? v->block->parent : NULL;
  if (!loop) return NULL;
  if (loop->code == IR_FOR) return v->index ? loop->operands[2 + v->index] : NULL;
  if (loop->code != IR_WHILE) return NULL;
  return v->block == loop->regions[0] ? loop->operands[v->index]
                                      : ir_terminator(loop->regions[0])->operands[1 + v->index];
}

static const ir_param *param_of(const checking *c, const ir_value *v) {
  while (v) {
    if (v->def && !passes_pointer(v->def->code)) return NULL;
    if (!v->def && v->block == c->kernel->body) return &c->kernel->params[v->index];
    v = v->def ? v->def->operands[0] : initial(v);
  }
  return NULL;
}

static void complain(const checking *c, const ir_op *op, const char *text) {
  kiln_diagnose(c->d, KILN_ERROR, c->file, op->place, "%s", text);
}

static void check_mode(const checking *c, const ir_op *op, bool reads, bool writes) {
  const ir_param *p = param_of(c, op->operands[0]);
  if (!p) return;
  const char *name = p->name ? p->name : "";
  if (p->access == IR_ACCESS_IN && writes)
    complain(c, op,
             kiln_arena_format(c->d->arena,
                               "'%.80s' is 'in', through which nothing is written: expected 'out', 'inout' "
                               "or 'accum', found '%s'",
                               name, ir_ops[op->code].text));
  if (p->access == IR_ACCESS_OUT && reads)
    complain(
        c, op,
        kiln_arena_format(
            c->d->arena,
            "'%.80s' is 'out', through which nothing is read: expected 'in', 'inout' or 'accum', found '%s'",
            name, ir_ops[op->code].text));
}

static void check_strides(const checking *c, const ir_op *op) {
  const ir_op *view = op->operands[0]->def;
  ir_type type = op->operands[0]->type;
  int64_t stride;
  for (uint32_t i = 0; view && view->code == IR_VIEW && i < type.rank; i++)
    if (type.log2[i] != IR_DROPPED && type.log2[i] &&
        ir_constant_int(view->operands[1 + type.rank + i], &stride) && stride == 0)
      complain(c, op,
               kiln_arena_format(
                   c->d->arena,
                   "axis %u of the view has stride 0, which repeats one place: expected a load, found '%s'",
                   i, ir_ops[op->code].text));
}

static void visit(ir_op *op, void *context) {
  const checking *c = context;
  switch (op->code) {
  case IR_LOAD:
  case IR_VIEW_LOAD: check_mode(c, op, true, false); break;
  case IR_STORE: check_mode(c, op, false, true); break;
  case IR_ATOMIC:
  case IR_CAS: check_mode(c, op, true, true); break;
  case IR_VIEW_STORE: check_mode(c, op, false, true), check_strides(c, op); break;
  case IR_VIEW_ATOMIC: check_mode(c, op, true, true), check_strides(c, op); break;
  default: break;
  }
}

void kiln_native_check_access(ir_kernel *kernel, const char *file, kiln_diagnostics *d) {
  checking c = {kernel, file, d};
  ir_walk(kernel->body, visit, &c);
}
