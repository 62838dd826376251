// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sends and receives bytes between a build and kiln-remote, before a deadline.
#include "cache/wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

int64_t kiln_wire_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool kiln_wire_move(int fd, uint8_t *bytes, size_t size, bool out, int64_t deadline) {
  for (size_t done = 0; done < size;) {
    struct pollfd p = {fd, out ? POLLOUT : POLLIN, 0};
    int64_t left = deadline - kiln_wire_now();
    if (left <= 0) return false;
    int n = poll(&p, 1, (int)left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    ssize_t got = out ? send(fd, bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                      : recv(fd, bytes + done, size - done, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}
