// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs what `make demo` and `make kernels` run, and the example application on a bundle that is moved to
// another folder first.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

TEST(demo, transformer_agrees_with_plain_c_on_the_host) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(
          &out,
          "mkdir %s/made %s/moved && ln -s %s/bin %s/made && KILN_CACHE_DIR=%s/cache "
          "env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s CONFIG=${CONFIG:-release} B=%s/made -o programs "
          "kernels KERNEL_TARGETS=host && mv %s/made/kernels.kbundle %s/moved/app && rm -r %s/made",
          folder, folder, kiln_test_build_path(), folder, folder, folder, folder, folder, folder))
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

/// Processor time of the programs that this one waited for.
static long child_seconds(void) {
  struct rusage used;
  if (getrusage(RUSAGE_CHILDREN, &used)) FAIL("getrusage");
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec;
}

// What `make demo` does once Kiln is built takes less than a minute of two processors.
TEST(demo, builds_what_it_shows) {
  const char *folder = kiln_test_folder();
  char *out;
  if (*KILN_TEST_COMPILE) SKIP("the application would need a sanitizer, as the library does");
  long before = child_seconds();
  if (kiln_test_run(&out,
                    "mkdir %s/b && ln -s %s/bin %s/lib %s/include %s/b && examples/demo.sh %s/b && "
                    "%s/b/bin/kiln inspect %s/b/demo/app.kbundle | head -n 3",
                    folder, kiln_test_build_path(), kiln_test_build_path(), kiln_test_build_path(), folder,
                    folder, folder, folder))
    FAIL("%s", out);
  long took = child_seconds() - before;
  // eight, and seven that run in place of products, softmax and norms with scratch memory
  const char *const wanted[] = {"15 kernels, ",        " 0 compiled, 0 failed", "(right)",
                                "\ntargets: gfx942 (", "), sm_90a (",           "), x86-64-v3 ("};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(out, wanted[i])) FAIL("expected '%s', found\n%s", wanted[i], out);
  if (took >= 120) FAIL("expected less than 120 s of processor time, found %ld s", took);
  fprintf(stderr, "%ld s of processor time\n", took);
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

TEST(demo, a_program_counts_its_launches_by_a_hook) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out,
                    "%s/bin/kiln build examples/saxpy/saxpy.kiln -t host --no-cache -q -o %s/app.kbundle && "
                    "gcc " KILN_TEST_COMPILE
                    " -std=c11 -Wall -Wextra -Werror -I%s/include -I. examples/hook/main.c -o "
                    "%s/hook %s/lib/libkiln.so -Wl,-rpath,$(realpath %s/lib) && %s/hook %s/app.kbundle",
                    build, folder, build, folder, build, build, folder, folder))
    FAIL("%s", out);
  static const char wanted[] =
      "5 launches, 0 failed, of saxpy BLOCK=256,warps=4 (nothing was tuned for kernel and "
      "device: by order, or least cost)\n";
  double us = 0;
  if (strncmp(out, wanted, sizeof wanted - 1) != 0 ||
      sscanf(out + sizeof wanted - 1, "%lf us on average", &us) != 1 || us <= 0)
    FAIL("%s", out);
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
