// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The example application, on a bundle that is carried to another folder before it is used.
#include "tests/harness.h"

#include <string.h>

TEST(demo, transformer_agrees_with_plain_c_on_the_host) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out, "mkdir %s/made %s/moved && %s/bin/kiln build kernels/*.kiln -t host --no-cache -q -o %s/made/k.kbundle && mv %s/made/k.kbundle %s/moved/app && rmdir %s/made",
                    folder, folder, build, folder, folder, folder, folder))
    FAIL("the build failed:\n%s", out);
  if (kiln_test_run(&out, "gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -I. examples/transformer/*.c -o %s/transformer %s/lib/libkiln.so -Wl,-rpath,$(realpath %s/lib) -lm",
                    folder, build, build))
    FAIL("the application does not compile:\n%s", out);
  if (kiln_test_run(&out, "cd %s && ./transformer moved/app --weights weights --tokens 14", folder)) FAIL("%s", out);
  if (!strstr(out, "(right)") || !strstr(out, "14 tokens")) FAIL("expected 14 tokens that are right, found\n%s", out);
}
