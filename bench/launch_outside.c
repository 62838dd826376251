// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an application sees of a launch on an NVIDIA device, by public functions alone: cuLaunchKernel and builds of
// libkiln in turn, in one process. `launch_outside EMPTY.kbundle LIBKILN.so...`: nanoseconds that each library adds to
// cuLaunchKernel with 2, 8 and 16 arguments. The same arguments again and again; other pointers at each launch; the
// three kernels in no order, with other pointers; prepared, all pointers set. Each round measures all ways one after
// the other, the driver's first and last; the figure is the median over rounds of the difference to the driver's mean in
// that round. Then what cuCtxGetCurrent takes, which is in these figures, and what the driver does with a launch where
// another context is current, or none. EMPTY.kbundle is made of bench/cuda_launch.kiln. Needs no CUDA toolkit.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/timing.h"
#include "runtime/kiln.h"

enum { ROUNDS = 201, LAUNCHES = 200, MOST_ARGS = 16, COUNTS = 3, MOST_LIBRARIES = 8, ORDER = 256 };
static const uint32_t counts[COUNTS] = {2, 8, 16};

typedef enum way { WAY_SAME, WAY_OTHER, WAY_TURNS, WAY_PREPARED, WAYS } way;
static const char *const way_names[WAYS] = {"same arguments", "other pointers", "kernels in turn",
                                            "prepared, set"};

static void must(int status, const char *text) {
  if (!status) return;
  fprintf(stderr, "launch_outside: %d: %s\n", status, text);
  exit(1);
}

// ------------------------------------------------------------------------------------------------ both sides

static struct {
  int (*init)(unsigned);
  int (*retain)(void **, int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*current)(void **);
  int (*create)(void **, unsigned, int);
  int (*load)(void **, const void *);
  int (*function)(void **, void *, const char *);
  int (*stream)(void **, unsigned);
  int (*sync)(void *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **);
} driver;

static void *find(void *library, const char *name) {
  void *found = dlsym(library, name);
  must(!found, name);
  return found;
}

static void open_driver(void) {
  static const char *const names[] = {
      "cuInit",          "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
      "cuCtxGetCurrent", "cuCtxCreate_v2",           "cuModuleLoadData",    "cuModuleGetFunction",
      "cuStreamCreate",  "cuStreamSynchronize",      "cuLaunchKernel"};
  void *library = dlopen("libcuda.so.1", RTLD_NOW), **to = (void **)&driver;
  must(!library, "libcuda.so.1 cannot be opened");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) to[i] = find(library, names[i]);
}

typedef struct side { // a build of libkiln
  const char *path;
  kiln_status (*open_file)(const char *, kiln_library **, kiln_error *);
  kiln_status (*device_open)(kiln_library *, const char *, kiln_device **, kiln_error *);
  kiln_status (*kernel_get)(kiln_device *, const char *, const void *, kiln_kernel **, kiln_error *);
  kiln_status (*preload)(kiln_kernel *, kiln_error *);
  kiln_status (*launch)(kiln_kernel *, kiln_stream, const void *const *, size_t, kiln_error *);
  kiln_status (*prepare)(kiln_kernel *, const void *const *, size_t, const uint32_t *, kiln_prepared **,
                         kiln_error *);
  kiln_status (*set)(kiln_prepared *, uint32_t, const void *, kiln_error *);
  kiln_status (*prepared_launch)(kiln_prepared *, kiln_stream, kiln_error *);
  kiln_kernel *kernels[COUNTS];
  kiln_prepared *prepared[COUNTS];
} side;

static int64_t values[MOST_ARGS];
static void *pointers[MOST_ARGS];
static void *functions[COUNTS], *stream;
static uint8_t order[ORDER];

static void open_side(side *s, const char *path, const char *bundle) {
  static const char *const names[] = {"kiln_open_file",    "kiln_device_open",    "kiln_kernel_get",
                                      "kiln_preload",      "kiln_launch",         "kiln_prepare",
                                      "kiln_prepared_set", "kiln_prepared_launch"};
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), **to = (void **)&s->open_file;
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  must(!library, path);
  s->path = path;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) to[i] = find(library, names[i]);
  must(s->open_file(bundle, &l, &err), err.text);
  must(s->device_open(l, "cuda:0", &d, &err), err.text);
  for (int i = 0; i < COUNTS; i++) {
    char name[32];
    snprintf(name, sizeof name, "empty%u", counts[i]);
    must(s->kernel_get(d, name, NULL, &s->kernels[i], &err), err.text);
    must(s->preload(s->kernels[i], &err), err.text);
    must(s->prepare(s->kernels[i], (const void *const *)pointers, counts[i], NULL, &s->prepared[i], &err),
         err.text);
  }
}

/// The same empty kernels as PTX.
static void load_functions(void) {
  static char text[8192];
  void *module;
  size_t used = (size_t)snprintf(text, sizeof text, ".version 7.0\n.target sm_70\n.address_size 64\n");
  for (int i = 0; i < COUNTS; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, ".visible .entry empty%u(", counts[i]);
    for (uint32_t p = 0; p < counts[i]; p++)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s.param .u%d p%u", p ? ", " : "",
                               p & 1 ? 32 : 64, p);
    used += (size_t)snprintf(text + used, sizeof text - used, ") { ret; }\n");
  }
  must(driver.load(&module, text), "cuModuleLoadData");
  for (int i = 0; i < COUNTS; i++) {
    char name[32];
    snprintf(name, sizeof name, "empty%u", counts[i]);
    must(driver.function(&functions[i], module, name), name);
  }
}

// -------------------------------------------------------------------------------------------------- launches

/// Nanoseconds a launch of one round; `s` NULL: the driver.
static double round_of(const side *s, way how, int kernel) {
  kiln_error err;
  const uint64_t begin = bench_now_ns();
  for (int i = 0; i < LAUNCHES; i++) {
    int k = how == WAY_TURNS ? order[i % ORDER] : kernel;
    if (how != WAY_SAME)
      for (uint32_t p = 0; p < counts[k]; p += 2) values[p] = 0x1000 + 0x100 * (int64_t)(i % 64 + (int)p);
    if (!s)
      must(driver.launch(functions[k], 1, 1, 1, 128, 1, 1, 0, stream, pointers, NULL), "cuLaunchKernel");
    else if (how != WAY_PREPARED)
      must(s->launch(s->kernels[k], stream, (const void *const *)pointers, counts[k], &err), err.text);
    else {
      for (uint32_t p = 0; p < counts[k]; p += 2)
        must(s->set(s->prepared[k], p, pointers[p], &err), err.text);
      must(s->prepared_launch(s->prepared[k], stream, &err), err.text);
    }
  }
  double ns = (double)(bench_now_ns() - begin) / LAUNCHES;
  must(driver.sync(stream), "cuStreamSynchronize");
  return ns;
}

static void measure(side *sides, int side_count, way how, int kernel) {
  static double differences[MOST_LIBRARIES][ROUNDS], driven[ROUNDS];
  for (int round = -5; round < ROUNDS; round++) {
    double ours[MOST_LIBRARIES], before = round_of(NULL, how, kernel);
    for (int i = 0; i < side_count; i++) { // first and last change places
      int which = round & 1 ? side_count - 1 - i : i;
      ours[which] = round_of(&sides[which], how, kernel);
    }
    double theirs = (before + round_of(NULL, how, kernel)) / 2;
    if (round < 0) continue;
    driven[round] = theirs;
    for (int i = 0; i < side_count; i++) differences[i][round] = ours[i] - theirs;
  }
  if (how == WAY_TURNS)
    printf("%-15s, 2 to 16 arguments: cuLaunchKernel %5.0f ns; added:", way_names[how],
           bench_median(driven, ROUNDS));
  else
    printf("%-15s, %2u arguments: cuLaunchKernel %5.0f ns; added:", way_names[how], counts[kernel],
           bench_median(driven, ROUNDS));
  for (int i = 0; i < side_count; i++) printf(" %6.1f", bench_median(differences[i], ROUNDS));
  printf("\n");
}

static void measure_current(void) {
  double rounds[ROUNDS];
  void *context;
  for (int round = 0; round < ROUNDS; round++) {
    const uint64_t begin = bench_now_ns();
    for (int i = 0; i < LAUNCHES; i++) must(driver.current(&context), "cuCtxGetCurrent");
    rounds[round] = (double)(bench_now_ns() - begin) / LAUNCHES;
  }
  printf("cuCtxGetCurrent alone: %.1f ns\n", bench_median(rounds, ROUNDS));
}

/// The status of a launch of a function of the primary context, and of waiting for it, where `context` is current (NULL: none).
static void try_contexts(void) {
  void *other, *old;
  must(driver.create(&other, 0, 0), "cuCtxCreate");
  for (int c = 0; c < 2; c++)
    for (int s = 0; s < 2; s++) {
      if (c == 0) must(driver.pop(&old), "cuCtxPopCurrent");
      int status = driver.launch(functions[0], 1, 1, 1, 128, 1, 1, 0, s ? stream : NULL, pointers, NULL);
      printf("cuLaunchKernel with %s current, %s: status %d",
             c ? "another context" : "the stack's next context",
             s ? "a stream of the function's context" : "the NULL stream", status);
      printf(", then cuStreamSynchronize %d\n", driver.sync(s ? stream : NULL));
      if (c == 0) must(driver.push(old), "cuCtxPushCurrent");
    }
  must(driver.pop(&old), "cuCtxPopCurrent");
  must(driver.pop(&old), "cuCtxPopCurrent");
  int status = driver.launch(functions[0], 1, 1, 1, 128, 1, 1, 0, NULL, pointers, NULL),
      with = driver.launch(functions[0], 1, 1, 1, 128, 1, 1, 0, stream, pointers, NULL);
  printf("cuLaunchKernel with no context current: status %d with the NULL stream, %d with a stream\n", status,
         with);
}

int main(int argc, char **argv) {
  static side sides[MOST_LIBRARIES];
  uint32_t random = 1;
  void *primary;
  if (argc < 3 || argc > 2 + MOST_LIBRARIES) {
    fprintf(stderr, "usage: launch_outside EMPTY.kbundle LIBKILN.so... (at most %d)\n", MOST_LIBRARIES);
    return 2;
  }
  for (int i = 0; i < ORDER; i++) {
    random = random * 1664525 + 1013904223;
    order[i] = (uint8_t)((random >> 16) % COUNTS);
  }
  for (int i = 0; i < MOST_ARGS; i++) {
    values[i] = i & 1 ? 112 : 0x1000;
    pointers[i] = &values[i];
  }
  open_driver();
  must(driver.init(0), "cuInit");
  must(driver.retain(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(driver.push(primary), "cuCtxPushCurrent");
  must(driver.stream(&stream, 1), "cuStreamCreate");
  load_functions();
  for (int i = 2; i < argc; i++) {
    open_side(&sides[i - 2], argv[i], argv[1]);
    printf("library %d: %s\n", i - 1, argv[i]);
  }
  for (way how = 0; how < WAYS; how++)
    for (int kernel = 0; kernel < (how == WAY_TURNS ? 1 : COUNTS); kernel++)
      measure(sides, argc - 2, how, kernel);
  measure_current();
  try_contexts();
  return 0;
}
