// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Masks that end rows of a fetch (fetch_mask.c).
#ifndef KILN_COMPILER_PASSES_GPU_FETCH_MASK_H
#define KILN_COMPILER_PASSES_GPU_FETCH_MASK_H

#include "compiler/analysis/facts.h"
#include "compiler/passes/gpu/pipeline.h"

/// Whether the mask can be taken apart for pieces along that axis of the tile.
bool kiln_can_split_mask(kiln_facts *facts, const ir_value *mask, unsigned axis);

typedef struct kiln_mask_parts {
  ir_value *mask; ///< the same all along a piece
  ir_value *left; ///< elements from each on that are there; NULL: the mask says it all
} kiln_mask_parts;

/// The parts as they are in that iteration, at the builder's place; none where the loop does not come to it.
kiln_mask_parts kiln_split_mask(kiln_pipeline *a, kiln_facts *facts, ir_value *mask, unsigned axis,
                                kiln_iteration when);

#endif
