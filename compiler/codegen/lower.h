// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between the common part of code generation and the two lowerings.
//
// The common part (codegen.c) makes the module with triple and data layout of the target set, runs the
// middle, calls one lowering, then verifies, optimises, emits and finishes. A lowering fills the module with
// one kernel, an external function called kernel->name with calling convention and attributes of the target,
// and with the prelude functions it calls (internal, alwaysinline); nothing else is external.
//
// Lowerings set in `info`: block_threads, shared_bytes, dynamic_shared, scratch_bytes, wave. The common part
// sets format, target, symbol, producer and what can be read back from finished code (registers,
// scalar_registers, spill_bytes). Texts go to `texts`. Errors: UNSUPPORTED (operation and type on this
// target), LIMIT (with the numbers). The module may then hold anything.
#ifndef KILN_COMPILER_CODEGEN_LOWER_H
#define KILN_COMPILER_CODEGEN_LOWER_H

#include <llvm-c/Core.h>

#include "compiler/codegen.h"

/// host_*.c: x86-64 and aarch64. The kernel has type kiln_host_kernel; no undefined symbols may be left
/// (memset and memcpy calls neither).
kiln_status kiln_lower_host(ir_kernel *kernel, const kiln_target *target, const kiln_codegen_options *options,
                            LLVMContextRef context, LLVMModuleRef module, kiln_code_info *info,
                            kiln_arena *texts, kiln_error *err);
/// Writes otherwise, in an optimised module, what LLVM would compile wrongly (host_mend.c).
void kiln_host_mend(LLVMModuleRef module);
/// gpu_*.c: NVPTX and AMDGPU. Shared memory is address space 3, global memory 1.
kiln_status kiln_lower_gpu(ir_kernel *kernel, const kiln_target *target, const kiln_codegen_options *options,
                           LLVMContextRef context, LLVMModuleRef module, kiln_code_info *info,
                           kiln_arena *texts, kiln_error *err);

/// From gfx90a on one file of 512 registers serves vector and accumulation registers (amdgpu_machine.c).
bool kiln_amdgpu_has_wide_registers(const kiln_target *target);

/// Reads textual LLVM IR in `context` and links it into `module` (llvm_module.c). INTERNAL with LLVM's
/// message when the text is wrong. `name` is for messages.
kiln_status kiln_llvm_link_text(LLVMContextRef context, LLVMModuleRef module, const char *text, size_t size,
                                const char *name, kiln_error *err);

#endif
