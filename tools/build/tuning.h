// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a build does for tuning: it takes a table of choices into the bundle (--tuned), or says in the bundle
// what `kiln tune` wants to know of its kernels (--tuning). Both are notes.
#ifndef KILN_TOOLS_BUILD_TUNING_H
#define KILN_TOOLS_BUILD_TUNING_H

#include "tools/build/plan.h"

/// Reads the table at `path`, or of a folder those that are called *.table, into the plan. Its mistakes go to
/// stderr with the line and a caret.
kiln_status tuning_read_table(plan *p, const char *path, kiln_error *err);
/// Reads the tables that lie in the folder `tuned` beside the sources, where one has a choice for a target of
/// the plan; else the plan is left without a table.
kiln_status tuning_read_beside(plan *p, const cli_list *sources, kiln_error *err);
/// Whether a choice is for devices that run code for the target.
bool tuning_is_for_target(const kiln_tuned_entry *entry, const kiln_target *target);

/// After lowering: that what the table names of these kernels is there. `quiet`: no notes.
kiln_status tuning_check_table(plan *p, bool quiet, kiln_error *err);
/// After compiling: a note when choices were measured with other code than there is now (docs/tuning.md).
void tuning_code_notes(const plan *p, kiln_buffer *out);
/// The same as an error, also where nothing says what the code was (--tuned-strict).
kiln_status tuning_check_codes(const plan *p, kiln_error *err);
/// Appends the notes to a manifest.
void tuning_notes(const plan *p, kiln_buffer *manifest);

#endif
