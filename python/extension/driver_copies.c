// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is asked of the driver that libkiln has loaded: copies that a stream does, since libkiln's are done
// when they return, and whose memory an address is.
#include "python/extension/extension.h"

#include <dlfcn.h>
#include <stdio.h>

typedef struct cuda_driver {
  int (*device_get)(int *out, int ordinal);
  int (*retain)(void **out, int device);
  int (*release)(int device);
  int (*push)(void *context);
  int (*pop)(void **out);
  int (*copy_in)(uint64_t to, const void *from, size_t size, void *stream);
  int (*copy_out)(void *to, uint64_t from, size_t size, void *stream);
} cuda_driver;

typedef struct hip_driver {
  int (*device_current)(int *out);
  int (*device_set)(int device);
  int (*copy)(void *to, const void *from, size_t size, int kind, void *stream);
} hip_driver;

// The functions of `names` as the members of *out; false where the process has no such driver.
static bool find(const char *const *libraries, const char *const *names, size_t count, void *out) {
  void *handle = NULL;
  while (*libraries && !handle) handle = dlopen(*libraries++, RTLD_NOW | RTLD_NOLOAD);
  bool is_fine = handle != NULL;
  for (size_t i = 0; is_fine && i < count; i++)
    is_fine = (((void **)out)[i] = dlsym(handle, names[i])) != NULL;
  if (handle) dlclose(handle); // libkiln has it open
  return is_fine;
}

static int copy_cuda(const kiln_copy *c) {
  static const char *const libraries[] = {"libcuda.so.1", "libcuda.so", NULL};
  static const char *const names[] = {
      "cuDeviceGet",        "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxPushCurrent_v2",
      "cuCtxPopCurrent_v2", "cuMemcpyHtoDAsync_v2",     "cuMemcpyDtoHAsync_v2"};
  cuda_driver d;
  void *context, *popped;
  int device, result;
  if (!find(libraries, names, sizeof names / sizeof *names, &d)) return -1;
  if ((result = d.device_get(&device, c->index)) || (result = d.retain(&context, device))) return result;
  if (!(result = d.push(context))) {
    result = c->is_in ? d.copy_in((uintptr_t)c->device, c->host, c->size, c->stream)
                      : d.copy_out(c->host, (uintptr_t)c->device, c->size, c->stream);
    d.pop(&popped);
  }
  d.release(device); // the device's own claim remains
  return result;
}

static int copy_hip(const kiln_copy *c) {
  static const char *const libraries[] = {"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7",
                                          "libamdhip64.so.5", NULL};
  static const char *const names[] = {"hipGetDevice", "hipSetDevice", "hipMemcpyAsync"};
  enum { TO_DEVICE = 1, TO_HOST = 2 };
  hip_driver d;
  int before, result;
  if (!find(libraries, names, sizeof names / sizeof *names, &d)) return -1;
  if ((result = d.device_current(&before)) || (result = d.device_set(c->index))) return result;
  result = c->is_in ? d.copy(c->device, c->host, c->size, TO_DEVICE, c->stream)
                    : d.copy(c->host, c->device, c->size, TO_HOST, c->stream);
  d.device_set(before);
  return result;
}

int kiln_copy_by_stream(const kiln_copy *c, kiln_device_place place) {
  return place == BY_CUDA ? copy_cuda(c) : copy_hip(c);
}

// ----------------------------------------------------------------------------------------- addresses

// What the two drivers have alike, by the same number.
typedef struct pointer_driver {
  int (*count)(int *out);
  int (*attribute)(void *out, int attribute, uint64_t address);
} pointer_driver;

int kiln_gpu_of_address(uint64_t address, kiln_device_place place) {
  static const char *const cuda[] = {"libcuda.so.1", "libcuda.so", NULL};
  static const char *const hip[] = {"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7",
                                    "libamdhip64.so.5", NULL};
  static const char *const names[][2] = {{"cuDeviceGetCount", "cuPointerGetAttribute"},
                                         {"hipGetDeviceCount", "hipPointerGetAttribute"}};
  enum { DEVICE_ORDINAL = 9 };
  static struct {
    bool is_asked;
    int count;
    pointer_driver driver;
  } known[2];
  if (!(place & (BY_CUDA | BY_HIP))) return -1;
  const bool is_hip = place == BY_HIP;
  __typeof__(&known[0]) k = &known[is_hip];
  if (!k->is_asked) {
    k->is_asked = true;
    if (!find(is_hip ? hip : cuda, names[is_hip], 2, &k->driver) || k->driver.count(&k->count)) k->count = 0;
  }
  int ordinal = -1;
  if (k->count < 2 || k->driver.attribute(&ordinal, DEVICE_ORDINAL, address)) return -1;
  return ordinal;
}
