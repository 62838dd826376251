// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parser: tokens to syntax trees of expressions, statements and items (const, fn, kernel). Also the scan for
// names that a body assigns.
#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "compiler/front/ast.h"

enum { NESTING_LIMIT = 200, OPERATOR_LIMIT = 1000 };

/// After an error `panic` is set and the parser sees the end of the file everywhere, so that all rules
/// return; who recovers clears it.
typedef struct parser {
  kiln_arena *arena;
  kiln_module *module;
  kiln_diagnostics *d;
  const kiln_token *tokens;
  uint32_t at, count;
  uint32_t depth;
  uint32_t operators; ///< after a left operand, of the outermost expression
  bool in_expression;
  const kiln_token *negated; ///< 2^63 after a minus
  bool panic;
  bool stopped;      ///< nothing sensible follows, and nothing more is reported
  kiln_node **stack; ///< lists under construction
  uint32_t stack_count, stack_capacity;
} parser;

static kiln_node *parse_expr(parser *p);
static kiln_node *parse_block(parser *p);
static kiln_list parse_attributes(parser *p);
static const char *near_keyword(const parser *p);

// ------------------------------------------------------------------------------------------ cursor

static kiln_token_kind peek(const parser *p) { return p->panic ? KILN_TOKEN_END : p->tokens[p->at].kind; }

static const kiln_token *next(parser *p) {
  const kiln_token *t = &p->tokens[p->at];
  if (!p->panic && t->kind != KILN_TOKEN_END) p->at++;
  return t;
}

static bool accept(parser *p, kiln_token_kind kind) {
  if (p->panic || p->tokens[p->at].kind != kind) return false;
  next(p);
  return true;
}

static void fail(parser *p, const char *expected) {
  if (p->panic || p->stopped) return;
  const kiln_token *t = &p->tokens[p->at];
  const char *word = near_keyword(p);
  p->panic = true;
  if (t->kind == KILN_TOKEN_END)
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, t->place, "expected %s, found the end of the file",
                  expected);
  else
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, t->place, "expected %s, found %s'%.*s'%s%s%s", expected,
                  t->kind >= KILN_TOKEN_KILN ? "the reserved word " : "",
                  (int)(t->length > 60 ? 60 : t->length), t->start, word ? "; did you mean '" : "",
                  word ? word : "", word ? "'?" : "");
}

static const kiln_token *expect(parser *p, kiln_token_kind kind, const char *where) {
  if (!p->panic && p->tokens[p->at].kind == kind) return next(p);
  if (!p->panic) fail(p, kiln_arena_format(p->arena, "%s %s", kiln_token_text(kind), where));
  return NULL;
}

static kiln_atom *expect_name(parser *p, const char *where) {
  const kiln_token *t = expect(p, KILN_TOKEN_NAME, where);
  return t ? t->atom : NULL;
}

static void stop(parser *p, const char *what, int limit) {
  if (!p->panic)
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, p->tokens[p->at].place, "%s %d", what, limit);
  p->panic = p->stopped = true;
  p->at = p->count - 1;
}

static bool enter(parser *p) {
  if (p->depth < NESTING_LIMIT) {
    p->depth++;
    return true;
  }
  stop(p, "nesting is deeper than the limit of", NESTING_LIMIT);
  return false;
}

const char *near_keyword(const parser *p) {
  if (peek(p) != KILN_TOKEN_NAME) return NULL;
  kiln_nearest n = kiln_nearest_to(p->tokens[p->at].atom->text);
#define TOKEN(name, text)
#define KEYWORD(name, text) kiln_nearest_consider(&n, text);
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
  return n.best;
}

static kiln_node *new_node(parser *p, kiln_node_kind kind) {
  kiln_node *n = KILN_NEW(p->arena, kiln_node);
  n->kind = (uint8_t)kind;
  n->place = p->tokens[p->at].place;
  return n;
}

static void push(parser *p, kiln_node *node) {
  if (!node) return; // only in panic
  KILN_GROW(p->arena, p->stack, p->stack_count, p->stack_capacity);
  p->stack[p->stack_count++] = node;
}

static kiln_list take_list(parser *p, uint32_t from) {
  kiln_list list = {NULL, p->stack_count - from};
  if (list.count) list.items = kiln_arena_copy(p->arena, p->stack + from, list.count * sizeof *list.items);
  p->stack_count = from;
  return list;
}

static parser parser_of(kiln_module *module, const char *text, size_t size, uint32_t line,
                        kiln_diagnostics *d) {
  kiln_tokens tokens = kiln_lex(module->arena, &module->atoms, module->file, text, size, line, d);
  return (parser){.arena = module->arena,
                  .module = module,
                  .d = d,
                  .tokens = tokens.items,
                  .count = tokens.count,
                  .stopped = !tokens.is_text};
}

// ------------------------------------------------------------------------------- expressions and types

// One token of look-ahead; precedence climbs a table.

static kiln_node *at_token(parser *p, kiln_node_kind kind, const kiln_token *t) {
  kiln_node *n = new_node(p, kind);
  n->place = t->place;
  return n;
}

static kiln_list items(parser *p, kiln_token_kind close, const char *where) {
  uint32_t from = p->stack_count;
  if (accept(p, close)) return take_list(p, from);
  do {
    kiln_token_kind kind = peek(p);
    if (kind == KILN_TOKEN_COLON || kind == KILN_TOKEN_UNDERSCORE)
      push(p, at_token(p, kind == KILN_TOKEN_COLON ? KILN_NODE_COLON : KILN_NODE_UNDERSCORE, next(p)));
    else push(p, parse_expr(p));
  } while (accept(p, KILN_TOKEN_COMMA));
  expect(p, close, where);
  return take_list(p, from);
}

static kiln_node *arg(parser *p) {
  kiln_token_kind kind = peek(p);
  bool named =
      (kind == KILN_TOKEN_NAME || kind == KILN_TOKEN_NAN) && p->tokens[p->at + 1].kind == KILN_TOKEN_ASSIGN;
  if (!named) return parse_expr(p);
  const kiln_token *t = next(p);
  kiln_node *n = at_token(p, KILN_NODE_NAMED, t);
  n->atom = t->atom;
  next(p);
  n->a = parse_expr(p);
  return n;
}

// After '('.
static kiln_list parse_args(parser *p) {
  uint32_t from = p->stack_count;
  if (accept(p, KILN_TOKEN_RPAREN)) return take_list(p, from);
  do push(p, arg(p));
  while (accept(p, KILN_TOKEN_COMMA));
  expect(p, KILN_TOKEN_RPAREN, "after the arguments");
  return take_list(p, from);
}

// elem = "*" elem | SCALAR | NAME | "typeof" "(" expr ")"
static kiln_node *elem(parser *p) {
  if (!enter(p)) return NULL;
  kiln_node *n = NULL;
  const kiln_token *t = &p->tokens[p->at];
  switch (peek(p)) {
  case KILN_TOKEN_STAR:
    n = at_token(p, KILN_NODE_POINTER, next(p));
    n->a = elem(p);
    break;
  case KILN_TOKEN_SCALAR:
    n = at_token(p, KILN_NODE_SCALAR, next(p));
    n->op = t->scalar;
    break;
  case KILN_TOKEN_NAME:
    n = at_token(p, KILN_NODE_NAME, next(p));
    n->atom = t->atom;
    break;
  case KILN_TOKEN_TYPEOF:
    n = at_token(p, KILN_NODE_TYPEOF, next(p));
    expect(p, KILN_TOKEN_LPAREN, "after 'typeof'");
    n->a = parse_expr(p);
    expect(p, KILN_TOKEN_RPAREN, "after the operand of 'typeof'");
    break;
  default: fail(p, "a type"); break;
  }
  p->depth--;
  return n;
}

static kiln_node *indexed(parser *p, kiln_node *of) {
  kiln_node *n = at_token(p, KILN_NODE_INDEX, next(p));
  n->a = of;
  n->list = items(p, KILN_TOKEN_RBRACKET, "after the items");
  return n;
}

static kiln_node *parse_type(parser *p) {
  if (peek(p) == KILN_TOKEN_VIEW) {
    kiln_node *n = at_token(p, KILN_NODE_VIEW_TYPE, next(p));
    n->a = elem(p);
    expect(p, KILN_TOKEN_LBRACKET, "after the element type of a view");
    n->list = items(p, KILN_TOKEN_RBRACKET, "after the shape of a view");
    return n;
  }
  kiln_node *n = elem(p);
  return peek(p) == KILN_TOKEN_LBRACKET ? indexed(p, n) : n;
}

static kiln_node *real(parser *p, double value) {
  kiln_node *n = at_token(p, KILN_NODE_REAL, next(p));
  n->real = value;
  return n;
}

static kiln_node *literal(parser *p, kiln_node_kind kind) {
  const kiln_token *t = next(p);
  kiln_node *n = at_token(p, kind, t);
  if (t->is_2_63 && t != p->negated) kiln_lex_too_large(p->d, p->module->file, t);
  if (kind == KILN_NODE_INTEGER) n->integer = t->integer, n->flag = t->is_pattern;
  else if (kind == KILN_NODE_REAL) n->real = t->real;
  else if (kind == KILN_NODE_STRING) n->text = t->text;
  else n->flag = t->kind == KILN_TOKEN_TRUE;
  return n;
}

static kiln_node *primary(parser *p) {
  kiln_node *n;
  switch (peek(p)) {
  case KILN_TOKEN_INTEGER: return literal(p, KILN_NODE_INTEGER);
  case KILN_TOKEN_FLOAT: return literal(p, KILN_NODE_REAL);
  case KILN_TOKEN_STRING: return literal(p, KILN_NODE_STRING);
  case KILN_TOKEN_TRUE:
  case KILN_TOKEN_FALSE: return literal(p, KILN_NODE_BOOL);
  case KILN_TOKEN_INF: return real(p, INFINITY);
  case KILN_TOKEN_NAN: return real(p, NAN);
  case KILN_TOKEN_NAME:
  case KILN_TOKEN_VIEW: {
    const kiln_token *t = next(p);
    kiln_atom *member = NULL;
    if (accept(p, KILN_TOKEN_DOT)) {
      member = expect_name(p, "after '.'");
      if (peek(p) != KILN_TOKEN_LPAREN) fail(p, "'(' after a name with '.'");
    }
    bool call = accept(p, KILN_TOKEN_LPAREN);
    n = at_token(p, call ? KILN_NODE_CALL : KILN_NODE_NAME, t);
    n->atom = t->atom;
    n->member = member;
    if (call) n->list = parse_args(p);
    else if (t->kind == KILN_TOKEN_VIEW) fail(p, "'(' after 'view'");
    return n;
  }
  case KILN_TOKEN_SCALAR:
  case KILN_TOKEN_STAR:
  case KILN_TOKEN_TYPEOF: return elem(p);
  case KILN_TOKEN_LPAREN:
    next(p);
    n = parse_expr(p);
    expect(p, KILN_TOKEN_RPAREN, "after the expression");
    return n;
  case KILN_TOKEN_LBRACKET:
    n = at_token(p, KILN_NODE_LIST, next(p));
    n->list = items(p, KILN_TOKEN_RBRACKET, "after the list");
    return n;
  default: fail(p, "an expression"); return NULL;
  }
}

// One more operator after its left operand: these nest in the tree as deep as they are many.
static bool enter_operator(parser *p) {
  if (p->operators++ < OPERATOR_LIMIT) return true;
  stop(p, "an expression has more operators than the limit of", OPERATOR_LIMIT);
  return false;
}

static kiln_node *postfix(parser *p) {
  kiln_node *n = primary(p);
  for (;;) {
    kiln_token_kind kind = peek(p);
    if ((kind == KILN_TOKEN_LBRACKET || kind == KILN_TOKEN_AS) && !enter_operator(p)) return n;
    if (kind == KILN_TOKEN_LBRACKET) {
      n = indexed(p, n);
    } else if (kind == KILN_TOKEN_AS) {
      kiln_node *cast = at_token(p, KILN_NODE_AS, next(p));
      cast->a = n;
      cast->b = elem(p);
      n = cast;
    } else {
      return n;
    }
  }
}

static kiln_node *unary(parser *p) {
  kiln_token_kind kind = peek(p);
  if (kind != KILN_TOKEN_MINUS && kind != KILN_TOKEN_TILDE) return postfix(p);
  if (kind == KILN_TOKEN_MINUS && p->tokens[p->at + 1].is_2_63) { // one literal, the least of 64 bits
    next(p);
    p->negated = &p->tokens[p->at];
    return postfix(p);
  }
  if (!enter(p)) return NULL;
  kiln_node *n = at_token(p, KILN_NODE_UNARY, next(p));
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

static kiln_node *binary(parser *p, unsigned least) {
  kiln_node *left = unary(p);
  for (;;) {
    kiln_token_kind kind = peek(p);
    unsigned level = levels[kind];
    if (!level || level < least || !enter_operator(p)) return left;
    kiln_node *n = at_token(p, KILN_NODE_BINARY, next(p));
    n->op = (uint8_t)kind;
    n->a = left;
    n->b = binary(p, level + 1);
    left = n;
    if (level == COMPARE_LEVEL && levels[peek(p)] == COMPARE_LEVEL)
      fail(p, "no second comparison (they do not chain; write (a < b) & (b < c))");
  }
}

static kiln_node *parse_expr(parser *p) {
  bool outermost = !p->in_expression;
  if (!enter(p)) return NULL;
  if (outermost) p->operators = 0;
  p->in_expression = true;
  kiln_node *n = binary(p, 1);
  p->in_expression = !outermost;
  p->depth--;
  return n;
}

// ------------------------------------------------------------------------------- statements and blocks

// A statement with a syntax error is dropped and parsing goes on at the next line, or inside the block that the
// faulty line opened.

static kiln_node *statement(parser *p);
static kiln_node *choice(parser *p, kiln_token_kind word, kiln_node_kind kind);

static kiln_list expr_list(parser *p) {
  uint32_t from = p->stack_count;
  do push(p, parse_expr(p));
  while (accept(p, KILN_TOKEN_COMMA));
  return take_list(p, from);
}

// names = exprs, after the word that `kind` stands for.
static kiln_node *binding(parser *p, kiln_node_kind kind, const char *where) {
  kiln_node *n = new_node(p, kind);
  uint32_t from = p->stack_count;
  do {
    kiln_node *name = new_node(p, KILN_NODE_NAME);
    name->atom = expect_name(p, where);
    push(p, name);
  } while (accept(p, KILN_TOKEN_COMMA));
  n->names = take_list(p, from);
  expect(p, KILN_TOKEN_ASSIGN, "after the names");
  bool takes_if = kind == KILN_NODE_LET || kind == KILN_NODE_VAR;
  if (takes_if && peek(p) == KILN_TOKEN_IF) n->a = choice(p, KILN_TOKEN_IF, KILN_NODE_IF);
  else n->list = expr_list(p);
  return n;
}

static kiln_node *while_statement(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_WHILE);
  next(p);
  n->a = parse_expr(p);
  n->names = parse_attributes(p);
  n->body = parse_block(p);
  return n;
}

static kiln_node *loop_statement(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_LOOP);
  next(p);
  if (peek(p) == KILN_TOKEN_NAME) n->a = binding(p, KILN_NODE_LET, "after 'loop'");
  n->names = parse_attributes(p);
  n->body = parse_block(p);
  return n;
}

static kiln_node *break_statement(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_BREAK);
  next(p);
  if (peek(p) == KILN_TOKEN_NAME) n->b = binding(p, KILN_NODE_LET, "after 'break'");
  expect(p, KILN_TOKEN_IF, "after 'break'");
  n->a = parse_expr(p);
  return n;
}

// 'if' and 'when'; `else if` nests.
static kiln_node *choice(parser *p, kiln_token_kind word, kiln_node_kind kind) {
  if (!enter(p)) return NULL;
  kiln_node *n = new_node(p, kind);
  next(p);
  n->a = parse_expr(p);
  n->body = parse_block(p);
  if (accept(p, KILN_TOKEN_ELSE)) {
    if (peek(p) == word) {
      n->c = new_node(p, KILN_NODE_BLOCK);
      uint32_t from = p->stack_count;
      push(p, choice(p, word, kind));
      n->c->list = take_list(p, from);
    } else {
      n->c = parse_block(p);
    }
  }
  p->depth--;
  return n;
}

// 'return' and 'yield'.
static kiln_node *last_statement(parser *p, kiln_node_kind kind) {
  kiln_node *n = new_node(p, kind);
  next(p);
  if (peek(p) != KILN_TOKEN_RBRACE) n->list = expr_list(p);
  if (peek(p) != KILN_TOKEN_RBRACE)
    fail(p, kind == KILN_NODE_RETURN ? "'}' after 'return', which is the last statement of its block"
                                     : "'}' after 'yield', which is the last statement of its block");
  return n;
}

static kiln_node *statement(parser *p) {
  kiln_node *n;
  switch (peek(p)) {
  case KILN_TOKEN_LET: next(p); return binding(p, KILN_NODE_LET, "after 'let'");
  case KILN_TOKEN_VAR: next(p); return binding(p, KILN_NODE_VAR, "after 'var'");
  case KILN_TOKEN_FOR:
    n = new_node(p, KILN_NODE_FOR);
    next(p);
    n->atom = expect_name(p, "after 'for'");
    expect(p, KILN_TOKEN_IN, "after the name of a 'for'");
    n->a = parse_expr(p);
    expect(p, KILN_TOKEN_DOTS, "between the bounds of a 'for'");
    n->b = parse_expr(p);
    if (accept(p, KILN_TOKEN_STEP)) n->c = parse_expr(p);
    n->names = parse_attributes(p);
    n->body = parse_block(p);
    return n;
  case KILN_TOKEN_WHILE: return while_statement(p);
  case KILN_TOKEN_LOOP: return loop_statement(p);
  case KILN_TOKEN_BREAK: return break_statement(p);
  case KILN_TOKEN_IF: return choice(p, KILN_TOKEN_IF, KILN_NODE_IF);
  case KILN_TOKEN_WHEN: return choice(p, KILN_TOKEN_WHEN, KILN_NODE_WHEN);
  case KILN_TOKEN_RETURN: return last_statement(p, KILN_NODE_RETURN);
  case KILN_TOKEN_YIELD: return last_statement(p, KILN_NODE_YIELD);
  case KILN_TOKEN_NAME: {
    kiln_token_kind after = p->tokens[p->at + 1].kind;
    if (after == KILN_TOKEN_COMMA || after == KILN_TOKEN_ASSIGN)
      return binding(p, KILN_NODE_ASSIGN, "on the left of an assignment");
    n = new_node(p, KILN_NODE_CALL_STATEMENT);
    if (after != KILN_TOKEN_LPAREN && after != KILN_TOKEN_DOT) {
      bool is_slip = near_keyword(p) != NULL;
      if (!is_slip) next(p);
      fail(p, is_slip ? "a statement" : "'=', ',' or '(' after a name that begins a statement");
      return n;
    }
    n->a = parse_expr(p);
    if (n->a && n->a->kind != KILN_NODE_CALL && !p->panic) {
      kiln_diagnose(p->d, KILN_ERROR, p->module->file, n->place,
                    "expected a statement, found an expression whose value is not used");
    }
    return n;
  }
  default:
    n = new_node(p, KILN_NODE_BLOCK);
    fail(p, "a statement or '}'");
    return n;
  }
}

// Goes on after an error in a statement that began at token `start`: at the first token of the next line, or
// in the block that was opened on the faulty line. The token found at fault is kept when it begins a line
// itself.
static void recover(parser *p, uint32_t start) {
  p->panic = false;
  const kiln_token *t = p->tokens;
  bool begins_line = p->at > start && t[p->at].place.line > t[p->at - 1].place.line;
  if (begins_line) return;
  uint32_t line = t[p->at].place.line;
  if (p->at == start && t[p->at].kind != KILN_TOKEN_END) p->at++;
  for (; t[p->at].kind != KILN_TOKEN_END && t[p->at].place.line == line; p->at++) {
    if (t[p->at].kind == KILN_TOKEN_RBRACE) return;
    if (t[p->at].kind != KILN_TOKEN_LBRACE) continue;
    parse_block(p);
    if (accept(p, KILN_TOKEN_ELSE) && peek(p) == KILN_TOKEN_LBRACE) parse_block(p);
    return;
  }
}

static kiln_node *parse_block(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_BLOCK);
  const kiln_token *open = expect(p, KILN_TOKEN_LBRACE, "at the start of a block");
  if (!open || !enter(p)) return n;
  uint32_t from = p->stack_count;
  for (kiln_token_kind k = peek(p); k != KILN_TOKEN_RBRACE && k != KILN_TOKEN_END && k != KILN_TOKEN_KERNEL &&
                                    k != KILN_TOKEN_FN && k != KILN_TOKEN_CONST;
       k = peek(p)) { // an item begins none of its statements
    uint32_t start = p->at, kept = p->stack_count;
    kiln_node *s = statement(p);
    if (p->panic) {
      p->stack_count = kept;
      recover(p, start);
      continue;
    }
    push(p, s);
  }
  n->list = take_list(p, from);
  if (peek(p) != KILN_TOKEN_RBRACE && !p->panic) {
    fail(p, kiln_arena_format(p->arena, "'}' for the '{' of line %u", open->place.line));
  }
  accept(p, KILN_TOKEN_RBRACE);
  p->depth--;
  return n;
}

// ------------------------------------------------------------------------------------------- items

static kiln_list parse_attributes(parser *p) {
  uint32_t from = p->stack_count;
  while (accept(p, KILN_TOKEN_AT)) {
    kiln_node *n = new_node(p, KILN_NODE_ATTRIBUTE);
    n->atom = expect_name(p, "after '@'");
    if (accept(p, KILN_TOKEN_LPAREN)) n->list = parse_args(p);
    push(p, n);
  }
  return take_list(p, from);
}

// A word that is no more than a name elsewhere.
static bool accept_word(parser *p, const char *word) {
  const kiln_token *t = &p->tokens[p->at];
  return t->kind == KILN_TOKEN_NAME && !strcmp(t->atom->text, word) && accept(p, KILN_TOKEN_NAME);
}

static kiln_node *cparam(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_CPARAM);
  n->atom = expect_name(p, "for a compile-time parameter");
  if (accept(p, KILN_TOKEN_COLON)) {
    if (accept(p, KILN_TOKEN_TYPE)) n->op = KILN_CPARAM_TYPE;
    else if (accept(p, KILN_TOKEN_TUNE)) n->op = KILN_CPARAM_TUNE;
    else if (accept_word(p, "cost")) n->op = KILN_CPARAM_COST;
    else n->a = parse_type(p);
  }
  expect(p, KILN_TOKEN_ASSIGN, "and a default after a compile-time parameter");
  n->b = parse_expr(p);
  return n;
}

/// Such a token never follows a type that is a name.
static bool begins_type(kiln_token_kind kind) {
  return kind == KILN_TOKEN_STAR || kind == KILN_TOKEN_VIEW || kind == KILN_TOKEN_NAME;
}

static kiln_node *param(parser *p) {
  static const uint8_t modes[KILN_TOKEN_COUNT] = {[KILN_TOKEN_IN] = IR_ACCESS_IN,
                                                  [KILN_TOKEN_OUT] = IR_ACCESS_OUT,
                                                  [KILN_TOKEN_INOUT] = IR_ACCESS_INOUT,
                                                  [KILN_TOKEN_ACCUM] = IR_ACCESS_ACCUM};
  kiln_node *n = new_node(p, KILN_NODE_PARAM);
  n->atom = expect_name(p, "for a parameter");
  expect(p, KILN_TOKEN_COLON, "and a type after the name of a parameter");
  n->op = modes[peek(p)];
  if (n->op) next(p);
  else if (peek(p) == KILN_TOKEN_NAME && begins_type(p->tokens[p->at + 1].kind))
    fail(p, "a type, or one of 'in', 'out', 'inout', 'accum' before it");
  n->a = parse_type(p);
  n->names = parse_attributes(p);
  return n;
}

static kiln_node *fn_param(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_NAME);
  n->atom = expect_name(p, "for a parameter");
  if (accept(p, KILN_TOKEN_COLON)) n->a = parse_type(p);
  return n;
}

static kiln_list comma_list(parser *p, kiln_node *(*one)(parser *p), kiln_token_kind close,
                            const char *where) {
  uint32_t from = p->stack_count;
  if (accept(p, close)) return (kiln_list){0};
  do push(p, one(p));
  while (accept(p, KILN_TOKEN_COMMA));
  expect(p, close, where);
  return take_list(p, from);
}

enum { MOST_PARAMS = 256 };

static void check_params(parser *p, const kiln_item *item) {
  if (item->params.count + item->cparams.count > MOST_PARAMS)
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, item->place, "'%s' has %u parameters, the limit is %d",
                  item->atom->text, item->params.count + item->cparams.count, MOST_PARAMS);
  else {
    for (uint32_t i = 0; i < item->cparams.count + item->params.count; i++) {
      kiln_node *n =
          i < item->cparams.count ? item->cparams.items[i] : item->params.items[i - item->cparams.count];
      for (uint32_t j = 0; j < i; j++) {
        kiln_node *other =
            j < item->cparams.count ? item->cparams.items[j] : item->params.items[j - item->cparams.count];
        if (n->atom && n->atom == other->atom)
          kiln_diagnose(p->d, KILN_ERROR, p->module->file, n->place,
                        "parameter '%s' is there already, at line %u", n->atom->text, other->place.line);
      }
    }
  }
}

// An error in the head of an item: its body is still read, for the errors in it and to find its end.
static void recover_head(parser *p, kiln_item *item, uint32_t start) {
  item->broken = true;
  p->panic = false;
  p->depth = 0;
  p->stack_count = 0;
  if (p->at == start && p->tokens[p->at].kind != KILN_TOKEN_END) p->at++;
  for (; p->tokens[p->at].kind != KILN_TOKEN_END; p->at++) {
    const kiln_token *t = &p->tokens[p->at];
    bool item_word = t->kind == KILN_TOKEN_KERNEL || t->kind == KILN_TOKEN_FN || t->kind == KILN_TOKEN_CONST;
    if (item_word) return;
    if (item->kind == KILN_ITEM_CONST || t->kind != KILN_TOKEN_LBRACE) continue;
    parse_block(p);
    return;
  }
}

static void define(parser *p, kiln_item *item) {
  kiln_module *m = p->module;
  if (item->atom && item->atom->item) {
    kiln_diagnose(p->d, KILN_ERROR, m->file, item->place, "'%s' is defined already, at line %u",
                  item->atom->text, item->atom->item->place.line);
    return;
  }
  if (item->atom) item->atom->item = item;
  KILN_GROW(m->arena, m->items, m->item_count, m->item_capacity);
  m->items[m->item_count++] = item;
}

static void const_item(parser *p, kiln_item *item) {
  if (accept(p, KILN_TOKEN_COLON)) item->type = parse_type(p);
  expect(p, KILN_TOKEN_ASSIGN, "after the name of a constant");
  item->value = parse_expr(p);
}

static void fn_item(parser *p, kiln_item *item) {
  expect(p, KILN_TOKEN_LPAREN, "after the name of a function");
  item->params = comma_list(p, fn_param, KILN_TOKEN_RPAREN, "after the parameters");
  if (!p->panic) check_params(p, item);
}

// name = expr, ...]
static kiln_list instance_args(parser *p) {
  uint32_t from = p->stack_count;
  do {
    kiln_node *arg = new_node(p, KILN_NODE_NAMED);
    arg->atom = expect_name(p, "of a compile-time parameter");
    expect(p, KILN_TOKEN_ASSIGN, "after the name of a parameter");
    arg->a = parse_expr(p);
    push(p, arg);
  } while (accept(p, KILN_TOKEN_COMMA));
  expect(p, KILN_TOKEN_RBRACKET, "after the parameters");
  return take_list(p, from);
}

static kiln_node *launch_block(parser *p);

static kiln_node *launch_choice(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_IF);
  next(p);
  n->a = parse_expr(p);
  n->body = launch_block(p);
  if (!accept(p, KILN_TOKEN_ELSE)) return n;
  if (peek(p) != KILN_TOKEN_IF) {
    n->c = launch_block(p);
  } else if (enter(p)) {
    uint32_t from = p->stack_count;
    n->c = new_node(p, KILN_NODE_BLOCK);
    push(p, launch_choice(p));
    n->c->list = take_list(p, from);
    p->depth--;
  }
  return n;
}

// name[T = f32](x, n)
static kiln_node *launch(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_LAUNCH);
  n->atom = expect_name(p, "of a kernel to launch, 'let', 'if' or '}'");
  if (accept(p, KILN_TOKEN_LBRACKET)) n->names = instance_args(p);
  expect(p, KILN_TOKEN_LPAREN, "before the arguments of a launch");
  n->list = parse_args(p);
  return n;
}

// { let x = n / 2  if x > 4 { kernel(...) } else { ... } }
static kiln_node *launch_block(parser *p) {
  kiln_node *n = new_node(p, KILN_NODE_BLOCK);
  if (!expect(p, KILN_TOKEN_LBRACE, "at the start of a block of launches") || !enter(p)) return n;
  uint32_t from = p->stack_count;
  while (peek(p) != KILN_TOKEN_RBRACE && peek(p) != KILN_TOKEN_END)
    push(p, accept(p, KILN_TOKEN_LET)  ? binding(p, KILN_NODE_LET, "after 'let'")
            : peek(p) == KILN_TOKEN_IF ? launch_choice(p)
                                       : launch(p));
  n->list = take_list(p, from);
  expect(p, KILN_TOKEN_RBRACE, "at the end of a block of launches");
  p->depth--;
  return n;
}

static void kernel_item(parser *p, kiln_item *item) {
  if (accept(p, KILN_TOKEN_LBRACKET))
    item->cparams = comma_list(p, cparam, KILN_TOKEN_RBRACKET, "after the compile-time parameters");
  expect(p, KILN_TOKEN_LPAREN, "before the parameters of a kernel");
  item->params = comma_list(p, param, KILN_TOKEN_RPAREN, "after the parameters");
  item->attributes = parse_attributes(p);
  if (accept_word(p, "launches")) item->launches = launch_block(p);
  if (!p->panic) check_params(p, item);
}

static void parse_item(parser *p) {
  static const struct {
    uint8_t token, kind;
    const char *where;
    void (*rest)(parser *p, kiln_item *item);
  } kinds[] = {
      {KILN_TOKEN_CONST, KILN_ITEM_CONST, "after 'const'", const_item},
      {KILN_TOKEN_FN, KILN_ITEM_FN, "after 'fn'", fn_item},
      {KILN_TOKEN_KERNEL, KILN_ITEM_KERNEL, "after 'kernel'", kernel_item},
  };
  uint32_t start = p->at, which = 0, errors = p->d->errors + p->d->suppressed;
  kiln_item *item = KILN_NEW(p->arena, kiln_item);
  item->module = p->module;
  while (which < 3 && kinds[which].token != peek(p)) which++;
  if (which == 3) {
    fail(p, "'const', 'fn' or 'kernel'");
    recover_head(p, item, start);
    return;
  }
  next(p);
  item->kind = kinds[which].kind;
  item->place = p->tokens[p->at].place;
  item->atom = expect_name(p, kinds[which].where);
  kinds[which].rest(p, item);
  if (!p->panic && item->kind != KILN_ITEM_CONST) item->body = parse_block(p);
  if (p->panic) recover_head(p, item, start);
  item->broken |= p->d->errors + p->d->suppressed != errors;
  p->panic = false;
  p->depth = 0;
  p->stack_count = 0;
  if (item->atom) define(p, item);
}

static void parse_all(parser *p) {
  while (peek(p) != KILN_TOKEN_END) parse_item(p);
}

static void version_line(parser *p) {
  enum { LANGUAGE_VERSION = 1 };
  expect(p, KILN_TOKEN_KILN, "and a version at the start of the file (kiln 1)");
  const kiln_token *t = expect(p, KILN_TOKEN_INTEGER, "after 'kiln'");
  if (t && t->integer != LANGUAGE_VERSION)
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, t->place, "expected language version %d, found %lld",
                  LANGUAGE_VERSION, (long long)t->integer);
  if (!p->panic) return;
  p->panic = false;
  while (p->tokens[p->at].kind != KILN_TOKEN_END && p->tokens[p->at].kind != KILN_TOKEN_CONST &&
         p->tokens[p->at].kind != KILN_TOKEN_FN && p->tokens[p->at].kind != KILN_TOKEN_KERNEL)
    p->at++;
}

kiln_module *kiln_parse(kiln_arena *arena, const char *file, const char *text, size_t size,
                        kiln_diagnostics *d) {
  kiln_module *module = KILN_NEW(arena, kiln_module);
  *module = (kiln_module){.arena = arena, .file = kiln_arena_text(arena, file, strlen(file))};
  kiln_atoms_init(&module->atoms, arena);
  parser p = parser_of(module, text, size, 1, d);
  version_line(&p);
  parse_all(&p);
  return module;
}

void kiln_parse_items(kiln_module *module, const char *text, size_t size, uint32_t line,
                      kiln_diagnostics *d) {
  parser p = parser_of(module, text, size, line, d);
  parse_all(&p);
}

kiln_node *kiln_parse_instance(kiln_module *module, const char *text, size_t size, kiln_diagnostics *d) {
  parser p = parser_of(module, text, size, 0, d); // line 0: it has no place in the source
  kiln_node *n = new_node(&p, KILN_NODE_CALL);
  n->atom = expect_name(&p, "of a kernel");
  if (accept(&p, KILN_TOKEN_LBRACKET)) n->list = instance_args(&p);
  expect(&p, KILN_TOKEN_END, "after the instance");
  return p.panic ? NULL : n;
}

// ---------------------------------------------------------------------------------- assigned names

typedef struct name_set {
  kiln_arena *arena;
  kiln_node **items;
  uint32_t count, capacity, mark;
} name_set;

static void collect(name_set *set, const kiln_node *n) {
  if (!n) return;
  if (n->kind == KILN_NODE_BLOCK)
    for (uint32_t i = 0; i < n->list.count; i++) collect(set, n->list.items[i]);
  if (n->kind == KILN_NODE_ASSIGN) {
    for (uint32_t i = 0; i < n->names.count; i++) {
      if (n->names.items[i]->atom->mark == set->mark) continue;
      n->names.items[i]->atom->mark = set->mark;
      KILN_GROW(set->arena, set->items, set->count, set->capacity);
      set->items[set->count++] = n->names.items[i];
    }
  }
  collect(set, n->body);
  if (n->kind == KILN_NODE_IF || n->kind == KILN_NODE_WHEN) collect(set, n->c);
  // An 'if' with values, also of what 'loop' and 'break' bind.
  if (n->kind == KILN_NODE_LET || n->kind == KILN_NODE_VAR || n->kind == KILN_NODE_LOOP) collect(set, n->a);
  if (n->kind == KILN_NODE_BREAK) collect(set, n->b);
}

kiln_list kiln_assigned_names(kiln_arena *arena, kiln_module *module, const kiln_node *body) {
  name_set set = {.arena = arena, .mark = ++module->atoms.mark};
  collect(&set, body);
  return (kiln_list){set.items, set.count};
}
