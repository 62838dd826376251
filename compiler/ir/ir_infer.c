// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The typing rules, one function a rule of ops.def. Builder and verifier both come here; there is no other
// place that checks types.
#include "compiler/ir/ir.h"

#include <stdio.h>
#include <string.h>

/// One operation being typed. Rules write results to `types` and return a status.
typedef struct typing {
  const ir_op *op;
  const ir_type *given; // borrowed; NULL when the caller named none
  ir_type *types;       // room for IR_MAX_RESULTS
  uint32_t count;
  kiln_error *err;
} typing;

static ir_type operand(const typing *t, uint32_t i) { return t->op->operands[i]->type; }
static const char *name(const typing *t) { return ir_ops[t->op->code].text; }

static kiln_status wrong(const typing *t, const char *what, ir_type want, ir_type got) {
  char a[IR_TYPE_TEXT], b[IR_TYPE_TEXT];
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: %s: expected %s, found %s", name(t), what,
                   ir_type_text(want, a), ir_type_text(got, b));
}

static kiln_status refuse(const typing *t, const char *expected, ir_type got) {
  char b[IR_TYPE_TEXT];
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %s, found %s", name(t), expected,
                   ir_type_text(got, b));
}

static kiln_status yield_type(typing *t, ir_type type) {
  if (t->count >= IR_MAX_RESULTS)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "%s: expected at most %d results, found more", name(t),
                     IR_MAX_RESULTS);
  t->types[t->count++] = type;
  return KILN_OK;
}

static kiln_status all_equal(const typing *t, uint32_t from) {
  for (uint32_t i = from + 1; i < t->op->operand_count; i++)
    if (!ir_type_equal(operand(t, from), operand(t, i)))
      return wrong(t, "operands differ", operand(t, from), operand(t, i));
  return KILN_OK;
}

static kiln_status expect_type(const typing *t, const char *what, ir_type want, ir_type got) {
  return ir_type_equal(want, got) ? KILN_OK : wrong(t, what, want, got);
}

static kiln_status expect_shape(const typing *t, ir_type a, ir_type b) {
  return ir_same_shape(a, b) ? KILN_OK : wrong(t, "shapes differ", a, b);
}

static kiln_status need_given(const typing *t) {
  return t->given ? KILN_OK
                  : kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: the result type must be named", name(t));
}

static bool is_scalar(ir_type type, kiln_scalar scalar) {
  return !type.rank && !type.pointer && !type.is_view && !type.slots && type.scalar == scalar;
}

static bool is_index(ir_type type) {
  return !type.pointer && !type.is_view && (type.scalar == KILN_I32 || type.scalar == KILN_I64);
}

static kiln_status rule_none(typing *t) {
  if (t->op->code == IR_COND && !is_scalar(operand(t, 0), KILN_I1))
    return refuse(t, "a scalar i1 condition", operand(t, 0));
  return KILN_OK;
}

static kiln_status rule_i32scalar(typing *t) {
  if (t->op->attrs.axis > 2)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis of 0, 1 or 2, found %u", name(t),
                     t->op->attrs.axis);
  return yield_type(t, ir_scalar_type(KILN_I32));
}

static kiln_status rule_i64scalar(typing *t) {
  ir_type view = operand(t, 0);
  if (!view.is_view) return refuse(t, "a view", view);
  if (t->op->attrs.axis >= view.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", name(t),
                     view.rank, t->op->attrs.axis);
  return yield_type(t, ir_scalar_type(KILN_I64));
}

static kiln_status rule_base(typing *t) {
  ir_type view = operand(t, 0);
  return view.is_view ? yield_type(t, ir_pointer_type(view.scalar)) : refuse(t, "a view", view);
}

static kiln_status rule_given(typing *t) {
  KILN_TRY(need_given(t));
  if (t->op->code == IR_CONST && (t->given->rank || t->given->pointer || t->given->is_view))
    return refuse(t, "a scalar type", *t->given);
  return yield_type(t, *t->given);
}

static kiln_status rule_iota(typing *t) {
  KILN_TRY(need_given(t));
  if (t->given->rank != 1 || t->given->scalar != KILN_I32 || t->given->pointer || t->given->is_view)
    return refuse(t, "a result type i32[n]", *t->given);
  return yield_type(t, *t->given);
}

static kiln_status rule_splat(typing *t) {
  KILN_TRY(need_given(t));
  if (operand(t, 0).rank || operand(t, 0).is_view) return refuse(t, "a scalar", operand(t, 0));
  if (!t->given->rank) return refuse(t, "a tile as result type", *t->given);
  KILN_TRY(expect_type(t, "element", operand(t, 0), ir_element(*t->given)));
  return yield_type(t, *t->given);
}

static kiln_status rule_same(typing *t) {
  KILN_TRY(all_equal(t, 0));
  if (t->op->code == IR_MULHI && ir_type_bits(operand(t, 0)) < 32)
    return refuse(t, "i32 or i64", operand(t, 0));
  return yield_type(t, operand(t, 0));
}

static kiln_status rule_bool(typing *t) {
  KILN_TRY(all_equal(t, 0));
  if (t->op->attrs.kind > IR_GE)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "cmp: unknown predicate %u", t->op->attrs.kind);
  return yield_type(t, ir_with_element(operand(t, 0), ir_scalar_type(KILN_I1)));
}

static kiln_status rule_select(typing *t) {
  if (operand(t, 0).rank) KILN_TRY(expect_shape(t, operand(t, 0), operand(t, 1)));
  KILN_TRY(all_equal(t, 1));
  return yield_type(t, operand(t, 1));
}

static kiln_status rule_cast(typing *t) {
  KILN_TRY(need_given(t));
  if (t->given->pointer || t->given->is_view) return refuse(t, "an element type as result", *t->given);
  KILN_TRY(expect_shape(t, operand(t, 0), *t->given));
  return yield_type(t, *t->given);
}

static kiln_status rule_bitcast(typing *t) {
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

static kiln_status rule_expand(typing *t) {
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

static kiln_status rule_broadcast(typing *t) {
  KILN_TRY(need_given(t));
  ir_type from = operand(t, 0), to = *t->given;
  if (from.rank != to.rank) return wrong(t, "ranks differ", from, to);
  for (unsigned i = 0; i < from.rank; i++)
    if (from.log2[i] && from.log2[i] != to.log2[i]) return wrong(t, "extents neither equal nor 1", from, to);
  KILN_TRY(expect_type(t, "element", ir_element(from), ir_element(to)));
  return yield_type(t, to);
}

static kiln_status rule_reshape(typing *t) {
  KILN_TRY(need_given(t));
  KILN_TRY(expect_type(t, "element", ir_element(operand(t, 0)), ir_element(*t->given)));
  if (ir_log2_elements(operand(t, 0)) != ir_log2_elements(*t->given))
    return wrong(t, "numbers of elements differ", operand(t, 0), *t->given);
  return yield_type(t, *t->given);
}

static kiln_status rule_trans(typing *t) {
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

static kiln_status rule_join(typing *t) {
  ir_type to = operand(t, 0);
  KILN_TRY(all_equal(t, 0));
  if (to.rank >= IR_MAX_RANK) return refuse(t, "a rank below 12", to);
  to.log2[to.rank++] = 1;
  return yield_type(t, to);
}

static kiln_status rule_split(typing *t) {
  ir_type to = operand(t, 0);
  if (!to.rank || to.log2[to.rank - 1] != 1) return refuse(t, "a tile whose last extent is 2", to);
  to.log2[--to.rank] = 0;
  KILN_TRY(yield_type(t, to));
  return yield_type(t, to);
}

/// Checks that `block` takes `want` (count types) and ends in `code` passing `out` types after `skip`
/// operands.
static kiln_status check_region(const typing *t, const ir_block *block, const ir_type *want,
                                uint32_t want_count, ir_opcode code, uint32_t skip, const ir_type *out,
                                uint32_t out_count) {
  if (block->arg_count != want_count)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected a region of %u arguments, found %u", name(t),
                     want_count, block->arg_count);
  for (uint32_t i = 0; i < want_count; i++)
    KILN_TRY(expect_type(t, "region argument", want[i], block->args[i]->type));
  const ir_op *end = ir_terminator(block);
  if (!end || end->code != code)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: a region must end in %s", name(t), ir_ops[code].text);
  if (!out) return KILN_OK;
  if (end->operand_count != out_count + skip)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %u values at the end of a region, found %u",
                     name(t), out_count, end->operand_count - skip);
  for (uint32_t i = 0; i < out_count; i++)
    KILN_TRY(expect_type(t, "value at the end of a region", out[i], end->operands[skip + i]->type));
  return KILN_OK;
}

static kiln_status check_regions(const typing *t, uint32_t want) {
  if (t->op->region_count != want)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected %u regions, found %u", name(t), want,
                     t->op->region_count);
  for (uint32_t i = 0; i < want; i++)
    if (!t->op->regions[i])
      return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: region %u is missing", name(t), i);
  return KILN_OK;
}

static kiln_status check_combiner(typing *t) {
  uint32_t n = t->op->operand_count;
  const ir_attrs *a = &t->op->attrs;
  for (uint32_t i = 1; i < n; i++) KILN_TRY(expect_shape(t, operand(t, 0), operand(t, i)));
  if (a->axis >= operand(t, 0).rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", name(t),
                     operand(t, 0).rank, a->axis);
  if (n > IR_MAX_RESULTS / 2)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "%s: expected at most %d operands, found %u", name(t),
                     IR_MAX_RESULTS / 2, n);
  if (a->kind == IR_COMBINE_REGION) {
    ir_type elements[IR_MAX_RESULTS];
    for (uint32_t i = 0; i < n; i++) elements[i] = elements[n + i] = ir_element(operand(t, i));
    KILN_TRY(check_regions(t, 1));
    return check_region(t, t->op->regions[0], elements, 2 * n, IR_YIELD, 0, elements, n);
  }
  KILN_TRY(check_regions(t, 0));
  if (n != 1)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: a named combination takes 1 operand, found %u", name(t),
                     n);
  if (a->kind >= IR_COMBINE_COUNT || !(ir_combines[a->kind].classes & ir_type_class(operand(t, 0))))
    return refuse(t, "an element type that the combination takes", operand(t, 0));
  return KILN_OK;
}

static kiln_status rule_reduce(typing *t) {
  KILN_TRY(check_combiner(t));
  unsigned axis = t->op->attrs.axis;
  for (uint32_t i = 0; i < t->op->operand_count; i++) {
    ir_type to = operand(t, i);
    memmove(to.log2 + axis, to.log2 + axis + 1, to.rank - axis - 1u);
    to.log2[--to.rank] = 0;
    KILN_TRY(yield_type(t, to));
  }
  return KILN_OK;
}

static kiln_status rule_scan(typing *t) {
  KILN_TRY(check_combiner(t));
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(yield_type(t, operand(t, i)));
  return KILN_OK;
}

static kiln_status rule_ptradd(typing *t) {
  KILN_TRY(expect_shape(t, operand(t, 0), operand(t, 1)));
  if (!is_index(operand(t, 1))) return refuse(t, "an i32 or i64 offset", operand(t, 1));
  return yield_type(t, operand(t, 0));
}

static kiln_status check_mask(const typing *t, uint32_t at) {
  if (at >= t->op->operand_count) return KILN_OK;
  return expect_type(t, "mask", ir_with_element(operand(t, 0), ir_scalar_type(KILN_I1)), operand(t, at));
}

static kiln_status rule_load(typing *t) {
  ir_type value = ir_pointee(operand(t, 0));
  KILN_TRY(check_mask(t, 1));
  if (t->op->operand_count > 2) KILN_TRY(expect_type(t, "other", value, operand(t, 2)));
  return yield_type(t, value);
}

static kiln_status rule_store(typing *t) {
  KILN_TRY(expect_type(t, "value", ir_pointee(operand(t, 0)), operand(t, 1)));
  return check_mask(t, 2);
}

static kiln_status check_atomic(const typing *t, ir_type value) {
  unsigned kind = t->op->attrs.kind;
  bool ok = kind < IR_COMBINE_COUNT && !value.pointer && ir_atomic_takes(kind, value.scalar);
  return ok ? KILN_OK
            : refuse(t,
                     "a type that this atomic takes (add and xchg: i32 i64 and floats from 16 bits on; min "
                     "max: i32 i64 f32 f64; others: i32 i64)",
                     value);
}

static kiln_status rule_atomic(typing *t) {
  ir_type value = ir_pointee(operand(t, 0));
  KILN_TRY(expect_type(t, "value", value, operand(t, 1)));
  KILN_TRY(check_mask(t, 2));
  KILN_TRY(check_atomic(t, value));
  return yield_type(t, value);
}

static kiln_status rule_cas(typing *t) {
  ir_type value = ir_pointee(operand(t, 0));
  for (uint32_t i = 1; i < 3; i++) KILN_TRY(expect_type(t, "value", value, operand(t, i)));
  if (ir_type_bits(value) < 16) return refuse(t, "a type of 16, 32 or 64 bits", value);
  return yield_type(t, value);
}

static kiln_status check_scalars(const typing *t, uint32_t from, uint32_t count, kiln_scalar scalar) {
  for (uint32_t i = from; i < from + count; i++)
    if (!is_scalar(operand(t, i), scalar))
      return wrong(t, "extent, stride or index", ir_scalar_type(scalar), operand(t, i));
  return KILN_OK;
}

static kiln_status rule_view(typing *t) {
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

static kiln_status check_first(const typing *t, ir_type tile) {
  const ir_attrs *a = &t->op->attrs;
  if (!a->first) return KILN_OK;
  if (a->axis >= tile.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", name(t),
                     tile.rank, a->axis);
  int64_t extent = (int64_t)1 << tile.log2[a->axis];
  if (a->first > 0 && a->first < extent) return KILN_OK;
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected 'first' between 1 and %lld, found %lld", name(t),
                   (long long)extent - 1, (long long)a->first);
}

static kiln_status check_view_access(const typing *t, uint32_t extra) {
  ir_type view = operand(t, 0);
  if (!view.is_view) return refuse(t, "a view", view);
  if (t->op->operand_count != 1u + view.rank + extra)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %u indices, found %d", name(t), view.rank,
                     (int)t->op->operand_count - 1 - (int)extra);
  KILN_TRY(check_first(t, ir_view_tile(view)));
  return check_scalars(t, 1, view.rank, KILN_I64);
}

static kiln_status rule_viewload(typing *t) {
  uint32_t extra = t->op->attrs.flags & IR_HAS_OTHER ? 1 : 0;
  KILN_TRY(check_view_access(t, extra));
  ir_type tile = ir_view_tile(operand(t, 0));
  if (extra) KILN_TRY(expect_type(t, "other", ir_element(tile), operand(t, t->op->operand_count - 1)));
  return yield_type(t, tile);
}

static kiln_status rule_viewstore(typing *t) {
  KILN_TRY(check_view_access(t, 1));
  ir_type tile = ir_view_tile(operand(t, 0));
  KILN_TRY(expect_type(t, "value", tile, operand(t, t->op->operand_count - 1)));
  return t->op->code == IR_VIEW_ATOMIC ? check_atomic(t, tile) : KILN_OK;
}

static kiln_scalar accumulator_of(ir_type a) {
  if (a.scalar == KILN_I8) return KILN_I32;
  return a.scalar == KILN_F64 ? KILN_F64 : KILN_F32;
}

static kiln_status rule_dot(typing *t) {
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
  KILN_TRY(expect_type(t, "accumulator element", ir_scalar_type(accumulator_of(a)), ir_element(c)));
  return yield_type(t, c);
}

static kiln_status rule_for(typing *t) {
  uint32_t n = ir_carried_count(t->op);
  ir_type want[IR_MAX_RESULTS + 1], iv = operand(t, 0);
  if (iv.rank || !is_index(iv)) return refuse(t, "scalar bounds of i32 or i64", iv);
  for (uint32_t i = 1; i < IR_FOR_BOUNDS; i++) KILN_TRY(expect_type(t, "bounds", iv, operand(t, i)));
  want[0] = iv;
  for (uint32_t i = 0; i < n; i++) {
    want[1 + i] = ir_loop_initials(t->op)[i]->type;
    KILN_TRY(yield_type(t, want[1 + i]));
  }
  KILN_TRY(check_regions(t, 1));
  return check_region(t, t->op->regions[0], want, n + 1, IR_YIELD, 0, want + 1, n);
}

static kiln_status rule_while(typing *t) {
  uint32_t n = t->op->operand_count, passed_count;
  ir_type carried[IR_MAX_RESULTS];
  if (n > IR_MAX_RESULTS)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "while: expected at most %d values, found %u", IR_MAX_RESULTS,
                     n);
  for (uint32_t i = 0; i < n; i++) carried[i] = operand(t, i);
  KILN_TRY(check_regions(t, 2));
  KILN_TRY(check_region(t, t->op->regions[0], carried, n, IR_COND, 1, NULL, 0));
  const ir_op *test = ir_while_test(t->op);
  passed_count = ir_cond_passed_count(test);
  for (uint32_t i = 0; i < passed_count; i++) KILN_TRY(yield_type(t, ir_cond_passed(test)[i]->type));
  return check_region(t, t->op->regions[1], t->types, passed_count, IR_YIELD, 0, carried, n);
}

static kiln_status rule_if(typing *t) {
  if (!is_scalar(operand(t, 0), KILN_I1)) return refuse(t, "a scalar i1 condition", operand(t, 0));
  KILN_TRY(check_regions(t, 2));
  KILN_TRY(check_region(t, t->op->regions[0], NULL, 0, IR_YIELD, 0, NULL, 0));
  const ir_op *end = ir_if_end(t->op, 0);
  for (uint32_t i = 0; i < end->operand_count; i++) KILN_TRY(yield_type(t, end->operands[i]->type));
  return check_region(t, t->op->regions[1], NULL, 0, IR_YIELD, 0, t->types, t->count);
}

// --------------------------------------------------------------------------------- machine operations

static bool is_i32(ir_type type) { return is_scalar(type, KILN_I32); }

static bool is_barriers(ir_type type) { return type.slots && !type.rank && type.scalar == KILN_I64; }

/// view, one index an axis, then for COPY memory, slot, barriers; for STAGE memory, value.
static kiln_status rule_copy(typing *t) {
  ir_type view = operand(t, 0);
  bool loads = t->op->code == IR_COPY;
  if (!view.is_view) return refuse(t, "a view", view);
  uint32_t rest = 1u + view.rank;
  if (t->op->operand_count != rest + (loads ? 3u : 2u))
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected %u operands, found %u",
                     ir_ops[t->op->code].text, rest + (loads ? 3u : 2u), t->op->operand_count);
  for (uint32_t i = 1; i < rest; i++)
    if (!is_scalar(operand(t, i), KILN_I64)) return refuse(t, "indices of i64", operand(t, i));
  ir_type memory = operand(t, rest), tile = ir_view_tile(view);
  if (!memory.slots || memory.scalar != tile.scalar)
    return refuse(t, "shared memory of that element", memory);
  if (!loads) return expect_type(t, "value", ir_staged_type(t->op), operand(t, rest + 1));
  KILN_TRY(expect_type(t, "memory", ir_memory_type(tile, memory.slots), memory));
  if (!is_i32(operand(t, rest + 1))) return refuse(t, "a slot of i32", operand(t, rest + 1));
  return is_barriers(operand(t, rest + 2)) ? KILN_OK : refuse(t, "barriers", operand(t, rest + 2));
}

static kiln_status rule_barrier(typing *t) {
  if (!is_barriers(operand(t, 0))) return refuse(t, "barriers", operand(t, 0));
  for (uint32_t i = 1; i < t->op->operand_count; i++)
    if (!is_i32(operand(t, i))) return refuse(t, "i32", operand(t, i));
  return KILN_OK;
}

static kiln_status rule_mma(typing *t) {
  ir_type acc = operand(t, 0), a = operand(t, 2), b;
  uint32_t at = 3;
  if (!is_scalar(operand(t, 1), KILN_I1)) return refuse(t, "keep as a scalar i1", operand(t, 1));
  if (a.slots && !is_i32(operand(t, at++))) return refuse(t, "a slot of i32", operand(t, 3));
  if (t->op->operand_count != at + 2)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "mma: expected %u operands, found %u", at + 2,
                     t->op->operand_count);
  b = operand(t, at);
  if (!b.slots || !is_i32(operand(t, at + 1))) return refuse(t, "b in shared memory, and its slot", b);
  if (acc.rank != 2 || a.rank != 2 || b.rank != 2) return refuse(t, "operands of rank 2", acc);
  unsigned a_mn = t->op->attrs.flags & IR_A_MN ? 1 : 0, b_mn = t->op->attrs.flags & IR_B_MN ? 1 : 0;
  if (a.log2[a_mn] != acc.log2[0] || b.log2[b_mn] != acc.log2[1] || a.log2[1 - a_mn] != b.log2[1 - b_mn])
    return wrong(t, "extents do not fit", a, b);
  return yield_type(t, acc);
}

static kiln_status rule_wait(typing *t) {
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(yield_type(t, operand(t, i)));
  return KILN_OK;
}

static kiln_status rule_cluster(typing *t) {
  ir_type value = operand(t, 0), sum = value;
  bool is_scatter = t->op->code == IR_CLUSTER_SCATTER;
  unsigned blocks = t->op->attrs.split, parts = is_scatter ? (unsigned)__builtin_ctz(blocks | 256) : 0;
  if (is_scatter && (value.rank != 2 || value.log2[1] < parts || blocks & (blocks - 1)))
    return refuse(t, "a tile with as many columns as there are blocks", value);
  if (is_scatter) sum.log2[1] = (uint8_t)(sum.log2[1] - parts);
  if (!is_i32(operand(t, 1))) return refuse(t, "a phase of i32", operand(t, 1));
  if (t->op->operand_count == 2) return yield_type(t, sum);
  if (t->op->operand_count != 5)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected 2 or 5 operands, found %u", name(t),
                     t->op->operand_count);
  KILN_TRY(expect_type(t, "memory", ir_memory_type(value, is_scatter ? 1 : blocks - 1u), operand(t, 2)));
  for (uint32_t i = 3; i < 5; i++)
    if (!is_barriers(operand(t, i))) return refuse(t, "barriers", operand(t, i));
  return yield_type(t, sum);
}

/// Shared memory of tiles, not barriers.
static kiln_status expect_memory(typing *t, uint32_t i) {
  ir_type type = operand(t, i);
  return type.slots && type.rank ? KILN_OK : refuse(t, "shared memory of tiles", type);
}

/// p, mask, memory, slot, and left where there is a fifth.
static kiln_status rule_fetch(typing *t) {
  ir_type pointer = operand(t, 0), memory = operand(t, 2);
  KILN_TRY(expect_memory(t, 2));
  if (!pointer.rank || pointer.pointer != 1) return refuse(t, "a tile of pointers to elements", pointer);
  KILN_TRY(expect_type(t, "mask", ir_with_element(pointer, ir_scalar_type(KILN_I1)), operand(t, 1)));
  ir_type tile = ir_with_element(pointer, ir_pointee(ir_element(pointer)));
  KILN_TRY(expect_type(t, "memory", ir_memory_type(tile, memory.slots), memory));
  if (!is_i32(operand(t, 3))) return refuse(t, "a slot of i32", operand(t, 3));
  if (t->op->operand_count == 4) return KILN_OK;
  return expect_type(t, "left", ir_with_element(pointer, ir_scalar_type(KILN_I32)), operand(t, 4));
}

static kiln_status rule_slot(typing *t) {
  ir_type tile = operand(t, 0);
  KILN_TRY(expect_memory(t, 0));
  if (!is_i32(operand(t, 1))) return refuse(t, "a slot of i32", operand(t, 1));
  tile.slots = 0;
  return yield_type(t, tile);
}

static kiln_status rule_put(typing *t) {
  ir_type memory = operand(t, 0);
  KILN_TRY(expect_memory(t, 0));
  if (!is_i32(operand(t, 1))) return refuse(t, "a slot of i32", operand(t, 1));
  return expect_type(t, "memory", ir_memory_type(operand(t, 2), memory.slots), memory);
}

static kiln_status rule_memory(typing *t) {
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(expect_memory(t, i));
  return KILN_OK;
}

static kiln_status rule_roles(typing *t) {
  KILN_TRY(check_regions(t, 2));
  for (uint32_t i = 0; i < 2; i++)
    KILN_TRY(check_region(t, t->op->regions[i], NULL, 0, IR_YIELD, 0, t->types, 0));
  return KILN_OK;
}

static kiln_status rule_sort(typing *t) {
  KILN_TRY(need_given(t));
  ir_type from = operand(t, 0), to = *t->given;
  if (!from.rank) return refuse(t, "a tile", from);
  ir_type whole = to;
  if (to.rank == from.rank) whole.log2[to.rank - 1] = from.log2[to.rank - 1];
  if (!ir_type_equal(from, whole) || to.log2[to.rank - 1] > from.log2[to.rank - 1])
    return wrong(t, "the result must be the operand or the first elements of its rows", from, to);
  return yield_type(t, to);
}

static kiln_status rule_gather(typing *t) {
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

typedef kiln_status rule_function(typing *t);
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
    [IR_RULE_REDUCE] = rule_reduce,
    [IR_RULE_SCAN] = rule_scan,
    [IR_RULE_PTRADD] = rule_ptradd,
    [IR_RULE_LOAD] = rule_load,
    [IR_RULE_STORE] = rule_store,
    [IR_RULE_ATOMIC] = rule_atomic,
    [IR_RULE_CAS] = rule_cas,
    [IR_RULE_VIEW] = rule_view,
    [IR_RULE_BASE] = rule_base,
    [IR_RULE_VIEWLOAD] = rule_viewload,
    [IR_RULE_VIEWSTORE] = rule_viewstore,
    [IR_RULE_DOT] = rule_dot,
    [IR_RULE_FOR] = rule_for,
    [IR_RULE_WHILE] = rule_while,
    [IR_RULE_IF] = rule_if,
    [IR_RULE_COPY] = rule_copy,
    [IR_RULE_FETCH] = rule_fetch,
    [IR_RULE_SLOT] = rule_slot,
    [IR_RULE_MEMORY] = rule_memory,
    [IR_RULE_PUT] = rule_put,
    [IR_RULE_BARRIER] = rule_barrier,
    [IR_RULE_MMA] = rule_mma,
    [IR_RULE_WAIT] = rule_wait,
    [IR_RULE_CLUSTER] = rule_cluster,
    [IR_RULE_ROLES] = rule_roles,
    [IR_RULE_SORT] = rule_sort,
    [IR_RULE_GATHER] = rule_gather,
};

static kiln_status check_limits(const typing *t) {
  for (uint32_t i = 0; i < t->count; i++) {
    ir_type type = t->types[i];
    if (type.rank > IR_MAX_RANK) return refuse(t, "a rank of at most 12", type);
    if (ir_log2_elements(type) > IR_MAX_LOG2_ELEMENTS)
      return refuse(t, "a tile of at most 1048576 elements", type);
  }
  return KILN_OK;
}

/// Their rules count the regions themselves.
static bool takes_regions(unsigned rule) {
  return rule == IR_RULE_REDUCE || rule == IR_RULE_SCAN || rule == IR_RULE_FOR || rule == IR_RULE_WHILE ||
         rule == IR_RULE_IF || rule == IR_RULE_ROLES;
}

static kiln_status refuse_class(const typing *t, unsigned classes) {
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
  typing t = {op, given, out_types, 0, err};
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
  if (!takes_regions(info->rule)) KILN_TRY(check_regions(&t, 0));
  KILN_TRY(rules[info->rule](&t));
  KILN_TRY(check_limits(&t));
  *out_count = t.count;
  return KILN_OK;
}
