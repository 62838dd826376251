// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares inline PTX as Triton's own library writes it with the meaning of its formats, and special
// registers with the operating system.
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/codegen/float_bits.h"
#include "tests/codegen/llvm_rows.h"
#include "tests/codegen/ttir_run.h"

enum { N = 256, TEXT = 8192 };

// -------------------------------------------------------------------------- texts of Triton's library

// Kernels over 1024 elements: one operand of type T from parameter 0, one result of type U to parameter 1.
static void library_kernel(const char *text, const char *constraints, const char *from, const char *to,
                           unsigned pack, char out[TEXT]) {
  char quoted[TEXT / 2];
  size_t size = 0;
  for (const char *c = text; *c; c++)
    if (*c == '\n') size += (size_t)sprintf(quoted + size, "\\0A");
    else quoted[size++] = *c;
  quoted[size] = 0;
  snprintf(out, TEXT,
           "module {\n"
           "  tt.func public @k(%%x: !tt.ptr<%s>, %%y: !tt.ptr<%s>) {\n"
           "    %%i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>\n"
           "    %%sx = tt.splat %%x : !tt.ptr<%s> -> tensor<1024x!tt.ptr<%s>>\n"
           "    %%ax = tt.addptr %%sx, %%i : tensor<1024x!tt.ptr<%s>>, tensor<1024xi32>\n"
           "    %%sy = tt.splat %%y : !tt.ptr<%s> -> tensor<1024x!tt.ptr<%s>>\n"
           "    %%ay = tt.addptr %%sy, %%i : tensor<1024x!tt.ptr<%s>>, tensor<1024xi32>\n"
           "    %%v = tt.load %%ax : tensor<1024x!tt.ptr<%s>>\n"
           "    %%r = tt.elementwise_inline_asm \"%s\" {constraints = \"%s\", packed_element = %u : i32, "
           "pure = true} %%v : tensor<1024x%s> -> tensor<1024x%s>\n"
           "    tt.store %%ay, %%r : tensor<1024x!tt.ptr<%s>>\n"
           "    tt.return\n  }\n}\n",
           from, to, from, from, from, to, to, to, from, quoted, constraints, pack, from, to, to);
}

/// fp8e4b15: sign, 4 bits of exponent with bias 15, 3 of mantissa, no NaN and no infinity.
static double e4b15(unsigned code) {
  unsigned exponent = code >> 3 & 15, mantissa = code & 7;
  double size = exponent ? ldexp(8 + mantissa, (int)exponent - 15 - 3) : ldexp(mantissa, -14 - 3);
  return code & 128 ? -size : size;
}

TEST(inline_ptx, e4b15_to_f16) {
  static const char text[] = "{                                      \n"
                             ".reg .b32 a<2>, b<2>;                  \n"
                             "prmt.b32 a0, 0, $2, 0x5746;            \n"
                             "and.b32 b0, a0, 0x7f007f00;            \n"
                             "and.b32 b1, a0, 0x00ff00ff;            \n"
                             "and.b32 a1, a0, 0x00800080;            \n"
                             "shr.b32  b0, b0, 1;                    \n"
                             "add.u32 b1, b1, a1;                    \n"
                             "lop3.b32 $0, b0, 0x80008000, a0, 0xf8; \n"
                             "shl.b32 $1, b1, 7;                     \n"
                             "}                                      \n";
  static char kernel[TEXT];
  static uint8_t in[1024];
  static uint16_t out[1024];
  library_kernel(text, "=r,=r,r", "i8", "f16", 4, kernel);
  compile_for_gpus(kernel);
  for (int i = 0; i < 1024; i++) in[i] = (uint8_t)(i * 37 + i / 256);
  for (int way = PLAIN; way < WAYS; way++) {
    memset(out, 0x5a, sizeof out);
    run(kernel, (void *[]){in, out}, 1, way);
    for (int i = 0; i < 1024; i++)
      if ((double)h(out[i]) != e4b15(in[i]) || out[i] >> 15 != in[i] >> 7)
        FAIL("%02x: expected %g, found %g", in[i], e4b15(in[i]), (double)h(out[i]));
  }
}

// To the nearest, ties away from zero; what is above 1.75, and NaN, becomes 1.75.
static unsigned to_e4b15(uint16_t bits) {
  double x = fabs((double)h(bits)), best = INFINITY;
  unsigned code = 0;
  if (!(x < 1.75)) x = 1.75;
  for (unsigned c = 0; c < 0x7f; c++)
    if (fabs(e4b15(c) - x) <= best) best = fabs(e4b15(c) - x), code = c;
  return code | bits >> 15 << 7;
}

#define DOWN_HEAD                                                                                     \
  "{\n            .reg .pred p<4>;\n            .reg .b32 a<2>, b<2>;\n            .reg .b16 c<4>;\n" \
  "            .reg .b16 max_val_f16;\n            .reg .b32 max_val_f16x2;\n"                        \
  "            mov.b16 max_val_f16,   0x3F00;\n            mov.b32 max_val_f16x2, 0x3F003F00;\n"      \
  "            and.b32 a0, $1, 0x7fff7fff;\n            and.b32 a1, $2, 0x7fff7fff;"
#define DOWN_TAIL                                                                                         \
  "mad.lo.u32 a0, a0, 2, 0x00800080;\n              mad.lo.u32 a1, a1, 2, 0x00800080;\n"                  \
  "              lop3.b32 b0, $1, 0x80008000, a0, 0xea;\n              lop3.b32 b1, $2, 0x80008000, a1, " \
  "0xea;\n              prmt.b32 $0, b0, b1, 0x7531;\n              }"

TEST(inline_ptx, f16_to_e4b15) {
  static const char *const texts[] = {
      DOWN_HEAD
      "min.f16x2 a0, a0, max_val_f16x2;\n                  min.f16x2 a1, a1, max_val_f16x2;" DOWN_TAIL,
      DOWN_HEAD
      "setp.lt.f16x2  p0|p1, a0, max_val_f16x2;\n                  setp.lt.f16x2  p2|p3, a1, "
      "max_val_f16x2;\n                  mov.b32 {c0, c1}, a0;\n                  mov.b32 {c2, c3}, "
      "a1;\n                  selp.b16  c0, c0, max_val_f16, p0;\n                  selp.b16  c1, c1, "
      "max_val_f16, p1;\n                  selp.b16  c2, c2, max_val_f16, p2;\n                  "
      "selp.b16  c3, c3, max_val_f16, p3;\n                  mov.b32 a0, {c0, c1};\n                 "
      " mov.b32 a1, {c2, c3};" DOWN_TAIL};
  static char kernel[TEXT];
  static uint16_t in[1024];
  static uint8_t out[1024];
  for (size_t t = 0; t < 2; t++) {
    library_kernel(texts[t], "=r,r,r", "f16", "i8", 4, kernel);
    compile_for_gpus(kernel);
    for (unsigned first = 0; first < 65536; first += t ? 8 * 1024 : 1024) {
      for (unsigned i = 0; i < 1024; i++) in[i] = (uint16_t)(first + i);
      int way = first / 1024 % 9 ? OPTIMISED : PLAIN;
      if (first % 8192 && way == PLAIN) way = OPTIMISED;
      memset(out, 0x5a, sizeof out);
      run(kernel, (void *[]){in, out}, 1, way);
      for (unsigned i = 0; i < 1024; i++)
        if (out[i] != to_e4b15(in[i]))
          FAIL("text %zu, %04x = %g: expected %02x, found %02x", t, in[i], (double)h(in[i]), to_e4b15(in[i]),
               out[i]);
    }
  }
}

// The example of inline_asm_elementwise's own description: two results of four elements each.
TEST(inline_ptx, several_results_of_packs) {
  static const char kernel[] =
      "module {\n"
      "  tt.func public @k(%a: !tt.ptr<i8>, %b: !tt.ptr<f32>, %c: !tt.ptr<i32>, %d: !tt.ptr<f32>) {\n"
      "    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"
      "    %sa = tt.splat %a : !tt.ptr<i8> -> tensor<64x!tt.ptr<i8>>\n"
      "    %pa = tt.addptr %sa, %i : tensor<64x!tt.ptr<i8>>, tensor<64xi32>\n"
      "    %sb = tt.splat %b : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\n"
      "    %pb = tt.addptr %sb, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
      "    %sc = tt.splat %c : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>\n"
      "    %pc = tt.addptr %sc, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>\n"
      "    %sd = tt.splat %d : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\n"
      "    %pd = tt.addptr %sd, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
      "    %x = tt.load %pa : tensor<64x!tt.ptr<i8>>\n"
      "    %y = tt.load %pb : tensor<64x!tt.ptr<f32>>\n"
      "    %r:2 = tt.elementwise_inline_asm \"{ // Unpack `a` into `ai`.\\0A .reg .b8 tmp<4>; mov.b32 {tmp0, "
      "tmp1, tmp2, tmp3}, $8; cvt.u32.u8 $0, tmp0; cvt.u32.u8 $1, tmp1; cvt.u32.u8 $2, tmp2; cvt.u32.u8 $3, "
      "tmp3; }\\0A // Convert `ai` to float.\\0A cvt.rn.f32.s32 $4, $0; cvt.rn.f32.s32 $5, $1; "
      "cvt.rn.f32.s32 "
      "$6, $2; cvt.rn.f32.s32 $7, $3; max.f32 $4, $4, $9; max.f32 $5, $5, $10; max.f32 $6, $6, $11; max.f32 "
      "$7, "
      "$7, $12;\" {constraints = \"=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r\", packed_element = 4 : i32, pure = "
      "true} "
      "%x, %y : tensor<64xi8>, tensor<64xf32> -> tensor<64xi32>, tensor<64xf32>\n"
      "    tt.store %pc, %r#0 : tensor<64x!tt.ptr<i32>>\n"
      "    tt.store %pd, %r#1 : tensor<64x!tt.ptr<f32>>\n"
      "    tt.return\n  }\n}\n";
  uint8_t a[64];
  float b[64], d[64];
  int32_t c[64];
  for (int i = 0; i < 64; i++) a[i] = (uint8_t)(i * 5), b[i] = (float)((i * 77) % 300);
  compile_for_gpus(kernel);
  for (int way = PLAIN; way < WAYS; way++) {
    run(kernel, (void *[]){a, b, c, d}, 1, way);
    for (int i = 0; i < 64; i++) {
      CHECK_INT(c[i], a[i]);
      CHECK(d[i] == fmaxf(a[i], b[i]));
    }
  }
}

// ------------------------------------------------------------------------------- special registers

static const char words[] = "module {\n"
                            "  tt.func public @k(%t: !tt.ptr<i64>, %m: !tt.ptr<i32>) {\n"
                            "    %x = tt.elementwise_inline_asm \"mov.u64 $0, %globaltimer;\" {constraints = "
                            "\"=l\", packed_element = 1 : "
                            "i32, pure = false} -> i64\n"
                            "    %y = tt.elementwise_inline_asm \"mov.u32 $0, %smid;\" {constraints = "
                            "\"=r\", packed_element = 1 : i32, "
                            "pure = true} -> i32\n"
                            "    tt.store %t, %x : !tt.ptr<i64>\n"
                            "    tt.store %m, %y : !tt.ptr<i32>\n"
                            "    tt.return\n  }\n}\n";

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

TEST(inline_ptx, time_and_place_on_the_host) {
  cpu_set_t all, one;
  CHECK_INT(sched_getaffinity(0, sizeof all, &all), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
    for (int way = PLAIN; way < WAYS; way++) {
      int64_t time = 0, before = now();
      int32_t place = -1;
      run(words, (void *[]){&time, &place}, 1, way);
      CHECK(time >= before && time <= now());
      CHECK_INT(place, cpu);
    }
  }
  CHECK_INT(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(inline_ptx, time_and_place_on_every_machine) {
  kiln_error err = {0};
  unsigned count = 0;
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i);
    if (!strcmp(p->name, "native") || !llvm_has(p->name)) continue;
    if (compile_for(words, p->name, &err) != KILN_OK) FAIL("%s: %s", p->name, err.text);
    count++;
  }
  CHECK(count > 20);
}

// AMD's own text, as Triton's library has it for HIP.
TEST(inline_ptx, assembly_of_amd_is_its_own) {
  static const char kernel[] = "module {\n"
                               "  tt.func public @k(%%t: !tt.ptr<i64>) {\n"
                               "    %%x = tt.elementwise_inline_asm \"%s\" {constraints = \"=r\", "
                               "packed_element = 1 : i32, pure = false} -> "
                               "i64\n"
                               "    tt.store %%t, %%x : !tt.ptr<i64>\n"
                               "    tt.return\n  }\n}\n";
  static const char *const cases[][2] = {
      {"\\0A            s_memrealtime $0\\0A            s_waitcnt vmcnt(0)\\0A            ", "gfx942"},
      {"\\0A            s_sendmsg_rtn_b64 $0, sendmsg(MSG_RTN_GET_REALTIME)\\0A            s_waitcnt "
       "lgkmcnt(0)\\0A",
       "gfx1100"}};
  char text[2048];
  kiln_error err = {0};
  for (size_t i = 0; i < 2; i++) {
    snprintf(text, sizeof text, kernel, cases[i][0]);
    CHECK_OK(compile_for(text, cases[i][1], &err), err);
    CHECK_INT(compile_for(text, "host", &err), KILN_STATUS_UNSUPPORTED);
  }
}
