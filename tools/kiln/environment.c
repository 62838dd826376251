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
#include "base/url.h"
#include "tools/common/cli.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/config.h"

static const char names[][28] = {
#define ENV(name, role, reader, help) #name,
#include "base/env.def"
#undef ENV
};
#define ENV(name, role, reader, help) _Static_assert(sizeof #name <= sizeof *names, "it has room: " #name);
#include "base/env.def"
#undef ENV

static const char roles[] =
#define ENV(name, role, reader, help) #role "\0"
#include "base/env.def"
#undef ENV
    ;
static const char readers[] =
#define ENV(name, role, reader, help) reader "\0"
#include "base/env.def"
#undef ENV
    ;
static const char helps[] =
#define ENV(name, role, reader, help) help "\0"
#include "base/env.def"
#undef ENV
    ;

const char *environment_variable(unsigned index) { return names[index]; }

bool environment_is_setting(unsigned index) {
  return !strncmp(names[index], "KILN_", 5) && strncmp(kiln_text_at(readers, index), "Python", 6) &&
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

/// The value as it may be shown: without passwords.
static void show_value(environment_name name, const char *value, char *out, size_t capacity) {
  static const environment_name secrets[] = {ENV_KILN_CACHE_REMOTE_TOKEN, ENV_KILN_CACHE_S3_SECRET,
                                             ENV_AWS_SECRET_ACCESS_KEY,   ENV_AWS_SESSION_TOKEN,
                                             ENV_KILN_REGISTRY_LOGIN,     ENV_KILN_REGISTRY_TOKEN};
  bool is_secret = false;
  for (unsigned i = 0; i < sizeof secrets / sizeof *secrets; i++) is_secret |= name == secrets[i];
  if (is_secret) snprintf(out, capacity, "(not shown)");
  else if (name == ENV_KILN_CACHE_REMOTE) kiln_url_shown(value, out, capacity);
  else snprintf(out, capacity, "%s", value);
}

/// "the environment" or "/etc/kiln/kiln.conf:2"; false where nothing sets it.
static bool find_origin(environment_name name, char *value, char *origin, size_t capacity) {
  unsigned line;
  const char *file = config_origin(name, &line), *text = secure_getenv(names[name]);
  if (!text) return false;
  show_value(name, text, value, capacity);
  if (file) snprintf(origin, capacity, "%s:%u", file, line);
  else snprintf(origin, capacity, "the environment");
  return true;
}

int kiln_command_env(int argc, char **argv) {
  bool json = false;
  cli_list words = {0};
  const cli_option options[] = {{"json", 0, CLI_FLAG, &json, NULL, "print the table as JSON"}};
  const cli_page page =
      CLI_PAGE("kiln env [--json]",
               "Lists every environment variable that any program of Kiln reads. IN_KEY: its value "
               "is part of the cache key.\n"
               "NEUTRAL: it never changes what comes out. Below each one that is set: its value and what "
               "set it, the environment or a line of\nkiln.conf.",
               options);
  int code = cli_parse(&page, argc, argv, &words);
  if (code == -1 && words.count) code = cli_usage(&page, "expected no words, found '%s'", words.items[0]);
  cli_list_deinit(&words);
  if (code != -1) return code;
  kiln_buffer out = {0};
  for (unsigned i = 0; i < ENV_COUNT; i++) {
    char value[4096], origin[4096];
    bool is_set = find_origin((environment_name)i, value, origin, sizeof value);
    const char *role = kiln_text_at(roles, i), *reader = kiln_text_at(readers, i),
               *help = kiln_text_at(helps, i);
    if (!json) {
      kiln_buffer_format(&out, "%-24s %-8s %-12s %s\n", names[i], role, reader, help);
      if (is_set) kiln_buffer_format(&out, "    = %s (%s)\n", cli_name(value), cli_name(origin));
      continue;
    }
    kiln_buffer_format(&out, "%s\n {\"name\": \"%s\", \"role\": \"%s\", \"reader\": \"%s\", \"text\": ",
                       i ? "," : "[", names[i], role, reader);
    cli_json_text(&out, help);
    if (is_set) {
      kiln_buffer_format(&out, ", \"value\": ");
      cli_json_text(&out, value);
      kiln_buffer_format(&out, ", \"origin\": ");
      cli_json_text(&out, origin);
    }
    kiln_buffer_format(&out, "}");
  }
  if (json) kiln_buffer_format(&out, "\n]\n");
  fwrite(out.bytes, 1, out.size, stdout);
  kiln_buffer_deinit(&out);
  return CLI_OK;
}
