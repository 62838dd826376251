// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the file system says of a file without reading it: enough to tell that its content is still the one
// that was read before.
#ifndef KILN_BASE_FILE_MARK_H
#define KILN_BASE_FILE_MARK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buffer.h"

enum { KILN_FILE_MARK_SIZE = 40 }; ///< of its encoding

/// Times in nanoseconds since 1970. All zero: nothing is known.
typedef struct kiln_file_mark {
  uint64_t device, inode, size;
  int64_t modified, changed;
} kiln_file_mark;

kiln_file_mark kiln_file_mark_of(const struct stat *st);
bool kiln_file_mark_same(const kiln_file_mark *a, const kiln_file_mark *b);
/// False for a file that was changed a moment ago, or in the future: another change within the grain of the
/// file system's clock would leave the mark as it is.
bool kiln_file_mark_settled(const kiln_file_mark *mark);

/// Five little-endian u64.
void kiln_file_mark_encode(const kiln_file_mark *mark, kiln_buffer *out);
kiln_file_mark kiln_file_mark_decode(kiln_reader *reader);

#endif
