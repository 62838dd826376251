// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements and blocks. A statement with a syntax error is dropped and parsing goes on at the next line, or
// inside the block that the faulty line opened.
#include "compiler/front/parser.h"

static kiln_node *statement(kiln_parser *p);
static kiln_node *choice(kiln_parser *p, kiln_token_kind word, kiln_node_kind kind);

static kiln_list expr_list(kiln_parser *p) {
  uint32_t from = p->stack_count;
  do kiln_parser_push(p, kiln_parse_expr(p));
  while (kiln_parser_accept(p, KILN_TOKEN_COMMA));
  return kiln_parser_take(p, from);
}

static kiln_node *name_node(kiln_parser *p, const char *where) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_NAME);
  n->atom = kiln_parser_name(p, where);
  return n;
}

// names = exprs, after the word that `kind` stands for.
static kiln_node *binding(kiln_parser *p, kiln_node_kind kind, const char *where) {
  kiln_node *n = kiln_parser_node(p, kind);
  uint32_t from = p->stack_count;
  do kiln_parser_push(p, name_node(p, where));
  while (kiln_parser_accept(p, KILN_TOKEN_COMMA));
  n->names = kiln_parser_take(p, from);
  kiln_parser_expect(p, KILN_TOKEN_ASSIGN, "after the names");
  bool takes_if = kind == KILN_NODE_LET || kind == KILN_NODE_VAR;
  if (takes_if && kiln_parser_kind(p) == KILN_TOKEN_IF) n->a = choice(p, KILN_TOKEN_IF, KILN_NODE_IF);
  else n->list = expr_list(p);
  return n;
}

static kiln_node *for_statement(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_FOR);
  kiln_parser_next(p);
  n->atom = kiln_parser_name(p, "after 'for'");
  kiln_parser_expect(p, KILN_TOKEN_IN, "after the name of a 'for'");
  n->a = kiln_parse_expr(p);
  kiln_parser_expect(p, KILN_TOKEN_DOTS, "between the bounds of a 'for'");
  n->b = kiln_parse_expr(p);
  if (kiln_parser_accept(p, KILN_TOKEN_STEP)) n->c = kiln_parse_expr(p);
  n->names = kiln_parse_attributes(p);
  n->body = kiln_parse_block(p);
  return n;
}

static kiln_node *while_statement(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_WHILE);
  kiln_parser_next(p);
  n->a = kiln_parse_expr(p);
  n->names = kiln_parse_attributes(p);
  n->body = kiln_parse_block(p);
  return n;
}

static kiln_node *loop_statement(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_LOOP);
  kiln_parser_next(p);
  if (kiln_parser_kind(p) == KILN_TOKEN_NAME) n->a = binding(p, KILN_NODE_LET, "after 'loop'");
  n->names = kiln_parse_attributes(p);
  n->body = kiln_parse_block(p);
  return n;
}

static kiln_node *break_statement(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_BREAK);
  kiln_parser_next(p);
  if (kiln_parser_kind(p) == KILN_TOKEN_NAME) n->b = binding(p, KILN_NODE_LET, "after 'break'");
  kiln_parser_expect(p, KILN_TOKEN_IF, "after 'break'");
  n->a = kiln_parse_expr(p);
  return n;
}

// 'if' and 'when'; `else if` nests.
static kiln_node *choice(kiln_parser *p, kiln_token_kind word, kiln_node_kind kind) {
  if (!kiln_parser_enter(p)) return NULL;
  kiln_node *n = kiln_parser_node(p, kind);
  kiln_parser_next(p);
  n->a = kiln_parse_expr(p);
  n->body = kiln_parse_block(p);
  if (kiln_parser_accept(p, KILN_TOKEN_ELSE)) {
    if (kiln_parser_kind(p) == word) {
      n->c = kiln_parser_node(p, KILN_NODE_BLOCK);
      uint32_t from = p->stack_count;
      kiln_parser_push(p, choice(p, word, kind));
      n->c->list = kiln_parser_take(p, from);
    } else {
      n->c = kiln_parse_block(p);
    }
  }
  p->depth--;
  return n;
}

// 'return' and 'yield'.
static kiln_node *last_statement(kiln_parser *p, kiln_node_kind kind) {
  kiln_node *n = kiln_parser_node(p, kind);
  kiln_parser_next(p);
  if (kiln_parser_kind(p) != KILN_TOKEN_RBRACE) n->list = expr_list(p);
  if (kiln_parser_kind(p) != KILN_TOKEN_RBRACE)
    kiln_parser_fail(p, kind == KILN_NODE_RETURN
                            ? "'}' after 'return', which is the last statement of its block"
                            : "'}' after 'yield', which is the last statement of its block");
  return n;
}

static kiln_node *name_statement(kiln_parser *p) {
  kiln_token_kind after = p->tokens[p->at + 1].kind;
  if (after == KILN_TOKEN_COMMA || after == KILN_TOKEN_ASSIGN)
    return binding(p, KILN_NODE_ASSIGN, "on the left of an assignment");
  kiln_node *n = kiln_parser_node(p, KILN_NODE_CALL_STATEMENT);
  if (after != KILN_TOKEN_LPAREN && after != KILN_TOKEN_DOT) {
    bool is_slip = kiln_parser_near_keyword(p) != NULL;
    if (!is_slip) kiln_parser_next(p);
    kiln_parser_fail(p, is_slip ? "a statement" : "'=', ',' or '(' after a name that begins a statement");
    return n;
  }
  n->a = kiln_parse_expr(p);
  if (n->a && n->a->kind != KILN_NODE_CALL && !p->panic) {
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, n->place,
                  "expected a statement, found an expression whose value is not used");
  }
  return n;
}

static kiln_node *statement(kiln_parser *p) {
  kiln_node *n;
  switch (kiln_parser_kind(p)) {
  case KILN_TOKEN_LET: kiln_parser_next(p); return binding(p, KILN_NODE_LET, "after 'let'");
  case KILN_TOKEN_VAR: kiln_parser_next(p); return binding(p, KILN_NODE_VAR, "after 'var'");
  case KILN_TOKEN_FOR: return for_statement(p);
  case KILN_TOKEN_WHILE: return while_statement(p);
  case KILN_TOKEN_LOOP: return loop_statement(p);
  case KILN_TOKEN_BREAK: return break_statement(p);
  case KILN_TOKEN_IF: return choice(p, KILN_TOKEN_IF, KILN_NODE_IF);
  case KILN_TOKEN_WHEN: return choice(p, KILN_TOKEN_WHEN, KILN_NODE_WHEN);
  case KILN_TOKEN_RETURN: return last_statement(p, KILN_NODE_RETURN);
  case KILN_TOKEN_YIELD: return last_statement(p, KILN_NODE_YIELD);
  case KILN_TOKEN_NAME: return name_statement(p);
  default:
    n = kiln_parser_node(p, KILN_NODE_BLOCK);
    kiln_parser_fail(p, "a statement or '}'");
    return n;
  }
}

// Goes on after an error in a statement that began at token `start`: at the first token of the next line, or
// in the block that was opened on the faulty line. The token found at fault is kept when it begins a line
// itself.
static void recover(kiln_parser *p, uint32_t start) {
  p->panic = false;
  const kiln_token *t = p->tokens;
  bool begins_line = p->at > start && t[p->at].place.line > t[p->at - 1].place.line;
  if (begins_line) return;
  uint32_t line = t[p->at].place.line;
  if (p->at == start && t[p->at].kind != KILN_TOKEN_END) p->at++;
  for (; t[p->at].kind != KILN_TOKEN_END && t[p->at].place.line == line; p->at++) {
    if (t[p->at].kind == KILN_TOKEN_RBRACE) return;
    if (t[p->at].kind != KILN_TOKEN_LBRACE) continue;
    kiln_parse_block(p);
    if (kiln_parser_accept(p, KILN_TOKEN_ELSE) && kiln_parser_kind(p) == KILN_TOKEN_LBRACE)
      kiln_parse_block(p);
    return;
  }
}

static bool starts_item(const kiln_parser *p) {
  kiln_token_kind kind = kiln_parser_kind(p);
  return kind == KILN_TOKEN_KERNEL || kind == KILN_TOKEN_FN || kind == KILN_TOKEN_CONST;
}

kiln_node *kiln_parse_block(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_BLOCK);
  const kiln_token *open = kiln_parser_expect(p, KILN_TOKEN_LBRACE, "at the start of a block");
  if (!open || !kiln_parser_enter(p)) return n;
  uint32_t from = p->stack_count;
  while (kiln_parser_kind(p) != KILN_TOKEN_RBRACE && kiln_parser_kind(p) != KILN_TOKEN_END &&
         !starts_item(p)) {
    uint32_t start = p->at, kept = p->stack_count;
    kiln_node *s = statement(p);
    if (p->panic) {
      p->stack_count = kept;
      recover(p, start);
      continue;
    }
    kiln_parser_push(p, s);
  }
  n->list = kiln_parser_take(p, from);
  if (kiln_parser_kind(p) != KILN_TOKEN_RBRACE && !p->panic) {
    kiln_parser_fail(p, kiln_arena_format(p->arena, "'}' for the '{' of line %u", open->place.line));
  }
  kiln_parser_accept(p, KILN_TOKEN_RBRACE);
  p->depth--;
  return n;
}
