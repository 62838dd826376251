// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares host code with the reference interpreter: products, and whole kernels.
#include "tests/codegen/host_check.h"

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
