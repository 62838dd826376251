// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuLaunchKernel called from C, for bench/python_launch.py: a shared library that loads a cubin into the
// current context and times launches of it, so that Python's launches have the driver's own beside them in
// one process.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))
enum { MOST_ARRAYS = 16 };

static struct {
  int (*load)(void **module, const char *path);
  int (*get)(void **function, void *module, const char *name);
  int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *stream, void **params, void **extra);
} driver;

static char why[96];

PUBLIC void *driver_load(const char *cubin, const char *kernel);
PUBLIC const char *driver_why(void);
PUBLIC double driver_time(void *function, int arrays, const uint64_t *addresses, int n, void *stream,
                          int launches);

static void *refuse(const char *what, int status) {
  snprintf(why, sizeof why, "%s: %d", what, status);
  return NULL;
}

/// What the last driver_load that gave NULL met.
const char *driver_why(void) { return why; }

/// The function of a cubin; NULL where there is no driver or it refuses.
void *driver_load(const char *cubin, const char *kernel) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *module, *function;
  if (!library) return refuse("libcuda.so.1 is not there", 0);
  *(void **)&driver.load = dlsym(library, "cuModuleLoad");
  *(void **)&driver.get = dlsym(library, "cuModuleGetFunction");
  *(void **)&driver.launch = dlsym(library, "cuLaunchKernel");
  if (!driver.load || !driver.get || !driver.launch) return refuse("libcuda.so.1 lacks a function", 0);
  int status = driver.load(&module, cubin);
  if (status) return refuse("cuModuleLoad", status);
  status = driver.get(&function, module, kernel);
  return status ? refuse("cuModuleGetFunction", status) : function;
}

/// Nanoseconds a launch, the mean of one round; below 0 on an error. Parameters: the arrays, then n.
double driver_time(void *function, int arrays, const uint64_t *addresses, int n, void *stream, int launches) {
  void *params[MOST_ARRAYS + 1];
  uint64_t values[MOST_ARRAYS];
  if (arrays > MOST_ARRAYS) return -1;
  for (int i = 0; i < arrays; i++) values[i] = addresses[i], params[i] = &values[i];
  params[arrays] = &n;
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < launches; i++)
    if (driver.launch(function, (unsigned)(n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL))
      return -1;
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / launches;
}
