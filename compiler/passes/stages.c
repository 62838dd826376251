// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of passes: how one of them runs, is checked and is printed, and how those that are left run on a kernel at any
// stage.
#include "compiler/passes/stages.h"

#include <string.h>

#include "base/float_state.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/pass.h"

// -------------------------------------------------------------------------------------------------- one pass

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
  // Functions stand in code, not in the table: each start of the program pays for pages with pointers.
  kiln_status status;
  ptrdiff_t row = pass - kiln_passes;
  if (pass->run) status = pass->run(kernel, context, err);
#define ROUND(name, function, when, text)
#define PASS(name, function, when, needs, leaves, text) \
  else if (!row--) status = kiln_pass_##function(kernel, context, err);
#include "compiler/passes/passes.def"
  else status = kiln_fail(err, KILN_STATUS_INTERNAL, "pass '%s' has no row", pass->name);
  if (status != KILN_OK) return status;
  if (options->verify || check_all) KILN_TRY(verify(pass, kernel, context, options->printed, err));
  const char *wanted = options->print_after;
  if (!options->printed || !wanted || (strcmp(wanted, "all") && strcmp(wanted, pass->name))) return KILN_OK;
  if (options->show) options->show(options->shown, pass, kernel, options->printed);
  else ir_print(kernel, NULL, options->printed);
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------- all that are left

kiln_status kiln_check_pass_name(const char *name, kiln_error *err) {
  kiln_buffer names = {0};
  if (!name || !strcmp(name, "all") || !strcmp(name, KILN_STAGE_LLVM) || kiln_find_pass(name)) return KILN_OK;
  for (size_t i = 0; i < kiln_pass_count; i++) kiln_buffer_format(&names, "%s, ", kiln_passes[i].name);
  kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
            "no pass is called '%.40s'; expected one of all, %.*s" KILN_STAGE_LLVM, name, (int)names.size,
            (const char *)names.bytes);
  kiln_buffer_deinit(&names);
  return KILN_STATUS_INVALID_ARGUMENT;
}

/// Which of the passes for GPUs the kernel goes through; ALL: none, since the target has no warps. Asked when
/// the passes of lower/ have run: the passes for one kind of kernel make the operations of the other, so the
/// last one tells.
static kiln_pass_when kind_of(const kiln_stage *stage, ir_kernel *kernel) {
  if (stage->pass && stage->pass->when != KILN_WHEN_ALL && stage->pass->when != KILN_WHEN_GPUS)
    return stage->pass->when == KILN_WHEN_MAPPED ? KILN_WHEN_MAPPED : KILN_WHEN_PLAIN;
  if (kiln_gpu_has_mapped(kernel)) return KILN_WHEN_MAPPED;
  return stage->target.wave > 1 ? KILN_WHEN_PLAIN : KILN_WHEN_ALL;
}

static bool is_for(const kiln_pass *pass, kiln_pass_when kind, const kiln_pass_context *context) {
  switch (pass->when) {
  case KILN_WHEN_ALL: return true;
  case KILN_WHEN_MAPPED: return kind == KILN_WHEN_MAPPED;
  case KILN_WHEN_PLAIN: return kind == KILN_WHEN_PLAIN;
  case KILN_WHEN_BUFFERS: return kind == KILN_WHEN_PLAIN && context->machine.has_buffers;
  case KILN_WHEN_GPUS: return kind != KILN_WHEN_ALL;
  }
  return false;
}

static kiln_status refuse_until(const kiln_stage_run *run, const char *why, kiln_error *err) {
  char name[KILN_TARGET_NAME];
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "pass '%.40s' %s for %s", run->until, why,
                   kiln_target_name(&run->stage->target, name));
}

static void show(const void *context, const kiln_pass *pass, ir_kernel *kernel, kiln_buffer *out) {
  kiln_stage at = *(const kiln_stage *)context;
  at.pass = pass;
  kiln_stage_print(&at, kernel, out);
}

static kiln_status run_passes(const kiln_stage_run *run, ir_kernel *kernel, kiln_error *err) {
  kiln_stage *stage = run->stage;
  kiln_pass_context context = kiln_pass_context_of(&stage->target);
  context.refusals = &stage->refusals, context.mapping = run->mapping;
  const kiln_pass_options options = {.verify = run->verify,
                                     .print_after = run->print_after,
                                     .show = show,
                                     .shown = stage,
                                     .printed = run->printed};
  const kiln_pass *until = run->until ? kiln_find_pass(run->until) : NULL;
  kiln_pass_when kind =
      stage->pass && stage->pass->leaves >= KILN_FORM_LEGAL ? kind_of(stage, kernel) : KILN_WHEN_ALL;
  if (until && stage->pass && stage->pass >= until && is_for(until, kind, &context))
    return refuse_until(run, "has run on this kernel", err);
  for (const kiln_pass *pass = stage->pass ? stage->pass + 1 : kiln_passes;
       pass < kiln_passes + kiln_pass_count && !(until && stage->pass == until); pass++) {
    const bool is_first = pass->when != KILN_WHEN_ALL && (!stage->pass || stage->pass->when == KILN_WHEN_ALL);
    if (is_first) kind = kind_of(stage, kernel);
    if (!is_for(pass, kind, &context)) continue;
    if (is_first) KILN_TRY(ir_verify(kernel, stage->pass ? stage->pass->name : "front", err));
    KILN_ASSERT((stage->pass ? stage->pass->leaves : KILN_FORM_CANONICAL) >= pass->needs);
    KILN_TRY(kiln_run_pass(pass, kernel, &context, &options, err));
    stage->pass = pass;
  }
  if (run->until && stage->pass != until) return refuse_until(run, "does not run on this kernel", err);
  ir_fault fault;
  kiln_status status = ir_verify_fault(kernel, stage->pass->name, &fault, err);
  if (status != KILN_OK && run->printed) ir_print(kernel, &fault, run->printed);
  return status;
}

// Constants are folded in the environment that programs run in, not in the caller's.
kiln_status kiln_stage_finish(const kiln_stage_run *run, ir_kernel *kernel, kiln_error *err) {
  kiln_float_all was = kiln_float_enter_all();
  kiln_status status = run_passes(run, kernel, err);
  kiln_float_leave_all(&was);
  return status;
}

kiln_status kiln_lower(ir_kernel *kernel, const kiln_target *target, kiln_error *err) {
  kiln_stage stage = {.target = *target, .refusals = {.arena = kernel->arena}};
  const kiln_stage_run run = {.stage = &stage, .until = "simplify-last"};
  return kiln_stage_finish(&run, kernel, err);
}
