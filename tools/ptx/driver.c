// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements a library in place of NVIDIA's libcuda.so.1 whose only device is the interpreter of PTX, with the
// calls that libkiln makes. What the interpreter finds is the text of the launch's error. A program that loads it says by
// the table of driver.h what the device is.
#include "tools/ptx/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // they are NVIDIA's

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_IMAGE = 200,
  INVALID_PTX = 218,
  NOT_FOUND = 500,
  LAUNCH_FAILED = 719
};
enum {
  GRID_X = 5,
  GRID_Z = 7,
  PROCESSORS = 16,
  MAJOR = 75,
  MINOR = 76,
  SHARED_OPTIN = 97,
  PROCESSOR_COUNT = 4
};
enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_SIZE = 6 };

typedef struct function {
  ptx_module *module;
  uint32_t kernel;
  struct function *next;
} function;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ptx_memory *memory;
static function *functions;
static ptx_driver_settings settings = {.number = 80, .shared_bytes = 166912, .seed = 1};
static ptx_report report;
static kiln_error last;
static void *current;

EXPORT int cuInit(unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&lock);
  if (!memory) memory = ptx_memory_create();
  pthread_mutex_unlock(&lock);
  return memory ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuDriverGetVersion(int *out) { return *out = 13000, SUCCESS; }
EXPORT int cuGetErrorName(int result, const char **out) {
  return *out = result == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR", SUCCESS;
}
EXPORT int cuGetErrorString(int result, const char **out) {
  return *out = result == LAUNCH_FAILED ? last.text : "the interpreter of PTX refuses", SUCCESS;
}
EXPORT int cuDeviceGetCount(int *out) { return *out = 1, SUCCESS; }
EXPORT int cuDeviceGet(int *out, int ordinal) { return *out = ordinal, ordinal ? INVALID_VALUE : SUCCESS; }
EXPORT int cuDeviceGetName(char *out, int capacity, int device) {
  return snprintf(out, (size_t)capacity, "interpreted PTX, no hardware"), device ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
  switch (attribute) {
  case GRID_X: *out = 0x7fffffff; break;
  case GRID_X + 1:
  case GRID_Z: *out = 65535; break;
  case PROCESSORS: *out = PROCESSOR_COUNT; break;
  case MAJOR: *out = (int)settings.number / 10; break;
  case MINOR: *out = (int)settings.number % 10; break;
  case SHARED_OPTIN: *out = (int)settings.shared_bytes; break;
  default: *out = 0;
  }
  return device ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **out, int device) {
  return *out = &lock, device ? INVALID_VALUE : SUCCESS;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) { return device ? INVALID_VALUE : SUCCESS; }
EXPORT int cuCtxGetCurrent(void **out) { return *out = current, SUCCESS; }
EXPORT int cuCtxPushCurrent_v2(void *context) { return current = context, SUCCESS; }
EXPORT int cuCtxPopCurrent_v2(void **out) { return *out = current, current = NULL, SUCCESS; }

// "KERNEL.ptx", by the first kernel of the text.
static void name_of(const char *text, char *out, size_t capacity) {
  const char *entry = strstr(text, ".entry "), *name = entry ? entry + strlen(".entry ") : "module(";
  snprintf(out, capacity, "%.*s.ptx", (int)strcspn(name, "( \t\r\n"), name);
}

EXPORT int cuModuleLoadDataEx(void **out, const void *image, unsigned count, int *options, void **values) {
  ptx_module *module = NULL;
  char name[300], *log = NULL;
  size_t size = 0;
  if (!memcmp(image, "\177ELF", 4)) return INVALID_IMAGE;
  for (unsigned k = 0; k < count; k++) {
    if (options[k] == JIT_ERROR_LOG) log = values[k];
    if (options[k] == JIT_ERROR_LOG_SIZE) size = (size_t)values[k];
  }
  pthread_mutex_lock(&lock);
  name_of(image, name, sizeof name);
  if (settings.take_module) settings.take_module(name, image);
  last = (kiln_error){0};
  report.count = 0;
  kiln_status status = ptx_module_create(memory, name, image, strlen(image), &module, &last);
  if (log && size) snprintf(log, size, "%s", last.text);
  pthread_mutex_unlock(&lock);
  if (status) return INVALID_PTX;
  return *out = module, SUCCESS;
}

EXPORT int cuModuleUnload(void *module) {
  pthread_mutex_lock(&lock);
  for (function **f = &functions; *f;) {
    function *here = *f;
    if (here->module != module) {
      f = &here->next;
      continue;
    }
    *f = here->next;
    free(here);
  }
  ptx_module_destroy(module);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

EXPORT int cuModuleGetFunction(void **out, void *module, const char *name) {
  ptx_kernel_facts facts;
  for (uint32_t k = 0; ptx_module_kernel(module, k, &facts); k++) {
    if (strcmp(facts.name, name)) continue;
    function *f = malloc(sizeof *f);
    if (!f) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *f = (function){module, k, functions};
    functions = f;
    pthread_mutex_unlock(&lock);
    return *out = f, SUCCESS;
  }
  return NOT_FOUND;
}

EXPORT int cuFuncSetAttribute(void *function_, int attribute, int value) {
  return (void)function_, (void)attribute, (void)value, SUCCESS;
}

EXPORT int cuFuncGetParamInfo(void *function_, size_t index, size_t *out_offset, size_t *out_size) {
  const function *f = function_;
  uint32_t offset, size;
  if (index > UINT32_MAX || !ptx_module_parameter(f->module, f->kernel, (uint32_t)index, &offset, &size))
    return INVALID_VALUE;
  return *out_offset = offset, *out_size = size, SUCCESS;
}

static void note_launch(const function *f, kiln_status status) {
  ptx_kernel_facts facts;
  if (!settings.take_launch) return;
  ptx_module_kernel(f->module, f->kernel, &facts);
  settings.take_launch(facts.name, !status);
}

// libkiln gives the arguments as one block.
EXPORT int cuLaunchKernel(void *function_, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  const function *f = function_;
  (void)stream;
  if (params) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  ptx_launch launch = {.grid = {gx, gy, gz},
                       .block = {bx, by, bz},
                       .dynamic_shared = shared,
                       .parameters = extra ? extra[1] : NULL,
                       .parameter_size = extra ? *(size_t *)extra[3] : 0,
                       .seed = settings.seed++,
                       .resident = PROCESSOR_COUNT,
                       .max_steps = settings.max_steps};
  last = (kiln_error){0};
  kiln_status status = ptx_module_run(f->module, f->kernel, &launch, &report, &last);
  note_launch(f, status);
  pthread_mutex_unlock(&lock);
  return status ? LAUNCH_FAILED : SUCCESS;
}

// Types and swizzles by their numbers in the driver API.
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *extents,
                                  const uint64_t *strides, const uint32_t *box,
                                  const uint32_t *element_strides, int interleave, int swizzle, int promotion,
                                  int fill) {
  static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};
  static const uint32_t widths[] = {0, 32, 64, 128};
  (void)promotion;
  if (type < 0 || type > 11 || swizzle < 0 || swizzle > 3 || interleave || rank > 5) return INVALID_VALUE;
  for (uint32_t k = 0; k < rank; k++)
    if (element_strides[k] != 1) return INVALID_VALUE;
  ptx_element_kind kind = type == 9    ? PTX_ELEMENT_BF16
                          : type == 11 ? PTX_ELEMENT_TF32
                          : type >= 6  ? PTX_ELEMENT_FLOAT
                                       : PTX_ELEMENT_INTEGER;
  bool is_right = ptx_tensor_encode(map, bytes[type], kind, rank, (uint64_t)(uintptr_t)address, extents,
                                    strides, box, widths[swizzle], fill == 1);
  return is_right ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuMemAlloc_v2(uint64_t *out, size_t size) {
  pthread_mutex_lock(&lock);
  *out = ptx_memory_alloc(memory, size, false);
  pthread_mutex_unlock(&lock);
  return *out ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuMemFree_v2(uint64_t address) {
  pthread_mutex_lock(&lock);
  bool was = !address || ptx_memory_free(memory, address);
  pthread_mutex_unlock(&lock);
  return was ? SUCCESS : INVALID_VALUE;
}

static int copy(uint64_t address, void *to, const void *from, int byte, size_t size) {
  pthread_mutex_lock(&lock);
  uint8_t *bytes = size ? ptx_memory_bytes(memory, address, size, !to) : NULL;
  if (bytes && to) memcpy(to, bytes, size);
  else if (bytes && from) memcpy(bytes, from, size);
  else if (bytes) memset(bytes, byte, size);
  pthread_mutex_unlock(&lock);
  return bytes || !size ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
  return copy(to, NULL, from, 0, size);
}
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { return copy(from, to, NULL, 0, size); }
EXPORT int cuMemsetD8_v2(uint64_t address, unsigned char byte, size_t size) {
  return copy(address, NULL, NULL, byte, size);
}
EXPORT int cuStreamCreate(void **out, unsigned flags) { return (void)flags, *out = &memory, SUCCESS; }
EXPORT int cuStreamDestroy_v2(void *stream) { return stream == &memory ? SUCCESS : INVALID_VALUE; }
EXPORT int cuStreamSynchronize(void *stream) {
  return !stream || stream == &memory ? SUCCESS : INVALID_VALUE;
}

static void set(const ptx_driver_settings *to) { settings = *to; }
static void name(uint64_t address, const char *text) { ptx_memory_name(memory, address, text); }
static const ptx_report *get_report(void) { return &report; }
static const char *get_error(void) { return last.text; }

EXPORT const ptx_driver ptx_driver_table = {set, name, get_report, get_error};
