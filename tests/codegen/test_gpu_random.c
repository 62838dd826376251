// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles generated kernels for GPUs, without a GPU: what each pass leaves is verified, layouts included.
// What the code computes is checked where there is a device (generated-check).
#include "compiler/codegen.h"
#include "tests/codegen/llvm_rows.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

static void compile(uint64_t seed, const char *name) {
  kiln_arena *arena = kiln_arena_create();
  const kernelgen_options generator = {.no_maths = true};
  kernelgen_case c;
  kiln_target target;
  kiln_codegen_options options;
  kiln_artifact artifact;
  kiln_error err = {0};
  kernelgen_make(arena, seed, &generator, &c);
  CHECK_OK(kiln_target_parse(name, &target, &err), err);
  kiln_codegen_options_init(&options);
  options.assembler = KILN_ASSEMBLER_NONE;
  options.verify_passes = true;
  if (kiln_codegen(c.kernel, &target, &options, &artifact, &err) != KILN_OK)
    FAIL("seed %llu for %s: %s", (unsigned long long)seed, name, err.text);
  CHECK(artifact.code.size);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

TEST(gpu_random, kernels_compile) {
  static const char *const targets[] = {"sm_80", "sm_90a", "gfx942", "gfx1100"};
  const kiln_test_range range = kiln_test_seeds(1, kiln_test_full() ? 1000 : 30);
  for (uint64_t seed = range.first; seed <= range.last; seed++)
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
      if (llvm_has(targets[t])) compile(seed, targets[t]);
}
