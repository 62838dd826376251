// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows where two canonical kernels differ, as text.
#ifndef KILN_TOOLS_KILN_IR_DIFFERENCE_H
#define KILN_TOOLS_KILN_IR_DIFFERENCE_H

#include "cache/cache.h"

/// For kiln_cache_explain: prints both kernels in the kernel language and appends the first lines that
/// differ, from each side, and how many more there are. Appends nothing for other fields, or for bytes that
/// are not a canonical kernel.
void ir_difference(const kiln_key_part *here, const kiln_key_part *there, kiln_buffer *out);

#endif
