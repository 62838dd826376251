// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floating-point environment of a thread as tests draw it. They set it around the call that is tested
// only.
#ifndef KILN_TESTS_FLOAT_CONTROL_H
#define KILN_TESTS_FLOAT_CONTROL_H

#include "tests/harness.h"

/// What the thread has, as one word: MXCSR and the control word of x87, or FPSR and FPCR.
#if defined(__x86_64__)
static inline uint64_t control(void) {
  uint32_t vector;
  uint16_t x87;
  __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(vector), "=m"(x87));
  return (uint64_t)x87 << 32 | vector;
}
static inline void set_control(uint64_t value) {
  uint32_t vector = (uint32_t)value;
  uint16_t x87 = (uint16_t)(value >> 32);
  __asm__ volatile("fldcw %1\n\tldmxcsr %0" : : "m"(vector), "m"(x87) : "memory");
}
static inline uint64_t drawn(uint64_t *random) {
  uint64_t r = kiln_test_random(random);
  return (r >> 20 & 0xffff) | (0x40 | (r >> 40 & 0xf3f)) << 32; // all bits there are
}
#else
static inline uint64_t control(void) {
  uint64_t mode, flags;
  __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(mode), "=r"(flags));
  return mode << 32 | flags;
}
static inline void set_control(uint64_t value) {
  __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(value >> 32), "r"(value & 0xffffffff) : "memory");
}
static inline uint64_t drawn(uint64_t *random) { // FZ, rounding, flags; traps are optional there
  uint64_t r = kiln_test_random(random) >> 20;
  set_control((r & 0x01c00000) << 32 | (r & 0x9f));
  uint64_t got = control();
  set_control(0);
  return got;
}
#endif

#endif
