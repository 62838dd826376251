// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums, views and accesses as operations.
#include <string.h>

#include "compiler/passes/gpu/recover/recover_inner.h"

static ir_value *widened(recovering *r, const ir_value *v, kiln_scalar to) {
  return v->type.scalar == to ? (ir_value *)v : ir_cast(&r->b, (ir_value *)v, to, 0, 0);
}

ir_value *recover_emit_sum(recovering *r, const sum *s, bool is_index) {
  bool is_narrow = is_index && recover_is_at_most(r, s, INT32_MAX);
  for (unsigned i = 0; i < s->count; i++) {
    is_narrow &= s->terms[i].factor == (int32_t)s->terms[i].factor;
    for (unsigned k = 0; k < s->terms[i].count; k++)
      is_narrow &= s->terms[i].atoms[k]->type.scalar == KILN_I32;
  }
  kiln_scalar width = is_narrow ? KILN_I32 : KILN_I64;
  ir_value *total = NULL;
  for (unsigned i = 0; i < s->count; i++) {
    const term *t = &s->terms[i];
    ir_value *product = NULL;
    for (unsigned k = 0; k < t->count; k++) {
      ir_value *factor = widened(r, t->atoms[k], width);
      product = product ? ir_binary(&r->b, IR_MUL, 0, product, factor) : factor;
    }
    if (!product || t->factor != 1) {
      ir_value *factor = ir_const_int(&r->b, width, t->factor);
      product = product ? ir_binary(&r->b, IR_MUL, 0, product, factor) : factor;
    }
    total = total ? ir_binary(&r->b, IR_ADD, 0, total, product) : product;
  }
  if (!total) total = ir_const_int(&r->b, width, 0);
  return total ? widened(r, total, KILN_I64) : NULL;
}

static bool is_view_of(const made_view *m, const address *a, ir_type type) {
  bool is_same = m->base == a->base && ir_type_equal(m->type, type);
  for (unsigned i = 0; i < a->rank && is_same; i++)
    is_same =
        sum_is_equal(&m->parts[i], &a->extents[i]) && sum_is_equal(&m->parts[a->rank + i], &a->strides[i]);
  return is_same;
}

/// The view, made before the operation of the kernel's body that the access stands in; accesses of the same
/// view share one.
static ir_value *view_of(recovering *r, const ir_op *access, const address *a, ir_type type) {
  for (unsigned i = 0; i < r->view_count; i++)
    if (is_view_of(&r->views[i], a, type)) return r->views[i].view;
  const ir_op *outermost = access;
  while (outermost->block->parent) outermost = outermost->block->parent;
  ir_value *operands[1 + 2 * MOST_AXES] = {(ir_value *)a->base};
  r->b.block = r->kernel->body, r->b.before = (ir_op *)outermost;
  for (unsigned i = 0; i < a->rank; i++) {
    operands[1 + i] = recover_emit_sum(r, &a->extents[i], false);
    operands[1 + a->rank + i] = recover_emit_sum(r, &a->strides[i], false);
  }
  ir_op *op = ir_emit(&r->b, IR_VIEW, NULL, operands, 1 + 2 * a->rank, &type, NULL, 0);
  if (!op) return NULL;
  KILN_GROW(r->scratch, r->views, r->view_count, r->view_capacity);
  made_view *m = &r->views[r->view_count++];
  *m = (made_view){.base = a->base, .type = type, .view = &op->results[0]};
  memcpy(m->parts, a->extents, a->rank * sizeof *m->parts);
  memcpy(m->parts + a->rank, a->strides, a->rank * sizeof *m->parts);
  return m->view;
}

static ir_type view_type(const address *a, ir_type pointer) {
  ir_type type = {.scalar = pointer.scalar, .is_view = 1, .rank = (uint8_t)a->rank};
  for (unsigned i = 0; i < a->rank; i++) {
    unsigned at = i - (a->rank - RANK);
    type.log2[i] = i + RANK < a->rank ? IR_DROPPED : pointer.log2[a->is_turned ? 1 - at : at];
  }
  return type;
}

uint32_t recover_emit_access(recovering *r, ir_op *op, const address *a, ir_value **operands) {
  uint32_t count = 0;
  r->b.place = op->place;
  operands[count++] = view_of(r, op, a, view_type(a, op->operands[0]->type));
  r->b.block = op->block, r->b.before = op;
  for (unsigned i = 0; i < a->rank; i++) operands[count++] = recover_emit_sum(r, &a->indices[i], true);
  return count;
}
