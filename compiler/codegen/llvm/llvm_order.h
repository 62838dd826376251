// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of instructions in very long blocks.
#ifndef KILN_COMPILER_CODEGEN_LLVM_ORDER_H
#define KILN_COMPILER_CODEGEN_LLVM_ORDER_H

#include <llvm-c/Core.h>

/// Computes addresses, offsets and masks where they are needed, in blocks of thousands of instructions. A
/// tile of many registers a thread is lowered operation by operation, so that all offsets stand before the
/// first access; NVIDIA's assembler keeps that order and takes minutes for the registers that it lacks.
/// Other values stay where they are, and so does whatever reads or writes memory.
void kiln_llvm_order(LLVMModuleRef module);

#endif
