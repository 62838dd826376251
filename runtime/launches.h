// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands in place of a kernel's launch once it has scratch memory.
#ifndef KILN_RUNTIME_LAUNCHES_H
#define KILN_RUNTIME_LAUNCHES_H

#include "base/launches.h"
#include "runtime/device/device.h"
#include "runtime/launch.h"

struct kiln_launches {
  kiln_arena *arena;   // owned: everything here, this struct too
  kiln_interface note; // its params are the kernel's
  kiln_kernel *kernels[KILN_MOST_LAUNCHES];
};

/// Called for each launch in order, with the packed arguments of `kernel`, which live until it returns.
typedef kiln_status kiln_launches_visit(void *context, kiln_kernel *kernel, const uint8_t *block,
                                        kiln_error *err);
/// Finds what is launched in place of `k` for these arguments and scratch memory. `out_any`: something is;
/// otherwise (no scratch memory, less than wanted, no condition holds, one of them would be refused) the kernel
/// itself has to be.
kiln_status kiln_launches_decide(kiln_kernel *k, const uint8_t *block, const void *scratch, size_t bytes,
                                 kiln_launches_visit *visit, void *context, bool *out_any, kiln_error *err);
/// Loads the code of the kernels that may be launched in place of `k`.
kiln_status kiln_launches_load(kiln_kernel *k, kiln_error *err);
/// NOT_FOUND: none can stand in its place.
kiln_status kiln_launches_find(kiln_kernel *k, kiln_error *err);

#endif
