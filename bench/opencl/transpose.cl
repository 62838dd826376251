// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kernels/transpose.kiln, transpose[T=f32], by hand: a padded 64 x 64 tile in local memory.
#include "ids.h"
kernel __attribute__((reqd_work_group_size(128, 1, 1))) void transpose(global const float *restrict x, global float *restrict y, int rows, int cols) {
  local float tile[64][65];
  int t = LOCAL_ID, r0 = GROUP_Y * 64, c0 = GROUP_X * 64;
  for (int k = 0; k < 32; k++) {
    int r = k * 2 + t / 64, c = t % 64;
    if (r0 + r < rows && c0 + c < cols) tile[r][c] = x[(long)(r0 + r) * cols + c0 + c];
  }
  BARRIER();
  for (int k = 0; k < 32; k++) {
    int c = k * 2 + t / 64, r = t % 64;
    if (r0 + r < rows && c0 + c < cols) y[(long)(c0 + c) * rows + r0 + r] = tile[r][c];
  }
}
