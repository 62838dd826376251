// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The access modes of parameters are promises that compiler, tuner and recorder rely on: through an `in`
// parameter nothing is written, through an `out` parameter nothing is read. A view with a stride of 0 puts
// many elements of a tile on one place: it can be loaded, not stored to.
//
// Addresses are followed to all that they may be made of: through offsets, views, selects, branches, loops,
// and integers that `bitcast` made of them. Addresses that come from memory have no mode.
//
// Needs a built kernel with places; numbers it, and changes nothing else.
#include <string.h>

#include "compiler/unit/access.h"

typedef struct checking {
  const ir_kernel *kernel;
  const char *file;
  kiln_diagnostics *d;
  const ir_value **todo; ///< values whose sources are looked for
  uint32_t todo_count, todo_capacity;
  uint8_t *seen; ///< by the number of a value: the last search that met it
  uint8_t search;
  uint32_t value_count;
} checking;

// True when the address that an operation yields may be made of that of the operand: also where integers are
// made of addresses (bitcast) and turned back.
static bool passes(const ir_op *op, const ir_value *operand) {
  bool yields_address = op->results[0].type.pointer || op->results[0].type.is_view;
  if (operand->type.pointer || operand->type.is_view) return ir_has(op->code, IR_PASSES);
  if (operand->type.scalar != KILN_I64) return false;
  switch (op->code) {
  case IR_BITCAST:
  case IR_ADD:
  case IR_SUB:
  case IR_AND:
  case IR_OR: return true;
  default: return !yields_address && ir_has(op->code, IR_PASSES);
  }
}

static void look_at(checking *c, const ir_value *v) {
  if (c->seen[v->id] == c->search) return;
  c->seen[v->id] = c->search;
  KILN_GROW(c->d->arena, c->todo, c->todo_count, c->todo_capacity);
  c->todo[c->todo_count++] = v;
}

static void look_at_argument(checking *c, const ir_op *loop, const ir_value *v) {
  if (!ir_is_loop(loop)) return;
  if (v->block != loop->regions[0]) {
    look_at(c, ir_cond_passed(ir_while_test(loop))[v->index]);
  } else if (v->index >= ir_loop_counters(loop)) {
    uint32_t i = v->index - ir_loop_counters(loop);
    look_at(c, ir_loop_initials(loop)[i]);
    look_at(c, ir_loop_next(loop)->operands[i]);
  }
}

// Everything that the address `v` may have been made of, in `todo`.
static void find_sources(checking *c, const ir_value *v) {
  if (!++c->search) memset(c->seen, 0, c->value_count), c->search = 1;
  c->todo_count = 0;
  look_at(c, v);
  for (uint32_t i = 0; i < c->todo_count; i++) {
    v = c->todo[i];
    if (v->def) {
      for (uint32_t k = 0; k < v->def->operand_count; k++)
        if (passes(v->def, v->def->operands[k])) look_at(c, v->def->operands[k]);
      switch (v->def->code) {
      case IR_IF:
        for (unsigned which = 0; which < 2; which++) look_at(c, ir_if_end(v->def, which)->operands[v->index]);
        break;
      case IR_FOR: look_at(c, ir_loop_args(v->def)[v->index]); break;
      case IR_WHILE: look_at(c, ir_cond_passed(ir_while_test(v->def))[v->index]); break;
      default: break;
      }
    } else if (v->block->parent) look_at_argument(c, v->block->parent, v);
  }
}

static void complain(const checking *c, const ir_op *op, const char *text) {
  kiln_diagnose(c->d, KILN_ERROR, c->file, op->place, "%s", text);
}

static void check_access(checking *c, const ir_op *op, bool reads, bool writes) {
  find_sources(c, op->operands[0]);
  for (uint32_t i = 0; i < c->todo_count; i++) {
    const ir_value *v = c->todo[i];
    if (!v->def && v->block == c->kernel->body) {
      const ir_param *p = &c->kernel->params[v->index];
      const char *name = p->name ? p->name : "", *found = ir_ops[op->code].text;
      if (p->access == IR_ACCESS_IN && writes)
        complain(
            c, op,
            kiln_arena_format(c->d->arena,
                              "'%.80s' is 'in', through which nothing is written: expected 'out', 'inout' "
                              "or 'accum', found '%s'",
                              name, found));
      if (p->access == IR_ACCESS_OUT && reads)
        complain(c, op,
                 kiln_arena_format(c->d->arena,
                                   "'%.80s' is 'out', through which nothing is read: expected 'in', 'inout' "
                                   "or 'accum', found '%s'",
                                   name, found));
    } else if (v->def && v->def->code == IR_VIEW && writes) {
      ir_type type = v->def->results[0].type;
      int64_t stride;
      for (uint32_t k = 0; k < type.rank; k++)
        if (type.log2[k] != IR_DROPPED && type.log2[k] &&
            ir_constant_int(ir_view_strides(v->def)[k], &stride) && stride == 0)
          complain(
              c, op,
              kiln_arena_format(
                  c->d->arena,
                  "axis %u of the view has stride 0, which repeats one place: expected a load, found '%s'", k,
                  ir_ops[op->code].text));
    }
  }
}

static void visit(ir_op *op, void *context) {
  switch (op->code) {
  case IR_LOAD:
  case IR_VIEW_LOAD: check_access(context, op, true, false); break;
  case IR_STORE:
  case IR_VIEW_STORE: check_access(context, op, false, true); break;
  case IR_ATOMIC:
  case IR_CAS:
  case IR_VIEW_ATOMIC: check_access(context, op, true, true); break;
  default: break;
  }
}

void kiln_check_access(ir_kernel *kernel, const char *file, kiln_diagnostics *d) {
  checking c = {.kernel = kernel, .file = file, .d = d, .value_count = ir_number(kernel)};
  c.seen = KILN_NEW_ARRAY(d->arena, uint8_t, c.value_count);
  ir_walk(kernel->body, visit, &c);
}
