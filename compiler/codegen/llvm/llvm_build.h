// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Short forms over LLVM's C API that all lowerings use: attributes, metadata, intrinsics,
// inline assembly.
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

/// A call of inline assembly at the builder's place.
typedef enum kiln_llvm_asm_kind {
  KILN_ASM_PURE,     ///< what it gives follows from its arguments: it may go, move, or be made once for two
  KILN_ASM_EFFECTS,  ///< stays
  KILN_ASM_TOGETHER, ///< pure, but all threads of a warp run it together: it does not move into a branch
  KILN_ASM_EFFECTS_TOGETHER,
} kiln_llvm_asm_kind;
LLVMValueRef kiln_llvm_asm(LLVMBuilderRef builder, kiln_llvm_asm_kind kind, const char *text,
                           const char *constraints, LLVMTypeRef result, LLVMValueRef *arguments,
                           unsigned count);

#endif
