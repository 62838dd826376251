// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses the text of shapes that `kiln tune` measures kernels with.
#include "tools/tune/shapes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CHOICES = 256, MOST_DEPTH = 16, MOST_LINE = 1 << 16 };

typedef struct argument {
  const char *name, *at;             // `at`: of the value in the text
  const char *choices[MOST_CHOICES]; // values, braces opened
  uint32_t choice_count, chosen;
} argument;

typedef struct source {
  kiln_arena *arena;
  const char *file, *line_begin;
  uint32_t line;
  kiln_tuned_place *place;
  argument *arguments; // of the line
  uint32_t count;
  tune_shape *shapes;
  uint32_t shape_count, capacity;
  kiln_error *err;
} source;

static KILN_PRINTF(3, 4) kiln_status fault(source *s, const char *at, const char *format, ...) {
  char text[500];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  *s->place = (kiln_tuned_place){s->line, (uint32_t)(at - s->line_begin) + 1};
  return kiln_fail(s->err, KILN_STATUS_SOURCE, "%s:%u:%u: %s", s->file, s->line, s->place->column, text);
}

// ------------------------------------------------------------------------------------- expressions

static const argument *find_argument(const source *s, const char *name, size_t length) {
  for (uint32_t i = 0; i < s->count; i++)
    if (strlen(s->arguments[i].name) == length && !memcmp(s->arguments[i].name, name, length))
      return &s->arguments[i];
  return NULL;
}

static bool sum(const source *s, const char **at, unsigned depth, int64_t *out);

static bool factor(const source *s, const char **at, unsigned depth, int64_t *out) {
  const char *begin = *at;
  if (isdigit((unsigned char)*begin)) {
    for (*out = 0; isdigit((unsigned char)**at); ++*at)
      if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, **at - '0', out))
        return false;
    return true;
  }
  while (isalnum((unsigned char)**at) || **at == '_') ++*at;
  const argument *a = find_argument(s, begin, (size_t)(*at - begin));
  if (!a || depth == MOST_DEPTH) return false;
  const char *value = a->choices[a->chosen];
  return sum(s, &value, depth + 1, out) && !*value;
}

static bool product(const source *s, const char **at, unsigned depth, int64_t *out) {
  int64_t more;
  if (!factor(s, at, depth, out)) return false;
  while (**at == '*') {
    ++*at;
    if (!factor(s, at, depth, &more) || __builtin_mul_overflow(*out, more, out)) return false;
  }
  return true;
}

// NAME or NUMBER, joined by * and +.
static bool sum(const source *s, const char **at, unsigned depth, int64_t *out) {
  int64_t more;
  if (!product(s, at, depth, out)) return false;
  while (**at == '+') {
    ++*at;
    if (!product(s, at, depth, &more) || __builtin_add_overflow(*out, more, out)) return false;
  }
  return true;
}

// Whether a part of a value has to be computed: 4096, -1, 0.5 and 0x10 are copied.
static bool is_expression(const char *part, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (part[i] == '*' || (i && part[i] == '+' && part[i - 1] != 'e')) return true;
  return length && (isalpha((unsigned char)*part) || *part == '_');
}

// Writes the value with expressions replaced by numbers; in a buffer, those after the first colon or bracket.
static kiln_status compute_argument(source *s, const argument *a, kiln_buffer *out) {
  const char *value = a->choices[a->chosen], *at = value;
  bool is_buffer = strpbrk(value, ":[") || *value == '@' || !strcmp(value, "null");
  if (*value == '@') at = value + strlen(value); // a file
  else if (is_buffer) at = value + strcspn(value, ":[");
  kiln_buffer_bytes(out, value, (size_t)(at - value));
  while (*at) {
    size_t length = strcspn(at, ":[],;");
    int64_t number;
    char part[200];
    if (is_expression(at, length)) {
      snprintf(part, sizeof part, "%.*s", (int)length, at);
      const char *end = part;
      if (!sum(s, &end, 0, &number) || *end)
        return fault(s, a->at, "'%s' is no sum of products of numbers and integer arguments of this line",
                     part);
      kiln_buffer_format(out, "%lld", (long long)number);
    } else {
      kiln_buffer_bytes(out, at, length);
    }
    at += length;
    if (*at) kiln_buffer_u8(out, (uint8_t)*at++);
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- lines

// "{a,b}" anywhere in the value, once.
static kiln_status open_braces(source *s, argument *a, const char *value, size_t length) {
  const char *open = memchr(value, '{', length),
             *close = open ? memchr(open, '}', length - (size_t)(open - value)) : NULL;
  if (!open) {
    a->choices[a->choice_count++] = kiln_arena_text(s->arena, value, length);
    return KILN_OK;
  }
  if (!close) return fault(s, open, "the brace is not closed");
  for (const char *at = open; at < close;) {
    const char *begin = at + 1;
    for (at = begin; at < close && *at != ','; at++) {
    }
    if (at == begin) return fault(s, begin, "expected a value");
    if (a->choice_count == MOST_CHOICES) return fault(s, begin, "more than %d values", MOST_CHOICES);
    a->choices[a->choice_count++] =
        kiln_arena_format(s->arena, "%.*s%.*s%.*s", (int)(open - value), value, (int)(at - begin), begin,
                          (int)(value + length - close - 1), close + 1);
  }
  return KILN_OK;
}

static kiln_status add_argument(source *s, const char *word, size_t length) {
  const char *equals = memchr(word, '=', length);
  if (!equals || equals == word)
    return fault(s, word, "expected NAME=VALUE, found '%.*s'", (int)length, word);
  if (find_argument(s, word, (size_t)(equals - word)))
    return fault(s, word, "'%.*s' is given twice", (int)(equals - word), word);
  if (s->count == TUNE_MOST_ARGUMENTS) return fault(s, word, "more than %d arguments", TUNE_MOST_ARGUMENTS);
  argument *a = &s->arguments[s->count++];
  *a = (argument){.name = kiln_arena_text(s->arena, word, (size_t)(equals - word)), .at = equals + 1};
  size_t rest = length - (size_t)(equals + 1 - word);
  return rest ? open_braces(s, a, equals + 1, rest) : fault(s, equals + 1, "expected a value");
}

// Adds the shape of the current choices.
static kiln_status add_shape(source *s, const char *kernel) {
  if (s->shape_count == TUNE_MOST_SHAPES)
    return fault(s, s->line_begin, "more than %d shapes", TUNE_MOST_SHAPES);
  KILN_GROW(s->arena, s->shapes, s->shape_count, s->capacity);
  tune_shape *shape = &s->shapes[s->shape_count++];
  *shape = (tune_shape){kernel, KILN_NEW_ARRAY(s->arena, const char *, s->count), s->count, s->line};
  for (uint32_t i = 0; i < s->count; i++) {
    kiln_buffer text = {0};
    kiln_buffer_format(&text, "%s=", s->arguments[i].name);
    kiln_status status = compute_argument(s, &s->arguments[i], &text);
    shape->arguments[i] = kiln_arena_text(s->arena, (const char *)text.bytes, text.size);
    kiln_buffer_deinit(&text);
    if (status != KILN_OK) return status;
  }
  return KILN_OK;
}

// Advances to the next combination, the last argument first; false after the last combination.
static bool next_choice(source *s) {
  for (uint32_t i = s->count; i-- > 0;) {
    if (++s->arguments[i].chosen < s->arguments[i].choice_count) return true;
    s->arguments[i].chosen = 0;
  }
  return false;
}

static kiln_status read_line(source *s, const char *at, const char *end) {
  const char *kernel = NULL;
  s->count = 0;
  for (; at < end; at++) {
    const char *word = at;
    if (*at == ' ' || *at == '\t' || *at == '\r') continue;
    while (at < end && *at != ' ' && *at != '\t' && *at != '\r') at++;
    if (!kernel && *word == '#') return KILN_OK;
    if (!kernel) kernel = kiln_arena_text(s->arena, word, (size_t)(at - word));
    else KILN_TRY(add_argument(s, word, (size_t)(at - word)));
  }
  if (!kernel) return KILN_OK;
  do KILN_TRY(add_shape(s, kernel));
  while (next_choice(s));
  return KILN_OK;
}

kiln_status tune_shapes_read(kiln_arena *arena, const char *file, const char *text, size_t size,
                             tune_shape **out, uint32_t *out_count, kiln_tuned_place *out_place,
                             kiln_error *err) {
  source s = {.arena = arena,
              .file = file,
              .place = out_place,
              .err = err,
              .arguments = KILN_NEW_ARRAY(arena, argument, TUNE_MOST_ARGUMENTS)};
  kiln_status status = KILN_OK;
  for (const char *at = text, *end = text + size; at < end && status == KILN_OK;) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    s.line_begin = at;
    s.line++;
    status = read_line(&s, at, newline ? newline : end);
    at = newline ? newline + 1 : end;
  }
  *out = s.shapes;
  *out_count = s.shape_count;
  return status;
}
