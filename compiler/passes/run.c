// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of passes, and how one of them runs, is checked and is printed.
#include <string.h>

#include "compiler/passes/pass.h"

#ifdef KILN_CHECKED
static bool check_all = true;
#else
static bool check_all = false;
#endif

void kiln_check_passes(bool on) { check_all = on; }

const kiln_pass kiln_passes[] = {
#define ROUND(name, function, when, text)
#define PASS(name, function, when, needs, leaves, text) \
  {name, KILN_WHEN_##when, KILN_FORM_##needs, KILN_FORM_##leaves, NULL},
#include "compiler/passes/passes.def"
};
#define ROUND(name, function, when, text)
#define PASS(n, function, when, needs, leaves, text) \
  _Static_assert(sizeof n <= sizeof kiln_passes->name, "it has room: " n);
#include "compiler/passes/passes.def"
const size_t kiln_pass_count = sizeof kiln_passes / sizeof *kiln_passes;

const kiln_pass *kiln_find_pass(const char *name) {
  for (size_t i = 0; i < kiln_pass_count; i++)
    if (!strcmp(kiln_passes[i].name, name)) return &kiln_passes[i];
  return NULL;
}

// Functions stand in code, not in the table: each start of the program pays for pages with pointers.
static kiln_status run(const kiln_pass *pass, ir_kernel *kernel, kiln_pass_context *context,
                       kiln_error *err) {
  if (pass->run) return pass->run(kernel, context, err);
  ptrdiff_t row = pass - kiln_passes;
#define ROUND(name, function, when, text)
#define PASS(name, function, when, needs, leaves, text) \
  if (!row--) return kiln_pass_##function(kernel, context, err);
#include "compiler/passes/passes.def"
  return kiln_fail(err, KILN_STATUS_INTERNAL, "pass '%s' has no row", pass->name);
}

kiln_pass_context kiln_pass_context_of(const kiln_target *target) {
  return (kiln_pass_context){.target = target, .machine = kiln_fetch_machine_of(target)};
}

static kiln_status verify(const kiln_pass *pass, ir_kernel *kernel, const kiln_pass_context *context,
                          kiln_buffer *printed, kiln_error *err) {
  ir_fault fault;
  kiln_status status = ir_verify_fault(kernel, pass->name, &fault, err);
  if (status != KILN_OK && printed) ir_print(kernel, &fault, printed);
  if (status == KILN_OK) status = kiln_form_verify(kernel, context->target, pass->leaves, err);
  return status;
}

kiln_status kiln_run_pass(const kiln_pass *pass, ir_kernel *kernel, kiln_pass_context *context,
                          const kiln_pass_options *options, kiln_error *err) {
  KILN_TRY(run(pass, kernel, context, err));
  if (options->verify || check_all) KILN_TRY(verify(pass, kernel, context, options->printed, err));
  const char *wanted = options->print_after;
  if (!options->printed || !wanted || (strcmp(wanted, "all") && strcmp(wanted, pass->name))) return KILN_OK;
  if (options->show) options->show(options->shown, pass, kernel, options->printed);
  else ir_print(kernel, NULL, options->printed);
  return KILN_OK;
}
