// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lists of passes that give a kernel its GPU form, behind those of the middle.
#include "compiler/passes/gpu/layouts/layouts.h"
#include "compiler/passes/canonical/simplify.h"

/// What the passes of the form know besides the kernel.
typedef struct knowledge {
  const kiln_target *target;
  kiln_refusals *refusals;
} knowledge;

static kiln_status persist(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_persist(kernel, err);
}

static kiln_status split(ir_kernel *kernel, const void *context, kiln_error *err) {
  return kiln_gpu_split(kernel, ((const knowledge *)context)->target, err);
}

static kiln_status roles(ir_kernel *kernel, const void *context, kiln_error *err) {
  const knowledge *k = context;
  return kiln_gpu_roles(kernel, k->target, k->refusals, err);
}

static kiln_status order(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_order_products(kernel, err);
}

static kiln_status late_waits(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_late_waits(kernel, err);
}

static kiln_status compute_ahead(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_compute_ahead(kernel, err);
}

static kiln_status quotients(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_carry_quotients(kernel, err);
}

static kiln_status between(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_between(kernel, err);
}

static kiln_status simplify(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, (void)err, kiln_simplify(kernel), KILN_OK;
}

static kiln_status layouts_for(ir_kernel *kernel, const kiln_target *target, kiln_error *err) {
  const kiln_fetch_machine machine = kiln_fetch_machine_of(target);
  return kiln_gpu_layouts(kernel, &machine, err);
}

static kiln_status layouts_of_form(ir_kernel *kernel, const void *context, kiln_error *err) {
  return layouts_for(kernel, ((const knowledge *)context)->target, err);
}

static kiln_status conversions(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_conversions(kernel, err);
}

static kiln_status order_memory(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)context, kiln_gpu_order_memory(kernel, err);
}

const ir_pass kiln_gpu_passes[] = {
    {"persist", persist},
    {"split", split},
    {"roles", roles},
    {"order", order},
    {"wait", late_waits},
    {"ahead", compute_ahead},
    {"quotients", quotients},
    {"between", between},
    {"simplify-order", simplify},
    {"layouts", layouts_of_form, kiln_layouts_verify},
    {"conversions", conversions, kiln_conversions_verify},
    {"memory-order", order_memory},
};
const size_t kiln_gpu_pass_count = sizeof kiln_gpu_passes / sizeof *kiln_gpu_passes;

// Addresses in parts are for processors that add them.
static bool wants_parts(const void *target) { return kiln_fetch_machine_of(target).has_buffers; }

static kiln_status carry(ir_kernel *kernel, const void *target, kiln_error *err) {
  return (void)err, wants_parts(target) ? kiln_gpu_carry_scalars(kernel) : KILN_OK;
}

static kiln_status near(ir_kernel *kernel, const void *target, kiln_error *err) {
  return (void)err, wants_parts(target) ? kiln_gpu_bring_near(kernel) : KILN_OK;
}

static kiln_status simplify_parts(ir_kernel *kernel, const void *target, kiln_error *err) {
  return wants_parts(target) ? simplify(kernel, target, err) : KILN_OK;
}

static kiln_status fetch(ir_kernel *kernel, const void *target, kiln_error *err) {
  const kiln_fetch_machine machine = kiln_fetch_machine_of(target);
  return kiln_gpu_fetch(kernel, &machine, err);
}

static kiln_status slots(ir_kernel *kernel, const void *target, kiln_error *err) {
  const kiln_fetch_machine machine = kiln_fetch_machine_of(target);
  return kiln_gpu_slots(kernel, &machine, err);
}

static kiln_status prefetch(ir_kernel *kernel, const void *target, kiln_error *err) {
  const kiln_fetch_machine machine = kiln_fetch_machine_of(target);
  return kiln_gpu_prefetch(kernel, &machine, err);
}

static kiln_status dies(ir_kernel *kernel, const void *target, kiln_error *err) {
  const kiln_fetch_machine machine = kiln_fetch_machine_of(target);
  return kiln_gpu_order_for_dies(kernel, &machine, err);
}

static kiln_status layouts(ir_kernel *kernel, const void *target, kiln_error *err) {
  return layouts_for(kernel, target, err);
}

const ir_pass kiln_gpu_register_passes[] = {
    {"carry", carry},
    {"simplify-carry", simplify_parts},
    {"near", near},
    {"simplify-near", simplify_parts},
    {"fetch", fetch},
    {"slots", slots},
    {"prefetch", prefetch},
    {"dies", dies},
    {"between", between},
    {"simplify-prefetch", simplify},
    {"layouts", layouts, kiln_layouts_verify},
    {"conversions", conversions, kiln_conversions_verify},
    {"memory-order", order_memory},
};
const size_t kiln_gpu_register_pass_count =
    sizeof kiln_gpu_register_passes / sizeof *kiln_gpu_register_passes;

kiln_status kiln_gpu_register_form(ir_kernel *kernel, const kiln_target *target,
                                   const ir_pass_options *options, kiln_error *err) {
  return ir_run_passes(kiln_gpu_register_passes, kiln_gpu_register_pass_count, kernel, target, options, err);
}

kiln_status kiln_gpu_form(ir_kernel *kernel, const kiln_target *target, kiln_refusals *refusals,
                          const ir_pass_options *options, kiln_error *err) {
  const knowledge context = {target, refusals};
  return ir_run_passes(kiln_gpu_passes, kiln_gpu_pass_count, kernel, &context, options, err);
}
