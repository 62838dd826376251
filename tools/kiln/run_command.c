// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a command of `kiln` by its name, or hands it over to kiln-tool.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/output.h"
#include "tools/common/cli.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/environment.h"

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
#define COMMAND(name, function, group, text) {name, function},
#include "tools/kiln/commands.def"
#undef COMMAND
};

/// The commands of kiln-tool, from its own table.
static const char *const tool_commands[] = {
#define COMMAND(name, function, group, text) name,
#include "tools/kiln-tool/commands.def"
#undef COMMAND
    "tool-help",
};

static int unknown_command(const char *name) {
  kiln_nearest n = kiln_nearest_to(name);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) kiln_nearest_consider(&n, commands[i].name);
  for (size_t i = 0; i < sizeof tool_commands / sizeof *tool_commands; i++)
    kiln_nearest_consider(&n, tool_commands[i]);
  fprintf(stderr, "kiln: error: '%s' is not a command", name);
  if (n.best) fprintf(stderr, "; did you mean '%s'?", n.best);
  fputs("\n\ncommands:", stderr);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) fprintf(stderr, " %s", commands[i].name);
  for (size_t i = 0; i < sizeof tool_commands / sizeof *tool_commands - 1;
       i++) // but tool-help, which is ours
    fprintf(stderr, " %s", tool_commands[i]);
  fputs("\n`kiln --help` says what each one does.\n", stderr);
  return CLI_USAGE;
}

__attribute__((noinline)) static int hand_over(char **argv) { // its path is not on the stack of commands
  char path[PATH_MAX];
  size_t i = 0;
  while (i < sizeof tool_commands / sizeof *tool_commands && strcmp(argv[1], tool_commands[i])) i++;
  if (i == sizeof tool_commands / sizeof *tool_commands) return unknown_command(argv[1]);
  kiln_error err = {0};
  kiln_status status = cli_need_program("kiln-tool", path, sizeof path, &err);
  if (status != KILN_OK)
    return cli_report(kiln_context(&err, status, "'%s' is a command of kiln-tool", argv[1]), &err);
  execv(path, argv);
  fprintf(stderr, "kiln: error: cannot start %s: %s\n", path, strerror(errno));
  return CLI_FAILED;
}

bool kiln_set_colors(void) {
  return cli_color(environment_get(ENV_KILN_COLOR), environment_get(ENV_NO_COLOR), environment_get(ENV_TERM));
}

int kiln_run_command(int argc, char **argv) {
  for (int i = 2; i < argc; i++) // of errors in kiln.conf
    if (!strcmp(argv[i], "--json")) cli_json_on_failure(true);
  kiln_error err = {0};
  kiln_status status = config_load(&err);
  if (status != KILN_OK) return cli_report(status, &err);
  if (!kiln_set_colors())
    fprintf(stderr, "kiln: note: KILN_COLOR: expected auto, always or never, found \"%s\"\n",
            environment_get(ENV_KILN_COLOR));
  if (environment_check_flag(ENV_KILN_VERIFY_PASSES, &err) != KILN_OK)
    fprintf(stderr, "kiln: note: %s\n", err.text);
  kiln_output_complete(environment_flag(ENV_KILN_CACHE_DURABLE, false));
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
  return hand_over(argv);
}
