// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests what host code refuses, what it promises about its objects, and tiles of the largest size.
#include <stdio.h>
#include <stdlib.h>

#include "compiler/front.h"
#include "tests/codegen/host_mapping.h"

typedef struct compiled {
  kiln_arena *arena;
  kiln_artifact artifact;
  kiln_status status;
  kiln_error err;
} compiled;

static compiled compile(const char *text, const char *target_name) {
  compiled c = {.arena = kiln_arena_create()};
  kiln_diagnostics d = {.arena = c.arena};
  kiln_target target;
  kiln_codegen_options options;
  kiln_unit *unit = kiln_unit_open(c.arena, "test.kiln", text, strlen(text), NULL, &d);
  CHECK_OK(kiln_target_parse(target_name, &target, &c.err), c.err);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, c.arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel) FAIL("line %u: %s", d.items[0].line, d.items[0].text);
  kiln_codegen_options_init(&options);
  c.status = kiln_codegen(kernel, &target, &options, &c.artifact, &c.err);
  return c;
}

static void drop(compiled *c) {
  kiln_artifact_deinit(&c->artifact);
  kiln_arena_destroy(c->arena);
}

TEST(host_limits, asserts_stop_the_program) {
  compiled c = compile("kiln 1\n"
                       "kernel k(x: in *i32, y: out *i32, n: i32) @grid(1) {\n"
                       "  let v = load(x + iota(64))\n"
                       "  store(y, 1)\n"
                       "  assert(v < n, \"all below n\")\n"
                       "  store(y, 2)\n"
                       "}\n",
                       "x86-64-v2");
  if (c.status != KILN_OK) FAIL("%s", c.err.text);
  kiln_host_kernel *run = mapping_open(&c.artifact.code, c.artifact.info.symbol);
  int32_t x[64] = {0}, y = 0;
  struct {
    int32_t *x, *y;
    int32_t n;
  } args = {x, &y, 5};
  const uint32_t grid[3] = {1, 1, 1};
  CHECK_INT(mapping_run(run, &args, grid, c.artifact.info.scratch_bytes), 0);
  CHECK_INT(y, 2);
  x[37] = 5;
  CHECK(mapping_run(run, &args, grid, c.artifact.info.scratch_bytes) > 0);
  CHECK_INT(y, 1);
  drop(&c);
}

TEST(host_limits, assembly_is_refused) {
  compiled c = compile("kiln 1\n"
                       "kernel k(x: inout *i32) @grid(1) { store(x, asm(\"mov.u32 $0, %laneid;\", \"=r,r\", "
                       "[load(x)], i32)) }\n",
                       "x86-64-v3");
  CHECK_INT(c.status, KILN_STATUS_UNSUPPORTED);
  drop(&c);
}

TEST(host_limits, scratch_memory_is_bounded) {
  char text[4000] = "kiln 1\nkernel k(x: in *f64, y: out *f64) @grid(1) {\n  let i = iota(1048576)\n";
  for (int n = 0; n < 40; n++) {
    char line[120];
    snprintf(line, sizeof line, "  let a%d = scan.add(load(x + i + %d), 0)\n", n, n);
    strcat(text, line);
  }
  for (int n = 0; n < 40; n++) {
    char line[120];
    snprintf(line, sizeof line, "  store(y + i + %d, a%d)\n", n, n);
    strcat(text, line);
  }
  strcat(text, "}\n");
  compiled c = compile(text, "x86-64-v3");
  CHECK_INT(c.status, KILN_STATUS_LIMIT);
  CHECK(strstr(c.err.text, "268435456") != NULL);
  drop(&c);
}

TEST(host_limits, largest_tiles_run) {
  enum { N = 1 << 20 };
  compiled c =
      compile("kiln 1\n"
              "kernel k(x: in *i32, y: out *i32) @grid(1) {\n"
              "  let i = iota(1048576)\n"
              "  let s = scan.add(load(x + i), 0)\n"
              "  store(y + i, reshape(trans(reshape(s, [1024, 1024])), [1048576]) + reduce.max(s, 0))\n"
              "}\n",
              "x86-64-v2");
  if (c.status != KILN_OK) FAIL("%s", c.err.text);
  int32_t *x = malloc(4 * N), *y = malloc(4 * N);
  CHECK(x && y);
  for (int i = 0; i < N; i++) x[i] = 1;
  struct {
    int32_t *x, *y;
  } args = {x, y};
  kiln_host_kernel *run = mapping_open(&c.artifact.code, c.artifact.info.symbol);
  CHECK_INT(mapping_run(run, &args, (uint32_t[]){1, 1, 1}, c.artifact.info.scratch_bytes), 0);
  for (int r = 0; r < 1024; r++)
    for (int k = 0; k < 1024; k++) CHECK_INT(y[r * 1024 + k], k * 1024 + r + 1 + N);
  free(x);
  free(y);
  drop(&c);
}

// Operations that compilers like to make library calls of, for each level: mapping_symbol refuses undefined
// symbols.
TEST(host_limits, objects_are_complete) {
  static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"};
  for (unsigned t = 0; t < 4; t++) {
    compiled c = compile(
        "kiln 1\n"
        "kernel k(x: in *f32, h: inout *f16, d: in *f64, l: in *i64, o: out *f32, p: out *f64, e: out *e4m3, "
        "w: inout *i32) "
        "@grid(1) {\n"
        "  let i = iota(256)\n"
        "  while cas(w, 0, 1) != 0 {}\n"
        "  let a = load(x + i)\n"
        "  store(o + i, exp2(a) + log2(a) + sin(a) * cos(a) + tanh(a) / erf(a))\n"
        "  store(o + 256 + i, a % 3.0 + fma(a, a, a) + floor(a) + ceil(a) + round(a) + sqrt(a) + rsqrt(a))\n"
        "  let b = load(d + i)\n"
        "  store(p + i, b % 3.0 + fma(b, b, b) + exp2(b) + (load(l + i) / 3) as f64 + round(b))\n"
        "  store(h + i, (load(h + i) as f64 + b) as f16)\n"
        "  store(e + i, a as e4m3)\n"
        "  let old = atomic.add(h + i, 1.0 as f16)\n"
        "  store(p + 256 + i, (b as i64 % load(l + i)) as f64)\n"
        "  for j in 0 .. 4096 { store(o + 1024 + j, 0.0) }\n"
        "  store(o + 8192 + iota(65536), load(x + iota(65536)))\n"
        "}\n",
        names[t]);
    if (c.status != KILN_OK) FAIL("%s: %s", names[t], c.err.text);
    CHECK(mapping_symbol(c.artifact.code.bytes, c.artifact.info.symbol) != 0);
    drop(&c);
  }
}
