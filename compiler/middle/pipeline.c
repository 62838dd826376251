// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of passes between the canonical form and a back end.
#include "compiler/middle/pipeline.h"

#include <string.h>

#include "compiler/middle/passes.h"

typedef struct stage {
  const char *name;
  bool (*pass)(ir_kernel *kernel); // one of pass, checked, targeted, clean is set
  kiln_status (*checked)(ir_kernel *kernel, kiln_error *err);
  kiln_status (*targeted)(ir_kernel *kernel, const kiln_target *target, kiln_error *err);
  void (*clean)(ir_kernel *kernel);
} stage;

static const stage stages[] = {
    {.name = "views", .checked = kiln_lower_views},
    {.name = "simplify", .clean = kiln_simplify},
    {.name = "flush", .targeted = kiln_flush},
    {.name = "expand", .targeted = kiln_expand},
    {.name = "licm", .pass = kiln_licm},
    {.name = "narrow", .pass = kiln_narrow},
    {.name = "simplify-narrow", .clean = kiln_simplify},
    {.name = "guard", .pass = kiln_guard},
    {.name = "simplify-last", .clean = kiln_simplify},
};

static kiln_status run_stage(const stage *s, ir_kernel *kernel, const kiln_target *target, kiln_error *err) {
  if (s->checked) return s->checked(kernel, err);
  if (s->targeted) return s->targeted(kernel, target, err);
  if (s->pass) s->pass(kernel);
  else s->clean(kernel);
  return KILN_OK;
}

// From here on operations move, split and go; their places keep what they were.
static void name_operation(ir_op *op, void *context) {
  (void)context;
  if (!op->place.operation) op->place.operation = op->number + 1;
}

kiln_status kiln_middle_with(ir_kernel *kernel, const kiln_target *target, const kiln_middle_options *options,
                             kiln_error *err) {
  size_t count = sizeof stages / sizeof *stages;
  ir_number(kernel);
  ir_walk(kernel->body, name_operation, NULL);
  for (size_t i = 0; i < count; i++) {
    KILN_TRY(run_stage(&stages[i], kernel, target, err));
    bool last = i + 1 == count || (options->stop_after && !strcmp(options->stop_after, stages[i].name));
    if (options->verify || last) KILN_TRY(ir_verify(kernel, stages[i].name, err));
    if (last) break;
  }
  return KILN_OK;
}

kiln_status kiln_middle(ir_kernel *kernel, const kiln_target *target, kiln_error *err) {
  return kiln_middle_with(kernel, target, &(kiln_middle_options){0}, err);
}
