// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records what the file system says about a file (device, inode, size, times) and compares two such
// records.
#include "base/file_mark.h"

#include <time.h>

/// The coarsest clock of a file system that is in use (FAT: 2 s), in nanoseconds.
static const int64_t grain = 2000000000;

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

kiln_file_mark kiln_file_mark_of(const struct stat *st) {
  return (kiln_file_mark){st->st_dev, st->st_ino, (uint64_t)st->st_size, nanoseconds(st->st_mtim),
                          nanoseconds(st->st_ctim)};
}

bool kiln_file_mark_same(const kiln_file_mark *a, const kiln_file_mark *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified == b->modified &&
         a->changed == b->changed;
}

bool kiln_file_mark_settled(const kiln_file_mark *mark) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  // The time of modification is the owner's to set; the time of change is the kernel's.
  return nanoseconds(now) - mark->changed > grain;
}

void kiln_file_mark_encode(const kiln_file_mark *mark, kiln_buffer *out) {
  kiln_buffer_u64(out, mark->device);
  kiln_buffer_u64(out, mark->inode);
  kiln_buffer_u64(out, mark->size);
  kiln_buffer_u64(out, (uint64_t)mark->modified);
  kiln_buffer_u64(out, (uint64_t)mark->changed);
}

kiln_file_mark kiln_file_mark_decode(kiln_reader *reader) {
  kiln_file_mark mark;
  mark.device = kiln_read_u64(reader);
  mark.inode = kiln_read_u64(reader);
  mark.size = kiln_read_u64(reader);
  mark.modified = (int64_t)kiln_read_u64(reader);
  mark.changed = (int64_t)kiln_read_u64(reader);
  return mark;
}
