// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 71: a warm launch, and a prepared one with what is set in it, makes no system call, allocates nothing,
// takes no lock. The program's own malloc and pthread_mutex_lock count calls, and a child in strict seccomp
// mode would be killed at its first system call.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/seccomp.h>

#include "tests/runtime/fixture.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static _Thread_local bool is_counting;
static _Thread_local unsigned allocations, locks;

#if !KILN_TEST_SANITIZED
void *malloc(size_t size) {
  allocations += is_counting;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  allocations += is_counting;
  return __libc_calloc(count, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  allocations += is_counting;
  return __libc_memalign(alignment, size);
}
#endif

int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static int (*real)(pthread_mutex_t *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  locks += is_counting;
  return real(mutex);
}

static kiln_kernel *open_kernel(kiln_library **l, kiln_device **d) {
  kiln_kernel *k;
  kiln_error err;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", l, d);
  CHECK_OK(kiln_kernel_get(*d, "add_one", NULL, &k, &err), err);
  return k;
}

static kiln_status launch_some(kiln_kernel *k, int times) {
  float x = 0, y = 0;
  const void *px = &x, *py = &y;
  kiln_status status = KILN_OK;
  for (int n = 1; n <= times && status == KILN_OK; n++)
    status = kiln_launch(k, NULL, (const void *const[]){&px, &py, &n}, 3, NULL);
  return status;
}

static kiln_prepared *prepare(kiln_kernel *k) {
  static float x, y;
  static const void *px = &x, *py = &y;
  kiln_prepared *p;
  kiln_error err;
  int n = 5;
  CHECK_OK(kiln_prepare(k, (const void *const[]){&px, &py, &n}, 3, NULL, &p, &err), err);
  return p;
}

// One pointer is patched and one integer that the grid depends on.
static kiln_status launch_prepared(kiln_prepared *p, int times) {
  static float x;
  static const void *px = &x;
  kiln_status status = KILN_OK;
  for (int n = 1; n <= times && status == KILN_OK; n++) {
    status = kiln_prepared_set(p, 0, &px, NULL);
    if (status == KILN_OK) status = kiln_prepared_set(p, 2, &n, NULL);
    if (status == KILN_OK) status = kiln_prepared_launch(p, NULL, NULL);
  }
  return status;
}

TEST(warm, launches_neither_allocate_nor_lock) {
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer has its own malloc");
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k = open_kernel(&l, &d);
  is_counting = true;
  CHECK_INT(launch_some(k, 1), KILN_OK);
  is_counting = false;
  CHECK(allocations > 0 && locks > 0); // the first launch loads: the counters work
  allocations = locks = 0;
  is_counting = true;
  kiln_status status = launch_some(k, 1000);
  is_counting = false;
  CHECK_INT(status, KILN_OK);
  CHECK_INT(allocations, 0);
  CHECK_INT(locks, 0);
  kiln_prepared *p = prepare(k);
  is_counting = true;
  status = launch_prepared(p, 1000);
  is_counting = false;
  kiln_prepared_free(p);
  CHECK_INT(status, KILN_OK);
  CHECK_INT(allocations, 0);
  CHECK_INT(locks, 0);
  kiln_device_close(d);
  kiln_close(l);
}

// The child ends with exit code `code` when it made no system call but exit.
static int run_in_silence(kiln_kernel *k, kiln_prepared *p, int code) {
  int wait_status = 0;
  pid_t child = fork();
  if (!child) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(99);
    if (launch_some(k, 1000) != KILN_OK || launch_prepared(p, 1000) != KILN_OK) code = 98;
    syscall(SYS_exit, code);
  }
  waitpid(child, &wait_status, 0);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status);
}

TEST(warm, launches_make_no_system_call) {
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  kiln_kernel *k = open_kernel(&l, &d);
  CHECK_OK(kiln_preload(k, &err), err);
  kiln_prepared *p = prepare(k);
  int code = run_in_silence(k, p, 7);
  kiln_prepared_free(p);
  if (code == 99) SKIP("seccomp is not available");
  CHECK_INT(code, 7);
  kiln_device_close(d);
  kiln_close(l);
}

// 48: a pointer that is not aligned goes to the variant without the test.
TEST(warm, misaligned_pointers_go_to_the_generic_variant) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_choice choice;
  kiln_param_record params[] = {pointer_param("p", KILN_F32)};
  const uint8_t aligned[] = {P(0), C(16), KILN_EXPR_REM, C(0), KILN_EXPR_EQ};
  kiln_interface in = {.name = "k",
                       .params = params,
                       .param_count = 1,
                       .config_count = 1,
                       .variant_count = 2,
                       .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
                       .variants =
                           (kiln_variant_record[]){{.text = "p % 16 == 0",
                                                    .conditions = (kiln_span[]){{aligned, sizeof aligned}},
                                                    .condition_count = 1},
                                                   {.text = ""}}};
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "k", "aligned", 7);
  fixture_code(&f, kernel, 0, 1, KILN_FORMAT_HSACO, "gfx942", "k", "generic", 7);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null:gfx942", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "k", NULL, &k, &err), err);
  for (uint64_t address = 0xfffffffffff0; address <= 0x1000000000010; address++) {
    CHECK_OK(kiln_choose(k, &address, 8, &choice, &err), err);
    CHECK_TEXT(choice.variant, address % 16 ? "" : "p % 16 == 0");
  }
  kiln_device_close(d);
  kiln_close(l);
}
