// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Masks of fetches. A thread copies pieces of up to 16 elements that are in a row in memory, and says how
// many bytes of a piece are there; the rest is zero. So a mask that ends in the middle of a piece does no
// harm when what it says of a row is where the row ends: it is taken apart into what is the same all along a
// piece, and the number of elements that are left from each on.
//
//   rows < M  &  columns < K - k    =>   mask: rows < M    left: (K - k) - columns
#include "compiler/passes/gpu/fetch_mask.h"

enum { MOST_PIECE = 4, MOST_LEFT = 16 }; // logarithm of a piece's elements; of what counts beyond one

/// The same, or rising by one, all along a piece.
static bool holds(uint8_t run, ir_type type, unsigned axis) {
  return run >= (type.log2[axis] < MOST_PIECE ? type.log2[axis] : MOST_PIECE);
}

static bool is_level(kiln_facts *facts, const ir_value *v, unsigned axis) {
  return !v->type.rank || holds(kiln_fact_of(facts, v)->constancy[axis], v->type, axis);
}

/// columns < bound
static bool is_end(kiln_facts *facts, const ir_op *op, unsigned axis) {
  if (op->code != IR_CMP || op->attrs.kind != IR_LT || op->attrs.flags & IR_UNSIGNED) return false;
  const ir_value *x = op->operands[0];
  const kiln_fact *fact = kiln_fact_of(facts, x);
  bool is_integer = !x->type.pointer && (x->type.scalar == KILN_I32 || x->type.scalar == KILN_I64);
  return is_integer && x->type.rank && fact->lo >= 0 && holds(fact->contiguity[axis], x->type, axis) &&
         is_level(facts, op->operands[1], axis);
}

/// The operand's axis that becomes `axis` of the result.
static unsigned axis_before(const ir_op *op, unsigned axis) {
  if (op->code == IR_TRANS) return op->attrs.perm[axis];
  return op->code == IR_EXPAND && axis > op->attrs.axis ? axis - 1u : axis;
}

static bool is_shape(const ir_op *op) {
  return op->code == IR_TRANS || op->code == IR_EXPAND || op->code == IR_BROADCAST;
}

bool kiln_can_split_mask(kiln_facts *facts, const ir_value *mask, unsigned axis) {
  const ir_op *op = mask->def;
  if (is_level(facts, mask, axis)) return true;
  if (!op) return false;
  if (op->code == IR_AND)
    return kiln_can_split_mask(facts, op->operands[0], axis) &&
           kiln_can_split_mask(facts, op->operands[1], axis);
  if (is_shape(op)) return kiln_can_split_mask(facts, op->operands[0], axis_before(op, axis));
  return is_end(facts, op, axis);
}

// ----------------------------------------------------------------------------------------- building

typedef struct splitting {
  kiln_pipeline *a;
  kiln_facts *facts;
  kiln_iteration when;
} splitting;

/// Of an i64 as many as matter. What is not above 0 does not matter either, so that nothing overflows.
static ir_value *left_of(const splitting *s, const ir_op *op) {
  ir_builder *b = &s->a->b;
  ir_value *x = kiln_pipeline_value(s->a, op->operands[0], s->when),
           *bound = kiln_pipeline_value(s->a, op->operands[1], s->when);
  ir_type type = op->operands[0]->type;
  if (kiln_fact_of(s->facts, op->operands[1])->lo < 0)
    bound = ir_binary(b, IR_MAX, 0, bound, ir_splat(b, ir_const_int(b, type.scalar, 0), type));
  ir_value *left = ir_binary(b, IR_SUB, 0, bound, x);
  if (type.scalar == KILN_I32) return left;
  left = ir_binary(b, IR_MIN, 0, left, ir_splat(b, ir_const_int(b, KILN_I64, MOST_LEFT), type));
  left = ir_binary(b, IR_MAX, 0, left, ir_splat(b, ir_const_int(b, KILN_I64, 0), type));
  return ir_cast(b, left, KILN_I32, 0, IR_ROUND_NEAREST);
}

static ir_value *reshaped(const splitting *s, const ir_op *op, ir_value *v) {
  if (!v) return NULL;
  ir_type type = ir_with_element(op->results[0].type, ir_element(v->type));
  ir_op *made = ir_emit(&s->a->b, op->code, &op->attrs, &v, 1, &type, NULL, 0);
  return made ? &made->results[0] : NULL;
}

static ir_value *both(const splitting *s, ir_opcode code, ir_value *x, ir_value *y) {
  return !x ? y : !y ? x : ir_binary(&s->a->b, code, 0, x, y);
}

static kiln_mask_parts split(const splitting *s, ir_value *mask, unsigned axis) {
  const ir_op *op = mask->def;
  if (is_level(s->facts, mask, axis))
    return (kiln_mask_parts){.mask = kiln_pipeline_value(s->a, mask, s->when)};
  if (op->code == IR_AND) {
    kiln_mask_parts x = split(s, op->operands[0], axis), y = split(s, op->operands[1], axis);
    return (kiln_mask_parts){both(s, IR_AND, x.mask, y.mask), both(s, IR_MIN, x.left, y.left)};
  }
  if (op->code == IR_CMP) return (kiln_mask_parts){.left = left_of(s, op)};
  kiln_mask_parts inner = split(s, op->operands[0], axis_before(op, axis));
  return (kiln_mask_parts){reshaped(s, op, inner.mask), reshaped(s, op, inner.left)};
}

kiln_mask_parts kiln_split_mask(kiln_pipeline *a, kiln_facts *facts, ir_value *mask, unsigned axis,
                                kiln_iteration when) {
  splitting s = {a, facts, when};
  kiln_mask_parts p = split(&s, mask, axis);
  ir_value *exists = ir_splat(&a->b, a->exists[when], mask->type);
  p.mask = both(&s, IR_AND, p.mask, exists);
  return p;
}
