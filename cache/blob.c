// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements byte blocks with a reference count, which an entry that was handed out keeps alive.
#include "cache/blob.h"

#include <stdlib.h>

kiln_blob *kiln_blob_create(size_t size) {
  if (size > SIZE_MAX - sizeof(kiln_blob)) return NULL;
  kiln_blob *blob = malloc(sizeof *blob + size);
  if (!blob) return NULL;
  atomic_init(&blob->references, 1);
  blob->size = size;
  return blob;
}

kiln_blob *kiln_blob_retain(kiln_blob *blob) {
  atomic_fetch_add_explicit(&blob->references, 1, memory_order_relaxed);
  return blob;
}

void kiln_blob_release(kiln_blob *blob) {
  if (blob && atomic_fetch_sub_explicit(&blob->references, 1, memory_order_acq_rel) == 1) free(blob);
}
