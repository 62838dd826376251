// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of the configs that may be used the one with the least cost is taken, whatever was launched before: a
// search of the test's own over random arguments, from one thread and from several.
#include <pthread.h>

#include "tests/runtime/fixture.h"

enum { CONFIGS = 4, THREADS = 4, LAUNCHES = 4000 };

// (p: *f32 aligned to 16, n: i32, m: i32 that 4 divides), configs with
//   c0  cost n                    c1  cost m + 7
//   c2  cost 1000 / n, needs m < 40   c3  none: it is taken where nothing else may be
// and code of c1 only where n is even: of a variant.
typedef struct arguments {
  uint64_t pointer;
  int32_t n, m;
} arguments;

static void write_bundle(const char *path) {
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
  fixture_write(&f, path, "");
}

static kiln_library *library;
static kiln_device *device;
static kiln_kernel *kernel;

static void open_bundle(void) {
  kiln_error err;
  const char *path = fixture_path("cost.kbundle");
  write_bundle(path);
  CHECK_OK(kiln_open_file(path, &library, &err), err);
  CHECK_OK(kiln_device_open(library, "null:sm_90", &device, &err), err);
  CHECK_OK(kiln_kernel_get(device, "k", NULL, &kernel, &err), err);
}

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
  kiln_reason reason = {.size = sizeof reason};
  kiln_error err;
  CHECK_OK(kiln_choose_reason(kernel, &rows[0], sizeof rows[0], &reason, &err), err);
  CHECK_INT(reason.by, KILN_BY_COST);
  CHECK(strstr(reason.text, "least cost") != NULL);
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
