// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small words of the reader: errors, marks, types, attribute dictionaries.
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ttir/ttir_reader.h"

static void stop(ttir_reader *r, ir_place at, const char *text) {
  char place[TTIR_PLACE_TEXT];
  ttir_source_place(r->module, at.line, place);
  if (place[0]) kiln_diagnose(r->d, KILN_ERROR, r->module->file, at, "%s (from %s)", text, place);
  else kiln_diagnose(r->d, KILN_ERROR, r->module->file, at, "%s", text);
  r->failed = true;
  r->lex.at = r->lex.end;
  r->lex.token.kind = TTIR_END;
}

static ir_place place_of_token(const ttir_reader *r) {
  const ttir_token *t = &r->lex.token;
  uint32_t column = t->start < r->lex.line_start ? 0 : (uint32_t)(t->start - r->lex.line_start) + 1;
  return (ir_place){.line = t->line, .column = column};
}

// Of the operation at hand, as far as it is known.
static ir_place place_of(const ttir_reader *r) {
  if (r->line && r->b.place.line == r->line) return r->b.place;
  if (!r->line || r->line == r->lex.token.line) return place_of_token(r);
  return (ir_place){.line = r->line};
}

void ttir_error(ttir_reader *r, const char *format, ...) {
  if (r->failed) return;
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  stop(r, place_of(r), text);
}

void ttir_builder_error(ttir_reader *r) {
  if (r->failed || r->b.error.status == KILN_OK) return;
  ttir_error(r, "%s%s%s", r->row ? r->row->name : "", r->row ? ": " : "", r->b.error.text);
}

bool ttir_peek(const ttir_reader *r, char mark) {
  return r->lex.token.kind == TTIR_MARK && *r->lex.token.at == mark;
}

bool ttir_peek_word(const ttir_reader *r, const char *word) {
  return r->lex.token.kind == TTIR_WORD && ttir_token_is(&r->lex.token, word);
}

bool ttir_accept(ttir_reader *r, char mark) {
  if (!ttir_peek(r, mark)) return false;
  ttir_lex_next(&r->lex);
  return true;
}

bool ttir_accept_word(ttir_reader *r, const char *word) {
  if (!ttir_peek_word(r, word)) return false;
  ttir_lex_next(&r->lex);
  return true;
}

// What stands at the look-ahead, for messages.
static const char *found(const ttir_reader *r, char out[48]) {
  const ttir_token *t = &r->lex.token;
  if (t->kind == TTIR_END) return "the end of the text";
  int length = (int)(t->at + t->length - t->start);
  if (length < 1) length = 1;
  bool printable = isprint((unsigned char)*t->start);
  snprintf(out, 48, printable ? "'%.*s'" : "a byte that is no text", length > 40 ? 40 : length, t->start);
  return out;
}

// A syntax error is placed where the look-ahead stands.
static void expected(ttir_reader *r, const char *what) {
  char text[48], message[160];
  if (r->failed) return;
  snprintf(message, sizeof message, "expected %s, found %s", what, found(r, text));
  stop(r, place_of_token(r), message);
}

void ttir_expect(ttir_reader *r, char mark) {
  char what[4] = {'\'', mark, '\'', 0};
  if (!ttir_accept(r, mark)) expected(r, what);
}

void ttir_expect_word(ttir_reader *r, const char *word) {
  if (!ttir_accept_word(r, word)) expected(r, word);
}

ttir_token ttir_take(ttir_reader *r, ttir_kind kind, const char *what) {
  ttir_token token = r->lex.token;
  if (token.kind != kind) {
    expected(r, what);
    return (ttir_token){.at = "", .start = "", .line = token.line, .kind = TTIR_END};
  }
  ttir_lex_next(&r->lex);
  return token;
}

uint8_t ttir_read_keyword(ttir_reader *r, const ttir_keyword *table, size_t count, const char *what) {
  ttir_token word = ttir_take(r, TTIR_WORD, what);
  for (size_t i = 0; i < count; i++)
    if (strlen(table[i].word) == word.length && memcmp(table[i].word, word.at, word.length) == 0)
      return table[i].value;
  if (!r->failed) ttir_error(r, "unknown %s '%.*s'", what, (int)word.length, word.at);
  return 0;
}

static int64_t integer_of(const char *text, uint32_t length) {
  char copy[32];
  if (length >= sizeof copy) length = sizeof copy - 1;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy[0] == '-' ? strtoll(copy, NULL, 10) : (int64_t)strtoull(copy, NULL, 0);
}

int64_t ttir_integer(ttir_reader *r) {
  ttir_token token = ttir_take(r, TTIR_NUMBER, "a number");
  return integer_of(token.at, token.length);
}

ttir_type ttir_read_type(ttir_reader *r, bool elided) {
  ttir_type type = {.type = ir_scalar_type(KILN_I32)};
  if (r->failed) return type;
  const char *complaint = ttir_lex_type(&r->lex, elided, r->old_e4m3, &type);
  if (complaint) {
    char text[48], message[160];
    snprintf(message, sizeof message, "%s; found %s", complaint, found(r, text));
    stop(r, place_of_token(r), message);
  }
  return type;
}

ttir_type ttir_colon_type(ttir_reader *r) {
  ttir_expect(r, ':');
  return ttir_read_type(r, false);
}

void ttir_skip_loc(ttir_reader *r) {
  if (!ttir_accept_word(r, "loc")) return;
  if (!ttir_peek(r, '(')) {
    expected(r, "'(' after loc");
    return;
  }
  if (!ttir_lex_skip_group(&r->lex)) expected(r, "')' that closes loc");
}

// ------------------------------------------------------------------------------------ dictionaries

// Steps over one value of an entry: everything up to a comma or the closing bracket.
static void skip_entry_value(ttir_reader *r) {
  while (!r->failed && !ttir_peek(r, ',') && !ttir_peek(r, '}') && r->lex.token.kind != TTIR_END) {
    if (ttir_peek(r, '(') || ttir_peek(r, '[') || ttir_peek(r, '{')) {
      if (!ttir_lex_skip_group(&r->lex)) expected(r, "a closing bracket");
    } else if (ttir_peek(r, '<')) {
      // array<i32: 1, 0>, dense<..>: commas inside belong to the value
      while (!ttir_peek(r, '>') && r->lex.token.kind != TTIR_END) ttir_lex_next(&r->lex);
    } else {
      ttir_lex_next(&r->lex);
    }
  }
}

void ttir_read_dictionary(ttir_reader *r, ttir_dictionary *out) {
  bool properties = ttir_peek(r, '<') && r->lex.at < r->lex.end && *r->lex.at == '{';
  if (properties) ttir_lex_next(&r->lex);
  if (!ttir_accept(r, '{')) return;
  while (!r->failed && !ttir_peek(r, '}')) {
    ttir_token name = r->lex.token.kind == TTIR_STRING ? ttir_take(r, TTIR_STRING, "")
                                                       : ttir_take(r, TTIR_WORD, "the name of an attribute");
    ttir_entry entry = {.name = name.at, .name_length = name.length, .value = "", .value_length = 0};
    if (ttir_accept(r, '=')) {
      entry.value = r->lex.token.start;
      skip_entry_value(r);
      entry.value_length = r->failed ? 0 : (uint32_t)(r->lex.token.start - entry.value);
    }
    if (out->count == TTIR_MAX_ENTRIES) {
      ttir_error(r, "expected at most %d attributes", TTIR_MAX_ENTRIES);
      return;
    }
    out->entries[out->count++] = entry;
    if (!ttir_accept(r, ',')) break;
  }
  ttir_expect(r, '}');
  if (properties) ttir_expect(r, '>');
}

const ttir_entry *ttir_entry_find(const ttir_dictionary *dictionary, const char *name) {
  size_t length = strlen(name);
  for (uint32_t i = 0; i < dictionary->count; i++)
    if (dictionary->entries[i].name_length == length &&
        memcmp(dictionary->entries[i].name, name, length) == 0)
      return &dictionary->entries[i];
  return NULL;
}

// After `dense<` or `array<i32:`, or where the value starts.
static const char *first_digit(const ttir_entry *entry) {
  const char *at = entry->value, *end = entry->value + entry->value_length;
  if (end - at > 6 && memcmp(at, "array<", 6) == 0) {
    while (at < end && *at != ':') at++;
  }
  while (at < end && *at != '-' && !isdigit((unsigned char)*at)) at++;
  return at;
}

int64_t ttir_entry_int(const ttir_dictionary *dictionary, const char *name, int64_t absent) {
  const ttir_entry *entry = ttir_entry_find(dictionary, name);
  if (!entry) return absent;
  if (entry->value_length == 0 || (entry->value_length >= 4 && memcmp(entry->value, "true", 4) == 0))
    return 1;
  if (entry->value_length >= 5 && memcmp(entry->value, "false", 5) == 0) return 0;
  const char *at = first_digit(entry);
  uint32_t left = (uint32_t)(entry->value + entry->value_length - at), length = 0;
  while (length < left && (isalnum((unsigned char)at[length]) || at[length] == '-')) length++;
  return length ? integer_of(at, length) : absent;
}

uint32_t ttir_entry_list(const ttir_dictionary *dictionary, const char *name, int64_t *out,
                         uint32_t capacity) {
  const ttir_entry *entry = ttir_entry_find(dictionary, name);
  if (!entry) return 0;
  const char *at = first_digit(entry), *end = entry->value + entry->value_length;
  uint32_t count = 0;
  while (at < end && count < capacity) {
    uint32_t length = *at == '-';
    while (at + length < end && isdigit((unsigned char)at[length])) length++;
    if (length == 0) break;
    out[count++] = integer_of(at, length);
    at += length;
    while (at < end && (*at == ',' || *at == ' ')) at++;
  }
  return count;
}

static int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

const char *ttir_entry_text(ttir_reader *r, const ttir_dictionary *dictionary, const char *name) {
  const ttir_entry *entry = ttir_entry_find(dictionary, name);
  if (!entry || entry->value_length < 2 || entry->value[0] != '"') return NULL;
  return ttir_unquote(r->arena, entry->value + 1, entry->value_length - 2);
}

// MLIR escapes: \n \t \\ \" and two hexadecimal digits.
const char *ttir_unquote(kiln_arena *arena, const char *from, uint32_t length) {
  char *text = kiln_arena_text(arena, from, length), *to = text;
  const char *end = from + length;
  while (from < end && *from != '"') {
    char c = *from++;
    if (c == '\\' && from < end) {
      int high = hex_of(from[0]), low = end - from > 1 ? hex_of(from[1]) : -1;
      if (high >= 0 && low >= 0) {
        c = (char)(high * 16 + low);
        from += 2;
      } else {
        c = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
        from++;
      }
    }
    *to++ = c;
  }
  *to = 0;
  return text;
}
