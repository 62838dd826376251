// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokens and types of Triton IR text.
#include "compiler/ttir/ttir_lex.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static void newline(ttir_lexer *l, const char *at) {
  l->line++;
  l->line_start = at + 1;
}

static void skip_space(ttir_lexer *l) {
  while (l->at < l->end) {
    char c = *l->at;
    if (c == '\n') newline(l, l->at++);
    else if (c == ' ' || c == '\t' || c == '\r') l->at++;
    else if (c == '/' && l->end - l->at > 1 && l->at[1] == '/') {
      const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
      l->at = stop ? stop : l->end;
    } else return;
  }
}

static void name_after(ttir_lexer *l, ttir_kind kind) {
  const char *from = ++l->at;
  // `%c-5_i32`: a minus sign is part of a name
  while (l->at < l->end && (is_word(*l->at) || *l->at == '-')) {
    if (*l->at == '-' && l->at + 1 < l->end && l->at[1] == '>') break;
    l->at++;
  }
  l->token.kind = kind;
  l->token.at = from;
  l->token.length = (uint32_t)(l->at - from);
}

static void quoted(ttir_lexer *l, ttir_kind kind) {
  const char *from = ++l->at;
  while (l->at < l->end && *l->at != '"' && *l->at != '\n')
    l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
  l->token.at = from;
  l->token.length = (uint32_t)(l->at - from);
  l->token.kind = l->at < l->end && *l->at == '"' ? kind : TTIR_BAD;
  if (l->token.kind != TTIR_BAD) l->at++;
}

static void number(ttir_lexer *l) {
  const char *from = l->at;
  if (*l->at == '-') l->at++;
  if (l->end - l->at > 2 && l->at[0] == '0' && l->at[1] == 'x' && is_hex(l->at[2])) {
    l->at += 2;
    while (l->at < l->end && is_hex(*l->at)) l->at++;
  } else {
    while (l->at < l->end && is_digit(*l->at)) l->at++;
    if (l->end - l->at > 1 && *l->at == '.' && is_digit(l->at[1])) {
      l->at++;
      while (l->at < l->end && is_digit(*l->at)) l->at++;
    }
    if (l->end - l->at > 1 && (*l->at == 'e' || *l->at == 'E')) {
      const char *exponent = l->at + 1;
      if (*exponent == '+' || *exponent == '-') exponent++;
      if (exponent < l->end && is_digit(*exponent)) {
        while (exponent < l->end && is_digit(*exponent)) exponent++;
        l->at = exponent;
      }
    }
  }
  l->token.kind = TTIR_NUMBER;
  l->token.at = from;
  l->token.length = (uint32_t)(l->at - from);
}

void ttir_lex_next(ttir_lexer *l) {
  skip_space(l);
  l->token = (ttir_token){.at = l->at, .start = l->at, .line = l->line, .kind = TTIR_END};
  if (l->at >= l->end) return;
  char c = *l->at;
  bool more = l->end - l->at > 1;
  if (is_letter(c)) {
    while (l->at < l->end && is_word(*l->at)) l->at++;
    l->token.kind = TTIR_WORD;
    l->token.length = (uint32_t)(l->at - l->token.at);
  } else if (c == '%') name_after(l, TTIR_VALUE);
  else if (c == '^') name_after(l, TTIR_BLOCK);
  else if (c == '#') name_after(l, TTIR_ALIAS);
  else if (c == '!') name_after(l, TTIR_TYPE);
  else if (c == '@' && more && l->at[1] == '"') {
    l->at++;
    quoted(l, TTIR_SYMBOL);
  } else if (c == '@') name_after(l, TTIR_SYMBOL);
  else if (c == '"') quoted(l, TTIR_STRING);
  else if (c == '-' && more && l->at[1] == '>') {
    l->at += 2;
    l->token.kind = TTIR_ARROW;
    l->token.length = 2;
  } else if (is_digit(c) || (c == '-' && more && is_digit(l->at[1]))) number(l);
  else {
    l->at++;
    l->token.kind = strchr("(){}[]<>=,:*-?+|", c) && c ? TTIR_MARK : TTIR_BAD;
    l->token.length = 1;
  }
}

void ttir_lex_open(ttir_lexer *l, const char *text, size_t size) {
  static const char mark[] = "\xef\xbb\xbf"; // the byte order mark that some editors put first
  if (size >= sizeof mark - 1 && !memcmp(text, mark, sizeof mark - 1))
    text += sizeof mark - 1, size -= sizeof mark - 1;
  *l = (ttir_lexer){.at = text, .end = text + size, .line_start = text, .line = 1};
  ttir_lex_next(l);
}

bool ttir_token_is(const ttir_token *token, const char *text) {
  size_t length = strlen(text);
  return token->kind != TTIR_STRING && token->length == length && memcmp(token->at, text, length) == 0;
}

bool ttir_lex_skip_group(ttir_lexer *l) {
  size_t depth = 1; // the opening bracket is the look-ahead, l->at stands after it
  while (l->at < l->end) {
    char c = *l->at++;
    if (c == '(' || c == '{' || c == '[') depth++;
    else if (c == ')' || c == '}' || c == ']') {
      if (--depth == 0) {
        ttir_lex_next(l);
        return true;
      }
    } else if (c == '\n') newline(l, l->at - 1);
    else if (c == '/' && l->at < l->end && *l->at == '/') {
      l->at--;
      skip_space(l); // a comment
    } else if (c == '"') {
      while (l->at < l->end && *l->at != '"' && *l->at != '\n')
        l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
      if (l->at < l->end && *l->at == '"') l->at++;
    }
  }
  ttir_lex_next(l);
  return false;
}

// ------------------------------------------------------------------------------------------- types

// A cursor over the characters of one type. The first complaint is kept.
typedef struct cursor {
  const char *at, *end;
  const char *complaint;
  bool is_unsigned, old_e4m3;
} cursor;

static void complain(cursor *c, const char *text) {
  if (!c->complaint) c->complaint = text;
}

static bool take(cursor *c, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length) != 0) return false;
  c->at += length;
  return true;
}

static void want(cursor *c, const char *text, const char *complaint) {
  if (!take(c, text)) complain(c, complaint);
}

typedef struct spelling {
  const char *text;
  uint8_t scalar;
  bool is_unsigned;
} spelling;

static const spelling spellings[] = {
    {"i1", KILN_I1, false},     {"i8", KILN_I8, false},         {"i16", KILN_I16, false},
    {"i32", KILN_I32, false},   {"i64", KILN_I64, false},       {"f16", KILN_F16, false},
    {"bf16", KILN_BF16, false}, {"f32", KILN_F32, false},       {"f64", KILN_F64, false},
    {"si8", KILN_I8, false},    {"si16", KILN_I16, false},      {"si32", KILN_I32, false},
    {"si64", KILN_I64, false},  {"ui8", KILN_I8, true},         {"ui16", KILN_I16, true},
    {"ui32", KILN_I32, true},   {"ui64", KILN_I64, true},       {"ui1", KILN_I1, true},
    {"index", KILN_I64, false}, {"f8E4M3FN", KILN_E4M3, false}, {"f8E5M2", KILN_E5M2, false},
};

static ir_type read_scalar(cursor *c) {
  const char *from = c->at;
  while (c->at < c->end && (is_letter(*c->at) || is_digit(*c->at))) c->at++;
  size_t length = (size_t)(c->at - from);
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
    if (strlen(spellings[i].text) == length && memcmp(spellings[i].text, from, length) == 0) {
      c->is_unsigned = spellings[i].is_unsigned;
      return ir_scalar_type((kiln_scalar)spellings[i].scalar);
    }
  bool fnuz = length == 10 && memcmp(from, "f8E4M3FNUZ", length) == 0;
  if (fnuz && c->old_e4m3) return ir_scalar_type(KILN_E4M3);
  complain(c,
           fnuz ? "of the 8-bit floats only f8E4M3FN and f8E5M2 are supported; f8E4M3FNUZ means f8E4M3FN in "
                  "Triton 3.1 for CUDA, when the JSON next to "
                  "the file says that backend"
           : length > 2 && from[0] == 'f' && from[1] == '8'
               ? "of the 8-bit floats only f8E4M3FN and f8E5M2 are supported"
               : "expected an element type: i1 i8 i16 i32 i64 f16 bf16 f32 f64 f8E4M3FN f8E5M2 or !tt.ptr");
  return ir_scalar_type(KILN_I32);
}

bool ttir_block_pointer(ir_type tile, ir_type *out) {
  if (!tile.rank || 2 * tile.rank > IR_MAX_RANK) return false;
  *out = tile;
  out->is_view = 1;
  out->rank *= 2;
  for (unsigned i = tile.rank; i < out->rank; i++) out->log2[i] = IR_DROPPED;
  return true;
}

bool ttir_block_tile(ir_type type, ir_type *out_tile) {
  if (!type.is_view || type.rank % 2 || type.log2[type.rank - 1] != IR_DROPPED) return false;
  *out_tile = type;
  out_tile->is_view = 0;
  out_tile->rank /= 2;
  memset(out_tile->log2 + out_tile->rank, 0, out_tile->rank);
  return true;
}

static ir_type read_tensor(cursor *c);

// The address space: 1 is global memory, others do not reach kernels.
static void skip_space_number(cursor *c) {
  if (take(c, ", "))
    while (c->at < c->end && is_digit(*c->at)) c->at++;
}

// After `!tt.ptr<tensor<`
static ir_type read_block_pointer(cursor *c) {
  ir_type tile = read_tensor(c), type = tile;
  skip_space_number(c);
  want(c, ">", "expected '>' after the type a pointer points to");
  if (tile.pointer || !ttir_block_pointer(tile, &type))
    complain(c, "a block pointer points to a tensor of numbers with 1 to 6 axes");
  return type;
}

// After `!tt.ptr<`: scalar or one more pointer, an optional address space, `>`.
static ir_type read_pointer(cursor *c) {
  ir_type type;
  if (take(c, "tensor<")) return read_block_pointer(c);
  if (take(c, "!tt.ptr<")) {
    type = ir_pointer_type((kiln_scalar)read_scalar(c).scalar);
    want(c, ">", "expected '>' after the type a pointer points to");
  } else {
    type = read_scalar(c);
  }
  type.pointer++;
  skip_space_number(c);
  want(c, ">", "expected '>' after the type a pointer points to");
  return type;
}

static uint8_t read_extent(cursor *c) {
  uint64_t extent = 0;
  while (c->at < c->end && is_digit(*c->at)) {
    extent = extent * 10 + (uint64_t)(*c->at++ - '0');
    if (extent > (1u << 30)) {
      complain(c, "an extent of a tensor is above 2^30");
      return 0;
    }
  }
  if (extent == 0 || (extent & (extent - 1))) {
    complain(c, "extents of tensors must be powers of two");
    return 0;
  }
  return (uint8_t)__builtin_ctzll(extent);
}

// After `tensor<`: extents, element, `>`.
static ir_type read_tensor(cursor *c) {
  ir_type shape = {0};
  unsigned total = 0;
  while (!c->complaint && c->at < c->end && is_digit(*c->at)) {
    uint8_t log2 = read_extent(c);
    want(c, "x", "expected 'x' after an extent");
    if (shape.rank == IR_MAX_RANK) complain(c, "a tensor has more than 12 axes");
    else shape.log2[shape.rank++] = log2;
    total += log2;
  }
  if (total > IR_MAX_LOG2_ELEMENTS) complain(c, "a tensor has more than 2^20 elements");
  ir_type element = take(c, "!tt.ptr<") ? read_pointer(c) : read_scalar(c);
  if (c->at < c->end && *c->at == ',')
    complain(c, "a tensor with a layout is TTGIR; expected TTIR, which Triton writes next to it");
  want(c, ">", "expected '>' after the element type of a tensor");
  return c->complaint ? element : ir_with_element(shape, element);
}

// After `!tt.tensordesc<`: `tensor<..>` up to Triton 3.6, bare extents later.
static ir_type read_descriptor(cursor *c) {
  ir_type type;
  if (take(c, "tensor<")) {
    type = read_tensor(c);
    skip_space_number(c); // of an elided block pointer
    want(c, ">", "expected '>' after the tile of a descriptor");
  } else {
    type = read_tensor(c);
  }
  if (type.rank == 0 || type.pointer) complain(c, "a descriptor describes tiles of at least one axis");
  type.is_view = 1;
  return type;
}

static ir_type read_type(cursor *c, bool elided) {
  if (take(c, "!tt.ptr<")) return read_pointer(c);
  if (take(c, "!tt.tensordesc<")) return read_descriptor(c);
  if (take(c, "tensor<")) return read_tensor(c);
  if (elided && take(c, "<")) {
    bool is_tile = c->at < c->end && (*c->at == 't' || is_digit(*c->at));
    return is_tile ? read_descriptor(c) : read_pointer(c);
  }
  if (c->at < c->end && *c->at == '!') {
    complain(c, "expected !tt.ptr or !tt.tensordesc; other types do not occur in TTIR");
    return ir_scalar_type(KILN_I32);
  }
  return read_scalar(c);
}

const char *ttir_lex_type(ttir_lexer *l, bool elided, bool old_e4m3, ttir_type *out) {
  cursor c = {.at = l->token.start, .end = l->end, .old_e4m3 = old_e4m3};
  out->type = read_type(&c, elided);
  out->is_unsigned = c.is_unsigned;
  if (c.complaint) return c.complaint;
  l->at = c.at;
  ttir_lex_next(l);
  return NULL;
}
