// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a bundle states of the sizes of buffers (base/sizes.h), read from notes that are written by hand, and
// compared with what a caller has.
#include "tests/runtime/fixture.h"

static kiln_library *library;
static kiln_device *device;

/// { *f32 x; *f64 y; i32 n; i64 ld; f32 a; view f16[_, _] v }
static kiln_interface sized_interface(void) {
  static kiln_param_record params[6];
  static kiln_config_record config = {.text = "", .warps = 1};
  static kiln_variant_record variant = {.text = ""};
  params[0] = pointer_param("x", KILN_F32);
  params[1] = pointer_param("y", KILN_F64);
  params[2] = scalar_param("n", KILN_I32);
  params[3] = scalar_param("ld", KILN_I64);
  params[4] = scalar_param("a", KILN_F32);
  params[5] = (kiln_param_record){.name = "v", .scalar = KILN_F16, .view_rank = 2, .access = 1};
  return (kiln_interface){.name = "k",
                          .symbol = "k",
                          .params = params,
                          .param_count = 6,
                          .config_count = 1,
                          .configs = &config,
                          .variant_count = 1,
                          .variants = &variant};
}

typedef struct arguments {
  uint64_t x, y;
  int32_t n, pad;
  int64_t ld;
  float a;
  int32_t pad2;
  uint64_t base;
  int64_t extents[2], strides[2];
} arguments;

static unsigned warnings;
static void count_warnings(void *user, int level, const char *text) {
  (void)user;
  if (level == KILN_LOG_WARNING && strstr(text, "the sizes of 'k' in ") && strstr(text, "do not fit"))
    warnings++;
}

static kiln_status open_with(const char *note, kiln_kernel **out, kiln_error *err) {
  fixture f;
  kiln_interface in = sized_interface();
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_CUBIN, "sm_90a", "k", "code", 4);
  if (note) kiln_manifest_note(&f.manifest, "sizes k", note);
  kiln_manifest_note(&f.manifest, "sizes kk", "x 02a01f 2000"); // another kernel's
  fixture_write(&f, kiln_test_path("sizes.kb"), "");
  const kiln_source source = {.path = kiln_test_path("sizes.kb")};
  const kiln_open_options options = {
      .size = sizeof options, .sources = &source, .source_count = 1, .log = count_warnings};
  CHECK_OK(kiln_open(&options, &library, err), *err);
  CHECK_OK(kiln_device_open(library, "null:sm_90a", &device, err), *err);
  return kiln_kernel_get(device, "k", NULL, out, err);
}

static void close_all(void) {
  kiln_device_close(device);
  kiln_close(library);
}

enum { UNKNOWN = -1 };

/// "" where the sizes suffice.
static const char *checked(const kiln_kernel *k, const arguments *a, long x, long y, long v) {
  static kiln_error err;
  const size_t bytes[] = {(size_t)x, (size_t)y, 0, 0, 0, (size_t)v};
  err = (kiln_error){0};
  kiln_status status = kiln_check_sizes(k, a, sizeof *a, bytes, 6, &err);
  CHECK_INT(status, *err.text ? KILN_STATUS_LAUNCH : KILN_OK);
  return err.text;
}

TEST(sizes, are_compared_by_parameter_with_both_numbers) {
  kiln_kernel *k;
  kiln_error err;
  arguments a = {.n = 8, .ld = 16, .extents = {3, 5}, .strides = {10, 1}};
  CHECK_OK(open_with("x 0102010305 n * ld\ny 0102", &k, &err), err);
  CHECK_TEXT(checked(k, &a, 512, 64, 50), "");
  CHECK_TEXT(checked(k, &a, 4000, 4000, 4000), "");
  CHECK_TEXT(checked(k, &a, 511, 64, 50),
             "'k': x needs 128 elements, its buffer has 127: n * ld (n = 8, ld = 16)");
  CHECK_TEXT(checked(k, &a, 512, 63, 50), "'k': y needs 8 elements, its buffer has 7: n (n = 8)");
  CHECK_TEXT(checked(k, &a, 512, 64, 49),
             "'k': v needs 25 elements, its buffer has 24: its extents and strides");
  CHECK_TEXT(checked(k, &a, 0, 0, 0), "'k': x needs 128 elements, its buffer has 0: n * ld (n = 8, ld = 16)");
  CHECK_TEXT(checked(k, &a, UNKNOWN, UNKNOWN, UNKNOWN), "");
  CHECK_TEXT(checked(k, &a, UNKNOWN, 0, UNKNOWN), "'k': y needs 8 elements, its buffer has 0: n (n = 8)");
  a.n = 0;
  CHECK_TEXT(checked(k, &a, 0, 0, 50), "");
  close_all();
}

TEST(sizes, that_are_no_numbers_are_refused) {
  kiln_kernel *k;
  kiln_error err;
  arguments a = {.n = -8, .ld = 16};
  CHECK_OK(open_with(
               "x 01020103050103050103050103050103050103050103050103050103050103050103050103050103050103"
               "050103050103050103050103050103050103050103050103050103050103050103050103050103050103050103050"
               "10305010305 n * ld ...",
               &k, &err),
           err);
  const char *text = checked(k, &a, 4000, 0, 0);
  if (!strstr(text, "'k': a size overflows or divides by zero: ")) FAIL("%s", text);
  a.n = 0;
  CHECK_TEXT(checked(k, &a, 0, 0, 0), "");
  a.ld = 0;
  a.n = -8;
  CHECK_TEXT(checked(k, &a, 0, 0, 0), "");
  close_all();
  CHECK_OK(open_with("x 0102", &k, &err), err);
  CHECK_TEXT(checked(k, &a, 4000, 0, 0), "'k': x needs -8 elements, its buffer has 1000: n (n = -8)");
  a.n = INT32_MAX;
  CHECK_TEXT(checked(k, &a, 4000, 0, 0),
             "'k': x needs 2147483647 elements, its buffer has 1000: n (n = 2147483647)");
  close_all();
}

TEST(sizes, of_views_follow_from_extents_and_strides) {
  kiln_kernel *k;
  kiln_error err;
  CHECK_OK(open_with(NULL, &k, &err), err);
  arguments a = {.extents = {3, 5}, .strides = {0, 2}};
  CHECK_TEXT(checked(k, &a, 0, 0, 18), "");
  CHECK_TEXT(checked(k, &a, 0, 0, 17), "'k': v needs 9 elements, its buffer has 8: its extents and strides");
  a.extents[0] = 0; // nothing is there
  CHECK_TEXT(checked(k, &a, 0, 0, 0), "");
  a.extents[0] = 3, a.strides[0] = -10; // it may begin anywhere in its memory
  CHECK_TEXT(checked(k, &a, 0, 0, 0), "");
  a.strides[0] = INT64_MAX / 2 + 1;
  CHECK_TEXT(checked(k, &a, 0, 0, 4000),
             "'k': v needs 9223372036854775807 elements, its buffer has 2000: its extents and strides");
  close_all();
}

TEST(sizes, that_are_not_stated_are_not_compared) {
  kiln_kernel *k;
  kiln_error err;
  arguments a = {.n = 8, .ld = 16};
  CHECK_OK(open_with(NULL, &k, &err), err);
  CHECK_TEXT(checked(k, &a, 0, 0, 0), "");
  for (size_t i = 0; i < 7; i++) CHECK_INT(kiln_param_has_size(k, i), i == 5);
  close_all();
  CHECK_OK(open_with("y 0102", &k, &err), err);
  CHECK_TEXT(checked(k, &a, 0, 64, 0), "");
  for (size_t i = 0; i < 7; i++) CHECK_INT(kiln_param_has_size(k, i), i == 5 || i == 1);
  close_all();
}

// A note may be another kernel's of that name, or damaged: the kernel runs, and states nothing.
TEST(sizes, that_do_not_fit_the_kernel_are_not_used) {
  static const char *const notes[] = {
      "x",          // no code
      "x ",         // none
      "x 010",      // half a byte
      "x 0106",     // there is no parameter 6
      "x 0100",     // a pointer
      "x 0104",     // a float
      "x 0105",     // a view
      "x 01020103", // two values
      "x 05",       // an operation of none
      "x ff",       // no operation
      "n 0102",     // no pointer
      "v 0102",     // a view
      "z 0102",     // no parameter
      " 0102",      // no name
      "y 0102\nx",  // the second line
      "y 0102\n\nx 0102",
  };
  const arguments a = {.n = 8, .ld = 16};
  for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
    kiln_kernel *k;
    kiln_error err = {0};
    warnings = 0;
    CHECK_OK(open_with(notes[i], &k, &err), err);
    for (size_t p = 0; p < 7; p++) CHECK_INT(kiln_param_has_size(k, p), p == 5);
    if (warnings != 1) FAIL("'%s' is taken", notes[i]);
    CHECK_TEXT(checked(k, &a, 0, 0, 0), "");
    close_all();
  }
}

TEST(sizes, want_the_block_and_a_size_for_each_parameter) {
  kiln_kernel *k;
  kiln_error err;
  arguments a = {.n = 8};
  const size_t bytes[6] = {0};
  CHECK_OK(open_with("x 0102", &k, &err), err);
  CHECK_INT(kiln_check_sizes(k, &a, sizeof a - 1, bytes, 6, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_check_sizes(k, &a, sizeof a, bytes, 5, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_TEXT(err.text, "'k' takes 6 arguments, 5 were given");
  kiln_device_close(device);
  CHECK_INT(kiln_check_sizes(k, &a, sizeof a, bytes, 6, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK(strstr(err.text, "is closed"));
  CHECK_INT(kiln_param_has_size(k, 0), 0);
  kiln_close(library);
}
