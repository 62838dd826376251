// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes rest on that the launch tests before it takes the code (docs/gpu.md, "What a launch tests").
#ifndef KILN_COMPILER_IR_LAUNCH_TESTS_H
#define KILN_COMPILER_IR_LAUNCH_TESTS_H

#include <stddef.h>
#include <stdint.h>

/// A launch expression (base/expr.h) that must not be 0.
typedef struct ir_condition {
  const uint8_t *code; ///< arena
  size_t size;
} ir_condition;

typedef struct ir_launch_tests {
  uint32_t programs[3];     ///< the most along each axis; 0: any. Set by the pass `grid`
  ir_condition *conditions; ///< set by the pass `recover`
  uint32_t condition_count, condition_capacity;
} ir_launch_tests;

#endif
