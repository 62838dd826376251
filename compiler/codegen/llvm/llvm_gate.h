// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KILN_COMPILER_CODEGEN_LLVM_GATE_H
#define KILN_COMPILER_CODEGEN_LLVM_GATE_H

#include <llvm-c/Types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Addresses in loops of this context's modules stay as the lowering made them. LLVM's loop strength
/// reduction gives each of many accesses a counter of its own, in a time that grows with the square of their
/// number, and an assembler that reads the text does the same once more.
void kiln_llvm_keep_addresses(LLVMContextRef context);

#ifdef __cplusplus
}
#endif
#endif
