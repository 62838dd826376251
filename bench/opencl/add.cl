// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kernels/elementwise.kiln, add[T=f32], by hand: 8 elements a work-item.
#include "ids.h"
kernel __attribute__((reqd_work_group_size(128, 1, 1))) void add(global const float *restrict x, global const float *restrict y, global float *restrict z, int n) {
  int base = GROUP_X * 1024 + LOCAL_ID;
  for (int k = 0; k < 8; k++) {
    int i = base + k * 128;
    if (i < n) z[i] = x[i] + y[i];
  }
}
