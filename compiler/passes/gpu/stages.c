// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lists of passes as one way, and going on from any place of it.
#include "compiler/passes/gpu/stages.h"

#include <string.h>

#include "compiler/passes/gpu/gpu.h"

const kiln_pass_rows kiln_pass_lists[KILN_PASS_LISTS] = {
    [KILN_PASSES_MIDDLE] = {"middle", kiln_middle_passes, &kiln_middle_pass_count},
    [KILN_PASSES_ROLES] = {"roles", kiln_gpu_passes, &kiln_gpu_pass_count},
    [KILN_PASSES_REGISTERS] = {"registers", kiln_gpu_register_passes, &kiln_gpu_register_pass_count},
};

static const ir_pass *find(kiln_pass_list list, const char *name) {
  const kiln_pass_rows *rows = &kiln_pass_lists[list];
  return ir_find_pass(rows->passes, *rows->count, name);
}

bool kiln_is_pass(const char *name) {
  for (unsigned i = 0; i < KILN_PASS_LISTS; i++)
    if (find((kiln_pass_list)i, name)) return true;
  return false;
}

void kiln_pass_names(kiln_buffer *out) {
  for (unsigned n = 0; n < KILN_PASS_LISTS; n++)
    for (size_t i = 0; i < *kiln_pass_lists[n].count; i++) {
      const char *name = kiln_pass_lists[n].passes[i].name;
      bool is_known = n == KILN_PASSES_REGISTERS && find(KILN_PASSES_ROLES, name);
      if (!is_known) kiln_buffer_format(out, n || i ? ", %s" : "%s", name);
    }
}

bool kiln_stage_is_behind(const kiln_stage *stage, const char *name) {
  if (!stage->pass) return false;
  const ir_pass *pass = find(stage->list, name), *last = find(stage->list, stage->pass);
  if (pass) return pass <= last;
  return stage->list != KILN_PASSES_MIDDLE && find(KILN_PASSES_MIDDLE, name);
}

// -------------------------------------------------------------------------------------- going on

typedef struct showing {
  const kiln_stage *stage;
  kiln_pass_list list;
} showing;

static void show(const void *context, const char *pass, ir_kernel *kernel, kiln_buffer *out) {
  const showing *s = context;
  kiln_stage at = *s->stage;
  at.list = s->list;
  at.pass = pass;
  kiln_stage_print(&at, kernel, out);
}

/// The passes of one list that are left.
static kiln_status run_list(const kiln_stage_run *run, kiln_pass_list list, ir_kernel *kernel,
                            kiln_error *err) {
  kiln_stage *stage = run->stage;
  const showing shown = {stage, list};
  const bool is_first = stage->pass && stage->list == list;
  const ir_pass_options options = {.start_after = is_first ? stage->pass : NULL,
                                   .print_after = run->print_after,
                                   .stop_after = run->until,
                                   .verify = run->verify,
                                   .show = show,
                                   .shown = &shown,
                                   .printed = run->printed};
  kiln_status status;
  if (list == KILN_PASSES_MIDDLE)
    status = kiln_middle_promoting(kernel, &stage->target, run->promotion, &options, err);
  else if (list == KILN_PASSES_ROLES)
    status = kiln_gpu_form(kernel, &stage->target, &stage->refusals, &options, err);
  else status = kiln_gpu_register_form(kernel, &stage->target, &options, err);
  stage->list = list;
  stage->pass = run->until && find(list, run->until)
                    ? run->until
                    : kiln_pass_lists[list].passes[*kiln_pass_lists[list].count - 1].name;
  return status;
}

static kiln_status refuse_until(const kiln_stage_run *run, const char *why, kiln_error *err) {
  char name[KILN_TARGET_NAME];
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "pass '%.40s' %s for %s", run->until, why,
                   kiln_target_name(&run->stage->target, name));
}

kiln_status kiln_stage_finish(const kiln_stage_run *run, ir_kernel *kernel, kiln_error *err) {
  kiln_stage *stage = run->stage;
  if (run->until && kiln_stage_is_behind(stage, run->until))
    return refuse_until(run, "has run on this kernel", err);
  if (!stage->pass || stage->list == KILN_PASSES_MIDDLE) {
    KILN_TRY(run_list(run, KILN_PASSES_MIDDLE, kernel, err));
    if (run->until && find(KILN_PASSES_MIDDLE, run->until)) return KILN_OK;
    const bool is_mapped = kiln_gpu_has_mapped(kernel);
    if (!is_mapped && !run->has_form)
      return run->until ? refuse_until(run, "does not run on this kernel", err) : KILN_OK;
    stage->list = is_mapped ? KILN_PASSES_ROLES : KILN_PASSES_REGISTERS;
    stage->pass = NULL;
  }
  if (run->until && !find(stage->list, run->until))
    return refuse_until(run, "does not run on this kernel", err);
  return run_list(run, stage->list, kernel, err);
}
