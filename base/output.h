// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that a program makes for its user: whole or not at all, whoever dies when, and untouched when nothing
// changed.
#ifndef KILN_BASE_OUTPUT_H
#define KILN_BASE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/// Makes `path` hold exactly `bytes`. A file that does already keeps its time, so that what depends on it is
/// not built again. Readers see the former content or the new one; after a loss of power, too, since the
/// content is on its way through the disk before it gets a name. The new content has no name (O_TMPFILE)
/// until it is complete; a former file is replaced by way of a name that is ours alone
/// (kiln_output_temporary), which a writer that dies between two calls leaves behind for the next one to take
/// away. Writers of one path at the same time do not disturb each other: the last one stays.
kiln_status kiln_output_write(const char *path, const void *bytes, size_t size, kiln_error *err);
/// Takes away what a writer of `path` that died may have left.
void kiln_output_clean(const char *path);

/// From now on content and name are on the disk when kiln_output_write returns: a file is there even when the
/// power goes that moment. Costs some milliseconds a file. Process-wide.
void kiln_output_complete(bool complete);

/// The name beside `path`, ".kiln-HASH.tmp", of what is written for it. `writer`: with a number of the
/// writer's (0: none). False when the path is too long.
bool kiln_output_temporary(const char *path, long writer, char out[PATH_MAX]);

#endif
