// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-tool: everything that needs the runtime or the bundle writer. The user types `kiln`, which starts this
// program.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/output.h"
#include "base/program.h"
#include "tools/kiln-tool/commands.h"

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} command;

static const command commands[] = {
#define COMMAND(name, function, group, help) {name, kiln_command_##function, help},
#include "tools/kiln-tool/commands.def"
#undef COMMAND
};

static void print_help(FILE *out) {
  fprintf(out, "usage: kiln COMMAND [options] ...\n\n");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].help);
}

int main(int argc, char **argv) {
  kiln_program_begin();
  (void)cli_color(secure_getenv("KILN_COLOR"), secure_getenv("NO_COLOR"), secure_getenv("TERM"));
  kiln_output_complete(kiln_env_is_yes(secure_getenv("KILN_CACHE_DURABLE")));
  static const char *const help[] = {"--help", "-h", "help", "tool-help"};
  for (size_t i = 0; argc >= 2 && i < sizeof help / sizeof *help; i++)
    if (!strcmp(argv[1], help[i])) return print_help(stdout), CLI_OK;
  for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof *commands; i++)
    if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
  if (argc >= 2) fprintf(stderr, "kiln: error: '%s' is not a command\n", argv[1]);
  print_help(stderr);
  return CLI_USAGE;
}
