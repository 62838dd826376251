// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets one process at a time make an entry while the others wait, by locks on byte ranges of one file.
#include "cache/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "base/fs.h"

enum {
  FIRST_PAUSE_NS = 300 * 1000,
  LONGEST_PAUSE_NS = 20 * 1000 * 1000,
  MOST_COUNTED_NS = 1000 * 1000 * 1000
};

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// 2^60 pairs of bytes; keys that share a pair only wait for each other.
static uint64_t place_of(const kiln_digest *key) {
  uint64_t v = 0;
  for (unsigned i = 0; i < 8; i++) v = v << 8 | key->bytes[i];
  return (v >> 4) * 2;
}

/// 0 when the byte is ours, 1 when the entry came up, -EAGAIN after `left` nanoseconds, another -errno when locks do not
/// work. A server of files that does not answer holds up the holder, too: of a call that takes long a second counts.
static int wait_for(kiln_store *store, const kiln_digest *key, int fd, uint64_t at, int64_t left,
                    bool (*ready)(void *), void *context, bool *waited) {
  long pause = FIRST_PAUSE_NS;
  for (int64_t before = now_ns(), passed;;) {
    int e = kiln_fs_lock(fd, at, 1);
    // Somebody may have finished between our look-up and our lock.
    if (e != -EAGAIN) {
      kiln_store_look_again(store, key);
      return ready(context) ? 1 : e;
    }
    *waited = true;
    if (ready(context)) return 1;
    passed = now_ns() - before;
    before += passed;
    left -= passed < MOST_COUNTED_NS ? passed : MOST_COUNTED_NS;
    if (left <= 0) return -EAGAIN;
    nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
    pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
  }
}

kiln_flight kiln_flight_enter(kiln_store *store, const kiln_digest *key, uint32_t wait_ms,
                              bool (*ready)(void *context), void *context, int *out_fd, bool *out_waited) {
  *out_fd = -1;
  *out_waited = false;
  if (kiln_store_make(store)) return KILN_FLIGHT_NO_LOCK;
  int fd = kiln_store_open_own(store, "lock", O_RDWR | O_CREAT);
  if (fd < 0) return KILN_FLIGHT_NO_LOCK;
  uint64_t at = place_of(key);
  int e = -EAGAIN;
  unsigned byte = 0;
  for (; byte < 2 && e == -EAGAIN; byte++)
    e = wait_for(store, key, fd, at + byte, (int64_t)wait_ms * 1000000, ready, context, out_waited);
  if (!e) {
    *out_fd = fd;
    return byte == 1 ? KILN_FLIGHT_OWNED : KILN_FLIGHT_TAKEOVER;
  }
  kiln_fs_close(fd);
  return e == 1 ? KILN_FLIGHT_THERE : e == -EAGAIN ? KILN_FLIGHT_TIMEOUT : KILN_FLIGHT_NO_LOCK;
}
