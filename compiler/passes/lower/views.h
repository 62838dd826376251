// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the passes over views share.
#ifndef KILN_COMPILER_PASSES_LOWER_VIEWS_H
#define KILN_COMPILER_PASSES_LOWER_VIEWS_H

#include "compiler/ir/ir.h"

/// Views carried by loops or yielded by branches become their parts: base, extents and strides.
kiln_status kiln_split_views(ir_kernel *kernel, kiln_error *err);

#endif
