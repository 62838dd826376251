// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shapes that `kiln tune` measures: a text, each line with a kernel and its arguments in the form of
// `kiln run`.
//
//   softmax[T=f32] rows={128,4096} cols={256,1024} ldx=cols ldy=cols x=random:rows*ldx y=zeros:rows*ldy
//
// {a,b} stands for each of the values, several braces for all combinations. A number may also be a sum of
// products of numbers and integer arguments. Empty lines and lines that begin with # are skipped.
#ifndef KILN_TOOLS_TUNE_SHAPES_H
#define KILN_TOOLS_TUNE_SHAPES_H

#include "base/arena.h"
#include "base/status.h"
#include "base/tuned.h"

enum { TUNE_MOST_SHAPES = 1 << 14, TUNE_MOST_ARGUMENTS = 256 };

typedef struct tune_shape {
  const char *kernel;
  const char **arguments; ///< "x=random:4096", without names and braces
  uint32_t argument_count, line;
} tune_shape;

/// Shapes live in `arena`. SOURCE, with the place of the error.
kiln_status tune_shapes_read(kiln_arena *arena, const char *file, const char *text, size_t size,
                             tune_shape **out, uint32_t *out_count, kiln_tuned_place *out_place,
                             kiln_error *err);

#endif
