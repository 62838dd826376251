// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that programs on the host compute the same in any floating-point environment of the launching
// thread: drawn control words (denormals flushed, rounding, unmasked exceptions, flags), thread counts, and
// threads with different environments that launch on one device. After the launch the thread has its own
// environment again, flags included.
#include <pthread.h>

#include "tests/float_control.h"
#include "tests/runtime/fixture.h"

enum { PROGRAMS = 96, LANES = 16, ELEMENTS = PROGRAMS * LANES, RESULTS = 12 };

// Each row of `o` is one operation on x and y; denormals, halfway points, overflows and divisions by zero are
// among the elements.
static const char source[] =
    "kiln 1\n"
    "kernel calc(x: in *f32, y: in *f32, w: in *f64, o: out *f32, d: out *f64, n: i32) @grid(96) @warps(1) "
    "{\n"
    "  let i = pid(0) * 16 + iota(16)\n  let a = load(x + i)\n  let b = load(y + i)\n  let c = load(w + i)\n"
    "  store(o + i, a * b)\n  store(o + n + i, a / b)\n  store(o + 2 * n + i, a + b)\n"
    "  store(o + 3 * n + i, sqrt(abs(a), precise = true))\n  store(o + 4 * n + i, fma(a, b, a))\n"
    "  store(o + 5 * n + i, (a as bf16) as f32)\n  store(o + 6 * n + i, (a as f16) as f32)\n"
    "  store(o + 7 * n + i, exp(b))\n  store(o + 8 * n + i, (i * 16777 + 33554433) as f32)\n"
    "  store(o + 9 * n + i, c as f32)\n  store(o + 10 * n + i, round(b))\n  store(o + 11 * n + i, bitcast(b "
    "as i32, f32))\n"
    "  store(d + i, c * 1.0000001)\n  store(d + n + i, c / 3.0)\n}\n";

typedef struct arrays {
  float x[ELEMENTS], y[ELEMENTS], o[RESULTS * ELEMENTS];
  double w[ELEMENTS], d[2 * ELEMENTS];
} arrays;

static void fill(arrays *a, uint64_t seed) {
  memset(a, 0, sizeof *a);
  for (int i = 0; i < ELEMENTS; i++) {
    uint32_t r = (uint32_t)(kiln_test_random(&seed) >> 11), q = (uint32_t)(kiln_test_random(&seed) >> 11);
    if (i % 3 == 0) r = (r & 0x807fffff); // denormal
    if (i % 7 == 0) q &= 0x80000000;      // zero
    if (i % 7 == 1) q = (q & 0x83ffffff) | 0x3c000000;
    uint64_t wide = kiln_test_random(&seed);
    if (i % 4 == 0) wide &= 0x800fffffffffffff;
    memcpy(&a->x[i], &r, 4);
    memcpy(&a->y[i], &q, 4);
    memcpy(&a->w[i], &wide, 8);
  }
}

static kiln_status launch(kiln_kernel *k, arrays *a, kiln_error *err) {
  const void *x = a->x, *y = a->y, *w = a->w, *o = a->o, *d = a->d;
  int n = ELEMENTS;
  memset(a->o, 0x55, sizeof a->o);
  memset(a->d, 0x55, sizeof a->d);
  return kiln_launch(k, NULL, (const void *const[]){&x, &y, &w, &o, &d, &n}, 6, err);
}

static bool same_results(const arrays *a, const arrays *b) {
  return !memcmp(a->o, b->o, sizeof a->o) && !memcmp(a->d, b->d, sizeof a->d);
}

// What C says of the exact operations, in the environment that the test has.
static void check_by_c(const arrays *a) {
  for (int i = 0; i < ELEMENTS; i++) {
    volatile float product = a->x[i] * a->y[i], quotient = a->x[i] / a->y[i], single = (float)a->w[i];
    volatile double third = a->w[i] / 3.0;
    if (product == product && product != a->o[i]) FAIL("element %d: a product is not C's", i);
    if (quotient == quotient && quotient != a->o[ELEMENTS + i]) FAIL("element %d: a quotient is not C's", i);
    if (single == single && single != a->o[9 * ELEMENTS + i]) FAIL("element %d: a conversion is not C's", i);
    if (third == third && third != a->d[ELEMENTS + i]) FAIL("element %d: a third is not C's", i);
  }
}

static void build(void) {
  char *out;
  kiln_test_write(kiln_test_path("calc.kiln"), source, strlen(source));
  if (kiln_test_run(&out, "%s/bin/kiln build -q --no-cache %s -t host -o %s", kiln_test_build(),
                    kiln_test_path("calc.kiln"), kiln_test_path("calc.kbundle")))
    FAIL("%s", out);
  free(out);
}

static kiln_kernel *open_calc(const char *device_name, kiln_library **l, kiln_device **d) {
  kiln_error err;
  kiln_kernel *k;
  fixture_open(kiln_test_path("calc.kbundle"), device_name, l, d);
  CHECK_OK(kiln_kernel_get(*d, "calc", NULL, &k, &err), err);
  return k;
}

// Threads kept what the thread had that made the first launch: other results each time.
TEST(float_environment, results_are_the_same_in_each) {
  static arrays want, got;
  static const char *const names[] = {"host:1", "host:2", "host:3", "host:7"};
  uint64_t random = 20261127, before = control();
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  printf("float_environment: seed %llu\n", (unsigned long long)random);
  build();
  fill(&want, 1);
  CHECK_OK(launch(open_calc("host:1", &l, &d), &want, &err), err);
  check_by_c(&want);
  kiln_device_close(d);
  kiln_close(l);
  for (int round = 0; round < (kiln_test_full() ? 400 : 40); round++) {
    uint64_t first = drawn(&random);
    memcpy(&got, &want, sizeof got);
    set_control(before);
    kiln_kernel *k = open_calc(names[round % 4], &l, &d);
    for (int again = 0; again < 6; again++) { // the first one starts the threads
      uint64_t word = again % 3 == 2 ? before : again ? drawn(&random) : first;
      set_control(word);
      kiln_status status = launch(k, &got, &err);
      uint64_t after = control();
      set_control(before);
      CHECK_OK(status, err);
      if (after != word)
        FAIL("the thread had 0x%llx, after the launch 0x%llx", (unsigned long long)word,
             (unsigned long long)after);
      if (!same_results(&got, &want))
        FAIL("%s, control 0x%llx: other results", names[round % 4], (unsigned long long)word);
    }
    set_control(first); // nothing else of a device depends on it either
    kiln_device_close(d);
    kiln_close(l);
    uint64_t after = control();
    set_control(before);
    CHECK_INT(after, first);
  }
}

typedef struct launcher {
  kiln_kernel *kernel;
  const arrays *want;
  uint64_t seed;
  const char *failed;
} launcher;

static void *launches(void *context) {
  launcher *l = context;
  arrays *got = malloc(sizeof *got);
  kiln_error err;
  uint64_t before = control();
  memcpy(got, l->want, sizeof *got);
  for (int i = 0; i < 60 && !l->failed; i++) {
    uint64_t word = drawn(&l->seed);
    set_control(word);
    kiln_status status = launch(l->kernel, got, &err);
    uint64_t after = control();
    set_control(before);
    if (status != KILN_OK) l->failed = "a launch failed";
    else if (after != word) l->failed = "the environment was not restored";
    else if (!same_results(got, l->want)) l->failed = "other results";
  }
  free(got);
  return NULL;
}

TEST(float_environment, launching_threads_do_not_meet) {
  enum { THREADS = 4 };
  static arrays want;
  launcher all[THREADS];
  pthread_t threads[THREADS];
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  build();
  fill(&want, 2);
  kiln_kernel *k = open_calc("host:3", &l, &d);
  CHECK_OK(launch(k, &want, &err), err);
  check_by_c(&want);
  for (int i = 0; i < THREADS; i++) {
    all[i] = (launcher){k, &want, (uint64_t)i + 100, NULL};
    CHECK(!pthread_create(&threads[i], NULL, launches, &all[i]));
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    if (all[i].failed) FAIL("thread %d: %s", i, all[i].failed);
  kiln_device_close(d);
  kiln_close(l);
}
