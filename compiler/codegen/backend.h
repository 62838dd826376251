// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A back end is a record: what codegen.c asks of a family of targets. Each stands in the folder of its
// family, codegen.c lists them, and nothing else in this folder asks which family a target is of.
//
// The common part (codegen.c) runs the middle, makes the module with triple and data layout of the target
// set, calls `lower`, then verifies, optimises, emits and calls `finish`.
#ifndef KILN_COMPILER_CODEGEN_BACKEND_H
#define KILN_COMPILER_CODEGEN_BACKEND_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "compiler/codegen.h"
#include "compiler/codegen/llvm/llvm_lines.h"
#include "compiler/passes/pass.h"
#include "compiler/report.h"

/// What a lowering works on; all borrowed. It fills the module with one kernel, an external function called
/// kernel->name with calling convention and attributes of the target, and with the prelude functions it calls
/// (internal, alwaysinline); nothing else is external. It sets of `info`: block_threads, shared_bytes,
/// dynamic_shared, scratch_bytes, wave, blocks, maps, whose texts go to `texts`. Errors: UNSUPPORTED
/// (operation and type on this target), LIMIT (with the numbers). The module may then hold anything.
typedef struct kiln_lowering {
  ir_kernel *kernel; ///< changed in place
  const kiln_target *target;
  const kiln_codegen_options *options;
  LLVMContextRef context;
  LLVMModuleRef module;
  kiln_code_info *info;
  kiln_arena *texts;
  kiln_buffer *report;           ///< rows of compiler/report.h are appended; NULL: nobody asks
  const kiln_refusals *refusals; ///< of products, for the report
  kiln_llvm_lines *lines;        ///< NULL: no line information
} kiln_lowering;

/// What finishing works on; all borrowed.
typedef struct kiln_finishing {
  const kiln_target *target;
  const kiln_codegen_options *options;
  const char *symbol;
  kiln_buffer *object;  ///< what LLVM emitted; may be taken
  kiln_buffer *code;    ///< gets the result
  kiln_code_info *info; ///< format may change; what can be read back from finished code goes in
  kiln_arena *texts;
  kiln_buffer *producer; ///< the tools used are appended
  uint32_t spills;       ///< registers that the finished code keeps in memory; see kiln_register_policy
} kiln_finishing;

/// A form that a back end has besides LLVM IR and assembly, which all have, or in place of theirs.
typedef struct kiln_backend_form {
  kiln_format format; ///< 0 ends the list
  LLVMCodeGenFileType emitted;
  kiln_status (*finish)(kiln_finishing *f, kiln_error *err); ///< NULL: what is emitted is the form
} kiln_backend_form;

/// What a back end does about registers that a kernel may have but had better not use. NULL hooks: nothing.
typedef struct kiln_register_policy {
  /// Whether the target has such registers.
  bool (*has_far)(const kiln_target *target);
  /// Keeps the kernel off them. When the finished code then spills, the kernel is compiled again with all.
  void (*keep_near)(LLVMValueRef function);
} kiln_register_policy;

struct gpu_machine;

typedef struct kiln_backend {
  kiln_family family;
  kiln_status (*lower)(const kiln_lowering *l, kiln_error *err);
  /// GPUs: limits, matrix forms and hooks of the lowering that they share (gpu_lower.h). NULL on the host.
  const struct gpu_machine *(*machine)(const kiln_target *target, struct gpu_machine *storage);
  bool finishes_text;        ///< what is finished is text, which an assembler of another maker reads
  const char *const *passes; ///< LLVM's, by level
  void (*work_around)(
      LLVMModuleRef module); ///< after them, what would be compiled wrongly or too slowly; NULL: nothing
  const kiln_backend_form *forms;
  const char *const *link; ///< lld's flags besides the common ones, ended by NULL; NULL: it links nothing
  const char *const *bare; ///< those of code without line information
  size_t finish_time;      ///< offset in kiln_codegen_times of what finishing counts as
  kiln_register_policy registers;
} kiln_backend;

const kiln_backend *kiln_backend_of(const kiln_target *target);

extern const kiln_backend
    kiln_backend_host; ///< host/: x86-64 and aarch64; the kernel has type kiln_host_kernel
extern const kiln_backend kiln_backend_nvptx;  ///< nvptx/
extern const kiln_backend kiln_backend_amdgpu; ///< amdgpu/

#endif
