// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host as a device: objects are mapped by this library, the grid runs over a pool of threads and has ended when the launch returns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "runtime/host_loader.h"
#include "runtime/host_pool.h"

enum { MOST_THREADS = 4096 };

static kiln_status open_host(kiln_device *d, const char *rest, kiln_error *err) {
  char *end;
  unsigned long threads = *rest ? strtoul(rest, &end, 10) : 0;
  if (*rest && (*end || !threads || threads > MOST_THREADS))
    return kiln_fail(err, KILN_STATUS_NO_DEVICE, "'%s': expected host or host:THREADS with 1 to %d threads", d->name, MOST_THREADS);
  kiln_device_target_host(&d->target);
  kiln_host_pool *pool = kiln_host_pool_create((unsigned)threads);
  if (!pool) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  d->state = pool;
  snprintf(d->description, sizeof d->description, "%u threads", kiln_host_pool_threads(pool));
  return KILN_OK;
}

static void close_host(kiln_device *d) { kiln_host_pool_destroy(d->state); }

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out, kiln_error *err) {
  (void)d;
  if (code->info.format != KILN_FORMAT_HOST)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "code of format %u is not a host object", code->info.format);
  kiln_host_object *object = malloc(sizeof *object);
  if (!object) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = kiln_host_object_map(bytes->bytes, bytes->size, code->info.symbol, object, &out->function, err);
  if (status == KILN_OK) out->module = object;
  else free(object);
  return status;
}

static void unload(kiln_device *d, kiln_module *module) {
  (void)d;
  kiln_host_object_unmap(module->module);
  free(module->module);
}

static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  int32_t failed;
  kiln_host_kernel *kernel;
  memcpy(&kernel, &call->function, sizeof kernel);
  KILN_TRY(kiln_host_pool_run(d->state, kernel, call->block, call->grid, call->code->info.scratch_bytes, &failed, err));
  if (!failed) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_ASSERT, "'%s': assertion at operation %d does not hold", call->code->info.symbol, failed - 1);
}

static kiln_status stream_create(kiln_device *d, kiln_stream *out, kiln_error *err) {
  (void)err;
  *out = d->state; // launches end before they return: one stream is like another
  return KILN_OK;
}
static void stream_destroy(kiln_device *d, kiln_stream stream) { (void)d, (void)stream; }
static kiln_status sync(kiln_device *d, kiln_stream stream, kiln_error *err) {
  (void)d, (void)stream, (void)err;
  return KILN_OK;
}

static kiln_status alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  (void)d;
  enum { ALIGNMENT = 256 }; // what the GPU drivers give
  if (size > SIZE_MAX - ALIGNMENT || !(*out = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1))))
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%zu bytes on the host", size);
  return KILN_OK;
}
static void release(kiln_device *d, void *memory) {
  (void)d;
  free(memory);
}
static kiln_status copy(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  (void)d, (void)err;
  memcpy(to, from, size);
  return KILN_OK;
}
static kiln_status fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err) {
  (void)d, (void)err;
  memset(memory, byte, size);
  return KILN_OK;
}

const kiln_device_kind kiln_device_host = {
    .name = "host", .open = open_host, .close = close_host, .load = load, .unload = unload, .launch = launch,
    .stream_create = stream_create, .stream_destroy = stream_destroy, .sync = sync,
    .alloc = alloc, .release = release, .copy_in = copy, .copy_out = copy, .fill = fill,
};
