// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls: of operations by the table operations.def, of functions by inlining.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front/operations.h"

static const kiln_operation operations[] = {
#define OPERATION(name, handler, least, most, code, flags, named, form) \
  {name, KILN_HANDLER_##handler, least, most, code, flags, named, form},
#include "compiler/front/operations.def"
#undef OPERATION
};
#define OPERATION(n, handler, least, most, code, flags, words, text)                                \
  _Static_assert(sizeof n <= sizeof operations->name && sizeof words <= sizeof operations->named && \
                     sizeof text <= sizeof operations->form,                                        \
                 "all have room: " n);
#include "compiler/front/operations.def"
#undef OPERATION

static int compare_name(const void *key, const void *row) {
  return strcmp(key, ((const kiln_operation *)row)->name);
}

static const kiln_operation *find(const char *name) {
  return bsearch(name, operations, sizeof operations / sizeof *operations, sizeof *operations, compare_name);
}

bool kiln_elab_is_operation(const char *name) { return find(name) != NULL; }

const char *kiln_elab_operation_name(size_t index) {
  return index < sizeof operations / sizeof *operations ? operations[index].name : NULL;
}

// -------------------------------------------------------------------------------- for the handlers

kiln_values kiln_call_one(kiln_value v, kiln_value *one) {
  *one = v;
  return (kiln_values){one, 1};
}

const kiln_node *kiln_call_named(const kiln_call *c, const char *name) {
  for (uint32_t i = 0; i < c->node->list.count; i++) {
    const kiln_node *n = c->node->list.items[i];
    if (n->kind == KILN_NODE_NAMED && !strcmp(n->atom->text, name)) return n->a;
  }
  return NULL;
}

const kiln_node *kiln_call_arg(const kiln_call *c, uint32_t i, const char *name) {
  return i < c->count ? c->args[i] : kiln_call_named(c, name);
}

bool kiln_call_flag(kiln_elab *e, const kiln_call *c, const char *name, uint32_t flag, uint32_t *flags) {
  const kiln_node *n = kiln_call_named(c, name);
  bool set = false;
  if (n && !kiln_elab_known_bool(e, n, name, &set)) return false;
  if (set) *flags |= flag;
  return true;
}

bool kiln_call_word(kiln_elab *e, const kiln_call *c, const char *name, const char *const *words,
                    uint8_t *out) {
  const kiln_node *n = kiln_call_named(c, name);
  const char *list = "";
  if (!n) return true;
  for (uint8_t i = 0; words[i]; i++) {
    if (n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, words[i])) return *out = i, true;
    list = kiln_arena_format(e->arena, "%s%s%s", list, i ? " " : "", words[i]);
  }
  if (n->kind == KILN_NODE_NAME)
    kiln_elab_error(e, n->place, "'%s' of '%s': unknown '%s'%s", name, c->operation->name, n->atom->text,
                    kiln_elab_meant(e, n->atom->text, "; known are ", list));
  else
    kiln_elab_error(e, n->place, "'%s' of '%s': expected one of these, as a word without quotes: %s", name,
                    c->operation->name, list);
  return false;
}

ir_value *kiln_call_value(kiln_elab *e, const kiln_call *c, uint32_t i) {
  kiln_value v = kiln_elab_eval(e, c->args[i]);
  return v.kind == KILN_VALUE_ERROR ? NULL : kiln_elab_runtime(e, c->args[i]->place, v);
}

bool kiln_call_list(kiln_elab *e, const kiln_call *c, uint32_t i, const char *what, kiln_list *out) {
  *out = c->args[i]->list;
  if (c->args[i]->kind == KILN_NODE_LIST) return true;
  kiln_elab_error(e, c->args[i]->place, "'%s': expected %s in brackets, as in %s", c->operation->name, what,
                  c->operation->form);
  return false;
}

/// The combination that `name` means after an operation, which atomics have more of; 0: none.
static unsigned find_kind(ir_opcode code, const char *name, uint32_t *out_flags) {
  bool is_unsigned = !strcmp(name, "umax") || !strcmp(name, "umin");
  *out_flags = is_unsigned ? IR_UNSIGNED : 0;
  for (unsigned kind = IR_COMBINE_REGION + 1; kind < IR_COMBINE_COUNT; kind++)
    if (!strcmp(ir_combines[kind].text, name + is_unsigned) &&
        (ir_combines[kind].classes || code == IR_ATOMIC))
      return kind;
  return 0;
}

// `op.member` is something.
static bool has_form(kiln_elab *e, const kiln_operation *op, const kiln_node *n) {
  uint32_t flags;
  if (!n->member) return true;
  if (op->code != IR_REDUCE && op->code != IR_SCAN && op->code != IR_ATOMIC)
    kiln_elab_error(e, n->place, "'%s' has no form '.%s': %s", op->name, n->member->text, op->form);
  else if (!find_kind(op->code, n->member->text, &flags))
    kiln_elab_error(e, n->place, "unknown '%s.%s'%s", op->name, n->member->text,
                    kiln_elab_meant(e, n->member->text, "; known are ",
                                    op->code == IR_ATOMIC ? "add mul max min umax umin and or xor xchg"
                                                          : "add mul max min umax umin and or xor"));
  else return true;
  return false;
}

void kiln_elab_check_form(kiln_elab *e, const kiln_node *n) {
  const kiln_operation *op = find(n->atom->text);
  if (op) has_form(e, op, n);
}

void kiln_call_combine(const kiln_call *c, uint8_t *out_kind, uint32_t *flags) {
  uint32_t sign;
  *out_kind = (uint8_t)find_kind(c->operation->code, c->node->member->text, &sign);
  *flags |= sign;
}

bool kiln_call_takes_unsigned(kiln_elab *e, const kiln_call *c, uint32_t flags, ir_type element) {
  const kiln_value v = {.kind = KILN_VALUE_RUNTIME, .type = element};
  const char *name = kiln_arena_format(e->arena, "'%s.%s'", c->operation->name, c->node->member->text);
  return kiln_elab_is_sensible(e, c->place, IR_CMP, flags & IR_UNSIGNED, name, v, v);
}

// ---------------------------------------------------------------------------------------- dispatch

static bool is_word_of(const char *word, const char *list) {
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += length)
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

// Which argument of the operation's form has the name, from 0; UINT32_MAX: none.
static uint32_t position_of(const kiln_operation *op, const char *name) {
  const char *at = strchr(op->form, '(');
  size_t length = strlen(name);
  for (uint32_t i = 0; at; i++, at = strchr(at + 1, ',')) {
    const char *word = at + 1 + strspn(at + 1, " ");
    if (!strncmp(word, name, length) && (word[length] == ',' || word[length] == ')')) return i;
  }
  return UINT32_MAX;
}

static bool given_twice(kiln_elab *e, const kiln_call *c) {
  for (uint32_t i = 0; i < c->node->list.count; i++) {
    const kiln_node *arg = c->node->list.items[i];
    if (arg->kind != KILN_NODE_NAMED || position_of(c->operation, arg->atom->text) >= c->count) continue;
    kiln_elab_error(e, arg->place, "argument '%s' is given twice, by position and by name: %s",
                    arg->atom->text, c->operation->form);
    return true;
  }
  return false;
}

// Sorts arguments; false after an error.
static bool sort_arguments(kiln_elab *e, kiln_call *c) {
  const kiln_operation *op = c->operation;
  const kiln_node *n = c->node;
  uint32_t positional = 0;
  for (uint32_t i = 0; i < n->list.count; i++) {
    const kiln_node *arg = n->list.items[i];
    if (arg->kind != KILN_NODE_NAMED) {
      if (positional < KILN_CALL_ARGS) c->args[positional] = arg;
      positional++;
    } else if (!is_word_of(arg->atom->text, op->named)) {
      kiln_elab_error(e, arg->place, "'%s' has no argument '%s'%s", op->name, arg->atom->text,
                      kiln_elab_meant(e, arg->atom->text, "; it has: ", op->named));
      return false;
    } else if (kiln_call_named(c, arg->atom->text) != arg->a) {
      kiln_elab_error(e, arg->place, "argument '%s' is given twice", arg->atom->text);
      return false;
    }
  }
  c->count = positional;
  if (positional >= op->least && positional <= op->most) return !given_twice(e, c);
  char many[32];
  if (op->least == op->most) snprintf(many, sizeof many, "%u", op->least);
  else snprintf(many, sizeof many, "%u to %u", op->least, op->most);
  kiln_elab_error(e, n->place, "'%s' takes %s argument%s, found %u: %s", op->name, many,
                  op->most == 1 ? "" : "s", positional, op->form);
  return false;
}

/// What is known at compile time where the arguments are.
static bool is_arithmetic(kiln_handler handler) {
  return handler == KILN_HANDLER_unary || handler == KILN_HANDLER_binary || handler == KILN_HANDLER_bits ||
         handler == KILN_HANDLER_cast || handler == KILN_HANDLER_select || handler == KILN_HANDLER_fma ||
         handler == KILN_HANDLER_compare;
}

static kiln_values call_function(kiln_elab *e, kiln_item *item, const kiln_node *n, kiln_value *one) {
  if (n->member)
    return kiln_call_one(
        kiln_elab_error(e, n->place, "function '%s' has no form '.%s'", n->atom->text, n->member->text), one);
  kiln_value few[8], *args = n->list.count <= 8 ? few : KILN_NEW_ARRAY(e->arena, kiln_value, n->list.count);
  for (uint32_t i = 0; i < n->list.count; i++) {
    const kiln_node *arg = n->list.items[i];
    if (arg->kind == KILN_NODE_NAMED)
      return kiln_call_one(
          kiln_elab_error(e, arg->place, "functions take no named arguments; found '%s ='", arg->atom->text),
          one);
    args[i] = kiln_elab_eval(e, arg);
  }
  return kiln_elab_inline(e, item, args, n->list.count, n->place);
}

static kiln_value unknown(kiln_elab *e, const kiln_node *n) {
  kiln_binding *local = kiln_elab_find(e, n->atom);
  if (local) return kiln_elab_error(e, n->place, "'%s' is a value, not a function", n->atom->text);
  kiln_nearest near = kiln_nearest_to(n->atom->text);
  kiln_elab_suggest(e, &near);
  return kiln_elab_error(e, n->place,
                         near.best ? "unknown function '%s'; did you mean '%s'?" : "unknown function '%s'",
                         n->atom->text, near.best);
}

kiln_values kiln_elab_call(kiln_elab *e, const kiln_node *n, kiln_value *one) {
  const kiln_operation *op = find(n->atom->text);
  if (op) {
    kiln_call c = {.operation = op, .node = n, .place = n->place};
    if (!has_form(e, op, n)) return kiln_call_one((kiln_value){0}, one);
    if (!n->member && op->code == IR_ATOMIC)
      return kiln_call_one(kiln_elab_error(e, n->place, "expected %s", op->form), one);
    if (!sort_arguments(e, &c)) return kiln_call_one((kiln_value){0}, one);
    if (!e->has_builder && !is_arithmetic(op->handler))
      return kiln_call_one(kiln_elab_error(e, n->place, "'%s' is not known at compile time", op->name), one);
    switch ((kiln_handler)c.operation->handler) {
#define HANDLER(name)       \
  case KILN_HANDLER_##name: \
    return kiln_operation_##name(e, &c, one);
#include "compiler/front/handlers.def"
#undef HANDLER
    }
    return kiln_call_one((kiln_value){0}, one);
  }
  kiln_item *item = kiln_elab_item(e, n->atom);
  if (item) return call_function(e, item, n, one);
  return kiln_call_one(unknown(e, n), one);
}
