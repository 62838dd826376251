// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the order of memory within a program (docs/ir.md): kernels that read what they have written run on
// a GPU of fibers, with threads in three orders, and are compared with the interpreter. Without the pass
// memory-order the same search finds differences.
//
// KILN_SEEDS=first..last picks the seeds of the search; KILN_TEST_FULL takes 2,000.
#include "tests/codegen/gpu_sim_case.h"
#include "tests/codegen/host_mapping.h"
#include "tests/kernelgen.h"

/// Whether the simulated GPU leaves the memory that the interpreter leaves; else `out` names a difference.
static bool agrees(uint64_t seed, const sim_options *options, char *out, size_t size) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  kiln_target target;
  kernelgen_case plain, simulated;
  kernelgen_memory want, got;
  CHECK_OK(kiln_target_parse("sm_80", &target, &err), err);
  kernelgen_make(arena, seed, &(kernelgen_options){.rereads = true}, &plain);
  kernelgen_make(arena, seed, &(kernelgen_options){.rereads = true}, &simulated);
  kernelgen_memory_init(&plain, &want);
  kernelgen_memory_init(&plain, &got);
  kernelgen_rereads_share(seed, want.args);
  kernelgen_rereads_share(seed, got.args);
  CHECK_OK(kiln_interpret(plain.kernel, want.args, plain.grid, NULL, &err), err);
  CHECK_OK(kiln_lower(simulated.kernel, &target, &err), err);
  sim_run(simulated.kernel, &target, got.args, plain.grid, options);
  bool equal = kernelgen_memory_equal(&plain, &want, &got, out, size);
  kernelgen_memory_deinit(&want);
  kernelgen_memory_deinit(&got);
  kiln_arena_destroy(arena);
  return equal;
}

static const sim_options ways[] = {{0}, {.reverse = true, .wide = true}, {.seed = 0x5eed}};

TEST(memory_order, rereads_agree_with_the_interpreter) {
  char text[300];
  const kiln_test_range seeds = kiln_test_full() ? kiln_test_seeds(1000, 2000) : kiln_test_seeds(1, 40);
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++)
    for (unsigned way = 0; way < 3; way++) {
      sim_options options = ways[way];
      if (options.seed) options.seed += seed;
      if (agrees(seed, &options, text, sizeof text)) continue;
      kiln_buffer source = {0};
      kernelgen_rereads_text(seed, &source);
      FAIL("seed %llu, way %u: %s\n%s", (unsigned long long)seed, way, text, (char *)source.bytes);
    }
}

/// The search can fail: without the pass, kernels of the same seeds differ.
TEST(memory_order, without_barriers_they_differ) {
  char text[300];
  unsigned wrong = 0;
  for (uint64_t seed = 1; seed <= 20; seed++)
    for (unsigned way = 0; way < 3; way++) {
      sim_options options = ways[way];
      bool diverged = false;
      options.no_order = true;
      options.diverged = &diverged;
      const bool equal = agrees(seed, &options, text, sizeof text);
      wrong += diverged || !equal;
    }
  if (wrong < 10) FAIL("%u of 60 runs without barriers differ, expected at least 10", wrong);
}

/// A loop that has no turn hides no store before it from a load after it.
TEST(memory_order, a_loop_without_turns_is_no_barrier) {
  static const char text[] = "kiln 1\n"
                             "kernel k(p: inout *i32, q: inout *i32, n: i32) @grid(1) @config(warps = 4) {\n"
                             "  let i = iota(256)\n"
                             "  store(p + i, load(p + i) * 3)\n"
                             "  for k in 0 .. n { store(q + i, load(q + 255 - i) + k) }\n"
                             "  store(q + i, load(p + 255 - i))\n"
                             "}\n";
  static const sim_case c = {.text = text, .arguments = {256, 256, 0}, .grid = {1, 1, 1}};
  run_case(&c);
}

/// A load through one parameter sees what is stored through another one, wherever that begins; barriers are
/// met where buffers overlap.
TEST(memory_order, parameters_that_overlap) {
  static const char text[] =
      "kiln 1\n"
      "kernel k(p: inout *i32, q: in *i32, r: in *i32, n: i32) @grid(1) @config(warps = 4) {\n"
      "  let i = iota(256)\n"
      "  store(p + i, i * 7)\n"
      "  let x = load(q + i)\n"
      "  for k in 0 .. n {\n"
      "    let y = load(q + 255 - i + k)\n"
      "    let z = y + load(r + k * 16 + i) + k\n"
      "    barrier()\n" // a store waits for no load of another parameter
      "    store(p + 512 + i, z)\n"
      "  }\n"
      "  store(p + 1024 + i, x + load(p + 512 + (i ^ 37)))\n"
      "}\n";
  const sim_case c = {.text = text, .arguments = {2048, 2048, 2048, 5}, .grid = {1, 1, 1}};
  for (unsigned shift = 0; shift < 3; shift++)
    for (unsigned way = 0; way < 3; way++) {
      kiln_arena *arena = kiln_arena_create();
      kiln_error err = {0};
      kiln_target target;
      call runs[2];
      CHECK_OK(kiln_target_parse("sm_80", &target, &err), err);
      ir_kernel *kernel = lower(text, arena, &target, 0), *plain = lower(text, arena, &target, 0);
      for (unsigned i = 0; i < 2; i++) {
        open_call(&c, kernel, &runs[i]);
        for (unsigned j = 0; j < 2; j++) { // q begins within p, and r where the loop writes
          const uint8_t *at = runs[i].buffers[0] + (size_t)4 * (j ? 500 : 100) * shift;
          memcpy(runs[i].args + 8 + 8 * j, &at, sizeof at);
        }
      }
      CHECK_OK(kiln_interpret(plain, runs[0].args, c.grid, NULL, &err), err);
      CHECK_OK(kiln_lower(kernel, &target, &err), err);
      sim_run(kernel, &target, runs[1].args, c.grid, &ways[way]);
      compare(&c, runs[1].buffers[0], runs[0].buffers[0], KILN_I32, 2048, 0);
      kiln_arena_destroy(arena);
    }
}

/// The same on the host, where both stores could share a loop: each element of the second one loads what any
/// turn of the first one stores.
TEST(memory_order, parameters_that_overlap_on_the_host) {
  static const char text[] = "kiln 1\n"
                             "kernel k(p: inout *i32, q: in *i32, r: out *i32) @grid(1) {\n"
                             "  let i = iota(1024)\n"
                             "  store(p + (i * 13 & 1023), i)\n"
                             "  store(r + i, load(q + i) + 1)\n"
                             "}\n";
  static int32_t want[2048], got[2048];
  const uint32_t grid[3] = {1, 1, 1};
  int32_t *same[2][3] = {{want, want, want + 1024}, {got, got, got + 1024}};
  if (!mapping_can_run("x86-64-v2")) SKIP("this machine does not run x86-64-v2");
  kiln_arena *arena = kiln_arena_create();
  kiln_target target;
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("x86-64-v2", &target, &err), err);
  CHECK_OK(kiln_interpret(lower(text, arena, &target, 0), same[0], grid, NULL, &err), err);
  kiln_codegen_options_init(&options);
  CHECK_OK(kiln_codegen(lower(text, arena, &target, 0), &target, &options, &artifact, &err), err);
  CHECK_INT(mapping_run(mapping_open(&artifact.code, artifact.info.symbol), same[1], grid,
                        artifact.info.scratch_bytes),
            0);
  for (unsigned i = 0; i < 2048; i++)
    if (got[i] != want[i]) FAIL("element %u is %d, expected %d", i, got[i], want[i]);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}

/// Roots of one loop take turns element by element: a store may not join the loop of what it would overtake.
TEST(memory_order, rereads_on_the_host) {
  const kiln_test_range seeds = kiln_test_seeds(1, kiln_test_full() ? 2000 : 60);
  free(kiln_test_run_to(0, "%s/bin/generated-check host %llu %llu --rereads", kiln_test_build(),
                        (unsigned long long)seeds.first, (unsigned long long)(seeds.last - seeds.first + 1)));
}
