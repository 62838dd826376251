// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets memory run out: the n-th allocation fails, alone or with every one after it, for every n over open,
// look-up, miss, launch and close. Each call says OUT_OF_MEMORY or works; nothing crashes, ends the process
// or is leaked. The program's own malloc family counts.
#include <errno.h>
#include <stdatomic.h>

#include "runtime/handles.h"
#include "base/status.h"
#include "tests/runtime/fixture.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

// Only this thread's are counted: a pool's threads fail to start or find memory.
static _Thread_local bool is_counting, is_alone;
static _Thread_local long allocations, fail_at, live;

#if !KILN_TEST_SANITIZED
static bool fails(void) {
  if (!is_counting) return false;
  if (++allocations < fail_at || (is_alone && allocations > fail_at)) return false;
  errno = ENOMEM;
  return true;
}

static void *counted(void *memory) {
  live += is_counting && memory;
  return memory;
}

// Visible, so that libc's own calls (strdup) come here too.
#pragma GCC visibility push(default)
void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : counted(__libc_calloc(count, size)); }
void *aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : counted(__libc_memalign(alignment, size));
}
void free(void *memory) {
  live -= is_counting && memory;
  __libc_free(memory);
}
void *realloc(void *old, size_t size) {
  if (fails()) return NULL;
  void *memory = __libc_realloc(old, size);
  live += is_counting && memory && !old;
  return memory;
}
#pragma GCC visibility pop
#endif

static kiln_status use_kernel(kiln_device *d, kiln_error *err) {
  kiln_kernel *k, *none;
  kiln_report *report;
  kiln_prepared *prepared;
  float x[100] = {0}, y[100] = {0};
  void *px = x, *py = y, *memory;
  int n = 100;
  KILN_TRY(kiln_kernel_get(d, "add_one", NULL, &k, err));
  KILN_TRY(kiln_launch(k, NULL, (const void *const[]){&px, &py, &n}, 3, err));
  KILN_TRY(kiln_prepare(k, (const void *const[]){&px, &py, &n}, 3, NULL, &prepared, err));
  kiln_prepared_free(prepared);
  KILN_TRY(kiln_alloc(d, 1000, &memory, err));
  kiln_free(d, memory);
  KILN_TRY(kiln_explain(d, "add_one", &report, err));
  kiln_report_free(report);
  kiln_status status = kiln_kernel_get(d, "add_two", NULL, &none, err);
  return status == KILN_STATUS_NOT_FOUND ? KILN_OK : status;
}

// Everything once; what was opened is closed whatever fails.
static kiln_status use_library(const char *path, const char *device, kiln_error *err) {
  kiln_library *l = NULL;
  kiln_device *d = NULL;
  kiln_status status = kiln_open_file(path, &l, err);
  if (status == KILN_OK) status = kiln_device_open(l, device, &d, err);
  if (status == KILN_OK) status = use_kernel(d, err);
  kiln_device_close(d);
  kiln_close(l);
  kiln_closed_forget(); // what a use after close would find
  return status;
}

// Returns how many allocations a run without a failure makes.
static long fail_each(const char *options, const char *device, bool alone) {
  const char *path = kiln_test_path("a.kbundle");
  kiln_error err;
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer has its own malloc");
  fixture_add_one(path, options);
  for (long n = 1; n < 10000; n++) {
    allocations = live = 0;
    fail_at = n;
    is_alone = alone;
    is_counting = true;
    kiln_status status = use_library(path, device, &err);
    is_counting = false;
    if (live) FAIL("%s: %ld allocations leaked with allocation %ld failing", device, live, n);
    if (allocations < n) {
      CHECK_INT(status, KILN_OK);
      return n - 1;
    }
    if (status != KILN_STATUS_OUT_OF_MEMORY && !(alone && status == KILN_OK)) // it may do without
      FAIL("%s: allocation %ld failed: status %d: %s", device, n, (int)status, err.text);
  }
  FAIL("%s: no end of allocations", device);
}

TEST(memory, every_allocation_fails_on_null) { CHECK(fail_each("", "null", false) > 10); }
TEST(memory, every_allocation_fails_on_the_host) { CHECK(fail_each("", "host:1", false) > 10); }
TEST(memory, each_allocation_fails_alone_on_null) { CHECK(fail_each("", "null", true) > 10); }
TEST(memory, each_allocation_fails_alone_on_the_host) { CHECK(fail_each("", "host:1", true) > 10); }
TEST(memory, every_allocation_fails_without_a_dictionary) {
  CHECK(fail_each("--dictionary none", "null:x86-64-v3", false) > 10);
}
