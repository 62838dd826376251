// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps all processes of this machine away from a server that failed, until a time that is noted in a file
// next to the store.
#include "cache/remote/breaker.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"

// u64 milliseconds since 1970 until which the server is left alone, first half of XXH3-128 of that.
enum { SIZE = 16 };

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool kiln_breaker_open(kiln_store *store, const char *name) {
  uint8_t bytes[SIZE];
  size_t got = 0;
  int fd = store->fd < 0 ? -1 : kiln_fs_open(store->fd, name, O_RDONLY, 0);
  if (fd < 0) return false;
  int e = kiln_fs_read(fd, bytes, SIZE, &got);
  kiln_fs_close(fd);
  kiln_check check = kiln_check_of(bytes, e || got != SIZE ? 0 : 8);
  if (e || got != SIZE || memcmp(check.bytes, bytes + 8, 8)) return false;
  kiln_reader r = kiln_reader_of(bytes, SIZE);
  uint64_t until = kiln_read_u64(&r), now = now_ms();
  // A time far ahead comes from a clock that was wrong.
  return now < until && until - now <= KILN_BREAKER_LONGEST_MS;
}

void kiln_breaker_trip(kiln_store *store, const char *name, uint32_t ms) {
  kiln_buffer b = {0};
  if (kiln_store_make(store)) return;
  kiln_buffer_u64(&b, now_ms() + ms);
  kiln_check check = kiln_check_of(b.bytes, b.size);
  kiln_buffer_bytes(&b, check.bytes, 8);
  if (!b.failed) kiln_store_replace_file(store, name, b.bytes, b.size);
  kiln_buffer_deinit(&b);
}

void kiln_breaker_reset(kiln_store *store, const char *name) {
  if (store->fd >= 0) kiln_fs_unlink(store->fd, name);
}
