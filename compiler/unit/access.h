// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks what accesses of a kernel may do, in either language.
#ifndef KILN_COMPILER_UNIT_ACCESS_H
#define KILN_COMPILER_UNIT_ACCESS_H

#include "compiler/front.h"

/// Reports accesses that the mode of their parameter excludes, and stores to views that have several elements
/// at one address. `kernel` is canonical.
void kiln_check_access(ir_kernel *kernel, const char *file, kiln_diagnostics *d);

#endif
