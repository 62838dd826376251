// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns shapes that an application recorded into shapes to measure.
#include "tools/tune/recorded_shapes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// A piece of a text.
typedef struct piece {
  const char *at, *end;
} piece;

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static bool next_line(piece *text, piece *out) {
  if (text->at >= text->end) return false;
  const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
  *out = (piece){text->at, newline ? newline : text->end};
  text->at = newline ? newline + 1 : text->end;
  return true;
}

static bool next_word(piece *line, piece *out) {
  while (line->at < line->end && is_space(*line->at)) line->at++;
  out->at = line->at;
  while (line->at < line->end && !is_space(*line->at)) line->at++;
  out->end = line->at;
  return out->at < out->end;
}

// The part up to `stop`, or all of it.
static piece until(piece word, char stop) {
  const char *found = memchr(word.at, stop, (size_t)(word.end - word.at));
  return (piece){word.at, found ? found : word.end};
}

static bool is_same(piece a, piece b) {
  return a.end - a.at == b.end - b.at && !memcmp(a.at, b.at, (size_t)(a.end - a.at));
}

static void append_piece(kiln_buffer *out, piece p) { kiln_buffer_bytes(out, p.at, (size_t)(p.end - p.at)); }

// The words after the kernel's name, which is returned in `out_kernel`.
static bool begin_line(piece *line, piece *out_kernel) {
  return next_word(line, out_kernel) && *out_kernel->at != '#';
}

static piece find_template(piece templates, piece kernel) {
  piece line, name, plain = {NULL, NULL};
  while (next_line(&templates, &line)) {
    if (!begin_line(&line, &name)) continue;
    if (is_same(name, kernel)) return line;
    if (!plain.at && is_same(name, until(kernel, '['))) plain = line;
  }
  return plain;
}

// Finds the argument of a line with the name of `word`, and returns its value.
static bool find_argument(piece line, piece word, piece *out_value) {
  piece other, name = until(word, '=');
  while (next_word(&line, &other))
    if (is_same(until(other, '='), name)) {
      *out_value = (piece){until(other, '=').end + (until(other, '=').end < other.end), other.end};
      return true;
    }
  return false;
}

// The number of elements up to the last one of "[4,8;8,1]"; 0 if it is malformed.
static int64_t extent_in_memory(piece shape) {
  int64_t numbers[32], last = 0;
  unsigned count = 0;
  for (const char *at = shape.at + 1; at < shape.end && count < 32; count++) {
    char *end;
    numbers[count] = strtoll(at, &end, 10);
    at = end + 1;
  }
  for (unsigned i = 0; i < count / 2; i++) {
    int64_t extent = numbers[i], stride = numbers[count / 2 + i], more;
    if (extent < 1 || stride < 0 || __builtin_mul_overflow(extent - 1, stride, &more) ||
        __builtin_add_overflow(last, more, &last))
      return 0;
  }
  return last + 1;
}

// A view gets the template's contents and the recorded shape.
static void put_value(kiln_buffer *out, piece recorded, const piece *given) {
  bool is_view = recorded.at < recorded.end && *recorded.at == '[';
  if (is_view && given) append_piece(out, until(*given, '['));
  else if (is_view) kiln_buffer_format(out, "random:%lld", (long long)extent_in_memory(recorded));
  append_piece(out, recorded);
}

static void join_line(piece line, piece kernel, piece given, kiln_buffer *out) {
  piece word, value, words = given;
  append_piece(out, kernel);
  while (next_word(&words, &word)) {
    kiln_buffer_u8(out, ' ');
    if (!find_argument(line, word, &value)) {
      append_piece(out, word);
      continue;
    }
    piece name = until(word, '='), own = {name.end + (name.end < word.end), word.end};
    append_piece(out, name);
    kiln_buffer_u8(out, '=');
    put_value(out, value, &own);
  }
  words = line;
  while (next_word(&words, &word)) {
    if (find_argument(given, word, &value)) continue;
    piece name = until(word, '=');
    kiln_buffer_u8(out, ' ');
    append_piece(out, (piece){name.at, name.end + (name.end < word.end)});
    put_value(out, (piece){name.end + (name.end < word.end), word.end}, NULL);
  }
}

void tune_recorded_join(const char *record, size_t record_size, const char *templates, size_t templates_size,
                        kiln_buffer *out) {
  piece text = {record, record + record_size}, line, kernel;
  while (next_line(&text, &line)) {
    if (begin_line(&line, &kernel))
      join_line(line, kernel, find_template((piece){templates, templates + templates_size}, kernel), out);
    kiln_buffer_u8(out, '\n');
  }
}
