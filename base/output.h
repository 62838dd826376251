// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that a program makes for its user: whole or not at all, whoever dies when, and untouched when nothing
// changed.
#ifndef KILN_BASE_OUTPUT_H
#define KILN_BASE_OUTPUT_H

#include <stddef.h>

#include "base/status.h"

/// Makes `path` hold exactly `bytes`. A file that does already keeps its time, so that what depends on it is
/// not built again. Readers see the former content or the new one. The new content has no name (O_TMPFILE)
/// until it is complete; a former file is replaced by way of `path`.tmp, which a writer that dies between two
/// calls leaves behind, complete, for the next one to take away. Where a file system has no nameless files
/// the writer goes through `path`.PID.tmp. Writers of one path at the same time do not disturb each other:
/// the last one stays.
kiln_status kiln_output_write(const char *path, const void *bytes, size_t size, kiln_error *err);
/// Takes away what a writer of `path` that died may have left.
void kiln_output_clean(const char *path);

#endif
