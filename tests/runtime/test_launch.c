// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests look-up, choice and launch on the host and on the null device. Numbers before a colon are
// behaviours of docs/behaviours.md.
#include <pthread.h>
#include <unistd.h>

#include "tests/runtime/fixture.h"

static void run_add_one(kiln_kernel *k, int n) {
  kiln_error err;
  float *x = malloc(sizeof(float) * (size_t)(n + 1)), *y = calloc((size_t)n + 1, sizeof(float));
  for (int i = 0; i <= n; i++) x[i] = (float)i;
  const void *px = x, *py = y;
  CHECK_OK(kiln_launch(k, NULL, (const void *const[]){&px, &py, &n}, 3, &err), err);
  for (int i = 0; i < n; i++)
    if (y[i] != x[i] + 1) FAIL("y[%d] is %f", i, (double)y[i]);
  CHECK(y[n] == 0);
  free(x);
  free(y);
}

TEST(launch, host_runs_the_grid) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k, *again;
  kiln_error err;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_INT(kiln_kernel_count(l), 1);
  CHECK_TEXT(kiln_kernel_name(l, 0), "add_one");
  CHECK(kiln_kernel_name(l, 1) == NULL);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &again, &err), err);
  CHECK(k == again);
  for (int n = 0; n < 300; n += 37) run_add_one(k, n);
  run_add_one(k, 100000);
  kiln_device_close(d);
  kiln_close(l);
}

// A grid of the caller's replaces the kernel's own: two blocks of the first 300 elements run, the third does
// not.
TEST(launch, host_runs_the_callers_grid) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_choice choice;
  enum { N = 300000 };
  float *x = calloc(N, sizeof(float)), *y = calloc(N, sizeof(float));
  struct {
    const void *x, *y;
    int32_t n;
  } block = {x, y, N};
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_OK(kiln_choose(k, &block, sizeof block, &choice, &err), err);
  int per_program = (N + (int)choice.grid[0] - 1) / (int)choice.grid[0];
  CHECK(choice.grid[0] > 2);
  CHECK_OK(kiln_launch_grid(k, NULL, (const uint32_t[]){2, 1, 1}, &block, sizeof block, &err), err);
  CHECK(y[0] == 1 && y[2 * per_program - 1] == 1 && y[N - 1] == 0);
  CHECK_OK(kiln_launch_grid(k, NULL, (const uint32_t[]){0, 1, 1}, &block, sizeof block, &err), err);
  CHECK_INT(kiln_launch_grid(k, NULL, (const uint32_t[]){1, 1, 1}, &block, 1, &err),
            KILN_STATUS_INVALID_ARGUMENT);
  kiln_device_close(d);
  kiln_close(l);
  free(x);
  free(y);
}

// 40: the bundle is moved and its build folder removed.
TEST(launch, moved_bundle_still_loads) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  char *out;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  CHECK_INT(
      kiln_test_run(
          &out, "mkdir %s/elsewhere && mv %s/a.kbundle %s/elsewhere/b.kbundle && rm %s/kernel.* %s/manifest",
          kiln_test_folder(), kiln_test_folder(), kiln_test_folder(), kiln_test_folder(), kiln_test_folder()),
      0);
  free(out);
  fixture_open(kiln_test_path("elsewhere/b.kbundle"), "host", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  unlink(kiln_test_path("elsewhere/b.kbundle"));
  run_add_one(k, 1000); // 52: the handle outlives the file
  kiln_device_close(d);
  kiln_close(l);
}

// 52: what is open outlives the file: removed or replaced, handles look up, load and launch as before.
TEST(launch, handles_outlive_the_file) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  float x[64] = {0}, y[64] = {0};
  void *px = x, *py = y;
  int n = 64;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_INT(unlink(kiln_test_path("a.kbundle")), 0);
  kiln_test_write(kiln_test_path("a.kbundle"), "other", 5);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_OK(kiln_launch(k, NULL, (const void *const[]){&px, &py, &n}, 3, &err), err);
  for (int i = 0; i < 64; i++) CHECK(y[i] == 1);
  kiln_device_close(d);
  kiln_close(l);
}

// 43: a changed parameter list is refused at look-up, and both lists are named.
TEST(launch, changed_parameters_are_refused_at_look_up) {
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  fixture_add_one(kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  kiln_signature right = {kiln_kernel_abi(k), "x: *f32, y: *f32, n: i32"},
                 wrong = {kiln_kernel_abi(k) + 1, "x: *f32, n: i64"};
  CHECK_OK(kiln_kernel_get(d, "add_one", &right, &k, &err), err);
  CHECK_INT(kiln_kernel_get(d, "add_one", &wrong, &k, &err), KILN_STATUS_ABI);
  CHECK(k == NULL);
  CHECK(strstr(err.text, "(x: *f32, n: i64)") && strstr(err.text, "(x: *f32, y: *f32, n: i32)"));
  kiln_device_close(d);
  kiln_close(l);
}

// 50: names that share a prefix are different kernels; 39: a miss names what was wanted and where.
TEST(launch, prefix_names_and_misses) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  fixture_begin(&f);
  static const char *const names[] = {"add", "add_on", "add_one", "add_one[T=f32]", "add_one[T=f32, D=64]"};
  for (int i = 0; i < 5; i++) {
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE(names[i]));
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  }
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  free(object);
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  for (int i = 0; i < 5; i++) CHECK_OK(kiln_kernel_get(d, names[i], NULL, &k, &err), err);
  CHECK_INT(kiln_kernel_get(d, "add_o", NULL, &k, &err), KILN_STATUS_NOT_FOUND);
  CHECK(strstr(err.text, "'add_o'") && strstr(err.text, "a.kbundle; did you mean 'add_on'?"));
  CHECK_INT(kiln_kernel_get(d, "nothing", NULL, &k, &err), KILN_STATUS_NOT_FOUND);
  CHECK(strstr(err.text, "'nothing'") && strstr(err.text, "a.kbundle") && strstr(err.text, "5 kernels"));
  kiln_device_close(d);
  kiln_close(l);
}

// 42: wrong processor, wrong mode and wrong family are different named refusals, before any driver sees the
// code.
TEST(launch, a_miss_names_every_rule) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_report *report;
  kiln_candidate candidate;
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942:xnack+", "add_one", "one", 3);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_90", "add_one", "two", 3);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "aarch64", "add_one", "three", 5);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_INT(kiln_kernel_get(d, "add_one", NULL, &k, &err), KILN_STATUS_NO_VARIANT);
  CHECK(strstr(err.text, "gfx942:xnack+") && strstr(err.text, "sm_90") &&
        strstr(err.text, "architecture differs"));
  CHECK_OK(kiln_explain(d, "add_one", &report, &err), err);
  CHECK_INT(kiln_report_count(report), 3);
  for (size_t i = 0; i < 3; i++) {
    CHECK_OK(kiln_report_at(report, i, &candidate), err);
    CHECK_INT(candidate.rank, 255);
    CHECK(*candidate.rule);
  }
  kiln_report_free(report);
  kiln_preflight preflight;
  CHECK_OK(kiln_device_preflight(d, &preflight, &err), err);
  CHECK_INT(preflight.missing, 1);
  CHECK_TEXT(preflight.first_missing, "add_one");
  kiln_device_close(d);
  kiln_close(l);
}

// Strict policies fail when the device is opened, not at a launch.
TEST(launch, policies_fail_at_open) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_90", "add_one", "ptx", 3);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  kiln_source source = {.path = kiln_test_path("a.kbundle")};
  kiln_open_options options = {
      .size = sizeof options, .sources = &source, .source_count = 1, .policy = KILN_EXACT_ONLY};
  CHECK_OK(kiln_open(&options, &l, &err), err);
  CHECK_INT(kiln_device_open(l, "host", &d, &err), KILN_STATUS_NO_VARIANT);
  CHECK(strstr(err.text, "exact only") && d == NULL);
  kiln_close(l);
  options.policy = KILN_NEED_SIGNATURE;
  CHECK_INT(kiln_open(&options, &l, &err), KILN_STATUS_UNTRUSTED);
}

static void check_preflight(const kiln_source *sources, size_t count, const char *device,
                            kiln_preflight expected) {
  kiln_library *l;
  kiln_device *d;
  kiln_error err;
  kiln_preflight found;
  for (uint32_t policy = 0; policy <= (KILN_EXACT_ONLY | KILN_NO_JIT); policy++) {
    kiln_open_options options = {
        .size = sizeof options, .sources = sources, .source_count = count, .policy = policy};
    CHECK_OK(kiln_open(&options, &l, &err), err);
    bool refuses = (policy & KILN_EXACT_ONLY && expected.kernels > expected.exact) ||
                   (policy & KILN_NO_JIT && expected.jit + expected.missing);
    kiln_status status = kiln_device_open(l, device, &d, &err);
    CHECK_INT(status, refuses ? KILN_STATUS_NO_VARIANT : KILN_OK);
    if (status == KILN_OK) {
      CHECK_OK(kiln_device_preflight(d, &found, &err), err);
      CHECK_INT(found.kernels, expected.kernels);
      CHECK_INT(found.exact, expected.exact);
      CHECK_INT(found.jit, expected.jit);
      CHECK_INT(found.missing, expected.missing);
      CHECK_TEXT(found.first_missing ? found.first_missing : "", expected.first_missing);
      kiln_device_close(d);
    }
    kiln_close(l);
  }
}

// A kernel that several bundles have is one kernel, and any of them may have the code.
TEST(launch, a_policy_looks_at_all_bundles) {
  fixture f;
  static const char *const names[] = {"amd.kbundle", "ptx.kbundle", "cubin.kbundle"};
  kiln_source sources[3];
  for (unsigned i = 0; i < 3; i++) {
    fixture_begin(&f);
    uint32_t kernel = fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one"));
    if (i == 0) fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HSACO, "gfx942", "add_one", "amd", 3);
    if (i == 1) fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_90", "add_one", "ptx", 3);
    if (i == 2) fixture_code(&f, kernel, 0, 0, KILN_FORMAT_CUBIN, "sm_90", "add_one", "cubin", 5);
    fixture_write(&f, kiln_test_path(names[i]), "");
  }
  for (unsigned order = 0; order < 6; order++) {
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (unsigned i = 0; i < 3; i++)
      sources[i] = (kiln_source){.path = strdup(kiln_test_path(names[orders[order][i]]))};
    check_preflight(sources, 3, "null:sm_90",
                    (kiln_preflight){.kernels = 1, .exact = 1, .first_missing = ""});
    check_preflight(sources, 3, "null:gfx942",
                    (kiln_preflight){.kernels = 1, .exact = 1, .first_missing = ""});
    check_preflight(sources, 3, "null:gfx1100",
                    (kiln_preflight){.kernels = 1, .missing = 1, .first_missing = "add_one"});
    for (unsigned i = 0; i < 3; i++) free((void *)(uintptr_t)sources[i].path);
  }
}

// ---------------------------------------------------------------------------------------- variants

// pick: writes the number of the code that ran to *out; (out: *i32, cols: i32, ld: i64).
static uint8_t *pick_object(int number, size_t *out_size) {
  char source[600];
  snprintf(
      source, sizeof source,
      HOST_KERNEL("pick") " { (void)id; (void)grid; (void)scratch; **(int *const *)args = %d; return 0; }\n",
      number);
  return fixture_object(source, out_size);
}

static kiln_interface pick_interface(void) {
  static const uint8_t r1[] = {P(1), C2(1024), KILN_EXPR_LE}, r2[] = {P(1), C2(4096), KILN_EXPR_LE};
  static const uint8_t c1[] = {P(1), C(16), KILN_EXPR_REM, C(0), KILN_EXPR_EQ},
                       c2[] = {P(2), C(16), KILN_EXPR_REM, C(0), KILN_EXPR_EQ};
  static const uint8_t g[] = {C(1)};
  static kiln_span require[] = {{r1, sizeof r1}, {r2, sizeof r2}},
                   conditions[] = {{c1, sizeof c1}, {c2, sizeof c2}};
  static kiln_config_record configs[] = {
      {.text = "BLOCK=1024", .grid = {{g, sizeof g}}, .require = &require[0], .require_count = 1},
      {.text = "BLOCK=4096", .grid = {{g, sizeof g}}, .require = &require[1], .require_count = 1}};
  static kiln_variant_record variants[] = {
      {.text = "cols % 16 == 0, ld % 16 == 0", .conditions = conditions, .condition_count = 2},
      {.text = "cols % 16 == 0", .conditions = conditions, .condition_count = 1},
      {.text = ""}};
  static kiln_param_record params[3];
  params[0] = pointer_param("out", KILN_I32);
  params[1] = scalar_param("cols", KILN_I32);
  params[2] = scalar_param("ld", KILN_I64);
  return (kiln_interface){.name = "pick",
                          .params = params,
                          .param_count = 3,
                          .configs = configs,
                          .config_count = 2,
                          .variants = variants,
                          .variant_count = 3};
}

// 44: every variant is reachable, in order; 45: no config that fits is an error, never another code.
TEST(launch, every_variant_is_reachable) {
  static const struct {
    int cols;
    int64_t ld;
    int want;
  } cases[] = {{16, 16, 0},   {16, 17, 1},   {17, 16, 2},  {1024, 32, 0}, {1040, 32, 3},
               {1040, 33, 4}, {1041, 33, 5}, {4096, 0, 3}, {0, 0, 0},     {-16, -16, 0}};
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_interface in = pick_interface();
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  for (uint32_t i = 0; i < 6; i++) {
    size_t size;
    uint8_t *object = pick_object((int)i, &size);
    fixture_code(&f, kernel, i / 3, i % 3, KILN_FORMAT_HOST, "x86-64-v2", "pick", object, size);
    free(object);
  }
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "pick", NULL, &k, &err), err);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int got = -1, *out = &got;
    CHECK_OK(kiln_launch(k, NULL, (const void *const[]){&out, &cases[i].cols, &cases[i].ld}, 3, &err), err);
    if (got != cases[i].want)
      FAIL("cols %d, ld %lld ran code %d, expected %d", cases[i].cols, (long long)cases[i].ld, got,
           cases[i].want);
  }
  int got = -1, *out = &got, cols = 4097;
  int64_t ld = 0;
  CHECK_INT(kiln_launch(k, NULL, (const void *const[]){&out, &cols, &ld}, 3, &err), KILN_STATUS_NO_VARIANT);
  CHECK_INT(got, -1);
  CHECK(strstr(err.text, "cols <= 1024 (cols = 4097)") && strstr(err.text, "cols <= 4096"));
  kiln_device_close(d);
  kiln_close(l);
}

// ------------------------------------------------------------------------------------------- facts

// bits: copies its scalars to memory; (out: *i64, a: f32, b: f16, c: i1, d: i64, e: i8, f: f64).
static const char bits_source[] =
    "struct a { long *out; unsigned a; unsigned short b; unsigned char c; long d; signed char e; long f; "
    "};\n" HOST_KERNEL("bits") " {\n"
                               "  const struct a *a = args; (void)id; (void)grid; (void)scratch;\n"
                               "  a->out[0] = a->a; a->out[1] = a->b; a->out[2] = a->c; a->out[3] = a->d; "
                               "a->out[4] = a->e; a->out[5] = a->f;\n"
                               "  return 0;\n}\n";

// 47: scalars of every width reach the kernel bit for bit.
TEST(launch, scalars_arrive_bit_exact) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  size_t size;
  uint8_t *object = fixture_object(bits_source, &size);
  kiln_param_record params[] = {pointer_param("out", KILN_I64), scalar_param("a", KILN_F32),
                                scalar_param("b", KILN_F16),    scalar_param("c", KILN_I1),
                                scalar_param("d", KILN_I64),    scalar_param("e", KILN_I8),
                                scalar_param("f", KILN_F64)};
  kiln_interface in = {.name = "bits",
                       .params = params,
                       .param_count = 7,
                       .config_count = 1,
                       .variant_count = 1,
                       .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
                       .variants = (kiln_variant_record[]){{.text = ""}}};
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "bits", object, size);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  free(object);
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "bits", NULL, &k, &err), err);
  int64_t out[6] = {0}, *to = out, wide = INT64_MIN + 5, f64 = 0x7ff0000000000001;
  uint32_t f32 = 0x7fa00001; // a signalling NaN
  uint16_t f16 = 0x8001;
  uint8_t yes = 1;
  int8_t small = -128;
  CHECK_OK(kiln_launch(k, NULL, (const void *const[]){&to, &f32, &f16, &yes, &wide, &small, &f64}, 7, &err),
           err);
  CHECK_INT(out[0], f32);
  CHECK_INT(out[1], f16);
  CHECK_INT(out[2], 1);
  CHECK_INT(out[3], wide);
  CHECK_INT(out[4], -128);
  CHECK_INT(out[5], f64);
  kiln_device_close(d);
  kiln_close(l);
}

static kiln_status launch_promised(kiln_kernel *k, uintptr_t p, int n, int m, kiln_error *err) {
  return kiln_launch(k, NULL, (const void *const[]){&p, &n, &m}, 3, err);
}

// Promised facts are tested at launch; a broken one is refused by the name of the parameter.
TEST(launch, broken_promises_are_refused_by_name) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_param_record params[] = {pointer_param("p", KILN_F32), scalar_param("n", KILN_I32),
                                scalar_param("m", KILN_I32)};
  params[0].align = 16;
  params[1].div = 8;
  params[2].has_range = true, params[2].lo = -1, params[2].hi = 100;
  kiln_interface in = {.name = "facts",
                       .params = params,
                       .param_count = 3,
                       .config_count = 1,
                       .variant_count = 1,
                       .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(P(1))}}},
                       .variants = (kiln_variant_record[]){{.text = ""}}};
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "facts", "object", 6);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "facts", NULL, &k, &err), err);
  CHECK_OK(launch_promised(k, 0x1000, 16, 100, &err), err);
  CHECK_INT(launch_promised(k, 0x1008, 16, 100, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "p is promised to be aligned to 16 bytes, but is 0x1008"));
  CHECK_INT(launch_promised(k, 0x1000, 12, 100, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "n is promised to be divisible by 8, but is 12"));
  CHECK_INT(launch_promised(k, 0x1000, 16, 101, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "m is promised to be in -1..100, but is 101"));
  CHECK_OK(launch_promised(k, 0x1000, 0, -1, &err), err); // an empty grid is success
  CHECK_INT(launch_promised(k, 0x1000, -8, 0, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "grid x is -8"));
  CHECK_INT(kiln_launch(k, NULL, NULL, 2, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_launch_packed(k, NULL, "", 1, &err), KILN_STATUS_INVALID_ARGUMENT);
  kiln_device_close(d);
  kiln_close(l);
}

enum { MOST_DRAWN = 40 };

// Drawn parameters of 1 to 8 bytes, pointers with and without a promise in any order: each argument comes to its
// place, and the first pointer that breaks its promise is named.
TEST(launch, drawn_parameters_are_packed_and_their_alignments_tested) {
  static const kiln_scalar scalars[] = {KILN_I8, KILN_I16, KILN_I32, KILN_F32, KILN_I64, KILN_F64, KILN_I1};
  enum { KERNELS = 30 };
  uint64_t state = 20261128;
  for (int round = 0; round < KERNELS; round++) {
    kiln_param_record params[MOST_DRAWN];
    char names[MOST_DRAWN][12], object[400];
    uint64_t values[MOST_DRAWN];
    const void *args[MOST_DRAWN];
    fixture f;
    kiln_library *l;
    kiln_device *d;
    kiln_kernel *k;
    kiln_error err;
    size_t size;
    uint8_t written[MOST_DRAWN * 8], expected[sizeof written] = {0};
    uint8_t *target = written;
    uint32_t count = 1 + (uint32_t)(kiln_test_random(&state) % (MOST_DRAWN - 1)), promised = 0;
    for (uint32_t i = 0; i < count; i++) {
      snprintf(names[i], sizeof names[i], "p%u", i);
      args[i] = &values[i];
      values[i] = kiln_test_random(&state);
      params[i] = scalar_param(names[i], scalars[kiln_test_random(&state) % 7]);
      if (params[i].scalar == KILN_I1) values[i] &= 1;
      if (i && kiln_test_random(&state) % 3) continue;
      params[i] = pointer_param(names[i], KILN_F32);
      params[i].align = i && kiln_test_random(&state) % 4 ? 4u << kiln_test_random(&state) % 5 : 0;
      if (params[i].align) values[i] &= ~(uint64_t)(params[i].align - 1), promised++;
    }
    memcpy(&values[0], &target, sizeof target);
    kiln_interface in = {.name = "drawn",
                         .params = params,
                         .param_count = count,
                         .config_count = 1,
                         .variant_count = 1,
                         .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
                         .variants = (kiln_variant_record[]){{.text = ""}}};
    kiln_layout_params(&in);
    const uint32_t bytes = params[count - 1].offset + params[count - 1].size;
    for (uint32_t i = 0; i < count; i++) memcpy(expected + params[i].offset, &values[i], params[i].size);
    snprintf(object, sizeof object,
             HOST_KERNEL("drawn") " { (void)id, (void)grid, (void)scratch; for (int i = 0; i < %u; i++) "
                                  "(*(char *const *)args)[i] = ((const char *)args)[i]; return 0; }\n",
             bytes);
    uint8_t *code = fixture_object(object, &size);
    fixture_begin(&f);
    fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "drawn", code, size);
    fixture_write(&f, kiln_test_path("a.kbundle"), "");
    fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
    CHECK_OK(kiln_kernel_get(d, "drawn", NULL, &k, &err), err);
    memset(written, 0xee, sizeof written);
    CHECK_OK(kiln_launch(k, NULL, args, count, &err), err);
    if (memcmp(written, expected, bytes)) FAIL("kernel %d: another block of %u parameters", round, count);
    for (uint32_t tries = 0, first = MOST_DRAWN; promised && tries < 3; tries++) {
      uint32_t broken = (uint32_t)(kiln_test_random(&state) % count);
      if (!params[broken].pointer || !params[broken].align) continue;
      values[broken] |= 2;
      if (broken < first) first = broken;
      CHECK_INT(kiln_launch(k, NULL, args, count, &err), KILN_STATUS_LAUNCH);
      char expected_text[100];
      snprintf(expected_text, sizeof expected_text,
               "'drawn': p%u is promised to be aligned to %u bytes, but is 0x%llx", first,
               params[first].align, (unsigned long long)values[first]);
      CHECK_TEXT(err.text, expected_text);
    }
    free(code);
    kiln_device_close(d);
    kiln_close(l);
  }
}

// What a view promises of its rows is tested for each stride, at a launch and where a prepared one is
// changed.
TEST(launch, broken_rows_of_views_are_refused) {
  struct {
    uint64_t base;
    int64_t extents[2], strides[2];
  } view = {0x1000, {3, 5}, {8, 1}};
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_prepared *p;
  kiln_error err;
  int n = 1;
  kiln_param_record params[] = {
      scalar_param("n", KILN_I32),
      {.name = "v", .scalar = KILN_F16, .view_rank = 2, .access = 1, .align = 16, .rows = 16}};
  kiln_interface in = {.name = "rows",
                       .params = params,
                       .param_count = 2,
                       .config_count = 1,
                       .variant_count = 1,
                       .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
                       .variants = (kiln_variant_record[]){{.text = ""}}};
  const void *const args[] = {&n, &view};
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "rows", "object", 6);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "rows", NULL, &k, &err), err);
  CHECK_OK(kiln_launch(k, NULL, args, 2, &err), err);
  CHECK_OK(kiln_prepare(k, args, 2, NULL, &p, &err), err);
  view.strides[0] = 12;
  CHECK_INT(kiln_launch(k, NULL, args, 2, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text,
               "'rows': stride 0 of v is promised to be divisible by 8 (16 bytes), but is 12 (24 bytes)"));
  CHECK_INT(kiln_prepared_set(p, 1, &view, &err), KILN_STATUS_LAUNCH);
  view.strides[0] = 0;
  CHECK_OK(kiln_prepared_set(p, 1, &view, &err), err);
  view.strides[0] = -16, view.strides[1] = 2;
  CHECK_INT(kiln_launch(k, NULL, args, 2, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "'rows': stride 1 of v is promised to be 1, but is 2"));
  view.strides[1] = 1, view.base = 0x1002;
  CHECK_INT(kiln_launch(k, NULL, args, 2, &err), KILN_STATUS_LAUNCH);
  CHECK(strstr(err.text, "'rows': v is promised to be aligned to 16 bytes, but is 0x1002"));
  kiln_prepared_free(p);
  kiln_device_close(d);
  kiln_close(l);
}

// 46: overflow of a launch expression refuses the launch, at the exact boundary.
TEST(launch, overflow_refuses_at_the_boundary) {
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  kiln_choice choice;
  kiln_param_record params[] = {scalar_param("a", KILN_I64), scalar_param("b", KILN_I64)};
  // Variant 0: a * b fits 32 bits; variant 1: generic.
  const uint8_t fits[] = {P(0), P(1), KILN_EXPR_MUL, KILN_EXPR_CONST, 0xfe, 0xff,
                          0xff, 0xff, 0x0f,          KILN_EXPR_LE};
  kiln_interface in = {
      .name = "wide",
      .params = params,
      .param_count = 2,
      .config_count = 1,
      .variant_count = 2,
      .configs = (kiln_config_record[]){{.text = "", .grid = {SPAN(C(1))}}},
      .variants = (kiln_variant_record[]){
          {.text = "32", .conditions = (kiln_span[]){{fits, sizeof fits}}, .condition_count = 1},
          {.text = ""}}};
  fixture_begin(&f);
  uint32_t kernel = fixture_kernel(&f, &in);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "wide", "object 0", 8);
  fixture_code(&f, kernel, 0, 1, KILN_FORMAT_HOST, "x86-64-v2", "wide", "object 1", 8);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "wide", NULL, &k, &err), err);
  static const struct {
    int64_t a, b;
    const char *variant;
  } cases[] = {{INT32_MAX, 1, "32"},
               {(int64_t)INT32_MAX + 1, 1, ""},
               {65536, 32768, ""},
               {65536, 32767, "32"},
               {INT64_MAX, 2, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_OK(kiln_choose(k, &cases[i], kiln_block_size(k), &choice, &err), err);
    CHECK_TEXT(choice.variant, cases[i].variant);
  }
  kiln_device_close(d);
  kiln_close(l);
}

// -------------------------------------------------------------------------------------- expressions

static const int64_t divisors[] = {1, 7, 16, 128, 96, (int64_t)1 << 33, (int64_t)1 << 62};
enum { DIVISORS = sizeof divisors / sizeof *divisors };
static const kiln_scalar widths[] = {KILN_I64, KILN_I32, KILN_I16, KILN_I8};
enum { WIDTHS = sizeof widths / sizeof *widths };

// (a) with grid cdiv(a, divisor), and a variant for a % divisor == 0.
static void add_division(fixture *f, kiln_scalar width, int64_t divisor) {
  char name[64];
  kiln_param_record param = scalar_param("a", width);
  kiln_buffer grid = {0}, condition = {0};
  kiln_buffer_bytes(&grid, (const uint8_t[]){P(0), KILN_EXPR_CONST}, 3);
  kiln_buffer_svarint(&grid, divisor);
  kiln_buffer_bytes(&condition, grid.bytes, grid.size);
  kiln_buffer_u8(&grid, KILN_EXPR_CDIV);
  kiln_buffer_bytes(&condition, (const uint8_t[]){KILN_EXPR_REM, C(0), KILN_EXPR_EQ}, 4);
  snprintf(name, sizeof name, "by%lld_%d", (long long)divisor, (int)width);
  kiln_interface in = {
      .name = name,
      .params = &param,
      .param_count = 1,
      .configs = (kiln_config_record[]){{.text = "", .grid = {{grid.bytes, grid.size}}}},
      .config_count = 1,
      .variants = (kiln_variant_record[]){{"divides", (kiln_span[]){{condition.bytes, condition.size}}, 1},
                                          {.text = ""}},
      .variant_count = 2};
  uint32_t kernel = fixture_kernel(f, &in);
  for (uint32_t v = 0; v < 2; v++)
    fixture_code(f, kernel, 0, v, KILN_FORMAT_PTX, "sm_90", name, "// code", 7);
  kiln_buffer_deinit(&grid);
  kiln_buffer_deinit(&condition);
}

static void check_division(kiln_device *d, kiln_scalar width, int64_t divisor, int64_t a) {
  char name[64];
  kiln_kernel *k;
  kiln_error err;
  kiln_choice choice;
  const void *args[] = {&a};
  int64_t extent;
  const uint8_t cdiv[] = {P(0), P(1), KILN_EXPR_CDIV};
  int64_t value = width == KILN_I64   ? a
                  : width == KILN_I32 ? (int32_t)a
                  : width == KILN_I16 ? (int16_t)a
                                      : (int8_t)a;
  CHECK(kiln_expr_eval(cdiv, sizeof cdiv, (const int64_t[]){value, divisor}, &extent));
  bool is_allowed = extent >= 0 && extent <= UINT32_MAX;
  snprintf(name, sizeof name, "by%lld_%d", (long long)divisor, (int)width);
  CHECK_OK(kiln_kernel_get(d, name, NULL, &k, &err), err);
  kiln_status status = kiln_choose(k, &a, sizeof a, &choice, &err);
  if (status != (is_allowed ? KILN_OK : KILN_STATUS_LAUNCH) || kiln_launch(k, NULL, args, 1, &err) != status)
    FAIL("%s of %lld: status %d", name, (long long)value, status);
  if (!is_allowed) return;
  if (choice.grid[0] != extent || !*choice.variant != (value % divisor != 0))
    FAIL("%s of %lld: grid %u, variant '%s'", name, (long long)value, choice.grid[0], choice.variant);
}

// What is prepared of an expression gives what the expression gives, at all widths and where integers end.
TEST(launch, prepared_expressions_are_the_expressions) {
  static const int64_t values[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   INT32_MIN,
                                   -129,
                                   -128,
                                   -1,
                                   0,
                                   1,
                                   15,
                                   16,
                                   127,
                                   128,
                                   129,
                                   672,
                                   INT16_MAX,
                                   INT32_MAX,
                                   INT64_C(1) << 33,
                                   INT64_MAX - 1,
                                   INT64_MAX};
  fixture f;
  kiln_library *l;
  kiln_device *d;
  fixture_begin(&f);
  for (size_t w = 0; w < WIDTHS; w++)
    for (size_t i = 0; i < DIVISORS; i++) add_division(&f, widths[w], divisors[i]);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  fixture_open(kiln_test_path("a.kbundle"), "null", &l, &d);
  for (size_t w = 0; w < WIDTHS; w++)
    for (size_t i = 0; i < DIVISORS; i++)
      for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        check_division(d, widths[w], divisors[i], values[v]);
  kiln_device_close(d);
  kiln_close(l);
}

// ----------------------------------------------------------------------------------------- threads

typedef struct shared_run {
  kiln_device *device;
  pthread_barrier_t start;
} shared_run;

static void *run_many(void *context) {
  shared_run *run = context;
  kiln_kernel *k;
  kiln_error err;
  pthread_barrier_wait(&run->start);
  CHECK_OK(kiln_kernel_get(run->device, "add_one", NULL, &k, &err), err);
  for (int i = 0; i < 20; i++) run_add_one(k, 500 + i);
  return k;
}

// 55: 64 threads use one kernel for the first time at once: one handle, one load.
TEST(launch, many_threads_share_one_kernel) {
  enum { THREADS = 64 };
  kiln_library *l;
  shared_run run;
  pthread_t threads[THREADS];
  void *first = NULL;
  fixture_add_one(kiln_test_path("a.kbundle"), "--level 19");
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &run.device);
  pthread_barrier_init(&run.start, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, run_many, &run), 0);
  for (int i = 0; i < THREADS; i++) {
    void *k;
    pthread_join(threads[i], &k);
    if (!first) first = k;
    CHECK(k == first);
  }
  kiln_device_close(run.device);
  kiln_close(l);
}

// A kernel's assertion ends the launch with the operation's number.
TEST(launch, assertions_come_back) {
  static const char source[] =
      HOST_KERNEL("add_one") " { (void)args; (void)grid; (void)scratch; return id[0] == 3 ? 8 : 0; }\n";
  fixture f;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  size_t size;
  uint8_t *object = fixture_object(source, &size);
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one")), 0, 0, KILN_FORMAT_HOST, "x86-64-v2",
               "add_one", object, size);
  fixture_write(&f, kiln_test_path("a.kbundle"), "");
  free(object);
  fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  int n = 64 * 100;
  void *none = NULL;
  CHECK_INT(kiln_launch(k, NULL, (const void *const[]){&none, &none, &n}, 3, &err), KILN_STATUS_ASSERT);
  CHECK(strstr(err.text, "operation 7"));
  kiln_device_close(d);
  kiln_close(l);
}

// 54: preload of an entry that does not fit its object is refused. Objects that the mapper must not run:
// undefined symbols, constructors, text.
TEST(launch, unfit_objects_are_refused) {
  static const char *const sources[] = {
      "extern int other(void);\n" HOST_KERNEL(
          "add_one") " { (void)args; (void)id; (void)grid; (void)scratch; return other(); }\n",
      "static int n; __attribute__((constructor)) static void begin(void) { n = 1; }\n" HOST_KERNEL(
          "add_one") " { (void)args; (void)id; (void)grid; (void)scratch; return n; }\n",
      HOST_KERNEL("add_two") " { (void)args; (void)id; (void)grid; (void)scratch; return 0; }\n",
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    fixture f;
    kiln_library *l;
    kiln_device *d;
    kiln_kernel *k;
    kiln_error err;
    size_t size;
    uint8_t *object = fixture_object(sources[i], &size);
    fixture_begin(&f);
    fixture_code(&f, fixture_kernel(&f, &ADD_ONE_INTERFACE("add_one")), 0, 0, KILN_FORMAT_HOST, "x86-64-v2",
                 "add_one", object, size);
    fixture_write(&f, kiln_test_path("a.kbundle"), "");
    free(object);
    fixture_open(kiln_test_path("a.kbundle"), "host", &l, &d);
    CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
    kiln_status status = kiln_preload(k, &err);
    if (status != KILN_STATUS_UNSUPPORTED && status != KILN_STATUS_CORRUPT)
      FAIL("object %zu: status %d", i, (int)status);
    CHECK(strstr(err.text, "loading 'add_one' for x86-64-v2"));
    kiln_device_close(d);
    kiln_close(l);
  }
}

TEST(launch, a_kernel_without_a_grid_wants_one) {
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(add_one_source, &size);
  kiln_interface in = ADD_ONE_INTERFACE("add_one");
  in.configs[0].grid[0] = (kiln_span){0};
  fixture_begin(&f);
  fixture_code(&f, fixture_kernel(&f, &in), 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
  fixture_write(&f, kiln_test_path("no_grid.kbundle"), "");
  free(object);
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_error err;
  float x[64] = {1}, y[64] = {0};
  struct {
    void *x, *y;
    int32_t n, pad;
  } block = {x, y, 64, 0};
  fixture_open(kiln_test_path("no_grid.kbundle"), "host", &l, &d);
  CHECK_OK(kiln_kernel_get(d, "add_one", NULL, &k, &err), err);
  CHECK_INT(kiln_launch_packed(k, NULL, &block, sizeof block, &err), KILN_STATUS_LAUNCH);
  CHECK_TEXT(err.text, "'add_one' states no grid; launch it with kiln_launch_grid");
  CHECK(y[0] == 0);
  CHECK_OK(kiln_launch_grid(k, NULL, (const uint32_t[]){1, 1, 1}, &block, sizeof block, &err), err);
  CHECK(y[0] == 2);
  kiln_device_close(d);
  kiln_close(l);
}
