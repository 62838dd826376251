// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The canonical form of a kernel, and the clean-up that passes are followed by.
#include "compiler/passes/canonical/simplify.h"

/// Rounds until nothing changes. Each round is linear; a chain that needs more than this many is left as far
/// as it got.
enum { MAX_ROUNDS = 32 };

static void to_fixed_point(ir_kernel *kernel, bool contract) {
  for (unsigned round = 0; round < MAX_ROUNDS; round++) {
    bool changed = kiln_fold(kernel);
    changed |= kiln_simplify_control(kernel);
    changed |= kiln_cse(kernel);
    changed |= kiln_dce(kernel);
    if (!changed) changed = kiln_part_offsets(kernel);
    if (!changed && contract) changed = kiln_contract(kernel);
    if (!changed) return;
  }
}

void kiln_simplify(ir_kernel *kernel) { to_fixed_point(kernel, false); }

void kiln_canonicalise(ir_kernel *kernel) { to_fixed_point(kernel, true); }
