// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads legality.def; ops.def decides what exists at all.
#include "compiler/passes/lower/legality.h"

#include <string.h>

#include "compiler/target_info.h"

enum {
#define TYPE(name, spelling, number, bits, type_class) T_##name = 1 << number,
#include "base/types.def"
#undef TYPE
  T_ANY = 0xffff,
};

typedef enum place {
  ALL,
  NO_UNITS,
  NO_FMA,
  NO_F16,
  NO_BF16_SUMS,
  NO_MATRIX,
  NO_BF16_MATRIX,
  NO_FP8_MATRIX,
  FP8_CASTS
} place;

typedef struct op_row {
  uint8_t operations[12], count; // ir_opcode
  uint16_t types;
  uint8_t place, outcome, expansion;
  uint32_t flags;
  char how[56];
} op_row;

typedef struct cast_row {
  uint16_t from, to;
  uint8_t place, outcome;
  char how[32];
} cast_row;

#define F16 T_F16
#define BF16 T_BF16
#define F32 T_F32
#define F64 T_F64
#define E4M3 T_E4M3
#define E5M2 T_E5M2
#define I1 T_I1
#define I8 T_I8
#define I16 T_I16
#define I32 T_I32
#define I64 T_I64
#define ANY T_ANY
static const op_row op_rows[] = {
#define OPS(...) {__VA_ARGS__}, sizeof(const ir_opcode[]){__VA_ARGS__} / sizeof(ir_opcode)
#define LEGAL(operations, types, place, flags, outcome, expansion, how) \
  {operations, types, place, KILN_LEGAL_##outcome, KILN_EXPAND_##expansion, flags, how},
#define CAST(from, to, place, outcome, how)
#include "compiler/passes/lower/legality.def"
#undef OPS
#undef LEGAL
#undef CAST
};
static const cast_row cast_rows[] = {
#define LEGAL(operations, types, place, flags, outcome, expansion, how)
#define CAST(from, to, place, outcome, how) {from, to, place, KILN_LEGAL_##outcome, how},
#include "compiler/passes/lower/legality.def"
#undef LEGAL
#undef CAST
};
#define OPS(...) 0
#define LEGAL(operations, types, place, flags, outcome, expansion, text) \
  _Static_assert(sizeof text <= sizeof op_rows->how, "it has room: " text);
#define CAST(from, to, place, outcome, text) \
  _Static_assert(sizeof text <= sizeof cast_rows->how, "it has room: " text);
#include "compiler/passes/lower/legality.def"
#undef OPS
#undef LEGAL
#undef CAST

/// x86-64 below v3, unless a native feature list names the feature.
static bool lacks_feature(const kiln_target *target, const char *feature) {
  const kiln_processor *p = target->processor;
  if (target->native_features[0])
    return !strstr(target->native_features, feature) && strstr(target->native_features, "sse2");
  return !strcmp(kiln_host_processor_of(p)->arch, "x86_64") && p->level < 3;
}

static bool has_bf16_sums(const kiln_target *target) {
  unsigned first = kiln_target_info_of(target->processor->family)->bf16_sums;
  return first && target->processor->number >= first;
}

static bool holds(place where, const kiln_target *target) {
  switch (where) {
  case ALL: return true;
  case NO_UNITS: return !kiln_family_of(target->processor->family)->has_units;
  case NO_FMA: return lacks_feature(target, "+fma");
  case NO_F16: return lacks_feature(target, "+f16c");
  case NO_BF16_SUMS: return !has_bf16_sums(target);
  case NO_MATRIX: return target->processor->matrix == KILN_MATRIX_NONE;
  case NO_BF16_MATRIX: return !kiln_matrix_unit_of(target)->has_bf16;
  case NO_FP8_MATRIX: return !kiln_matrix_unit_of(target)->has_fp8;
  case FP8_CASTS: return kiln_matrix_unit_of(target)->has_fp8_casts;
  }
  return false;
}

static const kiln_legality native = {.legal = KILN_LEGAL_NATIVE, .reason = ""};

kiln_legality kiln_cast_legality(kiln_scalar from, kiln_scalar to, const kiln_target *target) {
  if (from == to) return native;
  for (size_t i = 0; i < sizeof cast_rows / sizeof *cast_rows; i++) {
    const cast_row *row = &cast_rows[i];
    if ((row->from >> from & 1) && (row->to >> to & 1) && holds(row->place, target))
      return (kiln_legality){row->outcome, row->how, KILN_EXPAND_CAST};
  }
  return native;
}

kiln_legality kiln_op_legality(ir_opcode code, kiln_scalar scalar, bool pointer, uint32_t flags,
                               const kiln_target *target) {
  unsigned class = pointer ? (unsigned)KILN_CLASS_POINTER : kiln_scalars[scalar].type_class;
  bool memory = (ir_ops[code].classes & KILN_CLASS_POINTER) && ir_ops[code].classes == KILN_CLASS_POINTER;
  if (ir_ops[code].classes && !memory && !(ir_ops[code].classes & class))
    return (kiln_legality){KILN_LEGAL_REFUSED, "the operation is not defined for the type", KILN_EXPAND_NONE};
  for (size_t i = 0; !pointer && i < sizeof op_rows / sizeof *op_rows; i++) {
    const op_row *row = &op_rows[i];
    size_t k = 0;
    while (k < row->count && row->operations[k] != code) k++;
    if (k < row->count && (row->types >> scalar & 1) && (flags & row->flags) == row->flags &&
        holds(row->place, target))
      return (kiln_legality){row->outcome, row->how, row->expansion};
  }
  if (code == IR_PRINT && !kiln_family_of(target->processor->family)->prints)
    return (kiln_legality){KILN_LEGAL_EXPANDED, "left out: nothing is printed", KILN_EXPAND_NOTHING};
  return native;
}

kiln_legality kiln_legality_of(const ir_op *op, const kiln_target *target) {
  if (op->code == IR_ASM) return kiln_asm_legality(op, target);
  const ir_type *type = op->operand_count  ? &op->operands[0]->type
                        : op->result_count ? &op->results[0].type
                                           : NULL;
  if (!type || type->is_view) return native;
  if (op->code == IR_CAST) {
    kiln_scalar to = op->results[0].type.scalar;
    bool to_float = kiln_scalars[to].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
    if (op->attrs.round == IR_ROUND_ZERO && to_float)
      return (kiln_legality){KILN_LEGAL_EXPANDED, "rounded to nearest, then one step back", KILN_EXPAND_CAST};
    if (op->attrs.flags & IR_SATURATE_OFF && kiln_scalars[to].type_class == KILN_CLASS_FP8)
      return (kiln_legality){KILN_LEGAL_EXPANDED, "machines saturate", KILN_EXPAND_CAST};
    return kiln_cast_legality(type->scalar, to, target);
  }
  // Products of fp8 that are smaller than the smallest instruction have wider types.
  if (op->code == IR_DOT && kiln_scalars[type->scalar].type_class == KILN_CLASS_FP8 &&
      kiln_matrix_unit_of(target)->has_fp8 &&
      !kiln_matrix_form_of(target->processor->matrix, kiln_target_lanes(target), op, NULL))
    return (kiln_legality){KILN_LEGAL_EXPANDED, "widened without loss", KILN_EXPAND_DOT};
  if (op->region_count) return native; // the operations inside count
  return kiln_op_legality(op->code, type->scalar, type->pointer, op->attrs.flags, target);
}
