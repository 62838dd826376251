// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands in for NVIDIA's driver in tests of how times are judged: memory is the process's own, and a launch
// computes nothing and takes as long as the test says, by the driver's own clock.
//   FAKE_NS       of one launch (10000), and 10 for each block of its grid
//   FAKE_PERCENT  of that (100): a loss that is planted
//   FAKE_NOISE    up to so many thousandths more or less (0), otherwise with each FAKE_SEED
//   FAKE_LOG      a file that gets a line for each process that makes a context
//   FAKE_DIE      a file with a number, or none; the first launch of a process after so many takes it away and ends the process
//   FAKE_STALL    a file; where it is there, the next launch takes it away and keeps its process for a second
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static double now; // nanoseconds
static uint64_t state;

static double setting(const char *name, double otherwise) {
  const char *text = getenv(name);
  return text ? strtod(text, NULL) : otherwise;
}

// -1 to 1
static double noise(void) {
  if (!state) state = (uint64_t)setting("FAKE_SEED", 1) * 0x9e3779b97f4a7c15u + 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)state / 9.3e18;
}

API int cuInit(unsigned flags) { return (void)flags, 0; }
API int cuDriverGetVersion(int *out) { return *out = 13000, 0; }
API int cuGetErrorName(int result, const char **out) { return (void)result, *out = "FAKE", 0; }
API int cuGetErrorString(int result, const char **out) {
  return (void)result, *out = "of a driver that is none", 0;
}
API int cuDeviceGetCount(int *out) { return *out = 2, 0; }
API int cuDeviceGet(int *out, int ordinal) { return *out = ordinal, 0; }
API int cuDeviceGetName(char *out, int capacity, int device) {
  return (void)device, snprintf(out, (size_t)capacity, "Clock"), 0;
}
API int cuDeviceGetAttribute(int *out, int attribute, int device) {
  enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, SHARED = 97 };
  (void)device;
  *out = attribute == MAJOR             ? 9
         : attribute == MINOR           ? 0
         : attribute == MULTIPROCESSORS ? 132
         : attribute == SHARED          ? 232448
                                        : 65535;
  return 0;
}
API int cuDevicePrimaryCtxRetain(void **out, int device) {
  static bool is_made;
  const char *log = getenv("FAKE_LOG");
  FILE *file = log && !is_made ? fopen(log, "a") : NULL;
  if (file) fprintf(file, "context of %d\n", device), fclose(file);
  is_made = true;
  return *out = &now, 0;
}
API int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
API int cuCtxGetCurrent(void **out) { return *out = NULL, 0; }
API int cuCtxSetCurrent(void *context) { return (void)context, 0; }
API int cuCtxPushCurrent_v2(void *context) { return (void)context, 0; }
API int cuCtxPopCurrent_v2(void **out) { return *out = &now, 0; }
API int cuModuleLoadDataEx(void **out, const void *image, unsigned count, int *options, void **values) {
  return (void)image, (void)count, (void)options, (void)values, *out = &state, 0;
}
API int cuModuleUnload(void *module) { return (void)module, 0; }
API int cuModuleGetFunction(void **out, void *module, const char *name) {
  return (void)name, *out = module, 0;
}
API int cuFuncSetAttribute(void *function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, 0;
}
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  (void)function, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)params, (void)extra;
  double ns = setting("FAKE_NS", 10000) + 10.0 * gx * gy * gz;
  const char *die = getenv("FAKE_DIE"), *stall = getenv("FAKE_STALL");
  static unsigned launches;
  unsigned before = 0;
  FILE *file = die ? fopen(die, "r") : NULL;
  if (file && fscanf(file, "%u", &before) < 1) before = 0;
  if (file) fclose(file);
  if (file && launches++ >= before && !unlink(die)) _exit(3);
  if (stall && !unlink(stall)) sleep(1);
  now += ns * setting("FAKE_PERCENT", 100) / 100 * (1 + noise() * setting("FAKE_NOISE", 0) / 1000);
  return 0;
}
API int cuMemAlloc_v2(uint64_t *out, size_t size) {
  return *out = (uint64_t)(uintptr_t)aligned_alloc(256, (size + 511) / 256 * 256), *out ? 0 : 2;
}
API int cuMemFree_v2(uint64_t memory) { return free((void *)(uintptr_t)memory), 0; }
API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
  return memcpy((void *)(uintptr_t)to, from, size), 0;
}
API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  return memcpy(to, (void *)(uintptr_t)from, size), 0;
}
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
  return (void)stream, memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, size), 0;
}
API int cuMemsetD8_v2(uint64_t memory, unsigned char byte, size_t size) {
  return memset((void *)(uintptr_t)memory, byte, size), 0;
}
// What empties caches takes time and changes nothing that is looked at.
API int cuMemsetD8Async(uint64_t memory, unsigned char byte, size_t size, void *stream) {
  return (void)memory, (void)byte, (void)size, (void)stream, now += 1000, 0;
}
API int cuStreamCreate(void **out, unsigned flags) { return (void)flags, *out = &now, 0; }
API int cuStreamDestroy_v2(void *stream) { return (void)stream, 0; }
API int cuStreamSynchronize(void *stream) { return (void)stream, 0; }
API int cuStreamBeginCapture_v2(void *stream, int mode) { return (void)stream, (void)mode, 801; }
API int cuStreamEndCapture(void *stream, void **out) { return (void)stream, *out = NULL, 801; }
API int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
  return (void)graph, (void)flags, *out = NULL, 801;
}
API int cuGraphLaunch(void *graph, void *stream) { return (void)graph, (void)stream, 801; }
API int cuGraphExecDestroy(void *graph) { return (void)graph, 0; }
API int cuGraphDestroy(void *graph) { return (void)graph, 0; }
API int cuEventCreate(void **out, unsigned flags) {
  return (void)flags, *out = calloc(1, sizeof now), *out ? 0 : 2;
}
API int cuEventRecord(void *event, void *stream) { return (void)stream, *(double *)event = now, 0; }
API int cuEventSynchronize(void *event) { return (void)event, 0; }
API int cuEventElapsedTime(float *out, void *from, void *to) {
  return *out = (float)((*(double *)to - *(double *)from) / 1e6), 0;
}
