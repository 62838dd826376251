// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort, topk, gather and scatter. The operation `sort` of the IR orders integers; floats, falling order and the places
// that elements come from are made of it here, so that the order is one of numbers without equals wherever
// it must be: every machine gives the same bits.
#include "compiler/front/operations.h"

static kiln_values fail(kiln_value *one) { return kiln_call_one((kiln_value){0}, one); }

static unsigned last_log2(ir_type type) { return type.log2[type.rank - 1]; }

static ir_value *with_constant(ir_builder *b, ir_opcode code, ir_value *v, int64_t value) {
  if (!v) return NULL;
  ir_value *c = ir_const_int(b, (kiln_scalar)v->type.scalar, value);
  return c ? ir_binary(b, code, 0, v, ir_splat(b, c, v->type)) : NULL;
}

/// Signed integers that are ordered as the floats are: the magnitude of negative ones is complemented, and
/// what then lies below -inf, the NaNs with a sign, is turned round to the upper end.
static unsigned mantissa_of(kiln_scalar scalar) {
  return scalar == KILN_F16 ? 10 : scalar == KILN_BF16 ? 7 : scalar == KILN_F32 ? 23 : 52;
}

static ir_value *turn_negative(ir_builder *b, ir_value *v) {
  unsigned bits = v ? ir_type_bits(v->type) : 8;
  ir_value *sign = with_constant(b, IR_SHR, v, bits - 1);
  ir_value *flip = with_constant(b, IR_AND, sign, (int64_t)(UINT64_MAX >> (65 - bits)));
  return flip ? ir_binary(b, IR_XOR, 0, v, flip) : NULL;
}

static ir_value *to_order(ir_builder *b, ir_value *v) {
  ir_type type = v->type;
  if (ir_type_class(type) == KILN_CLASS_INT) return v;
  v = ir_bitcast(b, v, ir_scalar_type(ir_integer_of(ir_type_bits(type))));
  int64_t nans = ((int64_t)1 << mantissa_of(type.scalar)) - 1;
  return with_constant(b, IR_SUB, turn_negative(b, v), nans);
}

static ir_value *from_order(ir_builder *b, ir_value *v, ir_type element) {
  if (!v || ir_type_class(element) == KILN_CLASS_INT) return v;
  int64_t nans = ((int64_t)1 << mantissa_of(element.scalar)) - 1;
  v = turn_negative(b, with_constant(b, IR_ADD, v, nans));
  return v ? ir_bitcast(b, v, element) : NULL;
}

static ir_value *complement(ir_builder *b, ir_value *v) { return with_constant(b, IR_XOR, v, -1); }

static ir_value *sorted(ir_builder *b, ir_value *v, unsigned log2) {
  if (!v) return NULL;
  ir_type type = v->type;
  type.log2[type.rank - 1] = (uint8_t)log2;
  ir_op *op = ir_emit(b, IR_SORT, NULL, &v, 1, &type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// 0 .. along the last axis, in the shape of `type`.
static ir_value *places(ir_builder *b, ir_type type, kiln_scalar scalar) {
  ir_type row = ir_with_element(type, ir_scalar_type(KILN_I32));
  for (unsigned i = 0; i + 1 < type.rank; i++) row.log2[i] = 0;
  ir_value *v = ir_reshape(b, ir_iota(b, last_log2(type)), row);
  if (v && scalar != KILN_I32) v = ir_cast(b, v, scalar, 0, IR_ROUND_NEAREST);
  return v ? ir_broadcast(b, v, ir_with_element(type, ir_scalar_type(scalar))) : NULL;
}

/// How a key and its place share an integer: the key above, so that the place decides among equals.
typedef struct pair {
  kiln_scalar wide, key;
  unsigned shift;
} pair;

static ir_value *join_places(ir_builder *b, ir_value *key, const pair *p) {
  if (!key) return NULL;
  ir_value *at = places(b, key->type, p->wide);
  ir_value *high = key->type.scalar == p->wide ? key : ir_cast(b, key, p->wide, 0, IR_ROUND_NEAREST);
  high = with_constant(b, IR_SHL, high, p->shift);
  return high && at ? ir_binary(b, IR_OR, 0, high, at) : NULL;
}

static ir_value *key_of(ir_builder *b, ir_value *v, const pair *p) {
  v = with_constant(b, IR_SHR, v, p->shift);
  return v && p->key != p->wide ? ir_cast(b, v, p->key, 0, IR_ROUND_NEAREST) : v;
}

static ir_value *place_of(ir_builder *b, ir_value *v, const pair *p) {
  v = with_constant(b, IR_AND, v, ((int64_t)1 << p->shift) - 1);
  return v && p->wide != KILN_I32 ? ir_cast(b, v, KILN_I32, 0, IR_ROUND_NEAREST) : v;
}

/// What a call asks for.
typedef struct request {
  uint32_t descending, indices;
  uint8_t first; ///< log2 of the elements kept
} request;

static ir_value *argument(kiln_elab *e, const kiln_call *c) {
  char text[IR_TYPE_TEXT];
  ir_value *v = kiln_call_value(e, c, 0);
  unsigned class = v ? ir_type_class(v->type) : 0;
  bool is_tile = v && v->type.rank && !v->type.is_view && (class & (KILN_CLASS_INT | KILN_CLASS_FLOAT));
  if (!v || is_tile) return v;
  kiln_elab_error(e, c->args[0]->place, "'%s': expected a tile of integers or floats, found %s",
                  c->operation->name, ir_type_text(v->type, text));
  return NULL;
}

static bool fits(kiln_elab *e, const kiln_call *c, ir_type type, const request *r) {
  char text[IR_TYPE_TEXT];
  if (r->first > last_log2(type))
    return kiln_elab_error(e, c->place, "'%s': expected at most %u elements, found %u", c->operation->name,
                           1u << last_log2(type), 1u << r->first),
           false;
  if (r->indices && ir_type_bits(type) == 64)
    return kiln_elab_error(e, c->args[0]->place,
                           "'%s' with indices: expected elements of at most 32 bits, found %s",
                           c->operation->name, ir_type_text(type, text)),
           false;
  return true;
}

static kiln_values order(kiln_elab *e, const kiln_call *c, ir_value *v, const request *r, kiln_value *one) {
  ir_builder *b = &e->b;
  ir_type element = ir_element(v->type);
  if (!fits(e, c, v->type, r)) return fail(one);
  v = to_order(b, v);
  if (r->descending) v = complement(b, v);
  bool is_narrow = v && ir_type_bits(v->type) <= 16 && last_log2(v->type) <= 16;
  pair p = {is_narrow ? KILN_I32 : KILN_I64, v ? (kiln_scalar)v->type.scalar : KILN_I64, is_narrow ? 16 : 32};
  v = sorted(b, r->indices ? join_places(b, v, &p) : v, r->first);
  ir_value *at = r->indices ? place_of(b, v, &p) : NULL;
  if (r->indices) v = key_of(b, v, &p);
  if (r->descending) v = complement(b, v);
  v = from_order(b, v, element);
  if (!r->indices || !v || !at) return kiln_call_one(kiln_elab_result(e, c->place, v), one);
  kiln_values out = {KILN_NEW_ARRAY(e->arena, kiln_value, 2), 2};
  out.items[0] = kiln_value_runtime(v);
  out.items[1] = kiln_value_runtime(at);
  return out;
}

kiln_values kiln_operation_sort(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  request r = {0};
  ir_value *v = argument(e, c);
  if (!v || !kiln_call_flag(e, c, "descending", 1, &r.descending) ||
      !kiln_call_flag(e, c, "indices", 1, &r.indices))
    return fail(one);
  const kiln_node *first = kiln_call_named(c, "first");
  r.first = (uint8_t)last_log2(v->type);
  if (first && !kiln_elab_extent(e, first, &r.first)) return fail(one);
  return order(e, c, v, &r, one);
}

// The k largest along the last axis, largest first.
kiln_values kiln_operation_topk(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  request r = {.descending = 1};
  ir_value *v = argument(e, c);
  if (!v || !kiln_elab_extent(e, c->args[1], &r.first) || !kiln_call_flag(e, c, "indices", 1, &r.indices))
    return fail(one);
  return order(e, c, v, &r, one);
}

static bool is_tile(kiln_elab *e, const kiln_call *c, uint32_t i, const ir_value *v) {
  char text[IR_TYPE_TEXT];
  if (v->type.rank && !v->type.is_view) return true;
  kiln_elab_error(e, c->args[i]->place, "'%s': expected a tile, found %s", c->operation->name,
                  ir_type_text(v->type, text));
  return false;
}

kiln_values kiln_operation_gather(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  int64_t axis;
  ir_value *v[2] = {kiln_call_value(e, c, 0), kiln_call_value(e, c, 1)};
  if (!v[0] || !v[1] || !is_tile(e, c, 0, v[0]) || !is_tile(e, c, 1, v[1])) return fail(one);
  if (!kiln_elab_integer(e, c->args[2], 0, v[0]->type.rank - 1, "axis", &axis)) return fail(one);
  attrs.axis = (uint8_t)axis;
  ir_op *op = ir_emit(&e->b, IR_GATHER, &attrs, v, 2, NULL, NULL, 0);
  return kiln_call_one(kiln_elab_result(e, c->place, op ? &op->results[0] : NULL), one);
}

kiln_values kiln_operation_scatter(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_value *v[3] = {kiln_call_value(e, c, 0), kiln_call_value(e, c, 1)};
  if (!v[0] || !v[1] || !is_tile(e, c, 0, v[0]) || !is_tile(e, c, 1, v[1])) return fail(one);
  v[2] = kiln_elab_fit(e, c->args[2]->place, kiln_elab_eval(e, c->args[2]),
                       ir_with_element(v[1]->type, v[0]->type), "values of 'scatter'");
  ir_op *op = v[2] ? ir_emit(&e->b, IR_SCATTER, NULL, v, 3, NULL, NULL, 0) : NULL;
  return v[2] ? kiln_call_one(kiln_elab_result(e, c->place, op ? &op->results[0] : NULL), one) : fail(one);
}
