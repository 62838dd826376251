// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on floats of all types.
#ifndef KILN_TOOLS_PTX_FLOAT_H
#define KILN_TOOLS_PTX_FLOAT_H

#include "tools/ptx/handlers.h"

typedef enum ptx_float_code {
  FLOAT_ADD,
  FLOAT_SUB,
  FLOAT_MUL,
  FLOAT_FMA,
  FLOAT_DIV,
  FLOAT_MIN,
  FLOAT_MAX,
  FLOAT_ABS,
  FLOAT_NEG
} ptx_float_code;

/// One operation of an instruction with its rounding, .ftz, .sat, on both halves of pairs.
uint64_t ptx_float_operation(const ptx_instruction *i, ptx_float_code code, const uint64_t *s);
bool ptx_float_compare(ptx_type type, ptx_compare how, uint64_t a, uint64_t b, bool ftz);
bool ptx_compare_values(ptx_type type, ptx_compare how, uint64_t a, uint64_t b, bool ftz);

#endif
