// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One elementwise operation, for every target: a table of functions by operation.
#include "compiler/codegen/llvm/llvm_element.h"

#include <string.h>

#define B e->builder

typedef LLVMValueRef element_function(const kiln_elements *e, const ir_op *op, ir_type type,
                                      const LLVMValueRef *x);

static bool is_real(ir_type type) { return ir_type_class(type) == KILN_CLASS_FLOAT; }
static bool is_narrow(ir_type type) { return type.scalar == KILN_F16 || type.scalar == KILN_BF16; }
static bool is_unsigned(const ir_attrs *how, ir_type type) {
  return (how->flags & IR_UNSIGNED) || ir_type_class(type) == KILN_CLASS_BOOL;
}

static LLVMValueRef widened(const kiln_elements *e, ir_type type, LLVMValueRef x) {
  return is_narrow(type) ? e->machine->widen(e, (kiln_scalar)type.scalar, x) : x;
}
/// NULL stays NULL.
static LLVMValueRef narrowed(const kiln_elements *e, ir_type type, LLVMValueRef x) {
  return x && is_narrow(type) ? e->machine->narrow(e, (kiln_scalar)type.scalar, x) : x;
}

static LLVMValueRef unary(const kiln_elements *e, const char *name, LLVMValueRef x) {
  return e->machine->intrinsic(e, name, LLVMTypeOf(x), &x, 1);
}
static LLVMValueRef binary(const kiln_elements *e, const char *name, LLVMValueRef a, LLVMValueRef b) {
  return e->machine->intrinsic(e, name, LLVMTypeOf(a), (LLVMValueRef[]){a, b}, 2);
}

/// The least integer stays as it is.
static LLVMValueRef size_of(const kiln_elements *e, LLVMValueRef x) {
  LLVMValueRef arguments[] = {x, LLVMConstInt(e->types[KILN_I1], 0, false)};
  return e->machine->intrinsic(e, "llvm.abs", LLVMTypeOf(x), arguments, 2);
}

// -------------------------------------------------------------------------- arithmetic

/// add, sub, mul, and, or, xor: one instruction.
static LLVMValueRef element_instruction(const kiln_elements *e, const ir_op *op, ir_type type,
                                        const LLVMValueRef *x) {
  static const struct {
    LLVMOpcode integer, real;
  } instructions[IR_OPCODE_COUNT] = {
      [IR_ADD] = {LLVMAdd, LLVMFAdd},  [IR_SUB] = {LLVMSub, LLVMFSub}, [IR_MUL] = {LLVMMul, LLVMFMul},
      [IR_AND] = {.integer = LLVMAnd}, [IR_OR] = {.integer = LLVMOr},  [IR_XOR] = {.integer = LLVMXor}};
  if (!is_real(type)) return LLVMBuildBinOp(B, instructions[op->code].integer, x[0], x[1], "");
  LLVMValueRef a = widened(e, type, x[0]), b = widened(e, type, x[1]);
  return narrowed(e, type, LLVMBuildBinOp(B, instructions[op->code].real, a, b, ""));
}

/// div, rem: remainders of floats alone are an instruction.
static LLVMValueRef element_division(const kiln_elements *e, const ir_op *op, ir_type type,
                                     const LLVMValueRef *x) {
  const bool is_rem = op->code == IR_REM;
  if (!is_real(type))
    return e->machine->divide_integers(e, (kiln_scalar)type.scalar, is_unsigned(&op->attrs, type), is_rem,
                                       x[0], x[1]);
  LLVMValueRef a = widened(e, type, x[0]), b = widened(e, type, x[1]);
  return narrowed(e, type, is_rem ? LLVMBuildFRem(B, a, b, "") : e->machine->divide(e, &op->attrs, a, b));
}

/// min, max.
static LLVMValueRef element_extreme(const kiln_elements *e, const ir_op *op, ir_type type,
                                    const LLVMValueRef *x) {
  static const char *const names[2][2] = {{"llvm.smin", "llvm.smax"}, {"llvm.umin", "llvm.umax"}};
  const bool is_max = op->code == IR_MAX;
  if (!is_real(type)) return binary(e, names[is_unsigned(&op->attrs, type)][is_max], x[0], x[1]);
  LLVMValueRef a = widened(e, type, x[0]), b = widened(e, type, x[1]);
  return narrowed(e, type, e->machine->extreme(e, op, is_max, a, b));
}

static LLVMValueRef element_mulhi(const kiln_elements *e, const ir_op *op, ir_type type,
                                  const LLVMValueRef *x) {
  unsigned bits = ir_type_bits(type);
  LLVMTypeRef wide = LLVMIntTypeInContext(e->context, 2 * bits), wide_like = kiln_type_like(wide, x[0]);
  LLVMOpcode extend = is_unsigned(&op->attrs, type) ? LLVMZExt : LLVMSExt;
  LLVMValueRef a = LLVMBuildCast(B, extend, x[0], wide_like, ""),
               b = LLVMBuildCast(B, extend, x[1], wide_like, "");
  LLVMValueRef high = LLVMBuildLShr(B, LLVMBuildMul(B, a, b, ""), kiln_int_like(wide, x[0], bits), "");
  return LLVMBuildTrunc(B, high, LLVMTypeOf(x[0]), "");
}

static LLVMValueRef element_fma(const kiln_elements *e, const ir_op *op, ir_type type,
                                const LLVMValueRef *x) {
  LLVMValueRef wide[3];
  (void)op;
  for (unsigned i = 0; i < 3; i++) wide[i] = widened(e, type, x[i]);
  return narrowed(e, type, e->machine->intrinsic(e, "llvm.fma", LLVMTypeOf(wide[0]), wide, 3));
}

// ------------------------------------------------------------------------------ shifts, bits

/// Counts are taken modulo the width.
static LLVMValueRef shift_count(const kiln_elements *e, ir_type type, LLVMValueRef count) {
  return LLVMBuildAnd(B, count, kiln_int_like(e->types[type.scalar], count, ir_type_bits(type) - 1), "");
}

static LLVMValueRef element_shl(const kiln_elements *e, const ir_op *op, ir_type type,
                                const LLVMValueRef *x) {
  (void)op;
  return LLVMBuildShl(B, x[0], shift_count(e, type, x[1]), "");
}

static LLVMValueRef element_shr(const kiln_elements *e, const ir_op *op, ir_type type,
                                const LLVMValueRef *x) {
  LLVMValueRef count = shift_count(e, type, x[1]);
  return is_unsigned(&op->attrs, type) ? LLVMBuildLShr(B, x[0], count, "")
                                       : LLVMBuildAShr(B, x[0], count, "");
}

static LLVMValueRef element_bitcast(const kiln_elements *e, const ir_op *op, ir_type type,
                                    const LLVMValueRef *x) {
  ir_type to = ir_element(op->results[0].type);
  LLVMTypeRef want = kiln_type_like(to.pointer ? e->pointer : e->types[to.scalar], x[0]),
              address = kiln_type_like(e->types[KILN_I64], x[0]);
  if (!type.pointer == !to.pointer) return LLVMBuildBitCast(B, x[0], want, "");
  if (type.pointer) return LLVMBuildBitCast(B, LLVMBuildPtrToInt(B, x[0], address, ""), want, "");
  return LLVMBuildIntToPtr(B, LLVMBuildBitCast(B, x[0], address, ""), want, "");
}

// ----------------------------------------------------------------- choice, one operand

static LLVMValueRef element_cmp(const kiln_elements *e, const ir_op *op, ir_type type,
                                const LLVMValueRef *x) {
  static const LLVMRealPredicate real[] = {
      [IR_EQ] = LLVMRealOEQ, [IR_NE] = LLVMRealUNE, [IR_LT] = LLVMRealOLT,
      [IR_LE] = LLVMRealOLE, [IR_GT] = LLVMRealOGT, [IR_GE] = LLVMRealOGE};
  static const LLVMIntPredicate with_sign[] = {
      [IR_EQ] = LLVMIntEQ,  [IR_NE] = LLVMIntNE,  [IR_LT] = LLVMIntSLT,
      [IR_LE] = LLVMIntSLE, [IR_GT] = LLVMIntSGT, [IR_GE] = LLVMIntSGE};
  static const LLVMIntPredicate without[] = {
      [IR_EQ] = LLVMIntEQ,  [IR_NE] = LLVMIntNE,  [IR_LT] = LLVMIntULT,
      [IR_LE] = LLVMIntULE, [IR_GT] = LLVMIntUGT, [IR_GE] = LLVMIntUGE};
  if (is_real(type)) {
    LLVMValueRef a = widened(e, type, x[0]), b = widened(e, type, x[1]);
    return LLVMBuildFCmp(B, real[op->attrs.kind], a, b, "");
  }
  bool has_sign = ir_type_class(type) == KILN_CLASS_INT && !(op->attrs.flags & IR_UNSIGNED);
  return LLVMBuildICmp(B, (has_sign ? with_sign : without)[op->attrs.kind], x[0], x[1], "");
}

static LLVMValueRef element_select(const kiln_elements *e, const ir_op *op, ir_type type,
                                   const LLVMValueRef *x) {
  (void)op, (void)type;
  return LLVMBuildSelect(B, x[0], x[1], x[2], "");
}

static LLVMValueRef element_hint(const kiln_elements *e, const ir_op *op, ir_type type,
                                 const LLVMValueRef *x) {
  (void)e, (void)op, (void)type;
  return x[0];
}

static LLVMValueRef element_abs(const kiln_elements *e, const ir_op *op, ir_type type,
                                const LLVMValueRef *x) {
  (void)op;
  if (!is_real(type)) return size_of(e, x[0]);
  if (!is_narrow(type)) return unary(e, "llvm.fabs", x[0]);
  LLVMTypeRef word = e->types[KILN_I16];
  LLVMValueRef bits = LLVMBuildBitCast(B, x[0], kiln_type_like(word, x[0]), "");
  bits = LLVMBuildAnd(B, bits, kiln_int_like(word, bits, 0x7fff), "");
  return LLVMBuildBitCast(B, bits, LLVMTypeOf(x[0]), "");
}

/// floor, ceil, round (ties to even, which is the mode that kernels run in).
static LLVMValueRef element_rounding(const kiln_elements *e, const ir_op *op, ir_type type,
                                     const LLVMValueRef *x) {
  const char *name = op->code == IR_FLOOR ? "llvm.floor" : op->code == IR_CEIL ? "llvm.ceil" : "llvm.rint";
  return narrowed(e, type, unary(e, name, widened(e, type, x[0])));
}

static LLVMValueRef element_function_of(const kiln_elements *e, const ir_op *op, ir_type type,
                                        const LLVMValueRef *x) {
  return narrowed(e, type, e->machine->function(e, op->code, &op->attrs, widened(e, type, x[0])));
}

// ------------------------------------------------------------------------------- casts

/// Clears what does not fit into `keep` leading bits, so that the conversion is exact: rounding toward zero.
static LLVMValueRef cut_low_bits(const kiln_elements *e, ir_type from, bool unsign, unsigned keep,
                                 LLVMValueRef x) {
  LLVMTypeRef element = e->types[from.scalar];
  unsigned bits = ir_type_bits(from);
  if (bits <= keep) return x;
  LLVMValueRef size = unsign ? x : size_of(e, x), zero = kiln_int_like(element, x, 0);
  LLVMValueRef counted[] = {size, LLVMConstInt(e->types[KILN_I1], 0, false)};
  LLVMValueRef leading = e->machine->intrinsic(e, "llvm.ctlz", LLVMTypeOf(x), counted, 2);
  LLVMValueRef used = LLVMBuildSub(B, kiln_int_like(element, x, bits), leading, "");
  LLVMValueRef excess =
      binary(e, "llvm.smax", LLVMBuildSub(B, used, kiln_int_like(element, x, keep), ""), zero);
  LLVMValueRef cut = LLVMBuildShl(B, LLVMBuildLShr(B, size, excess, ""), excess, "");
  if (unsign) return cut;
  LLVMValueRef negative = LLVMBuildICmp(B, LLVMIntSLT, x, zero, "");
  return LLVMBuildSelect(B, negative, LLVMBuildNeg(B, cut, ""), cut, "");
}

/// Narrow results go through f32.
static LLVMValueRef int_to_float(const kiln_elements *e, ir_type from, kiln_scalar to, const ir_attrs *how,
                                 LLVMValueRef x) {
  bool unsign = is_unsigned(how, from), is_double = to == KILN_F64;
  LLVMTypeRef type = kiln_type_like(e->types[is_double ? KILN_F64 : KILN_F32], x);
  if (how->round == IR_ROUND_ZERO) x = cut_low_bits(e, from, unsign, is_double ? 53 : 24, x);
  LLVMValueRef value = unsign ? LLVMBuildUIToFP(B, x, type, "") : LLVMBuildSIToFP(B, x, type, "");
  return kiln_element_cast(e, is_double ? KILN_F64 : KILN_F32, to, how, value);
}

static LLVMValueRef float_to_int(const kiln_elements *e, ir_type from, kiln_scalar to, const ir_attrs *how,
                                 LLVMValueRef x) {
  kiln_scalar wide = from.scalar == KILN_F64 ? KILN_F64 : KILN_F32;
  LLVMValueRef value = kiln_element_cast(e, (kiln_scalar)from.scalar, wide, &(ir_attrs){0}, x);
  if (to == KILN_I1)
    return LLVMBuildFCmp(B, LLVMRealUNE, value, kiln_real_like(e->types[wide], value, 0), "");
  return e->machine->float_to_int(e, to, how->flags & IR_UNSIGNED, value);
}

static LLVMValueRef int_to_int(const kiln_elements *e, ir_type from, kiln_scalar to, const ir_attrs *how,
                               LLVMValueRef x) {
  LLVMTypeRef type = kiln_type_like(e->types[to], x);
  if (to == KILN_I1) return LLVMBuildICmp(B, LLVMIntNE, x, kiln_int_like(e->types[from.scalar], x, 0), "");
  if (kiln_scalars[to].bits == ir_type_bits(from)) return x;
  if (kiln_scalars[to].bits > ir_type_bits(from))
    return is_unsigned(how, from) ? LLVMBuildZExt(B, x, type, "") : LLVMBuildSExt(B, x, type, "");
  if (e->machine->bits_of_float && LLVMIsABitCastInst(x)) { // the high bits may be those of a float
    LLVMValueRef real = LLVMGetOperand(x, 0);
    LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(real));
    if (kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind) x = e->machine->bits_of_float(e, real);
  }
  return LLVMBuildTrunc(B, x, type, "");
}

LLVMValueRef kiln_element_cast(const kiln_elements *e, kiln_scalar from, kiln_scalar to, const ir_attrs *how,
                               LLVMValueRef x) {
  enum { INTEGRAL = KILN_CLASS_BOOL | KILN_CLASS_INT };
  ir_type type = ir_scalar_type(from);
  bool to_int = kiln_scalars[to].type_class & INTEGRAL;
  if (from == to) return x;
  if (ir_type_class(type) & INTEGRAL)
    return to_int ? int_to_int(e, type, to, how, x) : int_to_float(e, type, to, how, x);
  return to_int ? float_to_int(e, type, to, how, x) : e->machine->float_cast(e, from, to, how, x);
}

static LLVMValueRef element_cast(const kiln_elements *e, const ir_op *op, ir_type type,
                                 const LLVMValueRef *x) {
  return kiln_element_cast(e, (kiln_scalar)type.scalar, (kiln_scalar)op->results[0].type.scalar, &op->attrs,
                           x[0]);
}

// --------------------------------------------------------------------------- the table

static element_function *const functions[IR_OPCODE_COUNT] = {
    [IR_ADD] = element_instruction,   [IR_SUB] = element_instruction,  [IR_MUL] = element_instruction,
    [IR_DIV] = element_division,      [IR_REM] = element_division,     [IR_MIN] = element_extreme,
    [IR_MAX] = element_extreme,       [IR_MULHI] = element_mulhi,      [IR_AND] = element_instruction,
    [IR_OR] = element_instruction,    [IR_XOR] = element_instruction,  [IR_SHL] = element_shl,
    [IR_SHR] = element_shr,           [IR_FMA] = element_fma,          [IR_CMP] = element_cmp,
    [IR_SELECT] = element_select,     [IR_ABS] = element_abs,          [IR_FLOOR] = element_rounding,
    [IR_CEIL] = element_rounding,     [IR_ROUND] = element_rounding,   [IR_SQRT] = element_function_of,
    [IR_RSQRT] = element_function_of, [IR_EXP2] = element_function_of, [IR_LOG2] = element_function_of,
    [IR_HINT] = element_hint,         [IR_BITCAST] = element_bitcast,  [IR_CAST] = element_cast,
};

bool kiln_element_has(ir_opcode code) { return functions[code] != NULL; }

LLVMValueRef kiln_element(const kiln_elements *e, const ir_op *op, const LLVMValueRef *x) {
  return functions[op->code] ? functions[op->code](e, op, ir_element(op->operands[0]->type), x) : NULL;
}

LLVMValueRef kiln_element_combine(const kiln_elements *e, const ir_op *op, kiln_scalar scalar, LLVMValueRef a,
                                  LLVMValueRef b) {
  ir_op both = {.code = ir_combines[op->attrs.kind].operation, .attrs = {.flags = op->attrs.flags}};
  return functions[both.code](e, &both, ir_scalar_type(scalar), (LLVMValueRef[]){a, b});
}

// --------------------------------------------------------------------------- types and lanes

void kiln_elements_set_types(kiln_elements *e, LLVMTypeRef half) {
  for (unsigned s = 0; s < KILN_SCALAR_COUNT; s++)
    e->types[s] = LLVMIntTypeInContext(e->context, kiln_scalars[s].bits);
  e->types[KILN_F16] = half;
  e->types[KILN_F32] = LLVMFloatTypeInContext(e->context);
  e->types[KILN_F64] = LLVMDoubleTypeInContext(e->context);
}

unsigned kiln_lanes_of(LLVMValueRef v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 0;
}

LLVMTypeRef kiln_type_like(LLVMTypeRef element, LLVMValueRef like) {
  unsigned lanes = kiln_lanes_of(like);
  return lanes ? LLVMVectorType(element, lanes) : element;
}

static LLVMValueRef repeat(LLVMValueRef constant, LLVMValueRef like) {
  LLVMValueRef lanes[1024];
  unsigned count = kiln_lanes_of(like);
  if (!count) return constant;
  for (unsigned i = 0; i < count; i++) lanes[i] = constant;
  return LLVMConstVector(lanes, count);
}

LLVMValueRef kiln_int_like(LLVMTypeRef element, LLVMValueRef like, uint64_t value) {
  return repeat(LLVMConstInt(element, value, false), like);
}

LLVMValueRef kiln_real_like(LLVMTypeRef element, LLVMValueRef like, double value) {
  return repeat(LLVMConstReal(element, value), like);
}
