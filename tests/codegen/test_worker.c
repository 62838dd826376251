// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the worker program over its pipes: it answers every request, good or bad, and continues.
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_mark.h"
#include "base/record.h"
#include "compiler/front.h"
#include "compiler/options.h"
#include "tests/harness.h"

extern char **environ;

typedef struct worker {
  pid_t pid;
  int to, from;
  kiln_file_mark mark; // what its replies say of its file; all zero: it does not know
} worker;

typedef struct reply {
  kiln_buffer body;
  uint8_t status;
  char text[1200];     // of an error
  uint32_t operation;  // of an error
  kiln_code_info info; // of an artifact
  kiln_span code;
} reply;

// Runs argv[0], found in the path.
static worker start_command(char *const *argv) {
  int in[2], out[2];
  worker w = {0};
  CHECK(pipe(in) == 0 && pipe(out) == 0);
  signal(SIGPIPE, SIG_IGN);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  for (int i = 0; i < 2; i++)
    posix_spawn_file_actions_addclose(&actions, in[i]), posix_spawn_file_actions_addclose(&actions, out[i]);
  CHECK(posix_spawnp(&w.pid, argv[0], &actions, NULL, argv, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]), close(out[1]);
  w.to = in[1], w.from = out[0];
  return w;
}

// The worker of the build.
static void find(char path[300]) {
  snprintf(path, 300, "%s/bin/kiln-codegen", kiln_test_build());
  if (access(path, X_OK) != 0) SKIP("%s is not built", path);
}

static kiln_file_mark mark_of(const char *path) {
  struct stat st;
  CHECK(!stat(path, &st));
  return kiln_file_mark_of(&st);
}

static worker start(void) {
  char path[300];
  find(path);
  worker w = start_command((char *[]){path, NULL});
  w.mark = mark_of(path);
  return w;
}

// Closes the pipes; how the worker ended.
static int finish(worker *w) {
  int status;
  close(w->to);
  char rest;
  CHECK_INT(read(w->from, &rest, 1), 0); // nothing more comes
  close(w->from);
  CHECK(waitpid(w->pid, &status, 0) == w->pid);
  return status;
}

static void send_bytes(worker *w, const void *bytes, size_t size) {
  uint8_t head[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
  CHECK_INT(write(w->to, head, 4), 4);
  if (size) CHECK_INT(write(w->to, bytes, size), (ssize_t)size);
}

static void read_exactly(int fd, uint8_t *bytes, size_t size) {
  for (size_t got = 0; got < size;) {
    ssize_t n = read(fd, bytes + got, size - got);
    if (n <= 0) FAIL("the reply ended after %zu of %zu bytes", got, size);
    got += (size_t)n;
  }
}

static reply receive(worker *w) {
  reply r = {0};
  uint8_t head[4];
  read_exactly(w->from, head, 4);
  size_t size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
  CHECK(kiln_buffer_reserve(&r.body, size));
  read_exactly(w->from, r.body.bytes, size);
  r.body.size = size;
  kiln_reader at = kiln_reader_of(r.body.bytes, size);
  r.status = kiln_read_u8(&at);
  size_t length, printed_size;
  const uint8_t *printed = kiln_read_block(&at, &printed_size), *first = kiln_read_block(&at, &length);
  CHECK(printed);
  CHECK(first);
  if (r.status != KILN_OK) {
    snprintf(r.text, sizeof r.text, "%.*s", (int)length, (const char *)first);
    r.operation = kiln_read_u32(&at);
  } else {
    CHECK(kiln_code_info_decode(first, length, &r.info));
    r.code.bytes = kiln_read_block(&at, &r.code.size);
    size_t report_size;
    kiln_read_block(&at, &report_size);
    for (int i = 0; i < 6; i++) kiln_read_u64(&at);
    kiln_file_mark maker = kiln_file_mark_decode(&at);
    CHECK(kiln_file_mark_same(&maker, &w->mark)); // the reply says whose it is
  }
  CHECK(kiln_read_done(&at));
  return r;
}

static const char source[] =
    "kiln 1\n"
    "kernel twice(x: in *f32, y: out *f32, n: i32)\n  @grid(cdiv(n, 1024)) @warps(4)\n{\n"
    "  let i = pid(0) * 1024 + iota(1024)\n  store(y + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

static void make_request_of(const char *text, const char *target, const char *symbol, const char *option,
                            kiln_buffer *out) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options front = {0};
  kiln_error err = {0};
  kiln_unit *unit = kiln_unit_open(arena, "twice.kiln", text, strlen(text), &front, &d);
  if (!unit) FAIL("%s", d.count ? d.items[0].text : "no unit");
  kiln_target t;
  CHECK_OK(kiln_target_parse(target, &t, &err), err);
  ir_kernel *kernel =
      kiln_unit_lower(unit, arena, 0, 0, kiln_unit_interface(unit, 0)->variant_count - 1, &t, &d);
  CHECK(kernel);
  kiln_buffer canonical = {0}, options = {0};
  kiln_canonical_encode(kernel, &canonical);
  kiln_codegen_options o;
  kiln_codegen_options_init(&o);
  if (option) CHECK_OK(kiln_codegen_options_set(&o, option, &err), err);
  kiln_codegen_options_encode(&o, &options);
  kiln_buffer_u8(out, 1);
  kiln_buffer_text(out, target);
  kiln_buffer_text(out, symbol);
  kiln_buffer_block(out, options.bytes, options.size);
  kiln_buffer_block(out, canonical.bytes, canonical.size);
  kiln_buffer_block(out, NULL, 0); // no line information
  CHECK(!out->failed);
  kiln_buffer_deinit(&canonical);
  kiln_buffer_deinit(&options);
  kiln_arena_destroy(arena);
}

// A good request for `target`.
static void make_request(const char *target, const char *symbol, const char *option, kiln_buffer *out) {
  make_request_of(source, target, symbol, option, out);
}

TEST(worker, many_requests_one_process) {
  static const struct {
    const char *target;
    kiln_format format;
  } cases[] = {{"sm_90", KILN_FORMAT_PTX},           {"gfx942", KILN_FORMAT_HSACO},
               {"x86-64-v3", KILN_FORMAT_HOST},      {"gfx1100", KILN_FORMAT_HSACO},
               {"aarch64", KILN_FORMAT_HOST},        {"sm_80", KILN_FORMAT_PTX},
               {"gfx11-generic", KILN_FORMAT_HSACO}, {"sm_90", KILN_FORMAT_PTX}};
  worker w = start();
  kiln_buffer first = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_buffer request = {0};
    make_request(cases[i].target, "kiln_twice", NULL, &request);
    send_bytes(&w, request.bytes, request.size);
    reply r = receive(&w);
    if (r.status != KILN_OK) FAIL("%s: %s", cases[i].target, r.text);
    CHECK_INT(r.info.format, cases[i].format);
    CHECK_TEXT(r.info.target, cases[i].target);
    CHECK_TEXT(r.info.symbol, "kiln_twice");
    CHECK(r.code.size > 100);
    if (i == 0) kiln_buffer_bytes(&first, r.code.bytes, r.code.size);
    if (i == 7)
      CHECK(r.code.size == first.size &&
            memcmp(r.code.bytes, first.bytes, first.size) == 0); // nothing carries over
    kiln_buffer_deinit(&r.body);
    kiln_buffer_deinit(&request);
  }
  kiln_buffer_deinit(&first);
  CHECK_INT(finish(&w), 0);
}

TEST(worker, wrong_requests_get_words_and_the_next_one_works) {
  worker w = start();
  kiln_buffer good = {0}, bad_symbol = {0}, bad_form = {0};
  make_request("gfx1100", "kiln_twice", NULL, &good);
  make_request("gfx1100", "no good", NULL, &bad_symbol);
  make_request("gfx1100", "kiln_twice", "emit=ptx", &bad_form);
  uint8_t other_kind[1000];
  CHECK(good.size < sizeof other_kind);
  memcpy(other_kind, good.bytes, good.size);
  other_kind[0] = 9;
  const struct {
    const void *bytes;
    size_t size;
    unsigned status;
    const char *part;
  } cases[] = {
      {"", 0, KILN_STATUS_CORRUPT, "request: expected a kind and five blocks, found an early end"},
      {"\1", 1, KILN_STATUS_CORRUPT, "found an early end"},
      {"\1\377\377\377\377\377\377\377\377\377\377\377", 12, KILN_STATUS_CORRUPT, "found an early end"},
      {other_kind, good.size, KILN_STATUS_CORRUPT, "request: its kind is not known"},
      {bad_symbol.bytes, bad_symbol.size, KILN_STATUS_CORRUPT, "request: the symbol is not an identifier"},
      {"\1\3a\nc\1k\0\0\0", 10, KILN_STATUS_CORRUPT, "request: the target's name is not printable"},
      {"\1\3abc\1k\0\0\0", 10, KILN_STATUS_TARGET, "no target is called 'abc'"},
      {"\1\5sm_80\1k\0\0\4\1\1a\0", 16, KILN_STATUS_CORRUPT, "request: the positions are damaged"},
      {"\1\5sm_80\1k\0\0\0", 12, KILN_STATUS_CORRUPT, "options: 'optimise' is damaged"},
      {bad_form.bytes, bad_form.size, KILN_STATUS_UNSUPPORTED,
       "gfx1100 has no form 'ptx'; it has hsaco, asm, ir, llvm"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    send_bytes(&w, cases[i].bytes, cases[i].size);
    reply r = receive(&w);
    CHECK_INT(r.status, cases[i].status);
    if (!strstr(r.text, cases[i].part)) FAIL("case %zu: '%s', expected '%s' in it", i, r.text, cases[i].part);
    kiln_buffer_deinit(&r.body);
    send_bytes(&w, good.bytes, good.size);
    r = receive(&w);
    CHECK_INT(r.status, KILN_OK);
    kiln_buffer_deinit(&r.body);
  }
  kiln_buffer_deinit(&good), kiln_buffer_deinit(&bad_symbol), kiln_buffer_deinit(&bad_form);
  CHECK_INT(finish(&w), 0);
}

// Bytes turned over at random in a good request: an answer each time, whatever it is.
TEST(worker, damaged_requests_are_answered) {
  worker w = start();
  kiln_buffer good = {0};
  make_request("gfx1100", "kiln_twice", "emit=ir", &good);
  uint64_t state = 11;
  uint8_t *copy = malloc(good.size);
  CHECK(copy);
  unsigned refused = 0;
  for (int i = 0; i < 400; i++) {
    memcpy(copy, good.bytes, good.size);
    for (unsigned j = 0; j < 1 + i % 3u; j++)
      copy[kiln_test_random(&state) % good.size] = (uint8_t)kiln_test_random(&state);
    size_t size = i % 5 ? good.size : kiln_test_random(&state) % good.size;
    send_bytes(&w, copy, size);
    reply r = receive(&w);
    refused += r.status != KILN_OK;
    if (r.status != KILN_OK) CHECK(r.text[0] && !strchr(r.text, '\n'));
    kiln_buffer_deinit(&r.body);
  }
  CHECK(refused > 50);
  free(copy);
  kiln_buffer_deinit(&good);
  CHECK_INT(finish(&w), 0);
}

// LLVM gives up on the operand that is not there.
static const char given_up[] =
    "kiln 1\nkernel copy(x: inout *f32) @grid(1) @warps(1)\n{\n"
    "  store(x + iota(32), asm(\"mov.b32 $0, $7;\", \"=f,f\", [load(x + iota(32))], f32))\n}\n";

static void send_and_expect(worker *w, const kiln_buffer *request, kiln_status status, const char *part) {
  send_bytes(w, request->bytes, request->size);
  reply r = receive(w);
  if (r.status != status || !strstr(r.text, part))
    FAIL("%u, '%s'; expected %u, '%s'", r.status, r.text, (unsigned)status, part);
  kiln_buffer_deinit(&r.body);
}

// Twice, since what starts again does so from what it was started by. With `other`, this program lies in the
// worker's place by then: the process ends, or goes on from its own file, and never runs the other one.
static void give_up_twice(worker *w, const char *path, const char *other, bool goes_on) {
  kiln_buffer good = {0}, bad = {0};
  make_request("sm_80", "kiln_twice", NULL, &good);
  make_request_of(given_up, "sm_80", "kiln_copy", NULL, &bad);
  send_and_expect(w, &good, KILN_OK, "");
  if (other) CHECK(!rename(other, path));
  if (other && goes_on) {
    char file[40];
    snprintf(file, sizeof file, "/proc/%d/exe", (int)w->pid);
    w->mark = mark_of(file); // the loss of its name is a change of the file
  }
  for (int i = 0; i < (goes_on ? 2 : 1); i++) {
    send_and_expect(w, &bad, KILN_STATUS_INTERNAL, "LLVM gave up: Invalid $ operand number");
    if (goes_on) send_and_expect(w, &good, KILN_OK, "");
  }
  kiln_buffer_deinit(&good), kiln_buffer_deinit(&bad);
  int status = finish(w);
  CHECK(WIFEXITED(status));
  CHECK_INT(WEXITSTATUS(status), goes_on ? 0 : 1);
}

// A worker that runs from `path` where /proc is not mounted.
static worker start_without_proc(char *path) {
  if (kiln_test_run(NULL, "unshare -rm sh -c 'mount -t tmpfs none /proc && test ! -e /proc/self'"))
    SKIP("no mount namespace without /proc can be made here");
  if (KILN_TEST_SANITIZED) SKIP("sanitizers need /proc");
  return start_command(
      (char *[]){"unshare", "-rm", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\"", path, NULL});
}

// A copy of the worker, and a program that leaves a file where it runs.
static void copy(char path[300], char other[300]) {
  char own[300], script[700];
  find(own);
  snprintf(path, 300, "%s/kiln-codegen", kiln_test_folder());
  snprintf(other, 300, "%s/other", kiln_test_folder());
  snprintf(script, sizeof script, "#!/bin/sh\n: >%s/ran\n", kiln_test_folder());
  kiln_test_write(other, script, strlen(script));
  CHECK_INT(kiln_test_run(NULL, "cp %s %s && chmod +x %s", own, path, other), 0);
}

static bool other_ran(void) {
  char ran[300];
  snprintf(ran, sizeof ran, "%s/ran", kiln_test_folder());
  return !access(ran, F_OK);
}

TEST(worker, it_goes_on_after_llvm_gave_up) {
  char path[300], other[300];
  worker w = start();
  give_up_twice(&w, NULL, NULL, true);
  copy(path, other);
  w = start_command((char *[]){path, NULL});
  w.mark = mark_of(path);
  give_up_twice(&w, path, other, true);
  CHECK(!other_ran());
}

TEST(worker, it_goes_on_after_llvm_gave_up_without_proc) {
  char path[300];
  find(path);
  worker w = start_without_proc(path);
  give_up_twice(&w, NULL, NULL, true);
}

TEST(worker, without_proc_it_starts_no_other_program) {
  char path[300], other[300];
  copy(path, other);
  worker w = start_without_proc(path);
  give_up_twice(&w, path, other, false);
  CHECK(!other_ran());
}

TEST(worker, an_early_end_of_input_ends_it) {
  worker w = start();
  CHECK_INT(write(w.to, "\40\0\0\0abc", 7), 7);
  CHECK_INT(finish(&w), 0);
}

TEST(worker, command_line) {
  char *out = NULL;
  worker w = start();
  CHECK_INT(finish(&w), 0);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln-codegen --version", kiln_test_build()), 0);
  CHECK_TEXT(out, "kiln-codegen " KILN_VERSION "\n");
  free(out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln-codegen --fingerprint", kiln_test_build()), 0);
  CHECK(strncmp(out, "llvm=", 5) == 0 && strstr(out, " build-id="));
  free(out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln-codegen --help", kiln_test_build()), 0);
  CHECK(strstr(out, "--fingerprint") && strstr(out, "usage: "));
  free(out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln-codegen --nonsense", kiln_test_build()), 2);
  CHECK(strstr(out, "found '--nonsense'"));
  free(out);
}
