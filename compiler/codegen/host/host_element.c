// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the host does what machines do in ways of their own (compiler/codegen/llvm/llvm_element.h): division,
// minimum and maximum, saturating conversions, in forms that vector units have.
#include "compiler/codegen/host/host.h"

#define B h->builder

static LLVMValueRef intrinsic(const kiln_elements *e, const char *name, LLVMTypeRef type,
                              const LLVMValueRef *arguments, unsigned count) {
  return host_intrinsic(e->owner, name, &type, 1, (LLVMValueRef *)arguments, count);
}

static LLVMValueRef binary_intrinsic(host *h, const char *name, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[2] = {a, b};
  return host_intrinsic(h, name, &type, 1, args, 2);
}

static LLVMValueRef widen(const kiln_elements *e, kiln_scalar from, LLVMValueRef x) {
  return host_widen(e->owner, from, x);
}

static LLVMValueRef narrow(const kiln_elements *e, kiln_scalar to, LLVMValueRef x) {
  return host_narrow(e->owner, to, x);
}

static LLVMValueRef float_cast(const kiln_elements *e, kiln_scalar from, kiln_scalar to, const ir_attrs *how,
                               LLVMValueRef x) {
  return host_float_cast(e->owner, from, to, (ir_round)how->round, x);
}

// -------------------------------------------------------------------------------------- division

// 32-bit quotients are exact when computed in f64 and cut: no vector unit divides integers.
static LLVMValueRef divide_in_double(host *h, bool unsign, LLVMValueRef n, LLVMValueRef d) {
  LLVMTypeRef wide = kiln_type_like(h->f64, n), type = LLVMTypeOf(n);
  LLVMValueRef a = unsign ? LLVMBuildUIToFP(B, n, wide, "") : LLVMBuildSIToFP(B, n, wide, "");
  LLVMValueRef b = unsign ? LLVMBuildUIToFP(B, d, wide, "") : LLVMBuildSIToFP(B, d, wide, "");
  LLVMValueRef q = LLVMBuildFDiv(B, a, b, "");
  return unsign ? LLVMBuildFPToUI(B, q, type, "") : LLVMBuildFPToSI(B, q, type, "");
}

// Division never traps: x / 0 and x % 0 give 0, the least integer divided by -1 wraps.
static LLVMValueRef divide_integers(const kiln_elements *e, kiln_scalar scalar, bool unsign, bool want_rest,
                                    LLVMValueRef a, LLVMValueRef b) {
  host *h = e->owner;
  LLVMTypeRef element = e->types[scalar];
  unsigned bits = kiln_scalars[scalar].bits;
  LLVMValueRef zero = kiln_int_like(element, a, 0), one = kiln_int_like(element, a, 1);
  LLVMValueRef none = LLVMBuildICmp(B, LLVMIntEQ, b, zero, ""), guard = none;
  if (!unsign) {
    LLVMValueRef least =
        LLVMBuildICmp(B, LLVMIntEQ, a, kiln_int_like(element, a, (uint64_t)1 << (bits - 1)), "");
    LLVMValueRef minus = LLVMBuildICmp(B, LLVMIntEQ, b, kiln_int_like(element, a, UINT64_MAX), "");
    guard = LLVMBuildOr(B, none, LLVMBuildAnd(B, least, minus, ""), "");
  }
  LLVMValueRef d = LLVMBuildSelect(B, guard, one, b, ""), q;
  bool vector = kiln_lanes_of(a) != 0 && bits <= 32 && !LLVMIsConstant(b);
  if (vector) q = divide_in_double(h, unsign, a, d);
  else if (!want_rest) q = unsign ? LLVMBuildUDiv(B, a, d, "") : LLVMBuildSDiv(B, a, d, "");
  else q = unsign ? LLVMBuildURem(B, a, d, "") : LLVMBuildSRem(B, a, d, "");
  if (vector && want_rest) q = LLVMBuildSub(B, a, LLVMBuildMul(B, q, d, ""), "");
  return LLVMBuildSelect(B, none, zero, q, "");
}

static LLVMValueRef divide(const kiln_elements *e, const ir_attrs *how, LLVMValueRef a, LLVMValueRef b) {
  (void)how;
  return LLVMBuildFDiv(e->builder, a, b, "");
}

// ------------------------------------------------------------------------------ minimum, maximum

// The number when one operand is NaN; -0 is less than +0, which the instructions of minnum and maxnum
// leave open: equal operands differ at most in the sign of zero, and or (and) of the patterns picks the right
// one.
static LLVMValueRef choose_number(host *h, bool max, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a), scalar = kiln_lanes_of(a) ? LLVMGetElementType(type) : type;
  LLVMTypeRef bits = kiln_type_like(scalar == h->f64 ? h->i64 : h->i32, a);
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

static LLVMValueRef extreme(const kiln_elements *e, const ir_op *op, bool max, LLVMValueRef a,
                            LLVMValueRef b) {
  host *h = e->owner;
  if (op->attrs.flags & IR_NAN) return binary_intrinsic(h, max ? "llvm.maximum" : "llvm.minimum", a, b);
  if (is_plain_constant(op, 1)) return choose_constant(h, max, a, b);
  if (is_plain_constant(op, 0)) return choose_constant(h, max, b, a);
  return choose_number(h, max, a, b);
}

// ---------------------------------------------------------------------------- floats to integers

// LLVM takes its saturating conversions apart lane by lane, so values that do not fit are replaced before and
// after a plain one. Narrow results go through i32.
static LLVMValueRef saturate(host *h, LLVMTypeRef real, unsigned bits, bool unsign, LLVMValueRef x) {
  LLVMTypeRef element = LLVMIntTypeInContext(h->context, bits), type = kiln_type_like(element, x);
  double top = unsign ? 2.0 * (double)((uint64_t)1 << (bits - 1)) : (double)((uint64_t)1 << (bits - 1)),
         bottom = unsign ? 0 : -top;
  uint64_t most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1,
           least = unsign ? 0 : (uint64_t)1 << (bits - 1);
  if (!unsign) most >>= 1;
  LLVMValueRef over = LLVMBuildFCmp(B, LLVMRealOGE, x, kiln_real_like(real, x, top), "");
  LLVMValueRef under = LLVMBuildFCmp(B, LLVMRealOLT, x, kiln_real_like(real, x, bottom), "");
  LLVMValueRef number = LLVMBuildFCmp(B, LLVMRealORD, x, x, "");
  LLVMValueRef fits = LLVMBuildAnd(B, number, LLVMBuildNot(B, LLVMBuildOr(B, over, under, ""), ""), "");
  LLVMValueRef safe = LLVMBuildSelect(B, fits, x, kiln_real_like(real, x, 0), "");
  LLVMValueRef y = unsign ? LLVMBuildFPToUI(B, safe, type, "") : LLVMBuildFPToSI(B, safe, type, "");
  y = LLVMBuildSelect(B, over, kiln_int_like(element, x, most), y, "");
  return LLVMBuildSelect(B, under, kiln_int_like(element, x, least), y, "");
}

static LLVMValueRef float_to_int(const kiln_elements *e, kiln_scalar to, bool unsign, LLVMValueRef x) {
  host *h = e->owner;
  LLVMTypeRef type = LLVMTypeOf(x), real = kiln_lanes_of(x) ? LLVMGetElementType(type) : type;
  unsigned bits = kiln_scalars[to].bits;
  if (bits >= 32) return saturate(h, real, bits, unsign, x);
  LLVMValueRef wide = saturate(h, real, 32, false, x);
  uint64_t most = ((uint64_t)1 << (unsign ? bits : bits - 1)) - 1,
           least = unsign ? 0 : UINT64_MAX << (bits - 1);
  wide = binary_intrinsic(h, "llvm.smin", wide, kiln_int_like(h->i32, x, most));
  wide = binary_intrinsic(h, "llvm.smax", wide, kiln_int_like(h->i32, x, least));
  return LLVMBuildTrunc(B, wide, kiln_type_like(e->types[to], x), "");
}

/// The others are expanded (compiler/passes/lower/legality.def).
static LLVMValueRef function(const kiln_elements *e, ir_opcode code, const ir_attrs *how, LLVMValueRef x) {
  (void)how;
  return code == IR_SQRT ? intrinsic(e, "llvm.sqrt", LLVMTypeOf(x), &x, 1) : NULL;
}

const kiln_element_machine host_element_machine = {.widen = widen,
                                                   .narrow = narrow,
                                                   .float_cast = float_cast,
                                                   .float_to_int = float_to_int,
                                                   .divide_integers = divide_integers,
                                                   .divide = divide,
                                                   .extreme = extreme,
                                                   .function = function,
                                                   .intrinsic = intrinsic};
