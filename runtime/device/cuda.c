// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements NVIDIA devices through the driver API. The device's primary context is used, so that memory
// and streams of a framework in the same process work.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/driver_library.h"
#include "runtime/launch.h"
#include "runtime/tensor_map.h"

typedef struct cuda_api {
#define REQUIRED(field, symbol, parameters) int(*field) parameters;
#define OPTIONAL REQUIRED
#include "runtime/device/cuda_symbols.def"
#undef REQUIRED
#undef OPTIONAL
} cuda_api;

static const char symbols[] =
#define REQUIRED(field, symbol, parameters) KILN_DRIVER_REQUIRED(symbol)
#define OPTIONAL(field, symbol, parameters) KILN_DRIVER_OPTIONAL(symbol)
#include "runtime/device/cuda_symbols.def"
#undef REQUIRED
#undef OPTIONAL
    ;

typedef struct cuda_state {
  cuda_api api;
  int device;
  void *context; // retained
  int shared_limit;
} cuda_state;

// Numbers of the driver API's enumerations.
enum {
  ATTRIBUTE_GRID_X = 5,
  ATTRIBUTE_PROCESSORS = 16,
  ATTRIBUTE_GRID_Y = 6,
  ATTRIBUTE_GRID_Z = 7,
  ATTRIBUTE_MAJOR = 75,
  ATTRIBUTE_MINOR = 76,
  ATTRIBUTE_SHARED_OPTIN = 97,
  FUNCTION_MAX_DYNAMIC_SHARED = 8,
  JIT_ERROR_LOG = 5,
  JIT_ERROR_LOG_SIZE = 6,
  DEFAULT_SHARED = 48 << 10,
};
#define PARAM_END ((void *)0)
#define PARAM_POINTER ((void *)1)
#define PARAM_SIZE ((void *)2)

/// `call` is where the entry point lies in the table.
static KILN_COLD kiln_status driver_failed(const cuda_api *api, int result, size_t call, kiln_error *err) {
  const char *name = NULL, *text = NULL;
  api->error_name(result, &name);
  api->error_text(result, &text);
  return kiln_fail(err, KILN_STATUS_DRIVER, "%s: %s (%d): %s", kiln_driver_symbol_at(symbols, call),
                   name ? name : "unknown error", result, text ? text : "");
}

#define CUDA_TRY(api, field, ...)                                                            \
  do {                                                                                       \
    int cuda_result = (api)->field(__VA_ARGS__);                                             \
    if (cuda_result) return driver_failed(api, cuda_result, offsetof(cuda_api, field), err); \
  } while (0)

// The PTX ISA that a driver of this CUDA version takes, x 10 (PTX ISA manual, table of release notes).
static uint16_t ptx_of(int version) {
  int major = version / 1000, minor = version % 1000 / 10;
  switch (major) {
  case 10: return (uint16_t)(63 + minor);
  case 11: return (uint16_t)(70 + minor);
  case 12: return (uint16_t)(80 + minor - (minor >= 6));
  default: return (uint16_t)(major > 12 ? 90 + 10 * (major - 13) + minor : 60);
  }
}

static kiln_status describe(kiln_device *d, cuda_state *s, kiln_error *err) {
  int major, minor, version, processors, limits[3];
  char text[32];
  CUDA_TRY(&s->api, device_attribute, &major, ATTRIBUTE_MAJOR, s->device);
  CUDA_TRY(&s->api, device_attribute, &minor, ATTRIBUTE_MINOR, s->device);
  CUDA_TRY(&s->api, device_attribute, &s->shared_limit, ATTRIBUTE_SHARED_OPTIN, s->device);
  CUDA_TRY(&s->api, driver_version, &version);
  CUDA_TRY(&s->api, device_name, d->description, sizeof d->description, s->device);
  for (int axis = 0; axis < 3; axis++) {
    CUDA_TRY(&s->api, device_attribute, &limits[axis], ATTRIBUTE_GRID_X + axis, s->device);
    d->grid_limit[axis] = (uint32_t)limits[axis];
  }
  CUDA_TRY(&s->api, device_attribute, &processors, ATTRIBUTE_PROCESSORS, s->device);
  d->processors = (uint32_t)processors;
  snprintf(text, sizeof text, "sm_%d", major * 10 + minor);
  KILN_TRY(kiln_device_target_parse(text, &d->target, err));
  d->target.driver_ptx = ptx_of(version);
  return KILN_OK;
}

const char *kiln_cuda_libraries[] = {"libcuda.so.1", "libcuda.so", NULL};

static kiln_status open_cuda(kiln_device *d, const char *rest, kiln_error *err) {
  const kiln_driver driver = {"cuda", "CUDA", kiln_cuda_libraries, symbols};
  int ordinal, count = 0;
  cuda_state *s = d->state = calloc(1, sizeof *s);
  if (!s) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  KILN_TRY(kiln_driver_open(&driver, d->name, rest, &s->api, &ordinal, err));
  int result = s->api.init(0);
  if (!result) result = s->api.device_count(&count);
  if (result) {
    driver_failed(&s->api, result, offsetof(cuda_api, init), err);
    return kiln_context(err, KILN_STATUS_NO_DEVICE, "no CUDA device '%s'", d->name);
  }
  if (ordinal >= count)
    return kiln_fail(err, KILN_STATUS_NO_DEVICE, "no CUDA device '%s': the driver has %d", d->name, count);
  CUDA_TRY(&s->api, device_get, &s->device, ordinal);
  KILN_TRY(describe(d, s, err));
  CUDA_TRY(&s->api, primary_retain, &s->context, s->device);
  return KILN_OK;
}

static void close_cuda(kiln_device *d) {
  cuda_state *s = d->state;
  if (s->context) s->api.primary_release(s->device);
  free(s);
}

// Makes our context current where it is not; `out_pushed` says whether leave() has to undo it.
static int enter(const cuda_state *s, bool *out_pushed) {
  void *current = NULL;
  *out_pushed = false;
  int result = s->api.context_current(&current);
  if (result || current == s->context) return result;
  result = s->api.context_push(s->context);
  *out_pushed = !result;
  return result;
}

static void leave(const cuda_state *s, bool pushed) {
  void *old;
  if (pushed) s->api.context_pop(&old);
}

/// Runs one driver call with our context current.
#define CUDA_CALL(s, field, ...)                                                                   \
  do {                                                                                             \
    bool cuda_pushed;                                                                              \
    int cuda_result = enter(s, &cuda_pushed);                                                      \
    if (!cuda_result) cuda_result = (s)->api.field(__VA_ARGS__);                                   \
    leave(s, cuda_pushed);                                                                         \
    if (cuda_result) return driver_failed(&(s)->api, cuda_result, offsetof(cuda_api, field), err); \
  } while (0)

// -------------------------------------------------------------------------------------------- code

// With our context current. PTX has to end in a NUL; its errors come in a log.
static int load_image(const cuda_state *s, const kiln_bytes *bytes, void **out, char *log, size_t log_size) {
  int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
  void *values[] = {log, (void *)(uintptr_t)log_size};
  char *image = malloc(bytes->size + 1);
  if (!image) return 2; // CUDA_ERROR_OUT_OF_MEMORY
  memcpy(image, bytes->bytes, bytes->size);
  image[bytes->size] = 0;
  int result = s->api.module_load(out, image, 2, options, values);
  free(image);
  return result;
}

static int find_function(const cuda_state *s, const kiln_code *code, kiln_module *out) {
  int result = s->api.module_function(&out->function, out->module, code->info.symbol);
  if (!result && code->info.dynamic_shared > DEFAULT_SHARED)
    result = s->api.function_set(out->function, FUNCTION_MAX_DYNAMIC_SHARED, (int)code->info.dynamic_shared);
  return result;
}

/// Where the first tensor map begins: no other parameter is as large. 1 (CUDA_ERROR_INVALID_VALUE) when there
/// is none; the driver is asked for no parameter after that one.
static int find_maps(const cuda_state *s, void *function, uint32_t *out_at) {
  size_t offset = 0, size = 0;
  for (size_t i = 0; size != KILN_MAP_BYTES; i++) {
    int result = s->api.param_info(function, i, &offset, &size);
    if (result) return result;
  }
  *out_at = (uint32_t)offset;
  return 0;
}

/// CUlaunchConfig of the driver API.
typedef struct launch_configuration {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned attribute_count;
} launch_configuration;

/// How many clusters of the code run at a time, 0 where the driver does not say. The code itself states how
/// many blocks each has. Clusters lie within a group of processors, whose number may be no multiple of
/// theirs.
static uint32_t count_clusters(const cuda_state *s, const kiln_code *code, void *function) {
  int count = 0;
  launch_configuration c = {.grid = {code->info.cluster, 1, 1},
                            .block = {code->info.block_threads, 1, 1},
                            .shared = code->info.dynamic_shared};
  if (code->info.cluster < 2 || !s->api.most_clusters) return 0;
  return s->api.most_clusters(&count, function, &c) || count < 0 ? 0 : (uint32_t)count;
}

static kiln_status alloc(kiln_device *d, size_t size, void **out, kiln_error *err) {
  uint64_t memory = 0;
  CUDA_CALL((cuda_state *)d->state, memory_alloc, &memory, size);
  *out = (void *)(uintptr_t)memory;
  return KILN_OK;
}

static kiln_status fill(kiln_device *d, void *memory, uint8_t byte, size_t size, kiln_error *err) {
  CUDA_CALL((cuda_state *)d->state, memory_set, (uintptr_t)memory, byte, size);
  CUDA_CALL((cuda_state *)d->state, stream_sync, NULL);
  return KILN_OK;
}

static kiln_status load(kiln_device *d, const kiln_code *code, const kiln_bytes *bytes, kiln_module *out,
                        kiln_error *err) {
  cuda_state *s = d->state;
  char log[500] = "";
  bool pushed;
  if (code->info.shared_bytes > (uint32_t)s->shared_limit)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%u bytes of shared memory; %s allows a block %d",
                     code->info.shared_bytes, d->name, s->shared_limit);
  if (code->map_count && !s->api.param_info)
    return kiln_fail(
        err, KILN_STATUS_UNSUPPORTED,
        "tensor maps; the driver of %s is older than CUDA 12.4 and does not say where it wants them",
        d->name);
  if (code->map_count && !d->nowhere) {
    KILN_TRY(alloc(d, KILN_NOWHERE_BYTES, &d->nowhere, err));
    KILN_TRY(fill(d, d->nowhere, 0, KILN_NOWHERE_BYTES, err));
  }
  int result = enter(s, &pushed);
  if (!result) result = load_image(s, bytes, &out->module, log, sizeof log - 1);
  if (!result && (result = find_function(s, code, out))) s->api.module_unload(out->module);
  if (!result && code->map_count && (result = find_maps(s, out->function, &out->maps_at)))
    s->api.module_unload(out->module);
  if (!result) out->clusters = count_clusters(s, code, out->function);
  leave(s, pushed);
  if (!result) return KILN_OK;
  driver_failed(&s->api, result, offsetof(cuda_api, module_load), err);
  for (char *c = log; *c; c++)
    if (*c == '\n') *c = ' ';
  return *log ? kiln_fail(err, KILN_STATUS_DRIVER, "the driver does not take the code (%d): %s", result, log)
              : KILN_STATUS_DRIVER;
}

static void unload(kiln_device *d, kiln_module *module) {
  cuda_state *s = d->state;
  bool pushed;
  if (!enter(s, &pushed)) s->api.module_unload(module->module);
  leave(s, pushed);
}

static bool is_capturing(kiln_device *d, kiln_stream stream) {
  cuda_state *s = d->state;
  bool pushed;
  int state = 0;
  if (!s->api.stream_capturing || enter(s, &pushed)) return false;
  int result = s->api.stream_capturing(stream, &state);
  leave(s, pushed);
  return !result && state;
}

/// The device whose context that is.
static int device_of(const cuda_state *s, void *context, int *out) {
  void *old;
  int result = s->api.context_push(context);
  if (result) return result;
  result = s->api.context_device(out);
  s->api.context_pop(&old);
  return result;
}

/// A stream of another context is refused by name; the driver only says that a handle is not valid.
static KILN_COLD __attribute__((noinline)) kiln_status
launch_failed(kiln_device *d, const kiln_launch_call *call, int result, kiln_error *err) {
  const cuda_state *s = d->state;
  const char *symbol = call->code->info.symbol;
  void *context = s->context;
  bool pushed;
  int its = -1;
  if (call->stream && s->api.stream_context && s->api.context_device && !enter(s, &pushed)) {
    bool is_other = !s->api.stream_context(call->stream, &context) && context != s->context;
    if (is_other && device_of(s, context, &its)) its = -1;
    leave(s, pushed);
  }
  if (its >= 0)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "'%s': expected a stream of %s, found one of %scuda:%d", symbol, d->name,
                     its == s->device ? "another context of " : "", its);
  driver_failed(&s->api, result, offsetof(cuda_api, launch), err);
  return kiln_context(err, KILN_STATUS_DRIVER, "'%s' on %s", symbol, d->name);
}

static inline __attribute__((always_inline)) int launch_now(const cuda_state *s,
                                                            const kiln_launch_call *call) {
  const kiln_code_info *info = &call->code->info;
  size_t size = call->size;
  void *extra[] = {PARAM_POINTER, (void *)call->block, PARAM_SIZE, &size, PARAM_END};
  return s->api.launch(call->function, call->grid[0], call->grid[1], call->grid[2], info->block_threads, 1, 1,
                       info->dynamic_shared, call->stream, NULL, size ? extra : NULL);
}

static KILN_COLD __attribute__((noinline)) int launch_elsewhere(const cuda_state *s,
                                                                const kiln_launch_call *call) {
  bool pushed;
  int result = enter(s, &pushed);
  if (!result) result = launch_now(s, call);
  leave(s, pushed);
  return result;
}

/// What is not needed where our context is current lies in functions of their own, so this one has less to save.
static kiln_status launch(kiln_device *d, const kiln_launch_call *call, kiln_error *err) {
  const cuda_state *s = d->state;
  void *current = NULL;
  bool is_ours = !s->api.context_current(&current) && current == s->context;
  int result = KILN_UNLIKELY(!is_ours) ? launch_elsewhere(s, call) : launch_now(s, call);
  return KILN_UNLIKELY(result) ? launch_failed(d, call, result, err) : KILN_OK;
}

// CUtensorMapDataType of each element type; 8-bit floats and i1 move as bytes.
static const uint8_t map_types[KILN_MAP_TF32 + 1] = {
    [KILN_I1] = 0,  [KILN_I8] = 0,  [KILN_E4M3] = 0, [KILN_E5M2] = 0, [KILN_I16] = 1,  [KILN_I32] = 3,
    [KILN_I64] = 5, [KILN_F16] = 6, [KILN_F32] = 7,  [KILN_F64] = 8,  [KILN_BF16] = 9, [KILN_MAP_TF32] = 11,
};

static kiln_status encode_map(kiln_device *d, const kiln_tensor_map_values *v, void *out, kiln_error *err) {
  enum { PROMOTE_128 = 2 };
  static const uint32_t element_strides[KILN_MAP_RANK] = {1, 1, 1, 1, 1};
  cuda_state *s = d->state;
  const kiln_tensor_map *m = v->map;
  if (!s->api.encode_tiled)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                     "the driver has no cuTensorMapEncodeTiled; it came with CUDA 12");
  CUDA_CALL(s, encode_tiled, out, map_types[m->element], m->rank, (void *)(uintptr_t)v->address, v->extents,
            v->strides, m->box, element_strides, m->interleave, m->swizzle, PROMOTE_128, m->fill);
  return KILN_OK;
}

// --------------------------------------------------------------------------------- streams, memory

static kiln_status stream_create(kiln_device *d, kiln_stream *out, kiln_error *err) {
  enum { NON_BLOCKING = 1 };
  *out = NULL;
  CUDA_CALL((cuda_state *)d->state, stream_create, out, NON_BLOCKING);
  return KILN_OK;
}

static void stream_destroy(kiln_device *d, kiln_stream stream) {
  cuda_state *s = d->state;
  bool pushed;
  if (!enter(s, &pushed)) s->api.stream_destroy(stream);
  leave(s, pushed);
}

static kiln_status sync(kiln_device *d, kiln_stream stream, kiln_error *err) {
  CUDA_CALL((cuda_state *)d->state, stream_sync, stream);
  return KILN_OK;
}

static void release(kiln_device *d, void *memory) {
  cuda_state *s = d->state;
  bool pushed;
  if (!enter(s, &pushed)) s->api.memory_free((uintptr_t)memory);
  leave(s, pushed);
}

static kiln_status copy_in(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  CUDA_CALL((cuda_state *)d->state, copy_in, (uintptr_t)to, from, size);
  return KILN_OK;
}

static kiln_status copy_out(kiln_device *d, void *to, const void *from, size_t size, kiln_error *err) {
  CUDA_CALL((cuda_state *)d->state, copy_out, to, (uintptr_t)from, size);
  return KILN_OK;
}

const kiln_device_kind kiln_device_cuda = {
    .name = "cuda",
    .open = open_cuda,
    .close = close_cuda,
    .load = load,
    .unload = unload,
    .is_capturing = is_capturing,
    .launch = launch,
    .encode_map = encode_map,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .sync = sync,
    .alloc = alloc,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .fill = fill,
};
