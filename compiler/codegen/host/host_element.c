// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One elementwise operation on scalars or vectors, with exactly the meaning of compiler/ir/scalar.c.
#include "compiler/codegen/host/host.h"

#define B h->builder

typedef LLVMValueRef element_function(host *h, const ir_op *op, ir_type type, LLVMValueRef *x);

static bool is_real(ir_type type) { return ir_type_class(type) == KILN_CLASS_FLOAT; }
static bool is_unsigned(const ir_op *op, ir_type type) {
  return (op->attrs.flags & IR_UNSIGNED) || ir_type_class(type) == KILN_CLASS_BOOL;
}
static kiln_scalar scalar_of(ir_type type) { return (kiln_scalar)type.scalar; }

/// f16 and bf16 compute in f32 and round after each operation.
static kiln_scalar compute_scalar(ir_type type) { return type.scalar == KILN_F64 ? KILN_F64 : KILN_F32; }
static LLVMValueRef enter(host *h, ir_type type, LLVMValueRef x) {
  return type.scalar == KILN_F64 ? x : host_widen(h, scalar_of(type), x);
}
static LLVMValueRef leave(host *h, ir_type type, LLVMValueRef x) {
  return type.scalar == KILN_F64 ? x : host_narrow(h, scalar_of(type), x);
}
static LLVMTypeRef compute_type(host *h, ir_type type) { return h->types[compute_scalar(type)]; }

static LLVMValueRef unary_intrinsic(host *h, const char *name, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return host_intrinsic(h, name, &type, 1, &x, 1);
}

static LLVMValueRef binary_intrinsic(host *h, const char *name, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[2] = {a, b};
  return host_intrinsic(h, name, &type, 1, args, 2);
}

// -------------------------------------------------------------------------------------- arithmetic

static LLVMValueRef arithmetic(host *h, ir_type type, LLVMOpcode integer, LLVMOpcode real, LLVMValueRef *x) {
  if (!is_real(type)) return LLVMBuildBinOp(B, integer, x[0], x[1], "");
  return leave(h, type, LLVMBuildBinOp(B, real, enter(h, type, x[0]), enter(h, type, x[1]), ""));
}

static LLVMValueRef element_add(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return arithmetic(h, type, LLVMAdd, LLVMFAdd, x);
}
static LLVMValueRef element_sub(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return arithmetic(h, type, LLVMSub, LLVMFSub, x);
}
static LLVMValueRef element_mul(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return arithmetic(h, type, LLVMMul, LLVMFMul, x);
}

// 32-bit quotients are exact when computed in f64 and cut: no vector unit divides integers.
static LLVMValueRef divide_in_double(host *h, bool unsign, LLVMValueRef n, LLVMValueRef d) {
  LLVMTypeRef wide = host_like(h->f64, n), type = LLVMTypeOf(n);
  LLVMValueRef a = unsign ? LLVMBuildUIToFP(B, n, wide, "") : LLVMBuildSIToFP(B, n, wide, "");
  LLVMValueRef b = unsign ? LLVMBuildUIToFP(B, d, wide, "") : LLVMBuildSIToFP(B, d, wide, "");
  LLVMValueRef q = LLVMBuildFDiv(B, a, b, "");
  return unsign ? LLVMBuildFPToUI(B, q, type, "") : LLVMBuildFPToSI(B, q, type, "");
}

// Division never traps: x / 0 and x % 0 give 0, the least integer divided by -1 wraps.
static LLVMValueRef divide(host *h, const ir_op *op, ir_type type, LLVMValueRef *x, bool want_rest) {
  LLVMTypeRef element = h->types[type.scalar];
  bool unsign = is_unsigned(op, type);
  unsigned bits = ir_type_bits(type);
  LLVMValueRef zero = host_int(element, x[0], 0), one = host_int(element, x[0], 1);
  LLVMValueRef none = LLVMBuildICmp(B, LLVMIntEQ, x[1], zero, ""), guard = none;
  if (!unsign) {
    LLVMValueRef least =
        LLVMBuildICmp(B, LLVMIntEQ, x[0], host_int(element, x[0], (uint64_t)1 << (bits - 1)), "");
    LLVMValueRef minus = LLVMBuildICmp(B, LLVMIntEQ, x[1], host_int(element, x[0], UINT64_MAX), "");
    guard = LLVMBuildOr(B, none, LLVMBuildAnd(B, least, minus, ""), "");
  }
  LLVMValueRef d = LLVMBuildSelect(B, guard, one, x[1], ""), q;
  bool vector = host_width(x[0]) != 0 && bits <= 32 && !LLVMIsConstant(x[1]);
  if (vector) q = divide_in_double(h, unsign, x[0], d);
  else if (!want_rest) q = unsign ? LLVMBuildUDiv(B, x[0], d, "") : LLVMBuildSDiv(B, x[0], d, "");
  else q = unsign ? LLVMBuildURem(B, x[0], d, "") : LLVMBuildSRem(B, x[0], d, "");
  if (vector && want_rest) q = LLVMBuildSub(B, x[0], LLVMBuildMul(B, q, d, ""), "");
  return LLVMBuildSelect(B, none, zero, q, "");
}

static LLVMValueRef element_div(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  return is_real(type) ? arithmetic(h, type, LLVMSDiv, LLVMFDiv, x) : divide(h, op, type, x, false);
}
static LLVMValueRef element_rem(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  return divide(h, op, type, x, true);
}

// The number when one operand is NaN; -0 is less than +0, which the instructions behind minnum and maxnum
// leave open: equal operands differ at most in the sign of zero, and or (and) of the patterns picks the right
// one.
static LLVMValueRef choose_number(host *h, bool max, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a), scalar = host_width(a) ? LLVMGetElementType(type) : type;
  LLVMTypeRef bits = host_like(scalar == h->f64 ? h->i64 : h->i32, a);
  LLVMValueRef x = LLVMBuildBitCast(B, a, bits, ""), y = LLVMBuildBitCast(B, b, bits, "");
  LLVMValueRef both = max ? LLVMBuildAnd(B, x, y, "") : LLVMBuildOr(B, x, y, "");
  LLVMValueRef equal = LLVMBuildFCmp(B, LLVMRealOEQ, a, b, "");
  LLVMValueRef number = binary_intrinsic(h, max ? "llvm.maxnum" : "llvm.minnum", a, b);
  return LLVMBuildSelect(B, equal, LLVMBuildBitCast(B, both, type, ""), number, "");
}

// A constant that is a number and not zero: one comparison says all.
static bool is_plain_constant(const ir_op *op, uint32_t operand) {
  double value;
  return op->operands && ir_constant_float(op->operands[operand], &value) && value == value && value != 0;
}

static LLVMValueRef choose_constant(host *h, bool max, LLVMValueRef x, LLVMValueRef constant) {
  LLVMValueRef take = LLVMBuildFCmp(B, max ? LLVMRealOGT : LLVMRealOLT, x, constant, "");
  return LLVMBuildSelect(B, take, x, constant, "");
}

static LLVMValueRef extreme(host *h, const ir_op *op, ir_type type, LLVMValueRef *x, bool max) {
  if (is_real(type)) {
    LLVMValueRef a = enter(h, type, x[0]), b = enter(h, type, x[1]);
    bool spread = (op->attrs.flags & IR_NAN) != 0;
    if (!spread && is_plain_constant(op, 1)) return leave(h, type, choose_constant(h, max, a, b));
    if (!spread && is_plain_constant(op, 0)) return leave(h, type, choose_constant(h, max, b, a));
    return leave(h, type,
                 spread ? binary_intrinsic(h, max ? "llvm.maximum" : "llvm.minimum", a, b)
                        : choose_number(h, max, a, b));
  }
  static const char *const names[2][2] = {{"llvm.smin", "llvm.smax"}, {"llvm.umin", "llvm.umax"}};
  return binary_intrinsic(h, names[is_unsigned(op, type)][max], x[0], x[1]);
}
static LLVMValueRef element_min(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  return extreme(h, op, type, x, false);
}
static LLVMValueRef element_max(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  return extreme(h, op, type, x, true);
}

static LLVMValueRef element_mulhi(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  unsigned bits = ir_type_bits(type);
  LLVMTypeRef wide = LLVMIntTypeInContext(h->context, 2 * bits), wide_like = host_like(wide, x[0]);
  LLVMOpcode extend = is_unsigned(op, type) ? LLVMZExt : LLVMSExt;
  LLVMValueRef product = LLVMBuildMul(B, LLVMBuildCast(B, extend, x[0], wide_like, ""),
                                      LLVMBuildCast(B, extend, x[1], wide_like, ""), "");
  return LLVMBuildTrunc(B, LLVMBuildLShr(B, product, host_int(wide, x[0], bits), ""), LLVMTypeOf(x[0]), "");
}

static LLVMValueRef element_and(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op, (void)type;
  return LLVMBuildAnd(B, x[0], x[1], "");
}
static LLVMValueRef element_or(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op, (void)type;
  return LLVMBuildOr(B, x[0], x[1], "");
}
static LLVMValueRef element_xor(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op, (void)type;
  return LLVMBuildXor(B, x[0], x[1], "");
}

static LLVMValueRef shift_count(host *h, ir_type type, LLVMValueRef count) {
  return LLVMBuildAnd(B, count, host_int(h->types[type.scalar], count, ir_type_bits(type) - 1), "");
}
static LLVMValueRef element_shl(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return LLVMBuildShl(B, x[0], shift_count(h, type, x[1]), "");
}
static LLVMValueRef element_shr(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  LLVMValueRef count = shift_count(h, type, x[1]);
  return is_unsigned(op, type) ? LLVMBuildLShr(B, x[0], count, "") : LLVMBuildAShr(B, x[0], count, "");
}

static LLVMValueRef element_fma(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  LLVMTypeRef t = LLVMTypeOf(x[0]);
  (void)op, (void)type;
  return host_intrinsic(h, "llvm.fma", &t, 1, x, 3);
}

// ----------------------------------------------------------------------------- choice, one operand

static LLVMValueRef element_cmp(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  static const LLVMRealPredicate reals[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                            LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate integers[2][6] = {
      {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE},
      {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE}};
  if (is_real(type))
    return LLVMBuildFCmp(B, reals[op->attrs.kind], enter(h, type, x[0]), enter(h, type, x[1]), "");
  bool unsign = (op->attrs.flags & IR_UNSIGNED) || ir_type_class(type) != KILN_CLASS_INT;
  return LLVMBuildICmp(B, integers[unsign][op->attrs.kind], x[0], x[1], "");
}

static LLVMValueRef element_select(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op, (void)type;
  return LLVMBuildSelect(B, x[0], x[1], x[2], "");
}

static LLVMValueRef element_abs(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  if (!is_real(type)) {
    LLVMTypeRef t = LLVMTypeOf(x[0]);
    LLVMValueRef args[2] = {x[0], LLVMConstInt(h->i1, 0, false)};
    return host_intrinsic(h, "llvm.abs", &t, 1, args, 2);
  }
  if (type.scalar == KILN_F32 || type.scalar == KILN_F64) return unary_intrinsic(h, "llvm.fabs", x[0]);
  return LLVMBuildAnd(B, x[0], host_int(h->i16, x[0], 0x7fff), "");
}

static LLVMValueRef rounding(host *h, ir_type type, const char *name, LLVMValueRef x) {
  return leave(h, type, unary_intrinsic(h, name, enter(h, type, x)));
}
static LLVMValueRef element_floor(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return rounding(h, type, "llvm.floor", x[0]);
}
static LLVMValueRef element_ceil(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return rounding(h, type, "llvm.ceil", x[0]);
}
static LLVMValueRef element_round(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return rounding(h, type, "llvm.rint", x[0]);
}
static LLVMValueRef element_sqrt(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)op;
  return rounding(h, type, "llvm.sqrt", x[0]);
}

static LLVMValueRef element_hint(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  (void)h, (void)op, (void)type;
  return x[0];
}

static LLVMValueRef element_bitcast(host *h, const ir_op *op, ir_type type, LLVMValueRef *x) {
  ir_type to = ir_element(op->results[0].type);
  LLVMTypeRef want = host_like(host_element_type(h, to), x[0]);
  if (!type.pointer == !to.pointer) return LLVMBuildBitCast(B, x[0], want, "");
  LLVMTypeRef address = host_like(h->i64, x[0]);
  if (type.pointer) return LLVMBuildBitCast(B, LLVMBuildPtrToInt(B, x[0], address, ""), want, "");
  return LLVMBuildIntToPtr(B, LLVMBuildBitCast(B, x[0], address, ""), want, "");
}

// ------------------------------------------------------------------------------------------- casts

// Clears what does not fit into `keep` leading bits, so that the conversion is exact: rounding toward zero.
static LLVMValueRef cut_low_bits(host *h, ir_type from, bool unsign, unsigned keep, LLVMValueRef x) {
  LLVMTypeRef element = h->types[from.scalar], type = LLVMTypeOf(x);
  unsigned bits = ir_type_bits(from);
  if (bits <= keep) return x;
  LLVMValueRef no = LLVMConstInt(h->i1, 0, false), args[2] = {x, no};
  LLVMValueRef size = unsign ? x : host_intrinsic(h, "llvm.abs", &type, 1, args, 2);
  args[0] = size;
  LLVMValueRef used =
      LLVMBuildSub(B, host_int(element, x, bits), host_intrinsic(h, "llvm.ctlz", &type, 1, args, 2), "");
  LLVMValueRef excess = binary_intrinsic(
      h, "llvm.smax", LLVMBuildSub(B, used, host_int(element, x, keep), ""), host_int(element, x, 0));
  LLVMValueRef cut = LLVMBuildShl(B, LLVMBuildLShr(B, size, excess, ""), excess, "");
  if (unsign) return cut;
  LLVMValueRef negative = LLVMBuildICmp(B, LLVMIntSLT, x, host_int(element, x, 0), "");
  return LLVMBuildSelect(B, negative, LLVMBuildNeg(B, cut, ""), cut, "");
}

static LLVMValueRef int_to_float(host *h, const ir_op *op, ir_type from, ir_type to, LLVMValueRef x) {
  LLVMTypeRef type = host_like(h->types[to.scalar], x);
  bool unsign = is_unsigned(op, from);
  ir_round round = (ir_round)op->attrs.round;
  if (round == IR_ROUND_ZERO) x = cut_low_bits(h, from, unsign, to.scalar == KILN_F64 ? 53 : 24, x);
  LLVMValueRef value = unsign ? LLVMBuildUIToFP(B, x, type, "") : LLVMBuildSIToFP(B, x, type, "");
  return value;
}

// LLVM takes its saturating conversions apart lane by lane, so values that do not fit are replaced before and
// after a plain one. Narrow results go through i32.
static LLVMValueRef saturate(host *h, LLVMTypeRef real, unsigned bits, bool unsign, LLVMValueRef x) {
  LLVMTypeRef element = LLVMIntTypeInContext(h->context, bits), type = host_like(element, x);
  double top = unsign ? 2.0 * (double)((uint64_t)1 << (bits - 1)) : (double)((uint64_t)1 << (bits - 1)),
         bottom = unsign ? 0 : -top;
  uint64_t most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1,
           least = unsign ? 0 : (uint64_t)1 << (bits - 1);
  if (!unsign) most >>= 1;
  LLVMValueRef over = LLVMBuildFCmp(B, LLVMRealOGE, x, host_real(real, x, top), "");
  LLVMValueRef under = LLVMBuildFCmp(B, LLVMRealOLT, x, host_real(real, x, bottom), "");
  LLVMValueRef number = LLVMBuildFCmp(B, LLVMRealORD, x, x, "");
  LLVMValueRef fits = LLVMBuildAnd(B, number, LLVMBuildNot(B, LLVMBuildOr(B, over, under, ""), ""), "");
  LLVMValueRef safe = LLVMBuildSelect(B, fits, x, host_real(real, x, 0), "");
  LLVMValueRef y = unsign ? LLVMBuildFPToUI(B, safe, type, "") : LLVMBuildFPToSI(B, safe, type, "");
  y = LLVMBuildSelect(B, over, host_int(element, x, most), y, "");
  return LLVMBuildSelect(B, under, host_int(element, x, least), y, "");
}

static LLVMValueRef float_to_int(host *h, const ir_op *op, ir_type from, ir_type to, LLVMValueRef x) {
  LLVMTypeRef real = compute_type(h, from);
  bool unsign = (op->attrs.flags & IR_UNSIGNED) != 0;
  unsigned bits = ir_type_bits(to);
  LLVMValueRef value = enter(h, from, x);
  if (ir_type_class(to) == KILN_CLASS_BOOL)
    return LLVMBuildFCmp(B, LLVMRealUNE, value, host_real(real, x, 0), "");
  if (bits >= 32) return saturate(h, real, bits, unsign, value);
  LLVMValueRef wide = saturate(h, real, 32, false, value);
  uint64_t most = ((uint64_t)1 << (unsign ? bits : bits - 1)) - 1,
           least = unsign ? 0 : UINT64_MAX << (bits - 1);
  wide = binary_intrinsic(h, "llvm.smin", wide, host_int(h->i32, x, most));
  wide = binary_intrinsic(h, "llvm.smax", wide, host_int(h->i32, x, least));
  return LLVMBuildTrunc(B, wide, host_like(h->types[to.scalar], x), "");
}

static LLVMValueRef int_to_int(host *h, const ir_op *op, ir_type from, ir_type to, LLVMValueRef x) {
  LLVMTypeRef type = host_like(h->types[to.scalar], x);
  if (to.scalar == KILN_I1) return LLVMBuildICmp(B, LLVMIntNE, x, host_int(h->types[from.scalar], x, 0), "");
  if (ir_type_bits(to) <= ir_type_bits(from)) return LLVMBuildTruncOrBitCast(B, x, type, "");
  return is_unsigned(op, from) ? LLVMBuildZExt(B, x, type, "") : LLVMBuildSExt(B, x, type, "");
}

static LLVMValueRef element_cast(host *h, const ir_op *op, ir_type from, LLVMValueRef *x) {
  enum { INTEGRAL = KILN_CLASS_BOOL | KILN_CLASS_INT };
  ir_type to = ir_element(op->results[0].type);
  bool from_int = ir_type_class(from) & INTEGRAL, to_int = ir_type_class(to) & INTEGRAL;
  if (from.scalar == to.scalar) return x[0];
  if (from_int) return to_int ? int_to_int(h, op, from, to, x[0]) : int_to_float(h, op, from, to, x[0]);
  if (to_int) return float_to_int(h, op, from, to, x[0]);
  return host_float_cast(h, scalar_of(from), scalar_of(to), (ir_round)op->attrs.round, x[0]);
}

// --------------------------------------------------------------------------------------- the table

static element_function *const functions[IR_OPCODE_COUNT] = {
    [IR_ADD] = element_add,       [IR_SUB] = element_sub,         [IR_MUL] = element_mul,
    [IR_DIV] = element_div,       [IR_REM] = element_rem,         [IR_MIN] = element_min,
    [IR_MAX] = element_max,       [IR_MULHI] = element_mulhi,     [IR_AND] = element_and,
    [IR_OR] = element_or,         [IR_XOR] = element_xor,         [IR_SHL] = element_shl,
    [IR_SHR] = element_shr,       [IR_FMA] = element_fma,         [IR_CMP] = element_cmp,
    [IR_SELECT] = element_select, [IR_ABS] = element_abs,         [IR_FLOOR] = element_floor,
    [IR_CEIL] = element_ceil,     [IR_ROUND] = element_round,     [IR_SQRT] = element_sqrt,
    [IR_HINT] = element_hint,     [IR_BITCAST] = element_bitcast, [IR_CAST] = element_cast,
};

bool host_is_elementwise(ir_opcode code) { return functions[code] != NULL; }

LLVMValueRef host_element(host *h, const ir_op *op, LLVMValueRef *x) {
  return functions[op->code](h, op, ir_element(op->operands[0]->type), x);
}

LLVMValueRef host_combine(host *h, ir_combine kind, ir_type type, uint32_t flags, LLVMValueRef a,
                          LLVMValueRef b) {
  LLVMValueRef x[2] = {a, b};
  ir_op op = {.code = ir_combines[kind].operation, .attrs = {.flags = flags}};
  return functions[op.code](h, &op, ir_element(type), x);
}
