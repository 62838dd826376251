// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sets attributes and metadata and calls intrinsics and assembly through the C interface of LLVM.
#include "compiler/codegen/llvm/llvm_build.h"

#include <stdbool.h>
#include <stdlib.h>
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

/// Of constants LLVM computes these itself, by the libm that it runs with, whose last bits differ by library
/// and processor; calls that are no "builtin" it leaves to the machine that the code is for.
static bool is_of_libm(const char *name) {
  static const char *const names[] = {"sqrt", "exp",  "exp2", "exp10", "log",  "log2", "log10",
                                      "sin",  "cos",  "tan",  "asin",  "acos", "atan", "atan2",
                                      "sinh", "cosh", "tanh", "pow",   "powi"};
  static const char ours[] = "llvm.";
  if (strncmp(name, ours, sizeof ours - 1)) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name + sizeof ours - 1, names[i])) return true;
  return false;
}

LLVMValueRef kiln_llvm_intrinsic(LLVMBuilderRef builder, LLVMModuleRef module, const char *name,
                                 LLVMTypeRef *types, unsigned type_count, const LLVMValueRef *arguments,
                                 unsigned count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) return NULL;
  LLVMValueRef callee = LLVMGetIntrinsicDeclaration(module, id, types, type_count);
  LLVMValueRef call =
      LLVMBuildCall2(builder, LLVMGlobalGetValueType(callee), callee, (LLVMValueRef *)arguments, count, "");
  if (is_of_libm(name)) kiln_llvm_attribute(call, KILN_LLVM_ITSELF, "nobuiltin", 0);
  return call;
}

LLVMValueRef kiln_llvm_asm(LLVMBuilderRef builder, kiln_llvm_asm_kind kind, const char *text,
                           const char *constraints, LLVMTypeRef result, LLVMValueRef *arguments,
                           unsigned count) {
  const bool has_effects = kind == KILN_ASM_EFFECTS || kind == KILN_ASM_EFFECTS_TOGETHER;
  LLVMTypeRef *types = malloc((count + 1) * sizeof *types);
  if (!types) abort();
  for (unsigned i = 0; i < count; i++) types[i] = LLVMTypeOf(arguments[i]);
  LLVMTypeRef type = LLVMFunctionType(result, types, count, false);
  free(types);
  LLVMValueRef assembly =
      LLVMGetInlineAsm(type, (char *)text, strlen(text), (char *)constraints, strlen(constraints),
                       has_effects, false, LLVMInlineAsmDialectATT, false);
  LLVMValueRef call = LLVMBuildCall2(builder, type, assembly, arguments, count, "");
  if (kind >= KILN_ASM_TOGETHER) kiln_llvm_attribute(call, KILN_LLVM_ITSELF, "convergent", 0);
  return call;
}
