// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The canonical form of a kernel, and the clean-up between passes: rounds of the ROUND rows of passes.def. The pass
// `canonical` notes which operation of that form each one is.
#include "compiler/passes/canonical/canonical.h"

#include "compiler/passes/pass.h"

/// Rounds until nothing changes. Each round is linear; a chain that needs more than this many is left as far
/// as it got.
enum { MAX_ROUNDS = 32 };

/// When a row runs. NOTHING and LAST: when the rows before it have changed nothing in this round.
typedef enum when { WHEN_ROUND, WHEN_NOTHING, WHEN_LAST } when;

static const struct {
  kiln_pass_run *run;
  when when;
} rows[] = {
#define ROUND(name, function, when, text) {kiln_pass_##function, WHEN_##when},
#define PASS(name, function, when, needs, leaves, text)
#include "compiler/passes/passes.def"
};

/// One round; true when it changed something. A pass that has no memory leaves the kernel as it was.
static bool run_rows(ir_kernel *kernel, bool is_last) {
  kiln_pass_context context = {0};
  kiln_error ignored = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].when != WHEN_ROUND && (context.changed || (rows[i].when == WHEN_LAST && !is_last))) continue;
    (void)rows[i].run(kernel, &context, &ignored);
  }
  return context.changed;
}

kiln_status kiln_pass_simplify(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  for (unsigned round = 0; round < MAX_ROUNDS && run_rows(kernel, false); round++) continue;
  return KILN_OK;
}

void kiln_canonicalise(ir_kernel *kernel) {
  for (unsigned round = 0; round < MAX_ROUNDS && run_rows(kernel, true); round++) continue;
}

// Later passes move, split and remove operations; messages, reports and debug information name those of the
// canonical form.
kiln_status kiln_pass_canonical(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  ir_number(kernel);
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (!op->place.operation) op->place.operation = op->number + 1;
  return KILN_OK;
}
