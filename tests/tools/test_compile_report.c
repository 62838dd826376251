// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln compile --report`: costs, accesses with their lines and engines, and why nothing better was
// possible.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

static const char source[] =
    "kiln 1\n"
    "\n"
    "kernel mul(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f16 @align(16),\n"
    "           m: i32, n: i32 @div(8), k: i32 @div(8), lda: i32 @div(8), ldb: i32 @div(%d), ldc: i32)\n"
    "  @grid(cdiv(m, 64), cdiv(n, 64)) @config(warps = 4, stages = 3)\n"
    "{\n"
    "  let A = view(a, [m, k], [lda, 1], [64, 32])\n"
    "  let B = view(b, [k, n], [ldb, 1], [32, 64])\n"
    "  let C = view(c, [m, n], [ldc, 1], [64, 64])\n"
    "  let y = pid(0) * 64\n"
    "  let x = pid(1) * 64\n"
    "  var acc = zeros(f32[64, 64])\n"
    "  for i in 0..k step 32 {\n"
    "    let p = load(A, [y, i])\n"
    "    let q = load(B, [i, x])\n"
    "    acc = dot(p, q, acc)\n"
    "  }\n"
    "  store(C, [y, x], acc as f16)\n"
    "}\n";

static void write_source(int divisible) {
  char path[400], text[2000];
  snprintf(path, sizeof path, "%s/mul.kiln", kiln_test_folder());
  int size = snprintf(text, sizeof text, source, divisible);
  kiln_test_write(path, text, (size_t)size);
}

/// From the folder of the source, so that no path is in what it prints.
static char *report(const char *options) {
  char *out;
  char *build = realpath(kiln_test_build(), NULL);
  if (kiln_test_run(&out, "cd %s && %s/bin/kiln compile mul.kiln -q %s", kiln_test_folder(), build, options))
    FAIL("%s: %s", options, out);
  free(build);
  return out;
}

static void expect(const char *out, const char *piece) {
  if (!strstr(out, piece)) FAIL("expected %s in\n%s", piece, out);
}

// Registers and spills are the assembler's, so that the text is the same without one.
TEST(compile_report, text) {
  static const char *const targets[] = {"sm_80", "sm_90a", "host"};
  char *out, options[200], name[100];
  write_source(1);
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    snprintf(options, sizeof options, "-t %s --ptx-assembler=none --no-cache --report", targets[i]);
    snprintf(name, sizeof name, "report/mul.%s.txt", targets[i]);
    out = report(options);
    kiln_test_golden(name, out, strlen(out));
    free(out);
  }
}

// A ring of copies takes all operands of a product or none.
TEST(compile_report, why_not_better) {
  char *out;
  write_source(1);
  out = report("-t sm_80 --ptx-assembler=none --no-cache --report");
  expect(out,
         "mul.kiln:15:9: load: single elements, 2 bytes: ldb is not known to be a multiple of 16 bytes\n");
  expect(out, "mul.kiln:14:9: load: vector, 16 bytes\n");
  free(out);
  write_source(8);
  out = report("-t sm_80 --ptx-assembler=none --no-cache --report");
  expect(out, "mul.kiln:15:9: load: cp.async, 16 bytes\n");
  expect(out,
         "mul.kiln:18:3: store: single elements, 2 bytes: ldc is not known to be a multiple of 16 bytes\n");
  free(out);
  out = report("-t sm_90a --ptx-assembler=none --no-cache --report");
  expect(out, "mul.kiln:15:9: load: tensor map, 4096 bytes\n");
  expect(out, "product: matrix unit, wgmma\n");
  expect(out,
         "mul.kiln:18:3: store: single elements, 2 bytes: ldc is not known to be a multiple of 16 bytes\n");
  free(out);
}

// What is known of addresses is known in both roles too.
TEST(compile_report, wide_stores_beside_tensor_maps) {
  char *out;
  if (kiln_test_run(
          &out,
          "%s/bin/kiln compile kernels/gemm.kiln -k 'gemm_grouped[T=bf16,ACT=0]' -t sm_90a -q --no-cache "
          "--ptx-assembler=none --report",
          kiln_test_build()))
    FAIL("%s", out);
  expect(out, "product: matrix unit, wgmma\n");
  expect(out, "store: vector, 16 bytes");
  free(out);
}

// In all three loops over keys the second product of one block runs beside the first of the next.
TEST(compile_report, attention_orders_its_products) {
  char *out;
  unsigned loops = 0;
  if (kiln_test_run(
          &out,
          "%s/bin/kiln compile kernels/attention.kiln -k 'attention_general[T=bf16,D=128]' -t sm_90a -q "
          "--no-cache --emit=ptx -o -",
          kiln_test_build()))
    FAIL("%s", out);
  for (const char *at = out; (at = strstr(at, "wgmma.wait_group.sync.aligned 1;")); at++) loops++;
  CHECK_INT(loops, 3);
  free(out);
}

// Where slots leave room for one block of four warps a processor, eight share its work; with three slots
// there are two blocks.
TEST(compile_report, four_warps_alone_become_eight) {
  static const struct {
    const char *stages, *threads;
  } cases[] = {{"3", "threads a block    256\n"}, {"4", "threads a block    384\n"}};
  for (size_t i = 0; i < 2; i++) {
    char *out;
    if (kiln_test_run(
            &out,
            "%s/bin/kiln compile tests/ttir/descriptors_f16.ttir --warps=4 --stages=%s -t sm_90a -q "
            "--no-cache --ptx-assembler=none --report",
            kiln_test_build(), cases[i].stages))
      FAIL("%s", out);
    expect(out, cases[i].threads);
    expect(out, "product: matrix unit, wgmma\n");
    free(out);
  }
}

// The same from the cache, under the same key.
TEST(compile_report, is_stored) {
  char options[500], *first, *again, *out;
  write_source(1);
  snprintf(options, sizeof options, "-t gfx942 --cache-dir %s/cache", kiln_test_folder());
  free(report(options)); // makes the artifact; nobody asked
  snprintf(options, sizeof options, "-t gfx942 --cache-dir %s/cache --must-hit --report", kiln_test_folder());
  first = report(options);
  snprintf(options, sizeof options, "-t gfx942 --no-cache --report");
  again = report(options);
  CHECK_TEXT(first, again);
  expect(first, "registers");
  expect(first, "occupancy");
  free(first);
  free(again);
  snprintf(options, sizeof options, "-t gfx942 --cache-dir %s/cache --must-hit --report=json",
           kiln_test_folder());
  out = report(options);
  char path[400];
  snprintf(path, sizeof path, "%s/r.json", kiln_test_folder());
  kiln_test_write(path, out, strlen(out));
  free(out);
  if (kiln_test_run(&out,
                    "/usr/bin/python3 -c \"import json; r = json.load(open('%s')); "
                    "assert r['kernel'] == 'mul' and r['target'] == 'gfx942' and r['registers'] > 0; "
                    "assert r['occupancy']['waves'] <= r['occupancy']['most_waves'] == 32; "
                    "rows = [x for x in r['rows'] if x['line'] == 15 and x['kind'] == 'load']; "
                    "assert rows and rows[0]['bytes'] == 2 and 'ldb' in rows[0]['why']; "
                    "assert any(x['kind'] == 'product' and x['line'] == 16 for x in r['rows'])\"",
                    path))
    FAIL("%s", out);
  free(out);
}

static char *key(const char *options) {
  char *out;
  if (kiln_test_run(&out, "%s/bin/kiln key %s/mul.kiln -q -t sm_90a %s", kiln_test_build(),
                    kiln_test_folder(), options))
    FAIL("%s: %s", options, out);
  return out;
}

// Asking what happens does not change what is made: the key is the same, and so are the bytes.
TEST(compile_report, is_no_part_of_the_key) {
  static const char *const neutral[] = {"--print-after=all", "--print-after=canonical", "--verify-passes"};
  write_source(8);
  char *plain = key(""), *other = key("--optimise=1"), *out;
  CHECK(strcmp(plain, other) != 0);
  free(other);
  for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
    char *same = key(neutral[i]);
    CHECK_TEXT(plain, same);
    free(same);
  }
  free(plain);
  char options[300];
  snprintf(options, sizeof options, "-t sm_90a --emit=ptx --no-cache -o %s/plain", kiln_test_folder());
  free(report(options));
  snprintf(options, sizeof options, "-t sm_90a --emit=ptx --print-after=all -o %s/printed",
           kiln_test_folder());
  out = report(options);
  expect(out, "roles");
  free(out);
  snprintf(options, sizeof options, "-t sm_90a --emit=ptx --report --no-cache -o %s/reported",
           kiln_test_folder());
  free(report(options));
  CHECK_INT(kiln_test_run(&out, "cd %s && cmp plain printed && cmp plain reported", kiln_test_folder()), 0);
  free(out);
}

// How many waves fit, as LLVM counts it.
TEST(compile_report, occupancy_of_amdgpu) {
  static const struct {
    const char *target;
    unsigned simds;
  } rows[] = {{"gfx90a", 4},  {"gfx942", 4},  {"gfx950", 4}, {"gfx908", 4},
              {"gfx1030", 2}, {"gfx1100", 2}, {"gfx1201", 2}};
  static const char wide[] =
      "kiln 1\n"
      "kernel k(x: in *f32 @align(16), y: out *f32 @align(16)) @grid(1) @config(warps = 1) {\n"
      "  let v = load(x + iota(4096))\n"
      "  barrier()\n"
      "  store(y + iota(4096), v * v)\n"
      "}\n";
  char path[400], *out;
  if (kiln_test_run(&out, "command -v llc-22")) SKIP("llc-22 is not here");
  free(out);
  snprintf(path, sizeof path, "%s/wide.kiln", kiln_test_folder());
  kiln_test_write(path, wide, sizeof wide - 1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_INT(kiln_test_run(&out,
                            "%s/bin/kiln compile %s -t %s -q --no-cache --emit=llvm -o - | llc-22 "
                            "-opt-disable=slsr -mcpu=%s -o -",
                            kiln_test_build(), path, rows[i].target, rows[i].target),
              0);
    const char *said = strstr(out, "; Occupancy: ");
    CHECK(said != NULL);
    unsigned long waves = strtoul(said + 13, NULL, 10) * rows[i].simds;
    free(out);
    CHECK_INT(kiln_test_run(&out, "%s/bin/kiln compile %s -t %s -q --no-cache --report", kiln_test_build(),
                            path, rows[i].target),
              0);
    const char *at = strstr(out, "occupancy");
    if (!at) FAIL("%s: no occupancy in\n%s", rows[i].target, out);
    unsigned long ours = strtoul(at + strcspn(at, "0123456789"), NULL, 10);
    if (ours != waves) FAIL("%s: expected %lu waves, found %lu in\n%s", rows[i].target, waves, ours, out);
    free(out);
  }
}
