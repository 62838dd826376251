// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host as a back end: shared objects that libkiln loads itself.
#include "compiler/codegen/backend.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/host/host.h"
#include "compiler/codegen/llvm/llvm_module.h"

static kiln_status finish(kiln_finishing *f, kiln_error *err) {
  KILN_TRY(kiln_finish_object(f, err));
  return kiln_finish_check_host(f->code->bytes, f->code->size, f->symbol, err);
}

static const kiln_backend_form forms[] = {{KILN_FORMAT_HOST, LLVMObjectFile, finish}, {0}};

// libkiln applies relative relocations only, and copies segments to their places, so that file and memory
// need no common page grid.
static const char *const link_flags[] = {
    "-Bsymbolic", "-z", "text", "-z", "norelro", "-z", "noseparate-code", "--gc-sections", NULL};
static const char *const bare_flags[] = {"--strip-all", NULL};

const kiln_backend kiln_backend_host = {
    .family = KILN_FAMILY_HOST,
    .lower = host_lower,
    .passes = kiln_llvm_passes,
    .work_around = host_work_around,
    .forms = forms,
    .link = link_flags,
    .bare = bare_flags,
    .finish_time = offsetof(kiln_codegen_times, link),
};
