// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions of narrow floats by integer operations, so that no processor needs a library call, and the operations on wide ones for which LLVM would
// make one.
#include "compiler/codegen/host.h"

#include <string.h>

#define B h->builder

typedef struct narrow_format {
  uint8_t exponent, mantissa;
  uint32_t nan, largest;
} narrow_format;

static narrow_format format_of(kiln_scalar scalar) {
  switch (scalar) {
  case KILN_F16: return (narrow_format){5, 10, 0x7e00, 0x7bff};
  case KILN_E5M2: return (narrow_format){5, 2, 0x7e, 0x7b};
  case KILN_E4M3: return (narrow_format){4, 3, 0x7f, 0x7e};
  default: return (narrow_format){8, 7, 0x7fc0, 0x7f7f};
  }
}

static LLVMValueRef as_int(host *h, LLVMValueRef f) { return LLVMBuildBitCast(B, f, host_like(h->i32, f), ""); }
static LLVMValueRef as_float(host *h, LLVMValueRef i) { return LLVMBuildBitCast(B, i, host_like(h->f32, i), ""); }
static LLVMValueRef and_int(host *h, LLVMValueRef x, uint32_t mask) { return LLVMBuildAnd(B, x, host_int(h->i32, x, mask), ""); }
static LLVMValueRef shift_left(host *h, LLVMValueRef x, unsigned n) { return LLVMBuildShl(B, x, host_int(h->i32, x, n), ""); }
static LLVMValueRef shift_right(host *h, LLVMValueRef x, unsigned n) { return LLVMBuildLShr(B, x, host_int(h->i32, x, n), ""); }
static LLVMValueRef add_int(host *h, LLVMValueRef x, uint32_t n) { return LLVMBuildAdd(B, x, host_int(h->i32, x, n), ""); }
static LLVMValueRef absolute(host *h, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return host_intrinsic(h, "llvm.fabs", &type, 1, &x, 1);
}

// ------------------------------------------------------------------------------------------------------------------- widen

// Moves exponent and mantissa to their places in f32 and corrects the bias by a multiplication, which is exact and makes denormals right.
static LLVMValueRef widen_by_scale(host *h, kiln_scalar scalar, LLVMValueRef bits) {
  narrow_format f = format_of(scalar);
  unsigned width = 1u + f.exponent + f.mantissa, bias = (1u << (f.exponent - 1)) - 1;
  LLVMValueRef x = LLVMBuildZExt(B, bits, host_like(h->i32, bits), "");
  LLVMValueRef magnitude = and_int(h, x, (1u << (width - 1)) - 1);
  LLVMValueRef sign = shift_left(h, and_int(h, x, 1u << (width - 1)), 32 - width);
  LLVMValueRef scaled = as_float(h, shift_left(h, magnitude, 23u - f.mantissa));
  LLVMValueRef power = host_int(h->i32, x, (uint64_t)(127 + 127 - bias) << 23);
  LLVMValueRef value = as_int(h, LLVMBuildFMul(B, scaled, as_float(h, power), ""));
  LLVMValueRef special = LLVMBuildICmp(B, LLVMIntUGT, magnitude, host_int(h->i32, x, f.largest), "");
  LLVMValueRef top = LLVMBuildOr(B, value, host_int(h->i32, x, scalar == KILN_E4M3 ? 0x7fc00000 : 0x7f800000), "");
  return as_float(h, LLVMBuildOr(B, LLVMBuildSelect(B, special, top, value, ""), sign, ""));
}

LLVMValueRef host_widen(host *h, kiln_scalar scalar, LLVMValueRef bits) {
  if (scalar == KILN_F32) return bits;
  if (scalar == KILN_BF16) return as_float(h, shift_left(h, LLVMBuildZExt(B, bits, host_like(h->i32, bits), ""), 16));
  if (scalar == KILN_F16 && h->has_half) {
    LLVMValueRef half = LLVMBuildBitCast(B, bits, host_like(h->f16, bits), "");
    return LLVMBuildFPExt(B, half, host_like(h->f32, bits), "");
  }
  return widen_by_scale(h, scalar, bits);
}

// ------------------------------------------------------------------------------------------------------------------ narrow

static LLVMValueRef is_nan(host *h, LLVMValueRef x) { return LLVMBuildFCmp(B, LLVMRealUNO, x, x, ""); }

// u + (half a unit - 1) + (last kept bit): adding carries exactly when nearest-even rounds up.
static LLVMValueRef round_bits(host *h, LLVMValueRef u, unsigned shift) {
  LLVMValueRef last = and_int(h, shift_right(h, u, shift), 1);
  return shift_right(h, LLVMBuildAdd(B, add_int(h, u, (1u << (shift - 1)) - 1), last, ""), shift);
}

static LLVMValueRef narrow_bfloat(host *h, LLVMValueRef value) {
  LLVMValueRef u = as_int(h, value);
  LLVMValueRef rounded = LLVMBuildSelect(B, is_nan(h, value), host_int(h->i32, u, 0x7fc0), round_bits(h, u, 16), "");
  return LLVMBuildTrunc(B, rounded, host_like(h->i16, u), "");
}

// Normal results round in the integer; denormal ones by adding a power of two whose last place is the denormal unit.
static LLVMValueRef narrow_by_integers(host *h, kiln_scalar scalar, LLVMValueRef value, bool saturate) {
  narrow_format f = format_of(scalar);
  unsigned width = 1u + f.exponent + f.mantissa, bias = (1u << (f.exponent - 1)) - 1, shift = 23u - f.mantissa;
  LLVMValueRef bits = as_int(h, value), u = and_int(h, bits, 0x7fffffff);
  LLVMValueRef sign = and_int(h, shift_right(h, bits, 32 - width), 1u << (width - 1));
  LLVMValueRef normal = add_int(h, round_bits(h, u, shift), 0u - ((127 - bias) << f.mantissa));
  LLVMValueRef magic = host_int(h->i32, u, (uint64_t)(127 + 24 - bias - f.mantissa) << 23);
  LLVMValueRef sum = as_int(h, LLVMBuildFAdd(B, as_float(h, u), as_float(h, magic), ""));
  LLVMValueRef small = LLVMBuildICmp(B, LLVMIntULT, u, host_int(h->i32, u, (uint64_t)(128 - bias) << 23), "");
  LLVMValueRef result = LLVMBuildSelect(B, small, LLVMBuildSub(B, sum, magic, ""), normal, "");
  uint32_t over = saturate ? f.largest : scalar == KILN_E4M3 ? f.nan : f.largest + 1;
  LLVMValueRef large = LLVMBuildICmp(B, LLVMIntUGT, result, host_int(h->i32, u, f.largest), "");
  result = LLVMBuildSelect(B, large, host_int(h->i32, u, over), result, "");
  result = LLVMBuildSelect(B, is_nan(h, value), host_int(h->i32, u, f.nan), LLVMBuildOr(B, result, sign, ""), "");
  return LLVMBuildTrunc(B, result, host_like(h->types[scalar], u), "");
}

LLVMValueRef host_narrow(host *h, kiln_scalar scalar, LLVMValueRef value, bool saturate) {
  if (scalar == KILN_F32) return value;
  if (scalar == KILN_BF16) return narrow_bfloat(h, value);
  if (scalar == KILN_F16 && h->has_half) {
    LLVMValueRef half = LLVMBuildFPTrunc(B, value, host_like(h->f16, value), "");
    return LLVMBuildBitCast(B, half, host_like(h->i16, value), "");
  }
  return narrow_by_integers(h, scalar, value, saturate);
}

// ------------------------------------------------------------------------------------------------------------------- casts

// f64 to f32 rounded to odd: rounding that once more to a type of at most 22 mantissa bits is one correct rounding.
static LLVMValueRef to_odd(host *h, LLVMValueRef x) {
  LLVMValueRef nearest = LLVMBuildFPTrunc(B, x, host_like(h->f32, x), "");
  LLVMValueRef back = LLVMBuildFPExt(B, nearest, LLVMTypeOf(x), "");
  LLVMValueRef inexact = LLVMBuildFCmp(B, LLVMRealONE, back, x, "");
  LLVMValueRef past = LLVMBuildFCmp(B, LLVMRealOGT, absolute(h, back), absolute(h, x), "");
  LLVMValueRef bits = as_int(h, nearest);
  LLVMValueRef cut = LLVMBuildSelect(B, past, add_int(h, bits, UINT32_MAX), bits, "");
  LLVMValueRef odd = LLVMBuildOr(B, cut, host_int(h->i32, cut, 1), "");
  return as_float(h, LLVMBuildSelect(B, inexact, odd, bits, ""));
}

// Nearest went past a finite value: one step back is toward zero.
static LLVMValueRef step_back(host *h, LLVMValueRef bits, LLVMTypeRef element, LLVMValueRef rounded, LLVMValueRef exact, double infinity) {
  LLVMValueRef size = absolute(h, exact);
  LLVMValueRef past = LLVMBuildFCmp(B, LLVMRealOGT, absolute(h, rounded), size, "");
  LLVMTypeRef real = LLVMGetElementType(LLVMTypeOf(exact));
  if (!host_width(exact)) real = LLVMTypeOf(exact);
  LLVMValueRef finite = LLVMBuildFCmp(B, LLVMRealOLT, size, host_real(real, exact, infinity), "");
  LLVMValueRef less = LLVMBuildSub(B, bits, host_int(element, bits, 1), "");
  return LLVMBuildSelect(B, LLVMBuildAnd(B, past, finite, ""), less, bits, "");
}

LLVMValueRef host_float_cast(host *h, kiln_scalar from, kiln_scalar to, bool saturate, ir_round round, LLVMValueRef bits) {
  double infinity = __builtin_inf();
  if (from == to) return bits;
  if (to == KILN_F64) return LLVMBuildFPExt(B, host_widen(h, from, bits), host_like(h->f64, bits), "");
  if (to == KILN_F32 && from == KILN_F64) {
    LLVMValueRef nearest = LLVMBuildFPTrunc(B, bits, host_like(h->f32, bits), "");
    if (round != IR_ROUND_ZERO) return nearest;
    LLVMValueRef back = LLVMBuildFPExt(B, nearest, LLVMTypeOf(bits), "");
    return as_float(h, step_back(h, as_int(h, nearest), h->i32, back, bits, infinity));
  }
  LLVMValueRef value = from == KILN_F64 ? to_odd(h, bits) : host_widen(h, from, bits);
  if (to == KILN_F32) return value;
  LLVMValueRef result = host_narrow(h, to, value, saturate);
  if (round != IR_ROUND_ZERO) return result;
  return step_back(h, result, h->types[to], host_widen(h, to, result), value, infinity);
}

// ----------------------------------------------------------------------------------------------------- operations of f32, f64

static LLVMValueRef call_scalar(host *h, const char *name, LLVMValueRef *args, unsigned count) {
  LLVMValueRef function = LLVMGetNamedFunction(h->module, name);
  if (!function) {
    if (kiln_llvm_link_text(h->context, h->module, host_prelude, strlen(host_prelude), "host prelude", h->err) != KILN_OK) {
      host_fail(h, KILN_STATUS_INTERNAL, "host prelude does not link");
      return LLVMGetPoison(h->f64);
    }
    function = LLVMGetNamedFunction(h->module, name);
  }
  return LLVMBuildCall2(B, LLVMGlobalGetValueType(function), function, args, count, "");
}

static LLVMValueRef call_each(host *h, const char *name, LLVMValueRef *args, unsigned count) {
  unsigned width = host_width(args[0]);
  if (!width) return call_scalar(h, name, args, count);
  LLVMValueRef result = LLVMGetPoison(LLVMTypeOf(args[0]));
  for (unsigned i = 0; i < width; i++) {
    LLVMValueRef lane[3];
    for (unsigned k = 0; k < count; k++) lane[k] = LLVMBuildExtractElement(B, args[k], host_i64(h, i), "");
    result = LLVMBuildInsertElement(B, result, call_scalar(h, name, lane, count), host_i64(h, i), "");
  }
  return result;
}

static bool is_double(host *h, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return (host_width(x) ? LLVMGetElementType(type) : type) == h->f64;
}

// The product of two f32 is exact in f64. Their sum with c, rounded to odd by the error of the addition, rounds correctly to f32.
static LLVMValueRef fma_single(host *h, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMTypeRef wide = host_like(h->f64, a), bits_type = host_like(h->i64, a);
  LLVMValueRef p = LLVMBuildFMul(B, LLVMBuildFPExt(B, a, wide, ""), LLVMBuildFPExt(B, b, wide, ""), "");
  LLVMValueRef q = LLVMBuildFPExt(B, c, wide, "");
  LLVMValueRef sum = LLVMBuildFAdd(B, p, q, ""), virtual_q = LLVMBuildFSub(B, sum, p, "");
  LLVMValueRef left = LLVMBuildFSub(B, p, LLVMBuildFSub(B, sum, virtual_q, ""), "");
  LLVMValueRef error = LLVMBuildFAdd(B, left, LLVMBuildFSub(B, q, virtual_q, ""), "");
  LLVMValueRef zero = host_real(h->f64, a, 0), bits = LLVMBuildBitCast(B, sum, bits_type, "");
  LLVMValueRef inexact = LLVMBuildFCmp(B, LLVMRealONE, error, zero, "");
  LLVMValueRef toward = LLVMBuildXor(B, LLVMBuildBitCast(B, error, bits_type, ""), bits, "");
  LLVMValueRef past = LLVMBuildICmp(B, LLVMIntSLT, toward, host_int(h->i64, a, 0), "");
  LLVMValueRef cut = LLVMBuildSelect(B, past, LLVMBuildSub(B, bits, host_int(h->i64, a, 1), ""), bits, "");
  LLVMValueRef odd = LLVMBuildSelect(B, inexact, LLVMBuildOr(B, cut, host_int(h->i64, a, 1), ""), bits, "");
  return LLVMBuildFPTrunc(B, LLVMBuildBitCast(B, odd, wide, ""), host_like(h->f32, a), "");
}

LLVMValueRef host_fma(host *h, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMValueRef args[3] = {a, b, c};
  LLVMTypeRef type = LLVMTypeOf(a);
  if (h->has_fma) return host_intrinsic(h, "llvm.fma", &type, 1, args, 3);
  return is_double(h, a) ? call_each(h, "kl_fma_f64", args, 3) : fma_single(h, a, b, c);
}

LLVMValueRef host_fmod(host *h, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a), wide = host_like(h->f64, a);
  bool single = !is_double(h, a);
  LLVMValueRef args[2] = {single ? LLVMBuildFPExt(B, a, wide, "") : a, single ? LLVMBuildFPExt(B, b, wide, "") : b};
  LLVMValueRef result = call_each(h, "kl_fmod_f64", args, 2);
  return single ? LLVMBuildFPTrunc(B, result, type, "") : result;
}
