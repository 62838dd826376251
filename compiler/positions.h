// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the operations of a kernel stand in its source; the canonical form has no places. The
// front end writes it when line information is wanted; the code generator makes line tables of it. Operations
// are named by their numbers in the canonical form. Files are named without their folders, so that the bytes
// are the same wherever the source lies.
#ifndef KILN_COMPILER_POSITIONS_H
#define KILN_COMPILER_POSITIONS_H

#include "base/buffer.h"
#include "compiler/front.h"

typedef struct kiln_position {
  uint32_t file;         ///< in kiln_positions.files
  uint32_t line, column; ///< from 1; line 0: the operation has no place
} kiln_position;

typedef struct kiln_positions {
  const char **files; ///< at least one when there are items
  kiln_position *items;
  uint32_t file_count, count;
} kiln_positions;

/// The positions of a kernel that kiln_unit_lower made from `file`, appended to `out`. What a Triton IR file
/// says of its Python sources counts more than the file itself.
void kiln_positions_encode(const kiln_unit *unit, const char *file, ir_kernel *kernel, kiln_buffer *out);

/// Texts are borrowed from `bytes`, arrays from the arena. No bytes: no positions. False when damaged.
bool kiln_positions_decode(kiln_arena *arena, const uint8_t *bytes, size_t size, kiln_positions *out);

#endif
