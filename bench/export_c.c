// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An application made by `kiln export-c` on a GPU: whether its kernel computes right, and nanoseconds a launch
// compared with libkiln. bench/export_c.sh builds and runs it.
//
//   export_c DEVICE BUNDLE      the object has the same bundle; launches alternate, medians of rounds
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/timing.h"
#include "app.h"
#include "runtime/kiln.h"

enum { ELEMENTS = 1000, ROUNDS = 101, LAUNCHES = 500 };

static int (*synchronize)(void);
static void *memory[3];
static kiln_kernel *kernel;
static app_device *device;

static void must(int status, const char *text) {
  if (!status) return;
  fprintf(stderr, "export_c: %d: %s\n", status, text);
  exit(1);
}

static void by_object(void) {
  app_error err = {0};
  must(app_saxpy(device, NULL, memory[0], memory[1], memory[2], 2, ELEMENTS, &err), err.text);
}

static void by_library(void) {
  float a = 2;
  int32_t n = ELEMENTS;
  const void *values[] = {&memory[0], &memory[1], &memory[2], &a, &n};
  kiln_error err = {0};
  must(kiln_launch(kernel, NULL, values, 5, &err), err.text);
}

static double time_of(void (*launch)(void)) {
  const uint64_t begin = bench_now_ns();
  for (int i = 0; i < LAUNCHES; i++) launch();
  double each = (double)(bench_now_ns() - begin) / LAUNCHES;
  must(synchronize ? synchronize() : 0, "cuCtxSynchronize");
  return each;
}

int main(int count, char **words) {
  app_error err = {0};
  kiln_error failed = {0};
  kiln_library *library;
  kiln_device *place;
  float *x = malloc(sizeof(float) * ELEMENTS), *z = malloc(sizeof(float) * ELEMENTS);
  if (count != 3 || !x || !z) return 2;
  must(app_init(words[1], &device, &err), err.text);
  must(app_load(device, &err), err.text);
  must(kiln_open_file(words[2], &library, &failed), failed.text);
  must(kiln_device_open(library, words[1], &place, &failed), failed.text);
  must(kiln_kernel_get(place, "saxpy", NULL, &kernel, &failed), failed.text);

  // Memory by the driver, whose context app_init made current.
  int is_gpu = !strncmp(words[1], "cuda", 4);
  void *driver = is_gpu ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
  int (*allocate)(void **, size_t) = driver ? (int (*)(void **, size_t))dlsym(driver, "cuMemAlloc_v2") : NULL;
  int (*to_device)(void *, const void *, size_t) =
      driver ? (int (*)(void *, const void *, size_t))dlsym(driver, "cuMemcpyHtoD_v2") : NULL;
  int (*to_host)(void *, const void *, size_t) =
      driver ? (int (*)(void *, const void *, size_t))dlsym(driver, "cuMemcpyDtoH_v2") : NULL;
  int (*retain)(void **, int) =
      driver ? (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
  int (*make_current)(void *) = driver ? (int (*)(void *))dlsym(driver, "cuCtxSetCurrent") : NULL;
  synchronize = driver ? (int (*)(void))dlsym(driver, "cuCtxSynchronize") : NULL;
  void *context = NULL;
  if (driver)
    must(retain(&context, 0), "cuDevicePrimaryCtxRetain"), must(make_current(context), "cuCtxSetCurrent");
  for (int i = 0; i < ELEMENTS; i++) x[i] = (float)i;
  for (int i = 0; i < 3; i++) {
    if (!is_gpu && posix_memalign(&memory[i], 64, sizeof(float) * ELEMENTS)) return 1;
    if (is_gpu) must(allocate(&memory[i], sizeof(float) * ELEMENTS), "cuMemAlloc");
    if (is_gpu) must(to_device(memory[i], x, sizeof(float) * ELEMENTS), "cuMemcpyHtoD");
    else memcpy(memory[i], x, sizeof(float) * ELEMENTS);
  }
  by_object();
  must(synchronize ? synchronize() : 0, "cuCtxSynchronize");
  if (is_gpu) must(to_host(z, memory[2], sizeof(float) * ELEMENTS), "cuMemcpyDtoH");
  else memcpy(z, memory[2], sizeof(float) * ELEMENTS);
  int wrong = 0;
  for (int i = 0; i < ELEMENTS; i++) wrong += z[i] != 3 * x[i];

  double times[2][ROUNDS];
  for (int round = 0; round < ROUNDS; round++)
    times[0][round] = time_of(by_object), times[1][round] = time_of(by_library);
  for (int way = 0; way < 2; way++) qsort(times[way], ROUNDS, sizeof **times, bench_by_value);
  printf("%s: %d wrong of %d; ns a launch: object of export-c %.0f, libkiln %.0f\n", words[1], wrong,
         ELEMENTS, times[0][ROUNDS / 2], times[1][ROUNDS / 2]);
  app_unload(device);
  return wrong != 0;
}
