// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests @fp(ftz): denormal operands and results of f32 and bf16 arithmetic become zeros of the same sign,
// in the interpreter, in host code and by the modes of the GPUs; without it they are kept. Operations other
// than arithmetic never change them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/codegen/host_mapping.h"

enum { N = 64 };

// z[64 * r + i]: result r for element i. Every result is one operation of `mode`, stored as its bits.
static const char f32_source[] =
    "kiln 1\n"
    "fn put(z, r, v) { store(z + (r * 64 + iota(64)), bitcast(v, i32)) }\n"
    "kernel k(x: in *f32, y: in *f32, z: out *i32) @grid(1) @config(warps = 1) %s {\n"
    "  let a = load(x + iota(64))\n"
    "  let b = load(y + iota(64))\n"
    "  put(z, 0, a + b)\n  put(z, 1, a - b)\n  put(z, 2, a * b)\n  put(z, 3, div(a, b, precise = true))\n"
    "  put(z, 4, fma(a, b, a))\n  put(z, 5, min(a, b))\n  put(z, 6, max(a, b))\n  put(z, 7, sqrt(abs(a), "
    "precise = true))\n"
    "  put(z, 8, floor(a))\n  put(z, 9, ceil(a))\n  put(z, 10, round(a))\n  put(z, 11, a * 1.0)\n"
    "  put(z, 12, select(a < b, 1.0, 2.0) + zeros(f32[64]))\n  put(z, 13, select(a == 0.0, 1.0, 2.0) + "
    "zeros(f32[64]))\n"
    "  put(z, 14, abs(a))\n  put(z, 15, a)\n  put(z, 16, ((a as f64) * 1e20) as f32)\n  put(z, 17, ((a as "
    "f64) * 1e-20) as f32)\n"
    "  put(z, 18, a %% b)\n  put(z, 19, scan.max(a, 0))\n  put(z, 20, reduce.max(a, 0) + zeros(f32[64]))\n"
    "  put(z, 21, select(a > b, a, b))\n  put(z, 22, reshape(reduce.add(reshape(a, [64, 1]), 1), [64]))\n"
    "  put(z, 23, bitcast(bitcast(a, i32) ^ 1, f32))\n"
    "}\n";
enum { F32_RESULTS = 24, MOVES = 1 << 14 | 1 << 15 | 1 << 23 };

static const char bf16_source[] =
    "kiln 1\n"
    "fn put(z, r, v) { store(z + (r * 64 + iota(64)), bitcast(v, i16)) }\n"
    "kernel k(x: in *bf16, y: in *bf16, z: out *i16) @grid(1) @config(warps = 1) %s {\n"
    "  let a = load(x + iota(64))\n"
    "  let b = load(y + iota(64))\n"
    "  put(z, 0, a + b)\n  put(z, 1, a - b)\n  put(z, 2, a * b)\n  put(z, 3, fma(a, b, a))\n  put(z, 4, "
    "min(a, b))\n  put(z, 5, max(a, b))\n"
    "  put(z, 6, floor(a))\n  put(z, 7, a)\n  put(z, 8, (a as f32) as bf16)\n  put(z, 9, abs(a))\n  put(z, "
    "10, scan.min(a, 0))\n"
    "}\n";
enum { BF16_RESULTS = 11, BF16_MOVES = 1 << 7 | 1 << 8 | 1 << 9 };

static ir_kernel *lower(kiln_arena *arena, const char *format, const char *mode, const kiln_target *target) {
  char *text = kiln_arena_alloc(arena, 4096);
  kiln_diagnostics d = {.arena = arena};
  snprintf(text, 4096, format, mode);
  kiln_unit *unit = kiln_unit_open(arena, "flush.kiln", text, strlen(text), NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%u:%u: %s", d.items[0].line, d.items[0].column, d.items[0].text);
  return kernel;
}

/// Denormals, zeros, the least normals, what multiplies to denormals, ordinary numbers, infinities and NaN,
/// all against each other.
static uint32_t operand(unsigned i, bool right) {
  static const uint32_t values[8] = {0x00000001, 0x807fffff, 0x00800000, 0x80000000,
                                     0x1f800000, 0xa0000000, 0x3f800000, 0x00400000};
  static const uint32_t others[8] = {0x00000000, 0x80000001, 0x80800000, 0x20000000,
                                     0x00200000, 0xbf000000, 0x7f800000, 0x7fc00000};
  return right ? others[i / 8] : values[i % 8];
}

typedef struct memory {
  uint32_t x[N], y[N], z[F32_RESULTS * N];
  uint16_t hx[N], hy[N], hz[BF16_RESULTS * N];
} memory;

static void fill(memory *m) {
  memset(m, 0xab, sizeof *m);
  for (unsigned i = 0; i < N; i++) {
    m->x[i] = operand(i, false), m->y[i] = operand(i, true);
    m->hx[i] = (uint16_t)(m->x[i] >> 16 | (m->x[i] & 0xffff ? 1 : 0)), m->hy[i] = (uint16_t)(m->y[i] >> 16);
  }
}

static void interpret(const char *format, const char *mode, void *const args[3]) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target;
  CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
  CHECK_OK(kiln_interpret(lower(arena, format, mode, &target), args, (uint32_t[]){1, 1, 1}, NULL, &err), err);
  kiln_arena_destroy(arena);
}

static void run_host(const char *format, const char *mode, const char *target_name, void *const args[3]) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target;
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  kiln_codegen_options_init(&options);
  CHECK_OK(kiln_codegen(lower(arena, format, mode, &target), &target, &options, &artifact, &err), err);
  kiln_host_kernel *run = mapping_open(&artifact.code, "kiln_k");
  CHECK_INT(mapping_run(run, args, (uint32_t[]){1, 1, 1}, artifact.info.scratch_bytes), 0);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

static bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
static bool is_denormal(uint32_t bits) { return !(bits & 0x7f800000) && bits & 0x7fffff; }

/// `shift`: 16 for bf16, whose bits are the upper half.
static uint32_t result(const memory *m, unsigned r, unsigned i, bool half) {
  return half ? (uint32_t)m->hz[r * N + i] << 16 : m->z[r * N + i];
}

/// Host equals interpreter; counts the denormal results that are no moves.
static unsigned compare(const char *format, const char *mode, const char *target, bool half) {
  static memory a, b;
  unsigned count = 0, results = half ? BF16_RESULTS : F32_RESULTS, moves = half ? BF16_MOVES : MOVES;
  fill(&a), fill(&b);
  interpret(format, mode, half ? (void *[]){a.hx, a.hy, a.hz} : (void *[]){a.x, a.y, a.z});
  run_host(format, mode, target, half ? (void *[]){b.hx, b.hy, b.hz} : (void *[]){b.x, b.y, b.z});
  for (unsigned r = 0; r < results; r++)
    for (unsigned i = 0; i < N; i++) {
      uint32_t want = result(&a, r, i, half), got = result(&b, r, i, half);
      if (want != got && !(is_nan(want) && is_nan(got)))
        FAIL("%s %s: result %u of %08x and %08x is %08x, the interpreter has %08x", target, mode, r,
             half ? (unsigned)a.hx[i] << 16 : a.x[i], half ? (unsigned)a.hy[i] << 16 : a.y[i], got, want);
      count += !(moves >> r & 1) && is_denormal(want);
    }
  // What only moves bits: the operand as it was.
  for (unsigned i = 0; i < N; i++) {
    if (half) CHECK_INT(a.hz[7 * N + i], a.hx[i]);
    else CHECK_INT(a.z[15 * N + i], a.x[i]);
  }
  return count;
}

static const char *const hosts[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

TEST(flush, host_equals_interpreter) {
  for (unsigned t = 0; t < 3; t++) {
    if (!mapping_can_run(hosts[t])) continue;
    // The result that selects an operand by a comparison moves it too.
    unsigned kept = compare(f32_source, "", hosts[t], false),
             kept_half = compare(bf16_source, "", hosts[t], true);
    printf("%s: %u and %u denormal results without ftz\n", hosts[t], kept, kept_half);
    CHECK(kept > 100);
    CHECK(kept_half > 50);
    CHECK(compare(f32_source, "@fp(ftz)", hosts[t], false) <= N);
    CHECK_INT(compare(bf16_source, "@fp(ftz)", hosts[t], true), 0);
    CHECK(compare(f32_source, "@fp(strict, ftz)", hosts[t], false) <= N);
  }
}

/// The values of some operations, by hand.
TEST(flush, meaning) {
  static memory m;
  fill(&m);
  m.x[0] = 0x80000001, m.y[0] = 0x00000000; // -denormal with 0
  m.x[1] = 0x00800000, m.y[1] = 0x00800001; // least normals: the difference is a denormal
  m.x[2] = 0x807fffff, m.y[2] = 0x807fffff;
  interpret(f32_source, "@fp(ftz)", (void *[]){m.x, m.y, m.z});
  CHECK_INT(m.z[0 * N + 0], 0x00000000);  // -0 + 0
  CHECK_INT(m.z[1 * N + 1], 0x80000000);  // the result is flushed with its sign
  CHECK_INT(m.z[2 * N + 2], 0x00000000);  // -0 * -0
  CHECK_INT(m.z[5 * N + 0], 0x80000000);  // min(-0, 0)
  CHECK_INT(m.z[8 * N + 0], 0x80000000);  // floor(-0), not -1
  CHECK_INT(m.z[11 * N + 0], 0x80000000); // * 1.0 is arithmetic
  CHECK_INT(m.z[13 * N + 0], 0x3f800000); // equals 0
  CHECK_INT(m.z[14 * N + 2], 0x007fffff); // abs moves bits
  CHECK_INT(m.z[16 * N + 2], 0x80000000); // conversion to f64
  interpret(f32_source, "", (void *[]){m.x, m.y, m.z});
  CHECK_INT(m.z[1 * N + 1], 0x80000001);
  CHECK_INT(m.z[8 * N + 0], 0xbf800000);
  CHECK_INT(m.z[13 * N + 0], 0x40000000);
}

static char *compile_text(const char *format, const char *mode, const char *target_name, kiln_format output) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target;
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  kiln_codegen_options_init(&options);
  options.output = output;
  CHECK_OK(kiln_codegen(lower(arena, format, mode, &target), &target, &options, &artifact, &err), err);
  char *text = calloc(1, artifact.code.size + 1);
  memcpy(text, artifact.code.bytes, artifact.code.size);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
  return text;
}

static const char maths_source[] = "kiln 1\n"
                                   "kernel k(x: inout *f32) @grid(1) @config(warps = 1) %s {\n"
                                   "  let a = load(x + iota(64))\n"
                                   "  store(x + iota(64), exp2(a) + log2(a) * rsqrt(a) - sqrt(a) / (a + 2.0) "
                                   "+ div(a, 3.0, precise = true) + sqrt(a, precise = true))\n"
                                   "}\n";

TEST(flush, nvptx_instructions) {
  static const char *const forms[] = {"add",          "sub",         "fma.rn",   "ex2.approx", "lg2.approx",
                                      "rsqrt.approx", "sqrt.approx", "div.full", "div.rn",     "sqrt.rn"};
  char *plain = compile_text(maths_source, "", "sm_80", KILN_FORMAT_PTX),
       *flushed = compile_text(maths_source, "@fp(ftz)", "sm_80", KILN_FORMAT_PTX);
  char piece[40];
  CHECK_INT(kiln_test_count(plain, ".ftz"), 0);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    snprintf(piece, sizeof piece, "%s.f32", forms[i]);
    if (kiln_test_count(flushed, piece)) FAIL("%s keeps denormals:\n%s", piece, flushed);
    snprintf(piece, sizeof piece, "%s.ftz.f32", forms[i]);
    if (!strchr("as", forms[i][0]) && !kiln_test_count(flushed, piece)) FAIL("no %s:\n%s", piece, flushed);
  }
  free(plain), free(flushed);
}

static const char exp2_source[] =
    "kiln 1\n"
    "fn put(z, r, v) { store(z + (r * 64 + iota(64)), bitcast(v, i32)) }\n"
    "kernel k(x: in *f32, y: in *f32, z: out *i32) @grid(1) @config(warps = 1) %s {\n"
    "  let a = load(x + iota(64))\n"
    "  put(z, 0, exp2(a, ftz = true))\n  put(z, 1, exp2(a))\n  put(z, 2, exp2(a as bf16, ftz = true) as "
    "f32)\n"
    "}\n";

/// `ftz = true` is about the one operation, and about f32: what is no denormal is as without it.
TEST(flush, exp2_alone) {
  static memory interpreted;
  fill(&interpreted);
  for (unsigned i = 0; i < N; i++) {
    float x = (float)i - 160; // from below the least denormal to far above the least normal
    memcpy(&interpreted.x[i], &x, sizeof x);
  }
  interpret(exp2_source, "", (void *[]){interpreted.x, interpreted.y, interpreted.z});
  unsigned denormals = 0;
  for (unsigned i = 0; i < N; i++) {
    bool is_denormal = interpreted.z[N + i] && interpreted.z[N + i] < 0x00800000;
    denormals += is_denormal;
    CHECK_INT(interpreted.z[i], is_denormal ? 0 : interpreted.z[N + i]);
    CHECK_INT(interpreted.z[2 * N + i], interpreted.z[N + i] & 0xffff0000);
  }
  CHECK_INT(denormals, 23);
  for (unsigned t = 0; t < 3; t++) {
    static memory host;
    if (!mapping_can_run(hosts[t])) continue;
    host = interpreted;
    memset(host.z, 0xab, sizeof host.z);
    run_host(exp2_source, "", hosts[t], (void *[]){host.x, host.y, host.z});
    for (unsigned i = 0; i < 3 * N; i++) CHECK_INT(host.z[i], interpreted.z[i]);
  }
  char *ptx = compile_text(exp2_source, "", "sm_90a", KILN_FORMAT_PTX),
       *amd = compile_text(exp2_source, "", "gfx942", KILN_FORMAT_ASM);
  CHECK(kiln_test_count(ptx, "ex2.approx.ftz.f32") && kiln_test_count(ptx, "ex2.approx.f32"));
  CHECK(kiln_test_count(amd, "v_exp_f32") > 2 && kiln_test_count(amd, "v_ldexp_f32"));
  free(ptx), free(amd);
}

// float_denorm_mode_32: 0 flushes operands and results, 3 keeps them. The prelude's functions must be part of
// the kernel then.
TEST(flush, amdgpu_mode) {
  static const char *const targets[] = {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    char *plain = compile_text(maths_source, "", targets[i], KILN_FORMAT_ASM),
         *flushed = compile_text(maths_source, "@fp(ftz)", targets[i], KILN_FORMAT_ASM);
    CHECK_INT(kiln_test_count(plain, ".amdhsa_float_denorm_mode_32 3"), 1);
    CHECK_INT(kiln_test_count(flushed, ".amdhsa_float_denorm_mode_32 0"), 1);
    CHECK_INT(kiln_test_count(flushed, "s_swappc_b64"), 0);
    free(plain), free(flushed);
  }
}
