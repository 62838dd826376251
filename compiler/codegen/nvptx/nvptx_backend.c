// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVPTX as a back end: PTX, and cubins where there is an assembler.
#include <string.h>

#include "compiler/codegen/backend.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/gpu/gpu_lower.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "compiler/codegen/llvm/llvm_order.h"
#include "compiler/passes/gpu/gpu.h"

/// The assembler does not know the processor: who asked for no form gets the PTX, and why.
static kiln_status keep_ptx(kiln_finishing *f, kiln_error *err) {
  f->info->why_ptx = kiln_arena_text(f->texts, err->text, strlen(err->text));
  err->status = KILN_OK;
  f->object->size--; // the NUL
  f->info->format = KILN_FORMAT_PTX;
  kiln_buffer_deinit(f->code);
  *f->code = *f->object;
  *f->object = (kiln_buffer){0};
  return KILN_OK;
}

static kiln_status finish_cubin(kiln_finishing *f, kiln_error *err) {
  kiln_buffer_u8(f->object, 0);
  if (f->object->failed)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the PTX of %s", f->symbol);
  kiln_status status = kiln_finish_cubin(f->target, f->options, (const char *)f->object->bytes, f->code,
                                         f->info, f->producer, err);
  return status == KILN_STATUS_UNSUPPORTED && !f->options->output ? keep_ptx(f, err) : status;
}

enum { LONG_BLOCK = 4096 }; // instructions; what is shorter the assembler orders itself

static void order_long_blocks(LLVMModuleRef module) { kiln_llvm_order(module, LONG_BLOCK); }

static const kiln_backend_form forms[] = {
    {KILN_FORMAT_PTX, LLVMAssemblyFile, NULL}, {KILN_FORMAT_CUBIN, LLVMAssemblyFile, finish_cubin}, {0}};

const kiln_backend kiln_backend_nvptx = {
    .family = KILN_FAMILY_NVPTX,
    .lower = gpu_lower,
    .machine = gpu_machine_nvptx,
    .finishes_text = true,
    .passes = kiln_llvm_passes,
    .work_around = order_long_blocks,
    .forms = forms,
    .finish_time = offsetof(kiln_codegen_times, assemble),
};
