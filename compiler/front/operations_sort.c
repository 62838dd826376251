// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort and topk: a bitonic network along the last axis, in reshapes, transposes and selects.
#include <string.h>

#include "compiler/front/operations.h"

// The tile with its last axis cut in two at bit `bit`: [outer, high, 2, low]. All of it stays in row-major
// order.
static ir_type cut(ir_type type, unsigned bit) {
  unsigned last = type.log2[type.rank - 1], outer = ir_log2_elements(type) - last;
  ir_type to = ir_element(type);
  to.rank = 3;
  to.log2[0] = (uint8_t)(outer + last - bit - 1);
  to.log2[1] = 1;
  to.log2[2] = (uint8_t)bit;
  return to;
}

static ir_value *trans021(ir_builder *b, ir_value *v) {
  ir_attrs attrs = {.perm = {0, 2, 1}};
  ir_op *op = v ? ir_emit(b, IR_TRANS, &attrs, &v, 1, NULL, NULL, 0) : NULL;
  return op ? &op->results[0] : NULL;
}

// Splits the tile into elements whose index has `bit` clear and set.
static bool halves(ir_builder *b, ir_value *v, unsigned bit, ir_value **out) {
  ir_value *parts = trans021(b, ir_reshape(b, v, cut(v->type, bit)));
  ir_op *op = parts ? ir_emit(b, IR_SPLIT, NULL, &parts, 1, NULL, NULL, 0) : NULL;
  if (!op) return false;
  out[0] = &op->results[0];
  out[1] = &op->results[1];
  return true;
}

static ir_value *rejoin(ir_builder *b, ir_value *low, ir_value *high, ir_type type) {
  ir_value *v = trans021(b, ir_binary(b, IR_JOIN, 0, low, high));
  return v ? ir_reshape(b, v, type) : NULL;
}

// Where run `bit` of the index is set the order is turned round: a bit of the index of each pair, as i1.
static ir_value *turned(ir_builder *b, ir_type pair, ir_type full, unsigned bit, unsigned run) {
  unsigned last = full.log2[full.rank - 1];
  ir_value *index = ir_iota(b, last), *parts[2];
  if (!index || !halves(b, index, bit, parts)) return NULL;
  ir_value *mask = ir_const_like(b, parts[0]->type, (double)(UINT64_C(1) << run)),
           *zero = ir_const_like(b, parts[0]->type, 0);
  ir_value *set = ir_compare(b, IR_NE, 0, ir_binary(b, IR_AND, 0, parts[0], mask), zero);
  if (!set) return NULL;
  unsigned outer = ir_log2_elements(pair) - ir_log2_elements(set->type);
  ir_type flat = ir_scalar_type(KILN_I1), wide = flat;
  flat.rank = wide.rank = 2;
  flat.log2[1] = wide.log2[1] = (uint8_t)ir_log2_elements(set->type);
  wide.log2[0] = (uint8_t)outer;
  ir_value *v = ir_broadcast(b, ir_reshape(b, set, flat), wide);
  return v ? ir_reshape(b, v, ir_with_element(pair, ir_scalar_type(KILN_I1))) : NULL;
}

// One step: pairs at distance 2^bit inside runs of 2^run.
static ir_value *step(ir_builder *b, ir_value *v, unsigned bit, unsigned run, bool descending) {
  ir_value *parts[2];
  ir_type type = v->type;
  unsigned last = type.log2[type.rank - 1];
  if (!halves(b, v, bit, parts)) return NULL;
  ir_value *swap = ir_compare(b, descending ? IR_LT : IR_GT, 0, parts[0], parts[1]);
  if (run < last) {
    ir_value *other = ir_compare(b, descending ? IR_GT : IR_LT, 0, parts[0], parts[1]);
    swap = ir_ternary(b, IR_SELECT, 0, turned(b, parts[0]->type, type, bit, run), other, swap);
  }
  ir_value *low = ir_ternary(b, IR_SELECT, 0, swap, parts[1], parts[0]),
           *high = ir_ternary(b, IR_SELECT, 0, swap, parts[0], parts[1]);
  return low && high ? rejoin(b, low, high, type) : NULL;
}

static ir_value *sorted(ir_builder *b, ir_value *v, bool descending) {
  unsigned last = v->type.log2[v->type.rank - 1];
  for (unsigned run = 1; v && run <= last; run++)
    for (unsigned bit = run; v && bit-- > 0;) v = step(b, v, bit, run, descending);
  return v;
}

enum { MOST_LOG2 = 6 }; // of the elements that are sorted

static ir_value *argument(kiln_elab *e, const kiln_call *c) {
  char text[IR_TYPE_TEXT];
  ir_value *v = kiln_call_value(e, c, 0);
  unsigned class = v ? ir_type_class(v->type) : 0;
  bool is_tile = v && v->type.rank && !v->type.is_view && (class & (KILN_CLASS_INT | KILN_CLASS_FLOAT));
  if (is_tile && v->type.log2[v->type.rank - 1] > MOST_LOG2) {
    kiln_elab_error(e, c->args[0]->place,
                    "'%s': expected at most %u elements along the last axis, found %u: every thread of a GPU "
                    "would sort a whole row, and code for longer ones takes minutes to compile",
                    c->operation->name, 1u << MOST_LOG2, 1u << v->type.log2[v->type.rank - 1]);
    return NULL;
  }
  if (!v || is_tile) return v;
  kiln_elab_error(e, c->args[0]->place, "'%s': expected a tile of integers or floats, found %s",
                  c->operation->name, ir_type_text(v->type, text));
  return NULL;
}

kiln_values kiln_operation_sort(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  uint32_t descending = 0;
  ir_value *v = argument(e, c);
  if (!v || !kiln_call_flag(e, c, "descending", 1, &descending)) return kiln_call_one((kiln_value){0}, one);
  return kiln_call_one(kiln_elab_result(e, c->place, sorted(&e->b, v, descending)), one);
}

// The k largest along the last axis, largest first: sorted, then the upper halves dropped.
kiln_values kiln_operation_topk(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  uint8_t log2;
  ir_value *v = argument(e, c), *parts[2];
  if (!v || !kiln_elab_extent(e, c->args[1], &log2)) return kiln_call_one((kiln_value){0}, one);
  ir_type type = v->type;
  uint8_t *last = &type.log2[type.rank - 1];
  if (log2 > *last)
    return kiln_call_one(kiln_elab_error(e, c->place, "'topk': expected at most %u elements, found %u",
                                         1u << *last, 1u << log2),
                         one);
  v = sorted(&e->b, v, true);
  while (v && *last > log2) {
    --*last;
    v = halves(&e->b, v, *last, parts) ? ir_reshape(&e->b, parts[0], type) : NULL;
  }
  return kiln_call_one(kiln_elab_result(e, c->place, v), one);
}
