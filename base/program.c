// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares a process: opens missing standard descriptors, shows control characters escaped in all that it
// prints, and colours the messages on standard error.
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/control_characters.h"
#include "base/stream.h"

// ---------------------------------------------------------------------------------------- streams

typedef struct shown {
  int fd;
  bool has_lead; ///< the last piece ended in the first byte of a control character of two
  bool colored;
  bool is_begun, has_text; ///< of the current line, when coloured: there is something of it, not only blanks
  int error;               ///< errno of a write that failed
  kiln_buffer gathered;    ///< what goes out in one write, when coloured
} shown;

static shown out_stream, err_stream;
static kiln_program_colors colors = KILN_COLORS_OFF;

static bool emit(shown *s, const char *bytes, size_t size) {
  if (!s->colored) return kiln_stream_write(s->fd, bytes, size);
  kiln_buffer_bytes(&s->gathered, bytes, size);
  return !s->gathered.failed;
}

static bool put_shown(shown *s, const char *bytes, size_t size) {
  char out[2 * 4 + 1], piece[3] = "";
  memcpy(piece, bytes, size);
  kiln_show_controls(piece, true, out, sizeof out);
  return emit(s, *bytes ? out : "\\x00", *bytes ? strlen(out) : 4);
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
    if (at > from && !emit(s, text + from, at - from)) return false;
    if (!put_shown(s, text + at, controls)) return false;
    from = at += controls;
  }
  return at == from || emit(s, text + from, at - from);
}

static bool put_colored(shown *s, const char *color, const char *text, size_t size) {
  return emit(s, color, strlen(color)) && put_text(s, text, size) && emit(s, "\033[0m", 4);
}

/// Of "PLACE: error: TEXT" the place and the word, from the beginning of a line; of a line that has only a caret or
/// an underline the whole. Other lines stay as they are.
static bool put_line(shown *s, const char *line, size_t size) {
  static const struct {
    const char *word, *color;
  } labels[] = {{"error:", "\033[1;31m"}, {"warning:", "\033[1;35m"}, {"note:", "\033[1;36m"}};
  enum { LABELS = sizeof labels / sizeof *labels };
  static const char bold[] = "\033[1m", green[] = "\033[1;32m";
  size_t blanks = 0, marks = 0;
  while (blanks < size && (line[blanks] == ' ' || line[blanks] == '\t')) blanks++;
  while (blanks + marks < size && (line[blanks + marks] == '^' || line[blanks + marks] == '~')) marks++;
  if (!s->has_text && marks && blanks + marks == size)
    return put_text(s, line, blanks) && put_colored(s, green, line + blanks, marks);
  for (size_t at = 0; !s->is_begun && !blanks && at + 2 < size; at++) {
    if (line[at] != ':' || line[at + 1] != ' ') continue;
    const char *word = line + at + 2;
    for (unsigned i = 0; i < LABELS; i++) {
      size_t length = strlen(labels[i].word);
      if (size - at - 2 < length || memcmp(word, labels[i].word, length)) continue;
      return put_colored(s, bold, line, at + 1) && emit(s, " ", 1) &&
             put_colored(s, labels[i].color, word, length) &&
             put_text(s, word + length, size - at - 2 - length);
    }
  }
  return put_text(s, line, size);
}

static bool put_lines(shown *s, const char *text, size_t size) {
  bool good = true;
  while (size && good) {
    const char *end = memchr(text, '\n', size);
    size_t length = end ? (size_t)(end - text) : size;
    good = put_line(s, text, length) && (!end || emit(s, "\n", 1));
    for (size_t i = 0; i < length; i++) s->has_text |= text[i] != ' ' && text[i] != '\t';
    s->is_begun = !end;
    s->has_text &= !end;
    text += length + (end != NULL);
    size -= length + (end != NULL);
  }
  return good;
}

static ssize_t write_shown(void *cookie, const char *text, size_t size) {
  shown *s = cookie;
  bool good = true;
  if (!size) return 0;
  s->colored =
      s == &err_stream && (colors == KILN_COLORS_ON || (colors == KILN_COLORS_AUTO && isatty(s->fd)));
  const char *rest = text;
  size_t left = size;
  if (s->has_lead) {
    const char pair[2] = {'\xc2', *text};
    bool is_control = kiln_control_size(pair, 2) != 0;
    good = is_control ? put_shown(s, pair, 2) : emit(s, pair, 1);
    if (is_control) rest++, left--;
  }
  s->has_lead = left && rest[left - 1] == '\xc2';
  if (s->has_lead) left--;
  if (good) good = s->colored ? put_lines(s, rest, left) : put_text(s, rest, left);
  if (s->colored) {
    good &= !s->gathered.failed && kiln_stream_write(s->fd, s->gathered.bytes, s->gathered.size);
    kiln_buffer_clear(&s->gathered);
  }
  if (!good) s->error = errno;
  return good ? (ssize_t)size : 0;
}

static FILE *open_shown(int fd, shown *s, int mode) {
  static char out_buffer[BUFSIZ]; // untouched by a program that prints nothing
  s->fd = fd;
  FILE *stream = fopencookie(s, "w", (cookie_io_functions_t){.write = write_shown});
  if (stream) setvbuf(stream, fd == 1 ? out_buffer : NULL, mode, BUFSIZ);
  return stream;
}

static void fail_if_output_is_lost(void) {
  fflush(stdout);
  if (!out_stream.error || out_stream.error == EBADF) return; // EBADF: whoever closed it wants no output
  fprintf(stderr, "kiln: error: standard output: %s\n", strerror(out_stream.error));
  _exit(EXIT_FAILURE);
}

void kiln_program_begin(void) {
  // Descriptors 0 to 2 are held. O_PATH opens on every system, and gives EBADF to read and write.
  struct pollfd all[3] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
  const bool is_any_closed = poll(all, 3, 0) > 0;
  for (int fd = 0; is_any_closed && fd < 3; fd++)
    if (all[fd].revents & POLLNVAL) (void)!open("/", O_PATH); // the lowest that is free: `fd`
  signal(SIGXFSZ, SIG_IGN);
  FILE *shown_out = open_shown(1, &out_stream, isatty(1) ? _IOLBF : _IOFBF),
       *shown_err = open_shown(2, &err_stream, _IONBF);
  if (shown_out) stdout = shown_out;
  if (shown_err) stderr = shown_err;
  atexit(fail_if_output_is_lost);
}

void kiln_program_give_output(void) {
  fflush(stdout);
  stdout = stderr;
}

void kiln_program_color(kiln_program_colors when) { colors = when; }

void kiln_program_clear_line(void) {
  (void)kiln_stream_write(2, "\r\033[K", 4);
  err_stream.is_begun = err_stream.has_text = false;
}
