// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies after writes. The producer runs ahead of the consumers, so what they have written may not be there yet when it
// copies what comes later in the program. Where that may be the same memory, written through another parameter,
// the program asks whether the two overlap, and waits only then:
//
//   producer    if overlap { bar_wait written, phase }
//   consumers   if overlap { barrier engine; bar_arrive written }
//
// after the statement that writes. Views of parameters tell what they reach; of any other write it is taken to
// overlap. Before the roles are split there is a barrier in its place: a kernel with roles has no other one.
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/roles/roles_inner.h"
#include "compiler/passes/gpu/written.h"

enum { MOST_DEPTH = 24 };
enum { FAR_EXTENT = 1 << 28, FAR_STRIDE = 1 << 29 }; // up to them, five axes of eight bytes fit 64 bits

/// Two accesses of which a meeting asks.
typedef struct overlap {
  const ir_op *write, *load;
  ir_op *after;
} overlap;

typedef struct ordering {
  splitting *s;
  ir_block *program;
  const ir_op *load;
  overlap *found; ///< in order of the text of the loads
  uint32_t count, capacity;
} ordering;

/// Where parameters are not known, or are the same, there is nothing mapped (promote.c): exchanges within a cluster
/// write shared memory.
static void add_overlap(const kiln_earlier_write *write, void *context) {
  ordering *o = context;
  if (write->to < 0 || write->from < 0 || write->to == write->from) return;
  KILN_GROW(o->s->kernel->arena, o->found, o->count, o->capacity);
  o->found[o->count++] = (overlap){write->op, o->load, write->outermost};
}

// ------------------------------------------------------------------------------------------ reaches

/// A scalar that follows from parameters alone, again at the builder's place; NULL: it does not.
static ir_value *again(splitting *s, ir_value *v, unsigned depth) {
  if (!v->def) return v->block == s->kernel->body ? v : NULL;
  const bool is_scalar = !v->type.rank && !v->type.is_view && ir_ops[v->def->code].effect == IR_PURE;
  ir_value *operands[3];
  if (!depth || !is_scalar || v->def->operand_count > 3 || v->def->region_count || v->def->code == IR_PID)
    return NULL;
  for (uint32_t i = 0; i < v->def->operand_count; i++)
    if (!(operands[i] = again(s, v->def->operands[i], depth - 1))) return NULL;
  ir_op *op =
      ir_emit(&s->b, v->def->code, &v->def->attrs, operands, v->def->operand_count, &v->type, NULL, 0);
  return op ? &op->results[v->index] : NULL;
}

/// The bytes that a view reaches, between two addresses; `is_far`: a number in it is too large to tell.
typedef struct reach {
  ir_value *first, *after, *is_far;
} reach;

static ir_value *number(splitting *s, int64_t n) { return ir_const_int(&s->b, KILN_I64, n); }

static ir_value *either(splitting *s, ir_value *x, ir_value *y) {
  return !x ? y : !y ? x : ir_binary(&s->b, IR_OR, 0, x, y);
}

static void note_far(splitting *s, reach *r, ir_value *n, int64_t most) {
  r->is_far = either(s, r->is_far, ir_compare(&s->b, IR_GT, IR_UNSIGNED, n, number(s, most)));
}

/// base .. base + sum((extent - 1) * stride) + one element. False: the view is not one of a parameter.
static bool reach_of(splitting *s, const ir_op *access, reach *out) {
  const ir_op *view = access->operands[0]->def;
  *out = (reach){NULL, NULL, NULL};
  if (!access->operands[0]->type.is_view || !view || view->code != IR_VIEW) return false;
  const ir_type type = view->results[0].type;
  const ir_value *base = kiln_behind(view->operands[0]);
  ir_value *one = number(s, 1), *last = number(s, 0);
  if (base->def || base->block != s->kernel->body) return false;
  for (unsigned i = 0; i < type.rank; i++) {
    ir_value *extent = again(s, ir_view_extents(view)[i], MOST_DEPTH),
             *stride = again(s, ir_view_strides(view)[i], MOST_DEPTH);
    if (!extent || !stride) return false;
    note_far(s, out, extent, FAR_EXTENT), note_far(s, out, stride, FAR_STRIDE);
    ir_value *steps = ir_binary(&s->b, IR_SUB, 0, ir_binary(&s->b, IR_MAX, 0, extent, one), one);
    last = ir_binary(&s->b, IR_ADD, 0, last, ir_binary(&s->b, IR_MUL, 0, steps, stride));
  }
  ir_value *bytes = number(s, kiln_scalars[type.scalar].bytes), *all = ir_binary(&s->b, IR_ADD, 0, last, one);
  out->first = ir_bitcast(&s->b, (ir_value *)base, ir_scalar_type(KILN_I64));
  out->after = ir_binary(&s->b, IR_ADD, 0, out->first, ir_binary(&s->b, IR_MUL, 0, all, bytes));
  return true;
}

/// i1, before the loop over programs.
static ir_value *overlaps(splitting *s, const overlap *which) {
  reach x, y;
  if (!reach_of(s, which->write, &x) || !reach_of(s, which->load, &y))
    return ir_const_bits(&s->b, ir_scalar_type(KILN_I1), 1);
  ir_value *meet = ir_binary(&s->b, IR_AND, 0, ir_compare(&s->b, IR_LT, 0, x.first, y.after),
                             ir_compare(&s->b, IR_LT, 0, y.first, x.after));
  return either(s, meet, either(s, x.is_far, y.is_far));
}

// ----------------------------------------------------------------------------------------- meetings

/// `if any { barrier engine }` after the statement.
static void emit_meeting(splitting *s, ir_op *after, ir_value *any) {
  ir_block *sides[2] = {KILN_NEW(s->kernel->arena, ir_block), KILN_NEW(s->kernel->arena, ir_block)};
  s->b.place = after->place;
  for (unsigned i = 0; i < 2; i++) {
    s->b.block = sides[i], s->b.before = NULL;
    const ir_attrs attrs = {.barrier = {.is_engine = true}};
    if (!i) ir_emit(&s->b, IR_BARRIER, &attrs, NULL, 0, NULL, NULL, 0);
    ir_yield(&s->b, NULL, 0);
  }
  roles_after(s, after);
  ir_emit(&s->b, IR_IF, NULL, &any, 1, NULL, sides, 2);
}

void roles_order(splitting *s) {
  ir_op *programs = s->kernel->body->last;
  while (programs && programs->code != IR_FOR) programs = programs->prev;
  if (!programs) return;
  ordering o = {.s = s, .program = programs->regions[0]};
  for (const ir_op *op = ir_next(o.program, NULL); op; op = ir_next(o.program, op)) {
    if (op->code != IR_VIEW_LOAD || !ir_is_mapped(op)) continue;
    o.load = op;
    kiln_visit_earlier_writes(s->kernel, o.program, op, add_overlap, &o);
  }
  for (uint32_t i = 0; i < o.count; i++) {
    if (!o.found[i].after) continue;
    ir_op *after = o.found[i].after;
    ir_value *any = NULL;
    roles_before(s, programs);
    for (uint32_t k = i; k < o.count; k++) {
      if (o.found[k].after != after) continue;
      any = either(s, any, overlaps(s, &o.found[k]));
      o.found[k].after = NULL;
    }
    emit_meeting(s, after, any);
    s->meets = true;
  }
}
