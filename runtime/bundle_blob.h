// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decoding of blobs: the part of the bundle reader that knows zstd.
#ifndef KILN_RUNTIME_BUNDLE_BLOB_H
#define KILN_RUNTIME_BUNDLE_BLOB_H

#include "runtime/bundle_reader.h"

/// Frees decoder and dictionaries of a bundle that is being closed.
void kiln_bundle_forget_decoders(kiln_bundle *bundle);

#endif
