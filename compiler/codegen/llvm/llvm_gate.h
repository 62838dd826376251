// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KILN_COMPILER_CODEGEN_LLVM_GATE_H
#define KILN_COMPILER_CODEGEN_LLVM_GATE_H

#include <llvm-c/Types.h>
#include <stdbool.h>

#include "base/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Addresses in loops of this context's modules stay as the lowering made them. LLVM's loop strength
/// reduction gives each of many accesses a counter of its own, in a time that grows with the square of their
/// number, and an assembler that reads the text does the same once more.
void kiln_llvm_keep_addresses(LLVMContextRef context);

/// The text of a module with the order of each value's uses, which passes go by: reading it gives the same code.
void kiln_llvm_print_whole(LLVMModuleRef module, kiln_buffer *out);

/// Sets a flag of LLVM's command line, a `cl::opt<bool>`, for good: true is its default from now on. lld, which runs in
/// this process, gives every option its default when it starts (`cl::ResetAllOptionOccurrences` in lld's
/// ELF driver), so that what was only parsed would hold until the first link. False: there is none of this name.
bool kiln_llvm_set_flag(const char *name);

#ifdef __cplusplus
}
#endif
#endif
