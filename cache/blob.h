// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counted bytes: what an entry that was handed out holds on to, whatever happens to the cache meanwhile.
// Thread safe.
#ifndef KILN_CACHE_BLOB_H
#define KILN_CACHE_BLOB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kiln_blob {
  atomic_uint references;
  size_t size;
  uint8_t bytes[];
} kiln_blob;

/// With one reference; NULL when memory is exhausted.
kiln_blob *kiln_blob_create(size_t size);
kiln_blob *kiln_blob_retain(kiln_blob *blob);
/// NULL is allowed.
void kiln_blob_release(kiln_blob *blob);

#endif
