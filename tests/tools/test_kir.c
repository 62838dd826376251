// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln compile` of a kernel at a stage: --until writes it, compiling on gives the same code, errors
// in such a text are reported with their place, and it reaches neither cache nor bundle.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char scale[] = "kiln 1\n\n"
                            "kernel scale(x: in *f32 @align(16), z: out *f32 @align(16), n: i32)\n"
                            "  @grid(cdiv(n, 256)) @config(warps = 4)\n"
                            "{\n"
                            "  let i = pid(0) * 256 + iota(256)\n"
                            "  store(z + i, load(x + i, i < n) * 3.0, i < n)\n"
                            "}\n";

/// What `kiln WORDS` printed in the test's folder, its exit code checked.
static char *kiln(int code, const char *words) {
  char *out;
  const char *folder = kiln_test_folder();
  int got = kiln_test_run(&out, "kiln=$(realpath %s/bin/kiln) && cd %s && (KILN_CACHE_DIR=%s/cache $kiln %s)",
                          kiln_test_build(), folder, folder, words);
  if (got != code) FAIL("kiln %s: exit code %d, expected %d:\n%s", words, got, code, out);
  return out;
}

static void write_file(const char *name, const char *text) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), name);
  kiln_test_write(path, text, strlen(text));
}

static char *read_file(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", kiln_test_folder(), name);
  char *text = kiln_test_read(path, NULL);
  if (!text) FAIL("%s is not there", path);
  return text;
}

static void expect(const char *out, const char *text) {
  if (!strstr(out, text)) FAIL("expected \"%s\" in\n%s", text, out);
}

TEST(kir, the_rest_of_the_way_gives_the_same_code) {
  static const char *const targets[] = {"sm_90a", "gfx942", "x86-64-v3"};
  write_file("scale.kiln", scale);
  for (size_t i = 0; i < 3; i++) {
    char words[300];
    snprintf(words, sizeof words, "compile scale.kiln -t %s --until=guard -o guard.kir", targets[i]);
    free(kiln(0, words));
    char *text = read_file("guard.kir");
    expect(text, "after guard");
    expect(text, "kernel kiln_scale warps=4");
    free(text);
    snprintf(words, sizeof words, "compile scale.kiln -t %s --ptx-assembler=none -o whole", targets[i]);
    free(kiln(0, words));
    free(kiln(0, "compile guard.kir --ptx-assembler=none -o rest"));
    free(kiln(0, "compile guard.kir --until=simplify-last -o last.kir"));
    free(kiln(0, "compile last.kir --ptx-assembler=none -o last"));
    CHECK(!kiln_test_run(NULL, "cd %s && cmp whole rest && cmp whole last", kiln_test_folder()));
  }
}

TEST(kir, print_after_prints_what_is_read) {
  write_file("scale.kiln", scale);
  free(kiln(0, "compile scale.kiln -t sm_80 --ptx-assembler=none --print-after=fetch -o whole 2>fetch.kir"));
  free(kiln(0, "compile fetch.kir --ptx-assembler=none -o rest"));
  CHECK(!kiln_test_run(NULL, "cd %s && cmp whole rest", kiln_test_folder()));
  free(kiln(0, "compile scale.kiln -t sm_80 --ptx-assembler=none --print-after=all -o whole 2>all.kir"));
  expect(kiln(1, "compile all.kir"),
         "error: expected the end of the text: it holds one kernel, found 'kir'\n");
}

TEST(kir, nothing_of_it_is_kept) {
  write_file("scale.kiln", scale);
  free(kiln(0, "compile scale.kiln -t sm_80 --until=guard -o guard.kir"));
  free(kiln(0, "compile guard.kir --ptx-assembler=none -o code"));
  CHECK_TEXT(kiln(0, "cache ls"), "");
  expect(kiln(1, "build guard.kir -o b"),
         "guard.kir is a kernel between passes: only `kiln compile` takes it");
  expect(kiln(1, "key guard.kir"), "guard.kir is a kernel between passes: only `kiln compile` takes it");
  CHECK(kiln_test_run(NULL, "test -e %s/b", kiln_test_folder()));
}

TEST(kir, what_does_not_fit_is_refused) {
  write_file("scale.kiln", scale);
  free(kiln(0, "compile scale.kiln -t sm_80 --until=guard -o guard.kir"));
  expect(kiln(1, "compile guard.kir -t sm_90a"), "guard.kir is a kernel on its way to sm_80, not to sm_90a");
  free(kiln(0, "compile guard.kir -t sm_80"));
  expect(kiln(2, "compile guard.kir --config=0"), "--config: a .kir file is one kernel on its way");
  expect(kiln(2, "compile guard.kir --report"), "--report: a .kir file");
  expect(kiln(1, "compile guard.kir --until=views"), "pass 'views' has run on this kernel for sm_80");
  expect(kiln(1, "compile guard.kir --until=roles"), "pass 'roles' does not run on this kernel for sm_80");
  expect(kiln(1, "compile guard.kir --until=guarded"),
         "no pass is called 'guarded'; expected one of all, canonical");
  expect(kiln(1, "compile nothing.kir"), "nothing.kir");
}

/// A text with one fault, and what is said of it.
static const struct {
  const char *from, *to, *message;
} faults[] = {
    {"kir 2", "kir 1", "bad.kir:1:5: error: expected a number from 2 to 2, found '1'\n  kir 1\n      ^"},
    {"target sm_80", "target sm_81", "bad.kir:2:8: error:"},
    {"after guard", "after gard",
     "bad.kir:3:7: error: expected the name of a pass, such as guard, or 'front', found "
     "'gard'"},
    {"warps=4", "warps=3", "bad.kir:4:1: error: expected a power of two of warps, found 3"},
    {"in *f32", "in *f33", "bad.kir:5:14: error: expected a type, found 'f33'"},
    {"align=16", "align=12", "error: expected a power of two, found 12"},
    {"cmp.lt", "cmp.lx", "error: cmp: expected its kind after a '.', one of eq, ne, lt, le, gt, ge"},
    {"cmp.lt", "cmp", "error: cmp: expected its kind after a '.'"},
    {"pid axis=0", "pid axis=3", "error: expected a number from 0 to 2, found '3'"},
    {"pid axis=0", "pid turn=0", "error: expected an attribute of pid, found 'turn'"},
    {"iota", "iotas", "error: expected an operation, found 'iotas'"},
    {"i32[256] = iota", "i32[255] = iota", "error: expected a power of two, found 255"},
    {"i32[256] = iota", "f32[256] = iota", "error: iota: expected a result type i32[n]"},
    {" = iota", " iota", "error: expected '=', found 'iota'"},
    {"  store ", "  store %99, ", "error: expected a value that is defined before, found %99"},
    {"  store ", "  store @l0 ", "error: expected the end of the line, found '@'"},
    {"\n}", "\n  %5: i32 = const 1\n}", "error: expected a new name, found %5, which line"},
    {"\n}", "\n", "error: expected an operation or '}', found the end of the text"},
    {"\n}", "\n} more", "error: expected the end of the text: it holds one kernel, found 'more'"},
    {"\n}", "\n  barrier barrier\n}", "error: expected an attribute of barrier, found 'barrier'"},
    {"\n{", "\n  condition param=99 0 ge\n{", "error: expected a launch expression that leaves one value"},
    {"\n{", "\n  condition 1 2\n{", "error: expected a launch expression that leaves one value"},
    {"\n{", "\n  condition ad\n{", "error: expected an operation of launch expressions, found 'ad'"},
    {" stages=0", " stages=0 tested=1,2", "error: expected ',', found"},
    {"\n}", "\n  yield\n}", "error: the kernel does not verify: after reading"},
};

TEST(kir, each_fault_has_a_place_and_a_message) {
  write_file("scale.kiln", scale);
  free(kiln(0, "compile scale.kiln -t sm_80 --until=guard -o guard.kir"));
  char *good = read_file("guard.kir"), *bad = malloc(strlen(good) + 200);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    const char *at = strstr(good, faults[i].from);
    if (!at) FAIL("%s is not in\n%s", faults[i].from, good);
    sprintf(bad, "%.*s%s%s", (int)(at - good), good, faults[i].to, at + strlen(faults[i].from));
    write_file("bad.kir", bad);
    char *out = kiln(1, "compile bad.kir");
    if (strncmp(out, "bad.kir:", 8) != 0) FAIL("no place in\n%s", out);
    expect(out, faults[i].message);
    CHECK(strstr(out, "^\n"));
    free(out);
  }
  free(bad);
  free(good);
}
