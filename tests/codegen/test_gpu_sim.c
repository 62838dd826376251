// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the GPU lowering with the reference interpreter: arithmetic, shapes, memory, control flow,
// sorting.
#include "tests/codegen/gpu_sim_case.h"

CASE(add, .grid = {3, 1, 1}, .arguments = {1000, 1000, 1000, 1000},
     .text = "kiln 1\n"
             "kernel add(x: in *f32 @align(16), y: in *f32 @align(16), z: out *f32 @align(16), n: i32) "
             "@grid(3) " WARPS "{\n"
             "  let i = pid(0) * 512 + iota(512)\n"
             "  store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n)\n"
             "}\n")

CASE(small_tile, .grid = {1, 1, 1}, .arguments = {8, 8},
     .text = "kiln 1\n"
             "kernel small(x: in *f32, z: inout *f32) @grid(1) " WARPS "{\n"
             "  let i = iota(8)\n"
             "  store(z + i, load(z + i) + load(x + i))\n"
             "}\n")

CASE(row_sums, .grid = {2, 1, 1}, .arguments = {8192, 64, 64}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel sums(x: in *f32 @align(16), y: out *f32, z: out *f32) @grid(2) " WARPS "{\n"
             "  let r = pid(0) * 32 + iota(32)\n"
             "  let c = iota(128)\n"
             "  let t = load(x + (r[:, _] * 128 + c[_, :]))\n"
             "  store(y + r, reduce.add(t, 1))\n"
             "  store(z + r, reduce.max(t, 1))\n"
             "}\n")

CASE(column_sums, .grid = {1, 1, 1}, .arguments = {4096, 128, 1}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel sums(x: in *f32 @align(16), y: out *f32, z: out *f32) @grid(1) " WARPS "{\n"
             "  let t = load(x + (iota(32)[:, _] * 128 + iota(128)[_, :]))\n"
             "  let s = reduce.add(t, 0)\n"
             "  store(y + iota(128), s)\n"
             "  store(z, reduce.min(s, 0))\n"
             "}\n")

CASE(softmax, .grid = {4, 1, 1}, .arguments = {4096, 4096, 1000}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel softmax(x: in *f32 @align(16), y: out *f32 @align(16), cols: i32) @grid(4) " WARPS "{\n"
             "  let c = iota(1024)\n"
             "  let live = c < cols\n"
             "  let v = load(x + (pid(0) * cols + c), live, -inf)\n"
             "  let e = exp(v - reduce.max(v, 0))\n"
             "  store(y + (pid(0) * cols + c), e / reduce.add(e, 0), live)\n"
             "}\n")

CASE(scans, .grid = {1, 1, 1}, .arguments = {1024, 1024, 1024, 1024},
     .text = "kiln 1\n"
             "kernel scans(x: in *i32, y: out *i32, z: out *i32, w: out *i32) @grid(1) " WARPS "{\n"
             "  let i = iota(1024)\n"
             "  let t = load(x + i)\n"
             "  store(y + i, scan.add(t, 0))\n"
             "  store(z + i, scan.max(t, 0, reverse = true))\n"
             "  let two = reshape(t, [32, 32])\n"
             "  store(w + i, reshape(scan.add(two, 0), [1024]))\n"
             "}\n")

CASE(argmax, .grid = {1, 1, 1}, .arguments = {2048, 16, 16},
     .text = "kiln 1\n"
             "fn pick(v, i, w, j) {\n"
             "  let first = (v > w) | ((v == w) & i < j)\n"
             "  return select(first, v, w), select(first, i, j)\n"
             "}\n"
             "kernel argmax(x: in *f32, y: out *f32, z: out *i32) @grid(1) " WARPS "{\n"
             "  let r = iota(16)\n"
             "  let c = iota(128)\n"
             "  let t = load(x + (r[:, _] * 128 + c[_, :]))\n"
             "  let index = c[_, :] + zeros(i32[16, 128])\n"
             "  let top, at = reduce(pick, 1, t, index)\n"
             "  store(y + r, top)\n"
             "  store(z + r, at)\n"
             "}\n")

CASE(transpose, .grid = {1, 1, 1}, .arguments = {2048, 2048, 2048},
     .text = "kiln 1\n"
             "kernel transpose(x: in *f16 @align(16), y: out *f16 @align(16), z: out *f16) @grid(1) " WARPS
             "{\n"
             "  let r = iota(32)\n"
             "  let c = iota(64)\n"
             "  let t = load(x + (r[:, _] * 64 + c[_, :]))\n"
             "  store(y + (c[:, _] * 32 + r[_, :]), trans(t))\n"
             "  let a, b = split(reshape(t, [1024, 2]))\n"
             "  store(z + iota(2048), reshape(join(b, a), [2048]))\n"
             "}\n")

CASE(loop, .grid = {2, 1, 1}, .arguments = {4096, 512, 5}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel loop_sum(x: in *f32 @align(16), y: out *f32 @align(16), n: i32) @grid(2) " WARPS "{\n"
             "  let i = pid(0) * 256 + iota(256)\n"
             "  var p = x + i\n"
             "  var acc = zeros(f32[256])\n"
             "  var total = 0.0\n"
             "  for k in 0 .. n {\n"
             "    let v = load(p)\n"
             "    acc = acc + v * 0.5\n"
             "    total = total + reduce.add(v, 0)\n"
             "    p = p + 512\n"
             "    if k == 2 { acc = acc - 1.0 } else { acc = acc + total }\n"
             "  }\n"
             "  store(y + i, acc + total)\n"
             "}\n")

#define CARRIED_VIEWS                                                                                      \
  "kiln 1\n"                                                                                               \
  "kernel k(x: in *f32 @align(16), y: in *f32 @align(16), z: out *f32 @align(16), n: i32) @grid(2) " WARPS \
  "{\n"                                                                                                    \
  "  let X = view(x, [64, 16], [16, 1], [16, 16])\n"                                                       \
  "  let Y = view(y, [64, 16], [16, 1], [16, 16])\n"                                                       \
  "  var V = X\n"                                                                                          \
  "  var acc = zeros(f32[16, 16])\n"                                                                       \
  "  for i in 0 .. 4 {\n"                                                                                  \
  "    acc = acc + load(V, [i * 16, 0])\n"                                                                 \
  "    if i == n { V = Y } else { acc = acc * 2.0 }\n"                                                     \
  "  }\n"                                                                                                  \
  "  var p = x\n"                                                                                          \
  "  var j = 0\n"                                                                                          \
  "  while j < 3 {\n"                                                                                      \
  "    let W = view(p, [16, 16 - j], [16, 1], [16, 16])\n"                                                 \
  "    V = W\n"                                                                                            \
  "    acc = acc + load(V, [0, 0], 0.5)\n"                                                                 \
  "    p = p + 256\n"                                                                                      \
  "    j = j + 1\n"                                                                                        \
  "  }\n"                                                                                                  \
  "  let L = if n > 1 { yield view(y, [n + 3, 16], [16, 1], [16, 16]) } else { yield V }\n"                \
  "  acc = acc - load(L, [pid(0) * 2, 0])\n"                                                               \
  "  let Z = view(z, [32, 16], [16, 1], [16, 16])\n"                                                       \
  "  store(Z, [pid(0) * 16, 0], acc)\n"                                                                    \
  "}\n"
CASE(carried_views, .grid = {2, 1, 1}, .arguments = {1024, 1024, 512, 2}, .tolerance = 1e-5,
     .text = CARRIED_VIEWS)
CASE(carried_views_first, .grid = {2, 1, 1}, .arguments = {1024, 1024, 512, 0}, .tolerance = 1e-5,
     .text = CARRIED_VIEWS)

CASE(atomics, .grid = {2, 1, 1}, .arguments = {256, 16, 4, 256, 4}, .bound = 16,
     .text = "kiln 1\n"
             "kernel atomics(x: in *i32, counts: accum *i32, total: accum *i32, old: out *i32, lock: inout "
             "*i32) @grid(2) " WARPS "{\n"
             "  let i = iota(256)\n"
             "  let t = load(x + i)\n"
             "  let unused = atomic.add(counts + t, 1, i < 200)\n"
             "  let before = atomic.max(total, reduce.add(t, 0))\n"
             "  let mine = atomic.add(total + 1, 1)\n"
             "  let seen = cas(total + 2, 1000, mine)\n"
             "  let s = iota(4)\n"
             "  let o = atomic.xor(lock + s, s)\n"
             "  store(old + (iota(4) + 4 * pid(0)), o + seen)\n"
             "}\n")

CASE(exchange_of_halves, .grid = {1, 1, 1}, .arguments = {64, 64, 64, 64},
     .text = "kiln 1\n"
             "kernel exchange(h: inout *f16, b: inout *bf16, y: out *f16, z: out *bf16) @grid(1) " WARPS "{\n"
             "  let c = iota(64)\n"
             "  store(y + c, atomic.xchg(h + c, c as f16, c < 40))\n"
             "  store(z + c, atomic.xchg(b + c, c as bf16))\n"
             "}\n")

CASE(swaps_of_halves, .grid = {1, 1, 1}, .arguments = {64, 64, 64, 64, 64, 64},
     .text =
         "kiln 1\n"
         "kernel swaps(h: inout *f16, b: inout *bf16, s: inout *i16, y: out *f16, z: out *bf16, w: out *i16) "
         "@grid(1) " WARPS "{\n"
         "  let c = iota(64)\n"
         "  store(y + c, cas(h + c, select(c % 2 == 0, load(h + c), 7.0 as f16), c as f16))\n"
         "  store(z + c, cas(b + c, select(c % 2 == 0, load(b + c), 7.0 as bf16), c as bf16))\n"
         "  store(w + c, cas(s + c, select(c % 2 == 1, load(s + c), 7 as i16), c as i16))\n"
         "}\n")

CASE(nested_control, .grid = {2, 1, 1}, .arguments = {1024, 1024, 7}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel nested(x: in *f32 @align(16), y: out *f32 @align(16), n: i32) @grid(2) " WARPS "{\n"
             "  let i = pid(0) * 512 + iota(512)\n"
             "  let v = load(x + i)\n"
             "  let two = reshape(v, [16, 32])\n"
             "  var acc = two\n"
             "  var count = 0\n"
             "  while count < n {\n"
             "    for j in 0 .. count {\n"
             "      let s = reduce.add(acc, 1)\n"
             "      if j % 2 == 0 { acc = acc * 0.5 + s[:, _] * 0.01 } else { acc = acc - reduce.max(two, "
             "0)[_, :] * 0.1 }\n"
             "    }\n"
             "    count = count + 1\n"
             "  }\n"
             "  store(y + i, reshape(acc, [512]))\n"
             "}\n")

CASE(many_axes, .grid = {1, 1, 1}, .arguments = {4096, 4096, 512}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel axes(x: in *f32, y: out *f32, z: out *f32) @grid(1) " WARPS "{\n"
             "  let t = reshape(load(x + iota(4096)), [4, 2, 8, 4, 16])\n"
             "  let u = trans(t, [3, 0, 4, 2, 1])\n"
             "  store(y + reshape(iota(4096), [4, 4, 16, 8, 2]), u * 2.0)\n"
             "  store(z + reshape(iota(512), [4, 4, 16, 2]), reduce.add(u, 3))\n"
             "}\n")

CASE(integers, .grid = {1, 1, 1}, .arguments = {256, 256, 256, 256, 256},
     .text = "kiln 1\n"
             "kernel integers(x: in *i8, y: in *i16, a: out *i64, b: out *i32, c: out *i1) @grid(1) " WARPS
             "{\n"
             "  let i = iota(256)\n"
             "  let p = load(x + i) as i32\n"
             "  let q = load(y + i) as i32 | 1\n"
             "  store(a + i, (p as i64) * 1000003 / (q as i64) + ushr(q as i64, 3))\n"
             "  store(b + i, select(p > q, p % q, p << (q & 7)) + umulhi(p, q) + min(p, q) * max(p, -q))\n"
             "  store(c + i, (p < q) ^ (p == 3))\n"
             "}\n")

CASE(conversions, .grid = {1, 1, 1}, .arguments = {512, 512, 512, 512, 512, 512},
     .text = "kiln 1\n"
             "kernel conversions(x: in *f32, h: out *f16, b: out *bf16, d: out *f64, i: out *i32, e: out "
             "*e4m3) @grid(1) " WARPS "{\n"
             "  let k = iota(512)\n"
             "  let v = load(x + k) * 37.7\n"
             "  store(h + k, (v as f16) + (v * v) as f16)\n"
             "  store(b + k, v as bf16)\n"
             "  store(d + k, (v as f64) * 1.1)\n"
             "  store(i + k, (v * 1e8) as i32)\n"
             "  store(e + k, v as e4m3)\n"
             "}\n")

CASE(region_scan, .grid = {1, 1, 1}, .arguments = {512, 512, 512, 512}, .tolerance = 1e-4,
     .text = "kiln 1\n"
             "fn compose(a, b, c, d) { return a * c, b * c + d }\n"
             "kernel recurrence(x: in *f32, y: in *f32, p: out *f32, q: out *f32) @grid(1) " WARPS "{\n"
             "  let i = iota(8)[:, _] * 64 + iota(64)[_, :]\n"
             "  let a, b = scan(compose, 1, load(x + i) * 0.5, load(y + i))\n"
             "  store(p + i, a)\n"
             "  store(q + i, b)\n"
             "}\n")

CASE(pointer_tiles, .grid = {1, 1, 1}, .arguments = {1024, 256, 256}, .bound = 1024,
     .text = "kiln 1\n"
             "kernel picked(x: in *f32, index: in *i32, y: out *f32) @grid(1) " WARPS "{\n"
             "  let i = iota(256)\n"
             "  let at = load(index + i)\n"
             "  let v = load(x + at, at % 3 != 0, 7.0)\n"
             "  store(y + i, v, i != 5)\n"
             "}\n")

// Bits of the row in registers, lanes and warps, several rows, fewer elements than threads, all widths.
CASE(sorts, .grid = {2, 1, 1}, .arguments = {2048, 2048, 2048, 2048, 2048, 2048, 2048},
     .text =
         "kiln 1\n"
         "kernel order(x: in *f32 @align(16), h: in *bf16, l: in *i64, y: out *f32 @align(16), at: out *i32, "
         "z: out *bf16, m: out *i64) @grid(2) " WARPS "{\n"
         "  let i = pid(0) * 512 + iota(512)\n"
         "  let v, p = sort(load(x + i), indices = true)\n"
         "  store(y + i, v)\n"
         "  store(at + i, p)\n"
         "  store(z + i, sort(load(h + i), descending = true))\n"
         "  let r = pid(0) * 512 + iota(8)[:, _] * 64 + iota(64)[_, :]\n"
         "  store(m + r, sort(load(l + r)))\n"
         "  let w = 1024 + pid(0) * 512 + iota(32)[:, _] * 16 + iota(16)[_, :]\n"
         "  store(y + w, sort(load(x + w), descending = true))\n"
         "  let s = 1024 + pid(0) * 512 + iota(32)\n"
         "  store(z + s, sort(load(h + s)))\n"
         "}\n")

CASE(tops, .grid = {2, 1, 1}, .arguments = {8192, 8192, 8192, 8192, 8192, 8192}, .bound = 100,
     .text =
         "kiln 1\n"
         "kernel top(x: in *f32 @align(16), h: in *i16, y: out *f32, at: out *i32, z: out *i16, q: out *i32) "
         "@grid(2) " WARPS "{\n"
         "  let i = pid(0) * 2048 + iota(2048)\n"
         "  let v, p = topk(load(x + i), 8, indices = true)\n"
         "  let k = pid(0) * 8 + iota(8)\n"
         "  store(y + k, v)\n"
         "  store(at + k, p)\n"
         "  let w, s = topk(load(h + i), 64, indices = true)\n"
         "  let l = pid(0) * 64 + iota(64)\n"
         "  store(z + l, w)\n"
         "  store(q + l, s)\n"
         "  let r = iota(32)[:, _] * 64 + iota(64)[_, :]\n"
         "  let b = pid(0) * 32 + iota(32)\n"
         "  store(y + 64 + b[:, _], topk(load(x + r), 1))\n"
         "  store(z + 256 + b[:, _] * 16 + iota(16)[_, :], sort(load(h + r), first = 16))\n"
         "  store(z + 4096 + pid(0) * 512 + iota(512), topk(load(h + 4096 + iota(1024)), 512))\n"
         "}\n")

CASE(gathers, .grid = {2, 1, 1}, .arguments = {8192, 8192, 8192, 8192, 8192},
     .text =
         "kiln 1\n"
         "kernel gathers(x: in *f32 @align(16), n: in *i32 @align(16), l: in *i64, y: out *f32 @align(16), "
         "m: out *i64) @grid(2) " WARPS "{\n"
         "  let r = pid(0) * 2048 + iota(32)[:, _] * 64 + iota(64)[_, :]\n"
         "  let c = pid(0) * 512 + iota(32)[:, _] * 16 + iota(16)[_, :]\n"
         "  store(y + c, gather(load(x + r), load(n + c), 1))\n"
         "  store(m + r, gather(load(l + r), load(n + r), 0))\n"
         "  let i = pid(0) * 64 + iota(64)\n"
         "  store(y + 4096 + i, select(gather(load(x + i) > 0.0, load(n + i) * 3, 0), gather(load(x + i), i, "
         "0), "
         "7.0))\n"
         "}\n")

TEST(gpu_sim, large_conversions_go_in_parts) {
  static const sim_case c = {
      .grid = {1, 1, 1},
      .arguments = {8192, 8192},
      .text = "kiln 1\n"
              "kernel turn(x: in *f32 @align(16), y: out *f32 @align(16)) @grid(1) @config(warps = 4) {\n"
              "  let r = iota(64)\n"
              "  let c = iota(128)\n"
              "  store(y + (c[:, _] * 64 + r[_, :]), trans(load(x + (r[:, _] * 128 + c[_, :]))))\n"
              "}\n"};
  run_config(&c, 0, &(sim_options){.max_shared = 16384});
  run_config(&c, 0, &(sim_options){.max_shared = 8192, .reverse = true});
}

CASE(tiny_tiles, .grid = {2, 1, 1}, .arguments = {64, 64, 64}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel tiny(x: in *f32, y: out *f32, z: out *i32) @grid(2) " WARPS "{\n"
             "  let one = load(x + iota(1) + pid(0))\n"
             "  let s = reduce.add(one, 0)\n"
             "  let two = load(x + iota(2)[:, _] + zeros(i32[2, 1]))\n"
             "  let t = reduce.max(two, 1)\n"
             "  let u = scan.add(two, 1) + reduce.add(t, 0)\n"
             "  store(y + (iota(2)[:, _] + 2 * pid(0)), u + s)\n"
             "  let p = dot(two, trans(two), zeros(f32[2, 2]))\n"
             "  store(y + (iota(2)[:, _] * 2 + iota(2)[_, :] + 8), p)\n"
             "  store(z + iota(1), scan.max(iota(1), 0) + 3)\n"
             "  store(z + 5, reduce.add(reshape(join(iota(4), iota(4) + 1), [8]), 0))\n"
             "}\n")

CASE(scalars, .grid = {3, 2, 1}, .arguments = {64, 64, 5},
     .text = "kiln 1\n"
             "kernel scalars(x: in *i32, y: inout *i32, n: i32) @grid(3, 2) " WARPS "{\n"
             "  let at = pid(0) + npid(0) * pid(1)\n"
             "  let v = load(x + at, at < n, 9)\n"
             "  let w = load(y + at + 20, volatile = true)\n"
             "  var best = v\n"
             "  var i = 0\n"
             "  while i < 3 & best > -50 {\n"
             "    best = min(best, load(x + at * 3 + i))\n"
             "    i = i + 1\n"
             "  }\n"
             "  store(y + at, best * 3 + w + i, at != 2)\n"
             "}\n")
