// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What happens to a module as a whole: verify, optimise, emit. LLVM's diagnostics become errors.
#ifndef KILN_COMPILER_CODEGEN_LLVM_MODULE_H
#define KILN_COMPILER_CODEGEN_LLVM_MODULE_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "base/buffer.h"
#include "base/status.h"
#include "targets/targets.h"

/// Registers the back ends of LLVM; later calls do nothing.
void kiln_llvm_init(void);

/// A machine for `target` at level `optimise` (0..3), and its data layout. Both belong to the calling
/// thread's cache: valid until that thread ends or asks for KILN_LLVM_MACHINES other machines. TARGET when
/// this LLVM lacks triple or processor.
enum { KILN_LLVM_MACHINES = 32 };
kiln_status kiln_llvm_machine(const kiln_target *target, unsigned optimise, LLVMTargetMachineRef *out_machine,
                              const char **out_layout, kiln_error *err);

/// A context that keeps the first error which LLVM reports in it; without that LLVM prints and ends the process.
/// `caught` must live as long as the context.
LLVMContextRef kiln_llvm_context(kiln_error *caught);

/// An empty module for `target`: triple, data layout, and what must be said in it (AMDGPU: the code object
/// version).
LLVMModuleRef kiln_llvm_module(LLVMContextRef context, const kiln_target *target, const char *layout);
/// INTERNAL with LLVM's first complaint.
kiln_status kiln_llvm_verify(LLVMModuleRef module, const char *stage, kiln_error *err);
/// What every back end so far runs, by level.
enum { KILN_LLVM_LEVELS = 4 };
extern const char *const kiln_llvm_passes[KILN_LLVM_LEVELS];
/// Runs a list of passes.
kiln_status kiln_llvm_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes,
                               kiln_error *err);
/// Appends object or assembly to `out`.
kiln_status kiln_llvm_emit(LLVMModuleRef module, LLVMTargetMachineRef machine, LLVMCodeGenFileType type,
                           kiln_buffer *out, kiln_error *err);
/// Makes a module of textual LLVM IR. SOURCE with LLVM's message, in which the text begins at line `line` of `name`.
kiln_status kiln_llvm_read(LLVMContextRef context, const char *text, size_t size, const char *name,
                           uint32_t line, LLVMModuleRef *out, kiln_error *err);
/// Reads textual LLVM IR in `context` and links it into `module`. INTERNAL with LLVM's message when the text
/// is wrong. `name` is for messages.
kiln_status kiln_llvm_link_text(LLVMContextRef context, LLVMModuleRef module, const char *text, size_t size,
                                const char *name, kiln_error *err);
/// Appends the module as text.
void kiln_llvm_print(LLVMModuleRef module, kiln_buffer *out);

/// Computes addresses, offsets and masks where they are needed, in blocks of thousands of instructions. A
/// tile of many registers a thread is lowered operation by operation, so that all offsets stand before the
/// first access; NVIDIA's assembler keeps that order and takes minutes for the registers that it lacks.
/// Other values stay where they are, and so does whatever reads or writes memory.
void kiln_llvm_order(LLVMModuleRef module);

#endif
