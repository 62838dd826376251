// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel library, built by the programs and run by libkiln on the host, against references.
#include "tests/harness.h"

TEST(kernels, build_and_agree_with_references_on_the_host) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (kiln_test_run(&out, "%s/bin/kiln build kernels/*.kiln --target host --no-cache -o %s/k.kbundle", build,
                    folder))
    FAIL("the build failed:\n%s", out);
  if (kiln_test_run(&out, "%s/bin/kernel-check %s/k.kbundle host", build, folder)) FAIL("%s", out);
}
