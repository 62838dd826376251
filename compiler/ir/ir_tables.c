// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of operations and combinations, made of ops.def and combines.def.
#include "compiler/ir/ir.h"

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
