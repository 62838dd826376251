// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a build does for tuning: it stores a table of choices in the bundle (--tuned), or what `kiln tune`
// needs to know about its kernels (--tuning). Both are notes of the bundle.
#ifndef KILN_TOOLS_BUILD_TUNING_H
#define KILN_TOOLS_BUILD_TUNING_H

#include "tools/build/plan.h"

/// Reads the table at `path`, or all *.table of a folder, into the plan. Errors in it go to stderr with the
/// line and a caret.
kiln_status tuning_read_table(plan *p, const char *path, kiln_error *err);
/// Reads the tables in the folder `tuned` next to the sources, if one has a choice for a target of the plan;
/// otherwise the plan stays without a table.
kiln_status tuning_read_beside(plan *p, const cli_list *sources, kiln_error *err);

/// After lowering: checks that everything the table names of these kernels exists. `quiet`: no notes.
kiln_status tuning_check_table(plan *p, bool quiet, kiln_error *err);
/// After compiling: adds a note when choices were measured with other code than this build made
/// (docs/tuning.md).
void tuning_code_notes(const plan *p, kiln_buffer *out);
/// The same as an error, also if the table does not say what the code was (--tuned-strict).
kiln_status tuning_check_codes(const plan *p, kiln_error *err);
/// Appends the notes to a manifest.
void tuning_notes(const plan *p, kiln_buffer *manifest);

#endif
