// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests batched matrix products on the simulator of the GPU form (machine_sim.h).
#include "tests/compiler/machine_case.inc"

static const char batch[] =
    "kiln 1\n"
    "kernel k(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16),\n"
    "    Z: i32, M: i32, N: i32 @div(8), K: i32 @div(8))\n"
    "  @grid(cdiv(M, 64), cdiv(N, 64), Z) @warps(4) @stages(3)\n"
    "{\n"
    "  let A = view(a, [Z, M, K], [M * K, K, 1], [1, 64, 32])\n"
    "  let B = view(b, [N, K], [K, 1], [64, 32])\n"
    "  var acc = zeros(f32[64, 64])\n"
    "  for k in 0 .. K step 32 {\n"
    "    let x = reshape(load(A, [pid(2), pid(0) * 64, k]), [64, 32])\n"
    "    acc = dot(x, trans(load(B, [pid(1) * 64, k])), acc)\n"
    "  }\n"
    "  let C = view(c, [Z, M, N], [M * N, N, 1], [1, 64, 64])\n"
    "  store(C, [pid(2), pid(0) * 64, pid(1) * 64], reshape(acc, [1, 64, 64]) as bf16)\n"
    "}\n";

/// Tiles of one matrix of a tensor of three axes, which have an axis of one element.
TEST(gpu_machine, matrices_of_a_batch) {
  for (unsigned k = 0; k <= 200; k += 100) {
    const double z = 3, m = 70, n = 72, row = k / 8 * 8;
    sim_case c = {.name = "batch",
                  .text = batch,
                  .arguments = {z * m * row, n * row, z * m * n, z, m, n, row},
                  .grid = {2, 2, 3},
                  .schedules = 5};
    if (!check_case(&c, k + 1)) FAIL("matrices of a batch do not take the GPU form");
  }
}
