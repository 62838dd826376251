// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the test harness: registers tests, runs them under Criterion or from a plain main, and prints
// the line of sums.
#include "tests/harness.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Of compiler/passes/pass.h; NULL in programs without a compiler.
__attribute__((weak)) void kiln_check_passes(bool on);

/// Every pass is verified in whatever a test runs: here, and in the programs that it starts.
__attribute__((constructor)) static void check_passes(void) {
  if (kiln_check_passes) kiln_check_passes(true);
  setenv("KILN_VERIFY_PASSES", "1", 1);
}

// A process that a test forked must not go on with the other tests, nor tell Criterion, which would wait for
// more: say it and leave.
static bool forked;
static void note_fork(void) { forked = true; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

#ifdef KILN_PLAIN_TESTS

#include <setjmp.h>

static void remove_folder(void);
static kiln_test *tests;
static jmp_buf leave;
enum { PASSED, FAILED, SKIPPED };

void kiln_test_register(kiln_test *test) {
  kiln_test **at = &tests;
  while (*at) at = &(*at)->next;
  *at = test;
}

void kiln_test_fail(const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s:%d: ", file, line);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  if (forked) _exit(1);
  longjmp(leave, FAILED);
}

void kiln_test_skip(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("skipped: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  if (forked) _exit(1);
  longjmp(leave, SKIPPED);
}

static bool is_named(const kiln_test *t, char *const *names) {
  if (!*names) return true;
  for (; *names; names++)
    if (!strcmp(*names, t->name) || !strcmp(*names, t->suite)) return true;
  return false;
}

/// Arguments name the tests or suites to run; without them all run.
int main(int argc, char **argv) {
  unsigned counts[3] = {0};
  (void)argc;
  for (kiln_test *volatile t = tests; t; t = t->next) {
    if (!is_named(t, argv + 1)) continue;
    int how = setjmp(leave);
    if (!how) t->run();
    remove_folder(); // each test has one of its own
    if (how == FAILED) fprintf(stderr, "FAILED %s::%s\n", t->suite, t->name);
    counts[how]++;
  }
  printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
  return counts[FAILED] != 0;
}

#else

#include <criterion/hooks.h>

void kiln_test_fail(const char *file, int line, const char *format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "%s:%d: %s\n", file, line, text);
  if (forked) _exit(1);
  cr_assert(0, "%s:%d: %s", file, line, text);
  abort();
}

void kiln_test_skip(const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (forked) {
    fprintf(stderr, "not skipped, by a process that a test forked: %s\n", text);
    _exit(1);
  }
  fprintf(stderr, "skipped: %s\n", text); // Criterion keeps it to itself
  cr_skip_test("%s", text);
  abort();
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
  printf("%zu passed, %zu failed, %zu skipped\n", stats->tests_passed,
         stats->tests_failed + stats->tests_crashed, stats->tests_skipped);
  fflush(stdout);
}

#endif

bool kiln_test_same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

unsigned kiln_test_count(const char *text, const char *part) {
  unsigned count = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) count++;
  return count;
}

bool kiln_test_full(void) {
  const char *v = getenv("KILN_TEST_FULL");
  return v && *v == '1';
}

bool kiln_test_wants_row(const char *row) {
  const char *list = getenv("KILN_TEST_ROWS");
  if (!list) return true;
  for (size_t length = strlen(row); *list; list += strcspn(list, ","), list += *list == ',')
    if (strcspn(list, ",") == length && !strncmp(list, row, length)) return true;
  return false;
}

/// KILN_TEST_PART; without it all is one part.
static void read_part(unsigned *part, unsigned *parts) {
  const char *text = getenv("KILN_TEST_PART");
  *part = 0, *parts = 1;
  if (text && (sscanf(text, "%u/%u", part, parts) != 2 || *part >= *parts))
    FAIL("KILN_TEST_PART=%s is not K/N", text);
}

bool kiln_test_wants_piece(uint64_t number) {
  unsigned part, parts;
  read_part(&part, &parts);
  return number % parts == part;
}

kiln_test_range kiln_test_seeds(uint64_t first, uint64_t count) {
  unsigned part, parts;
  unsigned long long from, to;
  const char *text = getenv("KILN_SEEDS");
  const int found = text ? sscanf(text, "%llu..%llu", &from, &to) : 0;
  if (found >= 1) return (kiln_test_range){from, found == 1 ? from : to};
  read_part(&part, &parts);
  return (kiln_test_range){first + count * part / parts, first + count * (part + 1) / parts - 1};
}

const char *kiln_test_build(void) {
  const char *v = getenv("KILN_BUILD");
  return v ? v : "build/release";
}

const char *kiln_test_build_path(void) {
  static char path[4096];
  if (!realpath(kiln_test_build(), path)) FAIL("%s is not there", kiln_test_build());
  return path;
}

char *kiln_test_read(const char *path, size_t *out_size) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  size_t size = 0, capacity = 1 << 16;
  char *bytes = malloc(capacity + 1);
  for (size_t got; bytes && (got = fread(bytes + size, 1, capacity - size, f)) > 0;) {
    size += got;
    if (size == capacity) bytes = realloc(bytes, (capacity *= 2) + 1);
  }
  fclose(f);
  if (!bytes) return NULL;
  bytes[size] = 0;
  if (out_size) *out_size = size;
  return bytes;
}

/// What kiln_test_text has read.
typedef struct kept_text {
  struct kept_text *next;
  char *text;
} kept_text;
static kept_text *kept;

const char *kiln_test_text(const char *path) {
  kept_text *k = malloc(sizeof *k);
  char *text = kiln_test_read(path, NULL);
  if (!k || !text) FAIL("%s cannot be read", path);
  *k = (kept_text){kept, text};
  kept = k;
  return text;
}

void kiln_test_write(const char *path, const void *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, size, f) != size || fclose(f)) FAIL("cannot write %s", path);
}

char *kiln_test_path(const char *name) {
  static char paths[32][600];
  static unsigned next;
  char *path = paths[next++ % 32];
  snprintf(path, sizeof paths[0], "%s/%s", kiln_test_folder(), name);
  return path;
}

const char *kiln_test_put(const char *name, const char *text) {
  const char *path = kiln_test_path(name);
  kiln_test_write(path, text, strlen(text));
  return path;
}

void kiln_test_golden(const char *name, const char *text, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "tests/golden/%s", name);
  if (getenv("KILN_TEST_BLESS")) {
    kiln_test_write(path, text, size);
    return;
  }
  size_t want_size = 0;
  char *want = kiln_test_read(path, &want_size);
  if (!want) FAIL("%s is missing; `make bless` writes it", path);
  if (want_size != size || memcmp(want, text, size)) {
    size_t at = 0, line = 1;
    for (; at < size && at < want_size && text[at] == want[at]; at++) line += text[at] == '\n';
    FAIL("%s differs at line %zu; got:\n%.*s", path, line, (int)(size > 3000 ? 3000 : size), text);
  }
  free(want);
}

static char folder[64];
static pid_t folder_owner;

static void remove_folder(void) {
  if (folder[0] && folder_owner == getpid()) kiln_test_run(NULL, "rm -rf %s", folder);
  folder[0] = 0;
}

const char *kiln_test_folder(void) {
  if (folder[0] && folder_owner == getpid()) return folder;
  strcpy(folder, "/tmp/kiln-test-XXXXXX");
  if (!mkdtemp(folder)) FAIL("mkdtemp failed");
  folder_owner = getpid();
  atexit(remove_folder);
  return folder;
}

enum { COMMAND_SIZE = 8192 };

/// Runs the command, which has room for the redirection of stderr.
static int run_command(char command[COMMAND_SIZE], char **out) {
  static const char both[] = " 2>&1";
  if (strlen(command) + sizeof both > COMMAND_SIZE) FAIL("command too long");
  strcat(command, both);
  FILE *p = popen(command, "r");
  if (!p) FAIL("popen failed: %s", command);
  size_t size = 0, capacity = 1 << 14;
  char *text = malloc(capacity + 1);
  for (size_t got; (got = fread(text + size, 1, capacity - size, p)) > 0;) {
    size += got;
    if (size == capacity) text = realloc(text, (capacity *= 2) + 1);
  }
  text[size] = 0;
  *out = text;
  int status = pclose(p);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int kiln_test_run(char **out, const char *format, ...) {
  char command[COMMAND_SIZE], *text;
  va_list args;
  va_start(args, format);
  vsnprintf(command, sizeof command, format, args);
  va_end(args);
  int status = run_command(command, &text);
  if (out) *out = text;
  else free(text);
  return status;
}

char *kiln_test_run_to(int want, const char *format, ...) {
  char command[COMMAND_SIZE], *text;
  va_list args;
  va_start(args, format);
  vsnprintf(command, sizeof command, format, args);
  va_end(args);
  int status = run_command(command, &text);
  if (status != want) FAIL("%s: exit status %d, expected %d:\n%s", command, status, want, text);
  return text;
}

void kiln_test_need(const char *programs) {
  if (kiln_test_run(NULL, "for p in %s; do command -v $p && exit; done; exit 1", programs))
    SKIP("not installed: %s", programs);
}

uint64_t kiln_test_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
