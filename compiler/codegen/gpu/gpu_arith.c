// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operations on one element. f16 and bf16 compute in f32 and round after each operation; LLVM is
// never given permission to contract.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

static LLVMValueRef intrinsic(gpu *g, const char *name, LLVMTypeRef overload, LLVMValueRef *arguments,
                              unsigned count) {
  return gpu_intrinsic(g, name, &overload, 1, arguments, count);
}

static LLVMValueRef call(gpu *g, kl_function function, LLVMValueRef a) {
  return kl_call(&g->prelude, g->builder, function, &a, 1);
}

static bool is_float(kiln_scalar s) { return kiln_scalars[s].type_class == KILN_CLASS_FLOAT; }
static bool is_narrow(kiln_scalar s) { return s == KILN_F16 || s == KILN_BF16; }
static LLVMValueRef integer(gpu *g, kiln_scalar s, uint64_t value) {
  return LLVMConstInt(gpu_scalar_type(g, s), value, true);
}

// ------------------------------------------------------------------------------------- conversions

LLVMValueRef gpu_to_f32(gpu *g, kiln_scalar from, LLVMValueRef value) {
  switch (from) {
  case KILN_F16: return LLVMBuildFPExt(g->builder, value, g->f32, "");
  case KILN_BF16: return call(g, KL_kl_bf16_to_f32, value);
  case KILN_F64: return LLVMBuildFPTrunc(g->builder, value, g->f32, "");
  case KILN_E4M3: return call(g, KL_kl_e4m3_to_f32, value);
  case KILN_E5M2: return call(g, KL_kl_e5m2_to_f32, value);
  default: return value;
  }
}

LLVMValueRef gpu_from_f32(gpu *g, kiln_scalar to, LLVMValueRef value) {
  switch (to) {
  case KILN_F16: return LLVMBuildFPTrunc(g->builder, value, g->half, "");
  case KILN_BF16: return call(g, KL_kl_f32_to_bf16, value);
  case KILN_F64: return LLVMBuildFPExt(g->builder, value, g->f64, "");
  case KILN_E4M3: return call(g, KL_kl_f32_to_e4m3, value);
  case KILN_E5M2: return call(g, KL_kl_f32_to_e5m2, value);
  default: return value;
  }
}

/// f64 to f32 so that a later rounding to a narrower type is right: to odd, that is the last bit is set when
/// anything was lost.
static LLVMValueRef f64_to_odd(gpu *g, LLVMValueRef value) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef near = LLVMBuildFPTrunc(b, value, g->f32, ""), back = LLVMBuildFPExt(b, near, g->f64, "");
  LLVMValueRef bits = LLVMBuildBitCast(b, near, g->i32, "");
  LLVMValueRef arguments[1] = {value}, back_arguments[1] = {back};
  LLVMValueRef size = intrinsic(g, "llvm.fabs", g->f64, arguments, 1),
               back_size = intrinsic(g, "llvm.fabs", g->f64, back_arguments, 1);
  LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGT, back_size, size, ""),
               lost = LLVMBuildFCmp(b, LLVMRealONE, back, value, "");
  LLVMValueRef down = LLVMBuildSub(b, bits, LLVMBuildZExt(b, above, g->i32, ""), "");
  LLVMValueRef odd = LLVMBuildOr(b, down, LLVMBuildZExt(b, lost, g->i32, ""), "");
  return LLVMBuildBitCast(b, odd, g->f32, "");
}

static LLVMValueRef float_to_fp8(gpu *g, kiln_scalar to, uint32_t flags, LLVMValueRef f32) {
  if (!(flags & IR_SATURATE_OFF)) return gpu_from_f32(g, to, f32);
  return call(g, to == KILN_E4M3 ? KL_kl_f32_to_e4m3_nosat : KL_kl_f32_to_e5m2_nosat, f32);
}

static LLVMValueRef float_to_float(gpu *g, kiln_scalar from, kiln_scalar to, uint32_t flags, unsigned round,
                                   LLVMValueRef value) {
  if (from == to) return value;
  bool towards_zero = round == IR_ROUND_ZERO;
  if (to == KILN_F64)
    return LLVMBuildFPExt(g->builder, from == KILN_F64 ? value : gpu_to_f32(g, from, value), g->f64, "");
  if (from == KILN_F64 && to == KILN_F32)
    return towards_zero ? call(g, KL_kl_f64_to_f32_rz, value) : gpu_to_f32(g, from, value);
  LLVMValueRef f32 = from != KILN_F64 ? gpu_to_f32(g, from, value)
                     : towards_zero   ? call(g, KL_kl_f64_to_f32_rz, value)
                                      : f64_to_odd(g, value);
  if (kiln_scalars[to].type_class == KILN_CLASS_FP8) return float_to_fp8(g, to, flags, f32);
  if (towards_zero && to == KILN_F16) return call(g, KL_kl_f32_to_f16_rz, f32);
  if (towards_zero && to == KILN_BF16) return call(g, KL_kl_f32_to_bf16_rz, f32);
  return gpu_from_f32(g, to, f32);
}

static LLVMValueRef float_to_int(gpu *g, kiln_scalar from, kiln_scalar to, uint32_t flags,
                                 LLVMValueRef value) {
  LLVMValueRef wide = from == KILN_F64 ? value : gpu_to_f32(g, from, value);
  LLVMTypeRef types[2] = {gpu_scalar_type(g, to), LLVMTypeOf(wide)};
  if (to == KILN_I1) return LLVMBuildFCmp(g->builder, LLVMRealUNE, wide, LLVMConstReal(types[1], 0), "");
  const char *name = flags & IR_UNSIGNED ? "llvm.fptoui.sat" : "llvm.fptosi.sat";
  return gpu_intrinsic(g, name, types, 2, &wide, 1);
}

/// f32 from an integer, towards zero: nearest, then one step back when that went past. Works on magnitudes.
static LLVMValueRef int_to_float_rz(gpu *g, LLVMTypeRef type, LLVMTypeRef bits_type, bool is_unsigned,
                                    LLVMValueRef value) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef zero = LLVMConstInt(g->i64, 0, false);
  LLVMValueRef wide = is_unsigned ? LLVMBuildZExt(b, value, g->i64, "") : LLVMBuildSExt(b, value, g->i64, "");
  LLVMValueRef negative = is_unsigned ? gpu_i1(g, false) : LLVMBuildICmp(b, LLVMIntSLT, wide, zero, "");
  LLVMValueRef size = LLVMBuildSelect(b, negative, LLVMBuildNeg(b, wide, ""), wide, "");
  LLVMValueRef near = LLVMBuildUIToFP(b, size, type, "");
  LLVMTypeRef types[2] = {g->i64, type};
  LLVMValueRef back = gpu_intrinsic(g, "llvm.fptoui.sat", types, 2, &near, 1);
  LLVMValueRef top = LLVMBuildFCmp(b, LLVMRealOGE, near, LLVMConstReal(type, 0x1p64), "");
  LLVMValueRef above = LLVMBuildOr(b, top, LLVMBuildICmp(b, LLVMIntUGT, back, size, ""), "");
  LLVMValueRef bits =
      LLVMBuildSub(b, LLVMBuildBitCast(b, near, bits_type, ""), LLVMBuildZExt(b, above, bits_type, ""), "");
  LLVMValueRef positive = LLVMBuildBitCast(b, bits, type, "");
  return LLVMBuildSelect(b, negative, LLVMBuildFNeg(b, positive, ""), positive, "");
}

static LLVMValueRef int_to_float(gpu *g, kiln_scalar from, kiln_scalar to, uint32_t flags, unsigned round,
                                 LLVMValueRef value) {
  bool is_unsigned = (flags & IR_UNSIGNED) || from == KILN_I1;
  LLVMTypeRef type = to == KILN_F64 ? g->f64 : g->f32;
  LLVMValueRef f;
  if (round == IR_ROUND_ZERO)
    f = int_to_float_rz(g, type, to == KILN_F64 ? g->i64 : g->i32, is_unsigned, value);
  else
    f = is_unsigned ? LLVMBuildUIToFP(g->builder, value, type, "")
                    : LLVMBuildSIToFP(g->builder, value, type, "");
  return to == KILN_F64 || to == KILN_F32 ? f : float_to_float(g, KILN_F32, to, flags, round, f);
}

static LLVMValueRef int_to_int(gpu *g, kiln_scalar from, kiln_scalar to, uint32_t flags, LLVMValueRef value) {
  unsigned have = kiln_scalars[from].bits, need = kiln_scalars[to].bits;
  LLVMTypeRef type = gpu_scalar_type(g, to);
  if (to == KILN_I1) return LLVMBuildICmp(g->builder, LLVMIntNE, value, integer(g, from, 0), "");
  if (have == need) return value;
  if (have > need) return LLVMBuildTrunc(g->builder, value, type, "");
  return (flags & IR_UNSIGNED) || from == KILN_I1 ? LLVMBuildZExt(g->builder, value, type, "")
                                                  : LLVMBuildSExt(g->builder, value, type, "");
}

LLVMValueRef gpu_cast(gpu *g, kiln_scalar from, kiln_scalar to, uint32_t flags, unsigned round,
                      LLVMValueRef value) {
  enum { INTEGRAL = KILN_CLASS_BOOL | KILN_CLASS_INT };
  bool is_int = kiln_scalars[from].type_class & INTEGRAL, to_int = kiln_scalars[to].type_class & INTEGRAL;
  if (is_int)
    return to_int ? int_to_int(g, from, to, flags, value) : int_to_float(g, from, to, flags, round, value);
  return to_int ? float_to_int(g, from, to, flags, value) : float_to_float(g, from, to, flags, round, value);
}

static LLVMValueRef bitcast(gpu *g, ir_type from, ir_type to, LLVMValueRef value) {
  if (from.pointer && to.pointer) return value;
  if (from.pointer) return LLVMBuildPtrToInt(g->builder, value, g->i64, "");
  if (to.pointer) return LLVMBuildIntToPtr(g->builder, value, g->global_pointer, "");
  return LLVMBuildBitCast(g->builder, value, gpu_type(g, to), "");
}

// ---------------------------------------------------------------------------------------- integers

/// Division that never traps: a divisor of 0 or (signed) -1 is replaced, -1 is answered by negation.
static LLVMValueRef int_div(gpu *g, kiln_scalar s, bool is_unsigned, bool is_rem, LLVMValueRef a,
                            LLVMValueRef d) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef zero = integer(g, s, 0), one = integer(g, s, 1), all = integer(g, s, (uint64_t)-1);
  LLVMValueRef bad = LLVMBuildICmp(b, LLVMIntEQ, d, zero, "");
  LLVMOpcode code = is_unsigned ? (is_rem ? LLVMURem : LLVMUDiv) : (is_rem ? LLVMSRem : LLVMSDiv);
  if (is_unsigned) return LLVMBuildBinOp(b, code, a, LLVMBuildSelect(b, bad, one, d, ""), "");
  LLVMValueRef minus = LLVMBuildICmp(b, LLVMIntEQ, d, all, "");
  LLVMValueRef safe = LLVMBuildSelect(b, LLVMBuildOr(b, bad, minus, ""), one, d, "");
  LLVMValueRef plain = LLVMBuildBinOp(b, code, a, safe, "");
  return LLVMBuildSelect(b, minus, is_rem ? zero : LLVMBuildNeg(b, a, ""), plain, "");
}

static LLVMValueRef int_mulhi(gpu *g, kiln_scalar s, bool is_unsigned, LLVMValueRef a, LLVMValueRef b) {
  unsigned bits = kiln_scalars[s].bits;
  LLVMTypeRef wide = LLVMIntTypeInContext(g->context, 2 * bits);
  LLVMValueRef x =
      is_unsigned ? LLVMBuildZExt(g->builder, a, wide, "") : LLVMBuildSExt(g->builder, a, wide, "");
  LLVMValueRef y =
      is_unsigned ? LLVMBuildZExt(g->builder, b, wide, "") : LLVMBuildSExt(g->builder, b, wide, "");
  LLVMValueRef high =
      LLVMBuildLShr(g->builder, LLVMBuildMul(g->builder, x, y, ""), LLVMConstInt(wide, bits, false), "");
  return LLVMBuildTrunc(g->builder, high, gpu_scalar_type(g, s), "");
}

static LLVMValueRef int_binary(gpu *g, ir_opcode code, kiln_scalar s, uint32_t flags, LLVMValueRef a,
                               LLVMValueRef b) {
  LLVMBuilderRef builder = g->builder;
  bool is_unsigned = (flags & IR_UNSIGNED) || s == KILN_I1;
  LLVMValueRef arguments[2] = {a, b};
  LLVMValueRef count = code == IR_SHL || code == IR_SHR
                           ? LLVMBuildAnd(builder, b, integer(g, s, kiln_scalars[s].bits - 1u), "")
                           : NULL;
  switch (code) {
  case IR_ADD: return LLVMBuildAdd(builder, a, b, "");
  case IR_SUB: return LLVMBuildSub(builder, a, b, "");
  case IR_MUL: return LLVMBuildMul(builder, a, b, "");
  case IR_DIV: return int_div(g, s, is_unsigned, false, a, b);
  case IR_REM: return int_div(g, s, is_unsigned, true, a, b);
  case IR_MIN:
    return intrinsic(g, is_unsigned ? "llvm.umin" : "llvm.smin", gpu_scalar_type(g, s), arguments, 2);
  case IR_MAX:
    return intrinsic(g, is_unsigned ? "llvm.umax" : "llvm.smax", gpu_scalar_type(g, s), arguments, 2);
  case IR_MULHI: return int_mulhi(g, s, is_unsigned, a, b);
  case IR_AND: return LLVMBuildAnd(builder, a, b, "");
  case IR_OR: return LLVMBuildOr(builder, a, b, "");
  case IR_XOR: return LLVMBuildXor(builder, a, b, "");
  case IR_SHL: return LLVMBuildShl(builder, a, count, "");
  case IR_SHR:
    return is_unsigned ? LLVMBuildLShr(builder, a, count, "") : LLVMBuildAShr(builder, a, count, "");
  default: return NULL;
  }
}

// ------------------------------------------------------------------------------------------ floats

static LLVMValueRef choose(gpu *g, const char *name, uint32_t flags, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef arguments[2] = {a, b};
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef number = intrinsic(g, name, type, arguments, 2);
  if (!(flags & IR_NAN)) return number;
  LLVMValueRef is_nan = LLVMBuildFCmp(g->builder, LLVMRealUNO, a, b, "");
  return LLVMBuildSelect(g->builder, is_nan, LLVMConstReal(type, __builtin_nan("")), number, "");
}

static LLVMValueRef divide(gpu *g, uint32_t flags, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef arguments[2] = {a, b};
  if (LLVMTypeOf(a) == g->f64) return LLVMBuildFDiv(g->builder, a, b, "");
  return kl_call(&g->prelude, g->builder, flags & IR_PRECISE ? KL_kl_div_rn_f32 : KL_kl_div_f32, arguments,
                 2);
}

/// On f32 or f64.
static LLVMValueRef float_binary(gpu *g, ir_opcode code, uint32_t flags, LLVMValueRef a, LLVMValueRef b) {
  switch (code) {
  case IR_ADD: return LLVMBuildFAdd(g->builder, a, b, "");
  case IR_SUB: return LLVMBuildFSub(g->builder, a, b, "");
  case IR_MUL: return LLVMBuildFMul(g->builder, a, b, "");
  case IR_DIV: return divide(g, flags, a, b);
  case IR_REM: return LLVMBuildFRem(g->builder, a, b, "");
  case IR_MIN: return choose(g, "llvm.minnum", flags, a, b);
  case IR_MAX: return choose(g, "llvm.maxnum", flags, a, b);
  default: return NULL;
  }
}

static LLVMValueRef square_root(gpu *g, ir_opcode code, uint32_t flags, LLVMValueRef a) {
  bool is_double = LLVMTypeOf(a) == g->f64;
  LLVMValueRef root;
  if (!is_double && code == IR_RSQRT) return call(g, KL_kl_rsqrt_f32, a);
  if (!is_double) return call(g, flags & IR_PRECISE ? KL_kl_sqrt_rn_f32 : KL_kl_sqrt_f32, a);
  root = intrinsic(g, "llvm.sqrt", g->f64, &a, 1);
  return code == IR_SQRT ? root : LLVMBuildFDiv(g->builder, LLVMConstReal(g->f64, 1), root, "");
}

static LLVMValueRef float_unary(gpu *g, ir_opcode code, uint32_t flags, LLVMValueRef a) {
  LLVMTypeRef type = LLVMTypeOf(a);
  bool is_single = type == g->f32;
  switch (code) {
  case IR_ABS: return intrinsic(g, "llvm.fabs", type, &a, 1);
  case IR_FLOOR: return intrinsic(g, "llvm.floor", type, &a, 1);
  case IR_CEIL: return intrinsic(g, "llvm.ceil", type, &a, 1);
  case IR_ROUND: return intrinsic(g, "llvm.roundeven", type, &a, 1);
  case IR_SQRT:
  case IR_RSQRT: return square_root(g, code, flags, a);
  case IR_EXP2: return is_single ? call(g, flags & IR_FTZ ? KL_kl_ex2_ftz_f32 : KL_kl_ex2_f32, a) : NULL;
  case IR_LOG2: return is_single ? call(g, KL_kl_lg2_f32, a) : NULL;
  default: return NULL;
  }
}

/// Operands widened to f32 (f64 stays), computed, rounded back.
static LLVMValueRef float_op(gpu *g, ir_opcode code, kiln_scalar s, uint32_t flags,
                             const LLVMValueRef *operands, unsigned count) {
  LLVMValueRef wide[3] = {NULL}, result;
  for (unsigned i = 0; i < count; i++) wide[i] = is_narrow(s) ? gpu_to_f32(g, s, operands[i]) : operands[i];
  if (count == 1) result = float_unary(g, code, flags, wide[0]);
  else if (count == 2) result = float_binary(g, code, flags, wide[0], wide[1]);
  else result = intrinsic(g, "llvm.fma", LLVMTypeOf(wide[0]), wide, 3);
  return result && is_narrow(s) ? gpu_from_f32(g, s, result) : result;
}

// -------------------------------------------------------------------------------------- operations

static LLVMValueRef compare(gpu *g, const ir_op *op, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate real[] = {
      [IR_EQ] = LLVMRealOEQ, [IR_NE] = LLVMRealUNE, [IR_LT] = LLVMRealOLT,
      [IR_LE] = LLVMRealOLE, [IR_GT] = LLVMRealOGT, [IR_GE] = LLVMRealOGE};
  static const LLVMIntPredicate with_sign[] = {
      [IR_EQ] = LLVMIntEQ,  [IR_NE] = LLVMIntNE,  [IR_LT] = LLVMIntSLT,
      [IR_LE] = LLVMIntSLE, [IR_GT] = LLVMIntSGT, [IR_GE] = LLVMIntSGE};
  static const LLVMIntPredicate without[] = {
      [IR_EQ] = LLVMIntEQ,  [IR_NE] = LLVMIntNE,  [IR_LT] = LLVMIntULT,
      [IR_LE] = LLVMIntULE, [IR_GT] = LLVMIntUGT, [IR_GE] = LLVMIntUGE};
  ir_type type = op->operands[0]->type;
  kiln_scalar s = type.scalar;
  if (type.pointer || !is_float(s)) {
    bool is_unsigned = type.pointer || (op->attrs.flags & IR_UNSIGNED) || s == KILN_I1;
    return LLVMBuildICmp(g->builder, (is_unsigned ? without : with_sign)[op->attrs.kind], a, b, "");
  }
  if (is_narrow(s)) a = gpu_to_f32(g, s, a), b = gpu_to_f32(g, s, b);
  return LLVMBuildFCmp(g->builder, real[op->attrs.kind], a, b, "");
}

static LLVMValueRef pointer_add(gpu *g, const ir_op *op, LLVMValueRef pointer, LLVMValueRef offset) {
  ir_type pointee = ir_pointee(ir_element(op->operands[0]->type));
  LLVMTypeRef element = pointee.pointer ? g->i64 : gpu_scalar_type(g, pointee.scalar);
  if (!pointee.pointer && pointee.scalar == KILN_I1) element = g->i8;
  if (LLVMTypeOf(offset) != g->i64) offset = LLVMBuildSExt(g->builder, offset, g->i64, "");
  return LLVMBuildGEP2(g->builder, element, pointer, &offset, 1, "");
}

static LLVMValueRef int_abs(gpu *g, kiln_scalar s, LLVMValueRef a) {
  LLVMValueRef arguments[2] = {a, gpu_i1(g, false)};
  return intrinsic(g, "llvm.abs", gpu_scalar_type(g, s), arguments, 2);
}

static LLVMValueRef unsupported(gpu *g, const ir_op *op) {
  char text[IR_TYPE_TEXT];
  gpu_fail_at(
      g, op, KILN_STATUS_UNSUPPORTED, "operation %u: %s on %s is not supported on %s", ir_operation(op),
      ir_ops[op->code].text,
      ir_type_text(op->operand_count ? ir_element(op->operands[0]->type) : ir_element(op->results[0].type),
                   text),
      g->machine->name);
  return LLVMGetPoison(gpu_type(g, ir_element(op->results[0].type)));
}

/// A sum, difference or product of two bounds; false where that is more than 64 bits hold.
static bool bound(ir_opcode code, int64_t a, int64_t b, int64_t *out) {
  switch (code) {
  case IR_ADD: return !__builtin_add_overflow(a, b, out);
  case IR_SUB: return !__builtin_sub_overflow(a, b, out);
  default: return code == IR_MUL && !__builtin_mul_overflow(a, b, out);
  }
}

/// Tells LLVM of a result that the facts keep within its type: an index that does not wrap may be widened,
/// and then addresses of neighbours differ by constants.
static LLVMValueRef without_wrap(gpu *g, const ir_op *op, LLVMValueRef result) {
  const kiln_fact *a = kiln_fact_of(g->layouts->facts, op->operands[0]),
                  *b = kiln_fact_of(g->layouts->facts, op->operands[1]);
  const int64_t least = INT64_MIN >> (64 - ir_type_bits(op->results[0].type)),
                bounds[4][2] = {{a->lo, b->lo}, {a->lo, b->hi}, {a->hi, b->lo}, {a->hi, b->hi}};
  if (!LLVMIsABinaryOperator(result)) return result; // it was folded
  for (unsigned i = 0; i < 4; i++) {
    int64_t end;
    if (!bound(op->code, bounds[i][0], bounds[i][1], &end) || end < least || end > ~least) return result;
  }
  LLVMSetNSW(result, true);
  if (op->code != IR_SUB && a->lo >= 0 && b->lo >= 0) LLVMSetNUW(result, true);
  return result;
}

static LLVMValueRef element(gpu *g, const ir_op *op, const LLVMValueRef *v) {
  ir_type type = op->operands[0]->type, result = op->results[0].type;
  kiln_scalar s = type.scalar;
  switch (op->code) {
  case IR_CMP: return compare(g, op, v[0], v[1]);
  case IR_SELECT: return LLVMBuildSelect(g->builder, v[0], v[1], v[2], "");
  case IR_CAST: return gpu_cast(g, s, result.scalar, op->attrs.flags, op->attrs.round, v[0]);
  case IR_BITCAST: return bitcast(g, type, result, v[0]);
  case IR_HINT: return v[0];
  case IR_PTRADD: return pointer_add(g, op, v[0], v[1]);
  default: break;
  }
  if (is_float(s)) return float_op(g, op->code, s, op->attrs.flags, v, op->operand_count);
  if (op->code == IR_ABS) return int_abs(g, s, v[0]);
  if (op->operand_count != 2) return NULL;
  LLVMValueRef both = int_binary(g, op->code, s, op->attrs.flags, v[0], v[1]);
  bool is_sum = op->code == IR_ADD || op->code == IR_SUB || op->code == IR_MUL;
  return is_sum && s != KILN_I1 ? without_wrap(g, op, both) : both;
}

LLVMValueRef gpu_element(gpu *g, const ir_op *op, const LLVMValueRef *operands) {
  LLVMValueRef result = element(g, op, operands);
  return result ? result : unsupported(g, op);
}

LLVMValueRef gpu_combine(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef operands[2] = {a, b};
  ir_opcode code = ir_combines[op->attrs.kind].operation;
  if (is_float(scalar)) return float_op(g, code, scalar, op->attrs.flags, operands, 2);
  return int_binary(g, code, scalar, op->attrs.flags, a, b);
}
