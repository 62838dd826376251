// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests inline PTX on machines that are not NVIDIA's: compares each instruction of ptx.def as host code
// with plain C, and checks what is refused. The texts are those that Triton writes into its IR.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/codegen/float_bits.h"
#include "tests/codegen/llvm_rows.h"
#include "tests/codegen/ttir_run.h"

enum { N = 256, MAX_INPUTS = 4, TEXT = 8192 };

// ------------------------------------------------------------------------- one instruction, 256 times

/// How a result is compared: all bits; as a float whose NaNs are alike; the same for halves of a word; f32
/// within 2^-18 of the value.
typedef enum judge { BITS, F16, BF16, F32, F64, PAIR, PAIR_B, NEAR } judge;

typedef uint64_t reference(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

typedef struct row {
  const char *text, *types; ///< types: a letter of the constraints for the result and each operand
  judge judge;
  reference *reference;
} row;

static unsigned width(char letter) { return letter == 'h' ? 16 : letter == 'r' ? 32 : 64; }

#define PAIRS(one, low, high) ((one(low) & 0xffff) | (one(high) & 0xffff) << 16)

#define REF(name, value)                                                 \
  static uint64_t name(uint64_t a, uint64_t b, uint64_t c, uint64_t d) { \
    (void)a, (void)b, (void)c, (void)d;                                  \
    return (uint64_t)(value);                                            \
  }
#define S(bits, x) ((int##bits##_t)(x))
#define U(bits, x) ((uint##bits##_t)(x))

REF(add32, U(32, a) + U(32, b))
REF(sub16, a - b)
REF(sub64, a - b)
REF(mul32, U(32, a) * U(32, b))
REF(hi_u32, U(32, a) * U(64, U(32, b)) >> 32)
REF(hi_s32, S(64, S(32, a)) * S(32, b) >> 32)
REF(hi_s16, S(32, S(16, a)) * S(16, b) >> 16)
REF(hi_u16, U(32, U(16, a)) * U(16, b) >> 16)
REF(hi_u64, (unsigned __int128)a *b >> 64)
REF(hi_s64, (__int128)S(64, a) * S(64, b) >> 64)
REF(wide_u32, U(64, U(32, a)) * U(32, b))
REF(wide_s32, S(64, S(32, a)) * S(32, b))
REF(wide_s16, S(32, S(16, a)) * S(16, b))
REF(mad32, U(32, a) * U(32, b) + U(32, c))
REF(mad_hi, (U(64, U(32, a)) * U(32, b) >> 32) + U(32, c))
REF(mad_wide, U(64, U(32, a)) * U(32, b) + c)
REF(div_u32, U(32, a) / (U(32, b) | 1))
REF(div_s32, S(32, a) / S(32, (b | 1) & 0x7fffffff))
REF(rem_u64, a % (b | 1))
REF(rem_s32, S(32, a) % S(32, (b | 1) & 0x7fffffff))
REF(min_s32, S(32, a) < S(32, b) ? a : b)
REF(max_u32, U(32, a) > U(32, b) ? a : b)
static uint64_t larger16(uint64_t a, uint64_t b) { return (S(16, a) > S(16, b) ? a : b) & 0xffff; }
REF(max_s16x2, larger16(a, b) | larger16(a >> 16, b >> 16) << 16)
REF(abs_s32, S(32, a) < 0 ? 0 - U(32, a) : U(32, a))
REF(neg_s16, 0 - a)
REF(and32, a &b)
REF(or64, a | b)
REF(xor16, a ^ b)
REF(not32, ~a)
REF(shl32, U(32, b) > 31 ? 0 : a << U(32, b))
REF(shr_u32, U(32, b) > 31 ? 0 : U(32, a) >> U(32, b))
REF(shr_s32, S(32, a) >> (U(32, b) > 31 ? 31 : U(32, b)))
REF(shl16, U(32, b) > 15 ? 0 : a << U(32, b))
REF(shr_s64, S(64, a) >> (U(32, b) > 63 ? 63 : U(32, b)))
static uint64_t table(uint64_t a, uint64_t b, uint64_t c, unsigned lut) {
  uint64_t out = 0;
  for (unsigned i = 0; i < 32; i++)
    out |= (uint64_t)(lut >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
  return out;
}
static uint64_t bytes(uint64_t a, uint64_t b, uint64_t selector, uint64_t d) {
  uint64_t both = (a & 0xffffffff) | b << 32, out = 0;
  (void)d;
  for (unsigned i = 0; i < 4; i++) {
    unsigned s = selector >> 4 * i & 15, byte = both >> 8 * (s & 7) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    out |= (uint64_t)byte << 8 * i;
  }
  return out;
}
REF(bytes_0, bytes(0, a, 0x5746, 0))
REF(bytes_1, bytes(a, b, 0xfb73, 0))
static uint64_t field(uint64_t a, unsigned at, unsigned length, unsigned bits, bool is_signed) {
  uint64_t out = 0;
  unsigned last = at + length - 1 < bits - 1 ? at + length - 1 : bits - 1;
  uint64_t sign = is_signed && length ? a >> last & 1 : 0;
  for (unsigned i = 0; i < bits; i++) out |= (i < length && at + i < bits ? a >> (at + i) & 1 : sign) << i;
  return out;
}
REF(bfe_u32, field(a, b & 255, c & 255, 32, false))
REF(bfe_s32, field(a, b & 255, c & 255, 32, true))
REF(bfe_s64, field(a, b & 255, c & 255, 64, true))
REF(bfe_u64, field(a, b & 255, c & 255, 64, false))
static uint64_t placed(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  unsigned at = c & 255, length = d & 255;
  for (unsigned i = 0; i < length && at + i < 32; i++)
    b = (b & ~(1ull << (at + i))) | (a >> i & 1) << (at + i);
  return b;
}
REF(popc32, __builtin_popcountll(a & 0xffffffff))
REF(popc64, __builtin_popcountll(a))
static uint64_t mirrored(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  uint64_t out = 0;
  (void)b, (void)c, (void)d;
  for (unsigned i = 0; i < 32; i++) out |= (a >> i & 1) << (31 - i);
  return out;
}
static uint64_t both(uint64_t low, uint64_t high) { return (low & 0xffffffff) | high << 32; }
REF(shf_l_wrap, both(a, b) << (c & 31) >> 32)
REF(shf_r_wrap, both(a, b) >> (c & 31))
REF(shf_l_clamp, U(32, c) > 31 ? a : both(a, b) << U(32, c) >> 32)
REF(shf_r_clamp, U(32, c) > 31 ? b : both(a, b) >> U(32, c))
REF(lo32, U(32, a) < U(32, b))
REF(ge_s32, S(32, a) >= S(32, b))
REF(lt_f32, f(a) < f(b))
REF(ne_f32, f(a) < f(b) || f(a) > f(b))
REF(neu_f32, f(a) != f(b))
REF(gtu_f32, !(f(a) <= f(b)))
REF(choose_gt, f(a) > f(b) ? a : b)
REF(guarded, S(32, a) > S(32, b) ? a + 1 : b - 1)
REF(not_either, !(S(32, a) == S(32, b) || U(32, a) < U(32, b)))
REF(add_f32, of_f(f(a) + f(b)))
REF(sub_f64, of_d(d64(a) - d64(b)))
REF(mul_f16, of_h(h(a) * h(b)))
REF(add_f16x2, PAIRS(of_h, h(a) + h(b), h(a >> 16) + h(b >> 16)))
REF(mul_bf16x2, PAIRS(of_bf, bf(a) * bf(b), bf(a >> 16) * bf(b >> 16)))
REF(add_f32x2, of_f(f(a) + f(b)) | of_f(f(a >> 32) + f(b >> 32)) << 32)
REF(fma_f32, of_f(fmaf(f(a), f(b), f(c))))
REF(fma_f64, of_d(fma(d64(a), d64(b), d64(c))))
REF(sat_f32, of_f(f(a) + f(b) > 0 ? fminf(f(a) + f(b), 1) : 0))
REF(div_f32, of_f(f(a) / f(b)))
REF(rcp_f32, of_f(1 / f(a)))
REF(sqrt_f32, of_f(sqrtf(f(a))))
static float smaller(float x, float y) { return isnan(x) || (!isnan(y) && y < x) ? y : x; }
REF(min_f32, of_f(smaller(f(a), f(b))))
REF(max_nan, isnan(f(a)) || isnan(f(b)) ? of_f(NAN) : of_f(fmaxf(f(a), f(b))))
REF(min_f16x2, PAIRS(of_h, smaller(h(a), h(b)), smaller(h(a >> 16), h(b >> 16))))
REF(abs_f64, of_d(fabs(d64(a))))
REF(neg_f16x2, (a ^ 0x80008000))
REF(copysign_f32, of_f(copysignf(f(b), f(a))))
REF(sin_f32, of_f(sinf(f(a))))
REF(cos_f32, of_f(cosf(f(a))))
REF(tanh_f32, of_f(tanhf(f(a))))
REF(ex2_f32, of_f(exp2f(f(a))))
REF(lg2_f32, of_f(log2f(fabsf(f(a)))))
REF(rsqrt_f32, of_f(1 / sqrtf(fabsf(f(a)))))
static uint64_t clamped(double x, double least, double most) {
  return isnan(x)     ? 0
         : x <= least ? (uint64_t)(int64_t)least
         : x >= most  ? most > 9e18 ? INT64_MAX : (uint64_t)(int64_t)most
                      : (uint64_t)(int64_t)x;
}
REF(s32_f32, clamped(nearbyintf(f(a)), INT32_MIN, INT32_MAX))
REF(s32_down, clamped(floorf(f(a)), INT32_MIN, INT32_MAX))
REF(u32_zero, clamped(truncf(f(a)), 0, UINT32_MAX))
REF(f32_s32, of_f((float)S(32, a)))
REF(f32_u32, of_f((float)U(32, a)))
REF(f32_u8, of_f((float)U(8, a)))
REF(f16_f32, of_h(f(a)))
REF(f32_f16, of_f(h(a)))
REF(f32_bf16, of_f(bf(a)))
REF(two_f16, of_h(f(b)) | of_h(f(a)) << 16)
REF(two_bf16, of_bf(f(b)) | of_bf(f(a)) << 16)
REF(f64_f32, of_d(f(a)))
REF(f32_f64, of_f((float)d64(a)))
REF(f32_up, of_f(ceilf(f(a))))
REF(f32_zero, of_f(truncf(f(a))))
REF(s8_sat, S(32, a) > 127 ? 127 : S(32, a) < -128 ? -128 : S(32, a))
REF(u16_sat, S(32, a) > 65535 ? 65535 : S(32, a) < 0 ? 0 : S(32, a))
REF(s64_s16, S(64, S(16, a)))
REF(u32_u8, a & 255)
REF(tf32, isnan(f(a)) ? of_f(NAN) : (U(32, a) + 0x1000) & 0xffffe000)
REF(low_high, both(b, a))
REF(halves, (a >> 16 & 0xffff) | (a & 0xffff) << 16)
REF(third_byte, a >> 16 & 255)
REF(constant, of_f(f(a) * 1.5f) ^ 0x10)
REF(lut_f8, table(a, b, c, 0xf8))
REF(lut_ea, table(a, b, c, 0xea))
REF(lut_96, table(a, b, c, 0x96))
REF(lut_e8, table(a, b, c, 0xe8))
REF(lut_1b, table(a, b, c, 0x1b))

#define PREDICATE(text) "{ .reg .pred p; " text " selp.b32 $0, 1, 0, p; }"

static const row rows[] = {
    {"add.s32 $0, $1, $2;", "rrr", BITS, add32},
    {"sub.u16 $0, $1, $2;", "hhh", BITS, sub16},
    {"sub.s64 $0, $1, $2;", "lll", BITS, sub64},
    {"mul.lo.u32 $0, $1, $2;", "rrr", BITS, mul32},
    {"mul.hi.u32 $0, $1, $2;", "rrr", BITS, hi_u32},
    {"mul.hi.s32 $0, $1, $2;", "rrr", BITS, hi_s32},
    {"mul.hi.s16 $0, $1, $2;", "hhh", BITS, hi_s16},
    {"mul.hi.u16 $0, $1, $2;", "hhh", BITS, hi_u16},
    {"mul.hi.u64 $0, $1, $2;", "lll", BITS, hi_u64},
    {"mul.hi.s64 $0, $1, $2;", "lll", BITS, hi_s64},
    {"mul.wide.u32 $0, $1, $2;", "lrr", BITS, wide_u32},
    {"mul.wide.s32 $0, $1, $2;", "lrr", BITS, wide_s32},
    {"mul.wide.s16 $0, $1, $2;", "rhh", BITS, wide_s16},
    {"mad.lo.s32 $0, $1, $2, $3;", "rrrr", BITS, mad32},
    {"mad.hi.u32 $0, $1, $2, $3;", "rrrr", BITS, mad_hi},
    {"mad.wide.u32 $0, $1, $2, $3;", "lrrl", BITS, mad_wide},
    {"{ .reg .u32 t; or.b32 t, $2, 1; div.u32 $0, $1, t; }", "rrr", BITS, div_u32},
    {"{ .reg .s32 t; or.b32 t, $2, 1; and.b32 t, t, 0x7fffffff; div.s32 $0, $1, t; }", "rrr", BITS, div_s32},
    {"{ .reg .u64 t; or.b64 t, $2, 1; rem.u64 $0, $1, t; }", "lll", BITS, rem_u64},
    {"{ .reg .s32 t; or.b32 t, $2, 1; and.b32 t, t, 2147483647; rem.s32 $0, $1, t; }", "rrr", BITS, rem_s32},
    {"min.s32 $0, $1, $2;", "rrr", BITS, min_s32},
    {"max.u32 $0, $1, $2;", "rrr", BITS, max_u32},
    {"max.s16x2 $0, $1, $2;", "rrr", BITS, max_s16x2},
    {"abs.s32 $0, $1;", "rr", BITS, abs_s32},
    {"neg.s16 $0, $1;", "hh", BITS, neg_s16},
    {"and.b32 $0, $1, $2;", "rrr", BITS, and32},
    {"or.b64 $0, $1, $2;", "lll", BITS, or64},
    {"xor.b16 $0, $1, $2;", "hhh", BITS, xor16},
    {"not.b32 $0, $1;", "rr", BITS, not32},
    {"shl.b32 $0, $1, $2;", "rrr", BITS, shl32},
    {"shr.u32 $0, $1, $2;", "rrr", BITS, shr_u32},
    {"shr.b32 $0, $1, $2;", "rrr", BITS, shr_u32},
    {"shr.s32 $0, $1, $2;", "rrr", BITS, shr_s32},
    {"shl.b16 $0, $1, $2;", "hhr", BITS, shl16},
    {"shr.s64 $0, $1, $2;", "llr", BITS, shr_s64},
    {"lop3.b32 $0, $1, $2, $3, 0xf8;", "rrrr", BITS, lut_f8},
    {"lop3.b32 $0, $1, $2, $3, 0xea;", "rrrr", BITS, lut_ea},
    {"lop3.b32 $0, $1, $2, $3, 150;", "rrrr", BITS, lut_96},
    {"lop3.b32 $0, $1, $2, $3, 0xE8;", "rrrr", BITS, lut_e8},
    {"lop3.b32 $0, $1, $2, $3, 0x1b;", "rrrr", BITS, lut_1b},
    {"prmt.b32 $0, $1, $2, $3;", "rrrr", BITS, bytes},
    {"prmt.b32 $0, 0, $1, 0x5746;", "rr", BITS, bytes_0},
    {"prmt.b32 $0, $1, $2, 0xfb73;", "rrr", BITS, bytes_1},
    {"bfe.u32 $0, $1, $2, $3;", "rrrr", BITS, bfe_u32},
    {"bfe.s32 $0, $1, $2, $3;", "rrrr", BITS, bfe_s32},
    {"bfe.s64 $0, $1, $2, $3;", "llrr", BITS, bfe_s64},
    {"bfe.u64 $0, $1, $2, $3;", "llrr", BITS, bfe_u64},
    {"bfi.b32 $0, $1, $2, $3, $4;", "rrrrr", BITS, placed},
    {"popc.b32 $0, $1;", "rr", BITS, popc32},
    {"popc.b64 $0, $1;", "rl", BITS, popc64},
    {"brev.b32 $0, $1;", "rr", BITS, mirrored},
    {"shf.l.wrap.b32 $0, $1, $2, $3;", "rrrr", BITS, shf_l_wrap},
    {"shf.r.wrap.b32 $0, $1, $2, $3;", "rrrr", BITS, shf_r_wrap},
    {"shf.l.clamp.b32 $0, $1, $2, $3;", "rrrr", BITS, shf_l_clamp},
    {"shf.r.clamp.b32 $0, $1, $2, $3;", "rrrr", BITS, shf_r_clamp},
    {PREDICATE("setp.lo.u32 p, $1, $2;"), "rrr", BITS, lo32},
    {PREDICATE("setp.ge.s32 p, $1, $2;"), "rrr", BITS, ge_s32},
    {PREDICATE("setp.lt.f32 p, $1, $2;"), "rrr", BITS, lt_f32},
    {PREDICATE("setp.ne.f32 p, $1, $2;"), "rrr", BITS, ne_f32},
    {PREDICATE("setp.neu.ftz.f32 p, $1, $2;"), "rrr", BITS, neu_f32},
    {PREDICATE("setp.gtu.f32 p, $1, $2;"), "rrr", BITS, gtu_f32},
    {PREDICATE(
         ".reg .pred q, s; setp.eq.s32 q, $1, $2; setp.lt.u32 s|_, $1, $2; or.pred p, q, s; not.pred p, "
         "p;"),
     "rrr", BITS, not_either},
    {"{ .reg .pred %p<2>; setp.gt.f32 %p1, $1, $2; selp.f32 $0, $1, $2, %p1; }", "rrr", BITS, choose_gt},
    {"{ .reg .pred p, q; .reg .b32 t; setp.gt.s32 p|q, $1, $2; @p add.s32 t, $1, 1; @!p sub.s32 t, $2, 1; "
     "@q mov.b32 $0, t; @!q mov.u32 $0, t; }",
     "rrr", BITS, guarded},
    {"add.f32 $0, $1, $2;", "rrr", F32, add_f32},
    {"sub.rn.f64 $0, $1, $2;", "lll", F64, sub_f64},
    {"mul.f16 $0, $1, $2;", "hhh", F16, mul_f16},
    {"add.rn.f16x2 $0, $1, $2;", "rrr", PAIR, add_f16x2},
    {"mul.bf16x2 $0, $1, $2;", "rrr", PAIR_B, mul_bf16x2},
    {"add.f32x2 $0, $1, $2;", "lll", BITS, add_f32x2},
    {"fma.rn.f32 $0, $1, $2, $3;", "rrrr", F32, fma_f32},
    {"fma.rn.f64 $0, $1, $2, $3;", "llll", F64, fma_f64},
    {"add.sat.f32 $0, $1, $2;", "rrr", F32, sat_f32},
    {"div.rn.f32 $0, $1, $2;", "rrr", F32, div_f32},
    {"rcp.rn.f32 $0, $1;", "rr", F32, rcp_f32},
    {"sqrt.rn.f32 $0, $1;", "rr", F32, sqrt_f32},
    {"min.f32 $0, $1, $2;", "rrr", F32, min_f32},
    {"max.NaN.f32 $0, $1, $2;", "rrr", F32, max_nan},
    {"min.f16x2 $0, $1, $2;", "rrr", PAIR, min_f16x2},
    {"abs.f64 $0, $1;", "ll", F64, abs_f64},
    {"neg.f16x2 $0, $1;", "rr", BITS, neg_f16x2},
    {"copysign.f32 $0, $1, $2;", "rrr", F32, copysign_f32},
    {"sin.approx.f32 $0, $1;", "rr", NEAR, sin_f32},
    {"cos.approx.ftz.f32 $0, $1;", "rr", NEAR, cos_f32},
    {"ex2.approx.f32 $0, $1;", "rr", NEAR, ex2_f32},
    {"tanh.approx.f32 $0, $1;", "rr", NEAR, tanh_f32},
    {"{ .reg .f32 t; abs.f32 t, $1; lg2.approx.ftz.f32 $0, t; }", "rr", NEAR, lg2_f32},
    {"{ .reg .f32 t; abs.f32 t, $1; rsqrt.approx.f32 $0, t; }", "rr", NEAR, rsqrt_f32},
    {"cvt.rni.s32.f32 $0, $1;", "rr", BITS, s32_f32},
    {"cvt.rmi.s32.f32 $0, $1;", "rr", BITS, s32_down},
    {"cvt.rzi.u32.f32 $0, $1;", "rr", BITS, u32_zero},
    {"cvt.rn.f32.s32 $0, $1;", "rr", F32, f32_s32},
    {"cvt.rn.f32.u32 $0, $1;", "rr", F32, f32_u32},
    {"cvt.rn.f32.u8 $0, $1;", "rr", F32, f32_u8},
    {"cvt.rn.f16.f32 $0, $1;", "hr", F16, f16_f32},
    {"cvt.f32.f16 $0, $1;", "rh", F32, f32_f16},
    {"cvt.f32.bf16 $0, $1;", "rh", F32, f32_bf16},
    {"cvt.rn.f16x2.f32 $0, $1, $2;", "rrr", PAIR, two_f16},
    {"cvt.rn.bf16x2.f32 $0, $1, $2;", "rrr", PAIR_B, two_bf16},
    {"cvt.f64.f32 $0, $1;", "lr", F64, f64_f32},
    {"cvt.rn.f32.f64 $0, $1;", "rl", F32, f32_f64},
    {"cvt.rpi.f32.f32 $0, $1;", "rr", F32, f32_up},
    {"cvt.rzi.ftz.f32.f32 $0, $1;", "rr", F32, f32_zero},
    {"cvt.sat.s8.s32 $0, $1;", "rr", BITS, s8_sat},
    {"cvt.sat.u16.s32 $0, $1;", "hr", BITS, u16_sat},
    {"cvt.s64.s16 $0, $1;", "lh", BITS, s64_s16},
    {"cvt.u32.u8 $0, $1;", "rr", BITS, u32_u8},
    {"cvt.rna.tf32.f32 $0, $1;", "rr", F32, tf32},
    {"mov.b64 $0, {$2, $1};", "lrr", BITS, low_high},
    {"{ .reg .b16 x, y; mov.b32 {x, y}, $1; mov.b32 $0, {y, x}; }", "rr", BITS, halves},
    {"{ .reg .b8 t<4>; mov.b32 {t0, _, t2, t3}, $1; cvt.u32.u8 $0, t2; }", "rr", BITS, third_byte},
    {"{ // a block\n .reg .f32 t; /* and another */ { .reg .f32 t; mul.f32 t, $1, 0f3FC00000; mov.f32 $0, t; "
     "} "
     "xor.b32 $0, $0, 16; }",
     "rr", BITS, constant},
};

static uint64_t random_state;
static uint64_t random_bits(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return random_state ^ random_state >> 29;
}

/// Values that meet every case of a width: borders of integers and floats, small counts, random ones.
static uint64_t value(unsigned index, unsigned operand, unsigned bits) {
  static const uint64_t edges32[] = {0,          1,          2,          31,         32,         33,
                                     0x7f,       0x80,       0xff,       0x7fff,     0x8000,     0xffff,
                                     0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000,
                                     0xff800000, 0x7fc00000, 0x00000001, 0x80000000, 0x4f000000, 0x3c003c00,
                                     0x7e007c00, 0x3f000000, 0x40200000, 0xc0200000, 0x3f801000, 0x477ff000};
  enum { EDGES = sizeof edges32 / sizeof *edges32 };
  if (operand >= 1 && index % 3 == 0) return random_bits() % 70;
  if (index < 2 * EDGES && operand == 0) {
    uint64_t v = edges32[index % EDGES];
    return bits == 64 && index >= EDGES ? of_d(f(v)) : v;
  }
  uint64_t v = random_bits();
  if (index % 4 == 1) { // floats of moderate size
    float x = (float)(int64_t)(v % 20001 - 10000) / 64;
    return bits == 64 ? of_d(x) : bits == 16 ? of_h(x) : of_f(x);
  }
  return v;
}

static bool same_real(double a, double b) {
  return a == b ? signbit(a) == signbit(b) || a != 0 : isnan(a) && isnan(b);
}

static bool agrees(judge j, uint64_t got, uint64_t want) {
  switch (j) {
  case BITS: return got == want;
  case F16: return same_real((double)h(got), (double)h(want));
  case BF16: return same_real((double)bf(got), (double)bf(want));
  case F32: return same_real((double)f(got), (double)f(want));
  case F64: return same_real(d64(got), d64(want));
  case PAIR: return agrees(F16, got, want) && agrees(F16, got >> 16, want >> 16);
  case PAIR_B: return agrees(BF16, got, want) && agrees(BF16, got >> 16, want >> 16);
  case NEAR: {
    double g = (double)f(got), w = (double)f(want);
    return same_real(g, w) || fabs(g - w) <= fabs(w) * 0x1p-18 + 0x1p-22;
  }
  }
  return false;
}

// The kernel around an instruction: operand i from parameter i + 1, the result into parameter 0.
static void kernel_of(const row *r, char out[TEXT]) {
  size_t at = 0, count = strlen(r->types);
  char quoted[2048];
  size_t size = 0;
  for (const char *c = r->text; *c; c++) {
    if (*c == '\n') size += (size_t)sprintf(quoted + size, "\\0A");
    else quoted[size++] = *c;
  }
  quoted[size] = 0;
#define PUT(...) at += (size_t)snprintf(out + at, TEXT - at, __VA_ARGS__)
  PUT("module {\n  tt.func public @k(");
  for (size_t i = 0; i < count; i++) PUT("%s%%p%zu: !tt.ptr<i%u>", i ? ", " : "", i, width(r->types[i]));
  PUT(") {\n    %%i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>\n");
  for (size_t i = 0; i < count; i++) {
    unsigned bits = width(r->types[i]);
    PUT("    %%s%zu = tt.splat %%p%zu : !tt.ptr<i%u> -> tensor<256x!tt.ptr<i%u>>\n", i, i, bits, bits);
    PUT("    %%a%zu = tt.addptr %%s%zu, %%i : tensor<256x!tt.ptr<i%u>>, tensor<256xi32>\n", i, i, bits);
    if (i) PUT("    %%v%zu = tt.load %%a%zu : tensor<256x!tt.ptr<i%u>>\n", i, i, bits);
  }
  PUT("    %%r = tt.elementwise_inline_asm \"%s\" {constraints = \"=%c", quoted, r->types[0]);
  for (size_t i = 1; i < count; i++) PUT(",%c", r->types[i]);
  PUT("\", packed_element = 1 : i32, pure = true} ");
  for (size_t i = 1; i < count; i++) PUT("%s%%v%zu", i > 1 ? ", " : "", i);
  PUT(" : ");
  for (size_t i = 1; i < count; i++) PUT("%stensor<256xi%u>", i > 1 ? ", " : "", width(r->types[i]));
  PUT(" -> tensor<256xi%u>\n    tt.store %%a0, %%r : tensor<256x!tt.ptr<i%u>>\n    tt.return\n  }\n}\n",
      width(r->types[0]), width(r->types[0]));
#undef PUT
}

static uint64_t element(const void *buffer, unsigned bits, unsigned index) {
  uint64_t v = 0;
  memcpy(&v, (const char *)buffer + (size_t)index * bits / 8, bits / 8);
  return v;
}

static void check_row(const row *r) {
  static char text[TEXT];
  static uint64_t buffers[MAX_INPUTS + 1][N];
  size_t count = strlen(r->types);
  void *args[MAX_INPUTS + 1];
  kernel_of(r, text);
  random_state = 7;
  for (size_t i = 0; i < count; i++) {
    unsigned bits = width(r->types[i]);
    args[i] = buffers[i];
    for (unsigned k = 0; i && k < N; k++) {
      uint64_t v = value(k, (unsigned)i - 1, bits);
      memcpy((char *)buffers[i] + (size_t)k * bits / 8, &v, bits / 8);
    }
  }
  for (int way = PLAIN; way < WAYS; way++) {
    memset(buffers[0], 0x5a, sizeof buffers[0]);
    run(text, args, 1, way);
    for (unsigned k = 0; k < N; k++) {
      uint64_t in[MAX_INPUTS] = {0}, got = element(buffers[0], width(r->types[0]), k);
      for (size_t i = 1; i < count; i++) in[i - 1] = element(buffers[i], width(r->types[i]), k);
      uint64_t want = r->reference(in[0], in[1], in[2], in[3]);
      if (width(r->types[0]) < 64) want &= (1ull << width(r->types[0])) - 1;
      if (!agrees(r->judge, got, want))
        FAIL("%s of %llx, %llx, %llx, %llx: expected %llx, found %llx (way %d)", r->text,
             (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
             (unsigned long long)in[3], (unsigned long long)want, (unsigned long long)got, way);
    }
  }
}

TEST(inline_ptx, instructions) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_row(&rows[i]);
}

// The rows are PTX as the vendor's assembler has it, and all of them compile for AMD's machines.
TEST(inline_ptx, the_assembler_knows_the_instructions) {
  static const char ptxas[] = "/usr/local/cuda/bin/ptxas";
  static char text[TEXT];
  bool is_there = !access(ptxas, X_OK) && llvm_has("sm_100a");
  kiln_error err = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kernel_of(&rows[i], text);
    if (compile_for(text, i % 2 ? "gfx942" : "gfx1100", &err) != KILN_OK)
      FAIL("%s: %s", rows[i].text, err.text);
    if (is_there && compile_with(text, "sm_100a", ptxas, &err) != KILN_OK)
      FAIL("%s: %s", rows[i].text, err.text);
  }
  if (!is_there) SKIP("ptxas is not on this machine, or LLVM is too old for sm_100a");
}

// ------------------------------------------------------------------------------------------ refusals

TEST(inline_ptx, what_is_not_translated_is_named) {
  static const struct {
    const char *text, *types, *named;
  } cases[] = {
      {"ld.global.b32 $0, [$1];", "rl", "'ld.global.b32'"},
      {"bar.sync 0; mov.b32 $0, $1;", "rr", "'bar.sync'"},
      {"vabsdiff4.u32.u32.u32.add $0, $1, $2, $3;", "rrrr", "'vabsdiff4.u32.u32.u32.add'"},
      {"add.rz.f32 $0, $1, $2;", "rrr", "'add.rz.f32'"},
      {"add.f32 $0, $1, x;", "rr", "'x'"},
      {"add.s32 $0, $1, $2;", "rrh", "'add.s32'"},
      {"{ .reg .b32 t; add.s32 $0, $1, t; }", "rr", "'add.s32'"},
      {"{ { .reg .b32 t; mov.b32 t, $1; } mov.b32 $0, t; }", "rr", "'t'"},
      {"mov.u32 $0, %laneid;", "rr", "'%laneid'"},
      {"prmt.b32.f4e $0, $1, $2, $3;", "rrrr", "'prmt.b32.f4e'"},
      {"sin.approx.f32x $0, $1;", "rr", "'sin.approx.f32x'"},
      {"mov.b32 $0, $1; trap;", "rr", "'trap'"},
      {"mov.b32 $0, $1 }", "rr", "'}'"},
  };
  static char text[TEXT];
  kiln_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kernel_of(&(row){cases[i].text, cases[i].types, BITS, NULL}, text);
    CHECK_INT(compile_for(text, "gfx942", &err), KILN_STATUS_UNSUPPORTED);
    if (!strstr(err.text, cases[i].named))
      FAIL("%s: expected %s in: %s", cases[i].text, cases[i].named, err.text);
  }
}
