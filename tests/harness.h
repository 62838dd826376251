// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one test harness. TEST(suite, name) { ... } makes a plain function; Criterion runs each in a process of
// its own. With KILN_PLAIN_TESTS a plain main runs the same functions in one process, for thread sanitizer,
// static programs and other machines.
#ifndef KILN_TESTS_HARNESS_H
#define KILN_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef KILN_PLAIN_TESTS
typedef struct kiln_test {
  const char *suite, *name;
  void (*run)(void);
  struct kiln_test *next;
} kiln_test;
void kiln_test_register(kiln_test *test);
#define TEST(suite, name)                                                    \
  static void suite##_##name##_body(void);                                   \
  __attribute__((constructor)) static void suite##_##name##_register(void) { \
    static kiln_test test = {#suite, #name, suite##_##name##_body, NULL};    \
    kiln_test_register(&test);                                               \
  }                                                                          \
  static void suite##_##name##_body(void)
#else
#include <criterion/criterion.h>
#define TEST(suite, name)                        \
  static void suite##_##name##_body(void);       \
  Test(suite, name) { suite##_##name##_body(); } \
  static void suite##_##name##_body(void)
#endif

/// Ends the test as failed, with a formatted reason.
void kiln_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/// Ends the test as skipped; the reason is printed and counted. Not for processes that a test forked, where
/// it is a failure: nobody would count it.
void kiln_test_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define FAIL(...) kiln_test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) kiln_test_skip(__VA_ARGS__)
#define CHECK(condition) ((condition) ? (void)0 : FAIL("expected %s", #condition))
#define CHECK_INT(got, want)                                                                     \
  do {                                                                                           \
    long long check_got = (long long)(got), check_want = (long long)(want);                      \
    if (check_got != check_want) FAIL("%s is %lld, expected %lld", #got, check_got, check_want); \
  } while (0)
#define CHECK_TEXT(got, want)                                       \
  do {                                                              \
    const char *check_got = (got), *check_want = (want);            \
    if (!kiln_test_same_text(check_got, check_want))                \
      FAIL("%s is\n%s\nexpected\n%s", #got, check_got, check_want); \
  } while (0)
/// Both are printed where the part is not in the text.
#define CHECK_PART(text, part)                                                                 \
  do {                                                                                         \
    const char *check_text = (text), *check_part = (part);                                     \
    if (!strstr(check_text, check_part)) FAIL("expected\n%s\nin\n%s", check_part, check_text); \
  } while (0)
#define CHECK_NO_PART(text, part)                                                                   \
  do {                                                                                              \
    const char *check_text = (text), *check_part = (part);                                          \
    if (strstr(check_text, check_part)) FAIL("did not expect\n%s\nin\n%s", check_part, check_text); \
  } while (0)
#define CHECK_OK(call, err)                                          \
  do {                                                               \
    if ((call) != KILN_OK) FAIL("%s failed: %s", #call, (err).text); \
  } while (0)

/// Whether a sanitizer is in it: it brings its own malloc, its own constructors and its own time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KILN_TEST_SANITIZED 1
#else
#define KILN_TEST_SANITIZED 0
#endif
#ifdef __SANITIZE_THREAD__
#define KILN_TEST_THREAD_SANITIZER 1
#else
#define KILN_TEST_THREAD_SANITIZER 0
#endif

/// For programs that a test compiles against the libraries of its build; a command of the shell after which
/// they get one GiB; how many times longer than otherwise things may take. Sanitizers reserve terabytes of
/// addresses and have a limit of their own.
#if defined(__SANITIZE_ADDRESS__)
#define KILN_TEST_COMPILE "-fsanitize=address,undefined"
#define KILN_TEST_GIGABYTE "export ASAN_OPTIONS=hard_rss_limit_mb=1024"
enum { KILN_TEST_PATIENCE = 5 };
#elif defined(__SANITIZE_THREAD__)
#define KILN_TEST_COMPILE "-fsanitize=thread"
#define KILN_TEST_GIGABYTE "export TSAN_OPTIONS=hard_rss_limit_mb=1024"
enum { KILN_TEST_PATIENCE = 5 };
#else
#define KILN_TEST_COMPILE ""
#define KILN_TEST_GIGABYTE "ulimit -v 1048576"
enum { KILN_TEST_PATIENCE = 1 };
#endif

bool kiln_test_same_text(const char *a, const char *b);
/// How often `part` stands in `text`.
unsigned kiln_test_count(const char *text, const char *part);

/// True in `make check-full`.
bool kiln_test_full(void);
/// Whether this run is about a row of `kiln targets`: KILN_TEST_ROWS, names between commas, divides the long
/// matrix among machines. Without it all are wanted.
bool kiln_test_wants_row(const char *row);
/// Whether this run takes a piece of a long test, by its number: KILN_TEST_PART=k/n takes each nth from the
/// kth (0 to n - 1). Without it all are taken.
bool kiln_test_wants_piece(uint64_t number);
/// Seeds of a search, from `first` to `last`, both among them; none if last < first.
typedef struct kiln_test_range {
  uint64_t first, last;
} kiln_test_range;
/// KILN_SEEDS=first..last, otherwise the `count` seeds from `first` on; of those, with KILN_TEST_PART=k/n, the kth
/// of n parts of nearly the same length.
kiln_test_range kiln_test_seeds(uint64_t first, uint64_t count);
/// The build's output folder ("build/release"), from KILN_BUILD; tests run with the project's root as the
/// current folder.
const char *kiln_test_build(void);
/// The same from the root folder, for commands that run elsewhere.
const char *kiln_test_build_path(void);
/// Compares with the file tests/golden/<name>; with KILN_TEST_BLESS it writes the file instead.
void kiln_test_golden(const char *name, const char *text, size_t size);
/// A new empty folder that is removed when the test's process ends well. Static storage, one a process.
const char *kiln_test_folder(void);
/// The whole file, NUL-terminated, malloc'ed; NULL when it cannot be read.
char *kiln_test_read(const char *path, size_t *out_size);
/// The same of a file that must be there, kept until the process ends.
const char *kiln_test_text(const char *path);
/// The path of a file in the test's folder. Static storage, of the newest 32.
char *kiln_test_path(const char *name);
/// Writes that file; its path.
const char *kiln_test_put(const char *name, const char *text);
void kiln_test_write(const char *path, const void *bytes, size_t size);
/// Runs a shell command, returns its exit status; its stdout and stderr together in `*out` (malloc'ed) when
/// out is not NULL.
int kiln_test_run(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// A make of its own in the build under test, from the project's folder: not the jobs and variables of the one
/// that runs the tests, and one at a time. B is spelled as there: another spelling is another flag, and
/// everything would be compiled again.
#define KILN_TEST_MAKE                                                                  \
  "flock ${KILN_BUILD:-build/release} env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s " \
  "CONFIG=${CONFIG:-release} "                                                          \
  "B=${KILN_BUILD:-build/release} "

/// The same for a command that must end with the exit status `want`; what it printed, malloc'ed.
char *kiln_test_run_to(int want, const char *format, ...) __attribute__((format(printf, 2, 3)));
/// Skips the test unless one of the programs is in the path: names with blanks between.
void kiln_test_need(const char *programs);

/// splitmix64: the one source of randomness of the tests; seeds are printed.
uint64_t kiln_test_random(uint64_t *state);

#endif
