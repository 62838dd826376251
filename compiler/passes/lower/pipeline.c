// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of passes between the canonical form and a back end.
#include "compiler/passes/lower/pipeline.h"

#include "base/float_state.h"
#include "compiler/passes/lower/lower.h"

static void name_operation(ir_op *op, void *context) {
  (void)context;
  if (!op->place.operation) op->place.operation = op->number + 1;
}

/// Later operations move, split and go; their places keep what they were in the canonical form.
static kiln_status name_operations(ir_kernel *kernel, const void *context, kiln_error *err) {
  (void)context, (void)err;
  ir_number(kernel);
  ir_walk(kernel->body, name_operation, NULL);
  return KILN_OK;
}

/// What the passes know besides the kernel.
typedef struct knowledge {
  const kiln_target *target;
  kiln_promotion promote;
} knowledge;

static kiln_status open_views(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_open_views(kernel, err);
}

static kiln_status drop_unit_axes(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_drop_unit_axes(kernel, err);
}

static kiln_status limit_grid(ir_kernel *kernel, const void *context, kiln_error *err) {
  (void)err;
  if (kiln_family_of(((const knowledge *)context)->target->processor->family)->has_units)
    kiln_limit_grid(kernel);
  return KILN_OK;
}

static kiln_status recover_views(ir_kernel *kernel, const void *context, kiln_error *err) {
  const knowledge *k = context;
  (void)err;
  if (k->promote.recover) k->promote.recover(kernel, k->target, k->promote.refusals);
  return KILN_OK;
}

static kiln_status promote_views(ir_kernel *kernel, const void *context, kiln_error *err) {
  const knowledge *k = context;
  (void)err;
  if (k->promote.mark) k->promote.mark(kernel, k->target, k->promote.refusals);
  return KILN_OK;
}

static kiln_status views(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_lower_views(kernel, err);
}

static kiln_status simplify(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, (void)err, kiln_simplify(kernel), KILN_OK;
}

static kiln_status flush(ir_kernel *kernel, const void *context, kiln_error *err) {
  return kiln_flush(kernel, ((const knowledge *)context)->target, err);
}

static kiln_status expand(ir_kernel *kernel, const void *context, kiln_error *err) {
  return kiln_expand(kernel, ((const knowledge *)context)->target, err);
}

static kiln_status licm(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, (void)err, kiln_licm(kernel), KILN_OK;
}

static kiln_status narrow(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, (void)err, kiln_narrow(kernel), KILN_OK;
}

static kiln_status guard(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, (void)err, kiln_guard(kernel), KILN_OK;
}

const ir_pass kiln_middle_passes[] = {
    {"canonical", name_operations}, // what the front end gave
    {"open-views", open_views},
    {"unit-axes", drop_unit_axes},
    {"grid", limit_grid},
    {"recover", recover_views},
    {"promote", promote_views},
    {"views", views},
    {"simplify", simplify},
    {"flush", flush},
    {"expand", expand},
    {"licm", licm},
    {"narrow", narrow},
    {"simplify-narrow", simplify},
    {"guard", guard},
    {"simplify-last", simplify},
};
const size_t kiln_middle_pass_count = sizeof kiln_middle_passes / sizeof *kiln_middle_passes;

kiln_status kiln_middle_promoting(ir_kernel *kernel, const kiln_target *target, kiln_promotion promote,
                                  const ir_pass_options *options, kiln_error *err) {
  const knowledge context = {target, promote};
  kiln_float_all was = kiln_float_enter_all(); // constants are folded
  kiln_status status =
      ir_run_passes(kiln_middle_passes, kiln_middle_pass_count, kernel, &context, options, err);
  kiln_float_leave_all(&was);
  return status;
}

kiln_status kiln_middle_with(ir_kernel *kernel, const kiln_target *target, const ir_pass_options *options,
                             kiln_error *err) {
  return kiln_middle_promoting(kernel, target, (kiln_promotion){0}, options, err);
}

kiln_status kiln_middle(ir_kernel *kernel, const kiln_target *target, kiln_error *err) {
  return kiln_middle_with(kernel, target, &(ir_pass_options){0}, err);
}
