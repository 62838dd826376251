// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kills the program that writes a bundle with SIGKILL at every system call: the file is the former bundle
// or the new one, complete, and the next run leaves nothing next to it. (behaviour 49)
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"

/// A manifest of `count` kernels; the same each time.
static void write_manifest(const char *name, uint32_t count) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  for (uint32_t i = 0; i < count; i++) {
    char kernel[32];
    snprintf(kernel, sizeof kernel, "add_%u", i);
    uint32_t number = fixture_kernel(&f, &ADD_ONE_INTERFACE(kernel));
    fixture_code(&f, number, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  }
  kiln_manifest_end(&f.manifest);
  kiln_test_write(kiln_test_path(name), f.manifest.bytes, f.manifest.size);
  kiln_buffer_deinit(&f.manifest);
  free(object);
}

/// In a child: a folder of the test belongs to its process, so paths are made before the fork.
static void start(const char *manifest, const char *output) {
  char program[512];
  snprintf(program, sizeof program, "%s/bin/kiln-tool", kiln_test_build());
  if (KILN_TEST_SANITIZED) setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // it traces, as this test does
  execl(program, program, "bundle-write", "-q", "-j1", "-o", output, manifest, (char *)NULL);
  _exit(127);
}

static void finish(const char *manifest) {
  int status;
  const char *input = kiln_test_path(manifest), *output = kiln_test_path("out/k.kb");
  pid_t child = fork();
  if (!child) start(input, output);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
}

/// Kills the writer at its `at`-th stop, before or after a system call. False when it ended before.
static bool kill_at(const char *manifest, unsigned at) {
  int status;
  const char *input = kiln_test_path(manifest), *output = kiln_test_path("out/k.kb");
  pid_t child = fork();
  if (!child) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    start(input, output);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (!WIFSTOPPED(status)) FAIL("the writer cannot be traced");
  ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  for (unsigned stop = 0; stop < at; stop++) {
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
      CHECK_INT(WEXITSTATUS(status), 0);
      return false;
    }
    if (WIFSIGNALED(status)) FAIL("the writer died of signal %d", WTERMSIG(status));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return true;
}

typedef struct bytes {
  char *at;
  size_t size;
} bytes;

static bytes take(const char *name) {
  bytes b;
  b.at = kiln_test_read(kiln_test_path(name), &b.size);
  return b;
}

static bool same(const bytes *a, const bytes *b) {
  return a->at && b->at && a->size == b->size && !memcmp(a->at, b->at, a->size);
}

/// `former`: NULL when there was no file before.
static void sweep(const bytes *former, const bytes *wanted) {
  unsigned at = 0;
  bool killed = true;
  for (; killed;
       at += kiln_test_full()
                 ? 1
                 : 2) { // every second stop is after a call: nothing on the disk changes until the next one
    kiln_test_run(NULL, "rm -rf %s; mkdir %s", kiln_test_path("out"), kiln_test_path("out"));
    if (former) kiln_test_write(kiln_test_path("out/k.kb"), former->at, former->size);
    killed = kill_at("new", at);
    bytes now = take("out/k.kb");
    if (now.at ? !same(&now, wanted) && !(former && same(&now, former)) : former != NULL)
      FAIL("killed at stop %u: the bundle is neither the former nor the new one (%zu bytes)", at,
           now.at ? now.size : 0);
    free(now.at);
    finish("new");
    now = take("out/k.kb");
    if (!same(&now, wanted)) FAIL("after a kill at stop %u the next run did not write the bundle", at);
    free(now.at);
    char *out;
    kiln_test_run(&out, "ls -A %s", kiln_test_path("out"));
    CHECK_TEXT(out, "k.kb\n");
    free(out);
  }
  if (at < 60) FAIL("only %u stops: the writer did not do its work", at);
}

TEST(kill_write, at_every_system_call) {
  kiln_test_run(NULL, "mkdir %s", kiln_test_path("out"));
  write_manifest("old", 2);
  write_manifest("new", 3);
  finish("old");
  bytes former = take("out/k.kb");
  finish("new");
  bytes wanted = take("out/k.kb");
  CHECK(former.at && wanted.at && !same(&former, &wanted));
  sweep(&former, &wanted);
  sweep(NULL, &wanted);
  free(former.at);
  free(wanted.at);
}
