// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws programs under @fp(ftz), of f32 and of bf16: chains of exact operations, among them those that a
// machine's mode does not reach because nothing is computed (-x, x * 1.0, max(x, x), sums of one element, there
// and back through f64). Host code, PTX in its interpreter and, where KILN_FLUSH_HIP names the first HIP
// device's processor (emulated.sh), AMD code have
// the interpreter's bits.
//
// KILN_SEEDS=first..last picks seeds; KILN_TEST_FULL takes 2,000.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/codegen/hip_mapping.h"
#include "tests/codegen/host_mapping.h"
#include "tools/ptx/ptx.h"

enum { N = 64, INPUTS = 2, STEPS = 14, TEXT = 1 << 14, ROWS = INPUTS + STEPS };

typedef struct drawn {
  char text[TEXT];
  size_t length;
  bool is_half;
} drawn;

static void put(drawn *d, const char *format, ...) {
  va_list args;
  va_start(args, format);
  d->length += (size_t)vsnprintf(d->text + d->length, TEXT - d->length, format, args);
  va_end(args);
  CHECK(d->length < TEXT);
}

/// `%T` stands for the type, `%a %b %c` for values, `%k` for a constant, `%i` for the integers of its width, `%s` for the bit of
/// the sign, `%m` for all others.
static const char *const forms[] = {
    "-%a",
    "-(-%a)",
    "%a * 1.0",
    "%a * -1.0",
    "%a / 1.0",
    "-0.0 - %a",
    "%a + -0.0",
    "abs(%a) + 0.0",
    "%a - 0.0",
    "max(%a, %a)",
    "min(%a, %k)",
    "min(max(%a, %b), %a)",
    "fma(%a, 1.0, -0.0)",
    "fma(-1.0, %a, 0.0)",
    "%a + %b",
    "%a - %b",
    "%a * %b",
    "%a * %k",
    "%a % %b",
    "fma(%a, %b, %c)",
    "fma(%a, %k, %c)",
    "min(%a, %b)",
    "max(%a, %b)",
    "abs(%a)",
    "abs(-%a)",
    "floor(%a)",
    "ceil(%a)",
    "round(%a)",
    "div(%a, %b, precise = true)",
    "sqrt(abs(%a), precise = true)",
    "select(%a < %b, %a, %c)",
    "select(%a == 0.0, %b, -%a)",
    "select(%a != %b, %k, %a) + zeros(%T[64])",
    "(%a as f64) as %T",
    "((%a as f64) * 0x1p-60) as %T",
    "((%a as f64) * 0x1p60) as %T",
    "(((-%a) as f64) * 1.0) as %T",
    "(%a as f32) as %T",
    "(%a as bf16) as %T",
    "((%a as f64) as bf16) as %T",
    "((%a as f32) as f64) as %T",
    "(%a as f16) as %T",
    "select(%a as i1, %a, %b)",
    "bitcast(bitcast(%a, %i) ^ %s, %T)",
    "bitcast(bitcast(%a, %i) & %m, %T)",
    "reshape(reduce.add(reshape(%a, [64, 1]), 1), [64])",
    "reshape(reduce.mul(reshape(-%a, [64, 1]), 1), [64])",
    "reshape(reduce.max(reshape(%a, [64, 1]), 1), [64])",
    "reduce.max(broadcast(reshape(%a, [64, 1]), [64, 4]), 1)",
    "reduce.min(%a, 0) + zeros(%T[64])",
    "reshape(scan.add(reshape(%a, [64, 1]), 1), [64])",
    "scan.max(%a, 0)",
    "scan.min(-%a, 0)",
};

/// Of a type %s.
static const char *const constants[] = {"1.0",          "-1.0",         "2.0",   "0.5",
                                        "bits(%s, 1)",  "-bits(%s, 2)", "-0.0",  "3.0",
                                        "bits(%s, 64)", "-0x1p-120",    "0x1p20"};

static void draw_operation(drawn *d, uint64_t *random, unsigned step) {
  const char *type = d->is_half ? "bf16" : "f32", *const whole = d->is_half ? "i16" : "i32";
  const char *form = forms[kiln_test_random(random) % (sizeof forms / sizeof *forms)];
  unsigned operand[3], known = INPUTS + step;
  for (unsigned i = 0; i < 3; i++) {
    const uint64_t r = kiln_test_random(random);
    operand[i] = (unsigned)(r & 1 ? known - 1 : (r >> 1) % known); // chains, too
  }
  put(d, "  let v%u = ", known);
  for (const char *p = form; *p; p++) {
    if (*p != '%' || p[1] == ' ') {
      put(d, "%c", *p);
      continue;
    }
    p++;
    switch (*p) {
    case 'T': put(d, "%s", type); break;
    case 'i': put(d, "%s", whole); break;
    case 's': put(d, "%s", d->is_half ? "0x8000" : "0x80000000"); break;
    case 'm': put(d, "%s", d->is_half ? "0x7fff" : "0x7fffffff"); break;
    case 'k':
      put(d, constants[kiln_test_random(random) % (sizeof constants / sizeof *constants)], type);
      break;
    default: put(d, "v%u", operand[*p - 'a']);
    }
  }
  put(d, "\n  put(z, %u, v%u)\n", known, known);
}

static drawn draw(uint64_t seed) {
  drawn d = {.is_half = seed % 3 == 0};
  uint64_t random = seed;
  const char *type = d.is_half ? "bf16" : "f32", *const whole = d.is_half ? "i16" : "i32";
  put(&d, "kiln 1\nfn put(z, r, v) { store(z + (r * 64 + iota(64)), bitcast(v, %s)) }\n", whole);
  put(&d, "kernel k(x: in *%s, z: out *%s) @grid(1) @config(warps = %u) @fp(%sftz) {\n", type, whole,
      seed % 2 ? 1u : 2u, seed % 5 ? "" : "strict, ");
  for (unsigned i = 0; i < INPUTS; i++) {
    put(&d, "  let v%u = load(x + (%u + iota(64)))\n", i, i * N);
    put(&d, "  put(z, %u, v%u)\n", i, i);
  }
  for (unsigned step = 0; step < STEPS; step++) draw_operation(&d, &random, step);
  put(&d, "}\n");
  return d;
}

typedef struct memory {
  uint8_t x[ROWS * N * 4], z[ROWS * N * 4];
} memory;

static uint32_t element(const drawn *d, const uint8_t *bytes, unsigned i) {
  uint32_t v = 0;
  memcpy(&v, bytes + i * (d->is_half ? 2 : 4), d->is_half ? 2 : 4);
  return d->is_half ? v << 16 : v;
}

/// Half denormals; the others stand at ends, or anywhere.
static void fill(const drawn *d, uint64_t seed, memory *m) {
  static const uint32_t ends[] = {0,          0x80000000, 0x00800000, 0x80800000, 0x007f0000, 0x807f0000,
                                  0x3f800000, 0xbf800000, 0x1f800000, 0xa0000000, 0x7f800000, 0xff800000,
                                  0x7fc00000, 0x40400000, 0x00ff0000, 0x7f7f0000};
  uint64_t random = ~seed;
  memset(m, 0xab, sizeof *m);
  for (unsigned i = 0; i < INPUTS * N; i++) {
    const uint64_t r = kiln_test_random(&random);
    uint32_t v = r & 1 ? (uint32_t)(r >> 32) & 0x807fffff : r & 2 ? ends[r >> 8 & 15] : (uint32_t)(r >> 32);
    if (d->is_half) v >>= 16;
    memcpy(m->x + i * (d->is_half ? 2 : 4), &v, d->is_half ? 2 : 4);
  }
}

static bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

static ir_kernel *lowered(const drawn *d, kiln_arena *arena, const kiln_target *target) {
  kiln_diagnostics messages = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "drawn.kiln", d->text, d->length, NULL, &messages);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &messages) : NULL;
  if (!kernel) FAIL("%u: %s\n%s", messages.items[0].line, messages.items[0].text, d->text);
  return kernel;
}

typedef void run_way(const kiln_artifact *artifact, memory *m);

static void run_host(const kiln_artifact *artifact, memory *m) {
  void *args[] = {m->x, m->z};
  kiln_host_kernel *run = mapping_open(&artifact->code, artifact->info.symbol);
  CHECK_INT(mapping_run(run, args, (uint32_t[]){1, 1, 1}, artifact->info.scratch_bytes), 0);
}

static void run_hip(const kiln_artifact *artifact, memory *m) {
  uint8_t *const buffers[] = {m->x, m->z};
  const hip_table *hip = hip_open();
  if (!hip || !hip_run(hip, artifact, buffers, 2, sizeof m->x)) FAIL("the launch failed");
}

static void run_ptx(const kiln_artifact *artifact, memory *m) {
  static ptx_report report;
  kiln_error err = {0};
  ptx_module *module = NULL;
  ptx_memory *space = ptx_memory_create();
  const uint64_t args[] = {ptx_memory_alloc(space, sizeof m->x, false),
                           ptx_memory_alloc(space, sizeof m->z, false)};
  memcpy(ptx_memory_bytes(space, args[0], sizeof m->x, true), m->x, sizeof m->x);
  memcpy(ptx_memory_bytes(space, args[1], sizeof m->z, true), m->z, sizeof m->z);
  const ptx_launch launch = {.grid = {1, 1, 1},
                             .block = {artifact->info.block_threads, 1, 1},
                             .dynamic_shared = artifact->info.dynamic_shared,
                             .parameters = args,
                             .parameter_size = sizeof args};
  const char *text = (const char *)artifact->code.bytes;
  CHECK_OK(ptx_module_create(space, "drawn", text, strnlen(text, artifact->code.size), &module, &err), err);
  CHECK_OK(ptx_module_run(module, 0, &launch, &report, &err), err);
  memcpy(m->z, ptx_memory_bytes(space, args[1], sizeof m->z, false), sizeof m->z);
  ptx_module_destroy(module);
  ptx_memory_destroy(space);
}

/// The values of the interpreter.
static void expect(const drawn *d, memory *m) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target;
  CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
  void *args[] = {m->x, m->z};
  CHECK_OK(kiln_interpret(lowered(d, arena, &target), args, (uint32_t[]){1, 1, 1}, NULL, &err), err);
  kiln_arena_destroy(arena);
}

static void compare(const drawn *d, uint64_t seed, const char *name, const memory *want, const memory *got) {
  for (unsigned i = 0; i < ROWS * N; i++) {
    const uint32_t a = element(d, want->z, i), b = element(d, got->z, i);
    if (a != b && !(is_nan(a) && is_nan(b)))
      FAIL("seed %llu, %s: v%u[%u] is %08x, the interpreter has %08x\n%s", (unsigned long long)seed, name,
           i / N, i % N, b, a, d->text);
  }
}

static void agree(const char *target_name, run_way *run, unsigned optimise, unsigned quick) {
  const kiln_test_range seeds = kiln_test_seeds(1, kiln_test_full() ? 2000 : quick);
  kiln_error err = {0};
  kiln_target target;
  if (run == run_host && !mapping_can_run(target_name)) SKIP("this machine does not run %s", target_name);
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
    static memory want, got;
    const drawn d = draw(seed);
    if (run == run_hip && strstr(d.text, "div(")) continue; // the emulator's v_div_fixup keeps denormals
    kiln_codegen_options options;
    kiln_artifact artifact = {0};
    kiln_arena *arena = kiln_arena_create();
    fill(&d, seed, &want), got = want;
    expect(&d, &want);
    kiln_codegen_options_init(&options);
    options.optimise = (uint8_t)optimise;
    if (run == run_ptx) options.assembler = KILN_ASSEMBLER_NONE;
    CHECK_OK(kiln_codegen(lowered(&d, arena, &target), &target, &options, &artifact, &err), err);
    run(&artifact, &got);
    compare(&d, seed, target_name, &want, &got);
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(arena);
  }
}

TEST(flush_drawn, host) { agree("x86-64-v3", run_host, 3, 60); }
TEST(flush_drawn, unoptimised_host) { agree("x86-64-v2", run_host, 0, 40); }
TEST(flush_drawn, sm_75) { agree("sm_75", run_ptx, 3, 40); }
TEST(flush_drawn, sm_80) { agree("sm_80", run_ptx, 3, 60); }
TEST(flush_drawn, sm_90a) { agree("sm_90a", run_ptx, 3, 60); }

TEST(flush_drawn, amd) {
  const char *target = getenv("KILN_FLUSH_HIP");
  if (!target) SKIP("KILN_FLUSH_HIP names no processor");
  agree(target, run_hip, 3, 10);
}
