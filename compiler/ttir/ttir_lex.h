// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokens of Triton IR text. One token of look-ahead; types are read character by character, because
// `128x64xf32` is no token.
#ifndef KILN_COMPILER_TTIR_LEX_H
#define KILN_COMPILER_TTIR_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/ir/ir.h"

typedef enum ttir_kind {
  TTIR_END,
  TTIR_VALUE,  ///< %name, text without the sign
  TTIR_BLOCK,  ///< ^bb1
  TTIR_SYMBOL, ///< @name or @"name", text without sign and quotes
  TTIR_ALIAS,  ///< #loc7
  TTIR_TYPE,   ///< !tt.ptr: only the start; read on with ttir_lex_type
  TTIR_WORD,   ///< arith.addi, true, tensor
  TTIR_NUMBER, ///< 12, -3, 0x7F, 1.5e-3
  TTIR_STRING, ///< text without quotes, escapes kept
  TTIR_ARROW,  ///< ->
  TTIR_MARK,   ///< one punctuation character
  TTIR_BAD,    ///< a character that starts nothing
} ttir_kind;

typedef struct ttir_token {
  const char *at; ///< borrowed from the source
  uint32_t length;
  uint32_t line;     ///< from 1
  const char *start; ///< first character, sign and quotes included
  ttir_kind kind;
} ttir_token;

/// Where the lexer stands; copying it saves the place.
typedef struct ttir_lexer {
  const char *at, *end; ///< borrowed source
  const char *line_start;
  uint32_t line;
  ttir_token token; ///< the look-ahead
} ttir_lexer;

void ttir_lex_open(ttir_lexer *lexer, const char *text, size_t size);
/// Steps to the next token.
void ttir_lex_next(ttir_lexer *lexer);
/// With the look-ahead on an opening bracket: steps after the closing one, texts respected. False when it is
/// missing.
bool ttir_lex_skip_group(ttir_lexer *lexer);
bool ttir_token_is(const ttir_token *token, const char *text);

/// A type as TTIR writes it. Tensors of rank 0 are scalars here.
typedef struct ttir_type {
  ir_type type;
  bool is_unsigned; ///< ui8 and the like, which occur in descriptors
} ttir_type;

/// A block pointer (`!tt.ptr<tensor<..>>`) to tiles like `tile`. It is a view of twice the axes: base,
/// extents and strides of the tensor, then an axis that no tile has for each, whose stride is the offset of
/// the block. So it is carried, selected and passed like any view. False when `tile` has too many axes.
bool ttir_block_pointer(ir_type tile, ir_type *out);
/// The type of the tiles that a block pointer points to; false when `type` is none.
bool ttir_block_tile(ir_type type, ir_type *out_tile);

/// Reads the type at the look-ahead and steps after it. NULL, or what is wrong with it in one sentence.
/// `elided` accepts `<f16>` for a pointer and `<tensor<..>>` for a descriptor. `old_e4m3` takes f8E4M3FNUZ as
/// f8E4M3FN.
const char *ttir_lex_type(ttir_lexer *lexer, bool elided, bool old_e4m3, ttir_type *out);

#endif
