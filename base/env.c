// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interprets the values of environment variables, and selects those that a program passes on to the
// programs that it starts.
#include "base/env.h"

#include <stddef.h>
#include <string.h>

bool kiln_env_is_yes(const char *text) {
  static const char *const yes[] = {"1", "on", "yes", "true"};
  for (size_t i = 0; text && i < sizeof yes / sizeof *yes; i++)
    if (!strcmp(text, yes[i])) return true;
  return false;
}

// None of these changes the bytes that a program makes.
static const char *const for_all[] = {"TMPDIR", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS",
                                      "UBSAN_OPTIONS"};
static const char for_helpers[][28] = {
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "RES_OPTIONS",
    "LOCALDOMAIN",
#define ENV(name, role, reader, help) #name,
#include "base/env.def"
#undef ENV
};
#define ENV(name, role, reader, help) \
  _Static_assert(sizeof #name <= sizeof *for_helpers, "it has room: " #name);
#include "base/env.def"
#undef ENV
enum { ALL = sizeof for_all / sizeof *for_all, HELPERS = sizeof for_helpers / sizeof *for_helpers };
_Static_assert(ALL + HELPERS <= KILN_ENV_MOST, "every variable has a place");

void kiln_env_set(char *list[KILN_ENV_MOST + 1], char *text) {
  size_t length = strcspn(text, "=") + 1, at = 0;
  while (list[at] && strncmp(list[at], text, length)) at++;
  if (at == KILN_ENV_MOST) return; // more names than there are rows
  if (!list[at]) list[at + 1] = NULL;
  list[at] = text;
}

void kiln_env_for(kiln_env_child child, char *const *environment, char *out[KILN_ENV_MOST + 1]) {
  size_t count = 0;
  for (size_t i = 0; i < ALL + (child == KILN_ENV_HELPER ? HELPERS : 0); i++) {
    const char *name = i < ALL ? for_all[i] : for_helpers[i - ALL];
    size_t length = strlen(name);
    char *const *at = environment;
    while (at && *at && (strncmp(*at, name, length) || (*at)[length] != '=')) at++;
    if (at && *at) out[count++] = *at;
  }
  out[count] = NULL;
}
