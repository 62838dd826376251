// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The words of a kernel's text.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/ir/text.h"

enum { MOST_ECHO = 40 };

void ir_words_open(ir_words *w, kiln_arena *arena, const char *text, size_t size) {
  *w = (ir_words){.arena = arena, .at = text, .end = text + size, .line_begin = text, .line = 1};
  ir_words_next(w);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static char peek(const ir_words *w, size_t ahead) {
  return (size_t)(w->end - w->at) > ahead ? w->at[ahead] : 0;
}

static void skip_blanks(ir_words *w) {
  while (w->at < w->end) {
    if (*w->at == '/' && peek(w, 1) == '/') {
      while (w->at < w->end && *w->at != '\n') w->at++;
    } else if (*w->at == '\n') {
      w->line_begin = ++w->at;
      w->line++;
    } else if (*w->at == ' ' || *w->at == '\t' || *w->at == '\r') {
      w->at++;
    } else {
      return;
    }
  }
}

static void skip_number(ir_words *w) {
  w->at += *w->at == '-';
  bool is_hex = *w->at == '0' && peek(w, 1) == 'x';
  w->at += is_hex ? 2 : 0;
  while (is_digit(peek(w, 0)) || (is_hex && is_letter(peek(w, 0)))) w->at++;
  if (is_hex) return;
  if (peek(w, 0) == '.' && is_digit(peek(w, 1)))
    for (w->at++; is_digit(peek(w, 0));) w->at++;
  const size_t sign = peek(w, 1) == '+' || peek(w, 1) == '-';
  if (peek(w, 0) == 'e' && is_digit(peek(w, 1 + sign)))
    for (w->at += 1 + sign; is_digit(peek(w, 0));) w->at++;
}

static void skip_text(ir_words *w) {
  for (w->at++; w->at < w->end && *w->at != '"' && *w->at != '\n'; w->at++)
    if (*w->at == '\\' && peek(w, 1) != '\n') w->at += w->end - w->at > 1;
  if (peek(w, 0) == '"') w->at++;
}

void ir_words_next(ir_words *w) {
  if (w->error.status != KILN_OK) return;
  w->last_line = w->line;
  skip_blanks(w);
  const char c = peek(w, 0);
  w->start = w->at;
  w->place = (ir_place){.line = w->line, .column = (uint32_t)(w->at - w->line_begin) + 1};
  if (w->at == w->end) {
    w->kind = IR_TOKEN_END;
  } else if (is_letter(c)) {
    w->kind = IR_TOKEN_WORD;
    while (is_letter(peek(w, 0)) || is_digit(peek(w, 0)) || peek(w, 0) == '-' ||
           (peek(w, 0) == '.' && peek(w, 1) != '.'))
      w->at++;
  } else if (is_digit(c) || (c == '-' && is_digit(peek(w, 1)))) {
    w->kind = IR_TOKEN_NUMBER;
    skip_number(w);
  } else if (c == '%' && (is_digit(peek(w, 1)) || is_letter(peek(w, 1)))) {
    w->kind = IR_TOKEN_VALUE;
    for (w->at++; is_letter(peek(w, 0)) || is_digit(peek(w, 0));) w->at++;
  } else if (c == '"') {
    w->kind = IR_TOKEN_TEXT;
    skip_text(w);
  } else {
    w->kind = IR_TOKEN_SIGN;
    w->at++;
  }
  w->length = (size_t)(w->at - w->start);
}

bool ir_words_at(const ir_words *w, const char *word) {
  return w->kind != IR_TOKEN_TEXT && strlen(word) == w->length && w->length &&
         !memcmp(w->start, word, w->length);
}

bool ir_words_take(ir_words *w, const char *word) {
  if (!ir_words_at(w, word)) return false;
  ir_words_next(w);
  return true;
}

bool ir_words_fail_at(ir_words *w, ir_place place, const char *format, ...) {
  char text[sizeof w->error.text];
  va_list args;
  if (w->error.status != KILN_OK) return false;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  kiln_fail(&w->error, KILN_STATUS_SOURCE, "%s", text);
  w->place = place;
  w->kind = IR_TOKEN_END;
  w->start = w->at = w->end;
  w->length = 0;
  return false;
}

bool ir_words_fail(ir_words *w, const char *expected) {
  char echo[MOST_ECHO + 1];
  size_t length = 0;
  for (; length < w->length && length < MOST_ECHO; length++) {
    const char c = w->start[length];
    echo[length] = (unsigned char)c < ' ' || (unsigned char)c > '~' ? '?' : c;
  }
  echo[length] = 0;
  if (w->kind == IR_TOKEN_END)
    return ir_words_fail_at(w, w->place, "expected %s, found the end of the text", expected);
  return ir_words_fail_at(w, w->place, "expected %s, found '%s'", expected, echo);
}

bool ir_words_expect(ir_words *w, const char *word) {
  char expected[MOST_ECHO + 4];
  if (ir_words_take(w, word)) return true;
  snprintf(expected, sizeof expected, "'%s'", word);
  return ir_words_fail(w, expected);
}

static int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The magnitude of the next word; false where that is no integer of 64 bits.
static bool read_magnitude(const ir_words *w, bool *out_negative, uint64_t *out) {
  const char *at = w->start, *end = w->start + w->length;
  if (w->kind != IR_TOKEN_NUMBER) return false;
  *out_negative = *at == '-';
  at += *at == '-';
  const int base = end - at > 2 && at[0] == '0' && at[1] == 'x' ? 16 : 10;
  uint64_t value = 0;
  for (at += base == 16 ? 2 : 0; at < end; at++) {
    const int digit = digit_of(*at);
    if (digit < 0 || digit >= base || __builtin_mul_overflow(value, (uint64_t)base, &value) ||
        __builtin_add_overflow(value, (uint64_t)digit, &value))
      return false;
  }
  *out = value;
  return true;
}

bool ir_words_number(ir_words *w, int64_t least, int64_t most, int64_t *out) {
  char expected[80];
  bool is_negative;
  uint64_t magnitude;
  bool is_good = read_magnitude(w, &is_negative, &magnitude) &&
                 magnitude <= (uint64_t)INT64_MAX + (is_negative ? 1u : 0u);
  *out = is_good ? (int64_t)(is_negative ? 0 - magnitude : magnitude) : 0;
  if (is_good && *out >= least && *out <= most) return ir_words_next(w), w->error.status == KILN_OK;
  snprintf(expected, sizeof expected, "a number from %" PRId64 " to %" PRId64, least, most);
  return ir_words_fail(w, expected);
}

bool ir_words_bits(ir_words *w, uint64_t *out) {
  bool is_negative;
  if (!read_magnitude(w, &is_negative, out)) return ir_words_fail(w, "an integer of 64 bits");
  if (is_negative) *out = 0 - *out;
  ir_words_next(w);
  return true;
}

bool ir_words_text(ir_words *w, const char **out) {
  if (w->kind != IR_TOKEN_TEXT || w->length < 2 || w->start[w->length - 1] != '"')
    return ir_words_fail(w, "a text between quotes, on one line");
  char *text = kiln_arena_alloc(w->arena, w->length), *to = text;
  for (const char *at = w->start + 1, *end = w->start + w->length - 1; at < end; at++) {
    if (*at != '\\') {
      if (!*at) return ir_words_fail_at(w, w->place, "expected a text, found a NUL in it");
      *to++ = *at;
      continue;
    }
    at++;
    const int high = end - at > 2 && *at == 'x' ? digit_of(at[1]) : -1,
              low = high >= 0 ? digit_of(at[2]) : -1;
    if (at < end && (*at == '"' || *at == '\\')) *to++ = *at;
    else if (at < end && *at == 'n') *to++ = '\n';
    else if (low >= 0 && (high || low)) *to++ = (char)(high << 4 | low), at += 2;
    else
      return ir_words_fail_at(w, w->place,
                              "expected \\n, \\\", \\\\ or \\x and two digits after '\\', found another");
  }
  *to = 0;
  *out = text;
  ir_words_next(w);
  return true;
}

bool ir_words_line(ir_words *w, const char **out) {
  const char *begin = w->start, *end = begin;
  while (end < w->end && *end != '\n') end++;
  w->at = end;
  while (end > begin && (end[-1] == ' ' || end[-1] == '\r')) end--;
  if (w->kind == IR_TOKEN_END || end == begin) return ir_words_fail(w, "something on the line");
  if (memchr(begin, 0, (size_t)(end - begin)))
    return ir_words_fail_at(w, w->place, "expected a text, found a NUL in it");
  *out = kiln_arena_text(w->arena, begin, (size_t)(end - begin));
  ir_words_next(w);
  return true;
}
