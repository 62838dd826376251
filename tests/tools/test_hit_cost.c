// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures what a hit of `kiln compile` costs, counted and not timed: system calls, page faults and
// instructions of one process, for a kernel of each name in kernels/. bench/bench_cache.sh measures the
// time, compared with an empty program.
//
// The bars, for a release build (softmax for sm_90 as PTX: 55 system calls and 66 page faults; before there
// was a memory of what came of a source's bytes 209 page faults):
//
//   system calls   57, two of which look for kiln.conf, and one for each 16 KiB of source, of the object that is
//                  there, and of its entry, which is not unpacked
//   page faults    70, whatever sizes are: all three are digested by pieces that go through the same few pages.
//                  Every page with a pointer in a constant table is one, when the program starts: tables hold
//                  texts and numbers (base/texts.h), not pointers to them
//   instructions   300,000 outside of the kernel, 2 per byte of source (its digest) and 4 per byte of object
#include <fcntl.h>
#include <linux/perf_event.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness.h"

enum { MOST = 100 };

typedef struct kernel {
  char source[100], name[120];
} kernel;

static kernel kernels[MOST];
static unsigned kernel_count;

/// The first instance of each kernel in each source.
static void list_kernels(void) {
  char *out, *save = NULL;
  if (kiln_test_run(
          &out,
          "for f in kernels/*.kiln; do %s/bin/kiln key -t sm_90 --ptx-assembler=none --no-cache $f | "
          "cut -c67- | sed 's/ .*//' | awk -F'[' -v f=$f '!seen[$1]++ {print f, $0}'; done",
          kiln_test_build()))
    FAIL("%s", out);
  for (char *line = strtok_r(out, "\n", &save); line && kernel_count < MOST;
       line = strtok_r(NULL, "\n", &save))
    if (sscanf(line, "%99s %119s", kernels[kernel_count].source, kernels[kernel_count].name) == 2)
      kernel_count++;
  free(out);
  CHECK(kernel_count >= 50);
}

static char program[300], cache[300], object_path[300]; // of the test's process: each has a folder of its own

static void set_paths(void) {
  snprintf(program, sizeof program, "%s/bin/kiln", kiln_test_build());
  snprintf(cache, sizeof cache, "--cache-dir=%s/cache", kiln_test_folder());
  snprintf(object_path, sizeof object_path, "%s/object", kiln_test_folder());
}

static char *const environment[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", NULL};

enum { WORDS = 13 };

static void set_words(const kernel *k, char *out[WORDS]) {
  char *const words[WORDS] = {program,
                              "compile",
                              cache,
                              "-q",
                              "-t",
                              "sm_90",
                              "--ptx-assembler=none",
                              "-k",
                              (char *)(uintptr_t)k->name,
                              "-o",
                              object_path,
                              (char *)(uintptr_t)k->source,
                              NULL};
  memcpy(out, words, sizeof words);
}

/// The command, in place of this process.
static _Noreturn void execute(const kernel *k) {
  char *words[WORDS];
  set_words(k, words);
  execve(program, words, environment);
  _exit(127);
}

static void must_end_well(pid_t pid, const kernel *k, struct rusage *out) {
  int status;
  CHECK(wait4(pid, &status, 0, out) == pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) FAIL("kiln compile -k %s: status %d", k->name, status);
}

static long count_faults(const kernel *k) {
  struct rusage used;
  char *words[WORDS];
  pid_t pid;
  set_words(k, words);
  CHECK(!posix_spawn(&pid, program, NULL, NULL, words, environment)); // a fork would have faults of its own
  must_end_well(pid, k, &used);
  return used.ru_minflt + used.ru_majflt;
}

/// Stops of the traced command, before and after each system call; -1: it may not be traced here.
static long count_stops(const kernel *k) {
  long stops = 0;
  int status = 0;
  pid_t pid = fork();
  if (!pid) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(126);
    execute(k);
  }
  if (waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 126)) return -1;
  while (WIFSTOPPED(status)) {
    if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid) return -1;
    stops++;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status)) FAIL("kiln compile -k %s: status %d", k->name, status);
  return stops;
}

/// By the processor's counter; -1 where there is none for us.
static long count_instructions(const kernel *k) {
  struct perf_event_attr event = {.type = PERF_TYPE_HARDWARE,
                                  .size = sizeof event,
                                  .config = PERF_COUNT_HW_INSTRUCTIONS,
                                  .disabled = 1,
                                  .enable_on_exec = 1,
                                  .inherit = 1,
                                  .exclude_kernel = 1,
                                  .exclude_hv = 1};
  struct rusage used;
  uint64_t count = 0;
  int ready[2];
  char byte;
  CHECK(!pipe(ready));
  pid_t pid = fork();
  if (!pid) {
    close(ready[1]);
    if (read(ready[0], &byte, 1) < 0) _exit(125);
    execute(k);
  }
  int fd = (int)syscall(SYS_perf_event_open, &event, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
  close(ready[0]), close(ready[1]);
  must_end_well(pid, k, &used);
  if (fd < 0) return -1;
  bool counted = read(fd, &count, sizeof count) == sizeof count;
  close(fd);
  return counted ? (long)count : -1;
}

static long size_of(const char *path) {
  struct stat st;
  CHECK(!stat(path, &st));
  return (long)st.st_size;
}

/// Programs that changed within two seconds are digested anew by each process.
static void let_settle(void) {
  static const char *const programs[] = {"kiln", "kiln-codegen"};
  for (unsigned i = 0; i < sizeof programs / sizeof *programs; i++) {
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/bin/%s", kiln_test_build(), programs[i]);
    CHECK(!stat(path, &st));
    if (time(NULL) - st.st_ctime <= 3) sleep(4);
  }
}

static void set_up(void) {
  if (!strstr(kiln_test_build(), "release")) SKIP("the bars are those of a release build");
  if (!kiln_test_run(NULL, "nm %s/bin/kiln | grep -q '__asan\\|__tsan'", kiln_test_build()))
    SKIP("an instrumented program does more");
  set_paths();
  let_settle();
  list_kernels();
}

/// Compiles, and once more: then the cache knows all that it will.
static void warm(const kernel *k) {
  for (unsigned i = 0; i < 2; i++) count_faults(k);
}

TEST(hit_cost, system_calls_and_page_faults) {
  long most_calls = 0, most_faults = 0;
  set_up();
  for (unsigned i = 0; i < kernel_count; i++) {
    const kernel *k = &kernels[i];
    warm(k);
    long source = size_of(k->source), object = size_of(object_path), faults = count_faults(k),
         stops = count_stops(k);
    if (stops < 0) SKIP("no process may be traced here");
    long calls = stops / 2, calls_bar = 57 + (2 * object + source) / 16384, faults_bar = 70;
    if (calls > calls_bar || faults > faults_bar)
      FAIL("%s: %ld system calls, at most %ld are expected; %ld page faults, at most %ld", k->name, calls,
           calls_bar, faults, faults_bar);
    if (calls > most_calls) most_calls = calls;
    if (faults > most_faults) most_faults = faults;
  }
  printf("%u kernels: at most %ld system calls and %ld page faults\n", kernel_count, most_calls, most_faults);
}

TEST(hit_cost, instructions) {
  static const char *const chosen[] = {"transpose", "softmax", "gemm"};
  set_up();
  for (unsigned c = 0; c < sizeof chosen / sizeof *chosen; c++) {
    unsigned i = 0;
    size_t length = strlen(chosen[c]);
    while (i < kernel_count &&
           (strncmp(kernels[i].name, chosen[c], length) || kernels[i].name[length] != '['))
      i++;
    CHECK(i < kernel_count);
    const kernel *k = &kernels[i];
    warm(k);
    long count = count_instructions(k);
    if (count <= 0) SKIP("no counter of instructions here (perf_event_open)");
    long bar = 300000 + 2 * size_of(k->source) + 4 * size_of(object_path);
    printf("%s: %ld instructions of %ld\n", k->name, count, bar);
    if (count > bar) FAIL("%s: %ld instructions, at most %ld are expected", k->name, count, bar);
  }
}
