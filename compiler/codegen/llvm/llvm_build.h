// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Short forms over LLVM's C API that all lowerings use: attributes, metadata, intrinsics.
#ifndef KILN_COMPILER_CODEGEN_LLVM_BUILD_H
#define KILN_COMPILER_CODEGEN_LLVM_BUILD_H

#include <llvm-c/Core.h>

/// An attribute of a function or of one call: of itself ("nounwind"), or of its parameter `index` - 1; with a
/// value where it has one. An attribute that this LLVM does not know is left out.
enum { KILN_LLVM_ITSELF = -1 };
void kiln_llvm_attribute(LLVMValueRef of, int index, const char *name, uint64_t value);
/// A text attribute of the function.
void kiln_llvm_mark(LLVMValueRef function, const char *name, const char *value);
/// Metadata of an instruction ("invariant.load"); NULL: an empty node.
void kiln_llvm_note(LLVMValueRef instruction, const char *kind, LLVMMetadataRef node);
/// A call of an intrinsic at the builder's place, overloaded over `types`. NULL when this LLVM has none of
/// that name. What LLVM would compute of constants by the libm that it runs with is left to the machine that
/// the code is for.
LLVMValueRef kiln_llvm_intrinsic(LLVMBuilderRef builder, LLVMModuleRef module, const char *name,
                                 LLVMTypeRef *types, unsigned type_count, const LLVMValueRef *arguments,
                                 unsigned count);

#endif
