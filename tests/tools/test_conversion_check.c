// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs conversion-check on the host: through build, bundle and libkiln.
#include <stdlib.h>

#include "tests/harness.h"

TEST(conversion_check, on_the_host) {
  const char *folder = kiln_test_folder(), *build = kiln_test_build();
  char *out;
  if (kiln_test_run(
          &out,
          "%s/bin/conversion-check --source >%s/c.kiln && %s/bin/kiln build -q --no-cache %s/c.kiln -t "
          "host -o %s/c.kbundle && %s/bin/conversion-check %s/c.kbundle host %d 20261204",
          build, folder, build, folder, folder, build, folder, kiln_test_full() ? 1 << 20 : 1 << 14))
    FAIL("%s", out);
  free(out);
}
