// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Assembly that an assembler refuses: from the line it complains of back to the `asm` of the source.
#ifndef KILN_COMPILER_CODEGEN_BLAME_H
#define KILN_COMPILER_CODEGEN_BLAME_H

#include "base/status.h"
#include "compiler/ir/ir.h"

/// `status` and `err` are those of a step that failed: INTERNAL where an assembler refused what it was given.
/// When the line it quotes (LLVM), or names by its number in `emitted` (the text of `size` bytes that an
/// assembler of the vendor's read; NULL: none did), stands in an `asm` of the kernel, the source is at fault:
/// SOURCE, and the operation is named. An assembler may notice a fault after the line that has it, so a line
/// that is none of the kernel's own assembly is blamed on the first `asm`; a kernel without any is Kiln's.
kiln_status kiln_blame_assembly(ir_kernel *kernel, const char *emitted, size_t size, kiln_status status,
                                kiln_error *err);

#endif
