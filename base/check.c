// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ends a program whose own invariant does not hold, with the place and the condition.
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void kiln_check_failed(const char *file, int line, const char *condition) {
  fprintf(stderr, "kiln: internal fault: %s:%d: expected %s\n", file, line, condition);
  abort();
}
