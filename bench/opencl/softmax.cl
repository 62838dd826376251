// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kernels/softmax.kiln, softmax[T=f32] with rows of up to 4096, by hand: 16 elements a work-item in registers.
#include "ids.h"
#include "reduce.h"
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void softmax(global const float *restrict x, global float *restrict y, int rows, int cols, int ldx, int ldy) {
  local float s[256];
  float v[16], top = -INFINITY, sum = 0;
  long row = GROUP_X;
  for (int k = 0; k < 16; k++) {
    int c = LOCAL_ID + k * 256;
    v[k] = c < cols ? x[row * ldx + c] : -INFINITY;
    top = top > v[k] ? top : v[k];
  }
  top = reduce_max(s, top);
  for (int k = 0; k < 16; k++) sum += v[k] = EXP2((v[k] - top) * 1.44269504f);
  sum = reduce_add(s, sum);
  for (int k = 0; k < 16; k++) {
    int c = LOCAL_ID + k * 256;
    if (c < cols) y[row * ldy + c] = v[k] / sum;
  }
}
