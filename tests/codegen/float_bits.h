// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Floats by their bits, and back: f of 32 bits, d64 of 64, h of 16, bf of bfloat.
#ifndef KILN_TESTS_FLOAT_BITS_H
#define KILN_TESTS_FLOAT_BITS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float f(uint64_t bits) {
  uint32_t u = (uint32_t)bits;
  float x;
  memcpy(&x, &u, 4);
  return x;
}
static inline double d64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}
static inline uint64_t of_f(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
static inline uint64_t of_d(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}
static inline float h(uint64_t bits) {
  uint16_t u = (uint16_t)bits;
  _Float16 x;
  memcpy(&x, &u, 2);
  return (float)x;
}
static inline uint64_t of_h(float x) {
  _Float16 y = (_Float16)x;
  uint16_t u;
  memcpy(&u, &y, 2);
  return u;
}
static inline float bf(uint64_t bits) { return f((bits & 0xffff) << 16); }
static inline uint64_t of_bf(float x) {
  uint64_t u = of_f(x);
  return isnan(x) ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16 & 0xffff;
}

#endif
