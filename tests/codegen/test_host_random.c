// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares random kernels in the interpreter, in host code without optimisation and in host code with all
// of it, bit for bit, and compiles the same kernels for GPUs. A failing seed is reduced, and the statements
// to drop are printed with it.
//
// KILN_SEEDS=first..last picks seeds; KILN_TEST_FULL takes a thousand.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/passes/stages.h"
#include "tests/codegen/host_mapping.h"
#include "tests/kernelgen.h"

enum { MAX_STEPS = 4000000, TEXT = KILN_ERROR_TEXT + 100 };

static kiln_test_range seed_range(unsigned quick) {
  return kiln_test_seeds(1, kiln_test_full() ? 1000 : quick);
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

static bool interpret(uint64_t seed, const kernelgen_options *options, const kiln_target *target,
                      kiln_arena *arena, kernelgen_memory *memory, kiln_error *err) {
  kernelgen_case c;
  make(arena, seed, options, &c);
  kernelgen_memory_init(&c, memory);
  return kiln_lower(c.kernel, target, err) == KILN_OK &&
         kiln_interpret(c.kernel, memory->args, c.grid, &(kiln_interpret_options){.max_steps = MAX_STEPS},
                        err) == KILN_OK;
}

static bool compile(uint64_t seed, const kernelgen_options *options, const kiln_target *target,
                    unsigned level, kiln_arena *arena, kiln_artifact *artifact, kernelgen_case *c,
                    kiln_error *err) {
  kiln_codegen_options codegen;
  make(arena, seed, options, c);
  kiln_codegen_options_init(&codegen);
  codegen.optimise = (uint8_t)level;
  return kiln_codegen(c->kernel, target, &codegen, artifact, err) == KILN_OK;
}

/// "" when interpreter and host code at `level` agree.
static void compare(uint64_t seed, const kernelgen_options *options, const kiln_target *target,
                    unsigned level, char *text, size_t size) {
  kiln_arena *arena = kiln_arena_create();
  kernelgen_memory want = {0}, got = {0};
  kernelgen_case c;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  text[0] = 0;
  if (!interpret(seed, options, target, arena, &want, &err))
    snprintf(text, size, "interpreter: %s", err.text);
  else if (!compile(seed, options, target, level, arena, &artifact, &c, &err))
    snprintf(text, size, "compiling at %u: %s", level, err.text);
  else {
    kernelgen_case layout;
    kernelgen_make(arena, seed, options,
                   &layout); // buffers and grid; the compiled kernel may have lost parameters' uses
    kernelgen_memory_init(&layout, &got);
    int32_t failed = mapping_run(mapping_open(&artifact.code, artifact.info.symbol), got.args, layout.grid,
                                 artifact.info.scratch_bytes);
    if (failed)
      snprintf(text, size, "seed %llu: host code says assert %d failed", (unsigned long long)seed, failed);
    else kernelgen_memory_equal(&layout, &want, &got, text, size);
  }
  kernelgen_memory_deinit(&want);
  kernelgen_memory_deinit(&got);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

/// The same in a process of its own, so that code that ends the process is found, and reduced, as well.
static void compare_apart(uint64_t seed, const kernelgen_options *options, const kiln_target *target,
                          unsigned level, char *text, size_t size) {
  int ends[2], status;
  CHECK_INT(pipe(ends), 0);
  fflush(NULL);
  const pid_t child = fork();
  if (!child) {
    compare(seed, options, target, level, text, size);
    _exit(write(ends[1], text, strlen(text)) < 0);
  }
  close(ends[1]);
  const ssize_t got = read(ends[0], text, size - 1);
  text[got < 0 ? 0 : got] = 0;
  close(ends[0]);
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status))
    snprintf(text, size, "seed %llu: signal %d", (unsigned long long)seed, WTERMSIG(status));
  else if (status) snprintf(text, size, "seed %llu: exit status %d", (unsigned long long)seed, status);
}

typedef struct failing {
  kiln_target target;
  unsigned level;
} failing;

static bool still_fails(uint64_t seed, const kernelgen_options *options, void *context) {
  const failing *f = context;
  char text[TEXT];
  compare_apart(seed, options, &f->target, f->level, text, sizeof text);
  return text[0] != 0;
}

static void agree(const char *name, unsigned level, unsigned quick) {
  if (!mapping_can_run(name)) SKIP("this machine does not run %s", name);
  failing f = {target_of(name), level};
  kiln_test_range range = seed_range(quick);
  unsigned long long wrong = 0;
  for (unsigned long long seed = range.first; seed <= range.last; seed++) {
    char text[TEXT];
    kernelgen_options options = {.no_maths = getenv("KILN_NO_MATHS") != NULL};
    compare_apart(seed, &options, &f.target, level, text, sizeof text);
    if (!text[0]) continue;
    wrong++;
    options.dropped = kernelgen_reduce(seed, &options, still_fails, &f);
    compare_apart(seed, &options, &f.target, level, text, sizeof text);
    fprintf(stderr, "%s -O%u: seed %llu, dropped 0x%llx: %s\n", name, level, seed,
            (unsigned long long)options.dropped, text);
    if (wrong >= 5) break;
  }
  if (wrong) FAIL("%s -O%u: %llu seeds differ", name, level, wrong);
}

TEST(host_random, unoptimised_code_agrees) { agree("x86-64-v3", 0, 60); }
TEST(host_random, optimised_code_agrees) { agree("x86-64-v3", 3, 60); }
TEST(host_random, code_of_wide_vectors_agrees) { agree("x86-64-v4", 3, 60); }
TEST(host_random, code_without_fma_and_half_instructions_agrees) { agree("x86-64-v2", 2, 25); }

TEST(host_random, products_agree) {
  const kiln_test_range seeds = seed_range(40);
  free(kiln_test_run_to(0, "%s/bin/generated-check host %llu %llu --products", kiln_test_build(),
                        (unsigned long long)seeds.first, (unsigned long long)(seeds.last - seeds.first + 1)));
}

// Seeds 261, 477 and 790, by hand. LLVM (19 and 22) turns a masked load of two native vectors into an
// unmasked load of the half whose mask is the constant false, when the mask is and(splat(c), constants):
// memory outside is read and `other` is lost. Loads of one native vector are right.
TEST(host_random, a_half_masked_off_by_constants_keeps_other) {
  enum { SIDE = 16, COUNT = SIDE * SIDE };
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *k = ir_kernel_create(arena, "halves");
  ir_builder b = {.arena = arena, .block = k->body};
  ir_value *in =
      ir_add_param(k, &(ir_param){.name = "in", .type = ir_pointer_type(KILN_F32), .access = IR_ACCESS_IN});
  ir_value *out =
      ir_add_param(k, &(ir_param){.name = "out", .type = ir_pointer_type(KILN_F32), .access = IR_ACCESS_OUT});
  ir_value *lanes = ir_iota(&b, 4), *row = ir_expand(&b, lanes, 1), *column = ir_expand(&b, lanes, 0);
  ir_type tile = {.scalar = KILN_I32, .rank = 2, .log2 = {4, 4}};
  ir_value *mask = ir_binary(
      &b, IR_AND, 0, ir_broadcast(&b, ir_compare(&b, IR_GE, 0, row, ir_const_like(&b, row->type, 3)), tile),
      ir_broadcast(&b, ir_compare(&b, IR_GE, 0, column, ir_const_like(&b, column->type, 8)), tile));
  ir_value *index =
      ir_binary(&b, IR_ADD, 0,
                ir_broadcast(&b, ir_binary(&b, IR_MUL, 0, row, ir_const_like(&b, row->type, SIDE)), tile),
                ir_broadcast(&b, column, tile));
  ir_type pointers = ir_with_element(tile, in->type),
          values = ir_with_element(tile, ir_scalar_type(KILN_F32));
  ir_value *from = ir_binary(&b, IR_PTRADD, 0, ir_splat(&b, in, pointers), index),
           *to = ir_binary(&b, IR_PTRADD, 0, ir_splat(&b, out, pointers), index);
  ir_op *load =
      ir_emit(&b, IR_LOAD, NULL, (ir_value *[]){from, mask, ir_const_like(&b, values, 1)}, 3, NULL, NULL, 0);
  CHECK(load != NULL);
  ir_emit(&b, IR_STORE, NULL, (ir_value *[]){to, &load->results[0]}, 2, NULL, NULL, 0);
  kiln_target target = target_of("x86-64-v3");
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  kiln_codegen_options_init(&options);
  if (kiln_codegen(k, &target, &options, &artifact, &err) != KILN_OK) FAIL("%s", err.text);
  static float source[COUNT], result[COUNT];
  for (int i = 0; i < COUNT; i++) source[i] = (float)(100 + i);
  float *args[] = {source, result};
  CHECK_INT(mapping_run(mapping_open(&artifact.code, "halves"), args, (uint32_t[]){1, 1, 1},
                        artifact.info.scratch_bytes),
            0);
  for (int i = 0; i < COUNT; i++) {
    float want = i / SIDE >= 3 && i % SIDE >= 8 ? source[i] : 1;
    if (result[i] != want) FAIL("element %d: expected %g, found %g", i, (double)want, (double)result[i]);
  }
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

static void compiles(const char *name, unsigned quick) {
  kiln_target target = target_of(name);
  kiln_test_range range = seed_range(quick);
  unsigned long long wrong = 0;
  for (unsigned long long seed = range.first; seed <= range.last; seed++) {
    kiln_arena *arena = kiln_arena_create();
    kernelgen_case c;
    kiln_artifact artifact = {0};
    kiln_error err = {0};
    if (!compile(seed, &(kernelgen_options){.no_maths = getenv("KILN_NO_MATHS") != NULL}, &target, 3, arena,
                 &artifact, &c, &err)) {
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
