// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of layouts as notes in a kernel's text.
#ifndef KILN_COMPILER_PASSES_GPU_LAYOUTS_TEXT_H
#define KILN_COMPILER_PASSES_GPU_LAYOUTS_TEXT_H

#include "compiler/ir/text.h"
#include "compiler/passes/gpu/layouts/layouts.h"

/// Prints and reads them. A kernel that is read so needs kiln_layouts_text_open where it has layouts.
extern const ir_text_notes kiln_layouts_text;

/// Sets what follows from the machine. False where a block has more warps than the machine can hold.
bool kiln_layouts_text_open(ir_kernel *kernel, const kiln_fetch_machine *machine);

#endif
