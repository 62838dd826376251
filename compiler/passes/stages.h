// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far a kernel has come on its way from the front end to a back end: after which pass, with what else the
// rest of the way depends on. A kernel at a stage is a text (.kir):
//
//   kir 2
//   target sm_90a
//   after guard plain
//   refused 12 map_align p3
//   refused others groups
//   kernel kiln_k ...                      as ir/text.h has it
//   module                                 lowered: LLVM's text of it, up to the end
//
// `after front`: no pass has run. docs/kir.md describes the text.
#ifndef KILN_COMPILER_PASSES_STAGES_H
#define KILN_COMPILER_PASSES_STAGES_H

#include "compiler/ir/text.h"
#include "compiler/passes/pass.h"

enum { KILN_TEXT_VERSION = 2 };

typedef struct kiln_stage {
  kiln_target target;
  const kiln_pass *pass; ///< the last one that has run; NULL: none
  bool is_plain;         ///< the kernel did not fit the form with roles: it does not take that any more
  bool is_wide; ///< it may have all registers of a processor that has some out of reach of most operations
  kiln_refusals refusals;
  /// The lowered kernel before LLVM's passes, as LLVM IR; borrowed of the text, whose line is `module_line`. NULL: it is not
  /// lowered yet.
  const char *module;
  size_t module_size;
  uint32_t module_line;
} kiln_stage;

/// Names the stage after lowering where passes are named (--until, --print-after).
#define KILN_STAGE_LLVM "llvm"

/// Whether --until or --print-after may name it; NULL: they name nothing. INVALID_ARGUMENT, with all names.
kiln_status kiln_check_pass_name(const char *name, kiln_error *err);

/// Appends the text.
void kiln_stage_print(const kiln_stage *stage, ir_kernel *kernel, kiln_buffer *out);
/// Reads one, whatever the bytes are, and verifies it. Errors: SOURCE, with `out_place` in the text.
kiln_status kiln_stage_read(kiln_arena *arena, const char *text, size_t size, kiln_stage *out_stage,
                            ir_kernel **out_kernel, ir_place *out_place, kiln_error *err);

/// What runs the passes that are left.
typedef struct kiln_stage_run {
  kiln_stage *stage;       ///< goes on with the kernel
  uint8_t mapping;         ///< KILN_MAP_*
  const char *until;       ///< the last pass to run; NULL: all
  const char *print_after; ///< kiln_pass_options
  bool verify;
  kiln_buffer *printed;
} kiln_stage_run;

/// Runs the passes that are left for the kernel, in the order of passes.def. The verifier runs after the last
/// one in any case, and before the first one that is for GPUs. Errors: those of passes; INVALID_ARGUMENT
/// where `until` is a pass that does not run on this kernel, or has run already.
kiln_status kiln_stage_finish(const kiln_stage_run *run, ir_kernel *kernel, kiln_error *err);

/// Runs the passes of lower/ on a canonical kernel, mapping nothing: afterwards it is in KILN_FORM_LEGAL.
/// What the reference interpreter runs to agree with a target bit for bit. Errors: UNSUPPORTED (operation and
/// type on this target), INTERNAL (verifier, names the pass).
kiln_status kiln_lower(ir_kernel *kernel, const kiln_target *target, kiln_error *err);

#endif
