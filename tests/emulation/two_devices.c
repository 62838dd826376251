// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver of two GPUs that are not there: what libkiln calls of CUDA's or, with -DHIP, of HIP's driver. Each
// call is judged: is the device current whose memory, code or stream it is about, and is what it names still
// there? What is not right is noted (devices_faults) and fails as a driver would. Kernels that are called
// add_one and product are computed, of mapped the pointers are judged: results say where a launch went.
// Memory is the host's.
//
// Programs have it by loading it first; its soname is the driver's, so libkiln finds it loaded.
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // they are of the drivers

enum { DEVICES = 2, DEPTH = 16, MAP = 128, NOBODY = -1 };
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };
enum { INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURING = 900, INJECTED = 999 };

// ----------------------------------------------------------------------------------------- what there is

typedef enum kind { MODULE, FUNCTION, STREAM, MEMORY } kind;
typedef struct object {
  struct object *next;
  kind kind;
  int context; // 0, 1: of the devices; 2: another of device 0
  int is_captured;
  size_t size;
  void *module;
  char name[64];
  char *bytes; // of memory
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects;
static int claims[DEVICES], processors[DEVICES] = {80, 80};
static int faults;
static char first_fault[400];
static uint64_t launches[DEVICES];

// Of a thread: contexts that are current (HIP has the last only), driver calls, and which of them fails.
static _Thread_local int stack[DEPTH], depth;
static _Thread_local long calls, failing;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (!faults++) vsnprintf(first_fault, sizeof first_fault, format, list);
  va_end(list);
}

static int current(void) {
#ifdef HIP
  return depth ? stack[depth - 1] : 0; // HIP begins with device 0
#else
  return depth ? stack[depth - 1] : NOBODY;
#endif
}

static object *find(kind kind, const void *handle) {
  object *o = objects;
  while (o && (o != handle || o->kind != kind)) o = o->next;
  return o;
}

/// Of the current context: CUDA has three names for these.
static int is_default(const void *stream) { return (uintptr_t)stream <= 2; }

static object *find_memory(uint64_t address, size_t size) {
  for (object *o = objects; o; o = o->next)
    if (o->kind == MEMORY && address >= (uintptr_t)o->bytes &&
        address + size <= (uintptr_t)o->bytes + o->size)
      return o;
  return NULL;
}

static object *make(kind kind, int context) {
  object *o = calloc(1, sizeof *o);
  if (!o) abort();
  *o = (object){.next = objects, .kind = kind, .context = context};
  return objects = o;
}

static void forget(object *o) {
  object **at = &objects;
  while (*at != o) at = &(*at)->next;
  *at = o->next;
  free(o->bytes);
  free(o);
}

/// Begins a call that wants `context` current, or any where that is NOBODY.
static int begin(const char *call, int context) {
  pthread_mutex_lock(&lock);
  if (++calls == failing) return INJECTED;
  if (current() == NOBODY) return fault("%s: no context is current", call), INVALID_CONTEXT;
  if (context == NOBODY || context == current()) return SUCCESS;
  fault("%s: of context %d, and context %d is current", call, context, current());
  return INVALID_HANDLE;
}

static int end(int result) { return pthread_mutex_unlock(&lock), result; }

/// The same for what `handle` names.
static int begin_with(const char *call, kind kind, const void *handle, object **out) {
  pthread_mutex_lock(&lock);
  *out = find(kind, handle);
  pthread_mutex_unlock(&lock);
  int result = begin(call, *out ? (*out)->context : NOBODY);
  if (!result && !*out) fault("%s: there is no such thing", call);
  return result || *out ? result : INVALID_HANDLE;
}

// ------------------------------------------------------------------------------------------- for tests

EXPORT int devices_faults(const char **out) { return *out = first_fault, faults; }
EXPORT void devices_describe(int device, int processor) { processors[device] = processor; }
EXPORT uint64_t devices_launches(int device) { return launches[device]; }
EXPORT int devices_left(void) {
  int count = claims[0] + claims[1];
  for (object *o = objects; o; o = o->next) count++;
  return count;
}
/// Has the calls of this thread counted from 0 again, of which the nth fails; 0: none.
EXPORT void devices_fail(long nth) { calls = 0, failing = nth; }
EXPORT long devices_calls(void) { return calls; }
/// What the program has current in this thread; NOBODY: nothing.
EXPORT void devices_set(int context) {
  depth = 0;
  if (context != NOBODY) stack[depth++] = context;
}
/// That; with the depth of CUDA's stack times 10.
EXPORT int devices_current(void) {
#ifdef HIP
  return current();
#else
  return current() + 10 * depth;
#endif
}
EXPORT void devices_capture(void *stream, int is_on) {
  pthread_mutex_lock(&lock);
  object *o = find(STREAM, stream);
  if (o) o->is_captured = is_on;
  pthread_mutex_unlock(&lock);
}

// --------------------------------------------------------------------------------------------- launches

static int is_here(const char *name, int context, uint64_t address, size_t size) {
  object *o = address ? find_memory(address, size) : NULL;
  if (o && o->context == context) return 1;
  fault("%s: an argument of context %d in a launch on %d", name, o ? o->context : NOBODY, context);
  return 0;
}

/// struct { f32 *x, *y; i32 n }: y[i] = x[i] + 1.
static int add_one(const object *f, const char *block, size_t size) {
  uint64_t at[2];
  int32_t n;
  if (size != 20) return fault("add_one: a block of %zu bytes", size), INVALID_VALUE;
  memcpy(at, block, sizeof at);
  memcpy(&n, block + 16, sizeof n);
  size_t bytes = (size_t)(n > 0 ? n : 0) * sizeof(float);
  if (!is_here("add_one", f->context, at[0], bytes) || !is_here("add_one", f->context, at[1], bytes))
    return INVALID_VALUE;
  const float *x = (const float *)(uintptr_t)at[0];
  float *y = (float *)(uintptr_t)at[1];
  for (int32_t i = 0; i < n; i++) y[i] = x[i] + 1;
  return SUCCESS;
}

static float of_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/// struct { bf16 *a, *b; f32 *c; i32 M, N, K }: c = a times b turned.
static int product(const object *f, const char *block, size_t size) {
  uint64_t at[3];
  int32_t n[3];
  if (size != 36) return fault("product: a block of %zu bytes", size), INVALID_VALUE;
  memcpy(at, block, sizeof at);
  memcpy(n, block + 24, sizeof n);
  for (int i = 0; i < 3; i++)
    if (!is_here("product", f->context, at[i], 4)) return INVALID_VALUE;
  const uint16_t *a = (const uint16_t *)(uintptr_t)at[0], *b = (const uint16_t *)(uintptr_t)at[1];
  float *c = (float *)(uintptr_t)at[2];
  for (int32_t row = 0; row < n[0]; row++)
    for (int32_t column = 0; column < n[1]; column++) {
      float sum = 0;
      for (int32_t k = 0; k < n[2]; k++) sum += of_bf16(a[row * n[2] + k]) * of_bf16(b[column * n[2] + k]);
      c[row * n[1] + column] = sum;
    }
  return SUCCESS;
}

/// struct { f32 *x; i32 n }, then a tensor map, which begins with its address.
static int mapped(const object *f, const char *block, size_t size) {
  uint64_t at, map;
  if (size != 64 + MAP) return fault("mapped: a block of %zu bytes", size), INVALID_VALUE;
  memcpy(&at, block, sizeof at);
  memcpy(&map, block + 64, sizeof map);
  return is_here("mapped", f->context, at, 4) && is_here("a map", f->context, map, 4) ? SUCCESS
                                                                                      : INVALID_VALUE;
}

static int launch(void *handle, void *stream_handle, const char *block, size_t size) {
  object *f;
  int result = begin_with("launch", FUNCTION, handle, &f);
  object *stream = result ? NULL : find(STREAM, stream_handle);
  if (result) return end(result);
  if (!is_default(stream_handle) && !stream) return end(INVALID_HANDLE);
#ifdef HIP
  if (stream && stream->context != f->context) return end(INVALID_DEVICE);
#else
  if (stream && stream->context != f->context) return end(INVALID_HANDLE);
#endif
  launches[f->context % 2]++;
  if (stream && stream->is_captured) return end(SUCCESS);
  if (strstr(f->name, "add_one")) return end(add_one(f, block, size));
  if (strstr(f->name, "product")) return end(product(f, block, size));
  return end(!strcmp(f->name, "mapped") ? mapped(f, block, size) : SUCCESS);
}

// ------------------------------------------------------------------------------------------------- code

static int load(void **out) {
  int result = begin("load", NOBODY);
  for (object *o = objects; !result && o; o = o->next)
    if (o->kind == STREAM && o->is_captured && o->context == current()) result = CAPTURING;
  return result ? end(result) : (*out = make(MODULE, current()), end(SUCCESS));
}

static int unload(void *module) {
  object *m;
  int result = begin_with("unload", MODULE, module, &m);
  if (result) return end(result);
  for (object *o = objects, *next; o; o = next) {
    next = o->next;
    if (o->kind == FUNCTION && o->module == module) forget(o);
  }
  forget(m);
  return end(SUCCESS);
}

static int find_function(void **out, void *module, const char *name) {
  object *m;
  int result = begin_with("find a function", MODULE, module, &m);
  if (result) return end(result);
  object *f = make(FUNCTION, m->context);
  f->module = m;
  snprintf(f->name, sizeof f->name, "%s", name);
  return *out = f, end(SUCCESS);
}

// ---------------------------------------------------------------------------------------------- memory

static int alloc(void **out, size_t size) {
  int result = begin("alloc", NOBODY);
  if (result) return end(result);
  object *o = make(MEMORY, current());
  o->bytes = aligned_alloc(256, (size + 255) / 256 * 256);
  if (!o->bytes) abort();
  o->size = size;
  return *out = o->bytes, end(SUCCESS);
}

static int release(uint64_t address) {
  pthread_mutex_lock(&lock);
  object *o = find_memory(address, 0);
  int context = o ? o->context : NOBODY;
  pthread_mutex_unlock(&lock);
  int result = begin("free", context);
  if (!result && !o) fault("free: no memory is there");
  if (!result && o) forget(o);
  return end(result);
}

/// Bytes of a device: from or to the host, or set to one value.
static int move(const char *call, uint64_t address, void *to, const void *from, int byte, size_t size) {
  pthread_mutex_lock(&lock);
  object *o = find_memory(address, size);
  int context = o ? o->context : NOBODY;
  pthread_mutex_unlock(&lock);
  int result = begin(call, context);
  if (!result && !o) fault("%s: no memory is there", call), result = INVALID_VALUE;
  if (result) return end(result);
  if (to) memcpy(to, (void *)(uintptr_t)address, size);
  else if (from) memcpy((void *)(uintptr_t)address, from, size);
  else memset((void *)(uintptr_t)address, byte, size);
  return end(SUCCESS);
}

// --------------------------------------------------------------------------------------------- streams

static int create_stream(void **out) {
  int result = begin("create a stream", NOBODY);
  return result ? end(result) : (*out = make(STREAM, current()), end(SUCCESS));
}

static int destroy_stream(void *stream) {
  object *o;
  int result = begin_with("destroy a stream", STREAM, stream, &o);
  if (!result) forget(o);
  return end(result);
}

/// A stream of another context may be waited for.
static int sync_stream(void *stream) {
  int result = begin("sync", NOBODY);
  if (!result && !is_default(stream) && !find(STREAM, stream))
    fault("sync: no such stream"), result = INVALID_HANDLE;
  return end(result);
}

/// The default stream is the current context's.
static int is_capturing(void *stream, int *out) {
  int result = begin("is capturing", NOBODY);
  object *o = result ? NULL : find(STREAM, stream);
  return *out = o && o->is_captured, end(result);
}

#ifdef HIP
#include "two_devices_hip.inc"
#else
#include "two_devices_cuda.inc"
#endif
