// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sends every kernel of a folder of recorded cases through the whole front end: read, verified, made
// canonical, encoded, decoded, printed in the kernel language and read back to the same bytes. The folder
// comes from KILN_TEST_CASES; without it the small texts of tests/ttir go the same way.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/front.h"
#include "compiler/ttir/ttir.h"
#include "tests/harness.h"

static const char *folder;

// Canonical bytes of the first kernel of a text, named `file`; diagnostics fail the test.
static kiln_buffer canonical_of(const char *file, const char *text, size_t size) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_error err = {0};
  kiln_target target;
  kiln_buffer bytes = {0};
  CHECK_OK(kiln_target_parse("host", &target, &err), err);
  kiln_unit *unit = kiln_unit_open(arena, file, text, size, NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel)
    FAIL("%s:%u: %s", file, d.count ? d.items[0].line : 0, d.count ? d.items[0].text : "no message");
  kiln_canonical_encode(kernel, &bytes);
  CHECK(!bytes.failed);
  kiln_arena_destroy(arena);
  return bytes;
}

// Differences are counted, so that one run names all of them.
static size_t differences;

static void check_equal(const char *file, const char *what, const kiln_buffer *a, const kiln_buffer *b) {
  if (a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0) return;
  differences++;
  printf("%s: %s gives other bytes (%zu and %zu)\n", file, what, a->size, b->size);
}

// Decodes, encodes again, prints, reads the print: always the same bytes.
static void check_round_trips(const char *file, const char *text, size_t size) {
  kiln_buffer bytes = canonical_of(file, text, size), again = {0}, printed = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  ir_kernel *kernel;
  CHECK_OK(kiln_canonical_decode(arena, bytes.bytes, bytes.size, "round", &kernel, &err), err);
  kiln_canonical_encode(kernel, &again);
  check_equal(file, "decoding", &bytes, &again);
  kiln_canonicalise(kernel);
  kiln_buffer_clear(&again);
  kiln_canonical_encode(kernel, &again);
  check_equal(file, "making canonical once more", &bytes, &again);
  kiln_print_ir(kernel, &printed);
  kiln_buffer native = canonical_of("printed.kiln", (const char *)printed.bytes, printed.size);
  check_equal(file, "the printed text", &bytes, &native);
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  kiln_buffer_deinit(&printed);
  kiln_buffer_deinit(&native);
  kiln_arena_destroy(arena);
}

typedef void file_check(const char *path, const char *text, size_t size);

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

// Calls `check` for each DIR/*/kernel.ttir and DIR/*.ttir. Returns how many.
static size_t each_file(const char *root, file_check *check) {
  struct dirent **entries;
  size_t count = 0;
  int n = scandir(root, &entries, is_visible, alphasort);
  for (int i = 0; i < n; i++) {
    char path[4096];
    size_t size, length = strlen(entries[i]->d_name);
    bool is_text = length > 5 && !strcmp(entries[i]->d_name + length - 5, ".ttir");
    snprintf(path, sizeof path, is_text ? "%s/%s" : "%s/%s/kernel.ttir", root, entries[i]->d_name);
    char *text = kiln_test_read(path, &size);
    if (text) {
      check(path, text, size);
      count++;
    }
    free(text);
    free(entries[i]);
  }
  if (n >= 0) free(entries);
  return count;
}

static bool have_cases(void) {
  folder = getenv("KILN_TEST_CASES");
  return folder && *folder;
}

TEST(ttir_cases, small_texts_round_trip) {
  differences = 0;
  CHECK(each_file("tests/ttir", check_round_trips) >= 5);
  CHECK_INT(differences, 0);
}

TEST(ttir_cases, recorded_kernels_round_trip) {
  if (!have_cases()) SKIP("KILN_TEST_CASES names no folder of recorded cases");
  differences = 0;
  size_t count = each_file(folder, check_round_trips);
  printf("%zu kernels went round\n", count);
  CHECK(count > 0);
  CHECK_INT(differences, 0);
}

// ------------------------------------------------------------------------------------------- speed

enum { MAX_TIMES = 4096, MEDIAN_LIMIT_US = 200 };
static double times[MAX_TIMES];
static size_t time_count;

static double read_once(const char *text, size_t size) {
  struct timespec begin, end;
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  ttir_facts facts = {0};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  ttir_module *module = ttir_open(arena, "k.ttir", text, size, &d);
  CHECK(module && ttir_build(module, 0, &facts, arena, &d));
  clock_gettime(CLOCK_MONOTONIC, &end);
  kiln_arena_destroy(arena);
  return (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
}

static void take_time(const char *path, const char *text, size_t size) {
  (void)path;
  double best = read_once(text, size);
  for (int i = 0; i < 4; i++) {
    double again = read_once(text, size);
    if (again < best) best = again;
  }
  if (time_count < MAX_TIMES) times[time_count++] = best;
}

static int by_size(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

TEST(ttir_cases, reading_is_fast) {
  if (!have_cases()) SKIP("KILN_TEST_CASES names no folder of recorded cases");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("times under a sanitizer say nothing");
#endif
  each_file(folder, take_time);
  CHECK(time_count > 0);
  qsort(times, time_count, sizeof *times, by_size);
  printf("reading %zu kernels: median %.0f us, largest %.0f us\n", time_count, times[time_count / 2],
         times[time_count - 1]);
  if (times[time_count / 2] > MEDIAN_LIMIT_US)
    FAIL("the median is %.0f us, the limit is %d", times[time_count / 2], MEDIAN_LIMIT_US);
}
