// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kernels/elementwise.kiln, gelu[T=f32], by hand; erf by a rational approximation as no device library is linked.
#include "ids.h"
static float erf_of(float x) {
  float a = __builtin_fabsf(x), t = 1.0f / (1.0f + 0.3275911f * a);
  float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  float r = 1.0f - p * EXP2(-a * a * 1.44269504f);
  return x < 0 ? -r : r;
}
kernel __attribute__((reqd_work_group_size(128, 1, 1))) void gelu(global const float *restrict x, global float *restrict y, int n) {
  int base = GROUP_X * 1024 + LOCAL_ID;
  for (int k = 0; k < 8; k++) {
    int i = base + k * 128;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + erf_of(x[i] * 0.70710678f));
  }
}
