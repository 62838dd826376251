// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes whole blocks on a descriptor, however many bytes the system transfers at a time.
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool kiln_stream_write(int fd, const void *bytes, size_t size) {
  for (const uint8_t *at = bytes; size;) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, size -= (size_t)n;
  }
  return true;
}

size_t kiln_stream_read(int fd, void *bytes, size_t size) {
  size_t got = 0;
  while (got < size) {
    ssize_t n = read(fd, (uint8_t *)bytes + got, size - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += (size_t)n;
  }
  return got;
}

int kiln_stream_aside(int fd) {
  if (fd < 0 || fd > 2) return fd;
  int other = fcntl(fd, F_DUPFD_CLOEXEC, 3), number = errno;
  close(fd);
  errno = number;
  return other;
}

kiln_status kiln_stream_need_names(const char *what, kiln_error *err) {
  if (!access("/proc/self/fd", X_OK)) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_TOOL, "%s needs /proc, which is not mounted here: %s", what,
                   strerror(errno));
}
