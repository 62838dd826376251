// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Line tables: which instruction comes from which line of the source. Instructions get the place of the
// operation that is being lowered; LLVM carries it to DWARF, or to .loc in PTX. All functions take NULL: no
// line information is wanted.
#ifndef KILN_COMPILER_CODEGEN_LLVM_LINES_H
#define KILN_COMPILER_CODEGEN_LLVM_LINES_H

#include <llvm-c/Core.h>

#include "compiler/ir/ir.h"
#include "compiler/positions.h"

typedef struct kiln_llvm_lines kiln_llvm_lines;

/// For one function of a module. `is_text`: an assembler of another maker reads the code, so places stand in
/// its text and no DWARF of ours goes with it. `positions` is borrowed. NULL without memory, or with no
/// position.
kiln_llvm_lines *kiln_llvm_lines_create(LLVMModuleRef module, const kiln_positions *positions, bool is_text);

/// `function` is the one; its operations come next.
void kiln_llvm_lines_begin(kiln_llvm_lines *lines, LLVMValueRef function);
/// What `builder` makes from here on is of `op`; one without a place is of the one before. Returns what to
/// give back to kiln_llvm_lines_back afterwards.
LLVMMetadataRef kiln_llvm_lines_at(kiln_llvm_lines *lines, LLVMBuilderRef builder, const ir_op *op);
void kiln_llvm_lines_back(kiln_llvm_lines *lines, LLVMBuilderRef builder, LLVMMetadataRef before);
/// After the last operation, before the module is verified: completes the tables and frees `lines`.
void kiln_llvm_lines_end(kiln_llvm_lines *lines);

#endif
