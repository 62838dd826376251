// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What happens to a module as a whole: verify, optimise, emit. LLVM's diagnostics become errors.
#ifndef KILN_COMPILER_CODEGEN_LLVM_MODULE_H
#define KILN_COMPILER_CODEGEN_LLVM_MODULE_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "base/buffer.h"
#include "base/status.h"
#include "targets/targets.h"

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
/// Reads textual LLVM IR in `context` and links it into `module`. INTERNAL with LLVM's message when the text
/// is wrong. `name` is for messages.
kiln_status kiln_llvm_link_text(LLVMContextRef context, LLVMModuleRef module, const char *text, size_t size,
                                const char *name, kiln_error *err);
/// Appends the module as text.
void kiln_llvm_print(LLVMModuleRef module, kiln_buffer *out);

#endif
