// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what single instructions compute: values worked out by hand from the manual, and random ones
// against the C compiler's own arithmetic.
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/ptx_case.h"

enum { THREADS = 128, RANDOM_ROUNDS = 40 };

// Every thread computes `statement` on a, b, c (%ra and so on by the letter of the class: r 32 bits, d 64, s
// 16, all holding the same bits cut) and stores the class's result register.
static const char form[] =
    ".version 8.4\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 x, .param .u64 y)\n{\n"
    ".reg .pred %%p<3>;\n.reg .b32 %%r<8>;\n.reg .b64 %%d<8>;\n.reg .b16 %%s<8>;\n.reg .b64 %%at<6>;\n"
    "ld.param.u64 %%at0, [x];\nld.param.u64 %%at1, [y];\nmov.u32 %%r7, %%tid.x;\n"
    "mad.wide.u32 %%at2, %%r7, 24, %%at0;\nmad.wide.u32 %%at3, %%r7, 8, %%at1;\n"
    "ld.global.b64 %%d1, [%%at2];\nld.global.b64 %%d2, [%%at2+8];\nld.global.b64 %%d3, [%%at2+16];\n"
    "cvt.u32.u64 %%r1, %%d1;\ncvt.u32.u64 %%r2, %%d2;\ncvt.u32.u64 %%r3, %%d3;\n"
    "cvt.u16.u64 %%s1, %%d1;\ncvt.u16.u64 %%s2, %%d2;\ncvt.u16.u64 %%s3, %%d3;\n"
    "mov.b64 %%d0, 0;\nmov.b32 %%r0, 0;\nmov.b16 %%s0, 0;\n%s\n%s\nst.global.b64 [%%at3], %%d0;\nret;\n}\n";

static const char *widen(char result) {
  return result == 'r'   ? "cvt.u64.u32 %d0, %r0;"
         : result == 's' ? "cvt.u64.u16 %d0, %s0;"
         : result == 'p' ? "selp.b64 %d0, 1, 0, %p0;"
                         : "";
}

static void compute(const char *statement, char result, const uint64_t (*in)[3], uint64_t *out) {
  char text[4096];
  ptx_report report;
  kiln_error err = {0};
  snprintf(text, sizeof text, form, statement, widen(result));
  memset(out, 0xee, THREADS * sizeof *out);
  ptx_case c = {.name = statement,
                .text = text,
                .grid = 1,
                .block = THREADS,
                .buffers = {{(void *)in, THREADS * sizeof *in}, {out, THREADS * sizeof *out}},
                .buffer_count = 2};
  if (!case_run(&c, 1, &report, &err) || report.count) FAIL("%s", err.text);
}

typedef struct row {
  const char *statement;
  char result;
  uint64_t a, b, c, want;
} row;

#define F32(x)   \
  ((union {      \
     float f;    \
     uint32_t u; \
   }){.f = (x)}  \
       .u)
#define F64(x)   \
  ((union {      \
     double f;   \
     uint64_t u; \
   }){.f = (x)}  \
       .u)
static const row rows[] = {
    // denormals of f16: kept, and taken away with .ftz, of either half
    {"add.rn.f16 %s0, %s1, %s2;", 's', 0x0200, 0x0201, 0, 0x0401},
    {"add.rn.ftz.f16 %s0, %s1, %s2;", 's', 0x8200, 0x8201, 0, 0x8000},
    {"add.rn.ftz.f16 %s0, %s1, %s2;", 's', 0x0500, 0x8480, 0, 0},
    {"max.ftz.f16 %s0, %s1, %s2;", 's', 0x0200, 0x8200, 0, 0},
    {"setp.gt.ftz.f16 %p0, %s1, %s2;", 'p', 0x0200, 0, 0, 0},
    {"mul.rn.ftz.f16x2 %r0, %r1, %r2;", 'r', 0x04003c00, 0x38003c00, 0, 0x00003c00},
    {"fma.rn.ftz.f16x2 %r0, %r1, %r2, %r3;", 'r', 0x02003c00, 0x3c003c00, 0x44000200, 0x44003c00},
    // integers
    {"add.s32 %r0, %r1, %r2;", 'r', 0x7fffffff, 1, 0, 0x80000000},
    {"add.sat.s32 %r0, %r1, %r2;", 'r', 0x7fffffff, 1, 0, 0x7fffffff},
    {"sub.sat.s32 %r0, %r1, %r2;", 'r', 0x80000000, 1, 0, 0x80000000},
    {"mul.hi.s32 %r0, %r1, %r2;", 'r', 0xffffffff, 2, 0, 0xffffffff},
    {"mul.hi.u32 %r0, %r1, %r2;", 'r', 0xffffffff, 2, 0, 1},
    {"mul.hi.u64 %d0, %d1, %d2;", 'd', ~0ull, ~0ull, 0, ~0ull - 1},
    {"mul.hi.s64 %d0, %d1, %d2;", 'd', ~0ull, ~0ull, 0, 0},
    {"mul.wide.s32 %d0, %r1, %r2;", 'd', 0xffffffff, 3, 0, (uint64_t)-3},
    {"mul.wide.u16 %r0, %s1, %s2;", 'r', 0xffff, 0xffff, 0, 0xfffe0001},
    {"mad.wide.s32 %d0, %r1, %r2, %d3;", 'd', 0xfffffffe, 5, 100, 90},
    {"mad.hi.u32 %r0, %r1, %r2, %r3;", 'r', 0x80000000, 6, 4, 7},
    {"mad.lo.cc.u32 %r4, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0;", 'r', 0x10000, 0xffff, 0x10000, 1},
    {"add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, %r3, 0;", 'r', 0xffffffff, 1, 7, 8},
    {"sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 0;", 'r', 0, 1, 7, 6},
    {"div.s32 %r0, %r1, %r2;", 'r', (uint32_t)-7, 2, 0, (uint32_t)-3},
    {"rem.s32 %r0, %r1, %r2;", 'r', (uint32_t)-7, 2, 0, (uint32_t)-1},
    {"abs.s16 %s0, %s1;", 's', 0xfffb, 0, 0, 5},
    {"min.s32 %r0, %r1, %r2;", 'r', 0xffffffff, 1, 0, 0xffffffff},
    {"min.u32 %r0, %r1, %r2;", 'r', 0xffffffff, 1, 0, 1},
    {"max.s64 %d0, %d1, %d2;", 'd', ~0ull, 1, 0, 1},
    {"sad.s32 %r0, %r1, %r2, %r3;", 'r', 3, 8, 10, 15},
    {"shl.b32 %r0, %r1, %r2;", 'r', 1, 32, 0, 0},
    {"shr.s32 %r0, %r1, %r2;", 'r', 0x80000000, 40, 0, 0xffffffff},
    {"shr.u64 %d0, %d1, %r2;", 'd', 1ull << 63, 63, 0, 1},
    {"shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 'r', 0x80000001, 0x12345678, 36, 0x23456788},
    {"shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 'r', 0xaaaaaaaa, 0x12345678, 40, 0x12345678},
    {"bfe.s32 %r0, %r1, %r2, %r3;", 'r', 0x00000f00, 8, 4, 0xffffffff},
    {"bfe.u32 %r0, %r1, %r2, %r3;", 'r', 0x00000f00, 8, 4, 15},
    {"bfe.s32 %r0, %r1, %r2, %r3;", 'r', 0x80000000, 28, 8, 0xfffffff8},
    {"bfi.b32 %r0, %r1, %r2, 8, 4;", 'r', 0x5, 0xffffffff, 0, 0xfffff5ff},
    {"prmt.b32 %r0, %r1, %r2, %r3;", 'r', 0x33221100, 0x77665544, 0x7160, 0x77116600},
    {"prmt.b32 %r0, %r1, %r2, %r3;", 'r', 0x00008000, 0, 0x9990 | 0x9, 0xffffffff},
    {"lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 'r', 0xf0f0, 0xff00, 0xaaaa, 0xf0f0 ^ 0xff00 ^ 0xaaaa},
    {"popc.b64 %r0, %d1;", 'r', 0xff00ff, 0, 0, 16},
    {"clz.b32 %r0, %r1;", 'r', 1, 0, 0, 31},
    {"clz.b32 %r0, %r1;", 'r', 0, 0, 0, 32},
    {"brev.b32 %r0, %r1;", 'r', 1, 0, 0, 0x80000000},
    {"bfind.u32 %r0, %r1;", 'r', 0x1000, 0, 0, 12},
    {"bfind.s32 %r0, %r1;", 'r', 0xffffffff, 0, 0, 0xffffffff},
    {"bfind.shiftamt.u32 %r0, %r1;", 'r', 0x1000, 0, 0, 19},
    {"dp4a.s32.s32 %r0, %r1, %r2, %r3;", 'r', 0xff020304, 0x02010101, 10, 17},
    {"not.b16 %s0, %s1;", 's', 0x00ff, 0, 0, 0xff00},
    {"cnot.b32 %r0, %r1;", 'r', 0, 0, 0, 1},
    // floats
    {"add.rn.f32 %r0, %r1, %r2;", 'r', 0x3f800000, 0x33800000, 0, 0x3f800000}, // 1 + 2^-24: to even
    {"add.rp.f32 %r0, %r1, %r2;", 'r', 0x3f800000, 0x33000000, 0, 0x3f800001},
    {"add.rz.f32 %r0, %r1, %r2;", 'r', 0xbf800000, 0xb3800000, 0, 0xbf800000},
    {"add.rm.f32 %r0, %r1, %r2;", 'r', 0xbf800000, 0xb3000000, 0, 0xbf800001},
    {"add.rm.f32 %r0, %r1, %r2;", 'r', 0x3f800000, 0xbf800000, 0, 0x80000000}, // an exact zero downwards
    {"add.sat.f32 %r0, %r1, %r2;", 'r', 0x3f800000, 0x3f800000, 0, 0x3f800000},
    {"add.f32 %r0, %r1, %r2;", 'r', 0x7f800000, 0xff800000, 0, 0x7fffffff},
    {"mul.ftz.f32 %r0, %r1, %r2;", 'r', 0x00800000, 0x3f000000, 0, 0},
    {"mul.f32 %r0, %r1, %r2;", 'r', 0x00800000, 0x3f000000, 0, 0x00400000},
    {"mul.rz.f64 %d0, %d1, %d2;", 'd', 0x3ff0000000000001, 0x3ff0000000000001, 0, 0x3ff0000000000002},
    {"mul.rp.f64 %d0, %d1, %d2;", 'd', 0x3ff0000000000001, 0x3ff0000000000001, 0, 0x3ff0000000000003},
    {"fma.rn.f32 %r0, %r1, %r2, %r3;", 'r', 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000}, // 2^-46
    {"add.rn.f32.f16 %r0, %s1, %r2;", 'r', 0x3c01, 0x3f800000, 0, 0x40001000},
    {"add.rp.f32.bf16 %r0, %s1, %r2;", 'r', 0x3f80, 0x33000000, 0, 0x3f800001},
    {"sub.rz.f32.bf16 %r0, %s1, %r2;", 'r', 0x3f80, 0x33000000, 0, 0x3f7fffff},
    {"fma.rn.f32.bf16 %r0, %s1, %s2, %r3;", 'r', 0x4040, 0x3f00, 0x3e800000, 0x3fe00000},
    {"fma.rn.sat.f32.f16 %r0, %s1, %s2, %r3;", 'r', 0x3c00, 0x3c00, 0x3f800000, 0x3f800000},
    {"fma.rn.f32.f16 %r0, %s1, %s2, %r3;", 'r', 0x0001, 0x0001, 0x3f800000, 0x3f800000}, // 1 + 2^-48
    {"min.f32 %r0, %r1, %r2;", 'r', 0x7fc00000, 0x3f800000, 0, 0x3f800000},
    {"min.NaN.f32 %r0, %r1, %r2;", 'r', 0x7fc00000, 0x3f800000, 0, 0x7fffffff},
    {"min.f32 %r0, %r1, %r2;", 'r', 0, 0x80000000, 0, 0x80000000},
    {"max.f32 %r0, %r1, %r2;", 'r', 0, 0x80000000, 0, 0},
    {"neg.f32 %r0, %r1;", 'r', 0x3f800000, 0, 0, 0xbf800000},
    {"abs.ftz.f32 %r0, %r1;", 'r', 0x80000001, 0, 0, 0},
    {"copysign.f32 %r0, %r1, %r2;", 'r', 0x80000000, 0x3f800000, 0, 0xbf800000},
    {"rcp.rn.f32 %r0, %r1;", 'r', 0x40400000, 0, 0, 0x3eaaaaab},
    {"div.full.f32 %r0, %r1, %r2;", 'r', 0x3f800000, 0x40400000, 0, 0x3eaaaaab},
    {"sqrt.rz.f32 %r0, %r1;", 'r', 0x40000000, 0, 0, 0x3fb504f3},
    {"sqrt.rp.f32 %r0, %r1;", 'r', 0x40000000, 0, 0, 0x3fb504f4},
    {"ex2.approx.ftz.f32 %r0, %r1;", 'r', 0xc3000000, 0, 0, 0}, // 2^-128 is a denormal
    {"ex2.approx.f32 %r0, %r1;", 'r', 0x40400000, 0, 0, 0x41000000},
    {"lg2.approx.f32 %r0, %r1;", 'r', 0, 0, 0, 0xff800000},
    {"rsqrt.approx.f32 %r0, %r1;", 'r', 0x80000000, 0, 0, 0xff800000},
    {"add.f16 %s0, %s1, %s2;", 's', 0x7bff, 0x7bff, 0, 0x7c00},
    {"fma.rn.f16x2 %r0, %r1, %r2, %r3;", 'r', 0x3c004000, 0x40004000, 0x3c003c00, 0x42004500},
    {"fma.rn.bf16 %s0, %s1, %s2, %s3;", 's', 0x3f81, 0x3f81, 0xbf82, 0x3880}, // (1 + 2^-7)^2 - (1 + 2^-6)
    // predicates
    {"setp.lt.u32 %p0, %r1, %r2;", 'p', 1, 0xffffffff, 0, 1},
    {"setp.lt.s32 %p0, %r1, %r2;", 'p', 1, 0xffffffff, 0, 0},
    {"setp.ltu.f32 %p0, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 1},
    {"setp.ne.f32 %p0, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 0},
    {"setp.neu.f32 %p0, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 1},
    {"setp.nan.f32 %p0, %r1, %r2;", 'p', 0x7fc00000, 0, 0, 1},
    {"setp.eq.s32 %p1, 1, 1; setp.lt.and.s32 %p2|%p0, %r1, %r2, %p1;", 'p', 5, 3, 0, 1},
    {"set.lt.f16x2.f16x2 %r0, %r1, %r2;", 'r', 0x40003c00, 0x3c004000, 0, 0x3c00},
    {"set.gt.bf16x2.bf16x2 %r0, %r1, %r2;", 'r', 0x40003f80, 0x3f804000, 0, 0x3f800000},
    {"setp.neu.f16x2 %p0|%p1, %r1, %r2;", 'p', 0x40003c00, 0, 0, 1}, // (1, 2)
    {"setp.neu.f16x2 %p1|%p0, %r1, %r2;", 'p', 0x40003c00, 0, 0, 1},
    {"setp.lt.f16x2 %p0|%p1, %r1, %r2;", 'p', 0x40003c00, 0x3c004000, 0, 1}, // (1, 2) < (2, 1)
    {"setp.lt.f16x2 %p1|%p0, %r1, %r2;", 'p', 0x40003c00, 0x3c004000, 0, 0},
    {"setp.gt.bf16x2 %p1|%p0, %r1, %r2;", 'p', 0x40003f80, 0x3f804000, 0, 1},
    {"setp.eq.s32 %p2, 1, 2; setp.gt.or.bf16x2 %p0|%p1, %r1, %r2, !%p2;", 'p', 0x40003f80, 0x3f804000, 0, 1},
    {"setp.gt.s32 %p1, %r1, %r2; selp.b32 %r0, %r1, %r2, %p1;", 'r', 5, 9, 0, 9},
    {"slct.b32.s32 %r0, %r1, %r2, %r3;", 'r', 5, 9, 0x80000000, 9},
    {"set.lt.u32.s32 %r0, %r1, %r2;", 'r', 0x80000000, 0, 0, 0xffffffff},
    {"testp.infinite.f32 %p0, %r1;", 'p', 0xff800000, 0, 0, 1},
    // conversions
    {"cvt.s64.s32 %d0, %r1;", 'd', 0x80000000, 0, 0, 0xffffffff80000000},
    {"cvt.u32.s8 %r0, %r1;", 'r', 0x180, 0, 0, 0xffffff80},
    {"cvt.sat.u8.s32 %r0, %r1;", 'r', 0xfffffff0, 0, 0, 0},
    {"cvt.sat.s8.s32 %r0, %r1;", 'r', 300, 0, 0, 127},
    {"cvt.rzi.s32.f32 %r0, %r1;", 'r', 0xbfc00000, 0, 0, 0xffffffff},
    {"cvt.rmi.s32.f32 %r0, %r1;", 'r', 0xbfc00000, 0, 0, 0xfffffffe},
    {"cvt.rni.s32.f32 %r0, %r1;", 'r', 0x40200000, 0, 0, 2}, // 2.5
    {"cvt.rzi.s32.f32 %r0, %r1;", 'r', 0x7fc00000, 0, 0, 0},
    {"cvt.rzi.s32.f32 %r0, %r1;", 'r', 0x4f800000, 0, 0, 0x7fffffff},
    {"cvt.rzi.u32.f32 %r0, %r1;", 'r', 0xbf800000, 0, 0, 0},
    {"cvt.rzi.s64.f64 %d0, %d1;", 'd', 0x7ff8000000000000, 0, 0, 1ull << 63},
    {"cvt.rpi.f32.f32 %r0, %r1;", 'r', 0x3f8ccccd, 0, 0, 0x40000000},
    {"cvt.rn.f32.s64 %r0, %d1;", 'r', 0x4000004000000001, 0, 0, 0x5e800001}, // just above a tie
    {"cvt.rz.f32.u64 %r0, %d1;", 'r', ~0ull, 0, 0, 0x5f7fffff},
    {"cvt.rn.f16.f32 %s0, %r1;", 's', 0x477ff000, 0, 0, 0x7c00}, // 65520
    {"cvt.rz.f16.f32 %s0, %r1;", 's', 0x477ff000, 0, 0, 0x7bff},
    {"cvt.rn.f16.f32 %s0, %r1;", 's', 0x33000001, 0, 0, 1}, // just above half the smallest
    {"cvt.rn.f16.f32 %s0, %r1;", 's', 0x33000000, 0, 0, 0},
    {"cvt.rn.bf16.f32 %s0, %r1;", 's', 0x3f808000, 0, 0, 0x3f80},
    {"cvt.rn.bf16.f32 %s0, %r1;", 's', 0x3f818000, 0, 0, 0x3f82},
    {"cvt.rn.bf16x2.f32 %r0, %r1, %r2;", 'r', 0x3f800000, 0x40000000, 0, 0x3f804000},
    {"cvt.rn.relu.f16x2.f32 %r0, %r1, %r2;", 'r', 0xbf800000, 0x40000000, 0, 0x00004000},
    {"cvt.rna.tf32.f32 %r0, %r1;", 'r', 0x3f801000, 0, 0, 0x3f802000},
    {"cvt.rn.satfinite.e4m3x2.f32 %s0, %r1, %r2;", 's', 0x44000000, 0x3f800000, 0, 0x7e38},
    {"cvt.rn.satfinite.e5m2x2.f32 %s0, %r1, %r2;", 's', 0xc0000000, 0x3f800000, 0, 0xc03c},
    {"cvt.rn.f16x2.e4m3x2 %r0, %s1;", 'r', 0x7e01, 0, 0, 0x5f001800},
    {"mov.b32 {%s4, %s5}, %r1; mov.b32 %r0, {%s5, %s4};", 'r', 0x12345678, 0, 0, 0x56781234},
    {"mov.b32 %r0, 0f3FC00000;", 'r', 0, 0, 0, 0x3fc00000},
    {"add.f32 %r0, %r1, 1.5;", 'r', 0x3f800000, 0, 0, 0x40200000},
    {"createpolicy.fractional.L2::evict_first.b64 %d2, 1.0; mov.b32 %r0, %r1;", 'r', 7, 0, 0, 7},
    {"add.s16x2 %r0, %r1, %r2;", 'r', 0x7fffffff, 0x00010001, 0, 0x80000000},
    {"min.s16x2 %r0, %r1, %r2;", 'r', 0x00018000, 0xffff7fff, 0, 0xffff8000},
    {"min.u16x2 %r0, %r1, %r2;", 'r', 0x00018000, 0xffff7fff, 0, 0x00017fff},
    {"max.s16x2 %r0, %r1, %r2;", 'r', 0x00018000, 0xffff7fff, 0, 0x00017fff},
    {"max.relu.s16x2 %r0, %r1, %r2;", 'r', 0xfffe8000, 0xffff7fff, 0, 0x00007fff},
};

TEST(ptx_arithmetic, values_by_hand) {
  static uint64_t in[THREADS][3], out[THREADS];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    for (int t = 0; t < THREADS; t++) in[t][0] = r->a, in[t][1] = r->b, in[t][2] = r->c;
    compute(r->statement, r->result, (const uint64_t(*)[3])in, out);
    if (out[5] != r->want)
      FAIL("%s gives 0x%llx, expected 0x%llx", r->statement, (unsigned long long)out[5],
           (unsigned long long)r->want);
  }
}

// ----------------------------------------------------------------------------------- against the C compiler

static float f32(uint64_t bits) {
  float v;
  uint32_t narrow = (uint32_t)bits;
  memcpy(&v, &narrow, sizeof v);
  return v;
}
static double f64(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
static _Float16 f16(uint64_t bits) {
  _Float16 v;
  uint16_t narrow = (uint16_t)bits;
  memcpy(&v, &narrow, sizeof v);
  return v;
}
static uint64_t bits32(float v) { return F32(v); }
static uint64_t bits16(_Float16 v) {
  uint16_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static uint64_t fma32(const uint64_t *s) { return bits32(fmaf(f32(s[0]), f32(s[1]), f32(s[2]))); }
static uint64_t add32(const uint64_t *s) { return bits32(f32(s[0]) + f32(s[1])); }
static uint64_t div32(const uint64_t *s) { return bits32(f32(s[0]) / f32(s[1])); }
static uint64_t sqrt32(const uint64_t *s) { return bits32(sqrtf(f32(s[0]))); }
static uint64_t fma64(const uint64_t *s) { return F64(fma(f64(s[0]), f64(s[1]), f64(s[2]))); }
static uint64_t to16(const uint64_t *s) { return bits16((_Float16)f32(s[0])); }
static uint64_t to16_wide(const uint64_t *s) { return bits16((_Float16)f64(s[0])); }
static uint64_t from16(const uint64_t *s) { return bits32((float)f16(s[0])); }
static uint64_t to32(const uint64_t *s) { return bits32((float)f64(s[0])); }
static uint64_t from_s64(const uint64_t *s) { return bits32((float)(int64_t)s[0]); }
static uint64_t from_u64(const uint64_t *s) { return F64((double)s[0]); }
static uint64_t add16(const uint64_t *s) { return bits16((_Float16)((float)f16(s[0]) + (float)f16(s[1]))); }
static uint64_t mul_hi(const uint64_t *s) { return (uint64_t)((unsigned __int128)s[0] * s[1] >> 64); }
static uint64_t rem64(const uint64_t *s) { return s[1] ? s[0] % s[1] : s[0]; }

typedef struct judged {
  const char *statement;
  char result;
  uint64_t (*want)(const uint64_t *s);
  int mode; // of rounding, for the judge
} judged;
static const judged judges[] = {
    {"fma.rn.f32 %r0, %r1, %r2, %r3;", 'r', fma32, FE_TONEAREST},
    {"fma.rz.f32 %r0, %r1, %r2, %r3;", 'r', fma32, FE_TOWARDZERO},
    {"fma.rp.f32 %r0, %r1, %r2, %r3;", 'r', fma32, FE_UPWARD},
    {"fma.rm.f32 %r0, %r1, %r2, %r3;", 'r', fma32, FE_DOWNWARD},
    {"add.rn.f32 %r0, %r1, %r2;", 'r', add32, FE_TONEAREST},
    {"add.rm.f32 %r0, %r1, %r2;", 'r', add32, FE_DOWNWARD},
    {"add.rp.f32 %r0, %r1, %r2;", 'r', add32, FE_UPWARD},
    {"div.rn.f32 %r0, %r1, %r2;", 'r', div32, FE_TONEAREST},
    {"div.rz.f32 %r0, %r1, %r2;", 'r', div32, FE_TOWARDZERO},
    {"sqrt.rn.f32 %r0, %r1;", 'r', sqrt32, FE_TONEAREST},
    {"sqrt.rp.f32 %r0, %r1;", 'r', sqrt32, FE_UPWARD},
    {"fma.rn.f64 %d0, %d1, %d2, %d3;", 'd', fma64, FE_TONEAREST},
    {"fma.rm.f64 %d0, %d1, %d2, %d3;", 'd', fma64, FE_DOWNWARD},
    {"cvt.rn.f16.f32 %s0, %r1;", 's', to16, FE_TONEAREST},
    {"cvt.rn.f16.f64 %s0, %d1;", 's', to16_wide, FE_TONEAREST},
    {"cvt.f32.f16 %r0, %s1;", 'r', from16, FE_TONEAREST},
    {"cvt.rn.f32.f64 %r0, %d1;", 'r', to32, FE_TONEAREST},
    {"cvt.rz.f32.f64 %r0, %d1;", 'r', to32, FE_TOWARDZERO},
    {"cvt.rn.f32.s64 %r0, %d1;", 'r', from_s64, FE_TONEAREST},
    {"cvt.rn.f64.u64 %d0, %d1;", 'd', from_u64, FE_TONEAREST},
    {"add.rn.f16 %s0, %s1, %s2;", 's', add16, FE_TONEAREST},
    {"mul.hi.u64 %d0, %d1, %d2;", 'd', mul_hi, FE_TONEAREST},
    {"rem.u64 %d0, %d1, %d2;", 'd', rem64, FE_TONEAREST},
};

static bool is_nan_bits(char result, const judged *j, uint64_t v) {
  if (strchr(j->statement, '.') && (j->want == mul_hi || j->want == rem64)) return false;
  return result == 'r' ? isnan(f32(v)) : result == 's' ? (v & 0x7fff) > 0x7c00 : isnan(f64(v));
}

// All bits, or those of numbers near each other, so that sums cancel and products meet the third.
static uint64_t drawn(uint64_t *random) {
  static const uint64_t special[] = {0,          0x80000000, 0x3f800000,         0x7f800000, 0x00000001,
                                     0x007fffff, 0x7f7fffff, 0x3ff0000000000000, 0x7c00,     0x0400};
  uint64_t v = kiln_test_random(random);
  switch (v >> 60) {
  case 0: return special[v % (sizeof special / sizeof *special)];
  case 1:
  case 2:
  case 3:
  case 4: return (v & 0xffffffff80ffffff) | 0x3f000000;
  case 5:
  case 6: return (v & 0x800fffff8fffffff) | 0x3ff0000030000000;
  default: return v * 0x9e3779b97f4a7c15ull;
  }
}

TEST(ptx_arithmetic, random_values_against_the_compiler) {
  static uint64_t in[THREADS][3], out[THREADS];
  uint64_t random = 20261126;
  int rounds = RANDOM_ROUNDS * (kiln_test_full() ? 100 : 1);
  printf("seed %llu\n", (unsigned long long)random);
  for (size_t i = 0; i < sizeof judges / sizeof *judges; i++)
    for (int round = 0; round < rounds; round++) {
      const judged *j = &judges[i];
      for (int t = 0; t < THREADS; t++)
        for (int k = 0; k < 3; k++) in[t][k] = drawn(&random);
      compute(j->statement, j->result, (const uint64_t(*)[3])in, out);
      for (int t = 0; t < THREADS; t++) {
        fesetround(j->mode);
        volatile uint64_t want = j->want(in[t]);
        fesetround(FE_TONEAREST);
        if (is_nan_bits(j->result, j, want) ? !is_nan_bits(j->result, j, out[t]) : out[t] != want)
          FAIL("%s of 0x%llx, 0x%llx, 0x%llx gives 0x%llx, expected 0x%llx", j->statement,
               (unsigned long long)in[t][0], (unsigned long long)in[t][1], (unsigned long long)in[t][2],
               (unsigned long long)out[t], (unsigned long long)want);
      }
    }
}

// ------------------------------------------------------------------------------------- lanes and matrices

static const row lane_rows[] = {
    // the wanted value is of thread 5
    {"mov.u32 %r4, %laneid; shfl.sync.up.b32 %r0, %r4, 2, 0, -1;", 'r', 0, 0, 0, 3},
    {"mov.u32 %r4, %laneid; shfl.sync.up.b32 %r0|%p0, %r4, 9, 0, -1;", 'r', 0, 0, 0, 5},
    {"mov.u32 %r4, %laneid; shfl.sync.down.b32 %r0, %r4, 4, 31, -1;", 'r', 0, 0, 0, 9},
    {"mov.u32 %r4, %laneid; shfl.sync.down.b32 %r0, %r4, 4, 0x1807, -1;", 'r', 0, 0, 0, 5}, // segments of 8
    {"mov.u32 %r4, %laneid; shfl.sync.idx.b32 %r0, %r4, 1, 0x1c03, -1;", 'r', 0, 0, 0,
     5}, // segments of 4: lane 4 + 1
    {"mov.u32 %r4, %laneid; shfl.sync.bfly.b32 %r0, %r4, 6, 31, -1;", 'r', 0, 0, 0, 3},
    {"mov.u32 %r4, %laneid; shfl.sync.idx.b32 %r0|%p0, %r4, 31, 3, -1;", 'p', 0, 0, 0, 0},
    {"mov.u32 %r4, %laneid; setp.lt.u32 %p0, %r4, 3; vote.sync.ballot.b32 %r0, %p0, -1;", 'r', 0, 0, 0, 7},
    {"mov.u32 %r4, %laneid; setp.lt.u32 %p1, %r4, 3; vote.sync.any.pred %p0, %p1, -1;", 'p', 0, 0, 0, 1},
    {"mov.u32 %r4, %laneid; setp.lt.u32 %p1, %r4, 3; vote.sync.all.pred %p0, %p1, -1;", 'p', 0, 0, 0, 0},
    {"mov.u32 %r4, %laneid; and.b32 %r4, %r4, 3; match.any.sync.b32 %r0, %r4, -1;", 'r', 0, 0, 0, 0x22222222},
    {"mov.u32 %r4, %laneid; match.all.sync.b32 %r0|%p0, %r4, -1;", 'p', 0, 0, 0, 0},
    {"mov.u32 %r4, %laneid; redux.sync.add.u32 %r0, %r4, -1;", 'r', 0, 0, 0, 496},
    {"mov.u32 %r4, %laneid; sub.s32 %r4, %r4, 9; redux.sync.min.s32 %r0, %r4, -1;", 'r', 0, 0, 0,
     (uint32_t)-9},
    {"mov.u32 %r4, %laneid; redux.sync.xor.b32 %r0, %r4, -1;", 'r', 0, 0, 0, 0},
    // halves of a warp with masks of their own
    {"mov.u32 %r4, %laneid; setp.lt.u32 %p1, %r4, 16; selp.b32 %r5, 0xffff, 0xffff0000, %p1; "
     "redux.sync.max.u32 %r0, %r4, %r5;",
     'r', 0, 0, 0, 15},
};

TEST(ptx_arithmetic, lanes) {
  static uint64_t in[THREADS][3], out[THREADS];
  for (size_t i = 0; i < sizeof lane_rows / sizeof *lane_rows; i++) {
    compute(lane_rows[i].statement, lane_rows[i].result, (const uint64_t(*)[3])in, out);
    if (out[5] != lane_rows[i].want)
      FAIL("%s gives 0x%llx, expected 0x%llx", lane_rows[i].statement, (unsigned long long)out[5],
           (unsigned long long)lane_rows[i].want);
  }
}

// Atomics: all 128 threads on one word, from 0.
TEST(ptx_arithmetic, atomics) {
  static const struct {
    const char *operation;
    uint32_t want;
  } atomics[] = {{"add.u32", 127 * 64}, {"max.s32", 127}, {"min.u32", 0}, {"or.b32", 127},
                 {"xor.b32", 0},        {"inc.u32", 128}, {"and.b32", 0}};
  for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++) {
    char text[1024];
    uint64_t word = 0;
    ptx_report report;
    kiln_error err = {0};
    const char *value = strstr(atomics[i].operation, "inc") ? "1000" : "%r1";
    snprintf(text, sizeof text,
             ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) {\n.reg .b32 "
             "%%r<3>; .reg .b64 %%rd<2>;\n"
             "ld.param.u64 %%rd1, [x]; mov.u32 %%r1, %%tid.x; red.global.%s [%%rd1], %s; ret; }\n",
             atomics[i].operation, value);
    ptx_case c = {.name = atomics[i].operation,
                  .text = text,
                  .grid = 1,
                  .block = THREADS,
                  .buffers = {{&word, sizeof word}},
                  .buffer_count = 1};
    if (!case_run(&c, 3, &report, &err) || report.count) FAIL("%s", err.text);
    CHECK_INT(word, atomics[i].want);
  }
}

/// What is not PTX, or not known, is refused with its line and column.
TEST(ptx_arithmetic, texts_that_are_refused) {
  static const struct {
    const char *body, *want;
  } bad[] = {{"frob.b32 %r1, %r2;", "t:2:1: instruction 'frob' is not known"},
             {"setp.lt %p1, %r1, %r2;", "'setp.lt' wants 1 types, found 0"},
             {"cvt.s32 %r1, %r2;", "'cvt.s32' wants 2 types, found 1"},
             {"add.s32 %r1, %r2;", "t:2:17: expected ','"},
             {"add.s64 %r1, %r2, %r3;", "wants a register of 64 bits"},
             {"add.f32.s32 %r1, %r2, %r3;", "'add.f32.s32': expected one type, or f32 with f16 or bf16"},
             {"sub.s16x2 %r1, %r2, %r3;", "'sub' with '.s16x2' is not known here"},
             {"ld.global.wb.b32 %r1, [%rd1];", "'ld' with '.wb' is not known here"},
             {"st.global.ca.b32 [%rd1], %r1;", "'st' with '.ca' is not known here"},
             {"add.s32.wobble %r1, %r2, %r3;", "'add' with '.wobble' is not known here"},
             {"add.s32 %r1, %r9, %r3;", "'%r9' is not declared"},
             {"bra $nowhere;", "label '$nowhere' is nowhere"},
             {"@%r1 ret;", "expected a predicate"},
             {"ld.global.v2.b32 {%r1}, [%rd1];", "wants 2 elements, found 1"},
             {"ld.global.b32 %r1, %r2;", "does not take such an operand"},
             {"mov.b32 %r1, 0x12345", "expected ';'"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[512];
    kiln_error err = {0};
    ptx_module *module;
    ptx_memory *memory = ptx_memory_create();
    snprintf(text, sizeof text,
             ".version 7.0 .target sm_80 .address_size 64 .visible .entry k() { .reg .b32 %%r<4>; .reg .b64 "
             "%%rd<4>;\n%s }\n",
             bad[i].body);
    CHECK(ptx_module_create(memory, "t", text, strlen(text), &module, &err) != KILN_OK);
    if (!strstr(err.text, bad[i].want))
      FAIL("'%s' is refused with '%s', expected '%s'", bad[i].body, err.text, bad[i].want);
    ptx_memory_destroy(memory);
  }
}
