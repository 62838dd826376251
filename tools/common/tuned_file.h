// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads tables of tuned choices that a command line names.
#ifndef KILN_TOOLS_COMMON_TUNED_FILE_H
#define KILN_TOOLS_COMMON_TUNED_FILE_H

#include "tuner/table.h"

/// Adds the table at `path`. An error in it is also printed to stderr with its line and a caret.
kiln_status tuned_file_read(const char *path, kiln_tuner_table *table, kiln_error *err);
/// Prints line `place.line` of a text and a caret under `place.column`, to stderr.
void tuned_file_point(const char *text, size_t size, kiln_tuned_place place);

#endif
