// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between float types that the middle leaves to the host: f16, f32, f64; and f16 and bf16 by
// integer operations for atomics, where no processor may need a library call. Other narrow types arrive
// expanded.
#include "compiler/codegen/host/host.h"

#define B h->builder

static LLVMValueRef as_int(host *h, LLVMValueRef f) {
  return LLVMBuildBitCast(B, f, kiln_type_like(h->i32, f), "");
}
static LLVMValueRef as_float(host *h, LLVMValueRef i) {
  return LLVMBuildBitCast(B, i, kiln_type_like(h->f32, i), "");
}
static LLVMValueRef and_int(host *h, LLVMValueRef x, uint32_t mask) {
  return LLVMBuildAnd(B, x, kiln_int_like(h->i32, x, mask), "");
}
static LLVMValueRef shift_left(host *h, LLVMValueRef x, unsigned n) {
  return LLVMBuildShl(B, x, kiln_int_like(h->i32, x, n), "");
}
static LLVMValueRef shift_right(host *h, LLVMValueRef x, unsigned n) {
  return LLVMBuildLShr(B, x, kiln_int_like(h->i32, x, n), "");
}
static LLVMValueRef add_int(host *h, LLVMValueRef x, uint32_t n) {
  return LLVMBuildAdd(B, x, kiln_int_like(h->i32, x, n), "");
}
static LLVMValueRef absolute(host *h, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return host_intrinsic(h, "llvm.fabs", &type, 1, &x, 1);
}

// ------------------------------------------------------------------------------------------- widen

// Moves exponent and mantissa to their places in f32 and corrects the bias by a multiplication, which is
// exact and makes denormals right.
static LLVMValueRef widen_half(host *h, LLVMValueRef bits) {
  LLVMValueRef x = LLVMBuildZExt(B, bits, kiln_type_like(h->i32, bits), ""),
               magnitude = and_int(h, x, 0x7fff);
  LLVMValueRef sign = shift_left(h, and_int(h, x, 0x8000), 16),
               power = kiln_int_like(h->i32, x, (uint64_t)(127 + 112) << 23);
  LLVMValueRef value =
      as_int(h, LLVMBuildFMul(B, as_float(h, shift_left(h, magnitude, 13)), as_float(h, power), ""));
  LLVMValueRef special = LLVMBuildICmp(B, LLVMIntUGT, magnitude, kiln_int_like(h->i32, x, 0x7bff), "");
  LLVMValueRef top = LLVMBuildOr(B, value, kiln_int_like(h->i32, x, 0x7f800000), "");
  return as_float(h, LLVMBuildOr(B, LLVMBuildSelect(B, special, top, value, ""), sign, ""));
}

LLVMValueRef host_widen(host *h, kiln_scalar scalar, LLVMValueRef bits) {
  if (scalar == KILN_F32) return bits;
  if (scalar == KILN_BF16)
    return as_float(h, shift_left(h, LLVMBuildZExt(B, bits, kiln_type_like(h->i32, bits), ""), 16));
  if (!h->has_half) return widen_half(h, bits);
  return LLVMBuildFPExt(B, LLVMBuildBitCast(B, bits, kiln_type_like(h->f16, bits), ""),
                        kiln_type_like(h->f32, bits), "");
}

// ------------------------------------------------------------------------------------------ narrow

static LLVMValueRef is_nan(host *h, LLVMValueRef x) { return LLVMBuildFCmp(B, LLVMRealUNO, x, x, ""); }

// u + (half a unit - 1) + (last kept bit): adding carries exactly when nearest-even rounds up.
static LLVMValueRef round_bits(host *h, LLVMValueRef u, unsigned shift) {
  LLVMValueRef last = and_int(h, shift_right(h, u, shift), 1);
  return shift_right(h, LLVMBuildAdd(B, add_int(h, u, (1u << (shift - 1)) - 1), last, ""), shift);
}

static LLVMValueRef narrow_bfloat(host *h, LLVMValueRef value) {
  LLVMValueRef u = as_int(h, value);
  LLVMValueRef rounded =
      LLVMBuildSelect(B, is_nan(h, value), kiln_int_like(h->i32, u, 0x7fc0), round_bits(h, u, 16), "");
  return LLVMBuildTrunc(B, rounded, kiln_type_like(h->i16, u), "");
}

// Normal results round in the integer; denormal ones by adding a power of two whose last place is the
// denormal unit.
static LLVMValueRef narrow_half(host *h, LLVMValueRef value) {
  LLVMValueRef bits = as_int(h, value), u = and_int(h, bits, 0x7fffffff),
               sign = and_int(h, shift_right(h, bits, 16), 0x8000);
  LLVMValueRef normal = add_int(h, round_bits(h, u, 13), 0u - (112u << 10)),
               magic = kiln_int_like(h->i32, u, 126u << 23);
  LLVMValueRef sum = as_int(h, LLVMBuildFAdd(B, as_float(h, u), as_float(h, magic), ""));
  LLVMValueRef small = LLVMBuildICmp(B, LLVMIntULT, u, kiln_int_like(h->i32, u, 113u << 23), "");
  LLVMValueRef result = LLVMBuildSelect(B, small, LLVMBuildSub(B, sum, magic, ""), normal, "");
  LLVMValueRef large = LLVMBuildICmp(B, LLVMIntUGT, result, kiln_int_like(h->i32, u, 0x7bff), "");
  result = LLVMBuildSelect(B, large, kiln_int_like(h->i32, u, 0x7c00), result, "");
  result = LLVMBuildSelect(B, is_nan(h, value), kiln_int_like(h->i32, u, 0x7e00),
                           LLVMBuildOr(B, result, sign, ""), "");
  return LLVMBuildTrunc(B, result, kiln_type_like(h->i16, u), "");
}

LLVMValueRef host_narrow(host *h, kiln_scalar scalar, LLVMValueRef value) {
  if (scalar == KILN_F32) return value;
  if (scalar == KILN_BF16) return narrow_bfloat(h, value);
  if (!h->has_half) return narrow_half(h, value);
  return LLVMBuildBitCast(B, LLVMBuildFPTrunc(B, value, kiln_type_like(h->f16, value), ""),
                          kiln_type_like(h->i16, value), "");
}

// ------------------------------------------------------------------------------------------- casts

// Nearest went past a finite value: one step back is toward zero.
static LLVMValueRef step_back(host *h, LLVMTypeRef element, LLVMValueRef bits, LLVMTypeRef real,
                              LLVMValueRef rounded, LLVMValueRef exact) {
  LLVMValueRef size = absolute(h, exact);
  LLVMValueRef past = LLVMBuildFCmp(B, LLVMRealOGT, absolute(h, rounded), size, "");
  LLVMValueRef finite = LLVMBuildFCmp(B, LLVMRealOLT, size, kiln_real_like(real, exact, __builtin_inf()), "");
  LLVMValueRef less = LLVMBuildSub(B, bits, kiln_int_like(element, bits, 1), "");
  return LLVMBuildSelect(B, LLVMBuildAnd(B, past, finite, ""), less, bits, "");
}

static LLVMValueRef double_to_single(host *h, ir_round round, LLVMValueRef x) {
  LLVMValueRef nearest = LLVMBuildFPTrunc(B, x, kiln_type_like(h->f32, x), "");
  if (round != IR_ROUND_ZERO) return nearest;
  LLVMValueRef back = LLVMBuildFPExt(B, nearest, LLVMTypeOf(x), "");
  return as_float(h, step_back(h, h->i32, as_int(h, nearest), h->f64, back, x));
}

LLVMValueRef host_float_cast(host *h, kiln_scalar from, kiln_scalar to, ir_round round, LLVMValueRef x) {
  if (from == KILN_F64) return double_to_single(h, round, x);
  LLVMValueRef value = host_widen(h, from, x);
  if (to == KILN_F64) return LLVMBuildFPExt(B, value, kiln_type_like(h->f64, x), "");
  LLVMValueRef result = host_narrow(h, to, value);
  if (round != IR_ROUND_ZERO || to == KILN_F32) return result;
  return step_back(h, h->elements.types[to], result, h->f32, host_widen(h, to, result), value);
}
