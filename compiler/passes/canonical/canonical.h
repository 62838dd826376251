// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The canonical form of a kernel. Its passes are the ROUND rows of passes.def.
#ifndef KILN_COMPILER_PASSES_CANONICAL_CANONICAL_H
#define KILN_COMPILER_PASSES_CANONICAL_CANONICAL_H

#include "compiler/ir/ir.h"

/// Brings a kernel into canonical form in place. Idempotent.
void kiln_canonicalise(ir_kernel *kernel);

#endif
