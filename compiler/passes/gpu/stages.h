// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far a kernel has come on its way from the front end to a back end: after which pass of which list, with
// what else the rest of the way depends on. A kernel at a stage is a text (.kir):
//
//   kir 1
//   target sm_90a
//   after middle.guard plain
//   refused 12 map_align p3
//   refused others groups
//   kernel kiln_k ...                      as ir/text.h has it
//
// `after front`: no pass has run. docs/kir.md describes the text.
#ifndef KILN_COMPILER_PASSES_GPU_STAGES_H
#define KILN_COMPILER_PASSES_GPU_STAGES_H

#include "compiler/ir/pass.h"
#include "compiler/ir/text.h"
#include "compiler/passes/lower/pipeline.h"
#include "compiler/report.h"
#include "targets/targets.h"

enum { KILN_TEXT_VERSION = 1 };

/// The lists of passes, in the order in which a kernel goes through them: the middle, then one of the others,
/// or none.
typedef enum kiln_pass_list {
  KILN_PASSES_MIDDLE,
  KILN_PASSES_ROLES,     ///< of kernels with accesses by tensor maps (kiln_gpu_passes)
  KILN_PASSES_REGISTERS, ///< of the others, for GPUs (kiln_gpu_register_passes)
  KILN_PASS_LISTS
} kiln_pass_list;

typedef struct kiln_pass_rows {
  const char *name;
  const ir_pass *passes;
  const size_t *count;
} kiln_pass_rows;
extern const kiln_pass_rows kiln_pass_lists[KILN_PASS_LISTS];

/// "canonical, open-views, ..." of all lists, each name once.
void kiln_pass_names(kiln_buffer *out);
/// Whether some list has the pass.
bool kiln_is_pass(const char *name);

typedef struct kiln_stage {
  kiln_target target;
  kiln_pass_list list;
  const char *pass; ///< the last one that has run, of the list; NULL: none of any
  bool is_plain;    ///< the kernel did not fit in the form with roles: it does not take that any more
  bool is_wide; ///< it may have all registers of a processor that has some out of reach of most operations
  kiln_refusals refusals;
} kiln_stage;

/// Whether pass `name` has run, or would have if the kernel were of its list.
bool kiln_stage_is_behind(const kiln_stage *stage, const char *name);

/// Appends the text.
void kiln_stage_print(const kiln_stage *stage, ir_kernel *kernel, kiln_buffer *out);
/// Reads one, whatever the bytes are, and verifies it. Errors: SOURCE, with `out_place` in the text.
kiln_status kiln_stage_read(kiln_arena *arena, const char *text, size_t size, kiln_stage *out_stage,
                            ir_kernel **out_kernel, ir_place *out_place, kiln_error *err);

/// What runs what is left of the lists.
typedef struct kiln_stage_run {
  kiln_stage *stage;        ///< goes on with the kernel
  kiln_promotion promotion; ///< of the middle
  bool has_form;            ///< the target has passes behind the middle
  const char *until;        ///< the last pass to run; NULL: all
  const char *print_after;  ///< ir_pass_options
  bool verify;
  kiln_buffer *printed;
} kiln_stage_run;

/// Runs the passes that are left. Errors: those of passes; INVALID_ARGUMENT where `until` is a pass that does
/// not run on this kernel, or has run already.
kiln_status kiln_stage_finish(const kiln_stage_run *run, ir_kernel *kernel, kiln_error *err);

#endif
