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

static void print_caret(const kiln_diagnostic *item, const char *line, size_t length, kiln_buffer *out) {
  enum { WIDEST = 200 };
  if (length && line[length - 1] == '\r') length--;
  if (!item->column || item->column > WIDEST) return;
  kiln_buffer_format(out, "  %.*s\n  ", (int)(length > WIDEST ? WIDEST : length), line);
  for (uint32_t i = 0; i + 1 < item->column; i++)
    kiln_buffer_u8(out, i < length && line[i] == '\t' ? '\t' : ' ');
  kiln_buffer_bytes(out, "^\n", 2);
}

void kiln_diagnostics_print(const kiln_diagnostics *d, const char *source, size_t size, kiln_buffer *out) {
  static const char *const words[] = {"note", "warning", "error"};
  line_finder finder = {source, source ? source + size : NULL, source, 1};
  for (uint32_t i = 0; i < d->count; i++) {
    const kiln_diagnostic *item = &d->items[i];
    if (item->line)
      kiln_buffer_format(out, "%s:%u:%u: %s: %s\n", item->file, item->line, item->column,
                         words[item->severity], item->text);
    else kiln_buffer_format(out, "%s: %s: %s\n", item->file, words[item->severity], item->text);
    size_t length;
    const char *line = source && item->line ? find_line(&finder, item->line, &length) : NULL;
    if (line) print_caret(item, line, length, out);
  }
}
