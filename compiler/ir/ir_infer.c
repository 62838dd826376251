// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The typing rules, one function a rule of ops.def. Builder and verifier both come here; there is no other
// place that checks types. Here are the rules of values; ir_infer_memory.c has those of memory,
// ir_infer_region.c of what has regions, ir_infer_machine.c of what passes for GPUs make.
#include <stdio.h>
#include <string.h>

#include "compiler/ir/ir_infer.h"

static kiln_status all_equal(const ir_typing *t, uint32_t from) {
  for (uint32_t i = from + 1; i < t->op->operand_count; i++)
    if (!ir_type_equal(operand(t, from), operand(t, i)))
      return wrong(t, "operands differ", operand(t, from), operand(t, i));
  return KILN_OK;
}

static kiln_status rule_none(ir_typing *t) {
  if (t->op->code == IR_COND && !is_scalar(operand(t, 0), KILN_I1))
    return refuse(t, "a scalar i1 condition", operand(t, 0));
  return KILN_OK;
}

static kiln_status rule_i32scalar(ir_typing *t) {
  if (t->op->attrs.axis > 2)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis of 0, 1 or 2, found %u", name(t),
                     t->op->attrs.axis);
  return yield_type(t, ir_scalar_type(KILN_I32));
}

static kiln_status rule_i64scalar(ir_typing *t) {
  ir_type view = operand(t, 0);
  if (!view.is_view) return refuse(t, "a view", view);
  if (t->op->attrs.axis >= view.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", name(t),
                     view.rank, t->op->attrs.axis);
  return yield_type(t, ir_scalar_type(KILN_I64));
}

static kiln_status rule_given(ir_typing *t) {
  KILN_TRY(need_given(t));
  if (t->op->code == IR_CONST && (t->given->rank || t->given->pointer || t->given->is_view))
    return refuse(t, "a scalar type", *t->given);
  return yield_type(t, *t->given);
}

static kiln_status rule_iota(ir_typing *t) {
  KILN_TRY(need_given(t));
  if (t->given->rank != 1 || t->given->scalar != KILN_I32 || t->given->pointer || t->given->is_view)
    return refuse(t, "a result type i32[n]", *t->given);
  return yield_type(t, *t->given);
}

static kiln_status rule_splat(ir_typing *t) {
  KILN_TRY(need_given(t));
  if (operand(t, 0).rank || operand(t, 0).is_view) return refuse(t, "a scalar", operand(t, 0));
  if (!t->given->rank) return refuse(t, "a tile as result type", *t->given);
  KILN_TRY(expect_type(t, "element", operand(t, 0), ir_element(*t->given)));
  return yield_type(t, *t->given);
}

static kiln_status rule_same(ir_typing *t) {
  KILN_TRY(all_equal(t, 0));
  if (t->op->code == IR_MULHI && ir_type_bits(operand(t, 0)) < 32)
    return refuse(t, "i32 or i64", operand(t, 0));
  return yield_type(t, operand(t, 0));
}

static kiln_status rule_bool(ir_typing *t) {
  KILN_TRY(all_equal(t, 0));
  if (t->op->attrs.kind > IR_GE)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "cmp: unknown predicate %u", t->op->attrs.kind);
  return yield_type(t, ir_with_element(operand(t, 0), ir_scalar_type(KILN_I1)));
}

static kiln_status rule_select(ir_typing *t) {
  if (operand(t, 0).rank) KILN_TRY(expect_shape(t, operand(t, 0), operand(t, 1)));
  KILN_TRY(all_equal(t, 1));
  return yield_type(t, operand(t, 1));
}

static kiln_status rule_cast(ir_typing *t) {
  KILN_TRY(need_given(t));
  if (t->given->pointer || t->given->is_view) return refuse(t, "an element type as result", *t->given);
  KILN_TRY(expect_shape(t, operand(t, 0), *t->given));
  return yield_type(t, *t->given);
}

static kiln_status rule_bitcast(ir_typing *t) {
  KILN_TRY(need_given(t));
  KILN_TRY(expect_shape(t, operand(t, 0), *t->given));
  if (ir_type_bits(operand(t, 0)) != ir_type_bits(*t->given))
    return wrong(t, "widths differ", operand(t, 0), *t->given);
  ir_type from = operand(t, 0), to = *t->given;
  bool is_address = from.pointer || to.pointer;
  if (is_address && !((from.pointer || from.scalar == KILN_I64) && (to.pointer || to.scalar == KILN_I64)))
    return wrong(t, "a pointer becomes i64 or another pointer", from, to);
  return yield_type(t, *t->given);
}

static kiln_status rule_expand(ir_typing *t) {
  ir_type from = operand(t, 0), to = from;
  unsigned axis = t->op->attrs.axis;
  if (axis > from.rank || from.rank >= IR_MAX_RANK)
    return kiln_fail(t->err, KILN_STATUS_SOURCE,
                     "expand: expected an axis of at most %u and a rank below %d, found axis %u", from.rank,
                     IR_MAX_RANK, axis);
  to.rank++;
  memmove(to.log2 + axis + 1, from.log2 + axis, from.rank - axis);
  to.log2[axis] = 0;
  return yield_type(t, to);
}

static kiln_status rule_broadcast(ir_typing *t) {
  KILN_TRY(need_given(t));
  ir_type from = operand(t, 0), to = *t->given;
  if (from.rank != to.rank) return wrong(t, "ranks differ", from, to);
  for (unsigned i = 0; i < from.rank; i++)
    if (from.log2[i] && from.log2[i] != to.log2[i]) return wrong(t, "extents neither equal nor 1", from, to);
  KILN_TRY(expect_type(t, "element", ir_element(from), ir_element(to)));
  return yield_type(t, to);
}

static kiln_status rule_reshape(ir_typing *t) {
  KILN_TRY(need_given(t));
  KILN_TRY(expect_type(t, "element", ir_element(operand(t, 0)), ir_element(*t->given)));
  if (ir_log2_elements(operand(t, 0)) != ir_log2_elements(*t->given))
    return wrong(t, "numbers of elements differ", operand(t, 0), *t->given);
  return yield_type(t, *t->given);
}

static kiln_status rule_trans(ir_typing *t) {
  ir_type from = operand(t, 0), to = from;
  unsigned seen = 0;
  for (unsigned i = 0; i < from.rank; i++) {
    unsigned axis = t->op->attrs.perm[i];
    if (axis >= from.rank || seen & 1u << axis)
      return kiln_fail(t->err, KILN_STATUS_SOURCE,
                       "trans: expected a permutation of %u axes, found axis %u at %u", from.rank, axis, i);
    seen |= 1u << axis;
    to.log2[i] = from.log2[axis];
  }
  return yield_type(t, to);
}

static kiln_status rule_join(ir_typing *t) {
  ir_type to = operand(t, 0);
  KILN_TRY(all_equal(t, 0));
  if (to.rank >= IR_MAX_RANK) return refuse(t, "a rank below 12", to);
  to.log2[to.rank++] = 1;
  return yield_type(t, to);
}

static kiln_status rule_split(ir_typing *t) {
  ir_type to = operand(t, 0);
  if (!to.rank || to.log2[to.rank - 1] != 1) return refuse(t, "a tile whose last extent is 2", to);
  to.log2[--to.rank] = 0;
  KILN_TRY(yield_type(t, to));
  return yield_type(t, to);
}

static kiln_status rule_dot(ir_typing *t) {
  ir_type a = operand(t, 0), b = operand(t, 1), c = operand(t, 2);
  unsigned r = a.rank;
  if ((r != 2 && r != 3) || b.rank != r || c.rank != r)
    return refuse(t, "three tiles of rank 2, or three of rank 3", a);
  if (ir_type_class(a) == KILN_CLASS_INT && a.scalar != KILN_I8) return refuse(t, "i8 or a float type", a);
  bool fp8 = ir_type_class(a) == KILN_CLASS_FP8 && ir_type_class(b) == KILN_CLASS_FP8;
  if (a.scalar != b.scalar && !fp8) return wrong(t, "element types differ", ir_element(a), ir_element(b));
  ir_type right = a, sum = c;
  right.scalar = b.scalar;
  right.log2[r - 2] = a.log2[r - 1];
  right.log2[r - 1] = b.log2[r - 1];
  memcpy(sum.log2, a.log2, r);
  sum.log2[r - 1] = b.log2[r - 1];
  if (!ir_same_shape(right, b)) return wrong(t, "second operand (M x K times K x N)", right, b);
  if (!ir_same_shape(sum, c)) return wrong(t, "accumulator (M x N)", sum, c);
  const kiln_scalar accumulator = a.scalar == KILN_I8 ? KILN_I32 : a.scalar == KILN_F64 ? KILN_F64 : KILN_F32;
  KILN_TRY(expect_type(t, "accumulator element", ir_scalar_type(accumulator), ir_element(c)));
  return yield_type(t, c);
}

static kiln_status rule_sort(ir_typing *t) {
  KILN_TRY(need_given(t));
  ir_type from = operand(t, 0), to = *t->given;
  if (!from.rank) return refuse(t, "a tile", from);
  ir_type whole = to;
  if (to.rank == from.rank) whole.log2[to.rank - 1] = from.log2[to.rank - 1];
  if (!ir_type_equal(from, whole) || to.log2[to.rank - 1] > from.log2[to.rank - 1])
    return wrong(t, "the result must be the operand or the first elements of its rows", from, to);
  return yield_type(t, to);
}

static kiln_status rule_gather(ir_typing *t) {
  ir_type from = operand(t, 0), index = operand(t, 1), across = index;
  unsigned axis = t->op->attrs.axis;
  if (index.pointer || index.is_view || index.slots || index.scalar != KILN_I32)
    return refuse(t, "an index of i32", index);
  if (axis >= from.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", name(t),
                     from.rank, axis);
  across.log2[axis] = from.log2[axis];
  if (!ir_same_shape(from, across)) return wrong(t, "extents differ apart from the axis", from, index);
  return yield_type(t, ir_with_element(index, from));
}

typedef kiln_status rule_function(ir_typing *t);
static rule_function *const rules[] = {
    [IR_RULE_NONE] = rule_none,
    [IR_RULE_I32SCALAR] = rule_i32scalar,
    [IR_RULE_I64SCALAR] = rule_i64scalar,
    [IR_RULE_GIVEN] = rule_given,
    [IR_RULE_IOTA] = rule_iota,
    [IR_RULE_SPLAT] = rule_splat,
    [IR_RULE_SAME] = rule_same,
    [IR_RULE_BOOL] = rule_bool,
    [IR_RULE_SELECT] = rule_select,
    [IR_RULE_CAST] = rule_cast,
    [IR_RULE_BITCAST] = rule_bitcast,
    [IR_RULE_EXPAND] = rule_expand,
    [IR_RULE_BROADCAST] = rule_broadcast,
    [IR_RULE_RESHAPE] = rule_reshape,
    [IR_RULE_TRANS] = rule_trans,
    [IR_RULE_JOIN] = rule_join,
    [IR_RULE_SPLIT] = rule_split,
    [IR_RULE_REDUCE] = ir_rule_reduce,
    [IR_RULE_SCAN] = ir_rule_scan,
    [IR_RULE_PTRADD] = ir_rule_ptradd,
    [IR_RULE_LOAD] = ir_rule_load,
    [IR_RULE_STORE] = ir_rule_store,
    [IR_RULE_ATOMIC] = ir_rule_atomic,
    [IR_RULE_CAS] = ir_rule_cas,
    [IR_RULE_VIEW] = ir_rule_view,
    [IR_RULE_BASE] = ir_rule_base,
    [IR_RULE_VIEWLOAD] = ir_rule_viewload,
    [IR_RULE_VIEWSTORE] = ir_rule_viewstore,
    [IR_RULE_DOT] = rule_dot,
    [IR_RULE_FOR] = ir_rule_for,
    [IR_RULE_WHILE] = ir_rule_while,
    [IR_RULE_IF] = ir_rule_if,
    [IR_RULE_COPY] = ir_rule_copy,
    [IR_RULE_FETCH] = ir_rule_fetch,
    [IR_RULE_SLOT] = ir_rule_slot,
    [IR_RULE_MEMORY] = ir_rule_memory,
    [IR_RULE_PUT] = ir_rule_put,
    [IR_RULE_BARRIER] = ir_rule_barrier,
    [IR_RULE_MMA] = ir_rule_mma,
    [IR_RULE_WAIT] = ir_rule_wait,
    [IR_RULE_CLUSTER] = ir_rule_cluster,
    [IR_RULE_ROLES] = ir_rule_roles,
    [IR_RULE_SORT] = rule_sort,
    [IR_RULE_GATHER] = rule_gather,
};

static kiln_status check_limits(const ir_typing *t) {
  for (uint32_t i = 0; i < t->count; i++) {
    ir_type type = t->types[i];
    if (type.rank > IR_MAX_RANK) return refuse(t, "a rank of at most 12", type);
    if (ir_log2_elements(type) > IR_MAX_LOG2_ELEMENTS)
      return refuse(t, "a tile of at most 1048576 elements", type);
  }
  return KILN_OK;
}

static kiln_status refuse_class(const ir_typing *t, unsigned classes) {
  static const char *const names[] = {"i1", "integers", "floats", "fp8",
                                      "pointers"}; // in order of KILN_CLASS_
  char text[64];
  size_t length = 0;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    if (!(classes >> i & 1)) continue;
    const char *between = !length ? "" : classes >> (i + 1) ? ", " : " or ";
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", between, names[i]);
  }
  return refuse(t, text, operand(t, 0));
}

kiln_status ir_infer(const ir_op *op, const ir_type *given, ir_type *out_types, uint32_t *out_count,
                     kiln_error *err) {
  ir_typing t = {op, given, out_types, 0, err};
  *out_count = 0;
  if ((unsigned)op->code >= IR_OPCODE_COUNT)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "operation %d does not exist", (int)op->code);
  const ir_op_info *info = &ir_ops[op->code];
  if (op->operand_count < (uint32_t)info->least ||
      (info->most >= 0 && op->operand_count > (uint32_t)info->most))
    return kiln_fail(err, KILN_STATUS_SOURCE, "%s: expected %d%s operands, found %u", info->text, info->least,
                     info->most == info->least ? "" : " or more", op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (!op->operands[i])
      return kiln_fail(err, KILN_STATUS_INTERNAL, "%s: operand %u is missing", info->text, i);
  if (info->classes && op->operand_count && !(info->classes & ir_type_class(operand(&t, 0))))
    return refuse_class(&t, info->classes);
  if (info->classes && op->operand_count && (operand(&t, 0).is_view || operand(&t, 0).slots))
    return refuse(&t, "a tile or a scalar", operand(&t, 0));
  bool takes_regions = info->rule == IR_RULE_REDUCE || info->rule == IR_RULE_SCAN ||
                       info->rule == IR_RULE_FOR || info->rule == IR_RULE_WHILE || info->rule == IR_RULE_IF ||
                       info->rule == IR_RULE_ROLES; // their rules count the regions themselves
  if (!takes_regions) KILN_TRY(ir_check_regions(&t, 0));
  KILN_TRY(rules[info->rule](&t));
  KILN_TRY(check_limits(&t));
  *out_count = t.count;
  return KILN_OK;
}
