// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares host code with the reference interpreter: products, and whole kernels.
#include "tests/codegen/host_check.h"

TEST(host_kernels, products) { check(KERNEL("products"), 0, 1); }

TEST(host_kernels, products_of_carried_tiles) { check(KERNEL("products_of_carried_tiles"), 3, 1); }

TEST(host_kernels, batched_products) { check(KERNEL("batched_products"), 0, 1); }

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

TEST(host_kernels, normalises_in_place) { check(KERNEL("normalises_in_place"), 300, 4); }

TEST(host_kernels, softmax) { check(KERNEL("softmax"), 777, 3); }
