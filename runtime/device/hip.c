// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements AMD devices through the HIP runtime.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/driver_library.h"
#include "runtime/launch.h"

// Every entry point returns a hipError_t, except the one that names them.
typedef struct hip_api {
#define REQUIRED(field, symbol, parameters) int(*field) parameters;
#define OPTIONAL REQUIRED
#include "runtime/device/hip_symbols.def"
#undef REQUIRED
#undef OPTIONAL
} hip_api;

static const char symbols[] =
#define REQUIRED(field, symbol, parameters) KILN_DRIVER_REQUIRED(symbol)
#define OPTIONAL(field, symbol, parameters) KILN_DRIVER_OPTIONAL(symbol)
#include "runtime/device/hip_symbols.def"
#undef REQUIRED
#undef OPTIONAL
    ;

typedef struct hip_state {
  hip_api api;
  int device;
} hip_state;

enum { COPY_IN = 1, COPY_OUT = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, PROPERTIES = 8192 };
#define PARAM_POINTER ((void *)1)
#define PARAM_SIZE ((void *)2)
#define PARAM_END ((void *)3)

/// `call` is where the entry point lies in the table.
static KILN_COLD kiln_status driver_failed(const hip_api *api, int result, size_t call, kiln_error *err) {
  const char *(*name_of)(int);
  memcpy(&name_of, &api->error_name, sizeof name_of);
  const char *name = name_of(result);
  return kiln_fail(err, KILN_STATUS_DRIVER, "%s: %s (%d)", kiln_driver_symbol_at(symbols, call),
                   name ? name : "unknown error", result);
}

// Makes our device current and remembers the one that was.
static int enter(const hip_state *s, int *out_old) {
  *out_old = s->device;
  int result = s->api.device_current(out_old);
  if (!result && *out_old != s->device) result = s->api.device_set(s->device);
  return result;
}

static void leave(const hip_state *s, int old) {
  if (old != s->device) s->api.device_set(old);
}

#define HIP_CALL(s, field, ...)                                                                 \
  do {                                                                                          \
    int hip_old, hip_result = enter(s, &hip_old);                                               \
    if (!hip_result) hip_result = (s)->api.field(__VA_ARGS__);                                  \
    leave(s, hip_old);                                                                          \
    if (hip_result) return driver_failed(&(s)->api, hip_result, offsetof(hip_api, field), err); \
  } while (0)

// "gfx942:sramecc+:xnack-" is somewhere in the properties; where, differs between releases of HIP, so look
// for it after the name (256 bytes).
static const char *find_arch(const char *properties) {
  for (size_t at = 256; at + 64 < PROPERTIES; at++)
    if (!memcmp(properties + at, "gfx", 3) && isdigit((unsigned char)properties[at + 3]))
      return properties + at;
  return NULL;
}

static kiln_status describe(kiln_device *d, hip_state *s, kiln_error *err) {
  char *properties = calloc(1, PROPERTIES + 1);
  int (*get)(void *, int) = s->api.properties_new ? s->api.properties_new : s->api.properties_old;
  if (!properties) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  kiln_status status = KILN_OK;
  int result = get ? get(properties, s->device) : 1;
  const char *arch = result ? NULL : find_arch(properties);
  if (!arch)
    status = kiln_fail(err, KILN_STATUS_NO_DEVICE,
                       "no HIP device '%s': the driver does not say what processor it is", d->name);
  else status = kiln_device_target_parse(arch, &d->target, err);
  snprintf(d->description, sizeof d->description, "%.120s", properties);
  free(properties);
  return status;
}

static kiln_status open_hip(kiln_device *d, const char *rest, kiln_error *err) {
  const char *const names[] = {"libamdhip64.so",
                               "libamdhip64.so.6",
                               "libamdhip64.so.7",
                               "libamdhip64.so.5",
                               "/opt/rocm/lib/libamdhip64.so",
                               NULL};
  const kiln_driver driver = {"hip", "HIP", names, symbols};
  int count = 0;
  hip_state *s = d->state = calloc(1, sizeof *s);
  if (!s) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  KILN_TRY(kiln_driver_open(&driver, d->name, rest, &s->api, &s->device, err));
  int result = s->api.init(0);
  if (!result) result = s->api.device_count(&count);
  if (result && result != NO_DEVICE && result != INVALID_DEVICE) {
    driver_failed(&s->api, result, offsetof(hip_api, init), err);
    return kiln_context(err, KILN_STATUS_NO_DEVICE, "no HIP device '%s'", d->name);
  }
  if (s->device >= count)
    return kiln_fail(err, KILN_STATUS_NO_DEVICE, "no HIP device '%s': the driver has %d", d->name, count);
  // The grid is counted in threads by the hardware, 32 bits an axis.
  for (unsigned axis = 0; axis < 3; axis++) d->grid_limit[axis] = INT32_MAX;
  return describe(d, s, err);
}

static void close_hip(kiln_device *d) { free(d->state); }

// -------------------------------------------------------------------------------------------- code

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                        kiln_error *err) {
  hip_state *s = d->state;
  int old, result = enter(s, &old);
  if (!result) result = s->api.module_load(&out->module, bytes->bytes);
  if (!result && (result = s->api.module_function(&out->function, out->module, code->info.symbol)))
    s->api.module_unload(out->module);
  leave(s, old);
  return result ? driver_failed(&s->api, result, offsetof(hip_api, module_load), err) : KILN_OK;
}

static void unload(kiln_device *d, kiln_module *module) {
  hip_state *s = d->state;
  int old;
  if (!enter(s, &old)) s->api.module_unload(module->module);
  leave(s, old);
}

static bool is_capturing(kiln_device *d, kiln_stream stream) {
  hip_state *s = d->state;
  int old, state = 0;
  if (!s->api.stream_capturing) return false;
  int result = enter(s, &old); // the default stream is the current device's
  if (!result) result = s->api.stream_capturing(stream, &state);
  leave(s, old);
  return !result && state;
}

/// A stream of another device is refused by name; the driver only says that a device is not valid.
static KILN_COLD kiln_status launch_failed(const kiln_device *d, const kiln_launch_call *call, int result,
                                           kiln_error *err) {
  const hip_state *s = d->state;
  const char *symbol = call->code->info.symbol;
  int its;
  if (call->stream && s->api.stream_device && !s->api.stream_device(call->stream, &its) && its != s->device)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s': expected a stream of %s, found one of hip:%d",
                     symbol, d->name, its);
  driver_failed(&s->api, result, offsetof(hip_api, launch), err);
  return kiln_context(err, KILN_STATUS_DRIVER, "'%s' on %s", symbol, d->name);
}

static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  hip_state *s = d->state;
  const kiln_code_info *info = &call->code->info;
  size_t size = call->size;
  void *extra[] = {PARAM_POINTER, (void *)call->block, PARAM_SIZE, &size, PARAM_END};
  if ((uint64_t)call->grid[0] * info->block_threads > UINT32_MAX)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %u blocks of %u threads; %s allows %u threads an axis",
                     info->symbol, call->grid[0], info->block_threads, d->name, UINT32_MAX);
  int old, result = enter(s, &old);
  if (!result)
    result = s->api.launch(call->function, call->grid[0], call->grid[1], call->grid[2], info->block_threads,
                           1, 1, info->dynamic_shared, call->stream, NULL, size ? extra : NULL);
  leave(s, old);
  return KILN_UNLIKELY(result) ? launch_failed(d, call, result, err) : KILN_OK;
}

// --------------------------------------------------------------------------------- streams, memory

static kiln_status stream_create(kiln_device *d, kiln_stream *out, kiln_error *err) {
  *out = NULL;
  HIP_CALL((hip_state *)d->state, stream_create, out);
  return KILN_OK;
}

static void stream_destroy(kiln_device *d, kiln_stream stream) {
  hip_state *s = d->state;
  int old;
  if (!enter(s, &old)) s->api.stream_destroy(stream);
  leave(s, old);
}

static kiln_status sync(kiln_device *d, kiln_stream stream, kiln_error *err) {
  HIP_CALL((hip_state *)d->state, stream_sync, stream);
  return KILN_OK;
}

static kiln_status alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  HIP_CALL((hip_state *)d->state, memory_alloc, out, size);
  return KILN_OK;
}

static void release(kiln_device *d, void *memory) {
  hip_state *s = d->state;
  int old;
  if (!enter(s, &old)) s->api.memory_free(memory);
  leave(s, old);
}

static kiln_status copy_in(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  HIP_CALL((hip_state *)d->state, copy, to, from, size, COPY_IN);
  return KILN_OK;
}

static kiln_status copy_out(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  HIP_CALL((hip_state *)d->state, copy, to, from, size, COPY_OUT);
  return KILN_OK;
}

static kiln_status fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err) {
  HIP_CALL((hip_state *)d->state, memory_set, memory, byte, size);
  HIP_CALL((hip_state *)d->state, stream_sync, NULL);
  return KILN_OK;
}

const kiln_device_kind kiln_device_hip = {
    .name = "hip",
    .open = open_hip,
    .close = close_hip,
    .load = load,
    .unload = unload,
    .is_capturing = is_capturing,
    .launch = launch,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .sync = sync,
    .alloc = alloc,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .fill = fill,
};
