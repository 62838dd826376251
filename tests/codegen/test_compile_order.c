// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A worker compiles one kernel after another, for any targets. What it makes of each is what a new process makes:
// LLVM's and lld's state outlives a compile. Generated kernels for targets of all families, each compiled in a
// process of its own, then all of them in one process in a drawn order.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "compiler/codegen.h"
#include "tests/codegen/llvm_rows.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

static const char *const targets[] = {"sm_80", "sm_90a", "gfx90a", "gfx1100", "x86-64-v3", "aarch64"};
enum { TARGETS = sizeof targets / sizeof *targets, MOST = 2000, SEED = 20261130 };

typedef struct job {
  uint64_t seed;
  const char *target;
  kiln_digest alone; // of the code that a process of its own makes
} job;

static kiln_digest compile(const job *j) {
  kiln_arena *arena = kiln_arena_create();
  const kernelgen_options generator = {.no_maths = j->seed % 2};
  kernelgen_case c;
  kiln_target target;
  kiln_codegen_options options;
  kiln_artifact artifact;
  kiln_error err = {0};
  kernelgen_make(arena, j->seed, &generator, &c);
  CHECK_OK(kiln_target_parse(j->target, &target, &err), err);
  kiln_codegen_options_init(&options);
  options.assembler = KILN_ASSEMBLER_NONE;
  if (kiln_codegen(c.kernel, &target, &options, &artifact, &err) != KILN_OK)
    FAIL("seed %llu for %s: %s", (unsigned long long)j->seed, j->target, err.text);
  const kiln_digest digest = kiln_digest_of(artifact.code.bytes, artifact.code.size);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
  return digest;
}

static void compile_alone(job *j) {
  int ends[2], status;
  CHECK_INT(pipe(ends), 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    const kiln_digest digest = compile(j);
    _exit(write(ends[1], &digest, sizeof digest) != sizeof digest);
  }
  close(ends[1]);
  CHECK_INT(read(ends[0], &j->alone, sizeof j->alone), sizeof j->alone);
  close(ends[0]);
  CHECK(waitpid(child, &status, 0) == child && !status);
}

TEST(compile_order, code_does_not_depend_on_what_was_compiled_before) {
  static job jobs[MOST];
  unsigned count = 0;
  uint64_t random = SEED;
  const kiln_test_range seeds = kiln_test_seeds(77046, kiln_test_full() ? 200 : 6);
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++)
    for (unsigned t = 0; t < TARGETS && count < MOST; t++)
      if (llvm_has(targets[t])) jobs[count++] = (job){.seed = seed, .target = targets[t]};
  for (unsigned i = 0; i < count; i++) compile_alone(&jobs[i]);
  printf("%u compiles, order drawn by %d\n", count, SEED);
  for (unsigned i = count; i; i--) { // all that are left are drawn with the same chance
    const unsigned drawn = (unsigned)(kiln_test_random(&random) % i);
    const job j = jobs[drawn];
    const kiln_digest digest = compile(&j);
    if (memcmp(&digest, &j.alone, sizeof digest))
      FAIL("seed %llu for %s: the code differs after %u other compiles", (unsigned long long)j.seed, j.target,
           count - i);
    jobs[drawn] = jobs[i - 1];
  }
}
