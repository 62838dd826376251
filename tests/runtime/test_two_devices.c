// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests two devices in one process, through one library, with a simulated driver that judges every call
// (tests/emulation/two_devices.c): each call about a device is made with that device current, whatever the
// program has made current in its threads, and afterwards the program's device is current again.
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>

#include "tests/runtime/fixture.h"

typedef struct driver {
  int (*faults)(const char **);
  void (*describe)(int, int);
  uint64_t (*launches)(int);
  int (*left)(void);
  void (*fail)(long);
  long (*calls)(void);
  void (*set)(int);
  int (*current)(void);
  void (*capture)(void *, int);
  const char *name; // "cuda"
} driver;

enum { DEVICES = 2, STREAMS = 3, FLOATS = 300 };

static driver driver_of(const char *name) {
  bool is_hip = !strcmp(name, "hip");
  const char *soname = is_hip ? "libamdhip64.so" : "libcuda.so.1";
  char *out, path[520];
  driver d = {.name = name};
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), soname);
  if (kiln_test_run(&out,
                    "gcc -shared -fPIC -O1 -Wall -Wextra -Werror " KILN_TEST_COMPILE
                    " %s -Wl,-soname,%s -o %s tests/emulation/two_devices.c -lpthread",
                    is_hip ? "-DHIP" : "", soname, path))
    FAIL("gcc: %s", out);
  free(out);
  void *handle = dlopen(path, RTLD_NOW), **to = (void **)&d;
  if (!handle) FAIL("%s", dlerror());
  static const char *const names[] = {"faults", "describe", "launches", "left",   "fail",
                                      "calls",  "set",      "current",  "capture"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char symbol[40];
    snprintf(symbol, sizeof symbol, "devices_%s", names[i]);
    to[i] = dlsym(handle, symbol);
    CHECK(to[i] != NULL);
  }
  return d;
}

static void check_faults(const driver *d) {
  const char *text;
  int count = d->faults(&text);
  if (count) FAIL("%d faults; the first: %s", count, text);
}

// ------------------------------------------------------------------------------------------- bundle

// A map of x by n floats.
static const uint8_t map_record[] = {1, KILN_F32,        1, 0, 0, 0, 0, 32, 0, 0, 0, 2, KILN_EXPR_PARAM, 1,
                                     2, KILN_EXPR_CONST, 0};

static void add_code(fixture *f, uint32_t kernel, kiln_format format, const char *target, const char *symbol,
                     kiln_span maps) {
  kiln_buffer info = {0};
  kiln_code_info_encode(&(kiln_code_info){.format = (uint8_t)format,
                                          .target = target,
                                          .symbol = symbol,
                                          .block_threads = 64,
                                          .wave = 32,
                                          .dynamic_shared = 50 << 10,
                                          .producer = target,
                                          .cluster = maps.size ? 2 : 0,
                                          .blocks = 0,
                                          .maps = maps},
                        &info);
  kiln_manifest_code(&f->manifest, kernel, 0, 0, target, info.bytes, info.size, target, strlen(target));
  kiln_buffer_deinit(&info);
}

/// add_one(x, y, n) for everything, mapped(x, n) for CUDA.
static void write_bundle(void) {
  fixture f;
  fixture_begin(&f);
  uint32_t add = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
  add_code(&f, add, KILN_FORMAT_CUBIN, "sm_80", "add_one", (kiln_span){0});
  add_code(&f, add, KILN_FORMAT_CUBIN, "sm_90a", "add_one", (kiln_span){0});
  add_code(&f, add, KILN_FORMAT_HSACO, "gfx942", "add_one", (kiln_span){0});
  add_code(&f, add, KILN_FORMAT_HSACO, "gfx90a", "add_one", (kiln_span){0});
  uint32_t mapped = fixture_kernel(
      &f, &(kiln_interface){
              .name = "mapped",
              .symbol = "mapped",
              .params = (kiln_param_record[]){pointer_param("x", KILN_F32), scalar_param("n", KILN_I32)},
              .param_count = 2,
              .config_count = 1,
              .variant_count = 1,
              .configs = (kiln_config_record[]){{.text = "", .warps = 1, .grid = {SPAN(C(1))}}},
              .variants = (kiln_variant_record[]){{.text = ""}}});
  add_code(&f, mapped, KILN_FORMAT_CUBIN, "sm_80", "mapped", (kiln_span){map_record, sizeof map_record});
  fixture_write(&f, kiln_test_path("two.kbundle"), "");
}

/// Both devices of a driver by one library.
typedef struct both {
  driver driver;
  kiln_library *library;
  kiln_device *devices[DEVICES];
  kiln_kernel *add[DEVICES], *mapped[DEVICES];
  kiln_stream streams[DEVICES][STREAMS]; // the first is the default one
  int lost;                              // to calls that were made to fail
} both;

static both open_both(const char *name, int first, int second) {
  both b = {.driver = driver_of(name)};
  kiln_error err;
  char text[16];
  b.driver.describe(0, first);
  b.driver.describe(1, second);
  write_bundle();
  CHECK_OK(kiln_open_file(kiln_test_path("two.kbundle"), &b.library, &err), err);
  for (int i = 0; i < DEVICES; i++) {
    snprintf(text, sizeof text, "%s:%d", name, i);
    CHECK_OK(kiln_device_open(b.library, text, &b.devices[i], &err), err);
    CHECK_OK(kiln_kernel_get(b.devices[i], "add_one", NULL, &b.add[i], &err), err);
    if (first == 80 && second == 80 && !strcmp(name, "cuda"))
      CHECK_OK(kiln_kernel_get(b.devices[i], "mapped", NULL, &b.mapped[i], &err), err);
    for (int s = 1; s < STREAMS; s++) CHECK_OK(kiln_stream_create(b.devices[i], &b.streams[i][s], &err), err);
  }
  return b;
}

static void close_both(both *b) {
  for (int i = 0; i < DEVICES; i++) {
    for (int s = 1; s < STREAMS; s++) kiln_stream_destroy(b->devices[i], b->streams[i][s]);
    kiln_device_close(b->devices[i]);
  }
  kiln_close(b->library);
  CHECK_INT(b->driver.left(), b->lost);
  check_faults(&b->driver);
}

// -------------------------------------------------------------------------------------------- drawn

enum { BUFFERS = 4 };
/// What one thread has on each device, and what is to be there.
typedef struct worker {
  both *b;
  uint64_t random;
  int operations;
  void *memory[DEVICES][BUFFERS];
  float shadow[DEVICES][BUFFERS][FLOATS];
  kiln_prepared *prepared[DEVICES];
  int from[DEVICES], to[DEVICES], prepared_n[DEVICES];
  unsigned done[16];
  char failure[600]; // why it ended before its time
} worker;

/// Criterion ends a test in its first thread only.
__attribute__((noreturn, format(printf, 2, 3))) static void stop(worker *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(w->failure, sizeof w->failure, format, list);
  va_end(list);
  pthread_exit(NULL);
}
#define MUST(call)                                                                 \
  do {                                                                             \
    if ((call) != KILN_OK) stop(w, "%s (line %d): %s", #call, __LINE__, err.text); \
  } while (0)

static unsigned below(worker *w, unsigned n) { return (unsigned)(kiln_test_random(&w->random) % n); }

static void add_shadow(worker *w, int d, int from, int to, int n) {
  for (int i = 0; i < n; i++) w->shadow[d][to][i] = w->shadow[d][from][i] + 1;
}

static void check_buffer(worker *w, int d, int at) {
  float back[FLOATS];
  kiln_error err;
  MUST(kiln_copy_out(w->b->devices[d], back, w->memory[d][at], sizeof back, &err));
  for (int i = 0; i < FLOATS; i++)
    if (back[i] != w->shadow[d][at][i])
      stop(w, "device %d, buffer %d: element %d is %f, expected %f", d, at, i, (double)back[i],
           (double)w->shadow[d][at][i]);
}

static void take_buffer(worker *w, int d, int at) {
  kiln_error err;
  MUST(kiln_alloc(w->b->devices[d], sizeof w->shadow[d][at], &w->memory[d][at], &err));
  MUST(kiln_fill(w->b->devices[d], w->memory[d][at], 0, sizeof w->shadow[d][at], &err));
  memset(w->shadow[d][at], 0, sizeof w->shadow[d][at]);
}

static void launch_one(worker *w, int d, int from, int to, kiln_stream stream) {
  kiln_error err;
  int n = (int)below(w, FLOATS) + 1;
  struct {
    void *x, *y;
    int n, pad;
  } block = {w->memory[d][from], w->memory[d][to], n, 0};
  const void *args[] = {&block.x, &block.y, &block.n};
  kiln_kernel *k = w->b->add[d];
  switch (below(w, 3)) {
  case 0: MUST(kiln_launch(k, stream, args, 3, &err)); break;
  case 1: MUST(kiln_launch_packed(k, stream, &block, sizeof block, &err)); break;
  default: MUST(kiln_launch_grid(k, stream, (uint32_t[]){5, 1, 1}, &block, sizeof block, &err));
  }
  add_shadow(w, d, from, to, n);
}

static void prepare_one(worker *w, int d, int from, int to, kiln_stream stream) {
  kiln_error err;
  int n = (int)below(w, FLOATS) + 1;
  const void *args[] = {&w->memory[d][from], &w->memory[d][to], &n};
  if (!w->prepared[d]) MUST(kiln_prepare(w->b->add[d], args, 3, NULL, &w->prepared[d], &err));
  for (size_t i = 0; i < 3; i++) MUST(kiln_prepared_set(w->prepared[d], i, args[i], &err));
  MUST(kiln_prepared_launch(w->prepared[d], stream, &err));
  add_shadow(w, d, from, to, n);
  if (below(w, 4)) return;
  kiln_prepared_free(w->prepared[d]);
  w->prepared[d] = NULL;
}

/// A stream of the other device: refused by both names, and nothing runs.
static void launch_astray(worker *w, int d, int from, int to) {
  kiln_error err;
  char here[16], there[16];
  int n = 5;
  const void *args[] = {&w->memory[d][from], &w->memory[d][to], &n};
  snprintf(here, sizeof here, "%s:%d", w->b->driver.name, d);
  snprintf(there, sizeof there, "%s:%d", w->b->driver.name, !d);
  kiln_stream stream = w->b->streams[!d][1 + below(w, STREAMS - 1)];
  kiln_prepared *p = NULL;
  kiln_status status = KILN_OK;
  if (below(w, 2)) status = kiln_launch(w->b->add[d], stream, args, 3, &err);
  else {
    MUST(kiln_prepare(w->b->add[d], args, 3, NULL, &p, &err));
    status = kiln_prepared_launch(p, stream, &err);
    kiln_prepared_free(p);
  }
  if (status != KILN_STATUS_INVALID_ARGUMENT || !strstr(err.text, here) || !strstr(err.text, there) ||
      !strstr(err.text, "stream") || !strstr(err.text, "add_one"))
    stop(w, "a stream of the other device: status %d, %s", (int)status, err.text);
}

static void operate(worker *w, unsigned what, int d) {
  both *b = w->b;
  kiln_error err;
  int from = (int)below(w, BUFFERS), to = (int)below(w, BUFFERS);
  kiln_stream stream = b->streams[d][below(w, STREAMS)], own;
  switch (what) {
  case 0: launch_one(w, d, from, to, stream); break;
  case 1: prepare_one(w, d, from, to, stream); break;
  case 2: launch_astray(w, d, from, to); break;
  case 3: check_buffer(w, d, from); break;
  case 4:
    for (int i = 0; i < FLOATS; i++) w->shadow[d][to][i] = (float)below(w, 1000);
    MUST(kiln_copy_in(b->devices[d], w->memory[d][to], w->shadow[d][to], sizeof w->shadow[d][to], &err));
    break;
  case 5:
    memset(w->shadow[d][to], 0x3f, sizeof w->shadow[d][to]);
    MUST(kiln_fill(b->devices[d], w->memory[d][to], 0x3f, sizeof w->shadow[d][to], &err));
    break;
  case 6:
    kiln_free(b->devices[d], w->memory[d][to]);
    take_buffer(w, d, to);
    break;
  case 7: MUST(kiln_sync(b->devices[d], stream, &err)); break;
  case 8: // also a stream of the other device may be waited for
    MUST(kiln_sync(b->devices[d], b->streams[!d][1], &err));
    break;
  case 9:
    MUST(kiln_stream_create(b->devices[d], &own, &err));
    launch_one(w, d, from, to, own);
    kiln_stream_destroy(b->devices[d], own);
    break;
  case 10: MUST(kiln_preload(b->add[d], &err)); break;
  default:
    if (!b->mapped[d]) break;
    int n = 1 + (int)below(w, FLOATS);
    const void *args[] = {&w->memory[d][from], &n};
    MUST(kiln_launch(b->mapped[d], stream, args, 2, &err));
  }
}

enum { OPERATIONS = 12, OPERATIONS_OF_A_THREAD = 1500 };

static void *work(void *context) {
  worker *w = context;
  const driver *d = &w->b->driver;
  bool is_hip = !strcmp(d->name, "hip");
  for (int i = 0; i < DEVICES; i++)
    for (int at = 0; at < BUFFERS; at++) take_buffer(w, i, at);
  for (; w->operations < OPERATIONS_OF_A_THREAD; w->operations++) {
    // None, those of the two devices, or another context of device 0, as another library of the program has.
    d->set(is_hip ? (int)below(w, 2) : (int)below(w, 4) - 1);
    unsigned what = below(w, OPERATIONS);
    int device = (int)below(w, DEVICES), before = d->current();
    operate(w, what, device);
    if (d->current() != before)
      stop(w, "operation %d (%u on device %d): context %d was current, now %d", w->operations, what, device,
           before, d->current());
    w->done[what]++;
  }
  for (int i = 0; i < DEVICES; i++)
    for (int at = 0; at < BUFFERS; at++) {
      check_buffer(w, i, at);
      kiln_free(w->b->devices[i], w->memory[i][at]);
    }
  for (int i = 0; i < DEVICES; i++) kiln_prepared_free(w->prepared[i]);
  return NULL;
}

static void run_drawn(const char *name, int first, int second) {
  enum { THREADS = 2 };
  const char *given = getenv("KILN_TEST_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 10) : 20261126;
  both b = open_both(name, first, second);
  static worker workers[THREADS];
  pthread_t threads[THREADS];
  printf("%s:0 sm_%d, %s:1 sm_%d, seed %llu\n", name, first, name, second, (unsigned long long)seed);
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.b = &b, .random = seed + (uint64_t)i};
    CHECK_INT(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  unsigned done[OPERATIONS] = {0};
  for (int i = 0; i < THREADS; i++) {
    if (*workers[i].failure)
      FAIL("thread %d, operation %d: %s", i, workers[i].operations, workers[i].failure);
    CHECK_INT(workers[i].operations, OPERATIONS_OF_A_THREAD);
    for (int at = 0; at < OPERATIONS; at++) done[at] += workers[i].done[at];
  }
  for (int at = 0; at < OPERATIONS; at++) CHECK(done[at] >= 100); // each kind of operation, often
  CHECK(b.driver.launches(0) > 100 && b.driver.launches(1) > 100);
  close_both(&b);
}

TEST(two_devices, drawn_on_cuda) { run_drawn("cuda", 80, 80); }
TEST(two_devices, drawn_on_cuda_of_two_processors) { run_drawn("cuda", 90, 80); }
TEST(two_devices, drawn_on_hip) { run_drawn("hip", 80, 80); }
TEST(two_devices, drawn_on_hip_of_two_processors) { run_drawn("hip", 80, 90); }

// ------------------------------------------------------------------------------------- calls that fail

/// What a step works on: all of the device `at` of its own, the other is there as well.
typedef struct trial {
  both *b;
  int at;
  kiln_device *device;
  kiln_kernel *add, *mapped;
  kiln_prepared *prepared;
  kiln_stream stream;
  void *memory;
  kiln_error err;
} trial;

static const float some_floats[FLOATS];
static int launched_n = 64;

static kiln_status try_open(trial *t) {
  char name[16];
  snprintf(name, sizeof name, "%s:%d", t->b->driver.name, t->at);
  return kiln_device_open(t->b->library, name, &t->device, &t->err);
}
static kiln_status try_alloc(trial *t) {
  return kiln_alloc(t->device, sizeof some_floats, &t->memory, &t->err);
}
static kiln_status try_stream(trial *t) { return kiln_stream_create(t->device, &t->stream, &t->err); }
static kiln_status try_get(trial *t) { return kiln_kernel_get(t->device, "add_one", NULL, &t->add, &t->err); }
static kiln_status try_get_mapped(trial *t) {
  if (strcmp(t->b->driver.name, "cuda")) return KILN_OK;
  return kiln_kernel_get(t->device, "mapped", NULL, &t->mapped, &t->err);
}
static kiln_status try_launch(trial *t) { // the first loads
  return kiln_launch(t->add, t->stream, (const void *const[]){&t->memory, &t->memory, &launched_n}, 3,
                     &t->err);
}
static kiln_status try_mapped(trial *t) {
  const void *args[] = {&t->memory, &launched_n};
  return t->mapped ? kiln_launch(t->mapped, NULL, args, 2, &t->err) : KILN_OK;
}
static kiln_status try_preload(trial *t) { return kiln_preload(t->add, &t->err); }
static kiln_status try_prepare(trial *t) {
  const void *args[] = {&t->memory, &t->memory, &launched_n};
  return kiln_prepare(t->add, args, 3, NULL, &t->prepared, &t->err);
}
static kiln_status try_prepared(trial *t) { return kiln_prepared_launch(t->prepared, NULL, &t->err); }
static kiln_status try_copy_in(trial *t) {
  return kiln_copy_in(t->device, t->memory, some_floats, sizeof some_floats, &t->err);
}
static kiln_status try_copy_out(trial *t) {
  float back[FLOATS];
  return kiln_copy_out(t->device, back, t->memory, sizeof back, &t->err);
}
static kiln_status try_fill(trial *t) {
  return kiln_fill(t->device, t->memory, 0, sizeof some_floats, &t->err);
}
static kiln_status try_sync(trial *t) { return kiln_sync(t->device, t->stream, &t->err); }
static kiln_status try_sync_all(trial *t) { return kiln_sync(t->device, NULL, &t->err); }

typedef kiln_status step(trial *t);
static step *const steps[] = {try_open,    try_alloc,   try_stream,   try_get,     try_get_mapped,
                              try_launch,  try_preload, try_mapped,   try_prepare, try_prepared,
                              try_copy_in, try_fill,    try_copy_out, try_sync,    try_sync_all};

static void give_back(trial *t) {
  kiln_prepared_free(t->prepared);
  kiln_stream_destroy(t->device, t->stream);
  kiln_free(t->device, t->memory);
  kiln_device_close(t->device);
}

/// All steps and the giving back, of whose driver calls the nth fails: the step of that call is a status with
/// a text, or does without (whether a stream is captured, how many clusters there are), and goes through when
/// it is made again. Whether there is an nth call.
static bool fail_call(both *b, int at, int current, long nth, int left) {
  const driver *d = &b->driver;
  trial t = {.b = b, .at = at};
  int refused = 0;
  d->set(current);
  int before = d->current();
  d->fail(nth);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    kiln_status status = steps[i](&t);
    if (status && (d->calls() < nth || refused++ || !*t.err.text || strchr(t.err.text, '\n')))
      FAIL("call %ld fails, step %zu: status %d, %s", nth, i, (int)status, t.err.text);
    if (status) CHECK_OK(steps[i](&t), t.err);
    if (d->current() != before)
      FAIL("call %ld fails, step %zu: context %d was current, now %d", nth, i, before, d->current());
  }
  bool has_been = d->calls() >= nth;
  give_back(&t);
  if (d->current() != before)
    FAIL("call %ld fails: context %d was current before what was taken is given back, now %d", nth, before,
         d->current());
  // What the driver does not take back is lost, a module with its function; nothing else is.
  int lost = d->left() - left;
  if (lost < b->lost || lost > b->lost + (has_been ? 0 : 2))
    FAIL("call %ld fails, and %d are left", nth, lost);
  b->lost = lost;
  has_been |= d->calls() >= nth;
  d->fail(0);
  return has_been;
}

/// Each driver call fails in turn, whatever the program has current.
static void fail_each_call(const char *name) {
  both b = open_both(name, 80, 80);
  bool is_hip = !strcmp(name, "hip");
  int left = b.driver.left();
  long failed = 0;
  for (int at = 0; at < DEVICES; at++)
    for (int current = is_hip ? 0 : -1; current < (is_hip ? 2 : 3); current++) {
      long nth = 1;
      while (fail_call(&b, at, current, nth, left)) nth++;
      failed += nth - 1;
    }
  printf("%s: %ld driver calls failed\n", name, failed);
  CHECK(failed > 100);
  close_both(&b);
}

TEST(two_devices, each_call_of_cuda_fails) { fail_each_call("cuda"); }
TEST(two_devices, each_call_of_hip_fails) { fail_each_call("hip"); }

// --------------------------------------------------------------------------------- what each has of its own

// While a stream of one is captured, that one loads nothing and says so; the other does.
TEST(two_devices, a_capture_on_one) {
  both b = open_both("cuda", 80, 80);
  void *memory[DEVICES];
  kiln_error err;
  int n = 10;
  b.driver.set(0);
  for (int i = 0; i < DEVICES; i++) CHECK_OK(kiln_alloc(b.devices[i], 400, &memory[i], &err), err);
  b.driver.capture(b.streams[1][1], 1);
  CHECK_INT(
      kiln_launch(b.add[1], b.streams[1][1], (const void *const[]){&memory[1], &memory[1], &n}, 3, &err),
      KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "kiln_preload"));
  CHECK_OK(kiln_launch(b.add[0], b.streams[0][1], (const void *const[]){&memory[0], &memory[0], &n}, 3, &err),
           err);
  b.driver.capture(b.streams[1][1], 0);
  CHECK_OK(kiln_preload(b.add[1], &err), err);
  b.driver.capture(b.streams[1][1], 1);
  CHECK_OK(kiln_launch(b.add[1], b.streams[1][1], (const void *const[]){&memory[1], &memory[1], &n}, 3, &err),
           err);
  b.driver.capture(b.streams[1][1], 0);
  CHECK_INT(b.driver.current(), 10);
  for (int i = 0; i < DEVICES; i++) kiln_free(b.devices[i], memory[i]);
  close_both(&b);
}

static void check_target(kiln_kernel *k, const char *target) {
  kiln_choice choice;
  kiln_error err;
  uint64_t block[3] = {4096, 4096, 100};
  CHECK_OK(kiln_choose(k, block, kiln_block_size(k), &choice, &err), err);
  CHECK_TEXT(choice.target, target);
}

// Two processors, one library: each has its own code, or is refused by name.
TEST(two_devices, each_its_own_code) {
  static const struct {
    const char *device, *target;
  } rows[] = {{"null:sm_80", "sm_80"},
              {"null:sm_90a", "sm_90a"},
              {"null:sm_86", "sm_80"},
              {"null:1:sm_90a", "sm_90a"},
              {"null:gfx942", "gfx942"},
              {"null:gfx90a", "gfx90a"},
              {"null:2:gfx942", "gfx942"},
              {"null:sm_120a", NULL},
              {"null:gfx1100", NULL},
              {"null:3:x86-64-v3", NULL},
              {"host", NULL},
              {"null:7:sm_89", "sm_80"}};
  enum { COUNT = sizeof rows / sizeof *rows };
  kiln_library *l;
  kiln_device *devices[COUNT];
  kiln_kernel *kernels[COUNT];
  kiln_error err;
  write_bundle();
  CHECK_OK(kiln_open_file(kiln_test_path("two.kbundle"), &l, &err), err);
  for (int i = 0; i < COUNT; i++) {
    CHECK_OK(kiln_device_open(l, rows[i].device, &devices[i], &err), err);
    kiln_status status = kiln_kernel_get(devices[i], "add_one", NULL, &kernels[i], &err);
    CHECK_INT(status, rows[i].target ? KILN_OK : KILN_STATUS_NO_VARIANT);
    if (status && !strstr(err.text, kiln_device_target_name(devices[i]))) FAIL("%s", err.text);
  }
  for (int i = 0; i < COUNT; i++) {
    if (!rows[i].target) continue;
    check_target(kernels[i], rows[i].target);
    for (int other = 0; other < i; other++) CHECK(!rows[other].target || kernels[other] != kernels[i]);
  }
  // Prepared launches are of their device: that of one ends with it, the other's goes on.
  kiln_prepared *of_first, *of_second;
  void *none = NULL;
  int n = 5;
  const void *args[] = {&none, &none, &n};
  CHECK_OK(kiln_prepare(kernels[0], args, 3, NULL, &of_first, &err), err);
  CHECK_OK(kiln_prepare(kernels[1], args, 3, NULL, &of_second, &err), err);
  kiln_device_close(devices[0]);
  CHECK_INT(kiln_prepared_launch(of_first, NULL, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK(strstr(err.text, "null:sm_80"));
  CHECK_OK(kiln_prepared_launch(of_second, NULL, &err), err);
  kiln_prepared_free(of_first);
  kiln_prepared_free(of_second);
  for (int i = 1; i < COUNT; i++) kiln_device_close(devices[i]);
  kiln_close(l);
}

TEST(two_devices, numbers_of_null) {
  static const char *const good[] = {"null:0", "null:1", "null:9999", "null:0:sm_80",
                                     "null:12:gfx942:xnack-"};
  static const char *const bad[] = {"null:1x", "null:12345", "null:1sm_80", "null:-1",
                                    "null:1:", "null:1:2",   "null:1:sm_x", "null::sm_80"};
  kiln_open_options none = {.size = sizeof none};
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  CHECK_OK(kiln_open(&none, &l, &err), err);
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    CHECK_OK(kiln_device_open(l, good[i], &d, &err), err);
    kiln_device_close(d);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kiln_status status = kiln_device_open(l, bad[i], &d, &err);
    if (status != KILN_STATUS_NO_DEVICE && status != KILN_STATUS_TARGET)
      FAIL("'%s': status %d", bad[i], (int)status);
  }
  kiln_close(l);
}
