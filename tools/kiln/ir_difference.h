// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where two canonical kernels part, as text.
#ifndef KILN_TOOLS_KILN_IR_DIFFERENCE_H
#define KILN_TOOLS_KILN_IR_DIFFERENCE_H

#include "cache/cache.h"

/// For kiln_cache_explain: prints both kernels in the kernel language and appends the first lines in which
/// they differ, of each side, and how many more there are. Says nothing about other fields and about bytes
/// that are no canonical kernel.
void ir_difference(const kiln_key_part *here, const kiln_key_part *there, kiln_buffer *out);

#endif
