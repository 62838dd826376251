// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verify, optimise and emit one LLVM module; read textual LLVM IR into it.
#include "compiler/codegen/llvm/llvm_module.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A message of LLVM's in one line.
static void one_line(char *text) {
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = p[1] ? ';' : 0;
}

static kiln_status fail_with(kiln_error *err, kiln_status status, const char *what, char *message) {
  if (message) one_line(message);
  kiln_fail(err, status, "%s: %.700s", what, message && message[0] ? message : "no message");
  LLVMDisposeMessage(message);
  return status;
}

// Errors that mean the kernel asks for too much come with these words.
static kiln_status status_of_message(const char *message) {
  static const char *const limits[] = {"exceeds limit", "ran out of registers", "exceeds max", "too large",
                                       "limit of"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (strstr(message, limits[i])) return KILN_STATUS_LIMIT;
  return KILN_STATUS_INTERNAL;
}

// A message on assembly ends in " at line N", where N is 1 + the operation that the call's metadata names:
// cuts it off. 0: it does not.
static unsigned long cut_operation(char *message) {
  static const char mark[] = " at line ";
  char *at = strstr(message, mark), *end;
  for (char *next; at && (next = strstr(at + 1, mark));) at = next;
  unsigned long number = at ? strtoul(at + sizeof mark - 1, &end, 10) : 0;
  if (number) *at = 0;
  return number;
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *p) {
  kiln_error *err = p;
  char what[48] = "LLVM";
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || err->status != KILN_OK) return;
  char *message = LLVMGetDiagInfoDescription(info);
  unsigned long number = cut_operation(message);
  if (number) snprintf(what, sizeof what, "operation %lu: LLVM", number - 1);
  kiln_status status = status_of_message(message);
  if (number && status == KILN_STATUS_INTERNAL) status = KILN_STATUS_SOURCE; // of the source's own assembly
  fail_with(err, status, what, message);
  err->operation = (uint32_t)number;
}

LLVMContextRef kiln_llvm_context(kiln_error *caught) {
  LLVMContextRef context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(context, on_diagnostic, caught);
  return context;
}

LLVMModuleRef kiln_llvm_module(LLVMContextRef context, const kiln_target *target, const char *layout) {
  static const char flag[] = "amdhsa_code_object_version";
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("kiln", context);
  LLVMSetTarget(module, kiln_target_triple(target));
  LLVMSetDataLayout(module, layout);
  if (!target->code_object) return module;
  LLVMValueRef version = LLVMConstInt(LLVMInt32TypeInContext(context), target->code_object * 100u, 0);
  LLVMAddModuleFlag(module, LLVMModuleFlagBehaviorError, flag, sizeof flag - 1, LLVMValueAsMetadata(version));
  return module;
}

kiln_status kiln_llvm_verify(LLVMModuleRef module, const char *stage, kiln_error *err) {
  char *message = NULL;
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
    return fail_with(err, KILN_STATUS_INTERNAL, stage, message);
  LLVMDisposeMessage(message);
  return KILN_OK;
}

// ---------------------------------------------------------------------------------------- optimise

// Kernels come in with everything inlined, tiles already in registers and loops in the shape that is wanted,
// so what pays is: inline the prelude, clean up, merge address arithmetic, move invariants out of loops.
// Whole -O2 costs several times that for nothing.
#define CLEAN "sroa<modify-cfg>,early-cse,instcombine<no-verify-fixpoint>,simplifycfg"
#define LOOPS "loop-mssa(licm)"
#define LAST "instcombine<no-verify-fixpoint>,div-rem-pairs,simplifycfg,adce"
const char *const kiln_llvm_passes[KILN_LLVM_LEVELS] = {
    "always-inline",
    "always-inline,function(" CLEAN ")",
    "always-inline,function(" CLEAN "," LOOPS ",early-cse<memssa>," LAST "),globaldce",
    "always-inline,function(" CLEAN "," LOOPS ",gvn," LAST "),globaldce",
};
#undef CLEAN
#undef LOOPS
#undef LAST

kiln_status kiln_llvm_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes,
                               kiln_error *err) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return KILN_OK;
  char *message = LLVMGetErrorMessage(error);
  one_line(message);
  kiln_fail(err, KILN_STATUS_INTERNAL, "LLVM refuses the pass list: %.600s", message);
  LLVMDisposeErrorMessage(message);
  return KILN_STATUS_INTERNAL;
}

// -------------------------------------------------------------------------------------------- emit

kiln_status kiln_llvm_emit(LLVMModuleRef module, LLVMTargetMachineRef machine, LLVMCodeGenFileType type,
                           kiln_buffer *out, kiln_error *err) {
  char *message = NULL;
  LLVMMemoryBufferRef memory = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, type, &message, &memory))
    return fail_with(err, KILN_STATUS_INTERNAL, "LLVM cannot emit code", message);
  kiln_buffer_bytes(out, LLVMGetBufferStart(memory), LLVMGetBufferSize(memory));
  LLVMDisposeMemoryBuffer(memory);
  return out->failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the emitted code") : KILN_OK;
}

void kiln_llvm_print(LLVMModuleRef module, kiln_buffer *out) {
  char *text = LLVMPrintModuleToString(module);
  kiln_buffer_bytes(out, text, strlen(text));
  LLVMDisposeMessage(text);
}

kiln_status kiln_llvm_link_text(LLVMContextRef context, LLVMModuleRef module, const char *text, size_t size,
                                const char *name, kiln_error *err) {
  // The reader takes the buffer over, also when it fails.
  LLVMMemoryBufferRef memory = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, size, name);
  LLVMModuleRef read = NULL;
  char *message = NULL;
  if (LLVMParseIRInContext(context, memory, &read, &message))
    return fail_with(err, KILN_STATUS_INTERNAL, name, message);
  LLVMSetTarget(read, LLVMGetTarget(module));
  LLVMSetDataLayout(read, LLVMGetDataLayoutStr(module));
  if (LLVMLinkModules2(module, read))
    return kiln_fail(err, KILN_STATUS_INTERNAL, "%s: LLVM cannot link the text into the module", name);
  return KILN_OK;
}
