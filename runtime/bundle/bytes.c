// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies bytes of a bundle, from its file or from memory, and says what is wrong with them.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bundle/internal.h"

kiln_status kiln_bundle_damaged(kiln_error *err, const kiln_bundle *b, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: %s", b->name, text);
}

kiln_status kiln_bundle_no_memory(kiln_error *err, const kiln_bundle *b) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", b->name);
}

// A file that was cut meanwhile is an error here; through a mapping it would be a signal.
kiln_status kiln_bundle_copy(const kiln_bundle *b, uint64_t at, size_t size, void *out, kiln_error *err) {
  if (b->memory) {
    memcpy(out, b->memory + at, size);
    return KILN_OK;
  }
  for (size_t done = 0; done < size;) {
    ssize_t n = pread(b->fd, (uint8_t *)out + done, size - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", b->name, strerror(errno));
    if (!n)
      return kiln_bundle_damaged(err, b, "the file ends at byte %llu; it had %zu when it was opened",
                                 (unsigned long long)(at + done), b->size);
    done += (size_t)n;
  }
  return KILN_OK;
}
