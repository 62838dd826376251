// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kernels/norms.kiln, rms_norm[T=f32] with rows of up to 4096, by hand.
#include "ids.h"
#include "reduce.h"
kernel __attribute__((reqd_work_group_size(256, 1, 1))) void rms_norm(global const float *restrict x, global const float *restrict w, global float *restrict y, global float *restrict rstd, int rows, int cols, float eps) {
  local float s[256];
  float v[16], sum = 0;
  long row = GROUP_X;
  for (int k = 0; k < 16; k++) {
    int c = LOCAL_ID + k * 256;
    v[k] = c < cols ? x[row * cols + c] : 0;
    sum += v[k] * v[k];
  }
  float r = 1.0f / SQRT(reduce_add(s, sum) / cols + eps);
  for (int k = 0; k < 16; k++) {
    int c = LOCAL_ID + k * 256;
    if (c < cols) y[row * cols + c] = v[k] * r * w[c];
  }
  if (!LOCAL_ID) rstd[row] = r;
}
