// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's target machines: made once a thread and target, kept. Thread safe.
#ifndef KILN_COMPILER_CODEGEN_LLVM_TARGET_H
#define KILN_COMPILER_CODEGEN_LLVM_TARGET_H

#include <llvm-c/TargetMachine.h>

#include "base/status.h"
#include "targets/targets.h"

/// Registers the back ends of LLVM; later calls do nothing.
void kiln_llvm_init(void);

/// A machine for `target` at level `optimise` (0..3), and its data layout. Both belong to the calling
/// thread's cache: valid until that thread ends or asks for KILN_LLVM_MACHINES other machines. TARGET when
/// this LLVM lacks triple or processor.
enum { KILN_LLVM_MACHINES = 32 };
kiln_status kiln_llvm_machine(const kiln_target *target, unsigned optimise, LLVMTargetMachineRef *out_machine,
                              const char **out_layout, kiln_error *err);

#endif
