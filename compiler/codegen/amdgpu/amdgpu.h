// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inside of the AMDGPU machine.
#ifndef KILN_COMPILER_CODEGEN_AMDGPU_H
#define KILN_COMPILER_CODEGEN_AMDGPU_H

#include "compiler/codegen/gpu/gpu_lower.h"

/// Hooks of gpu_machine for MFMA and WMMA (amdgpu_matrix.c).
void amdgpu_emit_product(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                         const LLVMValueRef *right, LLVMValueRef *accumulator);
void amdgpu_finish_product(gpu *g, const kiln_matrix_form *form, LLVMValueRef *accumulator);

/// Hooks of gpu_machine (amdgpu_atomic.c, amdgpu_shuffle.c).
LLVMValueRef amdgpu_atomic(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                           LLVMValueRef value);
LLVMValueRef amdgpu_cas(gpu *g, const ir_op *op, kiln_scalar scalar, LLVMValueRef pointer,
                        LLVMValueRef expected, LLVMValueRef desired);
LLVMValueRef amdgpu_shuffle_xor(gpu *g, LLVMValueRef value, unsigned mask);

/// Loads through buffer resources (amdgpu_buffer.c).
LLVMValueRef amdgpu_near_memory(gpu *g, LLVMValueRef base, unsigned param);
LLVMValueRef amdgpu_near_load(gpu *g, const gpu_access *access, const gpu_near *near, uint32_t at,
                              LLVMValueRef mask, LLVMTypeRef type);

/// Loads stay before what follows.
void amdgpu_hold_loads(gpu *g);

/// The order of a loop's body (amdgpu_schedule.c).
void amdgpu_order_body(gpu *g, LLVMBasicBlockRef body);

/// Bytes of two words by v_perm (amdgpu_shuffle.c).
LLVMValueRef amdgpu_join_bytes(gpu *g, const LLVMValueRef words[2], const uint8_t from[4]);

/// `value` of vector registers, made where this stands: LLVM (19 and 22) does not know of every instruction
/// that what it computes depends on which lanes run, and sinks v_permlane and v_wmma, with what they read,
/// into the branch of their only user.
LLVMValueRef amdgpu_pin(gpu *g, LLVMValueRef value);

/// From gfx90a on one file of 512 registers serves vector and accumulation registers.
bool amdgpu_has_far_registers(const kiln_target *target);

/// A call of an intrinsic; `overload` is NULL when the intrinsic has none.
static inline LLVMValueRef amdgpu_intrinsic(gpu *g, const char *name, LLVMTypeRef overload,
                                            const LLVMValueRef *arguments, unsigned count) {
  return gpu_intrinsic(g, name, &overload, overload != NULL, arguments, count);
}

#endif
