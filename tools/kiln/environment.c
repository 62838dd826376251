// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the environment variables of `kiln` that base/env.def lists.
#include "tools/kiln/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/nearest.h"
#include "base/texts.h"

static const char names[][28] = {
#define ENV(name, role, reader, help) #name,
#include "base/env.def"
#undef ENV
};
#define ENV(name, role, reader, help) _Static_assert(sizeof #name <= sizeof *names, "it has room: " #name);
#include "base/env.def"
#undef ENV

static const char readers[] =
#define ENV(name, role, reader, help) reader "\0"
#include "base/env.def"
#undef ENV
    ;

const char *environment_variable(unsigned index) { return names[index]; }

const char *environment_reader(unsigned index) { return kiln_text_at(readers, index); }

bool environment_is_setting(unsigned index) {
  return !strncmp(names[index], "KILN_", 5) && strncmp(environment_reader(index), "Python", 6) &&
         index != ENV_KILN_CONFIG;
}

const char *environment_get(environment_name name) {
  const char *value = secure_getenv(names[name]);
  return value && *value ? value : NULL;
}

bool environment_flag(environment_name name, bool absent) {
  const char *value = environment_get(name);
  return value ? kiln_env_is_yes(value) : absent;
}

kiln_status environment_parse_size(const char *text, uint64_t *out) {
  static const char units[] = "KMGT";
  char *end;
  if (*text < '0' || *text > '9') return KILN_STATUS_INVALID_ARGUMENT;
  unsigned long long number = strtoull(text, &end, 10);
  const char *unit = *end ? strchr(units, *end) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if ((*end && !unit) || (unit && end[1]) || number > UINT64_MAX >> shift)
    return KILN_STATUS_INVALID_ARGUMENT;
  *out = (uint64_t)number << shift;
  return KILN_OK;
}

kiln_status environment_size(environment_name name, uint64_t most, uint64_t *in_out, kiln_error *err) {
  const char *value = environment_get(name);
  if (!value) return KILN_OK;
  bool is_number = !environment_parse_size(value, in_out);
  if (is_number && *in_out > most)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: expected at most %" PRIu64 ", found \"%.60s\"",
                     names[name], most, value);
  if (is_number) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "%s: expected a number with an optional K, M, G or T, found \"%.60s\"", names[name],
                   value);
}

static bool is_known(const char *name) {
  unsigned i = 0;
  while (i < ENV_COUNT && strcmp(names[i], name)) i++;
  return i < ENV_COUNT;
}

bool environment_next_misspelt(size_t *at, char *out, size_t capacity) {
  static const char ours[] = "KILN_";
  enum { OURS = sizeof ours - 1 };
  for (; environ && environ[*at]; ++*at) {
    char name[64];
    size_t length = strcspn(environ[*at], "=");
    if (strncmp(environ[*at], ours, OURS) || length >= sizeof name) continue;
    snprintf(name, sizeof name, "%.*s", (int)length, environ[*at]);
    if (is_known(name)) continue;
    kiln_nearest near = kiln_nearest_to(name + OURS);
    for (unsigned i = 0; i < ENV_COUNT; i++)
      if (!strncmp(names[i], ours, OURS)) kiln_nearest_consider(&near, names[i] + OURS);
    if (!near.best) continue;
    ++*at;
    snprintf(out, capacity, "%s is no setting; did you mean KILN_%s?", name, near.best);
    return true;
  }
  return false;
}
