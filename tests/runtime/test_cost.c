// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that of the usable configs the one with the least cost is taken, whatever was launched before,
// unless a choice was tuned for exactly these bins. It compares with its own search over random arguments,
// from one thread and from several.
#include <pthread.h>
#include <time.h>

#include "tests/runtime/fixture.h"

enum { CONFIGS = 4, THREADS = 4, LAUNCHES = 4000 };

// (p: *f32 aligned to 16, n: i32, m: i32 that 4 divides), configs with
//   c0  cost n
//   c1  cost m + 7
//   c2  cost 1000 / n, needs m < 40
//   c3  none: it is taken where nothing else may be
// and code of c1 only where n is even: of a variant.
typedef struct arguments {
  uint64_t pointer;
  int32_t n, m;
} arguments;

static void write_bundle(const char *path, const char *note) {
  static const char *const names[] = {"c0", "c1", "c2", "c3"};
  static const uint8_t costs[CONFIGS][8] = {
      {P(1)}, {P(2), C(7), KILN_EXPR_ADD}, {C2(1000), P(1), KILN_EXPR_DIV}};
  static const uint8_t sizes[CONFIGS] = {2, 5, 6, 0}, below_40[] = {P(2), C(40), KILN_EXPR_LT},
                       is_even[] = {P(1), C(2), KILN_EXPR_REM, C(0), KILN_EXPR_EQ}, one[] = {C(1)};
  kiln_span require = {below_40, sizeof below_40}, condition = {is_even, sizeof is_even};
  kiln_config_record configs[CONFIGS];
  for (unsigned c = 0; c < CONFIGS; c++) {
    configs[c] =
        (kiln_config_record){.text = names[c], .cost = {costs[c], sizes[c]}, .grid = {{one, sizeof one}}};
    if (c == 2) configs[c].require = &require, configs[c].require_count = 1;
  }
  kiln_param_record p = pointer_param("p", KILN_F32), m = scalar_param("m", KILN_I32);
  p.align = 16, m.div = 4;
  kiln_interface in = {.name = "k",
                       .params = (kiln_param_record[]){p, scalar_param("n", KILN_I32), m},
                       .param_count = 3,
                       .configs = configs,
                       .config_count = CONFIGS,
                       .variants = (kiln_variant_record[]){{"n % 2 == 0", &condition, 1}, {.text = ""}},
                       .variant_count = 2};
  fixture f;
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  for (uint32_t c = 0; c < CONFIGS; c++)
    for (uint32_t v = 0; v < 2; v++)
      if (c != 1 || !v) fixture_code(&f, kernel, c, v, KILN_FORMAT_PTX, "sm_90", "k", "// code", 7);
  if (note) kiln_manifest_note(&f.manifest, "tuned k", note);
  fixture_write(&f, path, "");
}

static kiln_library *library;
static kiln_device *device;
static kiln_kernel *kernel;

static void open_with(const char *note) {
  kiln_error err;
  const char *path = kiln_test_path("cost.kbundle");
  write_bundle(path, note);
  CHECK_OK(kiln_open_file(path, &library, &err), err);
  CHECK_OK(kiln_device_open(library, "null:sm_90", &device, &err), err);
  CHECK_OK(kiln_kernel_get(device, "k", NULL, &kernel, &err), err);
}

static void open_bundle(void) { open_with(NULL); }

static void close_bundle(void) {
  kiln_device_close(device);
  kiln_close(library);
}

/// What the rule says.
static const char *expected(const arguments *a) {
  int64_t least = INT64_MAX;
  const char *best = NULL;
  if (a->n < least) best = "c0", least = a->n;
  if (a->n % 2 == 0 && a->m + 7 < least) best = "c1", least = a->m + 7;
  if (a->m < 40 && a->n && 1000 / a->n < least) best = "c2", least = 1000 / a->n;
  return best;
}

static kiln_chosen_by reason_of(const arguments *a, const char *text) {
  kiln_reason reason = {.size = sizeof reason};
  kiln_error err;
  CHECK_OK(kiln_choose_reason(kernel, a, sizeof *a, &reason, &err), err);
  if (!strstr(reason.text, text)) FAIL("expected a reason with '%s', found '%s'", text, reason.text);
  return reason.by;
}

static const char *chosen(const arguments *a) {
  kiln_choice choice;
  kiln_error err;
  CHECK_OK(kiln_choose(kernel, a, sizeof *a, &choice, &err), err);
  CHECK_TEXT(choice.variant, a->n % 2 ? "" : "n % 2 == 0");
  return choice.config;
}

TEST(cost, least_of_those_that_may_be_used) {
  open_bundle();
  static const arguments rows[] = {{64, 5, 0},    {64, 6, 0},  {64, 100, 0},   {64, 100, 80},
                                   {64, 101, 80}, {64, 0, 40}, {64, 2000, 36}, {64, 33, 36}};
  static const char *const want[] = {"c0", "c0", "c1", "c1", "c0", "c0", "c2", "c2"};
  for (unsigned again = 0; again < 2; again++)
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
      CHECK_TEXT(expected(&rows[i]), want[i]); // the table and the rule agree
      CHECK_TEXT(chosen(&rows[i]), want[i]);
    }
  CHECK_INT(reason_of(&rows[0], "least cost"), KILN_BY_COST);
  close_bundle();
}

TEST(cost, what_is_promised_is_looked_at_each_time) {
  open_bundle();
  kiln_error err;
  arguments a = {64, 10, 8};
  for (unsigned i = 0; i < 3; i++) {
    CHECK_TEXT(chosen(&a), "c0");
    arguments odd = a, unaligned = a, other = a;
    kiln_choice choice;
    odd.m = 9, unaligned.pointer = 72, other.pointer = 4096;
    CHECK_INT(kiln_choose(kernel, &odd, sizeof odd, &choice, &err), KILN_STATUS_LAUNCH);
    CHECK(strstr(err.text, "m is promised to be divisible by 4") != NULL);
    CHECK_INT(kiln_choose(kernel, &unaligned, sizeof unaligned, &choice, &err), KILN_STATUS_LAUNCH);
    CHECK(strstr(err.text, "p is promised to be aligned to 16 bytes") != NULL);
    CHECK_TEXT(chosen(&other), "c0");
  }
  close_bundle();
}

static void *choose_often(void *seed) {
  uint64_t random = (uintptr_t)seed;
  for (unsigned i = 0; i < LAUNCHES; i++) {
    uint64_t r = kiln_test_random(&random) >> 20;
    // Few values, so that many are met again; many enough that they push each other out.
    arguments a = {16 * (1 + r % 50), (int32_t)(r / 64 % 40), (int32_t)(r / 4096 % 20) * 4};
    CHECK_TEXT(chosen(&a), expected(&a));
  }
  return NULL;
}

TEST(cost, remembered_choices_are_those_of_the_rule) {
  open_bundle();
  choose_often((void *)(uintptr_t)7);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(!pthread_create(&threads[i], NULL, choose_often, (void *)(11 + i)));
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  close_bundle();
}

// ------------------------------------------------------------------------------------ tuned choices

#define LINE "kernel=k types=\"*f32, i32, i32\" product=* processor=* units=0 "

TEST(cost, a_choice_for_the_very_bins_goes_before_costs_and_a_near_one_does_not) {
  open_with("kiln tuned 1\n" LINE "bin.n=32 bin.m=24 config=c1\n" LINE "bin.n=64 bin.m=64 config=c0\n");
  arguments a = {64, 32, 24};
  for (unsigned again = 0; again < 2; again++) { // chosen, and remembered
    a.n = 32, a.m = 24;                          // c0 costs 32, c1 31, c2 31: c1 is the first of the least
    CHECK_TEXT(chosen(&a), "c1");
    CHECK_INT(reason_of(&a, "tuned for arguments like these"), KILN_BY_TABLE);
    a.n = 36; // in the bin of 32; c2 costs 27, c1 31: near
    CHECK_TEXT(chosen(&a), "c1");
    CHECK_INT(reason_of(&a, "tuned for arguments like these"), KILN_BY_TABLE);
    a.n = 38; // c2 costs 26, c1 31
    CHECK_TEXT(chosen(&a), "c1");
    a.n = 64, a.m = 64; // c0 costs 64, c1 71
    CHECK_TEXT(chosen(&a), "c0");
    CHECK_INT(reason_of(&a, "tuned for arguments like these"), KILN_BY_TABLE);
    a.n = 78, a.m = 64; // in the bin of 64; c0 costs 78, c1 71: near
    CHECK_TEXT(chosen(&a), "c0");
    a.n = 42, a.m = 24; // the bin of 40 has no choice, however near: c2 costs 23
    CHECK_TEXT(chosen(&a), "c2");
    CHECK_INT(reason_of(&a, "nothing that may be used was tuned near"), KILN_BY_COST);
    a.n = 200, a.m = 200; // outside of what was measured
    CHECK_TEXT(chosen(&a), "c0");
    CHECK_INT(reason_of(&a, "outside of what was tuned"), KILN_BY_COST);
  }
  close_bundle();
}

// A bin is a range; what was the best at its begin may be far from it at its end.
TEST(cost, a_choice_that_costs_more_than_a_quarter_above_the_least_is_not_taken) {
  open_with("kiln tuned 1\n" LINE "bin.n=128 config=c0\n");
  arguments a = {64, 128, 120}; // c0 costs 128, c1 127
  CHECK_TEXT(chosen(&a), "c0");
  a.n = 158; // the same
  CHECK_TEXT(chosen(&a), "c0");
  a.n = 158, a.m = 116; // 158 and 123: 28 percent more
  CHECK_TEXT(chosen(&a), "c1");
  CHECK_INT(reason_of(&a, "more than a quarter above the least"), KILN_BY_COST);
  a.n = 152, a.m = 116; // 152 and 123: 24 percent more
  CHECK_TEXT(chosen(&a), "c0");
  CHECK_INT(reason_of(&a, "tuned for arguments like these"), KILN_BY_TABLE);
  close_bundle();
}

// What names no bins was asked for by hand: kiln tune measures each config so.
TEST(cost, a_choice_for_everything_is_taken_whatever_it_costs) {
  open_with("kiln tuned 1\n" LINE "config=c3\n");
  for (arguments a = {64, 2, 4}; a.n < 100000; a.n *= 3) {
    CHECK_TEXT(chosen(&a), "c3");
    CHECK_INT(reason_of(&a, "tuned for arguments like these"), KILN_BY_TABLE);
  }
  close_bundle();
}

// 1,000 launches with arguments that change, in turn with and without choices.
static double launch_ns(kiln_kernel *of) {
  enum { ROUNDS = 1000 };
  struct timespec begin, end;
  kiln_error err;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (unsigned i = 0; i < ROUNDS; i++) {
    arguments a = {64, 32 + (int32_t)(i % 4) * 16, 24};
    CHECK_OK(kiln_launch_packed(of, NULL, &a, sizeof a, &err), err);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / ROUNDS;
}

TEST(cost, choices_cost_a_launch_little) {
  if (KILN_TEST_SANITIZED) SKIP("times under a sanitizer say nothing");
  enum { MOST_NS = 15 };
  open_bundle();
  kiln_library *plain = library;
  kiln_device *plain_device = device;
  kiln_kernel *plain_kernel = kernel;
  kiln_buffer note = {0};
  kiln_buffer_format(&note, "kiln tuned 1\n");
  for (unsigned i = 0; i < 1000; i++) // of n the bins 32 and 64, not 48 and 80
    kiln_buffer_format(&note, LINE "bin.n=%u bin.m=%u config=c%u\n", 32u << i % 10, 4u << i / 40 % 25, i % 2);
  kiln_buffer_u8(&note, 0);
  open_with((const char *)note.bytes);
  kiln_buffer_deinit(&note);
  double without = 1e9, with = 1e9;
  for (unsigned round = 0; round < 3000 && !(round >= 100 && with - without <= MOST_NS); round++) {
    double ns[] = {launch_ns(plain_kernel), launch_ns(kernel)};
    if (ns[0] < without) without = ns[0];
    if (ns[1] < with) with = ns[1];
  }
  printf("a launch by costs: %.1f ns without choices, %.1f with 1,000\n", without, with);
  if (with - without > MOST_NS) FAIL("choices cost %.1f ns, the limit is %d", with - without, MOST_NS);
  close_bundle();
  kiln_device_close(plain_device);
  kiln_close(plain);
}
