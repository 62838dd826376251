// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokens of the kernel language, and the names in them. The whole source is lexed at once; names become
// atoms, so that later stages compare pointers and index tables by number.
#ifndef KILN_COMPILER_FRONT_LEX_H
#define KILN_COMPILER_FRONT_LEX_H

#include "compiler/front.h"

/// A name, once per module.
typedef struct kiln_atom {
  const char *text; ///< arena, NUL-terminated
  uint32_t length, hash;
  uint32_t id;                  ///< dense from 0
  uint8_t keyword;              ///< kiln_token_kind of a reserved word or SCALAR, else 0
  uint8_t scalar;               ///< with SCALAR: kiln_scalar
  struct kiln_atom *next;       ///< in its bucket
  uint32_t mark;                ///< scratch of scans: equal to kiln_atoms.mark when seen
  struct kiln_item *item;       ///< the definition of this name in the module, or NULL
  struct kiln_binding *binding; ///< innermost local binding while a kernel is elaborated
} kiln_atom;

typedef struct kiln_atoms {
  kiln_arena *arena; ///< borrowed
  kiln_atom **buckets;
  uint32_t bucket_count, count;
  uint32_t mark;
} kiln_atoms;

typedef enum kiln_token_kind {
#define TOKEN(name, text) KILN_TOKEN_##name,
#define KEYWORD(name, text) KILN_TOKEN_##name,
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
  KILN_TOKEN_COUNT
} kiln_token_kind;

/// Spelling for messages: "'('", "a name".
const char *kiln_token_text(kiln_token_kind kind);

typedef struct kiln_token {
  uint8_t kind;    ///< kiln_token_kind
  uint8_t scalar;  ///< SCALAR: kiln_scalar
  bool is_pattern; ///< INTEGER: written in hex
  bool is_2_63;    ///< INTEGER: decimal 2^63, which has 64 bits with a minus before it only
  uint32_t length; ///< bytes in the source
  ir_place place;
  const char *start; ///< in the source
  union {
    kiln_atom *atom;  ///< NAME and reserved words
    int64_t integer;  ///< INTEGER; hex: the pattern
    double real;      ///< FLOAT
    const char *text; ///< STRING: arena, escapes resolved
  };
} kiln_token;

typedef struct kiln_tokens {
  kiln_token *items; ///< arena; ends with END
  uint32_t count;
  bool is_text; ///< false: the file is something else, which has been said; there is END alone
} kiln_tokens;

void kiln_atoms_init(kiln_atoms *atoms, kiln_arena *arena);
kiln_atom *kiln_atoms_get(kiln_atoms *atoms, const char *text, size_t length);
/// The atom of a text, or NULL when the module has no such name.
kiln_atom *kiln_atoms_find(const kiln_atoms *atoms, const char *text, size_t length);

/// Lexes `text`; first line is `line`. What is no token is reported to `d` and left out.
kiln_tokens kiln_lex(kiln_arena *arena, kiln_atoms *atoms, const char *file, const char *text, size_t size,
                     uint32_t line, kiln_diagnostics *d);
/// Says that an integer has more than 64 bits.
void kiln_lex_too_large(kiln_diagnostics *d, const char *file, const kiln_token *t);

#endif
