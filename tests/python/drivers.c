// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands in for the drivers of GPUs when memory is the host's: copies on streams are noted and done only
// when drivers_run is called, as streams do.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

static struct {
  void *to;
  const void *from;
  size_t size;
} waiting[16];
static int count, depth, claims, device, refused;
static void *last;

static int later(void *to, const void *from, size_t size, void *stream) {
  if (refused) return refused;
  waiting[count].to = to, waiting[count].from = from, waiting[count++].size = size;
  last = stream;
  return 0;
}

#ifdef CUDA
PUBLIC int cuDeviceGet(int *out, int ordinal) { return *out = device = ordinal, 0; }
PUBLIC int cuDevicePrimaryCtxRetain(void **out, int its) { return *out = &waiting[its], claims++, 0; }
PUBLIC int cuDevicePrimaryCtxRelease_v2(int its) { return (void)its, claims--, 0; }
PUBLIC int cuCtxPushCurrent_v2(void *context) { return (void)context, depth++, 0; }
PUBLIC int cuCtxPopCurrent_v2(void **out) { return *out = NULL, depth--, 0; }
PUBLIC int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
  return later((void *)(uintptr_t)to, from, size, stream);
}
PUBLIC int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
  return later(to, (void *)(uintptr_t)from, size, stream);
}
#else
PUBLIC int hipGetDevice(int *out) { return *out = device, 0; }
PUBLIC int hipSetDevice(int its) { return device = its, 0; }
PUBLIC int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
  return kind == 1 || kind == 2 ? later(to, from, size, stream) : 1;
}
#endif

/// What was left: contexts pushed and claims held (both 0 where calls are in pairs), the current device.
PUBLIC int drivers_left(void) { return depth + claims; }
PUBLIC int drivers_device(void) { return device; }
PUBLIC void drivers_refuse(int error) { refused = error; }
/// Does what waits; the stream of the last.
PUBLIC void *drivers_run(void) {
  for (int i = 0; i < count; i++) memcpy(waiting[i].to, waiting[i].from, waiting[i].size);
  count = 0;
  return last;
}
