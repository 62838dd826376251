// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Limits of a launch, and what its files share.
#ifndef KILN_RUNTIME_LAUNCH_H
#define KILN_RUNTIME_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bundle_format.h"

enum {
  KILN_MOST_PARAMS = 512,
  KILN_MOST_CODES = 1 << 16, ///< configs x variants of a kernel
  KILN_MOST_BLOCK = 4096,    ///< bytes of arguments: what CUDA takes
};

/// Errors, and what runs once a kernel or for people who ask: compiled for size, libkiln is small.
#define KILN_COLD __attribute__((cold))
#define KILN_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/// An argument of a block, sign-extended; i1 (`is_signed` false) is 0 or 1.
static inline int64_t kiln_read_integer(const uint8_t *at, uint8_t size, bool is_signed) {
  switch (size) {
  case 1: return is_signed ? (int8_t)*at : (*at != 0);
  case 2: return (int16_t)kiln_le16(at);
  case 4: return (int32_t)kiln_le32(at);
  default: return (int64_t)kiln_le64(at);
  }
}

#endif
