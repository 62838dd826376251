// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One function per subcommand; argv[0] is its name. It returns the exit code.
#ifndef KILN_TOOLS_KILN_COMMANDS_H
#define KILN_TOOLS_KILN_COMMANDS_H

#include <stdbool.h>

#define COMMAND(name, function, group, text) int function(int argc, char **argv);
#include "tools/kiln/commands.def"
#undef COMMAND

/// Runs a command line as the program does: argv[1] is the command, kiln.conf is read first.
int kiln_run_command(int argc, char **argv);
/// Whether messages have colours, as the settings say. False for a KILN_COLOR that is none of its words.
bool kiln_set_colors(void);

#endif
