// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processor that this program runs on, in LLVM's words. Thread safe; no LLVM.
#ifndef KILN_TARGETS_NATIVE_CPU_H
#define KILN_TARGETS_NATIVE_CPU_H

#include "targets/targets.h"

/// The row that stands for this machine: called "native", with arch, cpu, vector_bytes and level of what it
/// can do. Static.
const kiln_processor *kiln_native_processor(void);
/// Its features that a code generator may use, "+avx,+avx2,...", in sorted order; "" where the baseline says
/// all.
const char *kiln_native_features(char out[KILN_TARGET_FEATURES]);

#endif
