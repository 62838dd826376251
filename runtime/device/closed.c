// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the device that remains after kiln_device_close, and after a fork for a GPU's device in the
// child: every call returns a status. The launch path needs no test for it, since it calls the kind of its
// device anyway.
#include <stdlib.h>

#include "runtime/device/device.h"

static kiln_status refuse(const kiln_device *d, kiln_error *err) {
  if (d->is_closed) return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "device '%s' is closed", d->name);
  return kiln_fail(err, KILN_STATUS_DRIVER,
                   "device '%s' was opened before this process was forked, and GPU drivers do not follow a "
                   "fork; start processes anew (spawn) and open the device there",
                   d->name);
}

kiln_status kiln_device_check(const kiln_device *d, kiln_error *err) {
  return d->kind->is_gone ? refuse(d, err) : KILN_OK;
}

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                        kiln_error *err) {
  return (void)code, (void)bytes, (void)out, refuse(d, err);
}
static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  return (void)call, refuse(d, err);
}
static kiln_status encode_map(kiln_device *d, const struct kiln_tensor_map_values *values, void *out,
                              kiln_error *err) {
  return (void)values, (void)out, refuse(d, err);
}
static kiln_status stream_create(kiln_device *d, kiln_stream *out, kiln_error *err) {
  return *out = NULL, refuse(d, err);
}
static kiln_status sync(kiln_device *d, kiln_stream stream, kiln_error *err) {
  return (void)stream, refuse(d, err);
}
static kiln_status alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  return (void)size, (void)out, refuse(d, err);
}
static kiln_status copy(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  return (void)to, (void)from, (void)size, refuse(d, err);
}
static kiln_status fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err) {
  return (void)memory, (void)byte, (void)size, refuse(d, err);
}
static void stream_destroy(kiln_device *d, kiln_stream stream) { (void)d, (void)stream; }
// Memory of the host is the process's and does not end with a device.
static void release(kiln_device *d, void *memory) {
  if (d->own->outlives) d->own->release(d, memory);
}
static void unload(kiln_device *d, kiln_module *module) { (void)d, (void)module; }
static void close_gone(kiln_device *d) { free(d->state); }

const kiln_device_kind kiln_device_gone = {
    .name = "gone",
    .is_gone = true,
    .close = close_gone,
    .load = load,
    .unload = unload,
    .launch = launch,
    .encode_map = encode_map,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .sync = sync,
    .alloc = alloc,
    .release = release,
    .copy_in = copy,
    .copy_out = copy,
    .fill = fill,
};
