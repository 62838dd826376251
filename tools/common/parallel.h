// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work on large memory, split into parts among as many threads as there are processors.
#ifndef KILN_TOOLS_COMMON_PARALLEL_H
#define KILN_TOOLS_COMMON_PARALLEL_H

#include <stdint.h>

/// Elements per part.
enum { CLI_CHUNK = 1 << 20 };

/// Calls `look` once for each part of `count` elements, with its first element and the one after its last;
/// returns when all are done. The result must not depend on the order of the parts.
void cli_parallel_for(uint64_t count, void (*look)(void *context, uint64_t from, uint64_t to), void *context);

#endif
