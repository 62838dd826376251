// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of matrices, for mma and wgmma.
#ifndef KILN_TOOLS_PTX_MATRIX_H
#define KILN_TOOLS_PTX_MATRIX_H

#include "tools/ptx/handlers.h"

enum { PTX_MOST_K = 64 };

typedef struct ptx_factor {
  double real;   ///< floats
  int64_t whole; ///< integers
  bool is_defined;
} ptx_factor;

ptx_factor ptx_factor_of(ptx_type type, uint64_t bits, bool is_defined);
/// The elements of a factor from the registers of a warp: rows of A, or columns of B, by k.
void ptx_read_factor(ptx_exec *x, const ptx_operand *o, ptx_type type, bool is_a,
                     ptx_factor (*out)[PTX_MOST_K]);
/// The k-th element of an accumulator that a lane holds.
ptx_factor ptx_read_sum(ptx_exec *x, const ptx_operand *o, ptx_type type, uint32_t lane, uint32_t k);
/// c and the products of a and b along k, rounded once to the type of the result.
uint64_t ptx_sum_of(const ptx_instruction *i, const ptx_factor *a, const ptx_factor *b, const ptx_factor *c,
                    bool *out_defined);

#endif
