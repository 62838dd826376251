// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that a command is given to read. The user may name anything: a device without an end, a FIFO that
// nobody writes, a file of /proc that has no size, a folder. Each is read to a limit, or refused with
// numbers.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/cli.h"

enum {
  MOST_STREAMED = 1 << 30, // of what has no size to compare with, where the caller's limit is higher
  PIECE = 1 << 16,
  WRITER_S = 10, // how long a FIFO may lack a writer
};

typedef struct input {
  int fd;
  bool is_silent; // a FIFO: nobody wrote anything in WRITER_S
  size_t size;    // of a regular file, whose end needs no read of its own; SIZE_MAX: not known
} input;

static kiln_status failed(const char *what, const char *path, kiln_error *err) {
  return kiln_fail(err, kiln_status_of_errno(errno), "cannot %s %s: %s", what, path, strerror(errno));
}

static bool has_silence(int fd) {
  struct pollfd it = {.fd = fd, .events = POLLIN};
  int ready;
  do ready = poll(&it, 1, WRITER_S * 1000);
  while (ready < 0 && errno == EINTR);
  return !ready;
}

// A FIFO is opened without waiting for a writer, and waited for with a limit. Reads wait as usual: a writer
// may take its time, and without one they find the end.
static kiln_status open_input(const char *path, input *out, kiln_error *err) {
  struct stat st;
  *out = (input){.size = SIZE_MAX};
  if (strcmp(path, "-")) out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (out->fd < 0) return failed("open", path, err);
  bool is_known = !fstat(out->fd, &st);
  bool has_size = is_known && S_ISREG(st.st_mode) && st.st_size > 0; // reads of such a file do not wait
  if (has_size) out->size = (size_t)st.st_size;
  if (!out->fd || has_size) return KILN_OK;
  out->is_silent = is_known && S_ISFIFO(st.st_mode) && has_silence(out->fd);
  int flags = fcntl(out->fd, F_GETFL);
  if (flags >= 0 && fcntl(out->fd, F_SETFL, flags & ~O_NONBLOCK) >= 0) return KILN_OK;
  kiln_status status = failed("open", path, err);
  close(out->fd);
  return status;
}

kiln_status cli_open_input(const char *path, int *out_fd, kiln_error *err) {
  input in;
  *out_fd = -1;
  KILN_TRY(open_input(path, &in, err));
  *out_fd = in.fd;
  return KILN_OK;
}

static kiln_status too_long(const char *path, size_t most, uint64_t found, const char *at_least,
                            kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_LIMIT, "%s: expected at most %zu bytes, found %s%llu", path, most,
                   at_least, (unsigned long long)found);
}

static kiln_status no_memory(const char *path, const input *in, const kiln_buffer *out, kiln_error *err) {
  if (in->size != SIZE_MAX)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: no memory for its %zu bytes", path, in->size);
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: no memory for more than %zu bytes", path, out->size);
}

static kiln_status read_all(const input *in, const char *path, const char *magic, size_t most,
                            kiln_buffer *out, kiln_error *err) {
  size_t magic_size = strlen(magic);
  while (out->size != in->size) {
    size_t room = out->size == out->capacity ? PIECE : 0;
    // Memory for all of it, once it has begun as it should.
    if (in->size != SIZE_MAX && out->size >= magic_size) room = in->size - out->size;
    if (!kiln_buffer_reserve(out, room + 1)) return no_memory(path, in, out, err);
    size_t left = most - out->size + 1, space = out->capacity - out->size;
    ssize_t got = read(in->fd, out->bytes + out->size, space < left ? space : left);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path, err);
    if (!got && !out->size && in->is_silent)
      return kiln_fail(err, KILN_STATUS_IO,
                       "%s: expected a program that writes to this FIFO, found none in %d s", path, WRITER_S);
    if (!got) break;
    out->size += (size_t)got;
    if (out->size > most) return too_long(path, most, out->size, "at least ", err);
    size_t known = out->size < magic_size ? out->size : magic_size;
    if (known && memcmp(out->bytes, magic, known)) break; // it begins otherwise
  }
  return KILN_OK;
}

kiln_status cli_read_file(const char *path, const char *magic, size_t most, kiln_buffer *out,
                          kiln_error *err) {
  input in;
  KILN_TRY(open_input(path, &in, err));
  kiln_status status = KILN_OK;
  if (in.size != SIZE_MAX && in.size > most) status = too_long(path, most, in.size, "", err);
  else if (in.size == SIZE_MAX && !*magic && most > MOST_STREAMED) most = MOST_STREAMED;
  if (status == KILN_OK) status = read_all(&in, path, magic, most, out, err);
  if (in.fd) close(in.fd);
  if (status != KILN_OK) return status;
  if (!kiln_buffer_reserve(out, 1)) return no_memory(path, &in, out, err);
  out->bytes[out->size] = 0;
  return KILN_OK;
}
