// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln run --grid`: kernels whose source states no grid, from Triton IR to numbers on the host.
#include "tests/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Runs `kiln ARGUMENTS`; expects the exit code and a text in what it printed.
static void expect(int want, const char *text, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void expect(int want, const char *text, const char *format, ...) {
  char arguments[1200], *out;
  va_list args;
  va_start(args, format);
  vsnprintf(arguments, sizeof arguments, format, args);
  va_end(args);
  int got = kiln_test_run(&out, "%s/bin/kiln %s", kiln_test_build(), arguments);
  if (got != want || !strstr(out, text))
    FAIL("kiln %s: exit %d (expected %d), expected \"%s\" in:\n%s", arguments, got, want, text, out);
  free(out);
}

static const char *build(const char *source) {
  static char path[512];
  snprintf(path, sizeof path, "%s/k.kbundle", kiln_test_folder());
  expect(0, "", "build %s -t host --no-cache -q -o %s", source, path);
  return path;
}

TEST(run_grid, triton_ir_runs_with_a_grid) {
  const char *bundle = build("tests/ttir/add.ttir");
  const char *more = "add_kernel -a x=iota:512 -a y=ones:512 -a out=zeros:512 -a n=512 -p out:512";
  expect(0, "254 255 256 257 258", "run %s %s --grid 2", bundle, more);
  expect(0, "254 255 256 0 0", "run %s %s --grid 1", bundle, more);
  expect(0, "grid 2 x 1 x 1,", "run %s %s -g 2,1 --explain", bundle, more);
  expect(0, "grid 2 x 3 x 4,", "run %s %s --grid=2,3,4 --explain", bundle, more);
  expect(0, "out = 0 0 0 0 0", "run %s %s --grid 0", bundle, more);
  expect(1, "states no grid", "run %s %s", bundle, more);
}

TEST(run_grid, a_grid_replaces_that_of_the_kernel) {
  const char *bundle = build("kernels/elementwise.kiln -k 'add[T=f32]'");
  const char *more = "'add[T=f32]' -a x=ones:3000 -a y=ones:3000 -a z=zeros:3000 -a n=3000 -p z:3000";
  expect(0, "grid (cdiv(n, 1024), 1, 1)", "inspect --codes %s", bundle);
  expect(0, " 2 2\n", "run %s %s", bundle, more);
  expect(0, " 2 2 0 0 ", "run %s %s --grid 1", bundle, more);
}

TEST(run_grid, inspect_says_who_gives_the_grid) {
  const char *bundle = build("tests/ttir/add.ttir");
  expect(0, "  grid given by the caller\n", "inspect --codes %s", bundle);
}

TEST(run_grid, what_is_no_grid_is_refused) {
  static const char *const wrong[] = {
      "''",   "x",  "1,",  ",1", "1,2,3,4", "1,2,3,", "-1", "4294967296", "99999999999999999999999",
      "' 1'", "1x", "0x10"};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
    expect(2, "--grid: expected X, X,Y or X,Y,Z", "run a b --grid=%s", wrong[i]);
}
