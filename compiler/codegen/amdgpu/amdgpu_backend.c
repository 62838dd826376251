// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMDGPU as a back end: code objects, and what they say of themselves.
#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen/amdgpu/amdgpu.h"
#include "compiler/codegen/backend.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/llvm/llvm_build.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "compiler/passes/gpu/gpu.h"

// What the linked code object says, which is what the loader will see, rules over what the lowering planned.
static kiln_status read_back(kiln_finishing *f, kiln_error *err) {
  kiln_code_info *info = f->info;
  kiln_amdgpu_facts facts;
  KILN_TRY(kiln_amdgpu_read_facts(f->code->bytes, f->code->size, f->symbol, &facts, err));
  KILN_TRY(kiln_finish_check_amdgpu(f->code->bytes, f->code->size, f->symbol, &facts, err));
  uint32_t limit = f->target->processor->shared_bytes;
  if (facts.lds_bytes + info->dynamic_shared > limit)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%s needs %u bytes of shared memory, %s has %u", f->symbol,
                     facts.lds_bytes + info->dynamic_shared, f->target->processor->name, limit);
  info->shared_bytes = facts.lds_bytes + info->dynamic_shared;
  info->registers = facts.vgprs, info->scalar_registers = facts.sgprs;
  info->spill_bytes = 4 * (facts.vgpr_spills + facts.sgpr_spills);
  f->spills = facts.vgpr_spills; // scalars go to lanes of a vector register
  info->wave = facts.wave;
  return KILN_OK;
}

static kiln_status finish(kiln_finishing *f, kiln_error *err) {
  KILN_TRY(kiln_finish_object(f, err));
  return read_back(f, err);
}

// The metadata at the end of the text.
static uint32_t spills_in(const kiln_buffer *text, const char *key) {
  const char *at = memmem(text->bytes, text->size, key, strlen(key));
  return at ? (uint32_t)strtoul(at + strlen(key), NULL, 10) : 0;
}

static kiln_status finish_text(kiln_finishing *f, kiln_error *err) {
  kiln_buffer *text = f->object;
  (void)err;
  kiln_buffer_u8(text, 0); // an end for what is read in it
  text->size -= !text->failed;
  f->spills = spills_in(text, ".vgpr_spill_count:");
  f->info->spill_bytes = 4 * (f->spills + spills_in(text, ".sgpr_spill_count:"));
  kiln_buffer_deinit(f->code);
  *f->code = *text;
  *text = (kiln_buffer){0};
  return KILN_OK;
}

// ---------------------------------------------------------------------------------------- registers

// When a kernel may have
// all of it, LLVM (19 and 22) moves accumulators in and out of the upper half around matrix instructions;
// held to 256 it does not.
static void keep_accumulators_near(LLVMValueRef function) {
#if LLVM_VERSION_MAJOR < 21
  kiln_llvm_mark(function, "amdgpu-no-agpr", "");
#else
  kiln_llvm_mark(function, "amdgpu-agpr-alloc", "0");
#endif
  kiln_llvm_mark(function, "amdgpu-waves-per-eu", "2");
}

// ------------------------------------------------------------------------------------- LLVM's negation

/// 0.0 in a scalar register, in a way that LLVM does not see.
static LLVMValueRef hide_zero(LLVMBuilderRef b, LLVMTypeRef type) {
  LLVMContextRef context = LLVMGetTypeContext(type);
  LLVMTypeRef word = LLVMInt32TypeInContext(context);
  LLVMValueRef zero = kiln_llvm_asm(b, KILN_ASM_PURE, "s_mov_b32 $0, 0", "=s", word, NULL, 0);
  if (LLVMGetTypeKind(type) != LLVMFloatTypeKind)
    zero = LLVMBuildTrunc(b, zero, LLVMInt16TypeInContext(context), "");
  return LLVMBuildBitCast(b, zero, type, "");
}

static bool is_positive_zero(LLVMValueRef v) {
  return LLVMIsAConstant(v) && LLVMIsNull(v); // -0.0 is not null
}

/// LLVM 22 makes `0.0 - x` a negated operand of what reads it (SelectVOP3ModsImpl in AMDGPUISelDAGToDAG.cpp), so
/// that -0.0 comes of an x that is 0.0. It does so where it sees the zero. Doubles have an addition there.
static void keep_sign_of_zero(LLVMBuilderRef b, LLVMValueRef difference) {
  LLVMValueRef zero = LLVMGetOperand(difference, 0);
  LLVMTypeRef type = LLVMTypeOf(zero);
  bool is_vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
  LLVMTypeRef element = is_vector ? LLVMGetElementType(type) : type;
  if (!is_positive_zero(zero) || LLVMGetTypeKind(element) == LLVMDoubleTypeKind ||
      LLVMGetFastMathFlags(difference) & LLVMFastMathNoSignedZeros)
    return;
  LLVMPositionBuilderBefore(b, difference);
  LLVMValueRef hidden = hide_zero(b, element), all = hidden;
  LLVMTypeRef word = LLVMInt32TypeInContext(LLVMGetTypeContext(type));
  for (unsigned i = 0; is_vector && i < LLVMGetVectorSize(type); i++)
    all = LLVMBuildInsertElement(b, i ? all : LLVMGetUndef(type), hidden, LLVMConstInt(word, i, false), "");
  LLVMSetOperand(difference, 0, all);
}

static void work_around(LLVMModuleRef module) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
      for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (LLVMGetInstructionOpcode(i) == LLVMFSub) keep_sign_of_zero(b, i);
  LLVMDisposeBuilder(b);
}

static const kiln_backend_form forms[] = {
    {KILN_FORMAT_HSACO, LLVMObjectFile, finish}, {KILN_FORMAT_ASM, LLVMAssemblyFile, finish_text}, {0}};
static const char *const link_flags[] = {"--hash-style=gnu", NULL};

const kiln_backend kiln_backend_amdgpu = {
    .family = KILN_FAMILY_AMDGPU,
    .lower = gpu_lower,
    .machine = gpu_machine_amdgpu,
    .passes = kiln_llvm_passes,
    .work_around = work_around,
    .forms = forms,
    .link = link_flags,
    .finish_time = offsetof(kiln_codegen_times, link),
    .registers = {amdgpu_has_far_registers, keep_accumulators_near},
};
