// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels in the kernel language, run by the reference interpreter and as host code of every level: all
// memory must agree bit for bit (a NaN is a NaN). Data are such that the order of a sum does not matter.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/middle/pipeline.h"
#include "tests/codegen/host_mapping.h"

static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
enum { BUFFER = 1 << 17, MAX_BUFFERS = 8, GUARD = 4096 };

/// Memory of one run: the argument block and what its pointers name.
typedef struct world {
  uint8_t *buffers[MAX_BUFFERS];
  uint8_t block[256];
  uint32_t count;
} world;

// Small multiples of 1/4: sums and products of a few thousand are exact.
static uint64_t value_of(kiln_scalar scalar, uint64_t *random) {
  uint64_t r = kiln_test_random(random);
  unsigned class = kiln_scalars[scalar].type_class;
  if (class == KILN_CLASS_BOOL) return r & 1;
  if (class == KILN_CLASS_INT) return r >> 17;
  return ir_float_to_bits(scalar, (double)((int)(r % 33) - 16) / 4, false);
}

static void fill(world *w, const kiln_interface *interface, int64_t n, uint64_t seed) {
  memset(w, 0, sizeof *w);
  for (uint32_t i = 0; i < interface->param_count; i++) {
    const kiln_param_record *p = &interface->params[i];
    uint64_t bits = (uint64_t)n;
    if (p->pointer) {
      unsigned size = p->pointer > 1 ? 8 : kiln_scalars[p->scalar].bytes;
      uint8_t *buffer = w->buffers[w->count++] = calloc(1, BUFFER);
      for (size_t at = 0; at < BUFFER; at += size) {
        uint64_t v = value_of((kiln_scalar)p->scalar, &seed);
        memcpy(buffer + at, &v, size);
      }
      uint8_t *middle = buffer + GUARD;
      memcpy(w->block + p->offset, &middle, 8);
      continue;
    }
    if (kiln_scalars[p->scalar].type_class == KILN_CLASS_FLOAT)
      bits = ir_float_to_bits((kiln_scalar)p->scalar, 1.5, false);
    memcpy(w->block + p->offset, &bits, kiln_scalars[p->scalar].bytes);
  }
}

static void drop(world *w) {
  for (uint32_t i = 0; i < w->count; i++) free(w->buffers[i]);
}

static bool same_bits(kiln_scalar scalar, const uint8_t *a, const uint8_t *b) {
  unsigned size = kiln_scalars[scalar].bytes;
  uint64_t x = 0, y = 0;
  memcpy(&x, a, size);
  memcpy(&y, b, size);
  if (x == y) return true;
  bool real = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  return real && isnan(ir_bits_to_float(scalar, x)) && isnan(ir_bits_to_float(scalar, y));
}

static void compare(const char *what, const kiln_interface *interface, const world *want, const world *got) {
  for (uint32_t i = 0, b = 0; i < interface->param_count; i++) {
    const kiln_param_record *p = &interface->params[i];
    if (!p->pointer) continue;
    unsigned size = kiln_scalars[p->scalar].bytes;
    for (size_t at = 0; at < BUFFER; at += size)
      if (!same_bits((kiln_scalar)p->scalar, want->buffers[b] + at, got->buffers[b] + at)) {
        uint64_t x = 0, y = 0;
        memcpy(&x, want->buffers[b] + at, size);
        memcpy(&y, got->buffers[b] + at, size);
        FAIL("%s: %s[%ld] is %#llx (%g), the interpreter says %#llx (%g)", what, p->name,
             ((long)at - GUARD) / (long)size, (unsigned long long)y,
             ir_bits_to_float((kiln_scalar)p->scalar, y), (unsigned long long)x,
             ir_bits_to_float((kiln_scalar)p->scalar, x));
      }
    b++;
  }
}

static ir_kernel *lower(kiln_unit *unit, kiln_arena *arena, size_t index, const kiln_target *target,
                        kiln_diagnostics *d, const char *text) {
  ir_kernel *kernel =
      kiln_unit_lower(unit, arena, index, kiln_unit_first_config(unit, index, target), 0, target, d);
  if (kernel) return kernel;
  kiln_buffer out = {0};
  kiln_diagnostics_print(d, text, strlen(text), &out);
  FAIL("%.*s", (int)out.size, (const char *)out.bytes);
}

static void check_on(kiln_unit *unit, kiln_arena *arena, size_t index, const char *target_name,
                     unsigned level, int64_t n, const uint32_t grid[3], kiln_diagnostics *d,
                     const char *text) {
  kiln_target target;
  kiln_error err = {0};
  kiln_codegen_options options;
  kiln_artifact artifact = {0};
  world want, got;
  char what[200];
  const kiln_interface *interface = kiln_unit_interface(unit, index);
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  ir_kernel *reference = lower(unit, arena, index, &target, d, text),
            *kernel = lower(unit, arena, index, &target, d, text);
  snprintf(what, sizeof what, "%s on %s -O%u", interface->name, target_name, level);
  if (kiln_middle(reference, &target, &err) != KILN_OK) FAIL("%s: %s", what, err.text);
  fill(&want, interface, n, 7);
  fill(&got, interface, n, 7);
  for (uint32_t i = 0; i < want.count; i++) CHECK(want.buffers[i] && got.buffers[i]);
  if (kiln_interpret(reference, want.block, grid, NULL, &err) != KILN_OK)
    FAIL("%s: interpreter: %s", what, err.text);
  kiln_codegen_options_init(&options);
  options.optimise = (uint8_t)level;
  if (kiln_codegen(kernel, &target, &options, &artifact, &err) != KILN_OK) FAIL("%s: %s", what, err.text);
  kiln_host_kernel *run = mapping_open(&artifact.code, artifact.info.symbol);
  CHECK_INT(mapping_run(run, got.block, grid, artifact.info.scratch_bytes), 0);
  compare(what, interface, &want, &got);
  kiln_artifact_deinit(&artifact);
  drop(&want);
  drop(&got);
}

static void check(const char *text, int64_t n, uint32_t programs) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_unit *unit = kiln_unit_open(arena, "test.kiln", text, strlen(text), NULL, &d);
  if (!unit) {
    kiln_buffer out = {0};
    kiln_diagnostics_print(&d, text, strlen(text), &out);
    FAIL("%.*s", (int)out.size, (const char *)out.bytes);
  }
  const uint32_t grid[3] = {programs, 1, 1};
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++)
    for (unsigned t = 0; t < sizeof targets / sizeof *targets; t++)
      for (unsigned level = 0; level < 4; level += 3)
        if (mapping_can_run(targets[t])) check_on(unit, arena, i, targets[t], level, n, grid, &d, text);
  kiln_arena_destroy(arena);
}

// ------------------------------------------------------------------------------------- elementwise

#define FLOATS "@instance(T = f32) @instance(T = f64) @instance(T = f16) @instance(T = bf16)"
#define INTS "@instance(T = i8) @instance(T = i16) @instance(T = i32) @instance(T = i64)"

TEST(host_kernels, float_arithmetic) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, y: in *T, z: out *T, n: i32) " FLOATS " @grid(1) {\n"
        "  let i = pid(0) * 256 + iota(256)\n"
        "  let live = i < n\n"
        "  let a = load(x + i, live)\n"
        "  let b = load(y + i, live, 2.0)\n"
        "  store(z + i, a + b, live)\n"
        "  store(z + i + 1024, a - b * a, live)\n"
        "  store(z + i + 2048, min(a, b) / max(a, b), live)\n"
        "  store(z + i + 3072, sqrt(abs(a)) + floor(b) - ceil(a) + round(a * b), live)\n"
        "  store(z + i + 4096, select(a < b, fma(a, b, a), b % 3.0), live)\n"
        "  store(z + i + 5120, min(a, b / a, nan = true) + max(b, a, nan = true), live)\n"
        "}\n",
        700, 3);
}

TEST(host_kernels, integer_arithmetic) {
  check("kiln 1\n"
        "kernel k[T: type = i32](x: in *T, y: in *T, z: out *T, n: i32) " INTS " @grid(1) {\n"
        "  let i = pid(0) * 256 + iota(256)\n"
        "  let live = i < n\n"
        "  let a = load(x + i, live)\n"
        "  let b = load(y + i, live)\n"
        "  store(z + i, a * b + a - b, live)\n"
        "  store(z + i + 1024, (a / b) ^ (a % b), live)\n"
        "  store(z + i + 2048, udiv(a, b) | urem(b, a), live)\n"
        "  store(z + i + 3072, (a << b) + (a >> b) + ushr(b, a), live)\n"
        "  store(z + i + 4096, min(a, b) + umax(a, b) * abs(a), live)\n"
        "  store(z + i + 5120, select(ult(a, b) & (a != b), ~a, a & b), live)\n"
        "}\n",
        700, 3);
}

TEST(host_kernels, casts) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, y: in *i32, b: out *i8, s: out *i16, l: out *i64, h: out *f16, d: "
        "out *f64, t: out *T)\n"
        "  " FLOATS " @instance(T = i32) @instance(T = i8) @grid(1) {\n"
        "  let i = iota(128)\n"
        "  let v = load(x + i)\n"
        "  store(b + i, v as i8)\n"
        "  store(s + i, v as i16)\n"
        "  store(l + i, v as i64)\n"
        "  store(h + i, v as f16)\n"
        "  store(d + i, v as f64)\n"
        "  store(t + i, load(y + i) as T)\n"
        "  store(t + i + 128, ucast(load(y + i), T))\n"
        "  store(h + i + 128, (load(y + i) as f32) as f16)\n"
        "}\n",
        0, 1);
}

TEST(host_kernels, booleans_in_memory) {
  check("kiln 1\n"
        "kernel k(m: in *i1, x: in *i32, o: out *i1, n: i32) @grid(1) {\n"
        "  let i = iota(64)\n"
        "  let a = load(m + i, i < n)\n"
        "  store(o + i, a ^ (load(x + i) > 0), i < n)\n"
        "}\n",
        50, 1);
}

// ---------------------------------------------------------------------------- reductions and scans

TEST(host_kernels, reduces_rows) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, y: out *T, n: i32) @instance(T = f32) @instance(T = f64) "
        "@instance(T = i32) @instance(T = i64) @grid(1) {\n"
        "  let i = iota(1024)\n"
        "  let v = load(x + i, i < n)\n"
        "  store(y + 0, reduce.add(v, 0))\n"
        "  store(y + 1, reduce.max(v, 0))\n"
        "  store(y + 2, reduce.min(v, 0))\n"
        "  store(y + 4 + i, v - reduce.max(v, 0) + reduce.add(v * v, 0))\n"
        "}\n",
        900, 1);
}

TEST(host_kernels, reduces_any_axis) {
  check("kiln 1\n"
        "kernel k(x: in *i32, y: out *i32, n: i32) @grid(1) {\n"
        "  let i = iota(32)[:, _] * 64 + iota(64)[_, :]\n"
        "  let v = load(x + i)\n"
        "  store(y + iota(32), reduce.add(v, 1))\n"
        "  store(y + 32 + iota(64), reduce.add(v, 0))\n"
        "  let w = reshape(v, [8, 64, 4])\n"
        "  store(y + 128 + iota(32), reshape(reduce.xor(w, 1), [32]))\n"
        "  store(y + 256 + iota(512), reshape(reduce.max(w, 2), [512]))\n"
        "  store(y + 1024 + iota(256), reshape(reduce.min(w, 0), [256]))\n"
        "  store(y + 2048 + iota(4), reduce.add(load(x + iota(4)[_, :] * 2 + iota(2)[:, _]), 0))\n"
        "}\n",
        0, 1);
}

TEST(host_kernels, reduces_by_a_function) {
  check("kiln 1\n"
        "fn pick(v, i, w, j) {\n"
        "  let first = (v > w) | ((v == w) & (i < j))\n"
        "  return select(first, v, w), select(first, i, j)\n"
        "}\n"
        "fn later(a, b) { return select(b < 0, a, b) }\n"
        "kernel k(x: in *i32, y: out *i32) @grid(1) {\n"
        "  let c = iota(512)\n"
        "  let top, at = reduce(pick, 0, load(x + c) % 7, c)\n"
        "  store(y, top)\n"
        "  store(y + 1, at)\n"
        "  store(y + 2, reduce(later, 0, load(x + c)))\n"
        "  let i = iota(16)[:, _] * 32 + iota(32)[_, :]\n"
        "  let m, e = reduce(pick, 1, load(x + i) % 5, i)\n"
        "  store(y + 16 + iota(16), m)\n"
        "  store(y + 32 + iota(16), e)\n"
        "  store(y + 64 + iota(32), reduce(later, 0, load(x + i)))\n"
        "}\n",
        0, 1);
}

TEST(host_kernels, scans) {
  check("kiln 1\n"
        "fn later(a, b) { return select(b < 0, a, b) }\n"
        "kernel k(x: in *i32, y: out *i32) @grid(1) {\n"
        "  let c = iota(256)\n"
        "  store(y + c, scan.add(load(x + c), 0))\n"
        "  store(y + 256 + c, scan.add(load(x + c), 0, reverse = true))\n"
        "  store(y + 512 + c, scan(later, 0, load(x + c)))\n"
        "  let i = iota(16)[:, _] * 32 + iota(32)[_, :]\n"
        "  store(y + 1024 + i, scan.add(load(x + i), 0))\n"
        "  store(y + 2048 + i, scan.max(load(x + i), 1))\n"
        "  store(y + 3072 + i, scan.add(load(x + i), 0, reverse = true))\n"
        "  let j = iota(64)[:, _] * 4 + iota(4)[_, :]\n"
        "  store(y + 4096 + j, scan.add(load(x + j), 1, reverse = true))\n"
        "  store(y + 5120 + j, scan.add(load(x + j), 0))\n"
        "}\n",
        0, 1);
}

// ------------------------------------------------------------------------------------------ shapes

TEST(host_kernels, sorts) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, y: out *T, z: out *i32, n: i32)\n"
        "  " FLOATS " " INTS " @grid(2) {\n"
        "  let i = pid(0) * 1024 + iota(1024)\n"
        "  store(y + i, sort(load(x + i)))\n"
        "  let r = pid(0) * 512 + iota(64)[:, _] * 8 + iota(8)[_, :]\n"
        "  store(y + 2048 + r, sort(load(x + r), descending = true))\n"
        "  let two = pid(0) * 128 + iota(64)[:, _] * 2 + iota(2)[_, :]\n"
        "  store(y + 3072 + two, sort(load(x + two)))\n"
        "  store(y + 3328 + pid(0) * 32 + iota(32), topk(load(x + i), 32))\n"
        "  store(y + 3456 + pid(0) * 64 + iota(64)[:, _], topk(load(x + r), 1))\n"
        "  when T != i64 { when T != f64 {\n"
        "    let v, at = sort(load(x + i), indices = true)\n"
        "    store(z + i, at)\n"
        "    store(y + 4096 + i, v)\n"
        "    let w, there = topk(load(x + r) * load(x + r), 4, indices = true)\n"
        "    store(z + 4096 + pid(0) * 256 + iota(64)[:, _] * 4 + iota(4)[_, :], there)\n"
        "  } }\n"
        "}\n",
        0, 2);
}

TEST(host_kernels, sorts_in_loops) {
  check("kiln 1\n"
        "kernel k(x: in *i32, y: out *i32) @grid(1) {\n"
        "  let i = iota(64)\n"
        "  var v = load(x + i)\n"
        "  for j in 0 .. 3 {\n"
        "    let s = sort(v ^ (j * 77))\n"
        "    v = gather(s, i * (2 * j + 3), 0) + s\n"
        "    if j == 1 { store(y + 64 + i, v) }\n"
        "  }\n"
        "  store(y + i, v)\n"
        "}\n",
        0, 1);
}

TEST(host_kernels, gathers) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, n: in *i32, y: out *T, b: out *i1)\n"
        "  " FLOATS " " INTS " @grid(2) {\n"
        "  let r = pid(0) * 512 + iota(8)[:, _] * 64 + iota(64)[_, :]\n"
        "  let s = pid(0) * 128 + iota(8)[:, _] * 16 + iota(16)[_, :]\n"
        "  store(y + s, gather(load(x + r), load(n + s), 1))\n"
        "  store(y + 1024 + r, gather(load(x + r), load(n + r), 0))\n"
        "  store(b + r, gather(load(n + r) > 0, load(n + r), 0))\n"
        "}\n",
        0, 2);
}

TEST(host_kernels, shapes) {
  check("kiln 1\n"
        "kernel k(x: in *i16, y: out *i16) @grid(1) {\n"
        "  let i = iota(32)[:, _] * 16 + iota(16)[_, :]\n"
        "  let v = load(x + i)\n"
        "  store(y + iota(16)[:, _] * 32 + iota(32)[_, :], trans(v))\n"
        "  let w = reshape(v, [4, 8, 16])\n"
        "  store(y + 1024 + iota(512), reshape(trans(w, [2, 0, 1]), [512]))\n"
        "  let a, b = split(reshape(v, [256, 2]))\n"
        "  store(y + 2048 + iota(256), a - b * 3)\n"
        "  store(y + 3072 + iota(512), reshape(join(b, a), [512]))\n"
        "  let r = load(x + iota(16))\n"
        "  store(y + 4096 + i, r[_, :] * load(x + iota(32))[:, _])\n"
        "}\n",
        0, 1);
}

// ------------------------------------------------------------------------------------ control flow

TEST(host_kernels, loops) {
  check("kiln 1\n"
        "kernel k(x: in *i32, y: out *i32, n: i32) @grid(1) {\n"
        "  let c = iota(128)\n"
        "  var a = zeros(i32[128])\n"
        "  var b = c\n"
        "  var s = 1\n"
        "  for j in 0 .. n step 3 {\n"
        "    a, b = b, a + b + load(x + j + c)\n"
        "    s = s * 3 + j\n"
        "  }\n"
        "  store(y + c, a)\n"
        "  store(y + 128 + c, b + s)\n"
        "  var m = reshape(load(x + iota(256)), [16, 16])\n"
        "  for j in 0 .. 3 { m = trans(m) + m * j }\n"
        "  store(y + 512 + iota(256), reshape(m, [256]))\n"
        "  var t = n\n"
        "  var q = c\n"
        "  while t > 1 { t = select(t % 2 == 0, t / 2, t * 3 + 1) q = q * 2 + t }\n"
        "  store(y + 1024 + c, q)\n"
        "  for j in 5 .. 5 { store(y + c, q) }\n"
        "}\n",
        20, 1);
}

TEST(host_kernels, branches) {
  check("kiln 1\n"
        "kernel k(x: in *i32, y: out *i32, n: i32) @grid(1) {\n"
        "  let c = iota(64)\n"
        "  let p = pid(0)\n"
        "  var v = load(x + c)\n"
        "  var s = 7\n"
        "  if p % 2 == 0 { v = v + c s = reduce.add(v, 0) } else { if p == 1 { v = v * c } }\n"
        "  store(y + p * 64 + c, v + s)\n"
        "  if p == 3 { return }\n"
        "  store(y + 1024 + p, s)\n"
        "}\n",
        0, 5);
}

// A view that is selected, of parts of another one.
TEST(host_kernels, selected_views) {
  check("kiln 1\n"
        "kernel k(x: in *f32, y: in *f32, z: out *f32, n: i32) @grid(1) {\n"
        "  let X = view(x, [12, 16], [16, 1], [8, 8])\n"
        "  let Y = view(y, [16, 12], [1, 20], [8, 8])\n"
        "  let V = select(pid(0) % 2 == 0, X, Y)\n"
        "  let part = view(view_base(V) + view_stride(V, 0), [dim(V, 0) - 1, dim(V, 1)],\n"
        "                  [view_stride(V, 0), view_stride(V, 1)], [8, 8])\n"
        "  let W = select(pid(0) < n, part, V)\n"
        "  let Z = view(z, [32, 16], [16, 1], [8, 8])\n"
        "  store(Z, [8 * pid(0), 0], load(W, [4, 4], 9.0))\n"
        "}\n",
        2, 4);
}

// A view is what a loop carries (chosen in it, or with extents that change), and what a branch yields.
TEST(host_kernels, carried_views) {
  static const char text[] =
      "kiln 1\n"
      "kernel k(x: in *f32, y: in *f32, z: out *f32, n: i32) @grid(2) @config(warps = 4) {\n"
      "  let X = view(x, [64, 16], [16, 1], [16, 16])\n"
      "  let Y = view(y, [64, 16], [16, 1], [16, 16])\n"
      "  var V = X\n"
      "  var acc = zeros(f32[16, 16])\n"
      "  for i in 0 .. 4 {\n"
      "    acc = acc + load(V, [i * 16, 0])\n"
      "    if i == n { V = Y } else { acc = acc * 2.0 }\n"
      "  }\n"
      "  var p = x\n"
      "  var j = 0\n"
      "  while j < 3 {\n"
      "    let W = view(p, [16, 16 - j], [16, 1], [16, 16])\n"
      "    V = W\n"
      "    acc = acc + load(V, [0, 0], 0.5)\n"
      "    p = p + 256\n"
      "    j = j + 1\n"
      "  }\n"
      "  let L = if n > 1 { yield view(y, [n + 3, 16], [16, 1], [16, 16]) } else { yield V }\n"
      "  acc = acc - load(L, [pid(0) * 2, 0])\n"
      "  let Z = view(z, [32, 16], [16, 1], [16, 16])\n"
      "  store(Z, [pid(0) * 16, 0], acc)\n"
      "}\n";
  for (int n = 0; n < 5; n++) check(text, n, 2);
}

// --------------------------------------------------------------------------------- order of memory

TEST(host_kernels, loads_before_stores) {
  check("kiln 1\n"
        "kernel k(x: inout *i32, y: inout *i32) @grid(1) {\n"
        "  let c = iota(256)\n"
        "  let a = load(x + c)\n"
        "  let b = load(x + c + 1)\n"
        "  store(x + c, b - a)\n"
        "  store(y + c, a * 3 + b)\n"
        "  barrier()\n"
        "  store(y + 256 + c, load(x + 255 - c))\n"
        "  let s = reduce.add(load(x + c), 0)\n"
        "  store(x + c, load(x + c) + s)\n"
        "  let v = reshape(load(y + c), [16, 16])\n"
        "  barrier()\n"
        "  store(y + c, reshape(trans(v), [256]))\n"
        "}\n",
        0, 1);
}

// One lane of a store whose mask is known, narrowed on the way: LLVM 22 wrote the bytes behind it as well
// with AVX-512. Also lanes that are known once a loop is unrolled.
TEST(host_kernels, stores_of_known_lanes) {
  static const char *const pairs[][2] = {{"i64", "i8"},   {"i64", "i32"}, {"i32", "i8"},  {"i32", "i16"},
                                         {"i16", "i8"},   {"f32", "f16"}, {"f64", "f32"}, {"f32", "bf16"},
                                         {"i64", "e5m2"}, {"f32", "e4m3"}};
  static char text[20000];
  size_t used = (size_t)snprintf(text, sizeof text, "kiln 1\n");
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "kernel k%zu(x: in *%s, y: inout *%s, n: i32) @grid(n) {\n", i, pairs[i][0],
                             pairs[i][1]);
    for (int width = 2; width <= 32; width *= 4)
      for (int lane = 0; lane < width; lane += width / 2 + 1)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "  store(y + pid(0) * 1024 + %d + iota(%d), load(x + iota(%d)) as %s, "
                                 "iota(%d) == %d)\n",
                                 width * 8 + lane * 32, width, width, pairs[i][1], width, lane);
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "  for j in 0 .. 8 { let i = iota(8) store(y + pid(0) * 1024 + 768 + j * 8 + i, "
                             "load(x + i) as %s, i == j) }\n}\n",
                             pairs[i][1]);
  }
  check(text, 2, 2);
}

TEST(host_kernels, atomics) {
  check(
      "kiln 1\n"
      "kernel k(x: inout *i32, l: inout *i64, f: inout *f32, h: inout *f16, y: out *i32, n: i32) @grid(1) {\n"
      "  let c = iota(64)\n"
      "  store(y + c, atomic.add(x + c % 8, c, c < n))\n"
      "  let ignored = atomic.max(l + c % 4, c as i64)\n"
      "  let again = atomic.add(f + c % 2, (c as f32) * 0.5, c < n)\n"
      "  let half = atomic.add(h + c % 16, 1.0 as f16)\n"
      "  store(y + 64, atomic.xchg(x + 9, 5))\n"
      "  store(y + 65, cas(x + 9, 5, 6, order = acquire))\n"
      "  store(y + 66, atomic.umin(x + 10, 3, order = acq_rel))\n"
      "}\n",
      40, 2);
}

TEST(host_kernels, exchange_of_halves) {
  check("kiln 1\n"
        "kernel k(h: inout *f16, b: inout *bf16, y: out *f16, z: out *bf16, n: i32) @grid(1) {\n"
        "  let c = iota(32)\n"
        "  store(y + c, atomic.xchg(h + c, c as f16, c < n))\n"
        "  store(z + c, atomic.xchg(b + c, c as bf16))\n"
        "}\n",
        20, 1);
}

/// Every second element is as expected; their neighbours in a word of 32 bits stay.
TEST(host_kernels, swaps_of_halves) {
  check("kiln 1\n"
        "kernel k(h: inout *f16, b: inout *bf16, s: inout *i16, y: out *f16, z: out *bf16, w: out *i16) "
        "@grid(1) {\n"
        "  let c = iota(32)\n"
        "  store(y + c, cas(h + c, select(c % 2 == 0, load(h + c), 7.0 as f16), c as f16))\n"
        "  store(z + c, cas(b + c, select(c % 2 == 0, load(b + c), 7.0 as bf16), c as bf16))\n"
        "  store(w + c, cas(s + c, select(c % 2 == 1, load(s + c), 7 as i16), c as i16))\n"
        "  store(w + 32, cas(s + 33, load(s + 33), -2 as i16, order = acq_rel))\n"
        "}\n",
        20, 1);
}

// --------------------------------------------------------------------------------- matrix products

TEST(host_kernels, products) {
  check("kiln 1\n"
        "kernel k[T: type = f32, A: type = f32](x: in *T, y: in *T, z: out *A)\n"
        "  @instance(T = f32, A = f32) @instance(T = f16, A = f32) @instance(T = bf16, A = f32) @instance(T "
        "= f64, A = f64) @instance(T = i8, A = i32)\n"
        "  @instance(T = e4m3, A = f32) @instance(T = e5m2, A = f32) @grid(1) {\n"
        "  let a = load(x + iota(32)[:, _] * 16 + iota(16)[_, :])\n"
        "  let b = load(y + iota(16)[:, _] * 64 + iota(64)[_, :])\n"
        "  store(z + iota(32)[:, _] * 64 + iota(64)[_, :], dot(a, b, zeros(A[32, 64])))\n"
        "  let t = load(y + iota(8)[:, _] * 16 + iota(16)[_, :])\n"
        "  var s = full(A[32, 8], 1)\n"
        "  for j in 0 .. 3 { s = dot(a, trans(t), s + s) }\n"
        "  store(z + 4096 + iota(32)[:, _] * 8 + iota(8)[_, :], s)\n"
        "}\n",
        0, 1);
}

TEST(host_kernels, products_of_carried_tiles) {
  check("kiln 1\n"
        "kernel k(x: in *f32, z: out *f32, n: i32) @grid(1) {\n"
        "  let i = iota(16)[:, _] * 16 + iota(16)[_, :]\n"
        "  let a = select(load(x + i) > 0.0, 0.5, 0.25)\n"
        "  var s = a\n"
        "  var t = a\n"
        "  var u = a\n"
        "  for j in 0 .. n {\n"
        "    s = dot(a, s, zeros(f32[16, 16]))\n"
        "    t = dot(t, a, t)\n"
        "    u = dot(a, a, trans(u) * 0.5)\n"
        "  }\n"
        "  store(z + i, s)\n"
        "  store(z + 256 + i, t)\n"
        "  store(z + 512 + i, u)\n"
        "  var p = x + i\n"
        "  var q = iota(16)\n"
        "  var r = zeros(f32[16, 16])\n"
        "  for j in 0 .. n {\n"
        "    r = r + load(p) * (q as f32)[:, _]\n"
        "    p = p + 7\n"
        "    q = q + n\n"
        "  }\n"
        "  store(z + 768 + i, r + load(p))\n"
        "}\n",
        3, 1);
}

TEST(host_kernels, batched_products) {
  check("kiln 1\n"
        "kernel k(x: in *f32, y: in *f32, z: out *f32) @grid(1) {\n"
        "  let a = reshape(load(x + iota(512)), [4, 8, 16])\n"
        "  let b = reshape(load(y + iota(1024)), [4, 16, 16])\n"
        "  store(z + iota(512), reshape(dot(a, b, zeros(f32[4, 8, 16])), [512]))\n"
        "  store(z + 512 + iota(512), reshape(dot(a, trans(b, [0, 2, 1]), zeros(f32[4, 8, 16])), [512]))\n"
        "}\n",
        0, 1);
}

/// Products of one shape: factors in every order of memory, masked, from outside and from inside the loop,
/// and their result again as a factor.
static void check_shape(const char *type, const char *sum, unsigned m, unsigned n, unsigned k,
                        unsigned form) {
  char text[4096], a[64], b[64];
  snprintf(a, sizeof a, form & 1 ? "i[:, _] + r[_, :] * %u" : "i[:, _] * %u + r[_, :]", form & 1 ? m : k);
  snprintf(b, sizeof b, form & 2 ? "r[:, _] + c[_, :] * %u" : "r[:, _] * %u + c[_, :]", form & 2 ? k : n);
  snprintf(text, sizeof text,
           "kiln 1\n"
           "kernel k(x: in *%s, y: in *%s, z: out *%s, n: i32) @grid(1) {\n"
           "  let i = iota(%u)\n"
           "  let c = iota(%u)\n"
           "  let r = iota(%u)\n"
           "  let live = (r < n)[:, _]\n"
           "  let still = load(y + (%s))\n"
           "  var s = full(%s[%u, %u], 1)\n"
           "  var t = zeros(%s[%u, %u])\n"
           "  for j in 0 .. 2 {\n"
           "    let a = load(x + j + (%s), (r < n)[_, :])\n"
           "    s = dot(a, load(y + j * 3 + (%s)%s), s)\n"
           "    t = dot(a, still, t)\n"
           "  }\n"
           "  let o = i[:, _] * %u + c[_, :]\n"
           "  store(z + o, s)\n"
           "  store(z + %u + o, t)\n"
           "  if n > 1 {\n"
           "    let kept = load(x + (%s))\n"
           "    for j in 0 .. n / 2 { t = dot(kept, still, t) }\n"
           "    store(z + o, t)\n"
           "  }\n"
           "}\n",
           type, type, sum, m, n, k, b, sum, m, n, sum, m, n, a, b, form & 4 ? ", live" : "", n, m * n, a);
  check(text, form & 8 ? k - k / 4 : k, 1);
}

TEST(host_kernels, products_of_all_shapes) {
  static const struct {
    const char *type, *sum;
  } types[] = {{"f32", "f32"}, {"i8", "i32"}, {"bf16", "f32"}, {"f64", "f64"}, {"i8", "i32"}, {"f16", "f32"}};
  uint64_t random = 11;
  for (unsigned round = 0; round < 24; round++) {
    unsigned at[4];
    for (unsigned i = 0; i < 4; i++) at[i] = (unsigned)(kiln_test_random(&random) >> 33);
    check_shape(types[round % 6].type, types[round % 6].sum, 1u << at[0] % 7, 1u << at[1] % 7,
                1u << at[2] % 8, at[3] % 16);
  }
}

// ----------------------------------------------------------------------------------- whole kernels

TEST(host_kernels, normalises_in_place) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, res: inout *T, w: in *T, y: out *T, cols: i32) @instance(T = f32) "
        "@instance(T = bf16) @instance(T = f16) @grid(1) {\n"
        "  let base = pid(0) as i64 * cols as i64\n"
        "  let c = iota(512)\n"
        "  let live = c < cols\n"
        "  let h = load(x + base + c, live) as f32 + load(res + base + c, live) as f32\n"
        "  store(res + base + c, h as T, live)\n"
        "  let s = reduce.add(h * h, 0)\n"
        "  store(y + base + c, (h * s * load(w + c, live) as f32) as T, live)\n"
        "}\n",
        300, 4);
}

TEST(host_kernels, softmax) {
  check("kiln 1\n"
        "kernel k[T: type = f32](x: in *T, y: out *T, cols: i32) @instance(T = f32) @instance(T = bf16) "
        "@grid(1) {\n"
        "  let row = pid(0) as i64\n"
        "  let c = iota(1024)\n"
        "  let live = c < cols\n"
        "  let v = load(x + row * cols as i64 + c, live, -inf) as f32\n"
        "  let e = exp2(v - reduce.max(v, 0))\n"
        "  store(y + row * cols as i64 + c, e as T, live)\n"
        "}\n",
        777, 3);
}
