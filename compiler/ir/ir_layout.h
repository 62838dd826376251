// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the elements of a tile are spread over registers, lanes and warps, for values that have a place of
// their own; what is computed with it is layout/layout.h.
#ifndef KILN_COMPILER_IR_LAYOUT_H
#define KILN_COMPILER_IR_LAYOUT_H

#include <stdint.h>

enum { LAYOUT_MAX_BITS = 20, LAYOUT_MAX_PLACES = 32 };

typedef struct kiln_layout {
  uint8_t bits;                      ///< log2 of the elements
  uint8_t registers, lanes, warps;   ///< machine bits of each kind; at most LAYOUT_MAX_PLACES together
  uint32_t basis[LAYOUT_MAX_PLACES]; ///< registers, then lanes, then warps; unused entries are zero
} kiln_layout;

#endif
