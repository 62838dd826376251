// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares a process: opens missing standard descriptors, and shows control characters escaped in all that
// it prints.
#include "base/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/control_characters.h"
#include "base/stream.h"

// O_PATH opens on every system, and gives EBADF to read and write.
static void hold_standard_descriptors(void) {
  struct pollfd all[3] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
  if (poll(all, 3, 0) <= 0) return;
  for (int fd = 0; fd < 3; fd++)
    if (all[fd].revents & POLLNVAL) (void)!open("/", O_PATH); // the lowest that is free: `fd`
}

// ---------------------------------------------------------------------------------------- streams

typedef struct shown {
  int fd;
  bool has_lead; ///< the last piece ended in the first byte of a control character of two
} shown;

static bool put_shown(int fd, const char *bytes, size_t size) {
  char out[2 * 4 + 1], piece[3] = "";
  memcpy(piece, bytes, size);
  kiln_show_controls(piece, true, out, sizeof out);
  return kiln_stream_write(fd, *bytes ? out : "\\x00", *bytes ? strlen(out) : 4);
}

// Runs of what is no control character go out as they are.
static bool put_text(shown *s, const char *text, size_t size) {
  size_t from = 0, at = 0;
  while (at < size) {
    size_t controls = text[at] == '\n' || text[at] == '\t' ? 0 : kiln_control_size(text + at, size - at);
    if (!controls) {
      at++;
      continue;
    }
    if (at > from && !kiln_stream_write(s->fd, text + from, at - from)) return false;
    if (!put_shown(s->fd, text + at, controls)) return false;
    from = at += controls;
  }
  return at == from || kiln_stream_write(s->fd, text + from, at - from);
}

static ssize_t write_shown(void *cookie, const char *text, size_t size) {
  shown *s = cookie;
  bool good = true;
  if (!size) return 0;
  const char *rest = text;
  size_t left = size;
  if (s->has_lead) {
    const char pair[2] = {'\xc2', *text};
    bool is_control = kiln_control_size(pair, 2) != 0;
    good = is_control ? put_shown(s->fd, pair, 2) : kiln_stream_write(s->fd, pair, 1);
    if (is_control) rest++, left--;
  }
  s->has_lead = left && rest[left - 1] == '\xc2';
  if (s->has_lead) left--;
  return good && put_text(s, rest, left) ? (ssize_t)size : 0;
}

static FILE *open_shown(int fd, shown *s, int mode) {
  s->fd = fd;
  FILE *stream = fopencookie(s, "w", (cookie_io_functions_t){.write = write_shown});
  if (stream) setvbuf(stream, NULL, mode, BUFSIZ);
  return stream;
}

void kiln_program_begin(void) {
  static shown out, err;
  hold_standard_descriptors();
  signal(SIGXFSZ, SIG_IGN);
  FILE *shown_out = open_shown(1, &out, isatty(1) ? _IOLBF : _IOFBF),
       *shown_err = open_shown(2, &err, _IONBF);
  if (shown_out) stdout = shown_out;
  if (shown_err) stderr = shown_err;
}

void kiln_program_clear_line(void) { (void)kiln_stream_write(2, "\r\033[K", 4); }
