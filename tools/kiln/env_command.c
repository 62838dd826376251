// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln env: every environment variable that a program of Kiln reads, its value, and what set it.
#include <stdio.h>
#include <stdlib.h>

#include "base/texts.h"
#include "base/url.h"
#include "tools/common/cli.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/environment.h"

static const char roles[] =
#define ENV(name, role, reader, help) #role "\0"
#include "base/env.def"
#undef ENV
    ;
static const char helps[] =
#define ENV(name, role, reader, help) help "\0"
#include "base/env.def"
#undef ENV
    ;

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
  const char *file = config_origin(name, &line), *text = secure_getenv(environment_variable(name));
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
    const char *role = kiln_text_at(roles, i), *reader = environment_reader(i),
               *help = kiln_text_at(helps, i);
    if (!json) {
      kiln_buffer_format(&out, "%-24s %-8s %-12s %s\n", environment_variable(i), role, reader, help);
      if (is_set) kiln_buffer_format(&out, "    = %s (%s)\n", cli_name(value), cli_name(origin));
      continue;
    }
    kiln_buffer_format(&out, "%s\n {\"name\": \"%s\", \"role\": \"%s\", \"reader\": \"%s\", \"text\": ",
                       i ? "," : "[", environment_variable(i), role, reader);
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
