// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the rows of AMD's processors with what LLVM knows of them: modes, the wave size, shared memory.
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen/llvm/llvm_module.h"
#include "tests/codegen/llvm_rows.h"

static void note_error(LLVMDiagnosticInfoRef info, void *context) {
  char *text = LLVMGetDiagInfoDescription(info);
  if (LLVMGetDiagInfoSeverity(info) == LLVMDSError) snprintf(context, 300, "%s", text);
  LLVMDisposeMessage(text);
}

/// Assembly of a kernel that uses so many bytes of shared memory, for a processor with every mode on; malloc'ed.
/// What LLVM refuses is in `error`.
static char *assembly(const char *processor, uint32_t bytes, char error[300]) {
  static const char format[] = "@s = internal addrspace(3) global [%u x i8] poison\n"
                               "define amdgpu_kernel void @k(ptr addrspace(1) %%out, i32 %%i) {\n"
                               "  %%p = getelementptr i8, ptr addrspace(3) @s, i32 %%i\n"
                               "  store volatile i8 1, ptr addrspace(3) %%p\n"
                               "  %%v = load volatile i8, ptr addrspace(3) @s\n"
                               "  store i8 %%v, ptr addrspace(1) %%out\n"
                               "  ret void\n"
                               "}\n";
  static const char triple[] = "amdgcn-amd-amdhsa";
  char text[600], *message = NULL;
  snprintf(text, sizeof text, format, bytes);
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module;
  LLVMTargetRef target;
  LLVMMemoryBufferRef out = NULL;
  *error = 0;
  LLVMContextSetDiagnosticHandler(context, note_error, error);
  kiln_llvm_init();
  if (LLVMParseIRInContext(context, LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "k"),
                           &module, &message) ||
      LLVMGetTargetFromTriple(triple, &target, &message))
    FAIL("%s", message);
  LLVMTargetMachineRef machine =
      LLVMCreateTargetMachine(target, triple, processor, "+xnack,+sramecc", LLVMCodeGenLevelDefault,
                              LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMSetTarget(module, triple);
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, &out))
    FAIL("%s: %s", processor, message);
  char *made = strndup(LLVMGetBufferStart(out), LLVMGetBufferSize(out));
  LLVMDisposeMemoryBuffer(out);
  LLVMDisposeTargetMachine(machine);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
  return made;
}

TEST(amdgpu_rows, say_what_llvm_knows) {
  enum { MORE = 4 };
  unsigned rows = 0;
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i);
    char error[300], wave[40], name[100];
    if (p->family != KILN_FAMILY_AMDGPU || !llvm_has(p->name)) continue;
    char *text = assembly(p->name, p->shared_bytes, error);
    if (*error) FAIL("%s, %u bytes of shared memory: %s", p->name, p->shared_bytes, error);
    // AMDGPUUsage lists no feature of gfx1250, though LLVM takes both.
    bool takes_more = !strcmp(p->name, "gfx1250");
    snprintf(name, sizeof name, "amdgcn-amd-amdhsa--%s%s%s\"", p->name,
             p->has_sramecc || takes_more ? ":sramecc+" : "", p->has_xnack || takes_more ? ":xnack+" : "");
    snprintf(wave, sizeof wave, ".wavefront_size: %u\n", p->wave);
    if (!strstr(text, name))
      FAIL("%s: expected '%s', found '%.80s'", p->name, name, strstr(text, "amdgcn-amd-amdhsa--"));
    if (!strstr(text, wave)) FAIL("%s: LLVM's wave has another size than %u", p->name, p->wave);
    free(text);
    free(assembly(p->name, p->shared_bytes + MORE, error));
    if (!strstr(error, "exceeds limit"))
      FAIL("%s: LLVM allows more than %u bytes of shared memory", p->name, p->shared_bytes);
    rows++;
  }
  CHECK(rows > 20);
}
