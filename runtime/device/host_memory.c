// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements memory and streams for devices that run on the host, `host` and `null`.
#include "runtime/device/host_memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 }; // what the GPU drivers give

// The address of the block that malloc gave stands before the memory. aligned_alloc looks for more than it keeps, so
// in glibc what is freed serves no later request of its size, and a program that takes and frees one array
// in turn would grow to many.
_Static_assert(_Alignof(max_align_t) >= sizeof(void *), "a block's address has room in front of the memory");

kiln_status kiln_host_memory_alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  (void)d;
  char *block = size > SIZE_MAX - ALIGNMENT ? NULL : malloc(size + ALIGNMENT);
  if (!block) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%zu bytes on the host", size);
  char *memory = block + ALIGNMENT - (uintptr_t)block % ALIGNMENT;
  memcpy(memory - sizeof block, &block, sizeof block);
  *out = memory;
  return KILN_OK;
}

void kiln_host_memory_release(kiln_device *d, void *memory) {
  (void)d;
  void *block;
  memcpy(&block, (char *)memory - sizeof block, sizeof block);
  free(block);
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
