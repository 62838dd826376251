// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory and streams of devices whose memory is the host's and whose launches have ended when they return:
// "host" and "null".
#ifndef KILN_RUNTIME_DEVICE_HOST_MEMORY_H
#define KILN_RUNTIME_DEVICE_HOST_MEMORY_H

#include "runtime/device/device.h"

kiln_status kiln_host_memory_alloc(kiln_device *d, size_t size, void **out, kiln_error *err);
void kiln_host_memory_release(kiln_device *d, void *memory);
kiln_status kiln_host_memory_copy(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err);
kiln_status kiln_host_memory_fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err);
/// One stream is like another: the device's state stands for it.
kiln_status kiln_host_stream_create(kiln_device *d, kiln_stream *out, kiln_error *err);
void kiln_host_stream_destroy(kiln_device *d, kiln_stream stream);
kiln_status kiln_host_stream_sync(kiln_device *d, kiln_stream stream, kiln_error *err);

#endif
