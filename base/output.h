// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that a program makes for its user: whole or not at all, whoever dies when, and untouched when nothing
// changed. All that Kiln writes for a user goes through here.
#ifndef KILN_BASE_OUTPUT_H
#define KILN_BASE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/// Makes `path` hold exactly `bytes`. A file that does already keeps its time, so that what depends on it is
/// not built again. Readers see the former content or the new one; after a loss of power, too, since the
/// content is on its way through the disk before it gets a name. The new content has no name (O_TMPFILE)
/// until it is complete. A former file is replaced by way of a name next to it that nobody can guess and that
/// must be new (O_EXCL, no link is followed); what a writer that died left of these, the next writer of the
/// same path takes away. Writers of one path at the same time do not disturb each other: the last one stays.
///
/// What is no file (a device, a FIFO, or a link to one) is written as it is and never replaced, and so is a
/// link to what one of this process's own descriptors writes, such as /dev/stdout. A link to anything else is
/// replaced; what it leads to stays as it was.
///
/// A limit on the size of files (ulimit -f) and a reader that goes away are errors, not signals.
kiln_status kiln_output_write(const char *path, const void *bytes, size_t size, kiln_error *err);

/// The same for what does not lie in memory as a whole: open, write to `fd`, close.
typedef struct kiln_output {
  const char *path;         ///< borrowed
  int fd;                   ///< above 2; -1: not open
  bool is_through;          ///< written as it is: a device, or a descriptor that was open already
  char temporary[PATH_MAX]; ///< the name that the new file has; "": none yet
} kiln_output;
kiln_status kiln_output_open(kiln_output *out, const char *path, kiln_error *err);
/// Closes it. With `status` KILN_OK the file gets its name, else it goes; returns `status`, or what failed.
kiln_status kiln_output_close(kiln_output *out, kiln_status status, kiln_error *err);

/// Whether kiln_output_write could write `path` now, as far as that can be said without writing: its folder is there and
/// lets files be made, `path` is no folder. For work that takes long before there is anything to write. "-" is taken for
/// standard output.
kiln_status kiln_output_try(const char *path, kiln_error *err);

/// INVALID_ARGUMENT where `path`, which will be written, is the same regular file as `other`, or the same name where
/// there is none yet. For outputs that would replace an input or each other. NULL and "-" are no files.
kiln_status kiln_output_apart(const char *path, const char *other, kiln_error *err);

/// Whether `path` means standard output: "-", or a link in /dev or /proc to what descriptor 1 writes, as /dev/stdout is.
bool kiln_output_is_stdout(const char *path);

/// Makes a file that must not be there yet, nor a link in its place: EXISTS. For keys.
kiln_status kiln_output_create(const char *path, mode_t mode, const void *bytes, size_t size,
                               kiln_error *err);

/// Opens a file that grows by lines, for its owner alone where it is new. In place of a file that is there already nobody can
/// have put another: a link, what is no file or has another name, too, and what belongs to others or what
/// others may write, is DENIED.
kiln_status kiln_output_append_open(const char *path, int *out_fd, kiln_error *err);
/// Adds `bytes` in one write, without signals. What fails is lost.
void kiln_output_append(int fd, const void *bytes, size_t size);

/// Removes the files that a writer of `path` may have left when it died.
void kiln_output_clean(const char *path);

/// From now on content and name are on the disk when kiln_output_write returns: a file is there even when the
/// power goes that moment. Costs some milliseconds a file. Process-wide.
void kiln_output_complete(bool complete);

#endif
