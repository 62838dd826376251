// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A syntax tree as source text again, for the fuzz targets: as it is, or told differently (other names, other
// order of definitions, no comments), which the canonical form must not see. Parentheses stand only where the
// tree needs them, so that the text nests no deeper than its source.
#ifndef KILN_TESTS_FUZZ_TREE_TEXT_H
#define KILN_TESTS_FUZZ_TREE_TEXT_H

#include <math.h>
#include <string.h>

#include "compiler/front/elaborate.h"

typedef struct tree_writer {
  kiln_buffer *out;
  kiln_module *library; ///< its names keep their meaning
  uint32_t renamed;     ///< mark of atoms that are written under another name; UINT32_MAX: none
} tree_writer;

static void tree_word(tree_writer *w, const char *text) { kiln_buffer_bytes(w->out, text, strlen(text)); }

static void tree_name(tree_writer *w, const kiln_atom *atom) {
  if (atom->mark == w->renamed) tree_word(w, "other_");
  kiln_buffer_bytes(w->out, atom->text, atom->length);
}

// ------------------------------------------------------------------------------------- expressions

static void tree_expr(tree_writer *w, const kiln_node *n, unsigned least);

enum { TREE_COMPARE = 4, TREE_UNARY = 8, TREE_POSTFIX = 9 };

static const struct {
  const char *text;
  uint8_t level;
} tree_operators[KILN_TOKEN_COUNT] = {
    [KILN_TOKEN_PIPE] = {"|", 1},        [KILN_TOKEN_CARET] = {"^", 2},
    [KILN_TOKEN_AMPERSAND] = {"&", 3},   [KILN_TOKEN_LESS] = {"<", 4},
    [KILN_TOKEN_LESSEQ] = {"<=", 4},     [KILN_TOKEN_GREATER] = {">", 4},
    [KILN_TOKEN_GREATEREQ] = {">=", 4},  [KILN_TOKEN_EQUAL] = {"==", 4},
    [KILN_TOKEN_UNEQUAL] = {"!=", 4},    [KILN_TOKEN_SHIFTLEFT] = {"<<", 5},
    [KILN_TOKEN_SHIFTRIGHT] = {">>", 5}, [KILN_TOKEN_PLUS] = {"+", 6},
    [KILN_TOKEN_MINUS] = {"-", 6},       [KILN_TOKEN_STAR] = {"*", 7},
    [KILN_TOKEN_SLASH] = {"/", 7},       [KILN_TOKEN_PERCENT] = {"%", 7},
    [KILN_TOKEN_TILDE] = {"~", 0},
};

static void tree_items(tree_writer *w, kiln_list list) {
  for (uint32_t i = 0; i < list.count; i++) {
    if (i) tree_word(w, ", ");
    tree_expr(w, list.items[i], 1);
  }
}

static void tree_list(tree_writer *w, const char *open, kiln_list list, const char *close) {
  tree_word(w, open);
  tree_items(w, list);
  tree_word(w, close);
}

static void tree_string(tree_writer *w, const char *text) {
  tree_word(w, "\"");
  for (; *text; text++) {
    if (*text == '\n') tree_word(w, "\\n");
    else if (*text == '\t') tree_word(w, "\\t");
    else if (*text == '"' || *text == '\\') kiln_buffer_format(w->out, "\\%c", *text);
    else kiln_buffer_bytes(w->out, text, 1);
  }
  tree_word(w, "\"");
}

static void tree_binary(tree_writer *w, const kiln_node *n, unsigned least) {
  unsigned level = tree_operators[n->op].level;
  if (level < least) tree_word(w, "(");
  tree_expr(w, n->a, level + (level == TREE_COMPARE));
  kiln_buffer_format(w->out, " %s ", tree_operators[n->op].text);
  tree_expr(w, n->b, level + 1);
  if (level < least) tree_word(w, ")");
}

static void tree_unary(tree_writer *w, const kiln_node *n, unsigned least) {
  if (least > TREE_UNARY) tree_word(w, "(");
  tree_word(w, tree_operators[n->op].text);
  tree_expr(w, n->a, TREE_UNARY);
  if (least > TREE_UNARY) tree_word(w, ")");
}

static void tree_call(tree_writer *w, const kiln_node *n) {
  tree_name(w, n->atom);
  if (n->member) kiln_buffer_format(w->out, "."), tree_word(w, n->member->text);
  tree_list(w, "(", n->list, ")");
}

static void tree_real(tree_writer *w, double v) {
  if (isnan(v)) tree_word(w, "nan");
  else if (isinf(v)) tree_word(w, "inf");
  else kiln_buffer_format(w->out, "%a", v);
}

static void tree_expr(tree_writer *w, const kiln_node *n, unsigned least) {
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_INTEGER:
    n->flag ? kiln_buffer_format(w->out, "0x%llx", (unsigned long long)n->integer)
            : kiln_buffer_format(w->out, "%lld", (long long)n->integer);
    break;
  case KILN_NODE_REAL: tree_real(w, n->real); break;
  case KILN_NODE_STRING: tree_string(w, n->text); break;
  case KILN_NODE_BOOL: tree_word(w, n->flag ? "true" : "false"); break;
  case KILN_NODE_NAME: tree_name(w, n->atom); break;
  case KILN_NODE_SCALAR: tree_word(w, kiln_scalars[n->op].spelling); break;
  case KILN_NODE_POINTER: tree_word(w, "*"), tree_expr(w, n->a, TREE_POSTFIX); break;
  case KILN_NODE_VIEW_TYPE:
    tree_word(w, "view "), tree_expr(w, n->a, TREE_POSTFIX), tree_list(w, "[", n->list, "]");
    break;
  case KILN_NODE_TYPEOF: tree_word(w, "typeof("), tree_expr(w, n->a, 1), tree_word(w, ")"); break;
  case KILN_NODE_UNARY: tree_unary(w, n, least); break;
  case KILN_NODE_BINARY: tree_binary(w, n, least); break;
  case KILN_NODE_AS:
    tree_expr(w, n->a, TREE_POSTFIX), tree_word(w, " as "), tree_expr(w, n->b, TREE_POSTFIX);
    break;
  case KILN_NODE_INDEX: tree_expr(w, n->a, TREE_POSTFIX), tree_list(w, "[", n->list, "]"); break;
  case KILN_NODE_CALL: tree_call(w, n); break;
  case KILN_NODE_LIST: tree_list(w, "[", n->list, "]"); break;
  case KILN_NODE_COLON: tree_word(w, ":"); break;
  case KILN_NODE_UNDERSCORE: tree_word(w, "_"); break;
  case KILN_NODE_NAMED: tree_name(w, n->atom), tree_word(w, " = "), tree_expr(w, n->a, 1); break;
  default: tree_word(w, "<a statement>"); break; // refused when it is read again
  }
}

// -------------------------------------------------------------------------------------- statements

static void tree_statement(tree_writer *w, const kiln_node *n);

static void tree_block(tree_writer *w, const kiln_node *n) {
  tree_word(w, " {\n");
  for (uint32_t i = 0; i < n->list.count; i++) tree_statement(w, n->list.items[i]);
  tree_word(w, "}\n");
}

static void tree_attributes(tree_writer *w, kiln_list list) {
  for (uint32_t i = 0; i < list.count; i++) {
    kiln_buffer_format(w->out, " @");
    tree_word(w, list.items[i]->atom->text);
    if (list.items[i]->list.count) tree_list(w, "(", list.items[i]->list, ")");
  }
}

static void tree_choice(tree_writer *w, const kiln_node *n) {
  tree_word(w, n->kind == KILN_NODE_IF ? "if " : "when ");
  tree_expr(w, n->a, 1);
  tree_block(w, n->body);
  if (!n->c) return;
  tree_word(w, "else ");
  bool nested = n->c->list.count == 1 && n->c->list.items[0]->kind == n->kind;
  nested ? tree_choice(w, n->c->list.items[0]) : tree_block(w, n->c);
}

static void tree_binding(tree_writer *w, const char *word, const kiln_node *n) {
  tree_list(w, word, n->names, " = ");
  n->a ? tree_choice(w, n->a) : tree_items(w, n->list);
}

static void tree_for(tree_writer *w, const kiln_node *n) {
  tree_word(w, "for "), tree_name(w, n->atom), tree_word(w, " in ");
  tree_expr(w, n->a, 1), tree_word(w, " .. "), tree_expr(w, n->b, 1);
  if (n->c) tree_word(w, " step "), tree_expr(w, n->c, 1);
  tree_attributes(w, n->names);
  tree_block(w, n->body);
}

static void tree_loop(tree_writer *w, const kiln_node *n) {
  if (n->kind == KILN_NODE_WHILE) tree_word(w, "while "), tree_expr(w, n->a, 1);
  else if (n->a) tree_binding(w, "loop ", n->a);
  else tree_word(w, "loop");
  tree_attributes(w, n->names);
  tree_block(w, n->body);
}

static void tree_break(tree_writer *w, const kiln_node *n) {
  if (n->b) tree_binding(w, "break ", n->b);
  else tree_word(w, "break");
  tree_word(w, " if "), tree_expr(w, n->a, 1);
}

static void tree_statement(tree_writer *w, const kiln_node *n) {
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_LET: tree_binding(w, "let ", n); break;
  case KILN_NODE_VAR: tree_binding(w, "var ", n); break;
  case KILN_NODE_ASSIGN: tree_binding(w, "", n); break;
  case KILN_NODE_FOR: tree_for(w, n); break;
  case KILN_NODE_WHILE:
  case KILN_NODE_LOOP: tree_loop(w, n); break;
  case KILN_NODE_BREAK: tree_break(w, n); break;
  case KILN_NODE_IF:
  case KILN_NODE_WHEN: tree_choice(w, n); break;
  case KILN_NODE_RETURN: tree_list(w, n->list.count ? "return " : "return", n->list, ""); break;
  case KILN_NODE_YIELD: tree_list(w, n->list.count ? "yield " : "yield", n->list, ""); break;
  case KILN_NODE_CALL_STATEMENT: tree_expr(w, n->a, 1); break;
  case KILN_NODE_LAUNCH:
    tree_name(w, n->atom);
    if (n->names.count) tree_list(w, "[", n->names, "]");
    tree_list(w, "(", n->list, ")");
    break;
  default: tree_word(w, "<no statement>"); break; // refused when it is read again
  }
  tree_word(w, "\n");
}

// ------------------------------------------------------------------------------------------- items

static void tree_typed(tree_writer *w, const kiln_node *n, const char *mode) {
  tree_name(w, n->atom);
  if (n->a) tree_word(w, ": "), tree_word(w, mode), tree_expr(w, n->a, TREE_POSTFIX);
  tree_attributes(w, n->names);
}

static void tree_cparams(tree_writer *w, kiln_list list) {
  static const char *const marks[] = {[KILN_CPARAM_VALUE] = "",
                                      [KILN_CPARAM_TYPE] = ": type",
                                      [KILN_CPARAM_TUNE] = ": tune",
                                      [KILN_CPARAM_COST] = ": cost"};
  for (uint32_t i = 0; i < list.count; i++) {
    const kiln_node *n = list.items[i];
    tree_word(w, i ? ", " : "[");
    tree_typed(w, n, "");
    tree_word(w, marks[n->op]);
    tree_word(w, " = "), tree_expr(w, n->b, 1);
  }
  if (list.count) tree_word(w, "]");
}

static void tree_params(tree_writer *w, kiln_list list) {
  static const char *const modes[] = {[IR_ACCESS_IN] = "in ",
                                      [IR_ACCESS_OUT] = "out ",
                                      [IR_ACCESS_INOUT] = "inout ",
                                      [IR_ACCESS_ACCUM] = "accum "};
  tree_word(w, "(");
  for (uint32_t i = 0; i < list.count; i++) {
    if (i) tree_word(w, ", ");
    tree_typed(w, list.items[i], list.items[i]->op ? modes[list.items[i]->op] : "");
  }
  tree_word(w, ")");
}

static void tree_item(tree_writer *w, const kiln_item *item) {
  static const char *const words[] = {
      [KILN_ITEM_CONST] = "const ", [KILN_ITEM_FN] = "fn ", [KILN_ITEM_KERNEL] = "kernel "};
  tree_word(w, words[item->kind]);
  tree_name(w, item->atom);
  if (item->kind == KILN_ITEM_CONST) {
    if (item->type) tree_word(w, ": "), tree_expr(w, item->type, TREE_POSTFIX);
    tree_word(w, " = "), tree_expr(w, item->value, 1), tree_word(w, "\n");
    return;
  }
  tree_cparams(w, item->cparams);
  tree_params(w, item->params);
  tree_attributes(w, item->attributes);
  if (item->launches) tree_word(w, " launches"), tree_block(w, item->launches);
  tree_block(w, item->body);
}

/// The module as text; reading it gives the same tree. The module must have no syntax errors.
static inline void tree_text(const kiln_module *m, kiln_buffer *out) {
  tree_writer w = {.out = out, .renamed = UINT32_MAX};
  tree_word(&w, "kiln 1\n");
  for (uint32_t i = 0; i < m->item_count; i++) tree_item(&w, m->items[i]);
}

// -------------------------------------------------------------------------------- told differently

// Marks of atoms: declared names are renamed unless they are also words that mean something by themselves.
typedef struct tree_marks {
  uint32_t declared, kept;
} tree_marks;

static bool tree_is_word(tree_writer *w, const kiln_atom *atom) {
  static const char *const reserved[] = {"TARGET", "WARP", "SMEM", "strict", "ftz", "scratch"};
  kiln_diagnostics none = {.arena = w->library->arena};
  for (unsigned i = 0; i < sizeof reserved / sizeof *reserved; i++)
    if (!strcmp(atom->text, reserved[i])) return true;
  return kiln_elab_is_operation(atom->text) || kiln_library_item(w->library, atom->text, atom->length, &none);
}

static void tree_mark(tree_writer *w, const tree_marks *marks, kiln_atom *atom) {
  if (atom->mark == marks->declared || atom->mark == marks->kept) return;
  atom->mark = tree_is_word(w, atom) ? marks->kept : marks->declared;
}

static bool tree_declares(const kiln_node *n) {
  return n->kind == KILN_NODE_LET || n->kind == KILN_NODE_VAR || n->kind == KILN_NODE_FOR ||
         n->kind == KILN_NODE_CPARAM || n->kind == KILN_NODE_PARAM;
}

static void tree_declared(tree_writer *w, const tree_marks *marks, const kiln_node *n);
static void tree_declared_in(tree_writer *w, const tree_marks *marks, kiln_list list) {
  for (uint32_t i = 0; i < list.count; i++) tree_declared(w, marks, list.items[i]);
}

// Marks what `n` declares, and keeps the words that arguments of operations are given as: order = relaxed.
static void tree_declared(tree_writer *w, const tree_marks *marks, const kiln_node *n) {
  if (!n) return;
  if (tree_declares(n) && n->atom) tree_mark(w, marks, n->atom);
  if (n->kind == KILN_NODE_LET || n->kind == KILN_NODE_VAR)
    for (uint32_t i = 0; i < n->names.count; i++) tree_mark(w, marks, n->names.items[i]->atom);
  if (n->kind == KILN_NODE_CALL)
    for (uint32_t i = 0; i < n->list.count; i++) {
      kiln_node *arg = n->list.items[i];
      if (arg->kind != KILN_NODE_NAMED) continue;
      arg->atom->mark = marks->kept;
      if (arg->a->kind == KILN_NODE_NAME) arg->a->atom->mark = marks->kept;
    }
  tree_declared(w, marks, n->a), tree_declared(w, marks, n->b), tree_declared(w, marks, n->c),
      tree_declared(w, marks, n->body);
  tree_declared_in(w, marks, n->list);
  if (n->kind != KILN_NODE_LET && n->kind != KILN_NODE_VAR) tree_declared_in(w, marks, n->names);
}

static void tree_declared_item(tree_writer *w, const tree_marks *marks, const kiln_item *item) {
  tree_mark(w, marks, item->atom);
  tree_declared_in(w, marks, item->cparams);
  tree_declared_in(w, marks, item->params);
  for (uint32_t i = 0; item->kind == KILN_ITEM_FN && i < item->params.count; i++)
    tree_mark(w, marks, item->params.items[i]->atom);
  tree_declared_in(w, marks, item->attributes);
  tree_declared(w, marks, item->value);
  tree_declared(w, marks, item->launches);
  tree_declared(w, marks, item->body);
}

/// The module told differently: its own names changed, kernels first, the other definitions after them in
/// reverse, comments gone.
static inline void tree_text_differently(kiln_module *m, kiln_buffer *out) {
  tree_marks marks = {m->atoms.mark + 1, m->atoms.mark + 2};
  tree_writer w = {.out = out, .library = kiln_library_open(m->arena), .renamed = marks.declared};
  m->atoms.mark += 2;
  for (uint32_t i = 0; i < m->item_count; i++) tree_declared_item(&w, &marks, m->items[i]);
  tree_word(&w, "kiln 1\n");
  for (uint32_t i = 0; i < m->item_count; i++)
    if (m->items[i]->kind == KILN_ITEM_KERNEL) tree_item(&w, m->items[i]);
  for (uint32_t i = m->item_count; i--;)
    if (m->items[i]->kind != KILN_ITEM_KERNEL) tree_item(&w, m->items[i]);
}

#endif
