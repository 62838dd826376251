// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages about a source: collecting and printing them.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/front.h"

static void append(kiln_diagnostics *d, kiln_severity severity, const char *file, ir_place place,
                   const char *text) {
  KILN_GROW(d->arena, d->items, d->count, d->capacity);
  d->items[d->count++] = (kiln_diagnostic){severity, file, place.line, place.column, text};
}

// An error and what belongs to it are kept or left out together; notes after a suppressed error are left out
// too.
void kiln_diagnose(kiln_diagnostics *d, kiln_severity severity, const char *file, ir_place place,
                   const char *format, ...) {
  uint32_t limit = d->limit ? d->limit : KILN_MAX_DIAGNOSTICS;
  if (d->errors >= limit && (severity == KILN_ERROR || d->suppressed)) {
    if (severity != KILN_ERROR) return;
    if (!d->suppressed++)
      append(d, KILN_NOTE, file, (ir_place){0},
             kiln_arena_format(d->arena, "more errors follow; the first %u are shown", limit));
    return;
  }
  char text[1024];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (length < 0) length = 0;
  if ((size_t)length >= sizeof text) length = sizeof text - 1;
  append(d, severity, file, place, kiln_arena_text(d->arena, text, (size_t)length));
  d->errors += severity == KILN_ERROR;
}

// Start and length of line `number`, going on from the last one asked for, so that a sorted list costs one
// pass.
typedef struct line_finder {
  const char *text, *end, *at;
  uint32_t line;
} line_finder;

static const char *find_line(line_finder *f, uint32_t number, size_t *out_length) {
  if (number < f->line) f->at = f->text, f->line = 1;
  while (f->line < number && f->at < f->end) {
    const char *newline = memchr(f->at, '\n', (size_t)(f->end - f->at));
    f->at = newline ? newline + 1 : f->end;
    f->line++;
  }
  if (f->line != number || f->at > f->end) return NULL;
  const char *newline = memchr(f->at, '\n', (size_t)(f->end - f->at));
  *out_length = (size_t)((newline ? newline : f->end) - f->at);
  return f->at;
}

// Bytes of the UTF-8 character at `at`, or 0: none that a terminal should be given (a control character, one
// that turns the direction of writing, bytes that are no UTF-8).
static size_t printable(const unsigned char *at, size_t left) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (*at < 0x80) return *at == '\t' || (*at >= 0x20 && *at < 0x7f);
  size_t length = *at >= 0xf0 && *at < 0xf8 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 0;
  if (!length || length > left || *at >= 0xf8) return 0;
  uint32_t code = *at & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (at[i] & 0x3f);
  }
  bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0x200e ||
               code == 0x200f;
  bool valid = code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid && code >= 0xa0 && !turns ? length : 0;
}

// What is not printable stands as '?', a byte each.
static void put_line(kiln_buffer *out, const char *text, size_t length) {
  for (size_t i = 0; i < length;) {
    size_t taken = printable((const unsigned char *)text + i, length - i);
    kiln_buffer_bytes(out, taken ? text + i : "?", taken ? taken : 1);
    i += taken ? taken : 1;
  }
}

static void put_message(kiln_buffer *out, const char *text) {
  size_t length = strlen(text);
  for (size_t i = 0; i < length;) {
    size_t taken = printable((const unsigned char *)text + i, length - i);
    if (taken) kiln_buffer_bytes(out, text + i, taken);
    else kiln_buffer_format(out, "\\x%02x", (unsigned char)text[i]);
    i += taken ? taken : 1;
  }
}

static void print_caret(const kiln_diagnostic *item, const char *line, size_t length, kiln_buffer *out) {
  enum { WIDEST = 200, RIGHT = 50 };
  static const char mark[] = "\xef\xbb\xbf"; // columns count from after it
  if (item->line == 1 && length >= 3 && !memcmp(line, mark, 3)) line += 3, length -= 3;
  if (length && line[length - 1] == '\r') length--;
  size_t from = item->column > WIDEST - RIGHT ? item->column - WIDEST / 2 : 0; // what is around it
  if (!item->column || from > length) return;
  while (from && from < length && ((unsigned char)line[from] & 0xc0) == 0x80) from--;
  kiln_buffer_format(out, from ? "  ..." : "  ");
  put_line(out, line + from, length - from > WIDEST ? WIDEST : length - from);
  kiln_buffer_format(out, from ? "\n     " : "\n  ");
  for (size_t i = from; i + 1 < item->column;) {
    size_t taken = i < length ? printable((const unsigned char *)line + i, length - i) : 0;
    kiln_buffer_u8(out, i < length && line[i] == '\t' ? '\t' : ' ');
    i += taken ? taken : 1;
  }
  kiln_buffer_bytes(out, "^\n", 2);
}

void kiln_diagnostics_print(const kiln_diagnostics *d, const char *source, size_t size, kiln_buffer *out) {
  static const char *const words[] = {"note", "warning", "error"};
  line_finder finder = {source, source ? source + size : NULL, source, 1};
  for (uint32_t i = 0; i < d->count; i++) {
    const kiln_diagnostic *item = &d->items[i];
    if (item->line)
      kiln_buffer_format(out, "%s:%u:%u: %s: ", item->file, item->line, item->column, words[item->severity]);
    else kiln_buffer_format(out, "%s: %s: ", item->file, words[item->severity]);
    put_message(out, item->text);
    kiln_buffer_u8(out, '\n');
    size_t length;
    const char *line = source && item->line ? find_line(&finder, item->line, &length) : NULL;
    if (line) print_caret(item, line, length, out);
  }
}
