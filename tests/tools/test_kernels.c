// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the kernel library, built by the programs and run by libkiln on the host, against references.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

/// Kernels of tests/kernels that have tests of their own.
static const char *const others[] = {"add_one", "low_bits", "product", "scaled", "scaled_backward"};

/// kernel-check names what no case launches: these, which shows that it would name others too.
static void check_not_launched(const char *out) {
  static const char words[] = "no case launches ";
  bool seen[sizeof others / sizeof *others] = {false};
  for (const char *at = out; (at = strstr(at, words));) {
    at += strlen(words);
    const size_t length = strcspn(at, "[\n");
    bool is_other = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
      if (length == strlen(others[i]) && !strncmp(at, others[i], length)) is_other = seen[i] = true;
    if (!is_other) FAIL("no case launches %.*s, of kernels/", (int)strcspn(at, "\n"), at);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!seen[i]) FAIL("nobody says that no case launches %s:\n%s", others[i], out);
}

TEST(kernels, build_and_agree_with_references_on_the_host) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(
          &out,
          "%s/bin/kiln build kernels/*.kiln tests/kernels/*.kiln --target host --no-cache -o %s/k.kbundle",
          build, folder))
    FAIL("the build failed:\n%s", out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kernel-check %s/k.kbundle host", build, folder), 1);
  if (!strstr(out, " passed, 0 failed, 0 skipped")) FAIL("%s", out);
  check_not_launched(out);
}

/// A softmax that is right and does one thing more.
static const char softmax[] =
    "kiln 1\nkernel softmax[T: type = f32](x: in *T, y: out *T, rows: i32, cols: i32, ldx: i32, ldy: i32)\n"
    "  @instance(T = f32) @instance(T = f16) @instance(T = bf16) @grid(rows)\n{\n"
    "  let c = iota(8192)\n  let v = load(x + pid(0) * ldx + c, c < cols + %d, -inf) as f32\n"
    "  let e = exp(v - reduce.max(v, 0))\n"
    "  store(y + pid(0) * ldy + c, (e / reduce.add(e, 0)) as T, c < cols)\n"
    "  store(%s, 1.0 as T, pid(0) == rows - %d)\n}\n";

typedef struct planted {
  int more;          ///< columns that it reads
  const char *place; ///< that the last program writes to; NULL: none
  const char *text;  ///< of the report
} planted;

static void check_planted(const planted *p) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char source[1000], path[500], *out;
  snprintf(source, sizeof source, softmax, p->more, p->place ? p->place : "y", p->place ? 1 : 0);
  snprintf(path, sizeof path, "%s/s.kiln", folder);
  kiln_test_write(path, source, strlen(source));
  if (kiln_test_run(&out, "%s/bin/kiln build %s --target host --no-cache -o %s/s.kbundle", build, path,
                    folder))
    FAIL("the build failed:\n%s", out);
  free(out);
  kiln_test_run(&out, "%s/bin/kernel-check %s/s.kbundle host softmax 2", build, folder);
  if (!strstr(out, p->text)) FAIL("expected '%s', found\n%s", p->text, out);
  free(out);
}

TEST(kernels, accesses_outside_are_reported) {
  static const planted all[] = {{0, NULL, "softmax                pass"},
                                {0, "y + cols", "y: row 0, column "},
                                {0, "y - 1", "y: element 1 before the first is written"},
                                {0, "y + pid(0) * ldy + cols", "y: element 1 after the last is written"},
                                {1, NULL, "nan, expected "}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_planted(&all[i]);
}
