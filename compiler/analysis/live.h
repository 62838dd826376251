// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel has to keep: a number below that of registers which any code of it needs.
#ifndef KILN_COMPILER_ANALYSIS_LIVE_H
#define KILN_COMPILER_ANALYSIS_LIVE_H

#include "compiler/ir/ir.h"

/// Bytes of the floating-point tiles of a program that are needed again after a reduction, or that a loop
/// carries, where they are most at a time. Between such places operations can be done element by element,
/// there they cannot. All threads together. Numbers the kernel.
uint64_t kiln_live_bytes(kiln_arena *arena, ir_kernel *kernel);

#endif
