// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is launched in place of a kernel that has scratch memory (base/launches.h), read from notes that are
// written by hand: how much memory is wanted, which kernels run with which arguments, and that nothing does
// where the note does not fit.
#include "tests/runtime/fixture.h"

static kiln_library *library;
static kiln_device *device;

/// y[i] = x[i] + 1, and y[i] = 2 x[i], for n elements; (x: *f32, y: *f32, n: i32).
static const char source[] = "struct a { const float *x; float *y; int n; };\n" HOST_KERNEL(
    "add_one") " {\n"
               "  const struct a *a = args; (void)scratch; (void)grid; (void)id;\n"
               "  for (int i = 0; i < a->n; i++) a->y[i] = a->x[i] + 1;\n"
               "  return 0;\n}\n" HOST_KERNEL(
                   "twice") " {\n"
                            "  const struct a *a = args; (void)scratch; (void)grid; (void)id;\n"
                            "  for (int i = 0; i < a->n; i++) a->y[i] = a->x[i] * 2;\n"
                            "  return 0;\n}\n";

typedef struct arguments {
  float *x, *y;
  int32_t n, pad;
} arguments;

static unsigned warnings;
static void count_warnings(void *user, int level, const char *text) {
  (void)user;
  if (level == KILN_LOG_WARNING && strstr(text, "the launches in place of 'add_one' in ")) warnings++;
}

static kiln_status open_with(const char *note, const char *name, kiln_kernel **out, kiln_error *err) {
  static const char *const names[] = {"add_one", "twice"};
  fixture f;
  size_t size;
  uint8_t *object = fixture_object(source, &size);
  kiln_param_record params[] = {pointer_param("x", KILN_F32), pointer_param("y", KILN_F32),
                                scalar_param("n", KILN_I32)};
  kiln_config_record config = {.text = "", .warps = 1, .grid = {SPAN(C(1))}};
  kiln_variant_record variant = {.text = ""};
  fixture_begin(&f);
  for (unsigned i = 0; i < 2; i++) {
    kiln_interface in = {.name = names[i],
                         .params = params,
                         .param_count = 3,
                         .config_count = 1,
                         .configs = &config,
                         .variant_count = 1,
                         .variants = &variant};
    uint32_t kernel = fixture_kernel(&f, &in);
    fixture_code(&f, kernel, 0, 0, KILN_FORMAT_HOST, "x86-64-v2", names[i], object, size);
  }
  if (note) kiln_manifest_note(&f.manifest, "launches add_one", note);
  free(object);
  fixture_write(&f, kiln_test_path("launches.kb"), "");
  const kiln_source from = {.path = kiln_test_path("launches.kb")};
  const kiln_open_options options = {
      .size = sizeof options, .sources = &from, .source_count = 1, .log = count_warnings};
  warnings = 0;
  CHECK_OK(kiln_open(&options, &library, err), *err);
  CHECK_OK(kiln_device_open(library, "host", &device, err), *err);
  return kiln_kernel_get(device, name, NULL, out, err);
}

static void close_all(void) {
  kiln_device_close(device);
  kiln_close(library);
}

/// Parameters are 0 to 2, the address of the scratch memory 3, values from 4 on. Where n > 4: 4 n bytes, in
/// which the doubles lie before one is added to them.
#define LARGE "let 010202080f\n" // v0 = n > 4
#define BOTH                     \
  LARGE "scratch 01040102050208" \
        "05\ntwice 0104 =0 0103 =2\nadd_one 0104 0103 =1 =2"

static _Alignas(128) float memory[64];

static const char *launched(kiln_kernel *k, const arguments *a, size_t bytes, size_t index) {
  static kiln_error err;
  const char *name = NULL;
  kiln_status status = kiln_scratch_launch_at(k, a, sizeof *a, memory, bytes, index, &name, &err);
  if (status == KILN_STATUS_NOT_FOUND) CHECK_INT(err.status, status);
  return status == KILN_OK ? name : err.text;
}

TEST(launches, run_in_place_of_the_kernel_once_there_is_memory) {
  kiln_kernel *k;
  kiln_error err;
  float x[] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
  arguments a = {x, y, 6, 0};
  size_t bytes;
  CHECK_OK(open_with(BOTH, "add_one", &k, &err), err);
  CHECK_INT(kiln_kernel_uses_scratch(k), 1);
  CHECK_OK(kiln_scratch_size(k, &a, sizeof a, &bytes, &err), err);
  CHECK_INT(bytes, 24);
  CHECK_TEXT(launched(k, &a, 24, 0), "twice");
  CHECK_TEXT(launched(k, &a, 24, 1), "add_one");
  CHECK_TEXT(launched(k, &a, 24, 2), "'add_one': there is no launch 2, 2 would be made");
  CHECK_TEXT(launched(k, &a, 23, 0), "'add_one': there is no launch 0, 0 would be made");
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 24, &err), err);
  CHECK_INT(y[0], 3);
  CHECK_INT(y[5], 13);
  CHECK_INT(memory[5], 12);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 23, &err), err); // too little
  CHECK_INT(y[0], 2);
  CHECK_INT(y[5], 7);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, NULL, 0, &err), err);
  CHECK_INT(y[5], 7);
  a.n = 4;
  CHECK_OK(kiln_scratch_size(k, &a, sizeof a, &bytes, &err), err);
  CHECK_INT(bytes, 0);
  y[0] = y[5] = 0;
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 64, &err), err);
  CHECK_INT(y[0], 2);
  CHECK_INT(y[5], 0);
  CHECK_INT(warnings, 0);
  close_all();
}

TEST(launches, of_a_prepared_launch_are_decided_again_with_its_arguments) {
  kiln_kernel *k;
  kiln_error err;
  kiln_prepared *p;
  float x[] = {1, 2, 3, 4, 5, 6}, y[6] = {0}, z[6] = {0}, *const px = x, *const py = y, *const pz = z;
  int32_t n = 6, few = 3;
  CHECK_OK(open_with(BOTH, "add_one", &k, &err), err);
  CHECK_OK(kiln_prepare(k, (const void *const[]){&px, &py, &n}, 3, NULL, &p, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_INT(y[5], 7);
  CHECK_OK(kiln_prepared_scratch(p, memory, sizeof memory, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_INT(y[5], 13);
  CHECK_OK(kiln_prepared_set(p, 1, &pz, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_INT(z[5], 13);
  CHECK_OK(kiln_prepared_set(p, 2, &few, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_INT(z[0], 2);
  CHECK_INT(z[2], 4);
  CHECK_INT(z[3], 9);
  CHECK_OK(kiln_prepared_set(p, 2, &n, &err), err);
  CHECK_OK(kiln_prepared_scratch(p, NULL, 0, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_INT(z[5], 7);
  kiln_prepared_free(p);
  close_all();
}

static void note_name(void *names, const kiln_event *e) {
  strcat(names, e->kernel_name);
  strcat(names, " ");
}

// A hook is told of what is launched, not of the kernel that it stands for.
TEST(launches, are_told_to_hooks_one_by_one) {
  kiln_kernel *k;
  kiln_error err;
  kiln_prepared *p;
  char names[100] = "";
  float x[] = {1, 2, 3, 4, 5, 6}, y[6] = {0}, *const px = x, *const py = y;
  int32_t n = 6;
  arguments a = {x, y, 6, 0};
  CHECK_OK(open_with(BOTH, "add_one", &k, &err), err);
  CHECK_OK(kiln_hook_add(note_name, names, KILN_EVENT_LAUNCHED, &err), err);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 24, &err), err);
  CHECK_TEXT(names, "twice add_one ");
  CHECK_OK(kiln_prepare(k, (const void *const[]){&px, &py, &n}, 3, NULL, &p, &err), err);
  CHECK_OK(kiln_prepared_scratch(p, memory, sizeof memory, &err), err);
  CHECK_OK(kiln_prepared_launch(p, NULL, &err), err);
  CHECK_TEXT(names, "twice add_one twice add_one ");
  kiln_hook_remove(note_name, names);
  kiln_prepared_free(p);
  close_all();
}

static bool is_used(const char *note) {
  kiln_kernel *k;
  kiln_error err;
  float x[6] = {1}, y[6] = {0};
  arguments a = {x, y, 6, 0};
  CHECK_OK(open_with(note, "add_one", &k, &err), err);
  bool uses = kiln_kernel_uses_scratch(k);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, sizeof memory, &err), err);
  CHECK_INT(y[0], uses ? 3 : 2);
  CHECK_INT(warnings, !uses && note);
  close_all();
  return uses;
}

TEST(launches, that_do_not_fit_leave_the_kernel_alone) {
  static const char *const damaged[] = {
      "",
      "scratch",
      "let 010202080f",
      LARGE,
      LARGE "scratch 0104\n",
      LARGE "scratch 01",
      LARGE "scratch 0105\ntwice 0104 =0 0103 =2",    // a value that there is not
      LARGE "scratch 0104\ntwice 0104 =0 0103",       // too few arguments
      LARGE "scratch 0104\ntwice 0104 =0 0103 =2 =2", // too many
      LARGE "scratch 0104\ntwice 0104 =0 =2 =2",      // a number for a pointer
      LARGE "scratch 0104\ntwice 0104 =0 =3 =2",      // there is no such parameter
      LARGE "scratch 0104\ntwice 0104 =0 = =2",
      LARGE "scratch 0104\ntwice 0104 =0 =1x =2",
      LARGE "scratch 0104\ntwice 0104 =0 010 =2",
      LARGE "scratch 0104\ntwice 0104 =0 01g3 =2",
      LARGE "scratch 0104\nthrice 0104 =0 0103 =2", // no such kernel
      LARGE "scratch 0104\ntwice 0104 =0 0103 =2\n",
      LARGE "scratch 0104\n\ntwice 0104 =0 0103 =2",
      "let 0105\nscratch 0104\ntwice 0104 =0 0103 =2", // of a value after it
      LARGE "scratch 0104\ntwice 0104  =0 0103 =2",
      "let 0102 0105\nscratch 0104\ntwice 0104 =0 0103 =2",
      "let 0102 0102 0102\nscratch 0104\ntwice 0104 =0 0103 =2"};
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
    if (is_used(damaged[i])) FAIL("used: %s", damaged[i]);
  if (is_used(NULL)) FAIL("there is no note");
  if (!is_used(BOTH)) FAIL("not used");
}

TEST(launches, are_left_out_where_a_value_cannot_be_computed) {
  kiln_kernel *k;
  kiln_error err;
  float x[6] = {1}, y[6] = {0};
  arguments a = {x, y, 0, 0};
  size_t bytes;
  // v0 = 4 / n, not 0 where n is 1 to 4
  CHECK_OK(open_with("let 0208010206\nscratch 0208\ntwice 0104 =0 =1 =2", "add_one", &k, &err), err);
  CHECK_OK(kiln_scratch_size(k, &a, sizeof a, &bytes, &err), err);
  CHECK_INT(bytes, 0);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 64, &err), err);
  a.n = 1;
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 64, &err), err);
  CHECK_INT(y[0], 2);
  close_all();
}

TEST(launches, compute_a_value_only_where_its_condition_holds) {
  kiln_kernel *k;
  kiln_error err;
  float x[6] = {1}, y[6] = {0};
  arguments a = {x, y, 0, 0};
  size_t bytes;
  // v0 = n > 0; v1 = 4 / n where v0 holds; v1 bytes
  CHECK_OK(open_with("let 010202000f\nlet 0208010206 0104\nscratch 0105\ntwice 0105 =0 =1 =2", "add_one", &k,
                     &err),
           err);
  CHECK_INT(kiln_kernel_uses_scratch(k), 1);
  CHECK_OK(kiln_scratch_size(k, &a, sizeof a, &bytes, &err), err);
  CHECK_INT(bytes, 0);
  a.n = 2;
  CHECK_OK(kiln_scratch_size(k, &a, sizeof a, &bytes, &err), err);
  CHECK_INT(bytes, 2);
  CHECK_TEXT(launched(k, &a, 2, 0), "twice");
  close_all();
}

/// What one of them cannot do, the kernel itself does.
TEST(launches, that_would_be_refused_leave_the_kernel_alone) {
  kiln_kernel *k;
  kiln_error err;
  float x[6] = {1}, y[6] = {0};
  arguments a = {x, y, 6, 0};
  // n: n * 2^31
  CHECK_OK(open_with(LARGE "scratch 0104\ntwice 0104 =0 =1 01020280808080100"
                           "5",
                     "add_one", &k, &err),
           err);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 64, &err), err);
  CHECK_INT(y[0], 2);
  CHECK_INT(kiln_launch_scratch(k, NULL, &a, sizeof a, (char *)memory + 4, 64, &err),
            KILN_STATUS_INVALID_ARGUMENT);
  if (!strstr(err.text, "'add_one': expected scratch memory at a multiple of 128 bytes, found "))
    FAIL("%s", err.text);
  CHECK_INT(kiln_launch_scratch(k, NULL, &a, sizeof a - 8, memory, 64, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_launch_scratch(NULL, NULL, &a, sizeof a, memory, 64, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_kernel_uses_scratch(NULL), 0);
  close_all();
}

/// All are tried before the first: what leaves the kernel alone has written nothing.
TEST(launches, of_which_one_would_be_refused_have_no_effect) {
  kiln_kernel *k;
  kiln_error err;
  float x[6] = {1}, y[6] = {0};
  arguments a = {x, y, 6, 0};
  memory[0] = 7;
  CHECK_OK(open_with(LARGE "scratch 01040102050208"
                           "05\ntwice 0104 =0 0103 =2\nadd_one 0104 0103 =1 01020280808080100"
                           "5",
                     "add_one", &k, &err),
           err);
  CHECK_OK(kiln_launch_scratch(k, NULL, &a, sizeof a, memory, 64, &err), err);
  CHECK_INT(memory[0], 7);
  CHECK_INT(y[0], 2);
  close_all();
}
