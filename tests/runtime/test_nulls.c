// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes NULL for each argument of each public function, with the others right: INVALID_ARGUMENT with a
// text, or NULL or 0 where a function has no status. What the header says may be NULL is no error. It also
// passes extreme values that errors describe.
#include "runtime/kiln_verify.h"
#include "tests/runtime/fixture.h"

static kiln_library *library;
static kiln_device *device;
static kiln_kernel *kernel;
static kiln_prepared *prepared;
static kiln_report *report;
static kiln_verifier *verifier;
static uint8_t block[64];
static float x[64], y[64];
static void *px = x, *py = y;
static int n = 64;
static const void *const args[] = {&px, &py, &n};

static void open_all(const char *name) {
  kiln_error err;
  fixture_add_one(kiln_test_path("a.kb"), "");
  fixture_open(kiln_test_path("a.kb"), name, &library, &device);
  CHECK_OK(kiln_kernel_get(device, "add_one", NULL, &kernel, &err), err);
  CHECK_OK(kiln_prepare(kernel, args, 3, NULL, &prepared, &err), err);
  CHECK_OK(kiln_explain(device, "add_one", &report, &err), err);
  CHECK_OK(kiln_verifier_create(&verifier, &err), err);
  memcpy(block, &px, 8), memcpy(block + 8, &py, 8), memcpy(block + 16, &n, 4);
  CHECK_INT(kiln_block_size(kernel), 24);
}

static void close_all(void) {
  kiln_verifier_destroy(verifier);
  kiln_report_free(report);
  kiln_prepared_free(prepared);
  kiln_device_close(device);
  kiln_close(library);
}

// Calls of every function that has a status. Each pointer argument is NULL in one of them.
static void statuses(void) {
  kiln_error err, *e = &err;
  kiln_library *l;
  kiln_device *d;
  kiln_kernel *k;
  kiln_prepared *p;
  kiln_report *r;
  kiln_stream stream;
  kiln_choice choice;
  kiln_reason reason = {.size = sizeof reason};
  kiln_preflight preflight;
  kiln_param param;
  kiln_candidate candidate;
  kiln_verifier *v;
  const char *name;
  void *memory;
  uint32_t grid[3] = {1, 1, 1};
  const size_t sizes[3] = {0};
  size_t wanted;
  kiln_source source = {.path = NULL};
  kiln_open_options options = {.size = sizeof options}, unset = {.size = sizeof unset, .source_count = 1},
                    empty = {.size = sizeof empty, .sources = &source, .source_count = 1};
  const void *const holes[][3] = {{NULL, &py, &n}, {&px, NULL, &n}, {&px, &py, NULL}};
#define REFUSED(call)                                                     \
  do {                                                                    \
    err = (kiln_error){0};                                                \
    CHECK_INT(call, KILN_STATUS_INVALID_ARGUMENT);                        \
    if (!*err.text || strchr(err.text, '\n')) FAIL("%s: no text", #call); \
    e = NULL;                                                             \
    CHECK_INT(call, KILN_STATUS_INVALID_ARGUMENT);                        \
    e = &err;                                                             \
  } while (0)
  REFUSED(kiln_open(NULL, &l, e));
  REFUSED(kiln_open(&options, NULL, e));
  REFUSED(kiln_open(&unset, &l, e));
  REFUSED(kiln_open(&empty, &l, e));
  REFUSED(kiln_open_file(NULL, &l, e));
  REFUSED(kiln_open_file("a", NULL, e));
  REFUSED(kiln_open_memory(NULL, 1, &l, e));
  REFUSED(kiln_open_memory(block, 1, NULL, e));
  REFUSED(kiln_kernel_at(NULL, 0, &name, e));
  REFUSED(kiln_kernel_at(library, 0, NULL, e));
  REFUSED(kiln_device_open(NULL, "host", &d, e));
  REFUSED(kiln_device_open(library, NULL, &d, e));
  REFUSED(kiln_device_open(library, "host", NULL, e));
  REFUSED(kiln_stream_create(NULL, &stream, e));
  REFUSED(kiln_stream_create(device, NULL, e));
  REFUSED(kiln_sync(NULL, NULL, e));
  REFUSED(kiln_alloc(NULL, 8, &memory, e));
  REFUSED(kiln_alloc(device, 8, NULL, e));
  REFUSED(kiln_copy_in(NULL, x, y, 4, e));
  REFUSED(kiln_copy_in(device, NULL, y, 4, e));
  REFUSED(kiln_copy_in(device, x, NULL, 4, e));
  REFUSED(kiln_copy_out(NULL, x, y, 4, e));
  REFUSED(kiln_copy_out(device, NULL, y, 4, e));
  REFUSED(kiln_copy_out(device, x, NULL, 4, e));
  REFUSED(kiln_fill(NULL, x, 0, 4, e));
  REFUSED(kiln_fill(device, NULL, 0, 4, e));
  REFUSED(kiln_kernel_get(NULL, "add_one", NULL, &k, e));
  REFUSED(kiln_kernel_get(device, NULL, NULL, &k, e));
  REFUSED(kiln_kernel_get(device, "add_one", NULL, NULL, e));
  REFUSED(kiln_preload(NULL, e));
  REFUSED(kiln_launch(NULL, NULL, args, 3, e));
  REFUSED(kiln_launch(kernel, NULL, NULL, 3, e));
  for (unsigned i = 0; i < 3; i++) {
    REFUSED(kiln_launch(kernel, NULL, holes[i], 3, e));
    REFUSED(kiln_prepare(kernel, holes[i], 3, NULL, &p, e));
  }
  REFUSED(kiln_launch_packed(NULL, NULL, block, 24, e));
  REFUSED(kiln_launch_packed(kernel, NULL, NULL, 24, e));
  REFUSED(kiln_launch_grid(NULL, NULL, grid, block, 24, e));
  REFUSED(kiln_launch_grid(kernel, NULL, grid, NULL, 24, e));
  REFUSED(kiln_scratch_size(NULL, block, 24, &wanted, e));
  REFUSED(kiln_scratch_size(kernel, NULL, 24, &wanted, e));
  REFUSED(kiln_scratch_size(kernel, block, 24, NULL, e));
  REFUSED(kiln_launch_scratch(NULL, NULL, block, 24, NULL, 0, e));
  REFUSED(kiln_launch_scratch(kernel, NULL, NULL, 24, NULL, 0, e));
  REFUSED(kiln_scratch_launch_at(NULL, block, 24, NULL, 0, 0, &name, e));
  REFUSED(kiln_scratch_launch_at(kernel, NULL, 24, NULL, 0, 0, &name, e));
  REFUSED(kiln_scratch_launch_at(kernel, block, 24, NULL, 0, 0, NULL, e));
  CHECK_INT(kiln_kernel_uses_scratch(NULL), 0);
  REFUSED(kiln_check_sizes(NULL, block, 24, sizes, 3, e));
  REFUSED(kiln_check_sizes(kernel, NULL, 24, sizes, 3, e));
  REFUSED(kiln_check_sizes(kernel, block, 24, NULL, 3, e));
  REFUSED(kiln_prepare(NULL, args, 3, NULL, &p, e));
  REFUSED(kiln_prepare(kernel, NULL, 3, NULL, &p, e));
  REFUSED(kiln_prepare(kernel, args, 3, NULL, NULL, e));
  REFUSED(kiln_prepared_set(NULL, 0, &px, e));
  REFUSED(kiln_prepared_set(prepared, 0, NULL, e));
  REFUSED(kiln_prepared_set(prepared, 2, NULL, e));
  REFUSED(kiln_prepared_scratch(NULL, NULL, 0, e));
  REFUSED(kiln_prepared_launch(NULL, NULL, e));
  REFUSED(kiln_choose(NULL, block, 24, &choice, e));
  REFUSED(kiln_choose(kernel, NULL, 24, &choice, e));
  REFUSED(kiln_choose(kernel, block, 24, NULL, e));
  REFUSED(kiln_choose_reason(NULL, block, 24, &reason, e));
  REFUSED(kiln_choose_reason(kernel, NULL, 24, &reason, e));
  REFUSED(kiln_choose_reason(kernel, block, 24, NULL, e));
  REFUSED(kiln_record_shapes(NULL, "a", e));
  REFUSED(kiln_record_shapes(library, NULL, e));
  REFUSED(kiln_write_shapes(NULL, e));
  REFUSED(kiln_write_shapes(library, e)); // no path was given
  REFUSED(kiln_explain(NULL, "add_one", &r, e));
  REFUSED(kiln_explain(device, NULL, &r, e));
  REFUSED(kiln_explain(device, "add_one", NULL, e));
  REFUSED(kiln_device_preflight(NULL, &preflight, e));
  REFUSED(kiln_device_preflight(device, NULL, e));
  REFUSED(kiln_hook_add(NULL, NULL, KILN_EVENT_LAUNCH, e));
  REFUSED(kiln_verifier_create(NULL, e));
  REFUSED(kiln_verifier_add(NULL, block, e));
  REFUSED(kiln_verifier_add(verifier, NULL, e));
  REFUSED(kiln_verifier_add_hex(NULL, "00", e));
  REFUSED(kiln_verifier_add_hex(verifier, NULL, e));
  REFUSED(kiln_verifier_add_file(NULL, "a", e));
  REFUSED(kiln_verifier_add_file(verifier, NULL, e));
  CHECK_INT(kiln_param_at(NULL, 0, &param), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_param_at(kernel, 0, NULL), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_report_at(NULL, 0, &candidate), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_report_at(report, 0, NULL), KILN_STATUS_INVALID_ARGUMENT);
  (void)v;
}

static void values(void) {
  kiln_verify_request request = {.bundle = "b"};
  char reason[8] = "before";
  size_t size = 7;
  CHECK_INT(kiln_kernel_count(NULL), 0);
  CHECK(!kiln_kernel_name(NULL, 0) && !kiln_kernel_name(library, 1));
  CHECK(!kiln_device_target_name(NULL) && !kiln_device_description(NULL));
  CHECK_INT(kiln_device_units(NULL), 0);
  CHECK(!kiln_param_count(NULL) && !kiln_block_size(NULL) && !kiln_kernel_abi(NULL));
  CHECK(!kiln_param_has_size(NULL, 0) && !kiln_param_has_size(kernel, 3));
  CHECK(!kiln_kernel_returns(NULL) && !kiln_kernel_backward(NULL));
  CHECK(!kiln_prepared_block(NULL, &size) && !size);
  CHECK(!kiln_prepared_block(NULL, NULL) && kiln_prepared_block(prepared, NULL));
  CHECK(!kiln_report_text(NULL) && !kiln_report_count(NULL));
  CHECK_INT(kiln_verify_trusted(NULL, &request), 0);
  CHECK_INT(kiln_verify_trusted(verifier, NULL), 0);
  CHECK_INT(kiln_verify_trusted(verifier, &request), 0);
  kiln_verifier_reason(NULL, reason, sizeof reason);
  CHECK_TEXT(reason, "");
  kiln_verifier_reason(verifier, NULL, 4);
  kiln_close(NULL);
  kiln_device_close(NULL);
  kiln_stream_destroy(NULL, NULL);
  kiln_free(NULL, x);
  kiln_free(device, NULL);
  kiln_prepared_free(NULL);
  kiln_report_free(NULL);
  kiln_hook_remove(NULL, NULL);
  kiln_verifier_destroy(NULL);
  CHECK(*kiln_version());
}

// What may be NULL by the header.
static void allowed(void) {
  CHECK_INT(kiln_launch(kernel, NULL, args, 3, NULL), KILN_OK);
  CHECK_INT(kiln_launch_grid(kernel, NULL, NULL, block, 24, NULL), KILN_OK);
  CHECK_INT(kiln_copy_in(device, NULL, NULL, 0, NULL), KILN_OK);
  CHECK_INT(kiln_copy_out(device, NULL, NULL, 0, NULL), KILN_OK);
  CHECK_INT(kiln_fill(device, NULL, 0, 0, NULL), KILN_OK);
}

static void try_device(const char *name) {
  open_all(name);
  statuses();
  values();
  allowed();
  close_all();
}

TEST(nulls, on_the_host) { try_device("host:2"); }
TEST(nulls, on_null) { try_device("null"); }

// Every function of the maps is called above.
TEST(nulls, no_function_is_left_out) {
  char *out;
  if (kiln_test_run(&out, "for f in $(sed -n 's/^ *\\(kiln_[a-z_]*\\);/\\1/p' runtime/kiln.map) $(grep -o "
                          "'kiln_verif[a-z_]*(' runtime/kiln_verify.h | tr -d '('); do grep -qE "
                          "\"$f\\((NULL|\\))\" tests/runtime/test_nulls.c || echo $f; done"))
    FAIL("%s", out);
  CHECK_TEXT(out, "");
  free(out);
}

// ------------------------------------------------------------------------------------- extreme values

// Views whose strides and extents are drawn from both ends of 64 bits: an error or a launch, and no
// arithmetic that overflows (the sanitizers' build says so).
TEST(nulls, views_of_extreme_strides_are_refused) {
  static const int64_t ends[] = {
      INT64_MAX, INT64_MIN, INT64_MAX - 1,    INT64_MIN + 1,       -1,        0, 1, 2, 3, 4,
      INT32_MAX, INT32_MIN, (int64_t)1 << 62, -((int64_t)1 << 62), UINT32_MAX};
  enum { ENDS = sizeof ends / sizeof *ends, TRIES = 4000 };
  static const uint8_t types[] = {KILN_F32, KILN_F64, KILN_I8, KILN_F16};
  uint64_t random = (uint64_t)getpid();
  fprintf(stderr, "seed %llu\n", (unsigned long long)random);
  for (unsigned t = 0; t < sizeof types; t++) {
    fixture f;
    size_t size, refused = 0;
    kiln_error err;
    uint8_t *object = fixture_object(add_one_source, &size);
    unsigned bytes = kiln_scalars[types[t]].bytes;
    kiln_param_record view = {.name = "v",
                              .scalar = types[t],
                              .view_rank = 2,
                              .access = 3,
                              .rows = 4 * bytes},
                      other = {.name = "w", .scalar = types[t], .view_rank = 3, .access = 1, .div = 4},
                      count = scalar_param("n", KILN_I64);
    count.has_range = true, count.lo = 1, count.hi = INT64_MAX, count.div = 8;
    kiln_interface in = ADD_ONE_INTERFACE("add_one");
    in.params = (kiln_param_record[]){view, other, count};
    fixture_begin(&f);
    uint32_t number = fixture_kernel(&f, &in);
    fixture_code(&f, number, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", "add_one", object, size);
    fixture_write(&f, kiln_test_path("v.kb"), "");
    fixture_open(kiln_test_path("v.kb"), "null", &library, &device);
    CHECK_OK(kiln_kernel_get(device, "add_one", NULL, &kernel, &err), err);
    for (unsigned i = 0; i < TRIES; i++) {
      int64_t v[5], w[7], c;
      for (unsigned j = 0; j < 5; j++) v[j] = ends[kiln_test_random(&random) % ENDS];
      for (unsigned j = 0; j < 7; j++) w[j] = ends[kiln_test_random(&random) % ENDS];
      if (i % 4) c = 8;
      else c = ends[kiln_test_random(&random) % ENDS];
      if (i % 8 == 1) v[3] = INT64_MAX, v[4] = 1;
      err = (kiln_error){0};
      kiln_status status = kiln_launch(kernel, NULL, (const void *const[]){v, w, &c}, 3, &err);
      if (status != KILN_OK && !*err.text) FAIL("status %d without a text", (int)status);
      refused += status != KILN_OK;
      kiln_prepared *made;
      if (kiln_prepare(kernel, (const void *const[]){v, w, &c}, 3, NULL, &made, &err) != KILN_OK) continue;
      v[3] = ends[kiln_test_random(&random) % ENDS];
      (void)!kiln_prepared_set(made, 0, v, &err);
      kiln_prepared_free(made);
    }
    if (refused < TRIES / 4) FAIL("%zu of %d were refused", refused, TRIES);
    kiln_device_close(device);
    kiln_close(library);
    free(object);
  }
}
