// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the words in environment variables mean, the same to every program, and which of them a program hands
// on; env.def lists the variables.
#ifndef KILN_BASE_ENV_H
#define KILN_BASE_ENV_H

#include <stdbool.h>

/// "1", "on", "yes", "true". NULL is none of them.
bool kiln_env_is_yes(const char *text);

/// Who a program is started for. What makes code must not depend on who starts it: the loader's variables,
/// the locale, the C library's tuning and the rest are left behind.
typedef enum kiln_env_child {
  KILN_ENV_COMPILER, ///< makes code: where temporary files go, what sanitizers do
  KILN_ENV_HELPER,   ///< packs, stores or sends it: also the settings of env.def, where certificates are and
                     ///< how names are resolved
} kiln_env_child;

enum { KILN_ENV_MOST = 96 };

/// Of `environment` what such a child gets, ended by NULL; the texts are borrowed. Where a variable is there
/// twice, the first counts.
void kiln_env_for(kiln_env_child child, char *const *environment, char *out[KILN_ENV_MOST + 1]);
/// Adds "NAME=value" to such a list, in place of what it has of that name; the text is borrowed.
void kiln_env_set(char *list[KILN_ENV_MOST + 1], char *text);

#endif
