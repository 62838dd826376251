// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels of the kernel language in the reference interpreter and as host code of every level: all
// memory must agree bit for bit (a NaN is a NaN). The data are such that the order of a sum does not
// matter.
#include "tests/codegen/host_check.h"

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
