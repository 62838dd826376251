// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the subcommands of kiln-tool share. A subcommand is `int kiln_command_<function>(int argc, char
// **argv)`, argv[0] its name; it returns an exit code of tools/common/cli.h.
#ifndef KILN_TOOLS_KILN_TOOL_COMMANDS_H
#define KILN_TOOLS_KILN_TOOL_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "tools/common/cli.h"

#define COMMAND(name, function, group, help) int kiln_command_##function(int argc, char **argv);
#include "tools/kiln-tool/commands.def"
#undef COMMAND

#endif
