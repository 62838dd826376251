// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that the compiler and the interpreter give the same results in any floating-point environment of
// the calling thread, and leave it unchanged: canonical bytes with their folded constants, code for the
// host and for GPUs, and what a kernel computes.
#include <stdio.h>
#include <string.h>

#include "compiler/codegen.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/float_control.h"

enum { LANES = 64, ROWS = 9 };

// Numbers that no binary fraction is, folded and cast; denormals; what only one rounding gives.
static const char source[] =
    "kiln 1\nconst THIRD = 1.0 / 3.0\nconst TINY = 1.0e-42\nconst SUM = 0.1 + 0.7\n"
    "kernel k(x: in *f32, o: out *f32) @grid(1) {\n  let i = iota(64)\n  let a = load(x + i)\n"
    "  store(o + i, a * THIRD)\n  store(o + 64 + i, a + TINY)\n  store(o + 128 + i, a / 3.0)\n"
    "  store(o + 192 + i, full(f32[64], (16777217 as f32) + (0.1 as f32)))\n"
    "  store(o + 256 + i, full(f32[64], ((SUM as bf16) as f32) * (TINY as f32)))\n"
    "  store(o + 320 + i, ((a as f64) * 1.1) as f32)\n  store(o + 384 + i, exp(a * 0.001))\n"
    "  store(o + 448 + i, (a as bf16) as f32)\n"
    "  store(o + 512 + i, full(f32[64], sqrt(2.0 as f32, precise = true) * ((7 as f32) / (3 as f32))))\n}\n";

static const char *const targets[] = {"x86-64-v3", "sm_90", "gfx942"};

typedef struct results {
  kiln_buffer canonical, code[3];
  float o[ROWS * LANES];
} results;

static void must(bool ok, const kiln_error *err) {
  if (!ok) FAIL("%s", err->text);
}

// Everything of one compile under `word`; the test's own environment is back before anything is checked.
static void make(uint64_t word, const float *x, results *out) {
  uint64_t before = control(), after[4];
  kiln_error err = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  memset(out, 0, sizeof *out);
  set_control(word);
  kiln_unit *unit = kiln_unit_open(arena, "k.kiln", source, sizeof source - 1, NULL, &d);
  after[0] = control();
  set_control(before);
  must(unit != NULL, &err);
  for (unsigned t = 0; t < 3; t++) {
    kiln_codegen_options options;
    kiln_artifact artifact = {0};
    CHECK_OK(kiln_target_parse(targets[t], &target, &err), err);
    kiln_codegen_options_init(&options);
    set_control(word);
    ir_kernel *kernel = kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d);
    after[1] = control();
    set_control(before);
    must(kernel != NULL, &err);
    if (!t) {
      struct {
        const float *x;
        float *o;
      } args = {x, out->o};
      kiln_canonical_encode(kernel, &out->canonical);
      set_control(word);
      kiln_status status = kiln_interpret(kernel, &args, (uint32_t[]){1, 1, 1}, NULL, &err);
      after[3] = control();
      set_control(before);
      CHECK_OK(status, err);
    }
    set_control(word);
    kiln_status status = kiln_codegen(kernel, &target, &options, &artifact, &err);
    after[2] = control();
    set_control(before);
    CHECK_OK(status, err);
    kiln_buffer_bytes(&out->code[t], artifact.code.bytes, artifact.code.size);
    kiln_artifact_deinit(&artifact);
  }
  for (unsigned i = 0; i < 4; i++)
    if (after[i] != word)
      FAIL("call %u: the thread had 0x%llx, after it 0x%llx", i, (unsigned long long)word,
           (unsigned long long)after[i]);
  kiln_arena_destroy(arena);
}

static bool same(const kiln_buffer *a, const kiln_buffer *b) {
  return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

static void drop(results *r) {
  kiln_buffer_deinit(&r->canonical);
  for (unsigned t = 0; t < 3; t++) kiln_buffer_deinit(&r->code[t]);
}

TEST(compile_environment, results_are_the_same_in_each) {
  static results want, got;
  float x[LANES];
  uint64_t random = 20261129;
  printf("compile_environment: seed %llu\n", (unsigned long long)random);
  for (int i = 0; i < LANES; i++) {
    uint32_t bits = (uint32_t)(kiln_test_random(&random) >> 9);
    if (i % 2) bits &= 0x807fffff;
    if ((bits & 0x7f800000) == 0x7f800000) bits &= 0xbfffffff;
    memcpy(&x[i], &bits, sizeof bits);
  }
  make(control(), x, &want);
  for (int i = 0; i < LANES; i++) {
    volatile float third = x[i] * (float)(1.0 / 3.0), more = x[i] + 1.0e-42f;
    if (third != want.o[i] || more != want.o[LANES + i]) FAIL("element %d is not C's", i);
  }
  for (int round = 0; round < (kiln_test_full() ? 200 : 12); round++) {
    uint64_t word = drawn(&random);
    make(word, x, &got);
    if (!same(&got.canonical, &want.canonical))
      FAIL("control 0x%llx: other constants", (unsigned long long)word);
    for (unsigned t = 0; t < 3; t++)
      if (!same(&got.code[t], &want.code[t]))
        FAIL("control 0x%llx: other code for %s", (unsigned long long)word, targets[t]);
    if (memcmp(got.o, want.o, sizeof want.o))
      FAIL("control 0x%llx: the interpreter computes otherwise", (unsigned long long)word);
    drop(&got);
  }
  drop(&want);
}
