// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/ir/pass.h"

#include <string.h>

#ifdef KILN_CHECKED
static bool check_all = true;
#else
static bool check_all = false;
#endif

void ir_check_passes(bool on) { check_all = on; }

const ir_pass *ir_find_pass(const ir_pass *passes, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(passes[i].name, name)) return &passes[i];
  return NULL;
}

static bool names(const char *asked, const char *pass) { return asked && !strcmp(asked, pass); }

static kiln_status verify(ir_kernel *kernel, const char *pass, kiln_buffer *printed, kiln_error *err) {
  ir_fault fault;
  kiln_status status = ir_verify_fault(kernel, pass, &fault, err);
  if (status != KILN_OK && printed) ir_print(kernel, &fault, printed);
  return status;
}

kiln_status ir_run_passes(const ir_pass *passes, size_t count, ir_kernel *kernel, const void *context,
                          const ir_pass_options *options, kiln_error *err) {
  const ir_pass *before = options->start_after ? ir_find_pass(passes, count, options->start_after) : NULL;
  for (size_t i = before ? (size_t)(before - passes) + 1 : 0; i < count; i++) {
    const char *name = passes[i].name;
    bool last = i + 1 == count || names(options->stop_after, name);
    KILN_TRY(passes[i].run(kernel, context, err));
    const bool is_checked = options->verify || check_all;
    if (is_checked || last) KILN_TRY(verify(kernel, name, options->printed, err));
    if (is_checked && passes[i].verify) KILN_TRY(passes[i].verify(kernel, err));
    if (options->printed && (names(options->print_after, "all") || names(options->print_after, name))) {
      if (options->show) options->show(options->shown, name, kernel, options->printed);
      else ir_print(kernel, NULL, options->printed);
    }
    if (last) break;
  }
  return KILN_OK;
}
