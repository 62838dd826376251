// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typing of what has regions: loops, conditions, roles, and combinations along an axis.
#include <string.h>

#include "compiler/ir/ir_infer.h"

/// Checks that `block` takes `want` (count types) and ends in `code` passing `out` types after `skip`
/// operands.
static kiln_status check_region(const ir_typing *t, const ir_block *block, const ir_type *want,
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

kiln_status ir_check_regions(const ir_typing *t, uint32_t want) {
  if (t->op->region_count != want)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected %u regions, found %u", name(t), want,
                     t->op->region_count);
  for (uint32_t i = 0; i < want; i++)
    if (!t->op->regions[i])
      return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: region %u is missing", name(t), i);
  return KILN_OK;
}

static kiln_status check_combiner(ir_typing *t) {
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
    KILN_TRY(ir_check_regions(t, 1));
    return check_region(t, t->op->regions[0], elements, 2 * n, IR_YIELD, 0, elements, n);
  }
  KILN_TRY(ir_check_regions(t, 0));
  if (n != 1)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: a named combination takes 1 operand, found %u", name(t),
                     n);
  if (a->kind >= IR_COMBINE_COUNT || !(ir_combines[a->kind].classes & ir_type_class(operand(t, 0))))
    return refuse(t, "an element type that the combination takes", operand(t, 0));
  return KILN_OK;
}

kiln_status ir_rule_reduce(ir_typing *t) {
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

kiln_status ir_rule_scan(ir_typing *t) {
  KILN_TRY(check_combiner(t));
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(yield_type(t, operand(t, i)));
  return KILN_OK;
}

kiln_status ir_rule_for(ir_typing *t) {
  uint32_t n = ir_carried_count(t->op);
  ir_type want[IR_MAX_RESULTS + 1], iv = operand(t, 0);
  if (iv.rank || !is_index(iv)) return refuse(t, "scalar bounds of i32 or i64", iv);
  for (uint32_t i = 1; i < IR_FOR_BOUNDS; i++) KILN_TRY(expect_type(t, "bounds", iv, operand(t, i)));
  want[0] = iv;
  for (uint32_t i = 0; i < n; i++) {
    want[1 + i] = ir_loop_initials(t->op)[i]->type;
    KILN_TRY(yield_type(t, want[1 + i]));
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
  for (uint32_t i = 0; i < n; i++) carried[i] = operand(t, i);
  KILN_TRY(ir_check_regions(t, 2));
  KILN_TRY(check_region(t, t->op->regions[0], carried, n, IR_COND, 1, NULL, 0));
  const ir_op *test = ir_while_test(t->op);
  passed_count = ir_cond_passed_count(test);
  for (uint32_t i = 0; i < passed_count; i++) KILN_TRY(yield_type(t, ir_cond_passed(test)[i]->type));
  return check_region(t, t->op->regions[1], t->types, passed_count, IR_YIELD, 0, carried, n);
}

kiln_status ir_rule_if(ir_typing *t) {
  if (!is_scalar(operand(t, 0), KILN_I1)) return refuse(t, "a scalar i1 condition", operand(t, 0));
  KILN_TRY(ir_check_regions(t, 2));
  KILN_TRY(check_region(t, t->op->regions[0], NULL, 0, IR_YIELD, 0, NULL, 0));
  const ir_op *end = ir_if_end(t->op, 0);
  for (uint32_t i = 0; i < end->operand_count; i++) KILN_TRY(yield_type(t, end->operands[i]->type));
  return check_region(t, t->op->regions[1], NULL, 0, IR_YIELD, 0, t->types, t->count);
}

kiln_status ir_rule_roles(ir_typing *t) {
  KILN_TRY(ir_check_regions(t, 2));
  for (uint32_t i = 0; i < 2; i++)
    KILN_TRY(check_region(t, t->op->regions[i], NULL, 0, IR_YIELD, 0, t->types, 0));
  return KILN_OK;
}
