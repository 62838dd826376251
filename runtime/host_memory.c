// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/host_memory.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 }; // what the GPU drivers give

kiln_status kiln_host_memory_alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  (void)d;
  *out = size > SIZE_MAX - ALIGNMENT
             ? NULL
             : aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
  return *out ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%zu bytes on the host", size);
}

void kiln_host_memory_release(kiln_device *d, void *memory) {
  (void)d;
  free(memory);
}

kiln_status kiln_host_memory_copy(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  (void)d, (void)err;
  memcpy(to, from, size);
  return KILN_OK;
}

kiln_status kiln_host_memory_fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err) {
  (void)d, (void)err;
  memset(memory, byte, size);
  return KILN_OK;
}

kiln_status kiln_host_stream_create(kiln_device *d, kiln_stream *out, kiln_error *err) {
  (void)err;
  *out = d->state;
  return KILN_OK;
}

void kiln_host_stream_destroy(kiln_device *d, kiln_stream stream) { (void)d, (void)stream; }

kiln_status kiln_host_stream_sync(kiln_device *d, kiln_stream stream, kiln_error *err) {
  (void)d, (void)stream, (void)err;
  return KILN_OK;
}
