// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/codegen/llvm/llvm_build.h"

#include <string.h>

void kiln_llvm_attribute(LLVMValueRef of, int index, const char *name, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  if (!kind) return;
  LLVMAttributeRef a = LLVMCreateEnumAttribute(LLVMGetTypeContext(LLVMTypeOf(of)), kind, value);
  if (LLVMIsACallInst(of)) LLVMAddCallSiteAttribute(of, (LLVMAttributeIndex)index, a);
  else LLVMAddAttributeAtIndex(of, (LLVMAttributeIndex)index, a);
}

void kiln_llvm_mark(LLVMValueRef function, const char *name, const char *value) {
  LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(function));
  LLVMAddAttributeAtIndex(
      function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(context, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

void kiln_llvm_note(LLVMValueRef instruction, const char *kind, LLVMMetadataRef node) {
  LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(instruction));
  if (!node) node = LLVMMDNodeInContext2(context, NULL, 0);
  LLVMSetMetadata(instruction, LLVMGetMDKindIDInContext(context, kind, (unsigned)strlen(kind)),
                  LLVMMetadataAsValue(context, node));
}

LLVMValueRef kiln_llvm_intrinsic(LLVMBuilderRef builder, LLVMModuleRef module, const char *name,
                                 LLVMTypeRef *types, unsigned type_count, const LLVMValueRef *arguments,
                                 unsigned count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) return NULL;
  LLVMValueRef callee = LLVMGetIntrinsicDeclaration(module, id, types, type_count);
  return LLVMBuildCall2(builder, LLVMGlobalGetValueType(callee), callee, (LLVMValueRef *)arguments, count,
                        "");
}
