// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random kernels: the interpreter, host code without optimisation and host code with all of it must agree bit for bit; and the same kernels
// compile for GPUs. A failing seed is reduced, and the statements to drop are printed with it.
//
// KILN_SEEDS=first..last picks seeds; KILN_TEST_FULL takes a thousand.
#include <stdio.h>
#include <stdlib.h>

#include "compiler/front.h"
#include "compiler/middle/interpreter.h"
#include "compiler/middle/pipeline.h"
#include "tests/codegen/host_mapping.h"
#include "tests/kernelgen.h"

enum { MAX_STEPS = 4000000, TEXT = KILN_ERROR_TEXT + 100 };

typedef struct seeds {
  unsigned long long first, last;
} seeds;

static seeds seed_range(unsigned quick) {
  seeds s = {1, getenv("KILN_TEST_FULL") ? 1000 : quick};
  const char *text = getenv("KILN_SEEDS");
  if (text && sscanf(text, "%llu..%llu", &s.first, &s.last) == 1) s.last = s.first;
  return s;
}

static kiln_target target_of(const char *name) {
  kiln_target target;
  kiln_error err = {0};
  if (kiln_target_parse(name, &target, &err) != KILN_OK) FAIL("%s", err.text);
  return target;
}

/// The kernel of a seed in canonical form; the same bytes each time it is asked for.
static void make(kiln_arena *arena, uint64_t seed, const kernelgen_options *options, kernelgen_case *out) {
  kernelgen_make(arena, seed, options, out);
  kiln_canonicalise(out->kernel);
}

static bool interpret(uint64_t seed, const kernelgen_options *options, const kiln_target *target, kiln_arena *arena, kernelgen_memory *memory,
                      kiln_error *err) {
  kernelgen_case c;
  make(arena, seed, options, &c);
  kernelgen_memory_init(&c, memory);
  return kiln_middle(c.kernel, target, err) == KILN_OK &&
         kiln_interpret(c.kernel, memory->args, c.grid, &(kiln_interpret_options){.max_steps = MAX_STEPS}, err) == KILN_OK;
}

static bool compile(uint64_t seed, const kernelgen_options *options, const kiln_target *target, unsigned level, kiln_arena *arena,
                    kiln_artifact *artifact, kernelgen_case *c, kiln_error *err) {
  kiln_codegen_options codegen;
  make(arena, seed, options, c);
  kiln_codegen_options_init(&codegen);
  codegen.optimise = (uint8_t)level;
  return kiln_codegen(c->kernel, target, &codegen, artifact, err) == KILN_OK;
}

/// "" when interpreter and host code at `level` agree.
static void compare(uint64_t seed, const kernelgen_options *options, const kiln_target *target, unsigned level, char *text, size_t size) {
  kiln_arena *arena = kiln_arena_create();
  kernelgen_memory want = {0}, got = {0};
  kernelgen_case c;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  text[0] = 0;
  if (!interpret(seed, options, target, arena, &want, &err)) snprintf(text, size, "interpreter: %s", err.text);
  else if (!compile(seed, options, target, level, arena, &artifact, &c, &err)) snprintf(text, size, "compiling at %u: %s", level, err.text);
  else {
    kernelgen_case layout;
    kernelgen_make(arena, seed, options, &layout); // buffers and grid; the compiled kernel may have lost parameters' uses
    kernelgen_memory_init(&layout, &got);
    int32_t failed = mapping_run(mapping_open(&artifact.code, artifact.info.symbol), got.args, layout.grid, artifact.info.scratch_bytes);
    if (failed) snprintf(text, size, "seed %llu: host code says assert %d failed", (unsigned long long)seed, failed);
    else kernelgen_memory_equal(&layout, &want, &got, text, size);
  }
  kernelgen_memory_deinit(&want);
  kernelgen_memory_deinit(&got);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

typedef struct failing {
  kiln_target target;
  unsigned level;
} failing;

static bool still_fails(uint64_t seed, const kernelgen_options *options, void *context) {
  const failing *f = context;
  char text[TEXT];
  compare(seed, options, &f->target, f->level, text, sizeof text);
  return text[0] != 0;
}

static void agree(const char *name, unsigned level, unsigned quick) {
  failing f = {target_of(name), level};
  seeds range = seed_range(quick);
  unsigned long long wrong = 0;
  for (unsigned long long seed = range.first; seed <= range.last; seed++) {
    char text[TEXT];
    kernelgen_options options = {.no_maths = getenv("KILN_NO_MATHS") != NULL};
    compare(seed, &options, &f.target, level, text, sizeof text);
    if (!text[0]) continue;
    wrong++;
    options.dropped = kernelgen_reduce(seed, &options, still_fails, &f);
    compare(seed, &options, &f.target, level, text, sizeof text);
    fprintf(stderr, "%s -O%u: seed %llu, dropped 0x%llx: %s\n", name, level, seed, (unsigned long long)options.dropped, text);
    if (wrong >= 5) break;
  }
  if (wrong) FAIL("%s -O%u: %llu seeds differ", name, level, wrong);
}

TEST(host_random, unoptimised_code_agrees) { agree("x86-64-v3", 0, 60); }
TEST(host_random, optimised_code_agrees) { agree("x86-64-v3", 3, 60); }
TEST(host_random, code_without_fma_and_half_instructions_agrees) { agree("x86-64-v2", 2, 25); }

static void compiles(const char *name, unsigned quick) {
  kiln_target target = target_of(name);
  seeds range = seed_range(quick);
  unsigned long long wrong = 0;
  for (unsigned long long seed = range.first; seed <= range.last; seed++) {
    kiln_arena *arena = kiln_arena_create();
    kernelgen_case c;
    kiln_artifact artifact = {0};
    kiln_error err = {0};
    if (!compile(seed, &(kernelgen_options){.no_maths = getenv("KILN_NO_MATHS") != NULL}, &target, 3, arena, &artifact, &c, &err)) {
      fprintf(stderr, "%s: seed %llu: %s\n", name, seed, err.text);
      wrong++;
    }
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(arena);
    if (wrong >= 5) break;
  }
  if (wrong) FAIL("%s: %llu seeds do not compile", name, wrong);
}

TEST(gpu_random, kernels_compile_for_sm_90a) { compiles("sm_90a", 20); }
TEST(gpu_random, kernels_compile_for_gfx942) { compiles("gfx942", 20); }
