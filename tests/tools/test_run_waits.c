// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests programs that wait for each other on the host: with a thread for each they meet, with fewer the
// launch fails with an error that says so, and a slow program is never mistaken for a hang.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/kiln.h"
#include "tests/harness.h"

static kiln_library *library;

static void open_library(void) {
  char *out;
  kiln_error err;
  char bundle[512];
  snprintf(bundle, sizeof bundle, "%s/waits.kbundle", kiln_test_folder());
  if (kiln_test_run(&out, "%s/bin/kiln build tests/tools/waits.kiln -t host -q --no-cache -o %s",
                    kiln_test_build(), bundle))
    FAIL("%s", out);
  free(out);
  CHECK_OK(kiln_open_file(bundle, &library, &err), err);
}

typedef struct run {
  const char *kernel;
  kiln_device *device;
  int programs;
  int64_t turns;
  int a[2], to[64];
  kiln_status status;
  kiln_error err;
} run;

static void *launch(void *context) {
  run *r = context;
  kiln_kernel *k;
  void *a = r->a, *to = r->to;
  r->status = kiln_kernel_get(r->device, r->kernel, NULL, &k, &r->err);
  if (r->status == KILN_OK)
    r->status = kiln_launch(k, NULL, (const void *const[]){&a, &to, &r->programs, &r->turns},
                            kiln_param_count(k), &r->err);
  return NULL;
}

static run run_on(const char *device, const char *kernel, int programs, int64_t turns) {
  run r = {.kernel = kernel, .programs = programs, .turns = turns};
  kiln_error err;
  CHECK_OK(kiln_device_open(library, device, &r.device, &err), err);
  launch(&r);
  kiln_device_close(r.device);
  return r;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *const barriers[] = {"by_atomic", "by_load", "by_variable", "by_cas", "by_branch", "twice"};

TEST(run_waits, a_thread_for_each_program_is_enough) {
  open_library();
  for (size_t i = 0; i < sizeof barriers / sizeof *barriers; i++)
    for (int programs = 1; programs <= 17; programs += 8) {
      char device[24];
      snprintf(device, sizeof device, "host:%d", programs);
      run r = run_on(device, barriers[i], programs, 0);
      CHECK_OK(r.status, r.err);
      for (int n = 0; n < programs; n++) CHECK_INT(r.to[n], 1);
    }
  kiln_close(library);
}

TEST(run_waits, fewer_threads_are_an_error_with_the_counts) {
  open_library();
  for (size_t i = 0; i < sizeof barriers / sizeof *barriers; i++) {
    int threads = 1 + (int)i % 4, programs = i == 0 ? 5000 : threads + 1 + (int)i;
    char device[24], want[200];
    snprintf(device, sizeof device, "host:%d", threads);
    run r = run_on(device, barriers[i], programs, 0);
    snprintf(want, sizeof want,
             "'kiln_%s': %d of the %d programs of %d x 1 x 1 have started and wait for others, and no thread "
             "of '%s' is left to start one (%d threads)",
             barriers[i], threads, programs, programs, device, threads);
    CHECK_INT(r.status, KILN_STATUS_LAUNCH);
    if (strncmp(r.err.text, want, strlen(want)) != 0) FAIL("found %s\nexpected %s", r.err.text, want);
  }
  kiln_close(library);
}

// The device is as it was afterwards.
TEST(run_waits, a_device_works_after_it) {
  kiln_error err;
  run r = {.kernel = "by_load", .programs = 4};
  open_library();
  CHECK_OK(kiln_device_open(library, "host:3", &r.device, &err), err);
  for (int i = 0; i < 2; i++) {
    r.programs = 4, r.a[0] = 0;
    launch(&r);
    CHECK_INT(r.status, KILN_STATUS_LAUNCH);
    r.programs = 3, r.a[0] = 0;
    launch(&r);
    CHECK_OK(r.status, r.err);
  }
  kiln_device_close(r.device);
  kiln_close(library);
}

TEST(run_waits, what_goes_on_is_right) {
  static const struct {
    const char *kernel;
    int programs, want;
  } cases[] = {{"lock", 200, 200}, {"test_and_set", 200, 200},  {"chain", 200, 200}, {"queue", 9, 4000},
               {"bounded", 5, 5},  {"counts_by_cas", 200, 200}, {"toggles", 77, 77}};
  open_library();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int threads = 1; threads <= 3; threads += 2) {
      char device[24];
      snprintf(device, sizeof device, "host:%d", threads);
      run r = run_on(device, cases[i].kernel, cases[i].programs, 0);
      if (r.status != KILN_OK) FAIL("%s on %s: %s", cases[i].kernel, device, r.err.text);
      if (r.to[0] != cases[i].want) FAIL("%s on %s: %d", cases[i].kernel, device, r.to[0]);
    }
  kiln_close(library);
}

/// Turns of `slow` that take twice the time after which nobody is expected to go on.
static int64_t slow_turns(void) {
  for (int64_t turns = 1 << 24;; turns *= 2) {
    double begin = seconds();
    CHECK_INT(run_on("host:1", "slow", 1, turns).status, KILN_OK);
    double took = seconds() - begin;
    if (took > 0.3) return (int64_t)((double)turns * 2 / took);
  }
}

// One works, all others wait for it, for longer than it takes to give up.
TEST(run_waits, waiting_for_one_that_works_is_no_hang) {
  open_library();
  run r = run_on("host:4", "slow", 40, slow_turns());
  CHECK_OK(r.status, r.err);
  CHECK_INT(r.to[1], 40);
  kiln_close(library);
}

// All threads but one are with another launch for long; then they come.
TEST(run_waits, waiting_for_threads_of_another_launch_is_no_hang) {
  kiln_error err;
  pthread_t thread;
  struct timespec moment = {0, 200 * 1000 * 1000};
  open_library();
  run long_one = {.kernel = "slow", .programs = 3, .turns = slow_turns()},
      meeting = {.kernel = "by_load", .programs = 3};
  CHECK_OK(kiln_device_open(library, "host:3", &long_one.device, &err), err);
  meeting.device = long_one.device;
  CHECK_INT(pthread_create(&thread, NULL, launch, &long_one), 0);
  nanosleep(&moment, NULL);
  launch(&meeting);
  pthread_join(thread, NULL);
  CHECK_OK(meeting.status, meeting.err);
  CHECK_OK(long_one.status, long_one.err);
  kiln_device_close(long_one.device);
  kiln_close(library);
}

// What waits for a program that failed, or for one that is not started because another failed, ends with it.
TEST(run_waits, a_failed_assertion_ends_the_waits) {
  open_library();
  for (int threads = 2; threads <= 6; threads += 2) {
    char device[24];
    snprintf(device, sizeof device, "host:%d", threads);
    run r = run_on(device, "fails", 6, 0);
    CHECK_INT(r.status, KILN_STATUS_ASSERT);
    CHECK(strstr(r.err.text, "program 1 fails"));
  }
  kiln_close(library);
}

// Only loops that wait tell of it, on every host.
TEST(run_waits, which_loops_tell) {
  static const char *const targets[] = {"x86-64-v3", "aarch64"};
  static const char *const others[] = {"queue", "bounded", "counts_by_cas", "toggles"};
  char *out;
  open_library();
  kiln_close(library);
  for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
    if (kiln_test_run(&out,
                      "cp tests/tools/waits.kiln %s && cd %s && for k in by_atomic by_load by_variable "
                      "by_cas by_branch twice lock test_and_set "
                      "chain slow fails %s %s %s %s; do %s/bin/kiln compile waits.kiln -k $k -t %s -o $k.o "
                      "--no-cache -q || exit; grep -q kiln_${k}_wait $k.o && echo $k; done",
                      kiln_test_folder(), kiln_test_folder(), others[0], others[1], others[2], others[3],
                      kiln_test_build_path(), targets[t]) > 1)
      FAIL("%s", out);
    CHECK_TEXT(out,
               "by_atomic\nby_load\nby_variable\nby_cas\nby_branch\ntwice\nlock\ntest_and_set\nchain\nslow\n"
               "fails\n");
    free(out);
  }
}
