// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the example application on a bundle that is moved to another folder first.
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

TEST(demo, transformer_agrees_with_plain_c_on_the_host) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out,
                    "mkdir %s/made %s/moved && %s/bin/kiln build kernels/*.kiln -t host --no-cache -q -o "
                    "%s/made/k.kbundle && mv %s/made/k.kbundle %s/moved/app && rmdir %s/made",
                    folder, folder, build, folder, folder, folder, folder))
    FAIL("the build failed:\n%s", out);
  free(out);
  if (kiln_test_run(&out,
                    "gcc " KILN_TEST_COMPILE
                    " -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -I%s/include -I. examples/transformer/*.c -o "
                    "%s/transformer %s/lib/libkiln.so -Wl,-rpath,$(realpath %s/lib) -lm",
                    build, folder, build, build))
    FAIL("the application does not compile:\n%s", out);
  free(out);
  if (kiln_test_run(&out, "cd %s && ./transformer moved/app --weights weights --tokens 14", folder))
    FAIL("%s", out);
  if (!strstr(out, "(right)") || !strstr(out, "14 tokens"))
    FAIL("expected 14 tokens that are right, found\n%s", out);
  free(out);
}

// The bundle is inside the program: it is removed before the program runs.
TEST(demo, a_program_carries_its_bundle) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out,
                    "%s/bin/kiln build kernels/elementwise.kiln -k 'add[T=f32]' -t host --no-cache -q -o "
                    "%s/app.kbundle && %s/bin/kiln embed %s/app.kbundle -o %s/bundle.S",
                    build, folder, build, folder, folder))
    FAIL("%s", out);
  free(out);
  if (kiln_test_run(&out,
                    "gcc " KILN_TEST_COMPILE
                    " -std=c11 -Wall -Wextra -Werror -I%s/include -I. examples/embedded/main.c %s/bundle.S "
                    "-o %s/embedded %s/lib/libkiln.so -Wl,-rpath,$(realpath %s/lib)",
                    build, folder, folder, build, build))
    FAIL("%s", out);
  free(out);
  if (kiln_test_run(&out, "rm %s/app.kbundle && cd / && %s/embedded", folder, folder)) FAIL("%s", out);
  CHECK_TEXT(out, "3000 sums, 0 wrong, by bundle in memory\n");
  free(out);
  // The program allows an overlay; what the user names goes first, and what cannot be opened is said.
  if (kiln_test_run(&out,
                    "%s/bin/kiln build kernels/elementwise.kiln -k 'add[T=f32]' -t host --no-cache -q -o "
                    "%s/mine.kbundle && EMBEDDED_KERNELS=%s/mine.kbundle %s/embedded | sed 's|%s/||'",
                    build, folder, folder, folder, folder))
    FAIL("%s", out);
  CHECK_TEXT(out, "3000 sums, 0 wrong, by mine.kbundle\n");
  free(out);
  CHECK_INT(kiln_test_run(&out, "EMBEDDED_KERNELS=%s/absent.kbundle %s/embedded", folder, folder), 1);
  CHECK(strstr(out, "absent.kbundle"));
  free(out);
}

// What an application does not allow no environment can do: the library does not look.
TEST(demo, the_library_reads_no_environment) {
  char *out;
  if (!kiln_test_run(NULL, "nm -D %s/lib/libkiln.so.0 | grep -q __asan", kiln_test_build()))
    SKIP("instrumentation reads the environment");
  CHECK_INT(
      kiln_test_run(
          &out,
          "nm -D --undefined-only %s/lib/libkiln.so.0 %s/lib/libkiln-verify.so.0 | grep -E 'getenv|environ'",
          kiln_test_build(), kiln_test_build()),
      1);
  CHECK_TEXT(out, "");
}

TEST(demo, embed_refuses_what_is_no_bundle_or_no_name) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  CHECK_INT(kiln_test_run(NULL, "%s/bin/kiln embed README.md -o %s/x.S", build, folder), 1);
  CHECK_INT(kiln_test_run(NULL, "%s/bin/kiln embed README.md --symbol 'a b' -o %s/x.S", build, folder), 2);
  CHECK(kiln_test_run(NULL, "test -e %s/x.S", folder) != 0);
}
