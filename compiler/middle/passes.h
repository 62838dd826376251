// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every pass of the middle, one file each. A pass returns whether it changed anything, or a status when it
// can fail. All keep a verified kernel verified and are deterministic: no result depends on addresses or hash
// order.
#ifndef KILN_COMPILER_MIDDLE_PASSES_H
#define KILN_COMPILER_MIDDLE_PASSES_H

#include "compiler/ir.h"
#include "targets/targets.h"

// What canonicalisation is made of.
bool kiln_fold(ir_kernel *kernel);     ///< constants, identities that are exact, splats moved outwards
bool kiln_contract(ir_kernel *kernel); ///< multiply and add of floats become fma; nothing when fp_strict
bool kiln_control(
    ir_kernel *kernel); ///< constant branches, loops of zero or one trip, values that loops only pass on
bool kiln_cse(ir_kernel *kernel); ///< equal pure operations become one
bool kiln_dce(ir_kernel *kernel); ///< what nobody needs goes, also results and carried values

/// fold, control, CSE and DCE until nothing changes, a bounded number of times.
void kiln_simplify(ir_kernel *kernel);

// What targets need.
bool kiln_licm(ir_kernel *kernel);   ///< scalars and dear tiles leave loops that do not change them
bool kiln_narrow(ir_kernel *kernel); ///< 64-bit offsets and comparisons become 32-bit where ranges prove it;
                                     ///< masks that always hold go
bool kiln_guard(
    ir_kernel *kernel); ///< no division by zero, no overflowing division, no shift count beyond the width
kiln_status
kiln_split_views(ir_kernel *kernel,
                 kiln_error *err); ///< views carried by loops or yielded by branches become their parts
kiln_status kiln_lower_views(ir_kernel *kernel, kiln_error *err); ///< views become pointers and masks
kiln_status kiln_flush(ir_kernel *kernel, const kiln_target *target,
                       kiln_error *err); ///< `@fp(ftz)` as operations, where no mode does it
kiln_status kiln_expand(ir_kernel *kernel, const kiln_target *target,
                        kiln_error *err); ///< what the target lacks becomes what it has

#endif
