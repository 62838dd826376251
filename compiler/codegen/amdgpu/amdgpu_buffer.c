// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads by buffer instructions: a resource in scalar registers (base, bytes from it, format) and an offset of
// 32 bits for each thread. An offset beyond the bytes reads zero, which is what masked-off lanes are given.
//
//   base - BIAS ........ base ................... base + 2^31 | never read
//   offset 0             BIAS                     LIMIT         LIMIT: masked off
//
// The whole access lies below 2^31 after its parameter, but the thread's part of the offset may be below
// zero where the base has taken up more than the rest: hence the bias. It is as large as leaves 16 bytes
// after LIMIT, so that an access there does not end beyond 2^32.
//
// What a loop adds of constants stands in the instruction's scalar offset. On gfx9 the bytes are then LIMIT
// less that offset, which is never below zero: both are multiples of GPU_NEAR_STEP. So what is masked off
// stays so even where a loop that loads nothing any more runs on beyond 2^32. From gfx10 on texts differ in
// what is compared with what, and all goes into the base.
#include <llvm/Config/llvm-config.h>
#include <stdio.h>

#include "compiler/codegen/amdgpu/amdgpu.h"

#define BIAS 0x7fffffe0u
#define LIMIT 0xffffffe0u
_Static_assert(LIMIT % GPU_NEAR_STEP == 0, "see above");

enum {
  FORMAT_FLOAT_32 = 7u << 12 | 4u << 15, ///< any that is not 0: these instructions do not convert
  RDNA_RESERVED = 1u << 24,              ///< to be set from gfx10 on
  RDNA_BY_OFFSET = 3u << 28,             ///< out of bounds is by offset
};

/// A constant in a scalar register of its own for each parameter. LLVM has one register for equal constants,
/// and a resource is four registers in a row: it would put a loop's second resource together in each
/// iteration. Where the base advances with the loop it is put together there anyway.
static LLVMValueRef own_scalar(gpu *g, uint32_t value, unsigned param) {
  LLVMValueRef constant = gpu_i32(g, value);
  if (!g->machine->takes_ahead) return constant;
  char text[32]; // a comment: equal instructions become one
  snprintf(text, sizeof text, "; parameter %u", param);
  LLVMValueRef call = kiln_llvm_asm(g->builder, KILN_ASM_PURE, text, "=s,0", g->i32, &constant, 1);
  static const char *const pure[] = {"memory", "nounwind", "willreturn"}; // so it leaves loops
  for (size_t i = 0; i < sizeof pure / sizeof *pure; i++)
    kiln_llvm_attribute(call, KILN_LLVM_ITSELF, pure[i], 0);
  return call;
}

LLVMValueRef amdgpu_near_memory(gpu *g, LLVMValueRef base, unsigned param) {
  LLVMTypeRef types[] = {LLVMPointerTypeInContext(g->context, 8), g->global_pointer};
  bool is_rdna = g->target->processor->major >= 10;
#if LLVM_VERSION_MAJOR < 22
  LLVMTypeRef count = g->i32;
#else
  LLVMTypeRef count = g->i64;
#endif
  LLVMValueRef less = LLVMConstInt(g->i64, (uint64_t) - (int64_t)BIAS, true),
               start = LLVMBuildGEP2(g->builder, g->i8, base, &less, 1, "");
  LLVMValueRef arguments[] = {
      start, LLVMConstInt(g->i16, 0, false),
      LLVMBuildZExt(g->builder, own_scalar(g, LIMIT, param), count, ""),
      own_scalar(g, FORMAT_FLOAT_32 | (is_rdna ? RDNA_RESERVED | RDNA_BY_OFFSET : 0u), param)};
  return gpu_intrinsic(g, "llvm.amdgcn.make.buffer.rsrc", types, 2, arguments, 4);
}

LLVMValueRef amdgpu_near_load(gpu *g, const gpu_access *access, const gpu_near *near, uint32_t at,
                              LLVMValueRef mask, LLVMTypeRef type) {
  LLVMValueRef offset = LLVMBuildAdd(g->builder, near->bytes[at], gpu_i32(g, BIAS), "");
  if (mask) offset = LLVMBuildSelect(g->builder, mask, offset, gpu_i32(g, LIMIT), "");
  LLVMValueRef arguments[] = {near->memory, offset, near->ahead ? near->ahead : gpu_i32(g, 0), gpu_i32(g, 0)};
  LLVMValueRef loaded = gpu_intrinsic(g, "llvm.amdgcn.raw.ptr.buffer.load", &type, 1, arguments, 4);
  if (access->is_invariant) kiln_llvm_note(loaded, "invariant.load", NULL);
  return loaded;
}

void amdgpu_hold_loads(gpu *g) {
  enum { ARITHMETIC = 1, SHARED_MEMORY = 1 << 7 }; // what the scheduler may move across
  LLVMValueRef mask = gpu_i32(g, ARITHMETIC | SHARED_MEMORY);
  amdgpu_intrinsic(g, "llvm.amdgcn.sched.barrier", NULL, &mask, 1);
}
