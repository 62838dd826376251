// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches for a long time: memory does not grow with the number of launches, and threads that share a
// kernel, each with its own argument block, get their own results every time. With KILN_TEST_FULL it makes
// a million launches in a minute.
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/runtime/fixture.h"

/// A sanitizer keeps what is freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_GROWTH = INT_MAX / 2 };
#else
enum { MOST_GROWTH = 512 << 10 };
#endif
enum { THREADS = 16, COUNT = 200 };

static size_t resident(void) {
  size_t size = 0, pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%zu %zu", &size, &pages) != 2) FAIL("/proc/self/statm");
  fclose(f);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/// One launch over `n` elements, `way` by way, and a look at all of them and the one after.
static void launch_checked(kiln_device *d, kiln_kernel *k, unsigned way, float seed) {
  kiln_error err;
  float x[COUNT], y[COUNT + 1];
  const void *px = x, *py = y;
  int n = COUNT - (int)(way % 70);
  const void *const args[] = {&px, &py, &n};
  for (int i = 0; i < COUNT; i++) x[i] = seed + (float)i;
  memset(y, 0, sizeof y);
  if (way % 3 == 0) {
    CHECK_OK(kiln_launch(k, NULL, args, 3, &err), err);
  } else if (way % 3 == 1) {
    struct {
      const void *x, *y;
      int n, rest;
    } block = {px, py, n, 0};
    CHECK_OK(kiln_launch_packed(k, NULL, &block, kiln_block_size(k), &err), err);
  } else {
    kiln_prepared *p;
    CHECK_OK(kiln_prepare(k, args, 3, NULL, &p, &err), err);
    CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
    kiln_prepared_free(p);
  }
  CHECK_OK(kiln_sync(d, NULL, &err), err);
  for (int i = 0; i <= COUNT; i++) {
    float want = i < n ? seed + (float)i + 1 : 0;
    if (y[i] != want) FAIL("way %u, element %d: expected %g, found %g", way, i, (double)want, (double)y[i]);
  }
}

TEST(endurance, memory_does_not_grow_with_launches) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  unsigned launches = kiln_test_full() ? 1000000 : 50000;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host:2", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  for (unsigned i = 0; i < 1000; i++) launch_checked(d, k, i, (float)(i % 100));
  size_t before = resident();
  for (unsigned i = 0; i < launches; i++) launch_checked(d, k, i, (float)(i % 100));
  size_t after = resident();
  fprintf(stderr, "%u launches: %zu KB resident before, %zu KB after\n", launches, before >> 10, after >> 10);
  CHECK(after <= before + MOST_GROWTH);
  kiln_device_close(d);
  kiln_close(l);
}

// Libraries, devices and kernels that come and go.
TEST(endurance, memory_does_not_grow_with_handles) {
  size_t before = 0;
  unsigned rounds = kiln_test_full() ? 20000 : 1000;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  for (unsigned i = 0; i < rounds; i++) {
    kiln_library *l;
    kiln_device *d;
    kiln_kernel *k;
    kiln_error err;
    if (i == rounds / 4) before = resident();
    fixture_open(kiln_test_path("a.kbundle"), i % 2 ? "host:2" : "host:1", &l, &d);
    CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
    launch_checked(d, k, i, 1);
    kiln_device_close(d);
    kiln_close(l);
  }
  size_t after = resident();
  fprintf(stderr, "%u rounds: %zu KB resident after a quarter, %zu KB after all\n", rounds, before >> 10,
          after >> 10);
  CHECK(after <= before + MOST_GROWTH);
}

/// One array in turn, with small things of the program's own that stay between: each lies where the last was.
TEST(endurance, memory_of_one_size_lies_where_it_was) {
  enum { SIZE = 16 << 20, ROUNDS = 40 };
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  void *kept[ROUNDS];
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  size_t before = resident();
  for (unsigned i = 0; i < ROUNDS; i++) {
    void *memory;
    CHECK_OK(kiln_alloc(d, SIZE, &memory, &err), err);
    CHECK_OK(kiln_fill(d, memory, 1, SIZE, &err), err);
    CHECK((uintptr_t)memory % 256 == 0);
    kept[i] = malloc(100 + 50 * i);
    kiln_free(d, memory);
  }
  size_t after = resident();
  fprintf(stderr, "%zu KB resident before %u times %u KB, %zu KB after\n", before >> 10, ROUNDS, SIZE >> 10,
          after >> 10);
  CHECK(after <= before + MOST_GROWTH + 3 * (size_t)SIZE);
  for (unsigned i = 0; i < ROUNDS; i++) free(kept[i]);
  kiln_device_close(d);
  kiln_close(l);
}

typedef struct shared {
  kiln_device *device;
  kiln_kernel *kernel;
  struct timespec end;
  _Atomic(uint64_t) launches;
} shared;

static void *work(void *context) {
  shared *s = context;
  struct timespec now;
  unsigned way = (unsigned)(uintptr_t)&now >> 4;
  uint64_t mine = 0;
  do {
    launch_checked(s->device, s->kernel, way, (float)(way % 1000));
    way++;
    mine++;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < s->end.tv_sec);
  atomic_fetch_add(&s->launches, mine);
  return NULL;
}

TEST(endurance, threads_that_launch_and_look) {
  kiln_library *l;
  kiln_error err;
  pthread_t threads[THREADS];
  int length = kiln_test_full() ? 60 : 2;
  shared s = {.launches = 0};
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host:4", &l, &s.device);
  CHECK_OK(kiln_kernel_get(s.device, "add_one", NULL, &s.kernel, &err), err);
  clock_gettime(CLOCK_MONOTONIC, &s.end);
  s.end.tv_sec += length;
  for (int i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, &s), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  fprintf(stderr, "%d threads, %d s: %llu launches, all right\n", THREADS, length,
          (unsigned long long)atomic_load(&s.launches));
  CHECK(atomic_load(&s.launches) >= THREADS);
  kiln_device_close(s.device);
  kiln_close(l);
}
