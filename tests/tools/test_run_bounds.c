// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that `kiln run` watches its buffers: a kernel that reads or writes outside of them ends with the
// argument's name, the element and exit code 1, whatever the size and however far away; one that stays
// inside is never reported.
#include "tests/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "kiln 1\n"
    "kernel shifted(x: in *f32, y: out *f32, n: i32, from: i32, to: i32) @grid(cdiv(n, 64)) "
    "@config(warps = 1)\n"
    "{\n"
    "  let i = pid(0) * 64 + iota(64)\n"
    "  store(y + (i + to), load(x + (i + from), i < n), i < n)\n"
    "}\n";

static const char *bundle(void) {
  static char path[512];
  char text[512], *out;
  snprintf(text, sizeof text, "%s/shifted.kiln", kiln_test_folder());
  snprintf(path, sizeof path, "%s/shifted.kbundle", kiln_test_folder());
  kiln_test_write(text, source, sizeof source - 1);
  if (kiln_test_run(&out, "%s/bin/kiln build %s -t host --no-cache -q -o %s", kiln_test_build(), text, path))
    FAIL("kiln build: %s", out);
  free(out);
  return path;
}

/// Runs the kernel; `want` is a text of the error, or NULL for exit 0.
static void expect(const char *path, const char *device, const char *want, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void expect(const char *path, const char *device, const char *want, const char *format, ...) {
  char arguments[600], *out;
  va_list args;
  va_start(args, format);
  vsnprintf(arguments, sizeof arguments, format, args);
  va_end(args);
  int got = kiln_test_run(&out, "%s/bin/kiln run %s shifted -d %s %s -p y:3", kiln_test_build(), path, device,
                          arguments);
  if (got != (want != NULL) || (want && (!strstr(out, want) || strstr(out, "y ="))))
    FAIL("kiln run %s on %s: exit %d, expected %s in:\n%s", arguments, device, got, want ? want : "no error",
         out);
  free(out);
}

#define ARGUMENTS "-a x=ones:%d -a y=zeros:%d -a n=%d -a from=%d -a to=%d"

TEST(run_bounds, what_stays_inside_runs) {
  const char *path = bundle();
  for (int n = 1; n < 140; n += n < 20 ? 1 : 13)
    for (int extra = 0; extra < 2; extra++)
      expect(path, "host:2", NULL, ARGUMENTS, n + extra, n, n, extra, 0);
  expect(path, "host:2", NULL, ARGUMENTS, 100000, 100000, 100000, 0, 0);
  expect(path, "host:2", NULL, ARGUMENTS " --time 3", 5000, 5000, 5000, 0, 0);
}

TEST(run_bounds, a_store_outside_is_named) {
  const char *path = bundle();
  static const struct {
    int to;
    const char *element;
  } cases[] = {{1, "100"},     {2, "1"},          {-1, "-1"},     {100, "1"},
               {1 << 20, "1"}, {-(1 << 20), "-"}, {1 << 29, "5"}, {-(1 << 29), "-"}};
  for (unsigned threads = 1; threads < 4; threads += 2)
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
      char device[16], want[120];
      snprintf(device, sizeof device, "host:%u", threads);
      snprintf(want, sizeof want, "argument 'y' (*f32) has 100 elements, and the kernel wrote element %s",
               cases[i].element);
      expect(path, device, want, ARGUMENTS, 100, 100, 100, 0, cases[i].to);
    }
  // Whatever the size, the first element behind is one too many.
  for (int n = 1; n < 70; n++) {
    char want[120];
    snprintf(want, sizeof want, "argument 'y' (*f32) has %d elements, and the kernel wrote element %d ", n,
             n);
    expect(path, "host:1", want, ARGUMENTS, n + 1, n, n + 1, 0, 0);
  }
}

TEST(run_bounds, a_load_outside_is_named) {
  const char *path = bundle();
  // Buffers end at the guard where their size is a multiple of 16 bytes.
  for (int n = 4; n < 300; n += 36)
    expect(path, "host:2", "argument 'x' (*f32) has", ARGUMENTS, n, n + 1, n + 1, 0, 0);
  expect(path, "host:3", "the kernel read element", ARGUMENTS, 100, 5000, 5000, 0, 0);
  expect(path, "host:2", "argument 'x' (*f32) has 1024 elements, and the kernel read element -", ARGUMENTS,
         1024, 64, 64, -1025, 0);
  expect(path, "host:2", "in no buffer", "-a x=null -a y=zeros:64 -a n=64 -a from=0 -a to=0");
}

TEST(run_bounds, other_devices_take_the_buffers) {
  expect(bundle(), "null", NULL, ARGUMENTS, 100, 100, 100, 0, 0);
}

// What is printed of an integer is all of it, and one that differs in the last bit differs.
TEST(run_bounds, integers_are_whole) {
  static const char text[] = "kiln 1\n"
                             "kernel copy(z: out *i64, n: i64) @grid(1) @config(warps = 1) {\n"
                             "  store(z, n)\n"
                             "  store(z + 1, 9223372036854775807)\n"
                             "}\n";
  static const struct {
    const char *arguments, *want;
    int code;
  } cases[] = {
      {"-a n=9007199254740993 -p z --save z=Z", "z = 9007199254740993 9223372036854775807", 0},
      {"-a n=9007199254740993 --compare z=Z", "", 0},
      {"-a n=9007199254740992 --compare z=Z", "is 9007199254740992, expected 9007199254740993", 1},
      {"-a n=-9223372036854775808 -p z", "z = -9223372036854775808 9223372036854775807", 0},
  };
  const char *folder = kiln_test_folder(), *build = kiln_test_build();
  char path[512], *out;
  snprintf(path, sizeof path, "%s/copy.kiln", folder);
  kiln_test_write(path, text, sizeof text - 1);
  if (kiln_test_run(&out, "%s/bin/kiln build %s -t host --no-cache -q -o %s/c.kbundle", build, path, folder))
    FAIL("kiln build: %s", out);
  free(out);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int code = kiln_test_run(
        &out, "kiln=$(realpath %s/bin/kiln) && cd %s && $kiln run c.kbundle copy -a z=zeros:2 %s", build,
        folder, cases[i].arguments);
    if (code != cases[i].code || !strstr(out, cases[i].want))
      FAIL("%s: exit %d, expected %s in:\n%s", cases[i].arguments, code, cases[i].want, out);
    free(out);
  }
}
