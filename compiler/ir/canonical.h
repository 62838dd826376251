// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stable bytes of a canonical kernel: what keys hash and workers read.
#ifndef KILN_COMPILER_IR_CANONICAL_H
#define KILN_COMPILER_IR_CANONICAL_H

#include "base/buffer.h"
#include "compiler/ir/ir.h"

/// The stable bytes of a canonical kernel: independent of names, places, comments and addresses. What keys
/// hash and workers read. False when the kernel holds operations of the machine stage: the bytes then stand
/// for nothing and decoding refuses them.
bool kiln_canonical_encode(ir_kernel *kernel, kiln_buffer *out);
/// The kernel back from its bytes; every size is checked, operations of the machine stage are refused. Its
/// parameters are named p0, p1, ...
kiln_status kiln_canonical_decode(kiln_arena *arena, const uint8_t *bytes, size_t size, const char *name,
                                  ir_kernel **out, kiln_error *err);
/// Version of the canonical encoding, a key field.
enum { KILN_CANONICAL_VERSION = 1 };

#endif
