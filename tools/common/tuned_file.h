// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables of tuned choices as files of a command line.
#ifndef KILN_TOOLS_COMMON_TUNED_FILE_H
#define KILN_TOOLS_COMMON_TUNED_FILE_H

#include "tuner/table.h"

/// Adds the table at `path`. A mistake in it is printed to stderr with its line and a caret, too.
kiln_status tuned_file_read(const char *path, kiln_tuner_table *table, kiln_error *err);
/// Prints line `place.line` of a text and a caret under `place.column`, to stderr.
void tuned_file_point(const char *text, size_t size, kiln_tuned_place place);

#endif
