// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests products of parts of tiles on a simulator of the GPU form (machine_sim.h).
#include "tests/compiler/machine_case.inc"

static const char corners[] =
    "kiln 1\n"
    "kernel k(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16),\n"
    "    M: i32 @div(8), N: i32 @div(8), K: i32 @div(8))\n"
    "  @grid(cdiv(M, 192), cdiv(N, 64)) @warps(%u) @stages(3)\n"
    "{\n"
    "  let A = view(a, [M, K], [K, 1], [256, 64])\n"
    "  let B = view(b, [N, K], [K, 1], [128, 64])\n"
    "  var acc = zeros(f32[256, 128])\n"
    "  for k in 0 .. K step 64 {\n"
    "    let x = load(A, [pid(0) * 192, k], first = 192, axis = 0)\n"
    "    let y = load(B, [pid(1) * 64, k], first = 64, axis = 0)\n"
    "    acc = dot(x, trans(y), acc)\n"
    "  }\n"
    "  %s\n"
    "}\n";

/// Of rows and of columns only the first count.
TEST(gpu_parts, along_both_axes) {
  static const char *const stores[] = {
      "let C = view(c, [M, N], [N, 1], [256, 128])\n"
      "  store(C, [pid(0) * 192, pid(1) * 64], acc as bf16, first = [192, 64])",
      "let C = view(c, [N, M], [M, 1], [128, 256])\n"
      "  store(C, [pid(1) * 64, pid(0) * 192], trans(acc as bf16), first = [64, 192])"};
  for (unsigned i = 0; i < 4; i++) // one group has all, or four of two blocks
    for (unsigned k = 0; k <= 144; k += 72) {
      const double m = 200, n = 136;
      char text[1200];
      snprintf(text, sizeof text, corners, i < 2 ? 4 : 16, stores[i % 2]);
      sim_case c = {.name = "corners",
                    .text = text,
                    .arguments = {m * k, n * k, m * n, m, n, k},
                    .grid = {2, 3, 1},
                    .schedules = 3};
      if (!check_case(&c, k + 1)) FAIL("corners do not take the GPU form");
    }
}

static const char layouts[] =
    "kiln 1\n"
    "kernel k(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16),\n"
    "    M: i32 @div(8), N: i32 @div(8), K: i32 @div(8))\n"
    "  @grid(cdiv(M, %u), cdiv(N, %u)) @warps(%u) @stages(3)\n"
    "{\n"
    "  let A = %s\n"
    "  let B = %s\n"
    "  let C = view(c, [M, N], [N, 1], [%u, %u])\n"
    "  let m = pid(0) * %u\n"
    "  let n = pid(1) * %u\n"
    "  var acc = zeros(f32[%u, %u])\n"
    "  for k in 0 .. K step 64 {\n"
    "    let x = %s\n"
    "    let y = %s\n"
    "    acc = dot(x, y, acc)\n"
    "  }\n"
    "  store(C, [m, n], acc as bf16, first = [%u, %u])\n"
    "}\n";

static unsigned power_above(unsigned n) { return 1u << (32 - __builtin_clz(n - 1)); }

/// The rows in memory of either operand have the reduced index, or the product's rows or columns, of which only the
/// first count; one block has all, or two or four share it, below each other or side by side.
TEST(gpu_parts, in_all_layouts) {
  static const unsigned forms[][3] = {{64, 192, 4},   {128, 192, 8},  {256, 192, 8},
                                      {256, 192, 16}, {128, 256, 16}, {512, 64, 32}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (unsigned layout = 0; layout < 4; layout++) {
      const unsigned rows = forms[i][0], columns = forms[i][1], m2 = power_above(rows),
                     n2 = power_above(columns);
      const double m = rows + 72, n = columns + 24, k = 64.0 * (1 + i % 2) + 8;
      char text[1600], left[80], right[80];
      snprintf(left, sizeof left,
               layout & 1 ? "view(a, [K, M], [M, 1], [64, %u])" : "view(a, [M, K], [K, 1], [%u, 64])", m2);
      snprintf(right, sizeof right,
               layout & 2 ? "view(b, [K, N], [N, 1], [64, %u])" : "view(b, [N, K], [K, 1], [%u, 64])", n2);
      char x[80], y[80];
      snprintf(x, sizeof x,
               layout & 1 ? "trans(load(A, [k, m], first = %u, axis = 1))"
                          : "load(A, [m, k], first = %u, axis = 0)",
               rows);
      snprintf(y, sizeof y,
               layout & 2 ? "load(B, [k, n], first = %u, axis = 1)"
                          : "trans(load(B, [n, k], first = %u, axis = 0))",
               columns);
      snprintf(text, sizeof text, layouts, rows, columns, forms[i][2], left, right, m2, n2, rows, columns, m2,
               n2, x, y, rows, columns);
      sim_case c = {.name = "layouts",
                    .text = text,
                    .arguments = {m * k, n * k, m * n, m, n, k},
                    .grid = {2, 2, 1},
                    .schedules = 2};
      if (!check_case(&c, i * 4 + layout + 1))
        FAIL("%u x %u by %u warps does not take the GPU form in layout %u", rows, columns, forms[i][2],
             layout);
    }
}
