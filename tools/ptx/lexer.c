// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits PTX text into tokens.
#include "tools/ptx/lexer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_lexer_init(ptx_lexer *l, const char *name, const char *text, size_t size, kiln_error *err) {
  *l = (ptx_lexer){.name = name, .at = text, .end = text + size, .line_start = text, .line = 1, .err = err};
  ptx_next(l);
}

void ptx_fail(ptx_lexer *l, kiln_status status, const char *format, ...) {
  char text[300];
  va_list arguments;
  if (l->status != KILN_OK) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  l->status = kiln_fail(l->err, status, "%s:%u:%u: %s", l->name, l->token.line, l->token.column, text);
  l->at = l->end;
  l->token.kind = TOKEN_END;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

static void skip_blanks(ptx_lexer *l) {
  while (l->at < l->end) {
    if (*l->at == '\n') {
      l->line++;
      l->line_start = ++l->at;
    } else if (isspace((unsigned char)*l->at)) {
      l->at++;
    } else if (l->at + 1 < l->end && l->at[0] == '/' && l->at[1] == '/') {
      while (l->at < l->end && *l->at != '\n') l->at++;
    } else if (l->at + 1 < l->end && l->at[0] == '/' && l->at[1] == '*') {
      for (l->at += 2; l->at + 1 < l->end && (l->at[0] != '*' || l->at[1] != '/'); l->at++)
        if (*l->at == '\n') l->line++, l->line_start = l->at + 1;
      l->at += l->at + 1 < l->end ? 2 : 1;
    } else {
      return;
    }
  }
}

static uint64_t hexadecimal(ptx_lexer *l, const char *digits, uint32_t length) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < length; i++) {
    if (!isxdigit((unsigned char)digits[i])) {
      ptx_fail(l, KILN_STATUS_SOURCE, "expected %u hexadecimal digits", length);
      return 0;
    }
    value = value << 4 |
            (uint64_t)(isdigit((unsigned char)digits[i]) ? digits[i] - '0' : (digits[i] | 32) - 'a' + 10);
  }
  return value;
}

// 12, 0x1F, 0b10, 017, 1.5, 1e-3, 0f3F800000, 0d3FF0000000000000; an integer may end in U.
static void lex_number(ptx_lexer *l) {
  ptx_token *t = &l->token;
  const char *s = l->at;
  char copy[64];
  while (l->at < l->end &&
         (is_word(*l->at) || *l->at == '.' ||
          ((*l->at == '-' || *l->at == '+') && l->at > s && (l->at[-1] | 32) == 'e' && s[1] != 'x')))
    l->at++;
  t->length = (uint32_t)(l->at - s);
  if (t->length >= sizeof copy) {
    ptx_fail(l, KILN_STATUS_SOURCE, "a number of %u characters", t->length);
    return;
  }
  memcpy(copy, s, t->length);
  copy[t->length] = 0;
  if (copy[0] == '0' && (copy[1] | 32) == 'f' && t->length == 10) {
    t->number_bits = 32;
    t->number = hexadecimal(l, copy + 2, 8);
    return;
  }
  if (copy[0] == '0' && (copy[1] | 32) == 'd' && t->length == 18) {
    t->number_bits = 64;
    t->number = hexadecimal(l, copy + 2, 16);
    return;
  }
  char *rest;
  bool is_binary = copy[0] == '0' && (copy[1] | 32) == 'b';
  t->number = is_binary ? strtoull(copy + 2, &rest, 2) : strtoull(copy, &rest, 0);
  if (*rest == 'U') rest++;
  if (*rest == '.' || (*rest | 32) == 'e') {
    double value = strtod(copy, &rest);
    t->number_bits = 64;
    memcpy(&t->number, &value, sizeof value);
  }
  if (*rest) ptx_fail(l, KILN_STATUS_SOURCE, "expected a number, found '%s'", copy);
}

void ptx_next(ptx_lexer *l) {
  ptx_token *t = &l->token;
  if (l->status != KILN_OK) return;
  skip_blanks(l);
  *t = (ptx_token){.text = l->at, .line = l->line, .column = (uint32_t)(l->at - l->line_start) + 1};
  if (l->at >= l->end) return;
  char c = *l->at;
  char after = l->at + 1 < l->end ? l->at[1] : 0;
  if (isdigit((unsigned char)c)) {
    t->kind = TOKEN_NUMBER;
    lex_number(l);
    return;
  }
  if (c == '"') {
    t->kind = TOKEN_TEXT;
    for (t->text = ++l->at; l->at < l->end && *l->at != '"' && *l->at != '\n'; l->at++) continue;
    t->length = (uint32_t)(l->at - t->text);
    if (l->at >= l->end || *l->at != '"') ptx_fail(l, KILN_STATUS_SOURCE, "a text without an end");
    else l->at++;
    return;
  }
  if (c == '.' && is_word(after)) {
    t->kind = TOKEN_DOT;
    t->text = ++l->at;
    while (l->at < l->end && (is_word(*l->at) ||
                              (*l->at == ':' && l->at + 2 < l->end && l->at[1] == ':' && is_word(l->at[2])) ||
                              (*l->at == ':' && l->at[-1] == ':')))
      l->at++;
  } else if (is_word(c) || (c == '%' && is_word(after))) {
    t->kind = TOKEN_NAME;
    for (l->at++; l->at < l->end && is_word(*l->at);) l->at++;
  } else {
    t->kind = TOKEN_PUNCTUATION;
    l->at++;
  }
  t->length = (uint32_t)(l->at - t->text);
}

bool ptx_is(const ptx_lexer *l, ptx_token_kind kind, const char *text) {
  return l->token.kind == kind && strlen(text) == l->token.length &&
         !memcmp(l->token.text, text, l->token.length);
}

bool ptx_take(ptx_lexer *l, ptx_token_kind kind, const char *text) {
  bool is_there = ptx_is(l, kind, text);
  if (is_there) ptx_next(l);
  return is_there;
}

void ptx_expect(ptx_lexer *l, const char *text) {
  if (ptx_take(l, TOKEN_PUNCTUATION, text)) return;
  ptx_fail(l, KILN_STATUS_SOURCE, "expected '%s', found '%.*s'", text,
           (int)(l->token.length < 40 ? l->token.length : 40), l->token.text);
}

uint64_t ptx_expect_integer(ptx_lexer *l, const char *what) {
  bool is_negative = ptx_take(l, TOKEN_PUNCTUATION, "-");
  uint64_t number = l->token.number;
  if (l->token.kind != TOKEN_NUMBER || l->token.number_bits)
    ptx_fail(l, KILN_STATUS_SOURCE, "expected %s, found '%.*s'", what,
             (int)(l->token.length < 40 ? l->token.length : 40), l->token.text);
  ptx_next(l);
  return is_negative ? 0 - number : number;
}
