// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a build does for tuning: it takes a table of choices into the bundle (--tuned), or says in the bundle
// what `kiln tune` wants to know of its kernels (--tuning). Both are notes.
#ifndef KILN_TOOLS_KILN_TUNING_H
#define KILN_TOOLS_KILN_TUNING_H

#include "tools/kiln/plan.h"

/// Reads the table at `path`, or of a folder those that are called *.table, into the plan. Its mistakes go to
/// stderr with the line and a caret.
kiln_status tuning_read_table(plan *p, const char *path, kiln_error *err);
/// After lowering: that what the table names of these kernels is there. `strict`: choices that were measured
/// with code of other tools are an error, else a note. `quiet`: no notes.
kiln_status tuning_check_table(const plan *p, const char *path, bool strict, bool quiet, kiln_error *err);
/// Appends the notes to a manifest.
void tuning_notes(const plan *p, kiln_buffer *manifest);

#endif
