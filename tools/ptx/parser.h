// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the parser share: the state of reading one module.
#ifndef KILN_TOOLS_PTX_PARSER_H
#define KILN_TOOLS_PTX_PARSER_H

#include "tools/ptx/lexer.h"

/// `%r<13>` or `%p`: registers, or a label, or a variable of a kernel.
typedef struct ptx_symbol {
  const char *name;
  uint32_t length;
  bool is_range;
  int32_t first; ///< register
  uint32_t count;
  uint32_t bits;
} ptx_symbol;

typedef struct ptx_label {
  const char *name;
  uint32_t length;
  int32_t target;   ///< PTX_NONE: not seen yet
  uint32_t line;    ///< of its first use
  int32_t *targets; ///< labels, of a list of targets
  uint32_t target_count;
} ptx_label;

typedef struct ptx_parser {
  ptx_lexer lex;
  ptx_module *module;
  ptx_kernel *kernel; ///< the one being read, or NULL
  ptx_symbol *symbols;
  uint32_t symbol_count, symbol_capacity;
  ptx_label *labels;
  uint32_t label_count, label_capacity;
  int32_t last_label;          ///< that was placed, or PTX_NONE
  ptx_token given[2];          ///< what was stored last to the first two parameters of a call
  uint32_t file, line, column; ///< of the last .loc
} ptx_parser;

/// Reads one instruction, from its guard to its semicolon, and appends it to the kernel.
void ptx_parse_instruction(ptx_parser *p);
/// Numbers the loops with several entries, at the instructions in them.
void ptx_find_entries(ptx_kernel *kernel);
/// Reads what stands before the kernel's instructions and the instructions. The current token is after
/// .entry or .func.
void ptx_parse_kernel(ptx_parser *p, bool is_entry);
/// `[.align N] .type name[size] [= {...}]`, after the word of its space, up to the semicolon.
void ptx_parse_variable(ptx_parser *p, ptx_space space, bool is_extern);

/// A type by its name; PTX_TYPE_none when it is none.
ptx_type ptx_type_named(const char *text, uint32_t length);
const ptx_variable *ptx_find_variable(const ptx_module *module, const char *text, uint32_t length);
/// The label's number, made when it is new.
int32_t ptx_label_number(ptx_parser *p, const char *text, uint32_t length);
static inline char *ptx_token_text(ptx_parser *p) {
  return kiln_arena_text(p->module->arena, p->lex.token.text, p->lex.token.length);
}

#endif
