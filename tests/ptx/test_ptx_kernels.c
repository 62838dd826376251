// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs Kiln's NVIDIA code in the interpreter of PTX, through libkiln and a stand-in for the driver, and
// compares: the kernel library with its references, generated kernels with the reference interpreter,
// recorded cases with their recordings. Everything that the interpreter finds is a failure of the launch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/harness.h"

/// Runs a program with `cuda:0` interpreted; fails unless it ends with 0.
static void interpreted_as(int capability, const char *command) {
  char *out;
  int code = kiln_test_run(&out, "KILN_PTX_STEPS=400000000 tests/emulation/interpreted.sh %d %s/bin/%s",
                           capability, kiln_test_build(), command);
  printf("%s\n%s", command, out);
  if (code) FAIL("%s ends with %d:\n%s", command, code, out);
  free(out);
}

static void interpreted(const char *command) { interpreted_as(80, command); }

static void check_kernels(const char *sources, const char *cases) {
  const char *folder = kiln_test_folder();
  char command[1000], *out;
  int code = kiln_test_run(
      &out, "cd kernels && ../%s/bin/kiln build %s -q --no-cache -t sm_80 --emit=ptx -o %s/library.kbundle",
      kiln_test_build(), sources, folder);
  if (code) FAIL("the kernels do not compile:\n%s", out);
  free(out);
  char list[400], *rest = list;
  snprintf(list, sizeof list, "%s", cases);
  for (char *name; (name = strtok_r(rest, " ", &rest));) {
    snprintf(command, sizeof command, "kernel-check %s/library.kbundle cuda:0 %s", folder, name);
    interpreted(command);
  }
}

TEST(ptx_kernels, library) {
  if (kiln_test_full())
    check_kernels("*.kiln", "_ copy add fma gelu silu empty gemv transpose softmax loss rms argmax cumsum "
                            "histogram embedding rotary dropout attention");
  else check_kernels("softmax.kiln elementwise.kiln", "log_softmax silu_mul");
}

/// One config at a time, for sm_90a. In the quick form three whose blocks are clusters: of blocks that share a
/// program, of blocks that share a loop, and of the latter with sums exchanged in the memory of slots.
TEST(ptx_kernels, every_config) {
  char *out;
  int code = kiln_test_run(
      &out, "KILN_BUILD=%s ${PYTHON:-/usr/bin/python3} tests/ptx/configs.py %s", kiln_test_build(),
      kiln_test_full() ? "${KILN_TEST_PART:+--part $KILN_TEST_PART}" : "gemm:14 gemm:28 gemm:38");
  if (code || strstr(out, "refused gemm:")) FAIL("%s", out);
  printf("%s", out);
  free(out);
}

/// Results that are parts of longer rows, down to one column: the copy engine writes whole pieces of 16 bytes.
TEST(ptx_kernels, partial_rows) {
  char *out, command[1000];
  int code = kiln_test_run(&out,
                           "%s/bin/kiln build tests/kernels/partial_rows.kiln -q --no-cache -t sm_90a "
                           "--emit=ptx -o %s/partial.kbundle",
                           kiln_test_build(), kiln_test_folder());
  if (code) FAIL("the kernels do not compile:\n%s", out);
  free(out);
  static const char *const cases[] = {"partial_stored", "partial_from_slots", "partial"};
  for (int seed = 1; seed <= (kiln_test_full() ? 4 : 2); seed++) {
    snprintf(command, sizeof command, "kernel-check %s/partial.kbundle cuda:0 %s %d", kiln_test_folder(),
             cases[kiln_test_full() ? 2 : seed - 1], seed);
    interpreted_as(90, command);
  }
}

/// An assert that holds, and one that does not: the driver's function for it is called, which ends the kernel.
TEST(ptx_kernels, asserts) {
  const char *source = kiln_test_put("assert.kiln", "kiln 1\n"
                                                    "kernel k(p: inout *i32, n: i32) @grid(1) {\n"
                                                    "  let i = iota(64)\n"
                                                    "  assert(i < n, \"below n\")\n"
                                                    "  store(p + i, i + n)\n"
                                                    "}\n");
  const char *bundle = kiln_test_path("assert.kbundle"), *build = kiln_test_build();
  static const char run[] = "%s/bin/kiln run -d ptx:sm_80 %s k -a p=zeros:64 -a n=%d";
  free(kiln_test_run_to(0, "%s/bin/kiln build %s -q --no-cache -t sm_80 --emit=ptx -o %s", build, source,
                        bundle));
  free(kiln_test_run_to(0, run, build, bundle, 64));
  char *out = kiln_test_run_to(1, run, build, bundle, 63);
  CHECK_PART(out, "thread 63 traps");
  free(out);
}

/// The first `count` generated kernels, by options of generated-check.
static void check_generated(unsigned processor, unsigned count, const char *options) {
  char command[200];
  const kiln_test_range seeds = kiln_test_seeds(1, count);
  snprintf(command, sizeof command, "generated-check cuda:0 %llu %llu %s", (unsigned long long)seeds.first,
           (unsigned long long)(seeds.last - seeds.first + 1), options);
  interpreted_as(processor, command);
}

TEST(ptx_kernels, generated) { check_generated(80, kiln_test_full() ? 300 : 12, ""); }

/// Accesses of the same memory by different threads: of the first 40, the code of before the pass
/// memory-order races in 26.
TEST(ptx_kernels, kernels_that_read_again) { check_generated(80, kiln_test_full() ? 1000 : 40, "--rereads"); }

/// Products through views and pointers: tensor maps, rings, products of warps and warpgroups, whose canaries show what
/// is written after a row.
TEST(ptx_kernels, products) {
  for (unsigned i = 0; i < 2; i++) check_generated(i ? 80 : 90, kiln_test_full() ? 1000 : 15, "--products");
}

TEST(ptx_kernels, recorded_cases) {
  const char *folder = getenv("KILN_TEST_CASES");
  if (!folder || !*folder) SKIP("KILN_TEST_CASES names no folder of recorded cases");
  if (!kiln_test_full()) SKIP("runs in check-full only");
  char *out;
  int code = kiln_test_run(
      &out, "KILN_BUILD=%s ${PYTHON:-/usr/bin/python3} tests/ptx/recorded.py --kiln --schedules 2 %s",
      kiln_test_build(), folder);
  printf("%s", out);
  CHECK_INT(code, 0);
  free(out);
}

// --------------------------------------------------------------------------------------------- kiln-ptx

static char *run_tool(int want, const char *arguments) {
  char *out;
  int code = kiln_test_run(&out, "%s/bin/kiln-ptx %s", kiln_test_build(), arguments);
  if (code != want) FAIL("kiln-ptx %s ends with %d, expected %d:\n%s", arguments, code, want, out);
  return out;
}

static void expect_in(int want, const char *arguments, const char *part) {
  char *out = run_tool(want, arguments);
  if (!strstr(out, part)) FAIL("kiln-ptx %s: expected in its output:\n%s\nfound:\n%s", arguments, part, out);
  free(out);
}

TEST(ptx_kernels, tool) {
  expect_in(0, "--help", "exit codes: 0 nothing was found, 1 something was");
  expect_in(0, "--census tests/ptx/handoff.ptx", "       2 fence.acq_rel.gpu\n");
  expect_in(2, "", "expected a PTX file");
  expect_in(1, "tests/ptx/handoff.ptx", "handoff takes 3 arguments, found 0");
  expect_in(1, "--block 64 tests/ptx/handoff.ptx i64:0 i64:0 i64:0",
            "64 threads a block; the kernel says 128");
  expect_in(1, "tests/ptx/handoff.ptx i64:0 i64:0 i64:0", "access outside of memory: st.global.b32");
  expect_in(1, "--kernel none tests/ptx/handoff.ptx", "no kernel 'none'");
  expect_in(1, "tests/ptx/test_ptx_kernels.c", "expected a directive");
  expect_in(
      1, "--max-steps 10 --buffer=8 --buffer=80 --buffer=4 tests/ptx/handoff.ptx buffer:0 buffer:1 buffer:2",
      "endless");
  expect_in(1,
            "-s 5 --buffer=8192 --buffer=8192 --buffer=16384 tests/ptx/carry.ptx buffer:0 buffer:1 buffer:2",
            "stores an undefined value");
  expect_in(1,
            "-s 5 --buffer=8192 --buffer=8192 --buffer=16384 tests/ptx/carry.ptx buffer:0 buffer:1 buffer:2",
            "found with seed 5");
  // The same seed, the same run.
  char *one = run_tool(
      1, "-s 7 --buffer=8192 --buffer=8192 --buffer=16384 tests/ptx/carry.ptx buffer:0 buffer:1 buffer:2");
  char *two = run_tool(
      1, "-s 7 --buffer=8192 --buffer=8192 --buffer=16384 tests/ptx/carry.ptx buffer:0 buffer:1 buffer:2");
  CHECK_TEXT(one, two);
  free(one);
  free(two);
}

/// The kernel whose code of before the pass memory-order is the fixture carry.ptx, as it is compiled now.
TEST(ptx_kernels, a_store_and_the_next_load_are_ordered) {
  char *out;
  const int code = kiln_test_run(
      &out,
      "R=$PWD && cd %s && head -c 8192 /dev/zero >a && head -c 16384 /dev/zero >c && "
      "$R/%s/bin/kiln compile -q --no-cache -t sm_80 --emit=ptx --debug -o own.ptx $R/tests/ptx/carry.kiln "
      "&& "
      "$R/%s/bin/kiln-ptx -n 10 --buffer=a --buffer=a --buffer=c own.ptx buffer:0 buffer:1 buffer:2",
      kiln_test_folder(), kiln_test_build(), kiln_test_build());
  if (code) FAIL("%s", out);
  free(out);
}

/// A kernel of products in loops of their own, each followed by a store of the sum, of which some are rounded
/// to the operands' type: what exchanges such a sum between threads begins after slots and barriers of any number.
static void draw_loops(kiln_buffer *text, uint64_t *random) {
  static const char *const types[] = {"bf16", "f16", "i8"};
  const unsigned type = (unsigned)(kiln_test_random(random) % 3), loops = 1 + kiln_test_random(random) % 3;
  const char *t = types[type], *sum = type == 2 ? "i32" : "f32";
  kiln_buffer_format(
      text,
      "kiln 1\nkernel k(a: in *%s @align(16), b: out *%s @align(16), c: out *%s @align(16), n: "
      "i32)\n  @grid(1) @config(warps = 4, stages = %u) {\n"
      "  let A = view(a, [n, 64], [64, 1], [64, 64])\n"
      "  let at = iota(64)[:, _] * 64 + iota(64)[_, :]\n"
      "  var acc = zeros(%s[64, 64])\n",
      t, t, sum, (unsigned)(1 + kiln_test_random(random) % 6), sum);
  for (unsigned i = 0; i < loops; i++) {
    kiln_buffer_format(text, "  for k in 0..n step 64 {\n"
                             "    acc = dot(load(A, [k, 0]), trans(load(A, [k, 0])), acc)\n  }\n");
    if (kiln_test_random(random) % 2) kiln_buffer_format(text, "  store(b + at, acc as %s)\n", t);
    else kiln_buffer_format(text, "  store(c + at, acc)\n");
  }
  kiln_buffer_format(text, "}\n");
}

TEST(ptx_kernels, products_one_after_another) {
  uint64_t random = 20261128;
  for (unsigned i = 0, count = kiln_test_full() ? 200 : 12; i < count; i++) {
    kiln_buffer text = {0};
    char path[400], *out;
    draw_loops(&text, &random);
    snprintf(path, sizeof path, "%s/k.kiln", kiln_test_folder());
    kiln_test_write(path, text.bytes, text.size);
    if (kiln_test_run(
            &out,
            "kiln=$PWD/%s/bin/kiln && cd %s && $kiln build -q --no-cache -t sm_90a --emit=ptx --debug "
            "-o k.kbundle k.kiln && $kiln run k.kbundle k -d ptx:sm_90a -a a=zeros:8192 -a "
            "b=zeros:4096 -a c=zeros:4096 -a n=128 2>&1",
            kiln_test_build(), kiln_test_folder()))
      FAIL("%.*s\n%s", (int)text.size, (const char *)text.bytes, out);
    free(out);
    kiln_buffer_deinit(&text);
  }
}

/// A product whose tile of results the copy engine stores box by box: of all rows and columns that a group of warps has,
/// or of those whose sum it is left with where blocks share the loop; turned or not.
static void draw_stored(kiln_buffer *text, uint64_t *random, unsigned *out_rows, unsigned *out_columns) {
  static const char *const types[] = {"f32", "f16", "bf16"};
  const unsigned rows = 64u << kiln_test_random(random) % 3, columns = 32u << kiln_test_random(random) % 4,
                 warps = 4u << kiln_test_random(random) % 3, split = 1u << kiln_test_random(random) % 4;
  const bool is_turned = kiln_test_random(random) % 2, is_computed = kiln_test_random(random) % 2;
  const char *type = types[kiln_test_random(random) % 3];
  *out_rows = is_turned ? columns : rows, *out_columns = is_turned ? rows : columns;
  kiln_buffer_format(
      text,
      "kiln 1\nkernel k(a: in view f16[%u, 64] @align(16) @rows(16) @noalias, b: in view f16[64, %u] "
      "@align(16) "
      "@rows(16), c: out view %s[%u, %u] @align(16) @rows(16), M: i32, N: i32, K: i32 @range(0, 65536))\n"
      "  @grid(cdiv(M, %u), cdiv(N, %u)) @config(warps = %u, stages = 2) {\n"
      "  let m = pid(0) * %u\n  let n = pid(1) * %u\n  var acc = zeros(f32[%u, %u])\n",
      rows, columns, type, *out_rows, *out_columns, rows, columns, warps, rows, columns, rows, columns);
  kiln_buffer_format(
      text, "  for k in 0 .. K step 64%s { acc = dot(load(a, [m, k])%s, load(b, [k, n]), acc) }\n",
      split > 1 ? (const char *[]){"", "@split(2)", "@split(4)", "@split(8)"}[__builtin_ctz(split)] : "",
      is_computed ? " * 2.0" : "");
  kiln_buffer_format(
      text, is_turned ? "  store(c, [n, m], trans(acc) as %s)\n}\n" : "  store(c, [m, n], acc as %s)\n}\n",
      type);
}

/// Sums of threads and of an interpreter differ by their order, an element that was not stored by all of its value. Of the
/// first 400, boxes that lacked half of their rows left results out in some, the first of them 119.
TEST(ptx_kernels, results_stored_by_the_engine) {
  const kiln_test_range seeds = kiln_test_full() ? kiln_test_seeds(1, 400) : kiln_test_seeds(115, 8);
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
    uint64_t random = seed * 0x9e3779b97f4a7c15u;
    kiln_buffer text = {0};
    unsigned rows, columns;
    char path[400], arguments[400], *out;
    draw_stored(&text, &random, &rows, &columns);
    const unsigned c0 = rows + 24, c1 = columns + 16; // of c; more than one program on each axis
    const bool is_turned = strstr((const char *)text.bytes, "trans(") != NULL;
    const unsigned m = is_turned ? c1 : c0, n = is_turned ? c0 : c1, k = 208;
    snprintf(path, sizeof path, "%s/k.kiln", kiln_test_folder());
    kiln_test_write(path, text.bytes, text.size);
    snprintf(arguments, sizeof arguments,
             "-a M=%u -a N=%u -a K=%u -a a=random:%u[%u,%u] -a b=random:%u:1[%u,%u] -a c=zeros:%u[%u,%u]", m,
             n, k, m * k, m, k, k * n, k, n, m * n, c0, c1);
    if (kiln_test_run(&out,
                      "kiln=$PWD/%s/bin/kiln && cd %s && $kiln build -q --no-cache -t sm_90a,host "
                      "--ptx-assembler=none -o k.kbundle k.kiln && "
                      "$kiln run k.kbundle k -d host %s --save=c=c.bin && "
                      "$kiln run k.kbundle k -d ptx:sm_90a %s --compare=c=c.bin --tolerance=0.05 2>&1",
                      kiln_test_build(), kiln_test_folder(), arguments, arguments))
      FAIL("seed %llu: %.*s\n%s", (unsigned long long)seed, (int)text.size, (const char *)text.bytes, out);
    free(out);
    kiln_buffer_deinit(&text);
  }
}
