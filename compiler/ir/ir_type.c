// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types of the IR as values: construction, comparison, text. The tables of operations and combinations live
// here too.
#include "compiler/ir/ir.h"

#include <stdio.h>
#include <string.h>

#define B KILN_CLASS_BOOL
#define I KILN_CLASS_INT
#define F KILN_CLASS_FLOAT
#define Q KILN_CLASS_FP8
#define P KILN_CLASS_POINTER
#define EACH IR_EACH
#define COMMUTES IR_COMMUTES
#define DEAR IR_DEAR
#define INEXACT IR_INEXACT
#define RENAMES IR_RENAMES
#define PASSES IR_PASSES
#define ASSOCIATES IR_ASSOCIATES
#define REPEATS IR_REPEATS
#define CANCELS IR_CANCELS
#define UNIT_0 IR_UNIT_0
#define UNIT_1 IR_UNIT_1
#define UNIT_ONES IR_UNIT_ONES
#define ENDS_0 IR_ENDS_0
#define ENDS_ONES IR_ENDS_ONES
const ir_op_info ir_ops[IR_OPCODE_COUNT] = {
#define OP(code, text, sign, least, most, results, effect, classes, rule, stage, properties) \
  [IR_##code] = {                                                                            \
      text, sign, least, most, results, IR_##effect, classes, IR_RULE_##rule, IR_STAGE_##stage, properties},
#include "compiler/ir/ops.def"
#undef OP
};
#define IR_NONE IR_OPCODE_COUNT
const char ir_predicate_signs[][3] = {
    [IR_EQ] = "==", [IR_NE] = "!=", [IR_LT] = "<", [IR_LE] = "<=", [IR_GT] = ">", [IR_GE] = ">="};
const ir_combine_info ir_combines[IR_COMBINE_COUNT] = {
#define COMBINE(code, text, operation, classes, least_int, least_float, idempotent) \
  [IR_COMBINE_##code] = {text, IR_##operation, classes, least_int, least_float, idempotent},
#include "compiler/ir/combines.def"
#undef COMBINE
};
#undef IR_NONE
#undef EACH
#undef COMMUTES
#undef DEAR
#undef INEXACT
#undef RENAMES
#undef PASSES
#undef ASSOCIATES
#undef REPEATS
#undef CANCELS
#undef UNIT_0
#undef UNIT_1
#undef UNIT_ONES
#undef ENDS_0
#undef ENDS_ONES
#undef B
#undef I
#undef F
#undef Q
#undef P

#define OP(code, name, infix, least, most, results, effect, classes, rule, stage, properties) \
  _Static_assert((IR_##code < IR_TILE_COUNT) == (IR_STAGE_##stage == IR_STAGE_TILE),          \
                 "rows of the machine stage come last: " name);                               \
  _Static_assert(sizeof name <= sizeof ir_ops->text && sizeof infix <= sizeof ir_ops->sign,   \
                 "both have room: " name);
#include "compiler/ir/ops.def"
#undef OP
_Static_assert((int)IR_TILE_COUNT < (int)IR_MACHINE_NUMBER, "the stages share no number");

bool ir_atomic_takes(ir_combine kind, kiln_scalar scalar) {
  const ir_combine_info *c = &ir_combines[kind];
  unsigned least = kiln_scalars[scalar].type_class == KILN_CLASS_INT     ? c->least_int
                   : kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT ? c->least_float
                                                                         : 0;
  return least && kiln_scalars[scalar].bits >= least;
}

kiln_scalar ir_integer_of(unsigned bits) {
  return bits == 1 ? KILN_I1 : bits == 8 ? KILN_I8 : bits == 16 ? KILN_I16 : bits == 32 ? KILN_I32 : KILN_I64;
}

ir_type ir_scalar_type(kiln_scalar scalar) { return (ir_type){.scalar = (uint8_t)scalar}; }

ir_type ir_pointer_type(kiln_scalar scalar) { return (ir_type){.scalar = (uint8_t)scalar, .pointer = 1}; }

ir_type ir_with_element(ir_type shape_of, ir_type element) {
  shape_of.scalar = element.scalar;
  shape_of.pointer = element.pointer;
  return shape_of;
}

ir_type ir_element(ir_type type) { return (ir_type){.scalar = type.scalar, .pointer = type.pointer}; }

ir_type ir_pointee(ir_type type) {
  if (type.pointer) type.pointer--;
  return type;
}

ir_type ir_view_tile(ir_type view) {
  ir_type tile = {.scalar = view.scalar, .pointer = view.pointer};
  for (unsigned i = 0; i < view.rank; i++)
    if (view.log2[i] != IR_DROPPED) tile.log2[tile.rank++] = view.log2[i];
  return tile;
}

ir_type ir_staged_type(const ir_op *stage) {
  KILN_ASSERT(stage->operands[0]->type.is_view);
  ir_type tile = ir_view_tile(stage->operands[0]->type), turned = tile;
  if (!(stage->attrs.access.is_turned)) return tile;
  turned.log2[0] = tile.log2[1], turned.log2[1] = tile.log2[0];
  return turned;
}

int64_t ir_view_count(const ir_op *access, unsigned axis) {
  ir_type view = access->operands[0]->type;
  unsigned at = 0;
  KILN_ASSERT(view.is_view && axis < view.rank);
  if (view.log2[axis] == IR_DROPPED) return 1;
  for (unsigned i = 0; i < axis; i++) at += view.log2[i] != IR_DROPPED;
  if (access->attrs.access.first && access->attrs.access.axis == at) return access->attrs.access.first;
  if (access->attrs.access.across && at + 1u == ir_view_tile(view).rank) return access->attrs.access.across;
  return (int64_t)1 << view.log2[axis];
}

ir_type ir_memory_type(ir_type tile, unsigned slots) {
  KILN_ASSERT(slots && slots <= UINT8_MAX);
  tile.slots = (uint8_t)slots;
  return tile;
}

ir_type ir_barrier_type(unsigned slots) { return ir_memory_type(ir_scalar_type(KILN_I64), slots); }

bool ir_type_equal(ir_type a, ir_type b) { return !memcmp(&a, &b, sizeof a); }

bool ir_same_shape(ir_type a, ir_type b) {
  return a.rank == b.rank && a.is_view == b.is_view && !memcmp(a.log2, b.log2, sizeof a.log2);
}

unsigned ir_log2_elements(ir_type type) {
  unsigned sum = 0;
  for (unsigned i = 0; i < type.rank; i++)
    if (type.log2[i] != IR_DROPPED) sum += type.log2[i];
  return sum;
}

unsigned ir_type_class(ir_type type) {
  return type.pointer ? (unsigned)KILN_CLASS_POINTER : kiln_scalars[type.scalar].type_class;
}

unsigned ir_type_bits(ir_type type) { return type.pointer ? 64 : kiln_scalars[type.scalar].bits; }

const char *ir_type_text(ir_type type, char out[IR_TYPE_TEXT]) {
  int at = snprintf(out, IR_TYPE_TEXT, "%s%.*s%s",
                    type.is_view ? "view "
                    : type.slots ? "shared "
                                 : "",
                    type.pointer > 8 ? 8 : type.pointer, "********",
                    type.scalar < KILN_SCALAR_COUNT ? kiln_scalars[type.scalar].spelling : "?");
  for (unsigned i = 0; i < type.rank && i < IR_MAX_RANK && at < IR_TYPE_TEXT - 16; i++) {
    at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "%s", i ? ", " : "[");
    if (type.log2[i] == IR_DROPPED) at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "_");
    else at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "%llu", 1ull << (type.log2[i] & 63));
  }
  if (type.rank) at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "]");
  if (type.slots) snprintf(out + at, IR_TYPE_TEXT - (size_t)at, " x %u", type.slots);
  return out;
}
