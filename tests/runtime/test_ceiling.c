// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 70: a launch stays under a ceiling at 1, 8 and 64 arguments and 1, 8 and 64 threads, also when the caches
// are cold. 72: a prepared launch is there because it beats the path that it skips on the smallest kernel.
// CPU time of each thread, the best of several rounds: ceilings are a multiple of what bench_runtime shows.
#include <pthread.h>
#include <time.h>

#include "tests/runtime/fixture.h"

enum { ROUNDS = 15, LAUNCHES = 500, MOST_ARGS = 64, MOST_THREADS = 64, COLD_BYTES = 16 << 20 };

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct launch_run {
  kiln_kernel *kernel;
  uint32_t args;
  kiln_prepared *prepared; // NULL: kiln_launch
  double ns;               // 0: a launch failed
} launch_run;

static void *measure(void *context) {
  launch_run *r = context;
  int64_t values[MOST_ARGS];
  const void *args[MOST_ARGS];
  double best = 1e9;
  for (int i = 0; i < MOST_ARGS; i++) args[i] = &values[i], values[i] = 4096;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = cpu_ns();
    kiln_status status = KILN_OK;
    for (int i = 0; i < LAUNCHES && status == KILN_OK; i++)
      status = r->prepared ? kiln_prepared_launch(r->prepared, NULL, NULL)
                           : kiln_launch(r->kernel, NULL, args, r->args, NULL);
    double ns = (double)(cpu_ns() - begin) / LAUNCHES;
    if (status != KILN_OK) return NULL;
    if (ns > 0 && ns < best) best = ns; // the clock of a thread may stand still for a round
  }
  r->ns = best;
  return NULL;
}

static double launch_ns(kiln_kernel *k, uint32_t args, unsigned threads) {
  pthread_t ids[MOST_THREADS];
  launch_run runs[MOST_THREADS];
  double worst = 0;
  for (unsigned i = 0; i < threads; i++) {
    runs[i] = (launch_run){.kernel = k, .args = args};
    CHECK_INT(pthread_create(&ids[i], NULL, measure, &runs[i]), 0);
  }
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    CHECK(runs[i].ns > 0);
    if (runs[i].ns > worst) worst = runs[i].ns;
  }
  return worst;
}

// i64 parameters; two variants, the first by a test of each.
static void add_kernel(fixture *f, const char *name, uint32_t args) {
  static uint8_t tests[MOST_ARGS][8];
  kiln_param_record params[MOST_ARGS];
  kiln_span conditions[MOST_ARGS];
  for (uint32_t i = 0; i < args; i++) {
    const uint8_t code[] = {P((uint8_t)i), C(16), KILN_EXPR_REM, C(0), KILN_EXPR_EQ};
    memcpy(tests[i], code, sizeof code);
    conditions[i] = (kiln_span){tests[i], sizeof code};
    params[i] = scalar_param("p", KILN_I64);
  }
  kiln_interface in = {
      .name = name,
      .params = params,
      .param_count = args,
      .config_count = 1,
      .variant_count = 2,
      .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(P(0), C2(128), KILN_EXPR_CDIV)}}},
      .variants = (kiln_variant_record[]){{.text = "all", .conditions = conditions, .condition_count = args},
                                          {.text = ""}}};
  uint32_t kernel = fixture_kernel(f, &in);
  for (uint32_t v = 0; v < 2; v++)
    fixture_code(f, kernel, 0, v, KILN_FORMAT_HSACO, "gfx942", name, v ? "generic" : "by 16!!", 7);
}

static void open_kernels(kiln_library **l, kiln_device **d) {
  fixture f;
  if (strstr(kiln_test_build(), "asan") || strstr(kiln_test_build(), "debug") ||
      strstr(kiln_test_build(), "tsan"))
    SKIP("not a release build");
  fixture_begin(&f);
  add_kernel(&f, "k1", 1);
  add_kernel(&f, "k8", 8);
  add_kernel(&f, "k64", 64);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", l, d);
}

TEST(ceiling, launches_by_arguments_and_threads) {
  static const struct {
    const char *name;
    uint32_t args;
    double ceiling;
  } rows[] = {{"k1", 1, 150}, {"k8", 8, 200}, {"k64", 64, 900}};
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  open_kernels(&l, &d);
  for (size_t i = 0; i < 3; i++)
    for (unsigned threads = 1; threads <= MOST_THREADS; threads *= 8) {
      CHECK_OK(kiln_kernel_get(d, rows[i].name, NULL, &k, &err), err);
      double ns = launch_ns(k, rows[i].args, threads);
      printf("%u arguments, %u threads: %.0f ns a launch, of %.0f allowed\n", rows[i].args, threads, ns,
             rows[i].ceiling);
      if (ns > rows[i].ceiling)
        FAIL("%u arguments, %u threads: %.0f ns a launch; the ceiling is %.0f", rows[i].args, threads, ns,
             rows[i].ceiling);
    }
  kiln_device_close(d);
  kiln_close(l);
}

// Each launch after a walk over more memory than the second-level cache has.
TEST(ceiling, a_cold_launch) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  int64_t value = 4096;
  const void *args[8] = {&value, &value, &value, &value, &value, &value, &value, &value};
  double best = 1e9;
  volatile uint8_t *walk = calloc(1, COLD_BYTES);
  CHECK(walk != NULL);
  open_kernels(&l, &d);
  CHECK_OK(kiln_kernel_get(d, "k8", NULL, &k, &err), err);
  CHECK_OK(kiln_preload(k, &err), err);
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < COLD_BYTES; i += 64) walk[i]++;
    uint64_t begin = cpu_ns();
    CHECK_OK(kiln_launch(k, NULL, args, 8, &err), err);
    double ns = (double)(cpu_ns() - begin);
    if (ns < best) best = ns;
  }
  printf("8 arguments, cold: %.0f ns with the clock's own, of 20000 allowed\n", best);
  if (best > 20000) FAIL("a cold launch takes %.0f ns; the ceiling is 20000", best);
  free((void *)walk);
  kiln_device_close(d);
  kiln_close(l);
}

TEST(ceiling, prepared_beats_what_it_skips) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  int64_t value = 4096;
  open_kernels(&l, &d);
  CHECK_OK(kiln_kernel_get(d, "k1", NULL, &k, &err), err);
  launch_run whole = {.kernel = k, .args = 1}, prepared = whole;
  CHECK_OK(kiln_prepare(k, (const void *const[]){&value}, 1, NULL, &prepared.prepared, &err), err);
  measure(&whole);
  measure(&prepared);
  kiln_prepared_free(prepared.prepared);
  printf("1 argument: %.1f ns launched, %.1f ns prepared\n", whole.ns, prepared.ns);
  CHECK(prepared.ns > 0 && prepared.ns < whole.ns);
  kiln_device_close(d);
  kiln_close(l);
}
