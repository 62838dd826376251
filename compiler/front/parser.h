// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of the parser share: the cursor over tokens and the one way to fail.
#ifndef KILN_COMPILER_FRONT_PARSER_H
#define KILN_COMPILER_FRONT_PARSER_H

#include "compiler/front/ast.h"

enum { KILN_NESTING_LIMIT = 200, KILN_OPERATOR_LIMIT = 1000 };

/// After an error `panic` is set and the parser sees the end of the file everywhere, so that all rules
/// return; who recovers clears it.
typedef struct kiln_parser {
  kiln_arena *arena;
  kiln_module *module;
  kiln_diagnostics *d;
  const kiln_token *tokens;
  uint32_t at, count;
  uint32_t depth;
  uint32_t operators; ///< behind a left operand, of the outermost expression
  bool in_expression;
  bool panic;
  bool stopped;      ///< nothing sensible follows, and nothing more is reported
  kiln_node **stack; ///< lists under construction
  uint32_t stack_count, stack_capacity;
} kiln_parser;

kiln_parser kiln_parser_of(kiln_module *module, const char *text, size_t size, uint32_t line,
                           kiln_diagnostics *d);
kiln_token_kind kiln_parser_kind(const kiln_parser *p);
const kiln_token *kiln_parser_next(kiln_parser *p);
bool kiln_parser_accept(kiln_parser *p, kiln_token_kind kind);
/// Takes a token of `kind` or fails with "expected X <where>, found Y".
const kiln_token *kiln_parser_expect(kiln_parser *p, kiln_token_kind kind, const char *where);
void kiln_parser_fail(kiln_parser *p, const char *expected);
/// Takes a name; reserved words get a message of their own.
kiln_atom *kiln_parser_name(kiln_parser *p, const char *where);
bool kiln_parser_enter(kiln_parser *p);
/// Reports that a limit is exceeded; nothing more is read.
void kiln_parser_stop(kiln_parser *p, const char *what, int limit);
/// The reserved word that the name at hand is nearest to, or NULL.
const char *kiln_parser_near_keyword(const kiln_parser *p);

kiln_node *kiln_parser_node(kiln_parser *p, kiln_node_kind kind);
/// Lists: note the stack, push, then take what was pushed since.
void kiln_parser_push(kiln_parser *p, kiln_node *node);
kiln_list kiln_parser_take(kiln_parser *p, uint32_t from);

kiln_node *kiln_parse_expr(kiln_parser *p);
kiln_node *kiln_parse_type(kiln_parser *p);
kiln_list kiln_parse_args(kiln_parser *p);
kiln_list kiln_parse_attributes(kiln_parser *p);
kiln_node *kiln_parse_block(kiln_parser *p);

#endif
