// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typing of what touches memory (pointers, atomics, views) or has regions (loops, conditions, roles, combinations along
// an axis).
#include <string.h>

#include "compiler/ir/ir_infer.h"

// ---------------------------------------------------------------------------------------------------- memory

kiln_status ir_rule_ptradd(ir_typing *t) {
  KILN_TRY(ir_expect_shape(t, ir_operand_type(t, 0), ir_operand_type(t, 1)));
  if (!ir_is_index(ir_operand_type(t, 1))) return ir_refuse(t, "an i32 or i64 offset", ir_operand_type(t, 1));
  return ir_yield_type(t, ir_operand_type(t, 0));
}

static kiln_status check_mask(const ir_typing *t, uint32_t at) {
  if (at >= t->op->operand_count) return KILN_OK;
  return ir_expect_type(t, "mask", ir_with_element(ir_operand_type(t, 0), ir_scalar_type(KILN_I1)),
                        ir_operand_type(t, at));
}

kiln_status ir_rule_load(ir_typing *t) {
  ir_type value = ir_pointee(ir_operand_type(t, 0));
  KILN_TRY(check_mask(t, 1));
  if (t->op->operand_count > 2) KILN_TRY(ir_expect_type(t, "other", value, ir_operand_type(t, 2)));
  return ir_yield_type(t, value);
}

kiln_status ir_rule_store(ir_typing *t) {
  KILN_TRY(ir_expect_type(t, "value", ir_pointee(ir_operand_type(t, 0)), ir_operand_type(t, 1)));
  return check_mask(t, 2);
}

static kiln_status check_atomic(const ir_typing *t, ir_type value) {
  unsigned kind = t->op->attrs.kind;
  bool ok = kind < IR_COMBINE_COUNT && !value.pointer && ir_atomic_takes(kind, value.scalar);
  return ok ? KILN_OK
            : ir_refuse(
                  t,
                  "a type that this atomic takes (add and xchg: i32 i64 and floats from 16 bits on; min "
                  "max: i32 i64 f32 f64; others: i32 i64)",
                  value);
}

kiln_status ir_rule_atomic(ir_typing *t) {
  ir_type value = ir_pointee(ir_operand_type(t, 0));
  KILN_TRY(ir_expect_type(t, "value", value, ir_operand_type(t, 1)));
  KILN_TRY(check_mask(t, 2));
  KILN_TRY(check_atomic(t, value));
  return ir_yield_type(t, value);
}

kiln_status ir_rule_cas(ir_typing *t) {
  ir_type value = ir_pointee(ir_operand_type(t, 0));
  for (uint32_t i = 1; i < 3; i++) KILN_TRY(ir_expect_type(t, "value", value, ir_operand_type(t, i)));
  if (ir_type_bits(value) < 16) return ir_refuse(t, "a type of 16, 32 or 64 bits", value);
  return ir_yield_type(t, value);
}

static kiln_status check_scalars(const ir_typing *t, uint32_t from, uint32_t count, kiln_scalar scalar) {
  for (uint32_t i = from; i < from + count; i++)
    if (!ir_is_scalar(ir_operand_type(t, i), scalar))
      return ir_wrong(t, "extent, stride or index", ir_scalar_type(scalar), ir_operand_type(t, i));
  return KILN_OK;
}

kiln_status ir_rule_view(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  ir_type view = *t->given, base = ir_operand_type(t, 0);
  if (!view.is_view || !view.rank || view.rank > IR_MAX_RANK)
    return ir_refuse(t, "a view as result type", view);
  if (base.rank || base.pointer != 1 || base.scalar != view.scalar)
    return ir_refuse(t, "a scalar pointer to the view's element", base);
  if (t->op->operand_count != 1u + 2u * view.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "view: expected %u extents and %u strides, found %u values",
                     view.rank, view.rank, t->op->operand_count - 1);
  KILN_TRY(check_scalars(t, 1, 2u * view.rank, KILN_I64));
  return ir_yield_type(t, view);
}

static kiln_status check_count(const ir_typing *t, ir_type tile, unsigned axis, int64_t count) {
  int64_t extent = (int64_t)1 << tile.log2[axis];
  if (count > 0 && count < extent) return KILN_OK;
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected 'first' between 1 and %lld, found %lld",
                   ir_name_of(t), (long long)extent - 1, (long long)count);
}

static kiln_status check_first(const ir_typing *t, ir_type tile) {
  const ir_view_access *a = &t->op->attrs.access;
  if (!a->first && !a->across) return KILN_OK;
  if (a->axis >= tile.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", ir_name_of(t),
                     tile.rank, a->axis);
  KILN_TRY(check_count(t, tile, a->axis, a->first));
  if (!a->across) return KILN_OK;
  if (a->axis + 1u == tile.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected 'first' along two axes, found %u twice",
                     ir_name_of(t), a->axis);
  return check_count(t, tile, tile.rank - 1u, a->across);
}

/// view, one index per axis, then what a load gives past the end of the view, if it has that, or what is stored.
kiln_status ir_rule_viewaccess(ir_typing *t) {
  const bool loads = t->op->code == IR_VIEW_LOAD;
  const uint32_t extra = loads ? t->op->attrs.access.has_other : 1;
  ir_type view = ir_operand_type(t, 0);
  if (!view.is_view) return ir_refuse(t, "a view", view);
  if (t->op->operand_count != 1u + view.rank + extra)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %u indices, found %d", ir_name_of(t),
                     view.rank, (int)t->op->operand_count - 1 - (int)extra);
  const ir_type tile = ir_view_tile(view), last = ir_operand_type(t, t->op->operand_count - 1);
  KILN_TRY(check_first(t, tile));
  KILN_TRY(check_scalars(t, 1, view.rank, KILN_I64));
  if (!loads) KILN_TRY(ir_expect_type(t, "value", tile, last));
  else if (extra) KILN_TRY(ir_expect_type(t, "other", ir_element(tile), last));
  if (t->op->code == IR_VIEW_ATOMIC) KILN_TRY(check_atomic(t, tile));
  return loads ? ir_yield_type(t, tile) : KILN_OK;
}

kiln_status ir_rule_base(ir_typing *t) {
  ir_type view = ir_operand_type(t, 0);
  return view.is_view ? ir_yield_type(t, ir_pointer_type(view.scalar)) : ir_refuse(t, "a view", view);
}

// --------------------------------------------------------------------------------------------------- regions

/// Checks that `block` takes `want` (count types) and ends in `code` passing `out` types after `skip`
/// operands.
static kiln_status check_region(const ir_typing *t, const ir_block *block, const ir_type *want,
                                uint32_t want_count, ir_opcode code, uint32_t skip, const ir_type *out,
                                uint32_t out_count) {
  if (block->arg_count != want_count)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected a region of %u arguments, found %u",
                     ir_name_of(t), want_count, block->arg_count);
  for (uint32_t i = 0; i < want_count; i++)
    KILN_TRY(ir_expect_type(t, "region argument", want[i], block->args[i]->type));
  const ir_op *end = ir_terminator(block);
  if (!end || end->code != code)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: a region must end in %s", ir_name_of(t),
                     ir_ops[code].text);
  if (!out) return KILN_OK;
  if (end->operand_count != out_count + skip)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %u values at the end of a region, found %u",
                     ir_name_of(t), out_count, end->operand_count - skip);
  for (uint32_t i = 0; i < out_count; i++)
    KILN_TRY(ir_expect_type(t, "value at the end of a region", out[i], end->operands[skip + i]->type));
  return KILN_OK;
}

static kiln_status check_combiner(ir_typing *t) {
  uint32_t n = t->op->operand_count;
  const ir_attrs *a = &t->op->attrs;
  for (uint32_t i = 1; i < n; i++) KILN_TRY(ir_expect_shape(t, ir_operand_type(t, 0), ir_operand_type(t, i)));
  if (a->axis >= ir_operand_type(t, 0).rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", ir_name_of(t),
                     ir_operand_type(t, 0).rank, a->axis);
  if (n > IR_MAX_RESULTS / 2)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "%s: expected at most %d operands, found %u", ir_name_of(t),
                     IR_MAX_RESULTS / 2, n);
  if (a->kind == IR_COMBINE_REGION) {
    ir_type elements[IR_MAX_RESULTS];
    for (uint32_t i = 0; i < n; i++) elements[i] = elements[n + i] = ir_element(ir_operand_type(t, i));
    KILN_TRY(ir_check_regions(t, 1));
    return check_region(t, t->op->regions[0], elements, 2 * n, IR_YIELD, 0, elements, n);
  }
  KILN_TRY(ir_check_regions(t, 0));
  if (n != 1)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: a named combination takes 1 operand, found %u",
                     ir_name_of(t), n);
  if (a->kind >= IR_COMBINE_COUNT || !(ir_combines[a->kind].classes & ir_type_class(ir_operand_type(t, 0))))
    return ir_refuse(t, "an element type that the combination takes", ir_operand_type(t, 0));
  return KILN_OK;
}

kiln_status ir_rule_reduce(ir_typing *t) {
  KILN_TRY(check_combiner(t));
  unsigned axis = t->op->attrs.axis;
  for (uint32_t i = 0; i < t->op->operand_count; i++) {
    ir_type to = ir_operand_type(t, i);
    memmove(to.log2 + axis, to.log2 + axis + 1, to.rank - axis - 1u);
    to.log2[--to.rank] = 0;
    KILN_TRY(ir_yield_type(t, to));
  }
  return KILN_OK;
}

kiln_status ir_rule_scan(ir_typing *t) {
  KILN_TRY(check_combiner(t));
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(ir_yield_type(t, ir_operand_type(t, i)));
  return KILN_OK;
}

kiln_status ir_rule_for(ir_typing *t) {
  uint32_t n = ir_carried_count(t->op);
  ir_type want[IR_MAX_RESULTS + 1], iv = ir_operand_type(t, 0);
  if (iv.rank || !ir_is_index(iv)) return ir_refuse(t, "scalar bounds of i32 or i64", iv);
  for (uint32_t i = 1; i < IR_FOR_BOUNDS; i++)
    KILN_TRY(ir_expect_type(t, "bounds", iv, ir_operand_type(t, i)));
  want[0] = iv;
  for (uint32_t i = 0; i < n; i++) {
    want[1 + i] = ir_loop_initials(t->op)[i]->type;
    KILN_TRY(ir_yield_type(t, want[1 + i]));
  }
  KILN_TRY(ir_check_regions(t, 1));
  return check_region(t, t->op->regions[0], want, n + 1, IR_YIELD, 0, want + 1, n);
}

kiln_status ir_rule_while(ir_typing *t) {
  uint32_t n = t->op->operand_count, passed_count;
  ir_type carried[IR_MAX_RESULTS];
  if (n > IR_MAX_RESULTS)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "while: expected at most %d values, found %u", IR_MAX_RESULTS,
                     n);
  for (uint32_t i = 0; i < n; i++) carried[i] = ir_operand_type(t, i);
  KILN_TRY(ir_check_regions(t, 2));
  KILN_TRY(check_region(t, t->op->regions[0], carried, n, IR_COND, 1, NULL, 0));
  const ir_op *test = ir_while_test(t->op);
  passed_count = ir_cond_passed_count(test);
  for (uint32_t i = 0; i < passed_count; i++) KILN_TRY(ir_yield_type(t, ir_cond_passed(test)[i]->type));
  return check_region(t, t->op->regions[1], t->types, passed_count, IR_YIELD, 0, carried, n);
}

kiln_status ir_rule_if(ir_typing *t) {
  if (!ir_is_scalar(ir_operand_type(t, 0), KILN_I1))
    return ir_refuse(t, "a scalar i1 condition", ir_operand_type(t, 0));
  KILN_TRY(ir_check_regions(t, 2));
  KILN_TRY(check_region(t, t->op->regions[0], NULL, 0, IR_YIELD, 0, NULL, 0));
  const ir_op *end = ir_if_end(t->op, 0);
  for (uint32_t i = 0; i < end->operand_count; i++) KILN_TRY(ir_yield_type(t, end->operands[i]->type));
  return check_region(t, t->op->regions[1], NULL, 0, IR_YIELD, 0, t->types, t->count);
}

kiln_status ir_rule_roles(ir_typing *t) {
  KILN_TRY(ir_check_regions(t, 2));
  for (uint32_t i = 0; i < 2; i++)
    KILN_TRY(check_region(t, t->op->regions[i], NULL, 0, IR_YIELD, 0, t->types, 0));
  return KILN_OK;
}
