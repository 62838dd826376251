// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void kiln_check_failed(const char *file, int line, const char *condition) {
  fprintf(stderr, "kiln: internal fault: %s:%d: expected %s\n", file, line, condition);
  abort();
}
