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
