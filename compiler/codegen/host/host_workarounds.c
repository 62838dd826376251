// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What LLVM would compile wrongly, written otherwise once its passes are done.
//
// With AVX-512 (LLVM 22) a masked store of one lane that is known becomes the store of a scalar, also where
// the store narrows its lanes: then the scalar has the width from before, and the bytes after the lane are
// overwritten. Such stores are made scalar here. Masks often become constants late, as loops are unrolled.
#include <string.h>

#include <llvm-c/Target.h>

#include "compiler/codegen/host/host.h"

/// The lane that is set, when all are known and no other is; else -1.
static int only_lane(LLVMValueRef mask) {
  int found = -1;
  if (!LLVMIsAConstant(mask)) return -1;
  for (unsigned i = 0, width = kiln_lanes_of(mask); i < width; i++) {
    LLVMValueRef lane = LLVMGetAggregateElement(mask, i);
    if (!lane || !LLVMIsAConstantInt(lane)) return -1;
    if (!LLVMConstIntGetZExtValue(lane)) continue;
    if (found >= 0) return -1;
    found = (int)i;
  }
  return found;
}

static bool is_masked_store(LLVMValueRef instruction) {
  static const char prefix[] = "llvm.masked.store.";
  size_t size;
  if (!LLVMIsACallInst(instruction)) return false;
  const char *name = LLVMGetValueName2(LLVMGetCalledValue(instruction), &size);
  return size >= sizeof prefix - 1 && !memcmp(name, prefix, sizeof prefix - 1);
}

/// Operands: value, pointer, [alignment, as LLVM before 22 has it,] mask.
static bool make_scalar(LLVMValueRef call, LLVMBuilderRef builder, LLVMTargetDataRef layout) {
  LLVMValueRef value = LLVMGetOperand(call, 0), pointer = LLVMGetOperand(call, 1);
  int lane = only_lane(LLVMGetOperand(call, LLVMGetNumArgOperands(call) - 1));
  if (lane < 0) return false;
  LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(value));
  LLVMTypeRef type = LLVMGetElementType(LLVMTypeOf(value));
  LLVMValueRef index = LLVMConstInt(LLVMInt64TypeInContext(context), (unsigned)lane, false);
  LLVMPositionBuilderBefore(builder, call);
  LLVMValueRef store = LLVMBuildStore(builder, LLVMBuildExtractElement(builder, value, index, ""),
                                      LLVMBuildInBoundsGEP2(builder, type, pointer, &index, 1, ""));
  LLVMSetAlignment(store, (unsigned)LLVMStoreSizeOfType(layout, type));
  return true;
}

void host_work_around(LLVMModuleRef module) {
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
  LLVMTargetDataRef layout = LLVMGetModuleDataLayout(module);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
      for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
        next = LLVMGetNextInstruction(i);
        if (is_masked_store(i) && make_scalar(i, builder, layout)) LLVMInstructionEraseFromParent(i);
      }
  LLVMDisposeBuilder(builder);
}
