// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/env.h"

#include <stddef.h>
#include <string.h>

bool kiln_env_is_yes(const char *text) {
  static const char *const yes[] = {"1", "on", "yes", "true"};
  for (size_t i = 0; text && i < sizeof yes / sizeof *yes; i++)
    if (!strcmp(text, yes[i])) return true;
  return false;
}
