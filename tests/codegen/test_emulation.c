// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs AMDGPU code objects on an emulator, if the environment names one (tests/emulation/emulate.py says
// how).
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"

TEST(emulation, kernels_compute_what_they_should) {
  if (!getenv("KILN_AMD_EMULATOR") || !getenv("KILN_AMDRUN"))
    SKIP("KILN_AMD_EMULATOR and KILN_AMDRUN do not name an emulator and its driver");
  char *out = NULL;
  int status = kiln_test_run(&out, "KILN_BUILD=%s python3 tests/emulation/emulate.py", kiln_test_build());
  fputs(out, stdout);
  if (status != 0) FAIL("the emulation run ended with %d:\n%s", status, out);
  free(out);
}
