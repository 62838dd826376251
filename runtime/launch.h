// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Limits of a launch, and the parts of it that others want: prepared launches, reasons, scratch memory.
#ifndef KILN_RUNTIME_LAUNCH_H
#define KILN_RUNTIME_LAUNCH_H

#include "runtime/device/device.h"

enum {
  KILN_MOST_PARAMS = 512,
  KILN_MOST_CODES = 1 << 16, ///< configs x variants of a kernel
  KILN_MOST_BLOCK = 4096,    ///< bytes of arguments: what CUDA takes
};

/// Errors, and what runs once a kernel or for people who ask: compiled for size, libkiln is small.
#define KILN_COLD __attribute__((cold))
#define KILN_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/// Decides about the arguments in a block: whether the promised facts hold, which code runs and with which grid, which
/// are filled in. `grid`: the caller's; NULL: the kernel's own expressions.
kiln_status kiln_decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                        kiln_launch_call *out, kiln_error *err);

/// What is weighed: arguments, and the values of those that expressions in general form read.
typedef struct kiln_weighing {
  const kiln_kernel *kernel;
  const uint8_t *block;
  const int64_t *values;
} kiln_weighing;
/// The code of a config for these arguments, or NULL.
const kiln_code *kiln_try_config(const kiln_weighing *w, uint32_t config);
/// Reads the values that expressions in general form use; the other values stay unset.
void kiln_read_values(const kiln_kernel *k, const uint8_t *block, int64_t *values);

/// What is known of a launch of `code` with that grid. choose.c
void kiln_choice_of(const kiln_code *code, const uint32_t *grid, kiln_choice *out);

#endif
