// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tree over local memory: what a reduction of a row by 256 work-items takes when written by hand.
static float reduce_add(local float *s, float v) {
  int t = LOCAL_ID;
  s[t] = v;
  BARRIER();
  for (int k = 128; k; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    BARRIER();
  }
  float r = s[0];
  BARRIER();
  return r;
}
static float reduce_max(local float *s, float v) {
  int t = LOCAL_ID;
  s[t] = v;
  BARRIER();
  for (int k = 128; k; k >>= 1) {
    if (t < k) s[t] = s[t] > s[t + k] ? s[t] : s[t + k];
    BARRIER();
  }
  float r = s[0];
  BARRIER();
  return r;
}
