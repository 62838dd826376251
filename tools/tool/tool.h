// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the subcommands of kiln-tool share. A subcommand is `int kiln_command_<function>(int argc, char **argv)`, argv[0] its name; it returns the exit
// status: 0 done, 1 the operation failed, 2 the command line is wrong.
#ifndef KILN_TOOLS_TOOL_TOOL_H
#define KILN_TOOLS_TOOL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

#define COMMAND(name, function, help) int kiln_command_##function(int argc, char **argv);
#include "tools/tool/subcommands.def"
#undef COMMAND

/// Prints "kiln-tool: error KILN-E0012: text" to stderr and returns 1.
int kiln_tool_failed(const kiln_error *err);
/// Prints "kiln-tool X: text" and the advice to use --help; returns 2.
int kiln_tool_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// The value of option `name` ("--level") when argv[*at] is `--level V` or `--level=V`; advances *at past it. NULL when argv[*at] is another word.
const char *kiln_tool_option(int argc, char **argv, int *at, const char *name);
/// True and advances when argv[*at] is the flag.
bool kiln_tool_flag(char **argv, int *at, const char *name);
bool kiln_tool_number(const char *text, uint64_t limit, uint64_t *out);

/// Reads a whole file ("-" is standard input) into `out`.
kiln_status kiln_tool_read(const char *path, kiln_buffer *out, kiln_error *err);
/// Writes a file ("-" is standard output) through a temporary beside it; an equal file is left untouched, so that build systems see no change.
kiln_status kiln_tool_write(const char *path, const void *bytes, size_t size, kiln_error *err);

#endif
