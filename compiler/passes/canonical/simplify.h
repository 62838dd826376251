// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The canonical form of a kernel and what it is made of: passes that know no target, one file each. A pass
// returns whether it changed anything. All keep a verified kernel verified and are deterministic.
#ifndef KILN_COMPILER_PASSES_CANONICAL_SIMPLIFY_H
#define KILN_COMPILER_PASSES_CANONICAL_SIMPLIFY_H

#include "compiler/ir/ir.h"

/// Brings a kernel into canonical form in place: fold, contract (unless fp_strict), CSE, dead code.
/// Idempotent.
void kiln_canonicalise(ir_kernel *kernel);

bool kiln_fold(ir_kernel *kernel); ///< constants, identities that are exact, splats moved outwards
bool kiln_part_offsets(
    ir_kernel *kernel);                ///< uniform parts of offsets go to pointers, where sums do not wrap
bool kiln_contract(ir_kernel *kernel); ///< multiply and add of floats become fma; nothing when fp_strict
bool kiln_simplify_control(
    ir_kernel *kernel); ///< constant branches, loops of zero or one trip, values that loops only pass on
bool kiln_cse(ir_kernel *kernel); ///< equal pure operations become one
bool kiln_dce(ir_kernel *kernel); ///< what nobody needs goes, also results and carried values

/// fold, control, CSE and DCE until nothing changes, a bounded number of times.
void kiln_simplify(ir_kernel *kernel);

#endif
