// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the host as a device: this library maps the objects, and a pool of threads runs the grid,
// which has finished when the launch returns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/host_loader.h"
#include "runtime/device/host_memory.h"
#include "runtime/device/host_pool.h"
#include "runtime/refusal.h"

enum { MOST_THREADS = 4096 };

static kiln_status open_host(kiln_device *d, const char *rest, kiln_error *err) {
  char *end;
  unsigned long threads = *rest ? strtoul(rest, &end, 10) : 0;
  if (*rest && (*end || !threads || threads > MOST_THREADS))
    return kiln_fail(err, KILN_STATUS_NO_DEVICE, "'%s': expected host or host:THREADS with 1 to %d threads",
                     d->name, MOST_THREADS);
  kiln_device_target_host(&d->target);
  kiln_host_pool *pool = kiln_host_pool_create((unsigned)threads);
  if (!pool) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  d->state = pool;
  d->processors = kiln_host_pool_threads(pool);
  snprintf(d->description, sizeof d->description, "%u threads", kiln_host_pool_threads(pool));
  return KILN_OK;
}

static void close_host(kiln_device *d) { kiln_host_pool_destroy(d->state); }

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                        kiln_error *err) {
  (void)d;
  if (code->info.format != KILN_FORMAT_HOST)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "code of format %u is not a host object",
                     code->info.format);
  kiln_host_object *object = malloc(sizeof *object);
  if (!object) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = kiln_host_object_map(bytes->bytes, bytes->size, code->info.symbol, kiln_host_pool_wait,
                                            object, &out->function, err);
  if (status == KILN_OK) out->module = object;
  else free(object);
  return status;
}

static void unload(kiln_device *d, kiln_module *module) {
  (void)d;
  kiln_host_object_unmap(module->module);
  free(module->module);
}

// What would hang: as a launch that is too large to be on a GPU at once, when its programs wait for each
// other.
static kiln_status report_deadlock(kiln_device *d, const kiln_launch_call *call, const kiln_host_outcome *o,
                                   kiln_error *err) {
  const uint32_t *g = call->grid;
  return kiln_fail(err, KILN_STATUS_LAUNCH,
                   "'%s': %llu of the %llu programs of %u x %u x %u have started and wait for others, and no "
                   "thread of '%s' is left to start one (%u threads); what all programs wait for needs a "
                   "thread for each: host:%llu (%d is the most)",
                   call->code->info.symbol, (unsigned long long)o->stuck, (unsigned long long)o->total, g[0],
                   g[1], g[2], d->name, kiln_host_pool_threads(d->state), (unsigned long long)o->total,
                   MOST_THREADS);
}

static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  kiln_host_outcome o;
  kiln_host_kernel *kernel;
  memcpy(&kernel, &call->function, sizeof kernel);
  KILN_TRY(
      kiln_host_pool_run(d->state, kernel, call->block, call->grid, call->code->info.scratch_bytes, &o, err));
  if (o.failed) return kiln_refuse_assertion(d, call, o.failed, o.instance, err);
  return o.stuck ? report_deadlock(d, call, &o, err) : KILN_OK;
}

static void in_child(kiln_device *d) { kiln_host_pool_in_child(d->state); }

const kiln_device_kind kiln_device_host = {
    .name = "host",
    .outlives = true,
    .in_child = in_child,
    .open = open_host,
    .close = close_host,
    .load = load,
    .unload = unload,
    .launch = launch,
    .stream_create = kiln_host_stream_create,
    .stream_destroy = kiln_host_stream_destroy,
    .sync = kiln_host_stream_sync,
    .alloc = kiln_host_memory_alloc,
    .release = kiln_host_memory_release,
    .copy_in = kiln_host_memory_copy,
    .copy_out = kiln_host_memory_copy,
    .fill = kiln_host_memory_fill,
};
