// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests every kind of device with one suite; an absent device is a skip. The kernel adds one to n floats: C
// for the host, PTX for NVIDIA.
#include <dlfcn.h>
#include <pthread.h>

#include "tests/runtime/fixture.h"

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry add_one(.param .u64 p0, .param .u64 p1, .param .u32 p2)\n{\n"
                          ".reg .b64 %x,%y,%o; .reg .b32 %i,%n,%t,%c; .reg .f32 %f; .reg .pred %p;\n"
                          "ld.param.u64 %x,[p0]; ld.param.u64 %y,[p1]; ld.param.u32 %n,[p2];\n"
                          "mov.u32 %c,%ctaid.x; mov.u32 %t,%tid.x; mad.lo.u32 %i,%c,64,%t;\n"
                          "setp.ge.u32 %p,%t,64; @%p ret; setp.ge.u32 %p,%i,%n; @%p ret;\n"
                          "cvta.to.global.u64 %x,%x; cvta.to.global.u64 %y,%y; mul.wide.u32 %o,%i,4; add.u64 "
                          "%x,%x,%o; add.u64 %y,%y,%o;\n"
                          "ld.global.f32 %f,[%x]; add.f32 %f,%f,0f3F800000; st.global.f32 [%y],%f; ret;\n}\n";

static void write_bundle(const char *nvidia_code) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_80", "add_one", nvidia_code, strlen(nvidia_code));
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  free(object);
}

typedef struct opened {
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
} opened;

static opened open_all(const char *name) {
  opened o;
  kiln_error err;
  write_bundle(ptx);
  fixture_open(kiln_test_path("a.kbundle"), name, &o.library, &o.device);
  CHECK_OK(kiln_kernel_get(o.device, "add_one", NULL, &o.kernel, &err), err);
  return o;
}

static void close_all(opened *o) {
  kiln_device_close(o->device);
  kiln_close(o->library);
}

static void check_memory(kiln_device *d) {
  kiln_error err;
  uint8_t bytes[1000], back[1000];
  void *memory;
  for (int i = 0; i < 1000; i++) bytes[i] = (uint8_t)(i * 7);
  CHECK_OK(kiln_alloc(d, 1000, &memory, &err), err);
  CHECK_INT((uintptr_t)memory % 256, 0);
  CHECK_OK(kiln_copy_in(d, memory, bytes, 1000, &err), err);
  CHECK_OK(kiln_fill(d, (uint8_t *)memory + 100, 0xab, 50, &err), err);
  CHECK_OK(kiln_copy_out(d, back, memory, 1000, &err), err);
  for (int i = 0; i < 1000; i++) CHECK_INT(back[i], i >= 100 && i < 150 ? 0xab : bytes[i]);
  kiln_free(d, memory);
  CHECK_OK(kiln_alloc(d, 0, &memory, &err), err);
  kiln_free(d, memory);
  kiln_free(d, NULL);
}

static bool runs(const opened *o) { return strncmp(kiln_device_target_name(o->device), "null", 4) != 0; }

static void check_prepared(opened *o, kiln_stream stream, void *dx, void *dy, const float *x, float *y,
                           int n) {
  kiln_error err;
  kiln_prepared *p;
  size_t size = sizeof(float) * (size_t)n;
  int none = 0;
  CHECK_OK(kiln_fill(o->device, dy, 0, size, &err), err);
  CHECK_OK(kiln_prepare(o->kernel, (const void *const[]){&dy, &dy, &none}, 3, NULL, &p, &err), err);
  CHECK_OK(kiln_prepared_set(p, 0, &dx, &err), err);
  CHECK_OK(kiln_prepared_set(p, 2, &n, &err), err);
  CHECK_OK(kiln_prepared_launch(p, stream, &err), err);
  CHECK_OK(kiln_sync(o->device, stream, &err), err);
  CHECK_OK(kiln_copy_out(o->device, y, dy, size, &err), err);
  for (int i = 0; i < n; i++)
    if (y[i] != (runs(o) ? x[i] + 1 : 0)) FAIL("prepared: y[%d] is %f", i, (double)y[i]);
  kiln_prepared_free(p);
}

static void check_launch(opened *o, kiln_stream stream, int n) {
  kiln_error err;
  size_t size = sizeof(float) * (size_t)n;
  float *x = malloc(size + 4), *y = malloc(size + 4);
  void *dx, *dy;
  for (int i = 0; i < n; i++) x[i] = (float)i;
  CHECK_OK(kiln_alloc(o->device, size, &dx, &err), err);
  CHECK_OK(kiln_alloc(o->device, size, &dy, &err), err);
  CHECK_OK(kiln_copy_in(o->device, dx, x, size, &err), err);
  CHECK_OK(kiln_fill(o->device, dy, 0, size, &err), err);
  CHECK_OK(kiln_launch(o->kernel, stream, (const void *const[]){&dx, &dy, &n}, 3, &err), err);
  CHECK_OK(kiln_sync(o->device, stream, &err), err);
  CHECK_OK(kiln_copy_out(o->device, y, dy, size, &err), err);
  for (int i = 0; i < n; i++)
    if (y[i] != (runs(o) ? x[i] + 1 : 0)) FAIL("y[%d] is %f", i, (double)y[i]);
  check_prepared(o, stream, dx, dy, x, y, n);
  kiln_free(o->device, dx);
  kiln_free(o->device, dy);
  free(x);
  free(y);
}

static void check_device(const char *name) {
  kiln_stream stream;
  kiln_error err;
  opened o = open_all(name);
  CHECK(*kiln_device_target_name(o.device) && *kiln_device_description(o.device));
  check_memory(o.device);
  for (int n = 0; n <= 1000; n += 125) check_launch(&o, NULL, n);
  CHECK_OK(kiln_stream_create(o.device, &stream, &err), err);
  check_launch(&o, stream, 5000);
  kiln_stream_destroy(o.device, stream);
  int n = -1;
  void *none = NULL;
  CHECK_INT(kiln_launch(o.kernel, NULL, (const void *const[]){&none, &none, &n}, 3, &err),
            KILN_OK); // cdiv(-1, 64) is 0
  close_all(&o);
}

TEST(devices, host) { check_device("host"); }
TEST(devices, host_one_thread) { check_device("host:1"); }
TEST(devices, host_seven_threads) { check_device("host:7"); }
TEST(devices, null) { check_device("null"); }
TEST(devices, cuda) { check_device("cuda:0"); }
TEST(devices, hip) {
  // No code for AMD in the bundle: a device that is there refuses by name.
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  write_bundle(ptx);
  fixture_open(kiln_test_path("a.kbundle"), "hip:0", &l, &d);
  check_memory(d);
  CHECK_INT(kiln_kernel_get(d, "add_one", NULL, &k, &err), KILN_STATUS_NO_VARIANT);
  kiln_device_close(d);
  kiln_close(l);
}

typedef struct heard {
  int level, count;
  char text[300];
} heard;

static void hear(void *user, int level, const char *text) {
  heard *h = user;
  h->level = level;
  h->count++;
  snprintf(h->text, sizeof h->text, "%s", text);
}

// Every level of the log is heard: a kernel at its first look-up, one without code each time.
TEST(devices, log_levels) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  heard h = {.level = -1};
  kiln_source source = {.path = kiln_test_path("a.kbundle")};
  kiln_open_options options = {
      .size = sizeof options, .sources = &source, .source_count = 1, .log = hear, .log_user = &h};
  write_bundle(ptx);
  CHECK_OK(kiln_open(&options, &l, &err), err);
  CHECK_OK(kiln_device_open(l, "host:1", &d, &err), err);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_INT(h.level, KILN_LOG_INFO);
  CHECK(strstr(h.text, "'add_one' on host") != NULL);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_INT(h.count, 1);
  CHECK(kiln_kernel_get(d, "add_two", NULL, &k, &err) != KILN_OK);
  CHECK_INT(h.level, KILN_LOG_ERROR);
  kiln_device_close(d);
  kiln_close(l);
}

// 51: two views of one device, and two devices, load for themselves; the handles stay apart.
TEST(devices, several_cuda_devices) {
  opened a = open_all("cuda:0");
  kiln_device *second;
  kiln_error err;
  opened b = a;
  if (kiln_device_open(a.library, "cuda:1", &second, &err) != KILN_OK)
    CHECK_OK(kiln_device_open(a.library, "cuda:0", &second, &err), err);
  b.device = second;
  CHECK_OK(kiln_kernel_get(second, "add_one", NULL, &b.kernel, &err), err);
  CHECK(a.kernel != b.kernel);
  check_launch(&a, NULL, 300);
  check_launch(&b, NULL, 300);
  check_launch(&a, NULL, 300);
  kiln_device_close(second);
  check_launch(&a, NULL, 300);
  close_all(&a);
}

// What the driver says about bad PTX comes back, in one line.
TEST(devices, cuda_reports_what_it_does_not_take) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  write_bundle(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry add_one() { nonsense; }\n");
  fixture_open(kiln_test_path("a.kbundle"), "cuda:0", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_INT(kiln_preload(k, &err), KILN_STATUS_DRIVER);
  CHECK(strstr(err.text, "add_one") && strstr(err.text, "sm_80") && !strchr(err.text, '\n'));
  kiln_device_close(d);
  kiln_close(l);
}

// 53: while a stream is captured nothing is loaded; a loaded kernel is captured and runs when the graph does.
TEST(devices, cuda_graph_capture) {
  kiln_stream stream;
  kiln_error err;
  opened o = open_all("cuda:0");
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *graph, *run, *context;
  int (*begin)(void *, int), (*end)(void *, void **), (*instantiate)(void **, void *, unsigned long long),
      (*launch)(void *, void *);
  *(void **)&begin = dlsym(driver, "cuStreamBeginCapture_v2");
  *(void **)&end = dlsym(driver, "cuStreamEndCapture");
  *(void **)&instantiate = dlsym(driver, "cuGraphInstantiateWithFlags");
  *(void **)&launch = dlsym(driver, "cuGraphLaunch");
  int (*retain)(void **, int), (*push)(void *);
  *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
  CHECK_INT(retain(&context, 0), 0);
  CHECK_INT(push(context), 0);
  float x[100], y[100];
  void *dx, *dy;
  int n = 100;
  for (int i = 0; i < n; i++) x[i] = (float)i;
  CHECK_OK(kiln_alloc(o.device, sizeof x, &dx, &err), err);
  CHECK_OK(kiln_alloc(o.device, sizeof y, &dy, &err), err);
  CHECK_OK(kiln_copy_in(o.device, dx, x, sizeof x, &err), err);
  CHECK_OK(kiln_fill(o.device, dy, 0, sizeof y, &err), err);
  CHECK_OK(kiln_stream_create(o.device, &stream, &err), err);
  const void *args[] = {&dx, &dy, &n};
  CHECK_INT(begin(stream, 0), 0);
  CHECK_INT(kiln_launch(o.kernel, stream, args, 3, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "kiln_preload"));
  CHECK_INT(end(stream, &graph), 0);
  CHECK_OK(kiln_preload(o.kernel, &err), err);
  CHECK_INT(begin(stream, 0), 0);
  CHECK_OK(kiln_launch(o.kernel, stream, args, 3, &err), err);
  CHECK_INT(end(stream, &graph), 0);
  CHECK_OK(kiln_copy_out(o.device, y, dy, sizeof y, &err), err);
  CHECK(y[5] == 0);
  CHECK_INT(instantiate(&run, graph, 0), 0);
  CHECK_INT(launch(run, stream), 0);
  CHECK_OK(kiln_sync(o.device, stream, &err), err);
  CHECK_OK(kiln_copy_out(o.device, y, dy, sizeof y, &err), err);
  for (int i = 0; i < n; i++) CHECK(y[i] == x[i] + 1);
  kiln_stream_destroy(o.device, stream);
  close_all(&o);
}

typedef struct thread_run {
  opened *o;
  kiln_stream stream;
} thread_run;

static void *launch_many(void *context) {
  thread_run *r = context;
  for (int i = 0; i < 50; i++) check_launch(r->o, r->stream, 100 + i);
  return NULL;
}

// 55 on a GPU: threads without a current context, each with its stream.
TEST(devices, cuda_from_many_threads) {
  enum { THREADS = 16 };
  pthread_t threads[THREADS];
  thread_run runs[THREADS];
  kiln_error err;
  opened o = open_all("cuda:0");
  for (int i = 0; i < THREADS; i++) {
    runs[i].o = &o;
    CHECK_OK(kiln_stream_create(o.device, &runs[i].stream, &err), err);
    CHECK_INT(pthread_create(&threads[i], NULL, launch_many, &runs[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    kiln_stream_destroy(o.device, runs[i].stream);
  }
  close_all(&o);
}

// AMD's library is there and finds no device.
TEST(devices, hip_library_without_a_device) {
  kiln_open_options none = {.size = sizeof none};
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  if (!dlopen("libamdhip64.so.5", RTLD_NOW) && !dlopen("libamdhip64.so", RTLD_NOW))
    SKIP("libamdhip64 is not installed (Debian: libamdhip64-5)");
  CHECK_OK(kiln_open(&none, &l, &err), err);
  kiln_status status = kiln_device_open(l, "hip:0", &d, &err);
  if (status == KILN_OK) SKIP("there is an AMD device");
  CHECK_INT(status, KILN_STATUS_NO_DEVICE);
  CHECK_TEXT(err.text, "no HIP device 'hip:0': the driver has 0");
  kiln_close(l);
}

// No device of a kind: what was tried is said.
TEST(devices, absent_devices_are_named) {
  static const char *const names[] = {"cuda:999", "hip:999", "cuda:x", "host:0",
                                      "host:x",   "metal",   "",       "null:sm_x"};
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  write_bundle(ptx);
  CHECK_OK(kiln_open_file(kiln_test_path("a.kbundle"), &l, &err), err);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    kiln_status status = kiln_device_open(l, names[i], &d, &err);
    if (status != KILN_STATUS_NO_DEVICE && status != KILN_STATUS_TARGET)
      FAIL("'%s': status %d", names[i], (int)status);
    CHECK(d == NULL && *err.text);
  }
  kiln_close(l);
}

// The example of docs/runtime.md, with add_one in place of add.
TEST(devices, the_example_of_the_page) {
  size_t size;
  char *page = kiln_test_read("docs/runtime.md", &size), *out;
  CHECK(page != NULL);
  char *begin = strstr(page, "```c\n"), *end = begin ? strstr(begin, "\n```") : NULL;
  CHECK(end != NULL);
  char program[4000];
  snprintf(program, sizeof program,
           "#include <stdio.h>\n#include \"runtime/kiln.h\"\nint main(void) {\nfloat *x = 0, *y = 0; int n = "
           "0; kiln_stream stream = 0;\n%.*s\n"
           "return 0; }\n",
           (int)(end - begin - 5), begin + 5);
  kiln_test_write(kiln_test_path("example.c"), program, strlen(program));
  if (kiln_test_run(&out, "gcc -std=c11 -Wall -Wextra -pedantic -Werror -I. -c %s/example.c -o %s/example.o",
                    kiln_test_folder(), kiln_test_folder()))
    FAIL("%s", out);
  free(out);
  free(page);
}
