// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the words in environment variables mean, the same to every program; env.def lists the variables.
#ifndef KILN_BASE_ENV_H
#define KILN_BASE_ENV_H

#include <stdbool.h>

/// "1", "on", "yes", "true". NULL is none of them.
bool kiln_env_is_yes(const char *text);

#endif
