// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The digest by which the cache knows the bytes of a source again: BLAKE3, of the implementation that LLVM
// brings. A hit spends most of its own time on it, and it takes a fifth of BLAKE2b's. It is part of keys that
// stay on this machine (bundle_memo.h, compile.c) and of no other.
#ifndef KILN_TOOLS_BUILD_SOURCE_DIGEST_H
#define KILN_TOOLS_BUILD_SOURCE_DIGEST_H

#include <stdbool.h>

#include "base/digest.h"

kiln_digest source_digest_of(const void *bytes, size_t size);
/// Of a regular file of 1 to `most` bytes, read by pieces into the same few pages of memory. False for
/// anything else, which may be readable only once, and for what cannot be read.
bool source_digest_of_file(const char *path, size_t most, kiln_digest *out);

#endif
