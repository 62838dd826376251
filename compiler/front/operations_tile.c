// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that change shapes or work across lanes: broadcast, reshape, trans, join, split, reduce, scan,
// dot.
#include <string.h>

#include "compiler/front/operations.h"

static kiln_values fail(kiln_value *one) { return kiln_call_one((kiln_value){0}, one); }

static kiln_values all_results(kiln_elab *e, const kiln_call *c, ir_op *op) {
  if (!op) {
    kiln_value *error = KILN_NEW(e->arena, kiln_value);
    *error = kiln_elab_result(e, c->place, NULL);
    return (kiln_values){error, 1};
  }
  kiln_values out = {KILN_NEW_ARRAY(e->arena, kiln_value, op->result_count), op->result_count};
  for (uint32_t i = 0; i < op->result_count; i++) out.items[i] = kiln_value_runtime(&op->results[i]);
  return out;
}

// A tile argument.
static ir_value *tile(kiln_elab *e, const kiln_call *c, uint32_t i) {
  char text[IR_TYPE_TEXT];
  ir_value *v = kiln_call_value(e, c, i);
  if (!v || (v->type.rank && !v->type.is_view)) return v;
  kiln_elab_error(e, c->args[i]->place, "'%s': expected a tile, found %s%s", c->operation->name,
                  ir_type_text(v->type, text), v->type.is_view ? "; use load" : "");
  return NULL;
}

// The type of `v` with the shape of argument 1.
static bool new_shape(kiln_elab *e, const kiln_call *c, const ir_value *v, ir_type *out) {
  kiln_list list;
  if (!kiln_call_list(e, c, 1, "a shape", &list)) return false;
  *out = ir_element(v->type);
  return kiln_elab_shape(e, c->place, list, false, out);
}

kiln_values kiln_operation_broadcast(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_type type;
  ir_value *v = kiln_call_value(e, c, 0);
  if (!v || !new_shape(e, c, v, &type)) return fail(one);
  return kiln_call_one(
      kiln_elab_result(e, c->place, v->type.rank ? ir_broadcast(&e->b, v, type) : ir_splat(&e->b, v, type)),
      one);
}

kiln_values kiln_operation_reshape(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_type type;
  ir_value *v = kiln_call_value(e, c, 0);
  if (!v || !new_shape(e, c, v, &type)) return fail(one);
  return kiln_call_one(kiln_elab_result(e, c->place, ir_reshape(&e->b, v, type)), one);
}

kiln_values kiln_operation_trans(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  kiln_list list;
  ir_value *v = tile(e, c, 0);
  if (!v) return fail(one);
  unsigned rank = v->type.rank;
  for (unsigned i = 0; i < rank; i++) attrs.perm[i] = (uint8_t)i;
  if (c->count == 1) {
    if (rank < 2)
      return kiln_call_one(
          kiln_elab_error(e, c->place, "'trans': expected a tile of rank 2 or more, found rank %u", rank),
          one);
    attrs.perm[rank - 2] = (uint8_t)(rank - 1);
    attrs.perm[rank - 1] = (uint8_t)(rank - 2);
  } else {
    if (!kiln_call_list(e, c, 1, "a permutation", &list)) return fail(one);
    if (list.count != rank)
      return kiln_call_one(
          kiln_elab_error(e, c->place, "'trans': expected %u axes, found %u", rank, list.count), one);
    for (unsigned i = 0; i < rank; i++) {
      int64_t axis;
      if (!kiln_elab_integer(e, list.items[i], 0, rank - 1, "axis of 'trans'", &axis)) return fail(one);
      attrs.perm[i] = (uint8_t)axis;
    }
  }
  ir_op *op = ir_emit(&e->b, IR_TRANS, &attrs, &v, 1, NULL, NULL, 0);
  return kiln_call_one(kiln_elab_result(e, c->place, op ? &op->results[0] : NULL), one);
}

kiln_values kiln_operation_join(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  kiln_value a = kiln_elab_eval(e, c->args[0]), b = kiln_elab_eval(e, c->args[1]);
  kiln_value *pair[] = {&a, &b};
  if (!kiln_elab_unify(e, c->place, pair, 2, "operands of 'join'")) return fail(one);
  return kiln_call_one(kiln_elab_result(e, c->place, ir_binary(&e->b, IR_JOIN, 0, a.ir, b.ir)), one);
}

kiln_values kiln_operation_split(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_value *v = tile(e, c, 0);
  if (!v) return fail(one);
  return all_results(e, c, ir_emit(&e->b, IR_SPLIT, NULL, &v, 1, NULL, NULL, 0));
}

// --------------------------------------------------------------------------------- reduce and scan

ir_block *kiln_elab_combiner(kiln_elab *e, kiln_item *fn, const ir_type *types, uint32_t count,
                             ir_place place) {
  ir_block *block = KILN_NEW(e->b.arena, ir_block), *outer = e->b.block;
  kiln_value *args = KILN_NEW_ARRAY(e->arena, kiln_value, 2 * count);
  for (uint32_t i = 0; i < 2 * count; i++)
    args[i] = kiln_value_runtime(ir_block_arg(e->b.arena, block, types[i % count]));
  e->b.block = block;
  kiln_values out = kiln_elab_inline(e, fn, args, 2 * count, place);
  ir_value **yields = KILN_NEW_ARRAY(e->arena, ir_value *, count);
  bool ok = out.count == count, said = false; // an error inside was reported where it stands
  for (uint32_t i = 0; i < out.count; i++) said |= out.items[i].kind == KILN_VALUE_ERROR;
  ok &= !said;
  if (!ok && !said)
    kiln_elab_error(e, place, "combiner '%s': expected %u results, found %u", fn->atom->text, count,
                    out.count);
  for (uint32_t i = 0; ok && i < count; i++)
    ok = (yields[i] = kiln_elab_fit(e, place, out.items[i], types[i], "result of the combiner")) != NULL;
  if (ok) ir_yield(&e->b, yields, count);
  e->b.block = outer;
  return ok ? block : NULL;
}

static kiln_item *combiner(kiln_elab *e, const kiln_call *c) {
  const kiln_node *n = c->args[0];
  kiln_item *item =
      n->kind == KILN_NODE_NAME && !kiln_elab_find(e, n->atom) ? kiln_elab_item(e, n->atom) : NULL;
  if (item && item->kind == KILN_ITEM_FN) return item;
  kiln_elab_error(e, n->place,
                  "'%s': expected the name of a function, as in %s(pick, axis, x), or %s.add(x, axis)",
                  c->operation->name, c->operation->name, c->operation->name);
  return NULL;
}

static bool axis_of(kiln_elab *e, const kiln_call *c, const kiln_node *n, ir_value *const *values,
                    ir_attrs *attrs) {
  int64_t axis;
  if (!n)
    return kiln_elab_error(e, c->place, "'%s': expected an axis: %s", c->operation->name, c->operation->form),
           false;
  if (!kiln_elab_integer(e, n, 0, values[0]->type.rank - 1, "axis", &axis)) return false;
  attrs->axis = (uint8_t)axis;
  return true;
}

// reduce(fn, axis, x, ...) and reduce.kind(x, axis)
kiln_values kiln_operation_across(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  bool named = c->node->member != NULL;
  uint32_t first = named ? 0 : 2, count = named ? 1 : c->count - 2;
  ir_value *values[KILN_CALL_ARGS];
  ir_type types[KILN_CALL_ARGS];
  ir_block *region = NULL;
  if (!kiln_call_flag(e, c, "reverse", IR_REVERSE, &attrs.flags) ||
      !kiln_call_flag(e, c, "nan", IR_NAN, &attrs.flags))
    return fail(one);
  if (named ? c->count > 2 : c->count < 3)
    return kiln_call_one(kiln_elab_error(e, c->place, "'%s': expected %s(fn, axis, x, ...) or %s",
                                         c->operation->name, c->operation->name, c->operation->form),
                         one);
  if (named) kiln_call_combine(c, &attrs.kind, &attrs.flags);
  kiln_item *fn = named ? NULL : combiner(e, c);
  if (!named && !fn) return fail(one);
  for (uint32_t i = 0; i < count; i++)
    if (!(values[i] = tile(e, c, first + i))) return fail(one);
  if (!kiln_elab_unify_shapes(e, c->place, values, count, c->operation->name)) return fail(one);
  for (uint32_t i = 0; i < count; i++) types[i] = ir_element(values[i]->type);
  if (named && !kiln_call_takes_unsigned(e, c, attrs.flags, types[0])) return fail(one);
  if (!axis_of(e, c, named ? kiln_call_arg(c, 1, "axis") : c->args[1], values, &attrs)) return fail(one);
  if (fn && !(region = kiln_elab_combiner(e, fn, types, count, c->place))) return fail(one);
  return all_results(
      e, c,
      ir_emit(&e->b, (ir_opcode)c->operation->code, &attrs, values, count, NULL, &region, region ? 1 : 0));
}

// --------------------------------------------------------------------------------------------- dot

kiln_values kiln_operation_dot(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  ir_value *operands[3] = {tile(e, c, 0), tile(e, c, 1)};
  char text[IR_TYPE_TEXT];
  if (!operands[0] || !operands[1] || !kiln_call_word(e, c, "prec", ir_precision_words, &attrs.precision))
    return fail(one);
  ir_type a = operands[0]->type, b = operands[1]->type;
  if (a.rank != b.rank || (a.rank != 2 && a.rank != 3))
    return kiln_call_one(
        kiln_elab_error(e, c->place,
                        "'dot': expected two tiles of rank 2, or two of rank 3, found %s and rank %u",
                        ir_type_text(a, text), b.rank),
        one);
  const kiln_node *acc = kiln_call_arg(c, 2, "acc");
  kiln_value start = acc ? kiln_elab_eval(e, acc) : kiln_value_int(0);
  const kiln_scalar element = a.scalar == KILN_F64                 ? KILN_F64
                              : ir_type_class(a) == KILN_CLASS_INT ? KILN_I32
                                                                   : KILN_F32;
  ir_type sum = ir_with_element(a, ir_scalar_type(element));
  sum.log2[a.rank - 1] = b.log2[a.rank - 1];
  operands[2] = kiln_elab_fit(e, c->place, start, sum, "accumulator of 'dot'");
  if (!operands[2]) return fail(one);
  ir_op *op = ir_emit(&e->b, IR_DOT, &attrs, operands, 3, NULL, NULL, 0);
  return kiln_call_one(kiln_elab_result(e, c->place, op ? &op->results[0] : NULL), one);
}
