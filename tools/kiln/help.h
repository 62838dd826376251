// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The commands of both programs, as one list.
#ifndef KILN_TOOLS_KILN_HELP_H
#define KILN_TOOLS_KILN_HELP_H

#include <stddef.h>

/// The command's name and what it does, or NULL past the last one. Those of this program come first.
const char *help_command_at(size_t index, const char **out_text);
/// All commands in groups: what `kiln --help` prints.
void help_print(void);

#endif
