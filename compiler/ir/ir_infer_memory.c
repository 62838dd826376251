// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typing of memory: pointers, atomics, views.
#include "compiler/ir/ir_infer.h"

kiln_status ir_rule_ptradd(ir_typing *t) {
  KILN_TRY(expect_shape(t, operand(t, 0), operand(t, 1)));
  if (!is_index(operand(t, 1))) return refuse(t, "an i32 or i64 offset", operand(t, 1));
  return yield_type(t, operand(t, 0));
}

static kiln_status check_mask(const ir_typing *t, uint32_t at) {
  if (at >= t->op->operand_count) return KILN_OK;
  return expect_type(t, "mask", ir_with_element(operand(t, 0), ir_scalar_type(KILN_I1)), operand(t, at));
}

kiln_status ir_rule_load(ir_typing *t) {
  ir_type value = ir_pointee(operand(t, 0));
  KILN_TRY(check_mask(t, 1));
  if (t->op->operand_count > 2) KILN_TRY(expect_type(t, "other", value, operand(t, 2)));
  return yield_type(t, value);
}

kiln_status ir_rule_store(ir_typing *t) {
  KILN_TRY(expect_type(t, "value", ir_pointee(operand(t, 0)), operand(t, 1)));
  return check_mask(t, 2);
}

static kiln_status check_atomic(const ir_typing *t, ir_type value) {
  unsigned kind = t->op->attrs.kind;
  bool ok = kind < IR_COMBINE_COUNT && !value.pointer && ir_atomic_takes(kind, value.scalar);
  return ok ? KILN_OK
            : refuse(t,
                     "a type that this atomic takes (add and xchg: i32 i64 and floats from 16 bits on; min "
                     "max: i32 i64 f32 f64; others: i32 i64)",
                     value);
}

kiln_status ir_rule_atomic(ir_typing *t) {
  ir_type value = ir_pointee(operand(t, 0));
  KILN_TRY(expect_type(t, "value", value, operand(t, 1)));
  KILN_TRY(check_mask(t, 2));
  KILN_TRY(check_atomic(t, value));
  return yield_type(t, value);
}

kiln_status ir_rule_cas(ir_typing *t) {
  ir_type value = ir_pointee(operand(t, 0));
  for (uint32_t i = 1; i < 3; i++) KILN_TRY(expect_type(t, "value", value, operand(t, i)));
  if (ir_type_bits(value) < 16) return refuse(t, "a type of 16, 32 or 64 bits", value);
  return yield_type(t, value);
}

static kiln_status check_scalars(const ir_typing *t, uint32_t from, uint32_t count, kiln_scalar scalar) {
  for (uint32_t i = from; i < from + count; i++)
    if (!is_scalar(operand(t, i), scalar))
      return wrong(t, "extent, stride or index", ir_scalar_type(scalar), operand(t, i));
  return KILN_OK;
}

kiln_status ir_rule_view(ir_typing *t) {
  KILN_TRY(need_given(t));
  ir_type view = *t->given, base = operand(t, 0);
  if (!view.is_view || !view.rank || view.rank > IR_MAX_RANK) return refuse(t, "a view as result type", view);
  if (base.rank || base.pointer != 1 || base.scalar != view.scalar)
    return refuse(t, "a scalar pointer to the view's element", base);
  if (t->op->operand_count != 1u + 2u * view.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "view: expected %u extents and %u strides, found %u values",
                     view.rank, view.rank, t->op->operand_count - 1);
  KILN_TRY(check_scalars(t, 1, 2u * view.rank, KILN_I64));
  return yield_type(t, view);
}

static kiln_status check_count(const ir_typing *t, ir_type tile, unsigned axis, int64_t count) {
  int64_t extent = (int64_t)1 << tile.log2[axis];
  if (count > 0 && count < extent) return KILN_OK;
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected 'first' between 1 and %lld, found %lld", name(t),
                   (long long)extent - 1, (long long)count);
}

static kiln_status check_first(const ir_typing *t, ir_type tile) {
  const ir_view_access *a = &t->op->attrs.access;
  if (!a->first && !a->across) return KILN_OK;
  if (a->axis >= tile.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", name(t),
                     tile.rank, a->axis);
  KILN_TRY(check_count(t, tile, a->axis, a->first));
  if (!a->across) return KILN_OK;
  if (a->axis + 1u == tile.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected 'first' along two axes, found %u twice",
                     name(t), a->axis);
  return check_count(t, tile, tile.rank - 1u, a->across);
}

static kiln_status check_view_access(const ir_typing *t, uint32_t extra) {
  ir_type view = operand(t, 0);
  if (!view.is_view) return refuse(t, "a view", view);
  if (t->op->operand_count != 1u + view.rank + extra)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %u indices, found %d", name(t), view.rank,
                     (int)t->op->operand_count - 1 - (int)extra);
  KILN_TRY(check_first(t, ir_view_tile(view)));
  return check_scalars(t, 1, view.rank, KILN_I64);
}

kiln_status ir_rule_viewload(ir_typing *t) {
  uint32_t extra = t->op->attrs.access.has_other;
  KILN_TRY(check_view_access(t, extra));
  ir_type tile = ir_view_tile(operand(t, 0));
  if (extra) KILN_TRY(expect_type(t, "other", ir_element(tile), operand(t, t->op->operand_count - 1)));
  return yield_type(t, tile);
}

kiln_status ir_rule_viewstore(ir_typing *t) {
  KILN_TRY(check_view_access(t, 1));
  ir_type tile = ir_view_tile(operand(t, 0));
  KILN_TRY(expect_type(t, "value", tile, operand(t, t->op->operand_count - 1)));
  return t->op->code == IR_VIEW_ATOMIC ? check_atomic(t, tile) : KILN_OK;
}

kiln_status ir_rule_base(ir_typing *t) {
  ir_type view = operand(t, 0);
  return view.is_view ? yield_type(t, ir_pointer_type(view.scalar)) : refuse(t, "a view", view);
}
