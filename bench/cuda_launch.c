// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libkiln adds on an NVIDIA device; bench/cuda.sh runs it beside its peers. `cuda_launch launch
// EMPTY.kbundle`: whole launches against cuLaunchKernel of the same function, at 1 and 16 threads, launched
// and prepared, and the cycles of our part alone. `cuda_launch first KERNELS.kbundle ADD.cubin`: from exec to
// the first result, part by part, in processes of their own; the same code by cuModuleLoadData from a loose
// file; both with the files in the page cache and with their pages dropped before each process. Medians of
// rounds.
//
// Cycles of our part: the time stamp counter around a loop of launches, less what passes inside the driver's
// functions, less what the counters cost themselves. The last is measured with the same wrappers around a
// function that does nothing, called as often.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "bench/timing.h"
#include "runtime/device/device.h"

enum {
  ROUNDS = 101,
  LAUNCHES = 200,
  MOST_ARGS = 16,
  MOST_THREADS = 16,
  PROCESSES = 11,
  MOST_PARTS = 12,
  ELEMENTS = 1024
};

// The device's table of driver functions is the first thing in its state.
typedef struct cuda_api {
#define REQUIRED(field, symbol, parameters) int(*field) parameters;
#define OPTIONAL REQUIRED
#include "runtime/device/cuda_symbols.def"
#undef REQUIRED
#undef OPTIONAL
} cuda_api;

static void must(int status, const char *text) {
  if (!status) return;
  fprintf(stderr, "cuda_launch: %d: %s\n", status, text);
  exit(1);
}

// ------------------------------------------------------------------------------------------ launch

typedef enum launch_way {
  WAY_DRIVER,
  WAY_KILN,
  WAY_PREPARED,
  WAY_KILN_CYCLES,
  WAY_PREPARED_CYCLES
} launch_way;
typedef struct launch_run {
  kiln_kernel *kernel;
  uint32_t args;
  launch_way way;
  pthread_barrier_t *start;
  double value;
} launch_run;

static int (*true_launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          void *, void **, void **);
static int (*true_current)(void **);
static _Thread_local uint64_t driver_cycles;

static int counted_launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  uint64_t begin = __rdtsc();
  int result = true_launch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
  driver_cycles += __rdtsc() - begin;
  return result;
}

static int counted_current(void **out) {
  uint64_t begin = __rdtsc();
  int result = true_current(out);
  driver_cycles += __rdtsc() - begin;
  return result;
}

static int no_launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, void *stream, void **params, void **extra) {
  (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream,
      (void)params, (void)extra;
  return 0;
}
static int no_current(void **out) {
  *out = NULL;
  return 0;
}

// What one pass through both wrappers leaves outside of what they count: the counters, the wrappers' calls.
// Taken from the functions that do nothing, so it is a bound from below of what is not ours.
static double wrapper_cycles(void) {
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **) = true_launch;
  int (*current)(void **) = true_current;
  double rounds[ROUNDS];
  void *context;
  true_launch = no_launch;
  true_current = no_current;
  for (int round = 0; round < ROUNDS; round++) {
    driver_cycles = 0;
    uint64_t cycles = __rdtsc();
    for (int i = 0; i < LAUNCHES; i++) {
      counted_current(&context);
      counted_launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    }
    rounds[round] = (double)(__rdtsc() - cycles - driver_cycles) / LAUNCHES;
  }
  true_launch = launch;
  true_current = current;
  return bench_median(rounds, ROUNDS);
}

static bool is_cycles(launch_way way) { return way == WAY_KILN_CYCLES || way == WAY_PREPARED_CYCLES; }

static void launch_raw(const launch_run *r, const kiln_code *code, void *stream, uint8_t *block) {
  size_t size = r->kernel->used_bytes;
  void *extra[] = {(void *)1, block, (void *)2, &size, NULL};
  must(true_launch(atomic_load(&code->function), 1, 1, 1, code->info.block_threads, 1, 1,
                   code->info.dynamic_shared, stream, NULL, extra),
       "cuLaunchKernel");
}

static void *measure_launch(void *context) {
  launch_run *r = context;
  kiln_device *d = r->kernel->device;
  cuda_api *api = d->state;
  kiln_error err;
  kiln_stream stream;
  int64_t values[MOST_ARGS];
  uint8_t block[256] = {0};
  const void *pointers[MOST_ARGS];
  double rounds[ROUNDS];
  void *primary;
  must(api->primary_retain(&primary, 0), "cuDevicePrimaryCtxRetain");
  must(api->context_push(primary), "cuCtxPushCurrent");
  must(kiln_stream_create(d, &stream, &err), err.text);
  for (uint32_t i = 0; i < MOST_ARGS; i++) {
    values[i] = i & 1 ? 112 : 0x1000;
    pointers[i] = &values[i];
  }
  for (uint32_t i = 0; i < r->args; i++) {
    const kiln_param_record *p = &r->kernel->interface.params[i];
    memcpy(block + p->offset, &values[i], p->size);
  }
  const kiln_code *code = &r->kernel->codes[0];
  kiln_prepared *prepared;
  must(kiln_prepare(r->kernel, pointers, r->args, NULL, &prepared, &err), err.text);
  for (int round = -5; round < ROUNDS; round++) {
    pthread_barrier_wait(r->start);
    driver_cycles = 0;
    uint64_t begin = bench_now_ns(), cycles = __rdtsc();
    if (r->way == WAY_DRIVER)
      for (int i = 0; i < LAUNCHES; i++) launch_raw(r, code, stream, block);
    else if (r->way == WAY_PREPARED || r->way == WAY_PREPARED_CYCLES)
      for (int i = 0; i < LAUNCHES; i++) {
        must(kiln_prepared_set(prepared, 0, pointers[0], &err), err.text);
        must(kiln_prepared_launch(prepared, stream, &err), err.text);
      }
    else
      for (int i = 0; i < LAUNCHES; i++)
        must(kiln_launch(r->kernel, stream, pointers, r->args, &err), err.text);
    cycles = __rdtsc() - cycles;
    double ns = (double)(bench_now_ns() - begin) / LAUNCHES;
    must(kiln_sync(d, stream, &err), err.text);
    if (round >= 0) rounds[round] = is_cycles(r->way) ? (double)(cycles - driver_cycles) / LAUNCHES : ns;
  }
  r->value = bench_median(rounds, ROUNDS);
  kiln_prepared_free(prepared);
  kiln_stream_destroy(d, stream);
  return NULL;
}

static double measure(kiln_kernel *k, uint32_t args, launch_way way, unsigned threads) {
  pthread_t ids[MOST_THREADS];
  launch_run runs[MOST_THREADS];
  pthread_barrier_t start;
  double all[MOST_THREADS];
  cuda_api *api = k->device->state;
  api->launch = is_cycles(way) ? counted_launch : true_launch;
  api->context_current = is_cycles(way) ? counted_current : true_current;
  pthread_barrier_init(&start, NULL, threads);
  for (unsigned i = 0; i < threads; i++) {
    runs[i] = (launch_run){k, args, way, &start, 0};
    must(pthread_create(&ids[i], NULL, measure_launch, &runs[i]), "pthread_create");
  }
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    all[i] = runs[i].value;
  }
  pthread_barrier_destroy(&start);
  api->launch = true_launch;
  api->context_current = true_current;
  return bench_median(all, threads);
}

static int bench_launch(const char *bundle) {
  static const uint32_t counts[] = {2, 8, 16};
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  must(kiln_open_file(bundle, &l, &err), err.text);
  must(kiln_device_open(l, "cuda:0", &d, &err), err.text);
  cuda_api *api = d->state;
  true_launch = api->launch;
  true_current = api->context_current;
  uint64_t ns = bench_now_ns(), tsc = __rdtsc();
  while (bench_now_ns() - ns < 50000000) continue;
  double cycles_of_ns = (double)(__rdtsc() - tsc) / (double)(bench_now_ns() - ns),
         wrappers = wrapper_cycles();
  printf("%s, counter %.3f cycles a ns, counters and wrappers %.0f cycles a launch (subtracted)\n",
         kiln_device_description(d), cycles_of_ns, wrappers);
  for (size_t i = 0; i < 3; i++)
    for (unsigned threads = 1; threads <= MOST_THREADS; threads *= MOST_THREADS) {
      char name[32];
      kiln_kernel *k;
      snprintf(name, sizeof name, "empty%u", counts[i]);
      must(kiln_kernel_get(d, name, NULL, &k, &err), err.text);
      must(kiln_preload(k, &err), err.text);
      double raw = measure(k, counts[i], WAY_DRIVER, threads),
             ours = measure(k, counts[i], WAY_KILN, threads);
      double prepared = measure(k, counts[i], WAY_PREPARED, threads);
      double cycles = measure(k, counts[i], WAY_KILN_CYCLES, threads) - wrappers;
      double prepared_cycles = measure(k, counts[i], WAY_PREPARED_CYCLES, threads) - wrappers;
      printf("%2u arguments, %2u threads: cuLaunchKernel %7.0f ns, kiln_launch %7.0f ns, set and prepared "
             "%7.0f ns; our part %4.0f cycles (%3.0f ns), "
             "set and prepared %4.0f cycles (%3.0f ns)\n",
             counts[i], threads, raw, ours, prepared, cycles, cycles / cycles_of_ns, prepared_cycles,
             prepared_cycles / cycles_of_ns);
    }
  kiln_device_close(d);
  kiln_close(l);
  return 0;
}

// ------------------------------------------------------------------------------------ first result

typedef struct part {
  const char *name;
  double us;
} part;
static part parts[MOST_PARTS];
static size_t part_count;
static uint64_t last_ns;

static void part_done(const char *name) {
  uint64_t now = bench_now_ns();
  if (part_count < MOST_PARTS) parts[part_count++] = (part){name, (double)(now - last_ns) / 1e3};
  last_ns = bench_now_ns();
}

static void check_result(const float *z) {
  for (int i = 0; i < ELEMENTS; i++) must(z[i] != 3.0f, "add gave a wrong sum");
}

static int (*true_load)(void **, const void *, unsigned, int *, void **);
static double load_us;

static int timed_load(void **out, const void *image, unsigned count, int *options, void **values) {
  uint64_t begin = bench_now_ns();
  int result = true_load(out, image, count, options, values);
  load_us += (double)(bench_now_ns() - begin) / 1e3;
  return result;
}

// `loose`: the code comes from a file of its own, through the driver alone; else from the bundle.
static void run_first(const char *bundle, const char *loose) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k = NULL;
  kiln_error err;
  void *x, *y, *z, *module, *function = NULL, *primary;
  float host[ELEMENTS];
  int32_t n = ELEMENTS;
  kiln_open_options none = {.size = sizeof none};
  part_done("exec to main");
  must(loose ? kiln_open(&none, &l, &err) : kiln_open_file(bundle, &l, &err), err.text);
  part_done("open");
  must(kiln_device_open(l, "cuda:0", &d, &err), err.text);
  part_done("device (cuInit, context: the driver)");
  cuda_api *api = d->state;
  for (int i = 0; i < ELEMENTS; i++) host[i] = 1.5f;
  must(kiln_alloc(d, sizeof host, &x, &err) || kiln_alloc(d, sizeof host, &y, &err) ||
           kiln_alloc(d, sizeof host, &z, &err),
       err.text);
  must(kiln_copy_in(d, x, host, sizeof host, &err) || kiln_copy_in(d, y, host, sizeof host, &err), err.text);
  part_done("memory and copies in (the driver)");
  if (loose) {
    must(api->primary_retain(&primary, 0) || api->context_push(primary), "context");
    FILE *f = fopen(loose, "rb");
    char *image = f ? calloc(1, (1 << 20) + 1) : NULL; // PTX ends in a NUL
    must(!image || !fread(image, 1, 1 << 20, f), loose);
    fclose(f);
    part_done("read the file");
    int (*load)(void **, const void *) = NULL;
    *(void **)&load = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuModuleLoadData");
    must(!load || load(&module, image), "cuModuleLoadData");
    part_done("module load (the driver)");
    must(api->module_function(&function, module, "kiln_add_f32"), "cuModuleGetFunction");
    part_done("function");
    free(image);
  } else {
    must(kiln_kernel_get(d, "add[T=f32]", NULL, &k, &err), err.text);
    part_done("look-up and choice");
    true_load = api->module_load;
    api->module_load = timed_load;
    must(kiln_preload(k, &err), err.text);
    part_done("dictionary, decompress, check, function");
    parts[part_count - 1].us -= load_us;
    parts[part_count++] = (part){"module load (the driver)", load_us};
  }
  void *values[] = {&x, &y, &z, &n};
  if (loose) must(api->launch(function, 1, 1, 1, 128, 1, 1, 0, NULL, values, NULL), "cuLaunchKernel");
  else must(kiln_launch(k, NULL, (const void *const *)values, 4, &err), err.text);
  part_done("first launch");
  must(kiln_sync(d, NULL, &err), err.text);
  must(kiln_copy_out(d, host, z, sizeof host, &err), err.text);
  part_done("wait and copy out");
  check_result(host);
}

// So that the next process reads the file from the disk. Written pages would stay, so they are written back
// first.
static void drop_pages(const char *path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return;
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

// Runs this program again, PROCESSES times; a child writes its parts as lines of "us name".
static void bench_first(const char *program, const char *bundle, const char *loose, bool is_cold) {
  static char names[MOST_PARTS][80];
  double us[MOST_PARTS + 1][PROCESSES] = {{0}};
  size_t count = 0;
  for (int p = 0; p < PROCESSES; p++) {
    char command[1000], line[200];
    if (is_cold) drop_pages(loose ? loose : bundle);
    snprintf(command, sizeof command, "exec '%s' child '%s' '%s' %llu", program, bundle, loose ? loose : "",
             (unsigned long long)bench_now_ns());
    FILE *f = popen(command, "r");
    must(!f, "popen");
    for (count = 0; count < MOST_PARTS && fgets(line, sizeof line, f); count++) {
      must(sscanf(line, "%lf %79[^\n]", &us[count][p], names[count]) != 2, line);
      us[MOST_PARTS][p] += us[count][p];
    }
    must(pclose(f), "the process that was to be measured failed");
  }
  printf("%s, its pages %s\n", loose ? "loose file" : "bundle", is_cold ? "dropped" : "in the cache");
  for (size_t i = 0; i < count; i++) printf("  %10.1f us  %s\n", bench_median(us[i], PROCESSES), names[i]);
  printf("  %10.1f us  all\n", bench_median(us[MOST_PARTS], PROCESSES));
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "launch")) return bench_launch(argv[2]);
  if (argc == 5 && !strcmp(argv[1], "child")) {
    last_ns = strtoull(argv[4], NULL, 10);
    run_first(argv[2], *argv[3] ? argv[3] : NULL);
    for (size_t i = 0; i < part_count; i++) printf("%f %s\n", parts[i].us, parts[i].name);
    return 0;
  }
  if (argc != 4 || strcmp(argv[1], "first")) {
    fprintf(stderr, "usage: cuda_launch launch EMPTY.kbundle | first KERNELS.kbundle ADD.cubin\n");
    return 2;
  }
  for (int is_cold = 0; is_cold < 2; is_cold++) {
    bench_first(argv[0], argv[2], NULL, is_cold);
    bench_first(argv[0], argv[2], argv[3], is_cold);
  }
  return 0;
}
