// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text to tokens, in one pass. Newlines carry no meaning; every token keeps its line and column for messages and
// recovery. The names of a module are in a table, each once, with reserved words and element types from the start.
#include "compiler/front/lex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/texts.h"

// ----------------------------------------------------------------------------------------------------- names

enum { FIRST_BUCKETS = 256 };

static const struct word {
  char text[12];
  uint8_t length, kind;
} words[] = {
#define TOKEN(name, text)
#define KEYWORD(name, text) {text, sizeof text - 1, KILN_TOKEN_##name},
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
};
#define TOKEN(name, text)
#define KEYWORD(name, word) _Static_assert(sizeof word <= sizeof words->text, "it has room: " word);
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD

static uint32_t hash_of(const char *text, size_t length) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < length; i++) h = (h ^ (uint8_t)text[i]) * 16777619u;
  return h;
}

static kiln_atom *look(const kiln_atoms *atoms, const char *text, size_t length, uint32_t hash) {
  for (kiln_atom *a = atoms->buckets[hash & (atoms->bucket_count - 1)]; a; a = a->next)
    if (a->hash == hash && a->length == length && !memcmp(a->text, text, length)) return a;
  return NULL;
}

static void grow(kiln_atoms *atoms) {
  uint32_t count = atoms->bucket_count * 4;
  kiln_atom **buckets = KILN_NEW_ARRAY(atoms->arena, kiln_atom *, count);
  for (uint32_t i = 0; i < atoms->bucket_count; i++) {
    for (kiln_atom *a = atoms->buckets[i], *next; a; a = next) {
      next = a->next;
      a->next = buckets[a->hash & (count - 1)];
      buckets[a->hash & (count - 1)] = a;
    }
  }
  atoms->buckets = buckets;
  atoms->bucket_count = count;
}

kiln_atom *kiln_atoms_find(const kiln_atoms *atoms, const char *text, size_t length) {
  return look(atoms, text, length, hash_of(text, length));
}

kiln_atom *kiln_atoms_get(kiln_atoms *atoms, const char *text, size_t length) {
  uint32_t hash = hash_of(text, length);
  kiln_atom *a = look(atoms, text, length, hash);
  if (a) return a;
  if (atoms->count >= atoms->bucket_count) grow(atoms);
  a = KILN_NEW(atoms->arena, kiln_atom);
  *a = (kiln_atom){.text = kiln_arena_text(atoms->arena, text, length),
                   .length = (uint32_t)length,
                   .hash = hash,
                   .id = atoms->count++};
  kiln_atom **bucket = &atoms->buckets[hash & (atoms->bucket_count - 1)];
  a->next = *bucket;
  return *bucket = a;
}

void kiln_atoms_init(kiln_atoms *atoms, kiln_arena *arena) {
  *atoms = (kiln_atoms){.arena = arena, .bucket_count = FIRST_BUCKETS};
  atoms->buckets = KILN_NEW_ARRAY(arena, kiln_atom *, FIRST_BUCKETS);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    kiln_atoms_get(atoms, words[i].text, words[i].length)->keyword = words[i].kind;
  for (unsigned i = 0; i < KILN_SCALAR_COUNT; i++) {
    kiln_atom *a = kiln_atoms_get(atoms, kiln_scalars[i].spelling, strlen(kiln_scalars[i].spelling));
    a->keyword = KILN_TOKEN_SCALAR;
    a->scalar = (uint8_t)i;
  }
}

// ---------------------------------------------------------------------------------------------------- tokens

typedef struct lexer {
  kiln_arena *arena;
  kiln_atoms *atoms;
  kiln_diagnostics *d;
  const char *file, *at, *end, *line_start;
  uint32_t line;
  kiln_token *items;
  uint32_t count, capacity;
} lexer;

const char *kiln_token_text(kiln_token_kind kind) {
  static const char texts[] =
#define TOKEN(name, text) text "\0"
#define KEYWORD(name, text) "'" text "'\0"
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
      ;
  return kiln_text_at(texts, kind);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte `ahead` of the current one, or 0 at the end.
static char peek(const lexer *l, size_t ahead) { return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : 0; }

static ir_place place_of(const lexer *l, const char *at) {
  return (ir_place){l->line, (uint32_t)(at - l->line_start) + 1};
}

static kiln_token *push(lexer *l, kiln_token_kind kind, const char *start) {
  KILN_GROW(l->arena, l->items, l->count, l->capacity);
  kiln_token *t = &l->items[l->count++];
  *t = (kiln_token){.kind = (uint8_t)kind,
                    .length = (uint32_t)(l->at - start),
                    .place = place_of(l, start),
                    .start = start};
  return t;
}

static void skip_blanks(lexer *l) {
  for (; l->at < l->end; l->at++) {
    char c = *l->at;
    if (c == '\n') {
      l->line++;
      l->line_start = l->at + 1;
    } else if (c == '/' && peek(l, 1) == '/') {
      const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
      l->at = (newline ? newline : l->end) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

static void lex_word(lexer *l) {
  const char *start = l->at;
  while (l->at < l->end && (is_letter(*l->at) || is_digit(*l->at))) l->at++;
  size_t length = (size_t)(l->at - start);
  if (length == 1 && *start == '_') {
    push(l, KILN_TOKEN_UNDERSCORE, start);
    return;
  }
  kiln_atom *atom = kiln_atoms_get(l->atoms, start, length);
  kiln_token *t = push(l, atom->keyword ? atom->keyword : KILN_TOKEN_NAME, start);
  t->atom = atom;
  t->scalar = atom->scalar;
}

static void skip_hex(lexer *l) {
  while (hex_digit(peek(l, 0)) >= 0) l->at++;
}

static void skip_decimal(lexer *l) {
  while (is_digit(peek(l, 0))) l->at++;
}

void kiln_lex_too_large(kiln_diagnostics *d, const char *file, const kiln_token *t) {
  kiln_diagnose(d, KILN_ERROR, file, t->place, "integer %.*s does not fit 64 bits",
                (int)(t->length > 80 ? 80 : t->length), t->start);
}

static void set_integer(lexer *l, kiln_token *t, bool hex) {
  uint64_t v = 0;
  bool overflow = false;
  for (const char *c = t->start + (hex ? 2 : 0); c < l->at; c++) {
    uint64_t base = hex ? 16 : 10;
    overflow |= __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, (uint64_t)hex_digit(*c), &v);
  }
  t->is_2_63 = !overflow && !hex && v == (uint64_t)INT64_MAX + 1;
  if (overflow || (!hex && v > INT64_MAX && !t->is_2_63)) {
    kiln_lex_too_large(l->d, l->file, t);
    v = 1; // what suits most places: one error is enough
  }
  t->integer = (int64_t)v;
  t->is_pattern = hex;
}

static void set_real(lexer *l, kiln_token *t) {
  char small[128];
  char *text = t->length < sizeof small ? small : kiln_arena_alloc(l->arena, (size_t)t->length + 1);
  memcpy(text, t->start, t->length);
  text[t->length] = 0;
  t->real = strtod(text, NULL);
  if (isinf(t->real))
    kiln_diagnose(l->d, KILN_ERROR, l->file, t->place, "number %.*s does not fit f64",
                  (int)(t->length > 80 ? 80 : t->length), t->start);
}

static void lex_number(lexer *l) {
  const char *start = l->at;
  bool hex = *start == '0' && (peek(l, 1) | 0x20) == 'x' && hex_digit(peek(l, 2)) >= 0, real = false;
  if (hex) l->at += 2;
  hex ? skip_hex(l) : skip_decimal(l);
  if (peek(l, 0) == '.' && (hex ? hex_digit(peek(l, 1)) >= 0 : is_digit(peek(l, 1)))) {
    real = true;
    l->at++;
    hex ? skip_hex(l) : skip_decimal(l);
  }
  size_t sign = peek(l, 1) == '+' || peek(l, 1) == '-';
  bool exponent = (peek(l, 0) | 0x20) == (hex ? 'p' : 'e') && is_digit(peek(l, 1 + sign));
  if (exponent) {
    l->at += 1 + sign;
    skip_decimal(l);
  }
  kiln_token *t = push(l, real || exponent ? KILN_TOKEN_FLOAT : KILN_TOKEN_INTEGER, start);
  if (hex && real && !exponent)
    kiln_diagnose(l->d, KILN_ERROR, l->file, t->place, "a hex float needs an exponent, as in 0x1.8p0");
  t->kind == KILN_TOKEN_FLOAT ? set_real(l, t) : set_integer(l, t, hex);
  if (!is_letter(peek(l, 0))) return;
  const char *more = l->at;
  while (is_letter(peek(l, 0)) || is_digit(peek(l, 0))) l->at++;
  kiln_diagnose(l->d, KILN_ERROR, l->file, place_of(l, more), "expected the end of the number, found '%.*s'",
                (int)(l->at - more > 40 ? 40 : l->at - more), more);
}

static void lex_string(lexer *l) {
  const char *start = l->at++, *from = l->at;
  while (l->at < l->end && *l->at != '"' && *l->at != '\n')
    l->at += *l->at == '\\' && l->end - l->at > 1 && l->at[1] != '\n' ? 2 : 1;
  char *text = kiln_arena_alloc(l->arena, (size_t)(l->at - from) + 1), *to = text;
  for (const char *c = from; c < l->at; c++) {
    if (*c != '\\' || c + 1 == l->at) {
      *to++ = *c;
      continue;
    }
    switch (*++c) {
    case 'n': *to++ = '\n'; break;
    case 't': *to++ = '\t'; break;
    case '"':
    case '\\': *to++ = *c; break;
    default:
      kiln_diagnose(l->d, KILN_ERROR, l->file, place_of(l, c - 1),
                    "unknown escape in a string; known are \\n \\t \\\" \\\\");
    }
  }
  bool closed = l->at < l->end && *l->at == '"';
  if (closed) l->at++;
  push(l, KILN_TOKEN_STRING, start)->text = text;
  if (!closed)
    kiln_diagnose(l->d, KILN_ERROR, l->file, place_of(l, start),
                  "expected '\"' at the end of the string before the end of the line");
}

static const struct sign {
  char first, second; // second 0: alone
  uint8_t kind;
} signs[] = {
    {'<', '<', KILN_TOKEN_SHIFTLEFT},  {'<', '=', KILN_TOKEN_LESSEQ},    {'<', 0, KILN_TOKEN_LESS},
    {'>', '>', KILN_TOKEN_SHIFTRIGHT}, {'>', '=', KILN_TOKEN_GREATEREQ}, {'>', 0, KILN_TOKEN_GREATER},
    {'=', '=', KILN_TOKEN_EQUAL},      {'=', 0, KILN_TOKEN_ASSIGN},      {'!', '=', KILN_TOKEN_UNEQUAL},
    {'.', '.', KILN_TOKEN_DOTS},       {'.', 0, KILN_TOKEN_DOT},         {'(', 0, KILN_TOKEN_LPAREN},
    {')', 0, KILN_TOKEN_RPAREN},       {'[', 0, KILN_TOKEN_LBRACKET},    {']', 0, KILN_TOKEN_RBRACKET},
    {'{', 0, KILN_TOKEN_LBRACE},       {'}', 0, KILN_TOKEN_RBRACE},      {',', 0, KILN_TOKEN_COMMA},
    {':', 0, KILN_TOKEN_COLON},        {'@', 0, KILN_TOKEN_AT},          {'|', 0, KILN_TOKEN_PIPE},
    {'^', 0, KILN_TOKEN_CARET},        {'&', 0, KILN_TOKEN_AMPERSAND},   {'~', 0, KILN_TOKEN_TILDE},
    {'+', 0, KILN_TOKEN_PLUS},         {'-', 0, KILN_TOKEN_MINUS},       {'*', 0, KILN_TOKEN_STAR},
    {'/', 0, KILN_TOKEN_SLASH},        {'%', 0, KILN_TOKEN_PERCENT},
};

/// A byte that no text has, or a part of a character beyond ASCII.
static bool is_nonsense(unsigned char c) {
  return c >= 0x7f || (c < 0x20 && c != '\n' && c != '\t' && c != '\r');
}

static void lex_sign(lexer *l) {
  const char *start = l->at;
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
    if (*start != signs[i].first || (signs[i].second && peek(l, 1) != signs[i].second)) continue;
    l->at += signs[i].second ? 2 : 1;
    push(l, signs[i].kind, start);
    return;
  }
  unsigned char c = (unsigned char)*l->at++;
  while (l->at < l->end && is_nonsense((unsigned char)*l->at))
    l->at++; // what follows of one UTF-8 word, or of bytes that are no text, is one mistake
  if (c > 0x20 && c < 0x7f)
    kiln_diagnose(l->d, KILN_ERROR, l->file, place_of(l, start), "character '%c' has no meaning here", c);
  else
    kiln_diagnose(l->d, KILN_ERROR, l->file, place_of(l, start),
                  "byte 0x%02x has no meaning outside comments", c);
}

/// A file with zero bytes is no text, and one message says so.
static bool refuse_zero(lexer *l) {
  const char *zero = l->at < l->end ? memchr(l->at, 0, (size_t)(l->end - l->at)) : NULL;
  if (!zero) return false;
  for (; l->at < zero; l->at++)
    if (*l->at == '\n') l->line++, l->line_start = l->at + 1;
  kiln_diagnose(l->d, KILN_ERROR, l->file, place_of(l, zero), "expected text in UTF-8, found a zero byte");
  push(l, KILN_TOKEN_END, zero);
  return true;
}

kiln_tokens kiln_lex(kiln_arena *arena, kiln_atoms *atoms, const char *file, const char *text, size_t size,
                     uint32_t line, kiln_diagnostics *d) {
  static const char mark[] = "\xef\xbb\xbf"; // the byte order mark that some editors put first
  lexer l = {.arena = arena,
             .atoms = atoms,
             .d = d,
             .file = file,
             .at = text,
             .end = text + size,
             .line_start = text,
             .line = line};
  l.capacity = (uint32_t)(size / 6 + 16);
  l.items = KILN_NEW_ARRAY(arena, kiln_token, l.capacity);
  if (line == 1 && size >= sizeof mark - 1 && !memcmp(text, mark, sizeof mark - 1))
    l.at = l.line_start = text + sizeof mark - 1;
  if (refuse_zero(&l)) return (kiln_tokens){l.items, l.count, false};
  for (skip_blanks(&l); l.at < l.end; skip_blanks(&l)) {
    if (is_letter(*l.at)) lex_word(&l);
    else if (is_digit(*l.at)) lex_number(&l);
    else if (*l.at == '"') lex_string(&l);
    else lex_sign(&l);
  }
  push(&l, KILN_TOKEN_END, l.at);
  return (kiln_tokens){l.items, l.count, true};
}
