// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the recorded cases of KILN_TEST_CASES, when there are any: a setting of the tests, which commands in
// texts do not get. `kiln check-case` on cases that are made for a test is in tests/text/commands/case_*.test.
#include <stdio.h>
#include <stdlib.h>

#include "tests/harness.h"

TEST(check_case, recorded_cases_on_the_host) {
  const char *folder = getenv("KILN_TEST_CASES");
  if (!folder || !*folder) SKIP("KILN_TEST_CASES names no folder of recorded cases");
  if (!kiln_test_full()) SKIP("runs in check-full only");
  char *out =
      kiln_test_run_to(0, "%s/bin/kiln-tool check-case -q -j 2 --timeout 300 %s", kiln_test_build(), folder);
  printf("%s\n", out);
  free(out);
}
