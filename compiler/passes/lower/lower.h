// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every pass of the middle, one file each. A pass returns whether it changed anything, or a status when it
// can fail. All keep a verified kernel verified and are deterministic: no result depends on addresses or hash
// order.
#ifndef KILN_COMPILER_PASSES_LOWER_LOWER_H
#define KILN_COMPILER_PASSES_LOWER_LOWER_H

#include "compiler/ir/ir.h"
#include "compiler/passes/canonical/simplify.h"
#include "targets/targets.h"

// What targets need.
bool kiln_licm(ir_kernel *kernel);   ///< scalars and dear tiles leave loops that do not change them
bool kiln_narrow(ir_kernel *kernel); ///< 64-bit offsets and comparisons become 32-bit where ranges prove it;
                                     ///< masks that always hold go
bool kiln_guard(
    ir_kernel *kernel); ///< no division by zero, no overflowing division, no shift count beyond the width
kiln_status
kiln_split_views(ir_kernel *kernel,
                 kiln_error *err);       ///< views carried by loops or yielded by branches become their parts
void kiln_limit_grid(ir_kernel *kernel); ///< a grid that the launch tests, where offsets gain by it
kiln_status kiln_open_views(ir_kernel *kernel,
                            kiln_error *err); ///< view parameters and carried views become `view` operations
kiln_status kiln_drop_unit_axes(ir_kernel *kernel,
                                kiln_error *err); ///< axes along which a view's tile has one element
kiln_status kiln_lower_views(ir_kernel *kernel, kiln_error *err); ///< views become pointers and masks
kiln_status kiln_flush(ir_kernel *kernel, const kiln_target *target,
                       kiln_error *err); ///< `@fp(ftz)` as operations, where no mode does it
kiln_status kiln_expand(ir_kernel *kernel, const kiln_target *target,
                        kiln_error *err); ///< what the target lacks becomes what it has

#endif
