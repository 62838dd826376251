// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests lifetimes, use after close, and fork: closing in any order is safe, a closed handle answers with a
// status, and the child of a fork launches, closes and ends whatever the parent's threads were doing.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/device/device.h"
#include "tests/runtime/fixture.h"

enum { COUNT = 6400 }; // 100 program instances

typedef struct opened {
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
} opened;

static const char *bundle(void) {
  const char *path = kiln_test_path("lifetime.kbundle");
  fixture_add_one(path, "");
  return path;
}

static opened open_all(const char *path, const char *device) {
  opened o;
  kiln_error err;
  fixture_open(path, device, &o.library, &o.device);
  CHECK_OK(kiln_kernel_get(o.device, "add_one", NULL, &o.kernel, &err), err);
  return o;
}

static void close_all(opened *o) {
  kiln_device_close(o->device);
  kiln_close(o->library);
}

// 0 when a launch over COUNT elements is right; a number of the failure otherwise, for exit codes of
// children.
static int try_launch(kiln_kernel *k) {
  static _Thread_local float x[COUNT], y[COUNT];
  void *px = x, *py = y;
  int n = COUNT;
  for (int i = 0; i < COUNT; i++) x[i] = (float)i, y[i] = 0;
  if (kiln_launch(k, NULL, (const void *const[]){&px, &py, &n}, 3, NULL) != KILN_OK) return 1;
  for (int i = 0; i < COUNT; i++)
    if (y[i] != (float)i + 1) return 2;
  return 0;
}

// ------------------------------------------------------------------------------------------- order

TEST(lifetime, a_device_keeps_its_library) {
  opened o = open_all(bundle(), "host:4");
  kiln_device *other;
  kiln_error err;
  kiln_report *report;
  kiln_preflight found;
  kiln_close(o.library);
  CHECK_INT(try_launch(o.kernel), 0);
  CHECK_OK(kiln_explain(o.device, "add_one", &report, &err), err);
  kiln_report_free(report);
  CHECK_OK(kiln_device_preflight(o.device, &found, &err), err);
  CHECK_INT(found.kernels, 1);
  // The library itself is closed.
  CHECK_INT(kiln_device_open(o.library, "host", &other, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK(strstr(err.text, "the library is closed"));
  CHECK_INT(kiln_kernel_count(o.library), 0);
  CHECK(!kiln_kernel_name(o.library, 0));
  kiln_close(o.library);
  kiln_device_close(o.device);
  kiln_close(o.library);
}

TEST(lifetime, several_devices_keep_one_library) {
  const char *path = bundle();
  opened o = open_all(path, "host:2");
  kiln_device *devices[8];
  kiln_kernel *k;
  kiln_error err;
  for (int i = 0; i < 8; i++) CHECK_OK(kiln_device_open(o.library, "host:2", &devices[i], &err), err);
  kiln_close(o.library);
  for (int i = 0; i < 8; i++) {
    CHECK_OK(kiln_kernel_get(devices[i], "add_one", NULL, &k, &err), err);
    CHECK_INT(try_launch(k), 0);
    kiln_device_close(devices[i]);
    CHECK_INT(try_launch(o.kernel), 0);
  }
  kiln_device_close(o.device);
}

// --------------------------------------------------------------------------------- use after close

#define CHECK_CLOSED(call)                                               \
  do {                                                                   \
    err = (kiln_error){0};                                               \
    CHECK_INT(call, KILN_STATUS_INVALID_ARGUMENT);                       \
    if (!strstr(err.text, "is closed")) FAIL("%s: %s", #call, err.text); \
  } while (0)

static void use_after_close(const char *device, bool library_first) {
  opened o = open_all(bundle(), device);
  kiln_error err;
  kiln_prepared *prepared, *empty, *other;
  kiln_kernel *again;
  kiln_report *report;
  kiln_preflight found;
  kiln_stream stream;
  kiln_choice choice;
  kiln_param param;
  uint8_t block[24] = {0};
  size_t size;
  float x[64] = {0}, y[64] = {0};
  void *px = x, *py = y, *memory, *none;
  int n = 64;
  const void *const args[] = {&px, &py, &n};
  CHECK_OK(kiln_alloc(o.device, 100, &memory, &err), err);
  CHECK_OK(kiln_prepare(o.kernel, args, 3, NULL, &prepared, &err), err);
  CHECK_OK(kiln_prepare(o.kernel, args, 3, (const uint32_t[]){0, 1, 1}, &empty, &err), err);
  CHECK_OK(kiln_prepared_launch(empty, NULL, &err), err);
  if (library_first) kiln_close(o.library);
  kiln_device_close(o.device);
  if (!library_first) kiln_close(o.library);
  kiln_device_close(o.device);
  CHECK_CLOSED(kiln_launch(o.kernel, NULL, args, 3, &err));
  CHECK_CLOSED(kiln_launch(o.kernel, NULL, args, 0, &err));
  CHECK_CLOSED(kiln_launch_packed(o.kernel, NULL, block, 24, &err));
  CHECK_CLOSED(kiln_launch_packed(o.kernel, NULL, block, 0, &err));
  CHECK_CLOSED(kiln_launch_grid(o.kernel, NULL, (const uint32_t[]){1, 1, 1}, block, 24, &err));
  CHECK_CLOSED(kiln_choose(o.kernel, block, 24, &choice, &err));
  CHECK_CLOSED(kiln_preload(o.kernel, &err));
  CHECK_CLOSED(kiln_prepare(o.kernel, args, 3, NULL, &other, &err));
  CHECK_CLOSED(kiln_prepared_launch(prepared, NULL, &err));
  CHECK_CLOSED(kiln_prepared_launch(empty, NULL, &err));
  CHECK_CLOSED(kiln_prepared_set(prepared, 0, &px, &err));
  CHECK_CLOSED(kiln_prepared_set(prepared, 2, &n, &err));
  CHECK(kiln_prepared_block(prepared, &size) && size >= 20);
  CHECK_CLOSED(kiln_kernel_get(o.device, "add_one", NULL, &again, &err));
  CHECK_CLOSED(kiln_explain(o.device, "add_one", &report, &err));
  CHECK_CLOSED(kiln_device_preflight(o.device, &found, &err));
  CHECK_CLOSED(kiln_stream_create(o.device, &stream, &err));
  CHECK_CLOSED(kiln_sync(o.device, NULL, &err));
  CHECK_CLOSED(kiln_alloc(o.device, 1, &none, &err));
  CHECK_CLOSED(kiln_copy_in(o.device, x, y, 4, &err));
  CHECK_CLOSED(kiln_copy_out(o.device, x, y, 4, &err));
  CHECK_CLOSED(kiln_fill(o.device, x, 1, 4, &err));
  kiln_stream_destroy(o.device, NULL);
  kiln_free(o.device, memory); // the host's memory outlives its device
  CHECK_INT(kiln_param_count(o.kernel), 0);
  CHECK_INT(kiln_block_size(o.kernel), 0);
  CHECK_INT(kiln_kernel_abi(o.kernel), 0);
  CHECK_INT(kiln_param_at(o.kernel, 0, &param), KILN_STATUS_NOT_FOUND);
  CHECK(kiln_device_target_name(o.device)[0] && kiln_device_description(o.device)[0]);
  kiln_prepared_free(empty);
  kiln_prepared_free(prepared);
  CHECK(x[0] == 0 && y[0] == 0);
}

TEST(lifetime, what_is_used_after_close_is_a_status) {
  static const char *const devices[] = {"host", "host:1", "null", "null:x86-64-v3"};
  for (unsigned i = 0; i < 4; i++)
    for (int library_first = 0; library_first < 2; library_first++)
      use_after_close(devices[i], library_first);
}

// A prepared launch is freed long after its device was closed and forgotten.
TEST(lifetime, prepared_launches_outlive_their_device) {
  const char *path = bundle();
  kiln_prepared *kept[3 * KILN_CLOSED_COUNT];
  float x[64] = {0};
  void *px = x;
  int n = 64;
  kiln_error err;
  for (int i = 0; i < 3 * KILN_CLOSED_COUNT; i++) {
    opened o = open_all(path, "null");
    CHECK_OK(kiln_prepare(o.kernel, (const void *const[]){&px, &px, &n}, 3, NULL, &kept[i], &err), err);
    close_all(&o);
  }
  for (int i = 0; i < 3 * KILN_CLOSED_COUNT; i++) {
    CHECK_CLOSED(kiln_prepared_launch(kept[i], NULL, &err));
    CHECK_CLOSED(kiln_prepared_set(kept[i], 0, &px, &err));
    kiln_prepared_free(kept[i]);
  }
  kiln_prepared_free(NULL);
}

TEST(lifetime, closed_handles_do_not_add_up) {
  const char *path = bundle();
  size_t before = 0;
  opened first = open_all(path, "null");
  for (int i = 0; i < 3000; i++) {
    kiln_device *d;
    kiln_kernel *k;
    CHECK_INT(kiln_device_open(first.library, "null", &d, NULL), KILN_OK);
    CHECK_INT(kiln_kernel_get(d, "add_one", NULL, &k, NULL), KILN_OK);
    kiln_device_close(d);
    if (i == 1000) before = mallinfo2().uordblks;
  }
  size_t after = mallinfo2().uordblks;
  if (after > before + 4096) FAIL("2,000 devices opened and closed: %zu bytes more", after - before);
  close_all(&first);
}

// -------------------------------------------------------------------------------------------- fork

static struct timespec in_ms(long ms) { return (struct timespec){ms / 1000, ms % 1000 * 1000000}; }

// The exit code of a child; fails when it hangs or dies.
static int end_of(pid_t child) {
  int status;
  for (int ms = 0; ms < 20000; ms += 5) {
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFSIGNALED(status)) FAIL("the child died of signal %d", WTERMSIG(status));
      return WEXITSTATUS(status);
    }
    struct timespec pause = in_ms(5);
    nanosleep(&pause, NULL);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  FAIL("the child hangs");
}

TEST(lifetime, a_child_launches_and_closes) {
  if (KILN_TEST_THREAD_SANITIZER) SKIP("the thread sanitizer does not follow forks of programs with threads");
  const char *path = bundle();
  for (int launched = 0; launched < 2; launched++) {
    opened o = open_all(path, "host:4");
    if (launched) CHECK_INT(try_launch(o.kernel), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
      int code = try_launch(o.kernel);
      if (!code) code = 10 * try_launch(o.kernel);
      close_all(&o);
      _exit(code);
    }
    CHECK_INT(end_of(child), 0);
    CHECK_INT(try_launch(o.kernel), 0);
    close_all(&o);
  }
}

TEST(lifetime, a_grandchild_too) {
  if (KILN_TEST_THREAD_SANITIZER) SKIP("the thread sanitizer does not follow forks of programs with threads");
  opened o = open_all(bundle(), "host:3");
  CHECK_INT(try_launch(o.kernel), 0);
  pid_t child = fork();
  if (!child) {
    int code = try_launch(o.kernel);
    pid_t grandchild = fork();
    if (!grandchild) {
      code = try_launch(o.kernel);
      close_all(&o);
      _exit(code);
    }
    int status;
    waitpid(grandchild, &status, 0);
    close_all(&o);
    _exit(code ? code : !WIFEXITED(status) ? 99 : WEXITSTATUS(status));
  }
  CHECK_INT(end_of(child), 0);
  close_all(&o);
}

// Threads that open, look up, load, launch and close all the time.
static atomic_bool is_stopping;
static const char *churn_path;

static void *churn(void *context) {
  kiln_kernel *shared = context;
  while (!atomic_load(&is_stopping)) {
    kiln_library *l;
    kiln_device *d;
    kiln_kernel *k;
    if (try_launch(shared)) return "a launch failed";
    if (kiln_open_file(churn_path, &l, NULL) != KILN_OK) return "open failed";
    if (kiln_device_open(l, "host:2", &d, NULL) != KILN_OK) return "no device";
    if (kiln_kernel_get(d, "add_one", NULL, &k, NULL) != KILN_OK || try_launch(k)) return "look-up failed";
    kiln_close(l);
    kiln_device_close(d);
  }
  return NULL;
}

static int use_in_child(opened *o) {
  int code = try_launch(o->kernel);
  if (code) return code;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  if (kiln_open_file(churn_path, &l, NULL) != KILN_OK || kiln_device_open(l, "host:3", &d, NULL) != KILN_OK)
    return 3;
  if (kiln_kernel_get(d, "add_one", NULL, &k, NULL) != KILN_OK) return 4;
  code = try_launch(k);
  kiln_device_close(d);
  kiln_close(l);
  close_all(o);
  return code;
}

TEST(lifetime, forks_while_threads_work) {
  if (KILN_TEST_SANITIZED)
    SKIP("a lock of the sanitizer's stays held in children of programs with threads (gcc 12)");
  pthread_t threads[3];
  churn_path = bundle();
  opened o = open_all(churn_path, "host:3");
  atomic_store(&is_stopping, false);
  for (int i = 0; i < 3; i++) CHECK_INT(pthread_create(&threads[i], NULL, churn, o.kernel), 0);
  for (int i = 0; i < 60; i++) {
    struct timespec pause = in_ms(i % 7);
    nanosleep(&pause, NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) _exit(use_in_child(&o));
    CHECK_INT(end_of(child), 0);
  }
  atomic_store(&is_stopping, true);
  for (int i = 0; i < 3; i++) {
    void *failure;
    pthread_join(threads[i], &failure);
    if (failure) FAIL("%s", (const char *)failure);
  }
  close_all(&o);
}

// A GPU's device, played by one that runs nothing and whose driver must not be called in a child.
static void must_not_unload(kiln_device *d, kiln_module *m) { (void)d, (void)m, _exit(77); }
static void must_not_close(kiln_device *d) { (void)d, _exit(78); }

TEST(lifetime, the_device_of_a_gpu_stays_with_the_parent) {
  opened o = open_all(bundle(), "null");
  const kiln_device_kind *real = o.device->kind;
  kiln_device_kind gpu = *real;
  kiln_prepared *prepared;
  float x[64] = {0};
  void *px = x, *none;
  int n = 64;
  const void *const args[] = {&px, &px, &n};
  kiln_error err;
  CHECK_OK(kiln_prepare(o.kernel, args, 3, NULL, &prepared, &err), err);
  gpu.in_child = NULL;
  gpu.outlives = false;
  gpu.unload = must_not_unload;
  gpu.close = must_not_close;
  o.device->kind = o.device->own = &gpu;
  pid_t child = fork();
  if (!child) {
    if (kiln_launch(o.kernel, NULL, args, 3, &err) != KILN_STATUS_DRIVER || !strstr(err.text, "forked"))
      _exit(1);
    if (kiln_prepared_launch(prepared, NULL, &err) != KILN_STATUS_DRIVER) _exit(2);
    if (kiln_sync(o.device, NULL, &err) != KILN_STATUS_DRIVER) _exit(3);
    if (kiln_alloc(o.device, 1, &none, &err) != KILN_STATUS_DRIVER) _exit(4);
    if (kiln_kernel_get(o.device, "add_one", NULL, &o.kernel, &err) != KILN_STATUS_DRIVER) _exit(5);
    kiln_free(o.device, x); // of the parent's driver: left alone
    close_all(&o);
    kiln_prepared_free(prepared);
    _exit(0);
  }
  CHECK_INT(end_of(child), 0);
  CHECK_OK(kiln_launch(o.kernel, NULL, args, 3, &err), err);
  o.device->kind = o.device->own = real;
  kiln_prepared_free(prepared);
  close_all(&o);
}
