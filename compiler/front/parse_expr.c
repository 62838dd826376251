// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions and types. One token of look-ahead; precedence climbs a table.
#include <math.h>

#include "compiler/front/parser.h"

static kiln_node *at_token(kiln_parser *p, kiln_node_kind kind, const kiln_token *t) {
  kiln_node *n = kiln_parser_node(p, kind);
  n->place = t->place;
  return n;
}

static kiln_list items(kiln_parser *p, kiln_token_kind close, const char *where) {
  uint32_t from = p->stack_count;
  if (kiln_parser_accept(p, close)) return kiln_parser_take(p, from);
  do {
    kiln_token_kind kind = kiln_parser_kind(p);
    if (kind == KILN_TOKEN_COLON || kind == KILN_TOKEN_UNDERSCORE)
      kiln_parser_push(p, at_token(p, kind == KILN_TOKEN_COLON ? KILN_NODE_COLON : KILN_NODE_UNDERSCORE,
                                   kiln_parser_next(p)));
    else kiln_parser_push(p, kiln_parse_expr(p));
  } while (kiln_parser_accept(p, KILN_TOKEN_COMMA));
  kiln_parser_expect(p, close, where);
  return kiln_parser_take(p, from);
}

static kiln_node *arg(kiln_parser *p) {
  kiln_token_kind kind = kiln_parser_kind(p);
  bool named =
      (kind == KILN_TOKEN_NAME || kind == KILN_TOKEN_NAN) && p->tokens[p->at + 1].kind == KILN_TOKEN_ASSIGN;
  if (!named) return kiln_parse_expr(p);
  const kiln_token *t = kiln_parser_next(p);
  kiln_node *n = at_token(p, KILN_NODE_NAMED, t);
  n->atom = t->atom;
  kiln_parser_next(p);
  n->a = kiln_parse_expr(p);
  return n;
}

// After '('.
kiln_list kiln_parse_args(kiln_parser *p) {
  uint32_t from = p->stack_count;
  if (kiln_parser_accept(p, KILN_TOKEN_RPAREN)) return kiln_parser_take(p, from);
  do kiln_parser_push(p, arg(p));
  while (kiln_parser_accept(p, KILN_TOKEN_COMMA));
  kiln_parser_expect(p, KILN_TOKEN_RPAREN, "after the arguments");
  return kiln_parser_take(p, from);
}

static kiln_node *typeof_node(kiln_parser *p, const kiln_token *t) {
  kiln_node *n = at_token(p, KILN_NODE_TYPEOF, t);
  kiln_parser_expect(p, KILN_TOKEN_LPAREN, "after 'typeof'");
  n->a = kiln_parse_expr(p);
  kiln_parser_expect(p, KILN_TOKEN_RPAREN, "after the operand of 'typeof'");
  return n;
}

// elem = "*" elem | SCALAR | NAME | "typeof" "(" expr ")"
static kiln_node *elem(kiln_parser *p) {
  if (!kiln_parser_enter(p)) return NULL;
  kiln_node *n = NULL;
  const kiln_token *t = &p->tokens[p->at];
  switch (kiln_parser_kind(p)) {
  case KILN_TOKEN_STAR:
    n = at_token(p, KILN_NODE_POINTER, kiln_parser_next(p));
    n->a = elem(p);
    break;
  case KILN_TOKEN_SCALAR:
    n = at_token(p, KILN_NODE_SCALAR, kiln_parser_next(p));
    n->op = t->scalar;
    break;
  case KILN_TOKEN_NAME:
    n = at_token(p, KILN_NODE_NAME, kiln_parser_next(p));
    n->atom = t->atom;
    break;
  case KILN_TOKEN_TYPEOF: n = typeof_node(p, kiln_parser_next(p)); break;
  default: kiln_parser_fail(p, "a type"); break;
  }
  p->depth--;
  return n;
}

static kiln_node *indexed(kiln_parser *p, kiln_node *of) {
  kiln_node *n = at_token(p, KILN_NODE_INDEX, kiln_parser_next(p));
  n->a = of;
  n->list = items(p, KILN_TOKEN_RBRACKET, "after the items");
  return n;
}

kiln_node *kiln_parse_type(kiln_parser *p) {
  if (kiln_parser_kind(p) == KILN_TOKEN_VIEW) {
    kiln_node *n = at_token(p, KILN_NODE_VIEW_TYPE, kiln_parser_next(p));
    n->a = elem(p);
    kiln_parser_expect(p, KILN_TOKEN_LBRACKET, "after the element type of a view");
    n->list = items(p, KILN_TOKEN_RBRACKET, "after the shape of a view");
    return n;
  }
  kiln_node *n = elem(p);
  return kiln_parser_kind(p) == KILN_TOKEN_LBRACKET ? indexed(p, n) : n;
}

static kiln_node *name_or_call(kiln_parser *p) {
  const kiln_token *t = kiln_parser_next(p);
  kiln_atom *member = NULL;
  if (kiln_parser_accept(p, KILN_TOKEN_DOT)) {
    member = kiln_parser_name(p, "after '.'");
    if (kiln_parser_kind(p) != KILN_TOKEN_LPAREN) kiln_parser_fail(p, "'(' after a name with '.'");
  }
  bool call = kiln_parser_accept(p, KILN_TOKEN_LPAREN);
  kiln_node *n = at_token(p, call ? KILN_NODE_CALL : KILN_NODE_NAME, t);
  n->atom = t->atom;
  n->member = member;
  if (call) n->list = kiln_parse_args(p);
  else if (t->kind == KILN_TOKEN_VIEW) kiln_parser_fail(p, "'(' after 'view'");
  return n;
}

static kiln_node *real(kiln_parser *p, double value) {
  kiln_node *n = at_token(p, KILN_NODE_REAL, kiln_parser_next(p));
  n->real = value;
  return n;
}

static kiln_node *literal(kiln_parser *p, kiln_node_kind kind) {
  const kiln_token *t = kiln_parser_next(p);
  kiln_node *n = at_token(p, kind, t);
  if (kind == KILN_NODE_INTEGER) n->integer = t->integer, n->flag = t->is_pattern;
  else if (kind == KILN_NODE_REAL) n->real = t->real;
  else if (kind == KILN_NODE_STRING) n->text = t->text;
  else n->flag = t->kind == KILN_TOKEN_TRUE;
  return n;
}

static kiln_node *primary(kiln_parser *p) {
  kiln_node *n;
  switch (kiln_parser_kind(p)) {
  case KILN_TOKEN_INTEGER: return literal(p, KILN_NODE_INTEGER);
  case KILN_TOKEN_FLOAT: return literal(p, KILN_NODE_REAL);
  case KILN_TOKEN_STRING: return literal(p, KILN_NODE_STRING);
  case KILN_TOKEN_TRUE:
  case KILN_TOKEN_FALSE: return literal(p, KILN_NODE_BOOL);
  case KILN_TOKEN_INF: return real(p, INFINITY);
  case KILN_TOKEN_NAN: return real(p, NAN);
  case KILN_TOKEN_NAME:
  case KILN_TOKEN_VIEW: return name_or_call(p);
  case KILN_TOKEN_SCALAR:
  case KILN_TOKEN_STAR:
  case KILN_TOKEN_TYPEOF: return elem(p);
  case KILN_TOKEN_LPAREN:
    kiln_parser_next(p);
    n = kiln_parse_expr(p);
    kiln_parser_expect(p, KILN_TOKEN_RPAREN, "after the expression");
    return n;
  case KILN_TOKEN_LBRACKET:
    n = at_token(p, KILN_NODE_LIST, kiln_parser_next(p));
    n->list = items(p, KILN_TOKEN_RBRACKET, "after the list");
    return n;
  default: kiln_parser_fail(p, "an expression"); return NULL;
  }
}

// One more operator behind its left operand: these nest in the tree as deep as they are many.
static bool enter_operator(kiln_parser *p) {
  if (p->operators++ < KILN_OPERATOR_LIMIT) return true;
  kiln_parser_stop(p, "an expression has more operators than the limit of", KILN_OPERATOR_LIMIT);
  return false;
}

static kiln_node *postfix(kiln_parser *p) {
  kiln_node *n = primary(p);
  for (;;) {
    kiln_token_kind kind = kiln_parser_kind(p);
    if ((kind == KILN_TOKEN_LBRACKET || kind == KILN_TOKEN_AS) && !enter_operator(p)) return n;
    if (kind == KILN_TOKEN_LBRACKET) {
      n = indexed(p, n);
    } else if (kind == KILN_TOKEN_AS) {
      kiln_node *cast = at_token(p, KILN_NODE_AS, kiln_parser_next(p));
      cast->a = n;
      cast->b = elem(p);
      n = cast;
    } else {
      return n;
    }
  }
}

static kiln_node *unary(kiln_parser *p) {
  kiln_token_kind kind = kiln_parser_kind(p);
  if (kind != KILN_TOKEN_MINUS && kind != KILN_TOKEN_TILDE) return postfix(p);
  if (!kiln_parser_enter(p)) return NULL;
  kiln_node *n = at_token(p, KILN_NODE_UNARY, kiln_parser_next(p));
  n->op = (uint8_t)kind;
  n->a = unary(p);
  p->depth--;
  return n;
}

// Loosest is 1; 0 is no operator. Comparisons do not chain.
static const uint8_t levels[KILN_TOKEN_COUNT] = {
    [KILN_TOKEN_PIPE] = 1,      [KILN_TOKEN_CARET] = 2,      [KILN_TOKEN_AMPERSAND] = 3,
    [KILN_TOKEN_LESS] = 4,      [KILN_TOKEN_LESSEQ] = 4,     [KILN_TOKEN_GREATER] = 4,
    [KILN_TOKEN_GREATEREQ] = 4, [KILN_TOKEN_EQUAL] = 4,      [KILN_TOKEN_UNEQUAL] = 4,
    [KILN_TOKEN_SHIFTLEFT] = 5, [KILN_TOKEN_SHIFTRIGHT] = 5, [KILN_TOKEN_PLUS] = 6,
    [KILN_TOKEN_MINUS] = 6,     [KILN_TOKEN_STAR] = 7,       [KILN_TOKEN_SLASH] = 7,
    [KILN_TOKEN_PERCENT] = 7,
};
enum { COMPARE_LEVEL = 4 };

static kiln_node *binary(kiln_parser *p, unsigned least) {
  kiln_node *left = unary(p);
  for (;;) {
    kiln_token_kind kind = kiln_parser_kind(p);
    unsigned level = levels[kind];
    if (!level || level < least || !enter_operator(p)) return left;
    kiln_node *n = at_token(p, KILN_NODE_BINARY, kiln_parser_next(p));
    n->op = (uint8_t)kind;
    n->a = left;
    n->b = binary(p, level + 1);
    left = n;
    if (level == COMPARE_LEVEL && levels[kiln_parser_kind(p)] == COMPARE_LEVEL)
      kiln_parser_fail(p, "no second comparison (they do not chain; write (a < b) & (b < c))");
  }
}

kiln_node *kiln_parse_expr(kiln_parser *p) {
  bool outermost = !p->in_expression;
  if (!kiln_parser_enter(p)) return NULL;
  if (outermost) p->operators = 0;
  p->in_expression = true;
  kiln_node *n = binary(p, 1);
  p->in_expression = !outermost;
  p->depth--;
  return n;
}
