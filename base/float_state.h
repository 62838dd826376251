// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floating-point environment that programs run in: to nearest, denormals kept, no exception unmasked. A
// thread of an application may have another; what it had is restored after, its exception flags too.
//
// kiln_float_enter and kiln_float_leave are for code that computes in vector registers, as host kernels do,
// and cost some nanoseconds. kiln_float_enter_all and kiln_float_leave_all are for code that calls libm and
// printf: on x86-64 these look at the control word of x87.
#ifndef KILN_BASE_FLOAT_STATE_H
#define KILN_BASE_FLOAT_STATE_H

#include <stdint.h>

typedef struct kiln_float_state {
  uint64_t control, status; ///< x86-64: MXCSR, which is both, in `control`
} kiln_float_state;

#if defined(__x86_64__)
static inline kiln_float_state kiln_float_enter(void) {
  enum { DEFAULT = 0x1f80 }; // all exceptions masked
  const uint32_t now = DEFAULT;
  uint32_t was;
  __asm__ volatile("stmxcsr %0" : "=m"(was));
  if (was != now) __asm__ volatile("ldmxcsr %0" : : "m"(now) : "memory");
  return (kiln_float_state){was, 0};
}
/// Raises no exception, whatever flags and masks it restores.
static inline void kiln_float_leave(kiln_float_state was) {
  const uint32_t word = (uint32_t)was.control;
  __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory");
}
#elif defined(__aarch64__)
static inline kiln_float_state kiln_float_enter(void) {
  kiln_float_state was;
  __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(was.control), "=r"(was.status));
  if (was.control) __asm__ volatile("msr fpcr, %0\n\tisb" : : "r"((uint64_t)0) : "memory");
  return was;
}
static inline void kiln_float_leave(kiln_float_state was) {
  __asm__ volatile("msr fpsr, %0" : : "r"(was.status) : "memory");
  if (was.control) __asm__ volatile("msr fpcr, %0\n\tisb" : : "r"(was.control) : "memory");
}
#else
#error "Kiln knows the floating-point control registers of x86-64 and aarch64"
#endif

typedef struct kiln_float_all {
  kiln_float_state state;
  uint32_t x87[7]; ///< x86-64: its control, status and tag words, and what it did last
} kiln_float_all;

static inline kiln_float_all kiln_float_enter_all(void) {
  kiln_float_all was = {.state = kiln_float_enter()};
#if defined(__x86_64__)
  __asm__ volatile("fnstenv %0\n\tfninit" : "=m"(was.x87) : : "memory");
#endif
  return was;
}
static inline void kiln_float_leave_all(const kiln_float_all *was) {
#if defined(__x86_64__)
  __asm__ volatile("fldenv %0" : : "m"(was->x87) : "memory");
#endif
  kiln_float_leave(was->state);
}

#endif
