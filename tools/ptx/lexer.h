// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words of PTX text. After the first failure every token is TOKEN_END, so that a parser runs out by itself
// and asks once.
#ifndef KILN_TOOLS_PTX_LEXER_H
#define KILN_TOOLS_PTX_LEXER_H

#include "tools/ptx/program.h"

typedef enum ptx_token_kind {
  TOKEN_END,
  TOKEN_NAME, ///< also %registers and $labels
  TOKEN_DOT,  ///< .word; the text has no dot
  TOKEN_NUMBER,
  TOKEN_TEXT, ///< "..."
  TOKEN_PUNCTUATION
} ptx_token_kind;

typedef struct ptx_token {
  ptx_token_kind kind;
  const char *text; ///< in the source, not terminated
  uint32_t length, line, column;
  uint64_t number;     ///< NUMBER: its bits
  uint8_t number_bits; ///< NUMBER: 0 an integer, 32 or 64 a float spelled as such
} ptx_token;

typedef struct ptx_lexer {
  const char *name, *at, *end, *line_start;
  uint32_t line;
  ptx_token token; ///< the current one
  kiln_error *err;
  kiln_status status; ///< of the first failure
} ptx_lexer;

void ptx_lexer_init(ptx_lexer *l, const char *name, const char *text, size_t size, kiln_error *err);
/// Moves to the next token.
void ptx_next(ptx_lexer *l);
/// Records a failure at the current token, unless there was one.
void ptx_fail(ptx_lexer *l, kiln_status status, const char *format, ...) KILN_PRINTF(3, 4);
/// Whether the current token is this punctuation, name or dotted word.
bool ptx_is(const ptx_lexer *l, ptx_token_kind kind, const char *text);
/// The same, and moves on when it is.
bool ptx_take(ptx_lexer *l, ptx_token_kind kind, const char *text);
/// Moves over that punctuation or fails.
void ptx_expect(ptx_lexer *l, const char *text);
/// Moves over an integer or fails.
uint64_t ptx_expect_integer(ptx_lexer *l, const char *what);

#endif
