// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole reads and writes on a descriptor: pipes, children, nameless files. What the cache's files need is in
// base/fs.h.
#ifndef KILN_BASE_STREAM_H
#define KILN_BASE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/// Writes all of it; interrupted and short writes are completed. False with errno.
bool kiln_stream_write(int fd, const void *bytes, size_t size);
/// Returns how many of `size` bytes were read before the end or an error (errno).
size_t kiln_stream_read(int fd, void *bytes, size_t size);
/// `fd`, or in place of one of the three standard descriptors another one for the same file: where these are
/// closed, what the program prints must not end up in a file of ours. -1 stays, with errno; so it does when
/// there is no other.
int kiln_stream_aside(int fd);
/// Checks that open files have names under /proc/self/fd. TOOL, with the message that `what` needs them, if
/// they have none: /proc is not mounted in every container.
kiln_status kiln_stream_need_names(const char *what, kiln_error *err);

#endif
