// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the recording of shapes that an application used and for which there is no tuned choice: each bin
// once, whoever launches, and nothing unless it was requested.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "runtime/device/device.h"
#include "tests/runtime/fixture.h"

// (p: *f32, v: view f32/2, n: i32, m: i32, s: f32, h: f16)
static void write_bundle(const char *path, const char *note) {
  static const uint8_t one[] = {C(1)};
  fixture f;
  fixture_begin(&f);
  kiln_config_record config = {.text = "c0", .grid = {{one, sizeof one}}};
  kiln_param_record view = {.name = "v", .scalar = KILN_F32, .view_rank = 2, .access = 3};
  kiln_interface in = {.name = "k[T=f32]",
                       .params =
                           (kiln_param_record[]){pointer_param("p", KILN_F32), view,
                                                 scalar_param("n", KILN_I32), scalar_param("m", KILN_I32),
                                                 scalar_param("s", KILN_F32), scalar_param("h", KILN_F16)},
                       .param_count = 6,
                       .configs = &config,
                       .config_count = 1,
                       .variants = (kiln_variant_record[]){{.text = ""}},
                       .variant_count = 1};
  uint32_t kernel = fixture_kernel(&f, &in);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_80", in.name, "// code", 7);
  fixture_code(&f, kernel, 0, 0, KILN_FORMAT_PTX, "sm_90", in.name, "// code", 7);
  if (note) kiln_manifest_note(&f.manifest, "tuned k[T=f32]", note);
  fixture_write(&f, path, "");
}

#define NOTE                                                                                                \
  "kiln tuned 1\nkernel=\"k[T=f32]\" types=\"*f32, view f32/2, i32, i32, f32, f16\" product=* processor=* " \
  "units=0 "
#define HEAD "# kiln shapes: met without a tuned choice; for `kiln tune --record`\n"

typedef struct arguments {
  uint64_t pointer, base;
  int64_t extents[2], strides[2];
  int32_t n, m;
  float s;
  uint16_t h;
} arguments;

static const arguments plain = {
    .pointer = 64, .extents = {4, 8}, .strides = {8, 1}, .n = 100, .m = 7, .s = 0.1f, .h = 0x3e00};

typedef struct opened {
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *kernel;
} opened;

static opened open_note(const char *note, bool recorded) {
  opened o;
  kiln_error err;
  write_bundle(kiln_test_path("k.kbundle"), note);
  CHECK_OK(kiln_open_file(kiln_test_path("k.kbundle"), &o.library, &err), err);
  if (recorded) CHECK_OK(kiln_record_shapes(o.library, kiln_test_path("shapes"), &err), err);
  CHECK_OK(kiln_device_open(o.library, "null:sm_90", &o.device, &err), err);
  CHECK_OK(kiln_kernel_get(o.device, "k[T=f32]", NULL, &o.kernel, &err), err);
  return o;
}

static void close_all(opened *o) {
  kiln_device_close(o->device);
  kiln_close(o->library);
}

static void launch(const opened *o, const arguments *a) {
  kiln_error err;
  CHECK_OK(kiln_launch_packed(o->kernel, NULL, a, kiln_block_size(o->kernel), &err), err);
}

static void launch_n(const opened *o, int32_t n) {
  arguments a = plain;
  a.n = n;
  launch(o, &a);
}

static char *written(const opened *o) {
  kiln_error err;
  CHECK_OK(kiln_write_shapes(o->library, &err), err);
  return kiln_test_read(kiln_test_path("shapes"), NULL);
}

static void expect_file(const opened *o, const char *want) {
  char *text = written(o);
  CHECK_TEXT(text, want);
  free(text);
}

#define REST " m=7 s=0.100000001 h=1.5\n"
#define LINE(n) "k[T=f32] v=[4,8;8,1] n=" n REST

TEST(shape_record, nothing_is_there_unless_asked_for) {
  opened o = open_note(NULL, false);
  kiln_error err;
  CHECK(!o.kernel->tuned && !atomic_load(&o.library->recorders));
  CHECK_INT(kiln_write_shapes(o.library, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_record_shapes(o.library, NULL, &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_record_shapes(o.library, "", &err), KILN_STATUS_INVALID_ARGUMENT);
  CHECK_INT(kiln_record_shapes(NULL, "x", &err), KILN_STATUS_INVALID_ARGUMENT);
  launch_n(&o, 5);
  close_all(&o);
}

// As root a device could be replaced, and a link at a name that can be guessed followed.
TEST(shape_record, what_is_no_file_stays_and_no_link_is_followed) {
  kiln_error err;
  struct stat st;
  char planted[600], *text;
  opened o = open_note(NULL, true);
  launch_n(&o, 5);
  kiln_test_write(kiln_test_path("victim"), "mine", 4);
  snprintf(planted, sizeof planted, "%s.%ld.tmp", kiln_test_path("shapes"), (long)getpid());
  CHECK(!symlink(kiln_test_path("victim"), planted));
  CHECK_OK(kiln_write_shapes(o.library, &err), err);
  expect_file(&o, HEAD LINE("5"));
  text = kiln_test_read(kiln_test_path("victim"), NULL);
  CHECK_TEXT(text, "mine");
  free(text);
  CHECK(!mkfifo(kiln_test_path("fifo"), 0600));
  int reader = open(kiln_test_path("fifo"), O_RDONLY | O_NONBLOCK);
  CHECK_OK(kiln_record_shapes(o.library, kiln_test_path("fifo"), &err), err);
  CHECK_OK(kiln_write_shapes(o.library, &err), err);
  char got[400] = "";
  CHECK(read(reader, got, sizeof got - 1) > 0);
  CHECK_TEXT(got, HEAD LINE("5"));
  CHECK(!lstat(kiln_test_path("fifo"), &st) && S_ISFIFO(st.st_mode));
  close(reader);
  if (!mknod(kiln_test_path("null"), S_IFCHR | 0600, makedev(1, 3)) &&
      !access(kiln_test_path("null"), W_OK)) {
    CHECK_OK(kiln_record_shapes(o.library, kiln_test_path("null"), &err), err);
    CHECK_OK(kiln_write_shapes(o.library, &err), err);
    CHECK(!lstat(kiln_test_path("null"), &st) && S_ISCHR(st.st_mode));
  }
  CHECK_OK(kiln_record_shapes(o.library, kiln_test_folder(), &err), err);
  CHECK(kiln_write_shapes(o.library, &err) != KILN_OK && strstr(err.text, kiln_test_folder()));
  close_all(&o);
}

static void *write_often(void *context) {
  opened *o = context;
  for (unsigned i = 0; i < 200; i++)
    if (kiln_write_shapes(o->library, NULL) != KILN_OK) return o;
  return NULL;
}

// Two libraries of one process write one file: it is always that of one of them.
TEST(shape_record, two_libraries_of_a_process_do_not_collide) {
  pthread_t threads[2];
  opened o[2] = {open_note(NULL, true), open_note(NULL, true)};
  for (int i = 0; i < 2; i++) {
    kiln_error err;
    for (int32_t n = 0; n < 100; n++) launch_n(&o[i], 1 << (n % 20 + i));
    CHECK_OK(kiln_write_shapes(o[i].library, &err), err);
    pthread_create(&threads[i], NULL, write_often, &o[i]);
  }
  for (unsigned i = 0; i < 200; i++) {
    size_t size;
    char *text = kiln_test_read(kiln_test_path("shapes"), &size);
    if (!text || strncmp(text, HEAD, strlen(HEAD)) || !size || text[size - 1] != '\n') FAIL("read: %s", text);
    free(text);
  }
  for (int i = 0; i < 2; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    if (failed) FAIL("library %d could not write", i);
  }
  for (int i = 0; i < 2; i++) close_all(&o[i]);
}

TEST(shape_record, each_bin_once) {
  opened o = open_note(NULL, true);
  expect_file(&o, HEAD);
  for (unsigned i = 0; i < 3; i++) {
    launch_n(&o, 100);
    launch_n(&o, 101); // the same bin
    launch_n(&o, 2000);
    launch_n(&o, -3);
    launch_n(&o, 96); // the same bin, but a multiple of 16
  }
  expect_file(&o, HEAD LINE("-3") LINE("100") LINE("2000") LINE("96"));
  arguments a = plain;
  a.pointer = 0; // said, but no bin of its own
  launch(&o, &a);
  a.strides[1] = 2, a.h = 0xfc00, a.s = -2; // a stride is
  launch(&o, &a);
  a.extents[0] = 0;
  launch(&o, &a);
  expect_file(&o, HEAD "k[T=f32] p=null v=[0,8;8,2] n=100 m=7 s=-2 h=-inf\n"
                       "k[T=f32] p=null v=[4,8;8,2] n=100 m=7 s=-2 h=-inf\n" LINE("-3") LINE("100")
                           LINE("2000") LINE("96"));
  kiln_reason reason = {.size = sizeof reason};
  kiln_error err;
  CHECK_OK(kiln_choose_reason(o.kernel, &plain, kiln_block_size(o.kernel), &reason, &err), err);
  CHECK_INT(reason.by, KILN_BY_ORDER);
  CHECK_TEXT(reason.bundle, "");
  close_all(&o);
}

TEST(shape_record, what_the_table_has_is_not_noted) {
  opened o =
      open_note(NOTE "bin.n=64 config=c0\nkernel=\"k[T=f32]\" types=\"*f32, view f32/2, i32, i32, f32, "
                     "f16\" product=* processor=* units=0 bin.n=1024 config=c0\n",
                true);
  for (unsigned i = 0; i < 2; i++) {
    launch_n(&o, 64);   // exact
    launch_n(&o, 1100); // exact
    launch_n(&o, 300);  // near
    launch_n(&o, 319);  // the same bin
    launch_n(&o, 5000); // outside
    launch_n(&o, 6);
  }
  expect_file(&o, HEAD LINE("300") LINE("5000") LINE("6"));
  close_all(&o);
}

// The file is the library's: devices and their kernels may be gone.
TEST(shape_record, devices_come_and_go) {
  opened o = open_note(NULL, true);
  kiln_error err;
  for (int32_t i = 0; i < 5; i++) {
    launch_n(&o, 100 << i);
    kiln_device_close(o.device);
    CHECK_OK(kiln_device_open(o.library, i % 2 ? "null:sm_90" : "null", &o.device, &err), err);
    CHECK_OK(kiln_kernel_get(o.device, "k[T=f32]", NULL, &o.kernel, &err), err);
    launch_n(&o, 100);
  }
  CHECK(!atomic_load(&o.library->recorders) ||
        !*(void **)atomic_load(&o.library->recorders)); // one of the kernel, not one a device
  expect_file(&o, HEAD LINE("100") LINE("1600") LINE("200") LINE("400") LINE("800"));
  kiln_device_close(o.device);
  expect_file(&o, HEAD LINE("100") LINE("1600") LINE("200") LINE("400") LINE("800"));
  CHECK_OK(kiln_record_shapes(o.library, kiln_test_path("no/such/folder"), &err), err);
  CHECK(kiln_write_shapes(o.library, &err) != KILN_OK && strstr(err.text, "no/such/folder"));
  kiln_close(o.library);
}

enum { THREADS = 4, BINS = 60 };

static void *launch_all(void *context) {
  const opened *o = context;
  for (unsigned round = 0; round < 200; round++)
    for (int32_t i = 0; i < BINS; i++) { // every bin of n, each with one m that is of its own bin
      arguments a = plain;
      a.n = (4 + i % 4) << (i / 4), a.m = i + 1;
      launch(o, &a);
    }
  return NULL;
}

TEST(shape_record, threads_lose_nothing_and_note_nothing_twice) {
  opened o = open_note(NULL, true);
  pthread_t threads[THREADS];
  for (unsigned i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, launch_all, &o);
  for (unsigned i = 0; i < 20; i++) free(written(&o)); // at the same time
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  char *text = written(&o);
  unsigned lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')); at++) lines++;
  CHECK_INT(lines, 1 + BINS);
  for (int32_t i = 0; i < BINS; i++) {
    char line[100];
    snprintf(line, sizeof line, " n=%d m=%d s=", (4 + i % 4) << (i / 4), i + 1);
    if (!strstr(text, line)) FAIL("'%s' is not in\n%s", line, text);
  }
  free(text);
  close_all(&o);
}

TEST(shape_record, what_has_no_room_is_counted) {
  opened o = open_note(NULL, true);
  arguments a = plain;
  for (int32_t i = 0; i < 40; i++)
    for (int32_t j = 0; j < 40; j++) {
      a.n = (4 + i % 4) << (i / 4), a.m = (4 + j % 4) << (j / 4);
      launch(&o, &a);
    }
  char *text = written(&o);
  unsigned lines = 0, more = 0;
  for (const char *at = text; (at = strchr(at, '\n')); at++) lines++;
  if (sscanf(text, HEAD "# %u launches more were", &more) != 1 || lines - 2 + more != 1600 || lines < 800)
    FAIL("%u lines, %u more:\n%.300s", lines, more, text);
  free(text);
  close_all(&o);
}

// Two devices of one library, whose tables have other axes: what each meets is noted, though the one's bins
// of n are the other's of m.
TEST(shape_record, two_devices_with_other_axes) {
  kiln_error err;
  opened first = open_note("kiln tuned 1\n"
                           "kernel=\"k[T=f32]\" types=\"*f32, view f32/2, i32, i32, f32, f16\" product=* "
                           "processor=sm_90 units=0 bin.n=64 config=c0\n"
                           "kernel=\"k[T=f32]\" types=\"*f32, view f32/2, i32, i32, f32, f16\" product=* "
                           "processor=sm_80 units=0 bin.m=64 config=c0\n",
                           true),
         second = first;
  CHECK_OK(kiln_device_open(first.library, "null:sm_80", &second.device, &err), err);
  CHECK_OK(kiln_kernel_get(second.device, "k[T=f32]", NULL, &second.kernel, &err), err);
  arguments a = plain;
  a.n = 1000, a.m = 3;
  launch(&first, &a);
  a.n = 5, a.m = 1000;
  launch(&second, &a);
  expect_file(&first, HEAD "k[T=f32] v=[4,8;8,1] n=1000 m=3 s=0.100000001 h=1.5\n"
                           "k[T=f32] v=[4,8;8,1] n=5 m=1000 s=0.100000001 h=1.5\n");
  // The same shape again, and on the other device, is a line each or none.
  launch(&second, &a);
  a.n = 1000, a.m = 3;
  launch(&first, &a);
  launch(&second, &a);
  expect_file(&first, HEAD "k[T=f32] v=[4,8;8,1] n=1000 m=3 s=0.100000001 h=1.5\n"
                           "k[T=f32] v=[4,8;8,1] n=5 m=1000 s=0.100000001 h=1.5\n");
  kiln_device_close(second.device);
  close_all(&first);
}
