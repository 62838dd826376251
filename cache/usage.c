// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes the small file that holds the store's total size and the progress of eviction.
#include "cache/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"

enum { SIZE = 64, CHECK_AT = 56 };

static void decode(const uint8_t bytes[SIZE], kiln_usage *out) {
  kiln_check check = kiln_check_of(bytes, CHECK_AT);
  memset(out, 0, sizeof *out);
  if (memcmp(bytes, "KUSE", 4) || memcmp(check.bytes, bytes + CHECK_AT, SIZE - CHECK_AT)) return;
  kiln_reader r = kiln_reader_of(bytes + 4, SIZE - 4);
  out->counted = kiln_read_u32(&r) == 1;
  out->bytes = kiln_read_u64(&r);
  out->files = kiln_read_u64(&r);
  uint64_t shard = kiln_read_u64(&r);
  out->place.shard = shard < KILN_STORE_SHARDS ? (uint32_t)shard : 0;
  out->place.cookie = (int64_t)kiln_read_u64(&r);
  out->round_bytes = kiln_read_u64(&r);
  out->round_files = kiln_read_u64(&r);
}

int kiln_usage_lock(kiln_store *store, kiln_usage *out) {
  uint8_t bytes[SIZE];
  size_t got;
  memset(out, 0, sizeof *out);
  if (!store->writable || store->fd < 0) return -EROFS;
  struct stat st;
  int fd = kiln_store_open_own(store, "usage", O_RDWR | O_CREAT);
  if (fd < 0) return fd;
  if (!kiln_fs_stat(fd, &st) && !S_ISREG(st.st_mode)) { // a pipe, which opens for reading and writing
    kiln_fs_close(fd);
    kiln_scan_remove(store->fd, "usage");
    fd = kiln_store_open_own(store, "usage", O_RDWR | O_CREAT);
    if (fd < 0) return fd;
  }
  int e = kiln_fs_lock(fd, 0, 1);
  if (e != -EAGAIN) e = kiln_fs_read(fd, bytes, SIZE, &got); // without locks the sums are a guess, no more
  if (e) {
    kiln_fs_close(fd);
    return e;
  }
  if (got == SIZE) decode(bytes, out);
  return fd;
}

bool kiln_usage_read(kiln_store *store, kiln_usage *out) {
  uint8_t bytes[SIZE];
  size_t got = 0;
  struct stat st;
  memset(out, 0, sizeof *out);
  int fd = store->fd < 0 ? -ENOENT : kiln_fs_open(store->fd, "usage", O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) return false;
  if (!kiln_fs_stat(fd, &st) && S_ISREG(st.st_mode) && !kiln_fs_read(fd, bytes, SIZE, &got) && got == SIZE)
    decode(bytes, out); // half of a change does not fit its check
  kiln_fs_close(fd);
  return out->counted;
}

bool kiln_usage_large(kiln_store *store, kiln_usage *out) {
  return kiln_usage_read(store, out) && out->files > KILN_USAGE_WALKED;
}

int kiln_usage_save(int fd, const kiln_usage *usage) {
  kiln_buffer b = {0};
  kiln_buffer_bytes(&b, "KUSE", 4);
  kiln_buffer_u32(&b, usage->counted);
  kiln_buffer_u64(&b, usage->bytes);
  kiln_buffer_u64(&b, usage->files);
  kiln_buffer_u64(&b, usage->place.shard);
  kiln_buffer_u64(&b, (uint64_t)usage->place.cookie);
  kiln_buffer_u64(&b, usage->round_bytes);
  kiln_buffer_u64(&b, usage->round_files);
  if (b.failed) return -ENOMEM;
  kiln_check check = kiln_check_of(b.bytes, b.size);
  kiln_buffer_bytes(&b, check.bytes, SIZE - CHECK_AT);
  int e = b.failed ? -ENOMEM : kiln_fs_seek(fd, 0);
  if (!e) e = kiln_fs_append(fd, b.bytes, b.size);
  kiln_buffer_deinit(&b);
  return e;
}

void kiln_usage_unlock(int fd) { kiln_fs_close(fd); }
