// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What happens to a canonical kernel before a back end lowers it: one list of passes.
//
// Afterwards: no views (parameters of view type are base, extents and strides one by one, at the same places
// in the argument block), no operation that legality.def calls expanded, no unused code; the kernel verifies.
#ifndef KILN_COMPILER_PASSES_LOWER_PIPELINE_H
#define KILN_COMPILER_PASSES_LOWER_PIPELINE_H

#include "compiler/ir/pass.h"
#include "compiler/report.h"
#include "targets/targets.h"

/// The list, in order. `canonical` changes nothing: it is the kernel as the front end gave it.
extern const ir_pass kiln_middle_passes[];
extern const size_t kiln_middle_pass_count;

/// Changes `kernel` in place. Errors: UNSUPPORTED (operation and type on this target), INTERNAL (verifier,
/// names the pass).
kiln_status kiln_middle(ir_kernel *kernel, const kiln_target *target, kiln_error *err);
kiln_status kiln_middle_with(ir_kernel *kernel, const kiln_target *target, const ir_pass_options *options,
                             kiln_error *err);

/// What is done with accesses before views are lowered (compiler/passes/gpu/gpu.h); each may be NULL.
typedef struct kiln_promotion {
  /// Makes views of tiles of pointers.
  unsigned (*recover)(ir_kernel *kernel, const kiln_target *target, kiln_refusals *refusals);
  /// Marks those that stay as they are.
  unsigned (*mark)(ir_kernel *kernel, const kiln_target *target, kiln_refusals *refusals);
  kiln_refusals *refusals; ///< borrowed
} kiln_promotion;
kiln_status kiln_middle_promoting(ir_kernel *kernel, const kiln_target *target, kiln_promotion promote,
                                  const ir_pass_options *options, kiln_error *err);

#endif
