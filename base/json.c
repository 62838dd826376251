// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads JSON, in one loop over a stack of open arrays and objects.
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_reader {
  kiln_arena *arena;
  const char *at, *end;
  uint32_t line;
  kiln_json *open[KILN_JSON_MAX_DEPTH]; ///< arrays and objects around
  kiln_json *last[KILN_JSON_MAX_DEPTH]; ///< their newest members
  uint32_t depth;
  kiln_error *err;
} json_reader;

static kiln_status expected(const json_reader *r, const char *what) {
  if (r->at >= r->end)
    return kiln_fail(r->err, KILN_STATUS_SOURCE, "JSON line %u: expected %s, found the end", r->line, what);
  unsigned char c = (unsigned char)*r->at;
  if (c > ' ' && c < 0x7f)
    return kiln_fail(r->err, KILN_STATUS_SOURCE, "JSON line %u: expected %s, found '%c'", r->line, what, c);
  return kiln_fail(r->err, KILN_STATUS_SOURCE, "JSON line %u: expected %s, found byte 0x%02x", r->line, what,
                   c);
}

static void skip_space(json_reader *r) {
  for (; r->at < r->end; r->at++) {
    if (*r->at == '\n') r->line++;
    else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r') return;
  }
}

static bool skip_word(json_reader *r, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

// Four hexadecimal digits.
static bool read_unit(json_reader *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    if (r->at >= r->end) return false;
    char c = *r->at;
    uint32_t digit = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                          : 16;
    if (digit > 15) return false;
    *out = *out * 16 + digit;
  }
  return true;
}

static char *put_utf8(char *to, uint32_t code) {
  if (code < 0x80) *to++ = (char)code;
  else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 63));
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

// After \u: one code point, surrogate pairs joined; a lone surrogate becomes U+FFFD.
static bool read_code_point(json_reader *r, uint32_t *out) {
  uint32_t low;
  if (!read_unit(r, out)) return false;
  if (*out >= 0xdc00 && *out < 0xe000) *out = 0xfffd;
  if (*out < 0xd800 || *out >= 0xdc00) return true;
  const char *back = r->at;
  if (skip_word(r, "\\u") && read_unit(r, &low) && low >= 0xdc00 && low < 0xe000) {
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
  } else {
    r->at = back;
    *out = 0xfffd;
  }
  return true;
}

// At the opening quote. A text never grows by unescaping.
static kiln_status read_text(json_reader *r, const char **out, uint32_t *out_length) {
  static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  if (r->at >= r->end || *r->at != '"') return expected(r, "a text");
  const char *from = ++r->at, *stop = from;
  while (stop < r->end && *stop != '"') stop += *stop == '\\' && r->end - stop > 1 ? 2 : 1;
  char *text = kiln_arena_alloc(r->arena, (size_t)(stop - from) + 1), *to = text;
  while (r->at < r->end && *r->at != '"') {
    unsigned char c = (unsigned char)*r->at;
    if (c < ' ') return expected(r, "no control character in a text");
    r->at++;
    if (c != '\\') {
      *to++ = (char)c;
      continue;
    }
    const char *escape = r->at < r->end && *r->at ? strchr(escapes, *r->at) : NULL;
    uint32_t code;
    if (escape) {
      *to++ = meanings[escape - escapes];
      r->at++;
    } else if (skip_word(r, "u") && read_code_point(r, &code)) {
      to = put_utf8(to, code);
    } else return expected(r, "an escape");
  }
  if (r->at >= r->end) return expected(r, "'\"'");
  r->at++;
  *out = text;
  *out_length = (uint32_t)(to - text);
  return KILN_OK;
}

static bool digits(json_reader *r) {
  const char *from = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > from;
}

static kiln_status read_number(json_reader *r, kiln_json *value) {
  const char *from = r->at;
  skip_word(r, "-");
  bool zero = r->at < r->end && *r->at == '0';
  if (zero) r->at++;
  else if (!digits(r)) return expected(r, "a value");
  if (skip_word(r, ".") && !digits(r)) return expected(r, "a digit");
  if (r->at < r->end && (*r->at | 32) == 'e') {
    r->at++;
    if (!skip_word(r, "+")) skip_word(r, "-");
    if (!digits(r)) return expected(r, "a digit");
  }
  value->kind = KILN_JSON_NUMBER;
  value->length = (uint32_t)(r->at - from);
  value->text = kiln_arena_text(r->arena, from, value->length);
  return KILN_OK;
}

// Hangs `value` under the innermost open array or object.
static void append(json_reader *r, kiln_json *value) {
  if (r->depth == 0) return;
  kiln_json *parent = r->open[r->depth - 1], *last = r->last[r->depth - 1];
  *(last ? &last->next : &parent->first) = value;
  r->last[r->depth - 1] = value;
  parent->count++;
}

static kiln_status open_value(json_reader *r, kiln_json *value, kiln_json_kind kind) {
  if (r->depth == KILN_JSON_MAX_DEPTH)
    return kiln_fail(r->err, KILN_STATUS_LIMIT, "JSON line %u: expected at most %d levels", r->line,
                     KILN_JSON_MAX_DEPTH);
  value->kind = kind;
  r->open[r->depth] = value;
  r->last[r->depth++] = NULL;
  return KILN_OK;
}

static kiln_status read_scalar(json_reader *r, kiln_json *value) {
  if (skip_word(r, "null")) value->kind = KILN_JSON_NULL;
  else if (skip_word(r, "true")) value->kind = KILN_JSON_TRUE;
  else if (skip_word(r, "false")) value->kind = KILN_JSON_FALSE;
  else if (r->at < r->end && *r->at == '"') {
    value->kind = KILN_JSON_TEXT;
    return read_text(r, &value->text, &value->length);
  } else return read_number(r, value);
  return KILN_OK;
}

// A value with its name when the innermost open one is an object; arrays and objects are only opened.
static kiln_status read_member(json_reader *r, kiln_json **out) {
  kiln_json *value = KILN_NEW(r->arena, kiln_json);
  uint32_t length;
  *out = value;
  skip_space(r);
  if (r->depth && r->open[r->depth - 1]->kind == KILN_JSON_OBJECT) {
    KILN_TRY(read_text(r, &value->name, &length));
    skip_space(r);
    if (!skip_word(r, ":")) return expected(r, "':'");
    skip_space(r);
  }
  append(r, value);
  if (skip_word(r, "{")) return open_value(r, value, KILN_JSON_OBJECT);
  if (skip_word(r, "[")) return open_value(r, value, KILN_JSON_ARRAY);
  return read_scalar(r, value);
}

// After a value: closes what ends here. True in `out_more` when another member follows.
static kiln_status close_values(json_reader *r, bool *out_more) {
  *out_more = false;
  while (r->depth) {
    skip_space(r);
    if (skip_word(r, ",")) {
      *out_more = true;
      return KILN_OK;
    }
    if (!skip_word(r, r->open[r->depth - 1]->kind == KILN_JSON_OBJECT ? "}" : "]"))
      return expected(r, "',' or the end of an array or object");
    r->depth--;
  }
  return KILN_OK;
}

kiln_status kiln_json_parse(kiln_arena *arena, const char *text, size_t size, const kiln_json **out,
                            kiln_error *err) {
  json_reader *r = KILN_NEW(arena, json_reader);
  *r = (json_reader){.arena = arena, .at = text, .end = text + size, .line = 1, .err = err};
  kiln_json *value, *first = NULL;
  bool more = true;
  *out = NULL;
  if (size > UINT32_MAX / 2)
    return kiln_fail(err, KILN_STATUS_LIMIT, "JSON: expected less than 2 GiB, found %zu bytes", size);
  while (more) {
    KILN_TRY(read_member(r, &value));
    if (!first) first = value;
    // an array or object that was just opened: empty, or its first member follows
    bool opened = r->depth && r->open[r->depth - 1] == value;
    skip_space(r);
    if (opened && r->at < r->end && *r->at != '}' && *r->at != ']') continue;
    KILN_TRY(close_values(r, &more));
  }
  skip_space(r);
  if (r->at < r->end) return expected(r, "nothing more");
  *out = first;
  return KILN_OK;
}

const kiln_json *kiln_json_find(const kiln_json *object, const char *name) {
  if (!object || object->kind != KILN_JSON_OBJECT) return NULL;
  for (const kiln_json *member = object->first; member; member = member->next)
    if (strcmp(member->name, name) == 0) return member;
  return NULL;
}

bool kiln_json_integer(const kiln_json *value, int64_t *out) {
  char *end;
  if (!value || value->kind != KILN_JSON_NUMBER) return false;
  errno = 0;
  *out = strtoll(value->text, &end, 10);
  return errno == 0 && *end == 0;
}

const char *kiln_json_text(const kiln_json *object, const char *name, const char *absent) {
  const kiln_json *value = kiln_json_find(object, name);
  return value && value->kind == KILN_JSON_TEXT ? value->text : absent;
}
