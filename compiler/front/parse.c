// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cursor of the parser, and items: const, fn, kernel. Also the scan for names that a body assigns.
#include "compiler/front/parser.h"

#include <string.h>

#include "base/nearest.h"

// ------------------------------------------------------------------------------------------ cursor

kiln_token_kind kiln_parser_kind(const kiln_parser *p) {
  return p->panic ? KILN_TOKEN_END : p->tokens[p->at].kind;
}

const kiln_token *kiln_parser_next(kiln_parser *p) {
  const kiln_token *t = &p->tokens[p->at];
  if (!p->panic && t->kind != KILN_TOKEN_END) p->at++;
  return t;
}

bool kiln_parser_accept(kiln_parser *p, kiln_token_kind kind) {
  if (p->panic || p->tokens[p->at].kind != kind) return false;
  kiln_parser_next(p);
  return true;
}

void kiln_parser_fail(kiln_parser *p, const char *expected) {
  if (p->panic || p->stopped) return;
  const kiln_token *t = &p->tokens[p->at];
  const char *word = kiln_parser_near_keyword(p);
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

const kiln_token *kiln_parser_expect(kiln_parser *p, kiln_token_kind kind, const char *where) {
  if (!p->panic && p->tokens[p->at].kind == kind) return kiln_parser_next(p);
  if (!p->panic) kiln_parser_fail(p, kiln_arena_format(p->arena, "%s %s", kiln_token_text(kind), where));
  return NULL;
}

kiln_atom *kiln_parser_name(kiln_parser *p, const char *where) {
  const kiln_token *t = kiln_parser_expect(p, KILN_TOKEN_NAME, where);
  return t ? t->atom : NULL;
}

void kiln_parser_stop(kiln_parser *p, const char *what, int limit) {
  if (!p->panic)
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, p->tokens[p->at].place, "%s %d", what, limit);
  p->panic = p->stopped = true;
  p->at = p->count - 1;
}

bool kiln_parser_enter(kiln_parser *p) {
  if (p->depth < KILN_NESTING_LIMIT) {
    p->depth++;
    return true;
  }
  kiln_parser_stop(p, "nesting is deeper than the limit of", KILN_NESTING_LIMIT);
  return false;
}

const char *kiln_parser_near_keyword(const kiln_parser *p) {
  if (kiln_parser_kind(p) != KILN_TOKEN_NAME) return NULL;
  kiln_nearest n = kiln_nearest_to(p->tokens[p->at].atom->text);
#define TOKEN(name, text)
#define KEYWORD(name, text) kiln_nearest_consider(&n, text);
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
  return n.best;
}

kiln_node *kiln_parser_node(kiln_parser *p, kiln_node_kind kind) {
  kiln_node *n = KILN_NEW(p->arena, kiln_node);
  n->kind = (uint8_t)kind;
  n->place = p->tokens[p->at].place;
  return n;
}

void kiln_parser_push(kiln_parser *p, kiln_node *node) {
  if (!node) return; // only in panic
  KILN_GROW(p->arena, p->stack, p->stack_count, p->stack_capacity);
  p->stack[p->stack_count++] = node;
}

kiln_list kiln_parser_take(kiln_parser *p, uint32_t from) {
  kiln_list list = {NULL, p->stack_count - from};
  if (list.count) list.items = kiln_arena_copy(p->arena, p->stack + from, list.count * sizeof *list.items);
  p->stack_count = from;
  return list;
}

kiln_parser kiln_parser_of(kiln_module *module, const char *text, size_t size, uint32_t line,
                           kiln_diagnostics *d) {
  kiln_tokens tokens = kiln_lex(module->arena, &module->atoms, module->file, text, size, line, d);
  return (kiln_parser){.arena = module->arena,
                       .module = module,
                       .d = d,
                       .tokens = tokens.items,
                       .count = tokens.count,
                       .stopped = !tokens.is_text};
}

// ------------------------------------------------------------------------------------------- items

kiln_list kiln_parse_attributes(kiln_parser *p) {
  uint32_t from = p->stack_count;
  while (kiln_parser_accept(p, KILN_TOKEN_AT)) {
    kiln_node *n = kiln_parser_node(p, KILN_NODE_ATTRIBUTE);
    n->atom = kiln_parser_name(p, "after '@'");
    if (kiln_parser_accept(p, KILN_TOKEN_LPAREN)) n->list = kiln_parse_args(p);
    kiln_parser_push(p, n);
  }
  return kiln_parser_take(p, from);
}

// A word that is no more than a name elsewhere.
static bool accept_word(kiln_parser *p, const char *word) {
  const kiln_token *t = &p->tokens[p->at];
  return t->kind == KILN_TOKEN_NAME && !strcmp(t->atom->text, word) && kiln_parser_accept(p, KILN_TOKEN_NAME);
}

static kiln_node *cparam(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_CPARAM);
  n->atom = kiln_parser_name(p, "for a compile-time parameter");
  if (kiln_parser_accept(p, KILN_TOKEN_COLON)) {
    if (kiln_parser_accept(p, KILN_TOKEN_TYPE)) n->op = KILN_CPARAM_TYPE;
    else if (kiln_parser_accept(p, KILN_TOKEN_TUNE)) n->op = KILN_CPARAM_TUNE;
    else if (accept_word(p, "cost")) n->op = KILN_CPARAM_COST;
    else n->a = kiln_parse_type(p);
  }
  kiln_parser_expect(p, KILN_TOKEN_ASSIGN, "and a default after a compile-time parameter");
  n->b = kiln_parse_expr(p);
  return n;
}

/// Such a token never follows a type that is a name.
static bool begins_type(kiln_token_kind kind) {
  return kind == KILN_TOKEN_STAR || kind == KILN_TOKEN_VIEW || kind == KILN_TOKEN_NAME;
}

static kiln_node *param(kiln_parser *p) {
  static const uint8_t modes[KILN_TOKEN_COUNT] = {[KILN_TOKEN_IN] = IR_ACCESS_IN,
                                                  [KILN_TOKEN_OUT] = IR_ACCESS_OUT,
                                                  [KILN_TOKEN_INOUT] = IR_ACCESS_INOUT,
                                                  [KILN_TOKEN_ACCUM] = IR_ACCESS_ACCUM};
  kiln_node *n = kiln_parser_node(p, KILN_NODE_PARAM);
  n->atom = kiln_parser_name(p, "for a parameter");
  kiln_parser_expect(p, KILN_TOKEN_COLON, "and a type after the name of a parameter");
  n->op = modes[kiln_parser_kind(p)];
  if (n->op) kiln_parser_next(p);
  else if (kiln_parser_kind(p) == KILN_TOKEN_NAME && begins_type(p->tokens[p->at + 1].kind))
    kiln_parser_fail(p, "a type, or one of 'in', 'out', 'inout', 'accum' before it");
  n->a = kiln_parse_type(p);
  n->names = kiln_parse_attributes(p);
  return n;
}

static kiln_node *fn_param(kiln_parser *p) {
  kiln_node *n = kiln_parser_node(p, KILN_NODE_NAME);
  n->atom = kiln_parser_name(p, "for a parameter");
  if (kiln_parser_accept(p, KILN_TOKEN_COLON)) n->a = kiln_parse_type(p);
  return n;
}

static kiln_list comma_list(kiln_parser *p, kiln_node *(*one)(kiln_parser *p), kiln_token_kind close,
                            const char *where) {
  uint32_t from = p->stack_count;
  if (kiln_parser_accept(p, close)) return (kiln_list){0};
  do kiln_parser_push(p, one(p));
  while (kiln_parser_accept(p, KILN_TOKEN_COMMA));
  kiln_parser_expect(p, close, where);
  return kiln_parser_take(p, from);
}

static void check_distinct(kiln_parser *p, kiln_list first, kiln_list second, const char *what) {
  for (uint32_t i = 0; i < first.count + second.count; i++) {
    kiln_node *n = i < first.count ? first.items[i] : second.items[i - first.count];
    for (uint32_t j = 0; j < i; j++) {
      kiln_node *other = j < first.count ? first.items[j] : second.items[j - first.count];
      if (n->atom && n->atom == other->atom)
        kiln_diagnose(p->d, KILN_ERROR, p->module->file, n->place, "%s '%s' is there already, at line %u",
                      what, n->atom->text, other->place.line);
    }
  }
}

enum { MOST_PARAMS = 256 };

static void check_params(kiln_parser *p, const kiln_item *item) {
  if (item->params.count + item->cparams.count > MOST_PARAMS)
    kiln_diagnose(p->d, KILN_ERROR, p->module->file, item->place, "'%s' has %u parameters, the limit is %d",
                  item->atom->text, item->params.count + item->cparams.count, MOST_PARAMS);
  else check_distinct(p, item->cparams, item->params, "parameter");
}

// An error in the head of an item: its body is still read, for the errors in it and to find its end.
static void recover_head(kiln_parser *p, kiln_item *item, uint32_t start) {
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
    kiln_parse_block(p);
    return;
  }
}

static void define(kiln_parser *p, kiln_item *item) {
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

static void const_item(kiln_parser *p, kiln_item *item) {
  if (kiln_parser_accept(p, KILN_TOKEN_COLON)) item->type = kiln_parse_type(p);
  kiln_parser_expect(p, KILN_TOKEN_ASSIGN, "after the name of a constant");
  item->value = kiln_parse_expr(p);
}

static void fn_item(kiln_parser *p, kiln_item *item) {
  kiln_parser_expect(p, KILN_TOKEN_LPAREN, "after the name of a function");
  item->params = comma_list(p, fn_param, KILN_TOKEN_RPAREN, "after the parameters");
  if (!p->panic) check_params(p, item);
}

static void kernel_item(kiln_parser *p, kiln_item *item) {
  if (kiln_parser_accept(p, KILN_TOKEN_LBRACKET))
    item->cparams = comma_list(p, cparam, KILN_TOKEN_RBRACKET, "after the compile-time parameters");
  kiln_parser_expect(p, KILN_TOKEN_LPAREN, "before the parameters of a kernel");
  item->params = comma_list(p, param, KILN_TOKEN_RPAREN, "after the parameters");
  item->attributes = kiln_parse_attributes(p);
  if (!p->panic) check_params(p, item);
}

static void parse_item(kiln_parser *p) {
  static const struct {
    uint8_t token, kind;
    const char *where;
    void (*rest)(kiln_parser *p, kiln_item *item);
  } kinds[] = {
      {KILN_TOKEN_CONST, KILN_ITEM_CONST, "after 'const'", const_item},
      {KILN_TOKEN_FN, KILN_ITEM_FN, "after 'fn'", fn_item},
      {KILN_TOKEN_KERNEL, KILN_ITEM_KERNEL, "after 'kernel'", kernel_item},
  };
  uint32_t start = p->at, which = 0, errors = p->d->errors + p->d->suppressed;
  kiln_item *item = KILN_NEW(p->arena, kiln_item);
  item->module = p->module;
  while (which < 3 && kinds[which].token != kiln_parser_kind(p)) which++;
  if (which == 3) {
    kiln_parser_fail(p, "'const', 'fn' or 'kernel'");
    recover_head(p, item, start);
    return;
  }
  kiln_parser_next(p);
  item->kind = kinds[which].kind;
  item->place = p->tokens[p->at].place;
  item->atom = kiln_parser_name(p, kinds[which].where);
  kinds[which].rest(p, item);
  if (!p->panic && item->kind != KILN_ITEM_CONST) item->body = kiln_parse_block(p);
  if (p->panic) recover_head(p, item, start);
  item->broken |= p->d->errors + p->d->suppressed != errors;
  p->panic = false;
  p->depth = 0;
  p->stack_count = 0;
  if (item->atom) define(p, item);
}

static void parse_all(kiln_parser *p) {
  while (kiln_parser_kind(p) != KILN_TOKEN_END) parse_item(p);
}

static void version_line(kiln_parser *p) {
  enum { LANGUAGE_VERSION = 1 };
  kiln_parser_expect(p, KILN_TOKEN_KILN, "and a version at the start of the file (kiln 1)");
  const kiln_token *t = kiln_parser_expect(p, KILN_TOKEN_INTEGER, "after 'kiln'");
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
  kiln_parser p = kiln_parser_of(module, text, size, 1, d);
  version_line(&p);
  parse_all(&p);
  return module;
}

void kiln_parse_items(kiln_module *module, const char *text, size_t size, uint32_t line,
                      kiln_diagnostics *d) {
  kiln_parser p = kiln_parser_of(module, text, size, line, d);
  parse_all(&p);
}

kiln_node *kiln_parse_instance(kiln_module *module, const char *text, size_t size, kiln_diagnostics *d) {
  kiln_parser p = kiln_parser_of(module, text, size, 0, d); // line 0: it has no place in the source
  kiln_node *n = kiln_parser_node(&p, KILN_NODE_CALL);
  n->atom = kiln_parser_name(&p, "of a kernel");
  uint32_t from = p.stack_count;
  if (kiln_parser_accept(&p, KILN_TOKEN_LBRACKET)) {
    do {
      kiln_node *arg = kiln_parser_node(&p, KILN_NODE_NAMED);
      arg->atom = kiln_parser_name(&p, "of a compile-time parameter");
      kiln_parser_expect(&p, KILN_TOKEN_ASSIGN, "after the name of a parameter");
      arg->a = kiln_parse_expr(&p);
      kiln_parser_push(&p, arg);
    } while (kiln_parser_accept(&p, KILN_TOKEN_COMMA));
    kiln_parser_expect(&p, KILN_TOKEN_RBRACKET, "after the parameters");
  }
  n->list = kiln_parser_take(&p, from);
  kiln_parser_expect(&p, KILN_TOKEN_END, "after the instance");
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
