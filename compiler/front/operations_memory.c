// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory: pointers with masks, views with indices, atomics.
#include <string.h>

#include "compiler/front/operations.h"

static kiln_values fail(kiln_value *one) { return kiln_call_one((kiln_value){0}, one); }

static bool access_attributes(kiln_elab *e, const kiln_call *c, ir_attrs *attrs) {
  return kiln_call_word(e, c, "cache", ir_cache_words, &attrs->cache) &&
         kiln_call_word(e, c, "evict", ir_evict_words, &attrs->evict) &&
         kiln_call_flag(e, c, "volatile", IR_VOLATILE, &attrs->flags);
}

static bool order_attributes(kiln_elab *e, const kiln_call *c, ir_attrs *attrs) {
  return kiln_call_word(e, c, "order", ir_order_words, &attrs->order) &&
         kiln_call_word(e, c, "scope", ir_scope_words, &attrs->scope);
}

// Argument 0: a pointer, a tile of pointers, or a view.
static ir_value *address(kiln_elab *e, const kiln_call *c) {
  char text[IR_TYPE_TEXT];
  ir_value *p = kiln_call_value(e, c, 0);
  if (!p || p->type.pointer || p->type.is_view) return p;
  kiln_elab_error(e, c->args[0]->place, "'%s': expected a pointer or a view, found %s", c->operation->name,
                  ir_type_text(p->type, text));
  return NULL;
}

static kiln_values emit(kiln_elab *e, const kiln_call *c, ir_opcode code, const ir_attrs *attrs,
                        ir_value *const *operands, uint32_t count, kiln_value *one) {
  ir_op *op = ir_emit(&e->b, code, attrs, operands, count, NULL, NULL, 0);
  if (!op) return kiln_call_one(kiln_elab_result(e, c->place, NULL), one);
  if (!op->result_count) return (kiln_values){one, 0};
  return kiln_call_one(kiln_elab_result(e, c->place, &op->results[0]), one);
}

// An optional mask in the shape of `p`; false after an error. The literal `true` is no mask.
static bool mask_operand(kiln_elab *e, const kiln_call *c, uint32_t i, ir_value *const *p, ir_value **out) {
  const kiln_node *n = kiln_call_arg(c, i, "mask");
  *out = NULL;
  if (!n) return true;
  kiln_value v = kiln_elab_eval(e, n);
  return (*out = kiln_elab_fit(e, n->place, v, ir_with_element((*p)->type, ir_scalar_type(KILN_I1)),
                               "mask")) != NULL;
}

// ------------------------------------------------------------------------------------------- views

// Index, extent or stride as i64: of 32 bits, it has wrapped already and keeps its value.
static ir_value *wide(kiln_elab *e, const kiln_node *n, const char *what) {
  char text[IR_TYPE_TEXT];
  kiln_value v = kiln_elab_eval(e, n);
  if (v.kind == KILN_VALUE_INT) v = kiln_elab_as_element(e, n->place, v, ir_scalar_type(KILN_I64), what);
  if (v.kind == KILN_VALUE_CONST && ir_type_class(v.type) == KILN_CLASS_INT)
    v = kiln_fold_cast(e, v, ir_scalar_type(KILN_I64), 0, IR_ROUND_NEAREST);
  ir_value *ir = v.kind == KILN_VALUE_ERROR ? NULL : kiln_elab_runtime(e, n->place, v);
  if (!ir) return NULL;
  if (ir->type.rank || ir_type_class(ir->type) != KILN_CLASS_INT) {
    kiln_elab_error(e, n->place, "%s: expected a scalar integer, found %s", what,
                    ir_type_text(ir->type, text));
    return NULL;
  }
  if (ir->type.scalar == KILN_I64) return ir;
  return kiln_elab_result(e, n->place, ir_cast(&e->b, ir, KILN_I64, 0, IR_ROUND_NEAREST)).ir;
}

// first = [m, n]: how many along each axis of the tile; less than all along two at most, one of them the
// last.
static bool first_of_axes(kiln_elab *e, const kiln_node *first, ir_type tile, ir_attrs *attrs) {
  int64_t counts[IR_MAX_RANK];
  unsigned parts = 0;
  if (first->list.count != tile.rank)
    return kiln_elab_error(e, first->place, "'first': the view's tile has rank %u, found %u counts",
                           tile.rank, first->list.count),
           false;
  for (unsigned i = 0; i < tile.rank; i++) {
    if (!kiln_elab_integer(e, first->list.items[i], 1, (int64_t)1 << tile.log2[i], "first", &counts[i]))
      return false;
    if (counts[i] == (int64_t)1 << tile.log2[i]) continue;
    if (parts == 1 && i + 1 == tile.rank) attrs->access.across = counts[i];
    else if (!parts) attrs->access.first = counts[i], attrs->access.axis = (uint8_t)i;
    else
      return kiln_elab_error(e, first->place, "'first': expected parts along the last axis and one other"),
             false;
    parts++;
  }
  return true;
}

// first = n, axis = a: only the first n elements along an axis of the tile; all of them is the same as
// nothing said.
static bool first_attributes(kiln_elab *e, const kiln_call *c, ir_type tile, ir_attrs *attrs) {
  const kiln_node *first = kiln_call_named(c, "first"), *along = kiln_call_named(c, "axis");
  int64_t count, axis;
  if (!first && !along) return true;
  if (first && !along && first->kind == KILN_NODE_LIST) return first_of_axes(e, first, tile, attrs);
  if (!first || !along)
    return kiln_elab_error(e, (first ? first : along)->place, "'first' and 'axis' go together"), false;
  if (!tile.rank) return kiln_elab_error(e, first->place, "'first': the view's tile has no axis"), false;
  if (!kiln_elab_integer(e, along, 0, tile.rank - 1, "axis", &axis)) return false;
  int64_t extent = (int64_t)1 << tile.log2[axis];
  if (!kiln_elab_integer(e, first, 1, extent, "first", &count)) return false;
  if (count == extent) return true;
  attrs->access.first = count;
  attrs->access.axis = (uint8_t)axis;
  return true;
}

// [view, indices...] of an access through a view; count in `out_count`.
static bool view_operands(kiln_elab *e, const kiln_call *c, ir_value *view, ir_value **operands,
                          uint32_t *out_count) {
  kiln_list list;
  if (c->count < 2)
    return kiln_elab_error(e, c->place, "'%s' on a view: expected indices in brackets, as in %s(V, [i, j]%s)",
                           c->operation->name, c->operation->name,
                           c->operation->code == IR_LOAD ? "" : ", x"),
           false;
  if (!kiln_call_list(e, c, 1, "indices", &list)) return false;
  if (list.count != view->type.rank)
    return kiln_elab_error(e, c->args[1]->place, "the view has rank %u, found %u indices", view->type.rank,
                           list.count),
           false;
  operands[0] = view;
  for (uint32_t i = 0; i < list.count; i++)
    if (!(operands[1 + i] = wide(e, list.items[i], "index of a view"))) return false;
  *out_count = 1 + list.count;
  return true;
}

static kiln_values view_load(kiln_elab *e, const kiln_call *c, ir_value *view, kiln_value *one) {
  ir_value *operands[IR_MAX_RANK + 2];
  uint32_t count;
  ir_attrs attrs = {0};
  if (kiln_call_named(c, "mask"))
    return kiln_call_one(
        kiln_elab_error(e, c->place, "a view has no mask: what is out of range reads 0, or 'other'"), one);
  if (!view_operands(e, c, view, operands, &count) || !access_attributes(e, c, &attrs) ||
      !first_attributes(e, c, ir_view_tile(view->type), &attrs))
    return fail(one);
  const kiln_node *other = kiln_call_arg(c, 2, "other");
  if (other) {
    attrs.access.has_other = true;
    operands[count] = kiln_elab_fit(e, other->place, kiln_elab_eval(e, other),
                                    ir_element(ir_view_tile(view->type)), "other");
    if (!operands[count++]) return fail(one);
  }
  return emit(e, c, IR_VIEW_LOAD, &attrs, operands, count, one);
}

static kiln_values view_write(kiln_elab *e, const kiln_call *c, ir_opcode code, ir_value *view,
                              ir_attrs *attrs, kiln_value *one) {
  ir_value *operands[IR_MAX_RANK + 2];
  uint32_t count;
  if (c->count != 3 || kiln_call_named(c, "mask"))
    return kiln_call_one(kiln_elab_error(e, c->place,
                                         "'%s' on a view: expected (V, [i, j], x) without a mask",
                                         c->operation->name),
                         one);
  if (!view_operands(e, c, view, operands, &count) ||
      !first_attributes(e, c, ir_view_tile(view->type), attrs))
    return fail(one);
  operands[count] = kiln_elab_fit(e, c->args[2]->place, kiln_elab_eval(e, c->args[2]),
                                  ir_view_tile(view->type), "value to store");
  if (!operands[count++]) return fail(one);
  return emit(e, c, code, attrs, operands, count, one);
}

kiln_values kiln_operation_view(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_value *operands[1 + 2 * IR_MAX_RANK];
  kiln_list extents, strides, tile;
  char text[IR_TYPE_TEXT];
  operands[0] = kiln_call_value(e, c, 0);
  if (!operands[0]) return fail(one);
  ir_type base = operands[0]->type, given;
  if (base.rank || base.is_view || base.pointer != 1)
    return kiln_call_one(kiln_elab_error(e, c->args[0]->place,
                                         "base of a view: expected a scalar pointer *T, found %s",
                                         ir_type_text(base, text)),
                         one);
  if (!kiln_call_list(e, c, 1, "extents", &extents) || !kiln_call_list(e, c, 2, "strides", &strides) ||
      !kiln_call_list(e, c, 3, "a tile", &tile))
    return fail(one);
  if (!extents.count || extents.count > IR_MAX_RANK || extents.count != strides.count ||
      extents.count != tile.count)
    return kiln_call_one(
        kiln_elab_error(
            e, c->place,
            "'view': expected as many extents, strides and tile extents (1 to %d), found %u, %u, %u",
            IR_MAX_RANK, extents.count, strides.count, tile.count),
        one);
  given = ir_pointee(base);
  given.is_view = 1;
  if (!kiln_elab_shape(e, c->args[3]->place, tile, true, &given)) return fail(one);
  for (uint32_t i = 0; i < 2 * extents.count; i++) {
    const kiln_node *n = i < extents.count ? extents.items[i] : strides.items[i - extents.count];
    if (!(operands[1 + i] = wide(e, n, i < extents.count ? "extent of a view" : "stride of a view")))
      return fail(one);
  }
  ir_op *op = ir_emit(&e->b, IR_VIEW, NULL, operands, 1 + 2 * extents.count, &given, NULL, 0);
  return kiln_call_one(kiln_elab_result(e, c->place, op ? &op->results[0] : NULL), one);
}

kiln_values kiln_operation_dim(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  int64_t axis;
  ir_value *v = kiln_call_value(e, c, 0);
  if (!v || !kiln_elab_integer(e, c->args[1], 0, IR_MAX_RANK - 1, "axis of a view", &axis)) return fail(one);
  ir_attrs attrs = {.axis = (uint8_t)axis};
  return emit(e, c, (ir_opcode)c->operation->code, &attrs, &v, 1, one);
}

kiln_values kiln_operation_view_base(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_value *v = kiln_call_value(e, c, 0);
  return v ? emit(e, c, IR_VIEW_BASE, NULL, &v, 1, one) : fail(one);
}

// ---------------------------------------------------------------------------------- load and store

// The error for what only views have; false when there is none.
static bool has_view_words(kiln_elab *e, const kiln_call *c) {
  const kiln_node *first = kiln_call_named(c, "first"), *axis = kiln_call_named(c, "axis");
  if (!first && !axis) return false;
  kiln_elab_error(e, (first ? first : axis)->place, "'%s' is for accesses of views: a pointer has a mask",
                  first ? "first" : "axis");
  return true;
}

kiln_values kiln_operation_load(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  ir_value *operands[3] = {address(e, c)};
  uint32_t count = 1;
  if (!operands[0]) return fail(one);
  if (operands[0]->type.is_view) return view_load(e, c, operands[0], one);
  if (has_view_words(e, c) || !mask_operand(e, c, 1, &operands[0], &operands[1]) ||
      !access_attributes(e, c, &attrs))
    return fail(one);
  count += operands[1] != NULL;
  const kiln_node *other = kiln_call_arg(c, 2, "other");
  if (other && !operands[1])
    return kiln_call_one(kiln_elab_error(e, other->place, "'other' of a load needs a mask"), one);
  if (other && !(operands[count++] = kiln_elab_fit(e, other->place, kiln_elab_eval(e, other),
                                                   ir_pointee(operands[0]->type), "other")))
    return fail(one);
  return emit(e, c, IR_LOAD, &attrs, operands, count, one);
}

// p, v [, mask] of a store or atomic through pointers.
static kiln_values pointer_write(kiln_elab *e, const kiln_call *c, ir_value *p, const ir_attrs *attrs,
                                 kiln_value *one) {
  if (has_view_words(e, c)) return fail(one);
  ir_value *operands[3] = {p};
  kiln_value v = kiln_elab_eval(e, c->args[1]);
  operands[1] = kiln_elab_fit(e, c->args[1]->place, v, ir_pointee(p->type),
                              c->operation->code == IR_STORE ? "value to store" : "value of the atomic");
  if (!operands[1] || !mask_operand(e, c, 2, &operands[0], &operands[2])) return fail(one);
  return emit(e, c, (ir_opcode)c->operation->code, attrs, operands, operands[2] ? 3 : 2, one);
}

kiln_values kiln_operation_store(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  ir_value *p = address(e, c);
  if (!p || !access_attributes(e, c, &attrs)) return fail(one);
  return p->type.is_view ? view_write(e, c, IR_VIEW_STORE, p, &attrs, one)
                         : pointer_write(e, c, p, &attrs, one);
}

kiln_values kiln_operation_atomic(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  ir_value *p = address(e, c);
  if (!p || !order_attributes(e, c, &attrs)) return fail(one);
  kiln_call_combine(c, &attrs.kind, &attrs.flags);
  ir_type element = p->type.is_view ? ir_element(ir_view_tile(p->type)) : ir_element(ir_pointee(p->type));
  if (!kiln_call_takes_unsigned(e, c, attrs.flags, element)) return fail(one);
  return p->type.is_view ? view_write(e, c, IR_VIEW_ATOMIC, p, &attrs, one)
                         : pointer_write(e, c, p, &attrs, one);
}

kiln_values kiln_operation_cas(kiln_elab *e, const kiln_call *c, kiln_value *one) {
  ir_attrs attrs = {0};
  ir_value *operands[3] = {address(e, c)};
  if (!operands[0] || !order_attributes(e, c, &attrs)) return fail(one);
  if (operands[0]->type.is_view)
    return kiln_call_one(kiln_elab_error(e, c->place, "'cas' takes pointers, not views"), one);
  for (uint32_t i = 1; i < 3; i++) {
    kiln_value v = kiln_elab_eval(e, c->args[i]);
    if (!(operands[i] =
              kiln_elab_fit(e, c->args[i]->place, v, ir_pointee(operands[0]->type), "value of 'cas'")))
      return fail(one);
  }
  return emit(e, c, IR_CAS, &attrs, operands, 3, one);
}
