// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The linker in process. lld has a C++ interface only; this header is all that C sees of it.
#ifndef KILN_COMPILER_CODEGEN_LLD_SHIM_H
#define KILN_COMPILER_CODEGEN_LLD_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Runs ld.lld with `args` (args[0] is "ld.lld"). True when it succeeded; what it printed is in `text`, cut
/// to `capacity` with a NUL. Sets
/// `*out_usable` to false when lld crashed inside and must not be called again in this process. Not thread
/// safe: the caller holds a lock.
bool kiln_lld_run(const char *const *args, size_t arg_count, char *text, size_t capacity, bool *out_usable);

#ifdef __cplusplus
}
#endif
#endif
