// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names in functions that no kernel calls. What a kernel calls is elaborated and checked there; the rest
// would pass with any name in it, so its names are looked up here.
//
// Needs a parsed module; changes the marks of its atoms only.
#include <string.h>

#include "compiler/front/native.h"

typedef struct checking {
  kiln_elab e; ///< for errors, and for names of the module and the library
  const kiln_atom **locals;
  uint32_t local_count, local_capacity;
} checking;

typedef void visitor(void *context, const kiln_node *n);

static void each_of(kiln_list list, visitor *visit, void *context) {
  for (uint32_t i = 0; i < list.count; i++) visit(context, list.items[i]);
}

static void each_child(const kiln_node *n, visitor *visit, void *context) {
  const kiln_node *const parts[] = {n->a, n->b, n->c};
  for (unsigned i = 0; i < 3; i++)
    if (parts[i]) visit(context, parts[i]);
  each_of(n->list, visit, context);
  if (n->kind == KILN_NODE_FOR || n->kind == KILN_NODE_WHILE || n->kind == KILN_NODE_LOOP)
    each_of(n->names, visit, context); // attributes
  if (n->kind == KILN_NODE_LAUNCH) each_of(n->names, visit, context);
  if (n->body) visit(context, n->body);
}

// ------------------------------------------------------------------------------------------ what is called

static void reach(void *context, const kiln_node *n) {
  const kiln_module *module = context;
  bool names = n->kind == KILN_NODE_NAME || n->kind == KILN_NODE_CALL;
  kiln_item *item = names && n->atom ? n->atom->item : NULL;
  if (item && item->kind == KILN_ITEM_FN && item->atom->mark != module->atoms.mark) {
    item->atom->mark = module->atoms.mark;
    if (item->body) reach(context, item->body);
  }
  each_child(n, reach, context);
}

// ------------------------------------------------------------------------------------------ names

static void bind(checking *c, const kiln_atom *atom) {
  KILN_GROW(c->e.arena, c->locals, c->local_count, c->local_capacity);
  c->locals[c->local_count++] = atom;
}

static void bind_names(checking *c, const kiln_node *n) {
  for (uint32_t i = 0; i < n->names.count; i++) bind(c, n->names.items[i]->atom);
}

static bool is_local(const checking *c, const kiln_atom *atom) {
  for (uint32_t i = c->local_count; i-- > 0;)
    if (c->locals[i] == atom) return true;
  return false;
}

static void look_up(checking *c, const kiln_node *n) {
  const char *name = n->atom->text;
  if (is_local(c, n->atom) || kiln_elab_is_operation(name) || kiln_elab_is_constant(name) ||
      kiln_elab_item(&c->e, n->atom))
    return;
  kiln_nearest near = kiln_nearest_to(name);
  for (uint32_t i = 0; i < c->local_count; i++) kiln_nearest_consider(&near, c->locals[i]->text);
  kiln_elab_suggest(&c->e, &near);
  kiln_elab_error(&c->e, n->place, near.best ? "unknown name '%s'; did you mean '%s'?" : "unknown name '%s'",
                  name, near.best);
}

static void visit(void *context, const kiln_node *n);

static void visit_block(checking *c, const kiln_node *n) {
  uint32_t before = c->local_count;
  each_of(n->list, visit, c);
  c->local_count = before;
}

static void visit_loop(checking *c, const kiln_node *n) {
  uint32_t before = c->local_count;
  if (n->a) visit(c, n->a); // bounds, a condition, or heads, which stay bound inside
  if (n->b) visit(c, n->b);
  if (n->c) visit(c, n->c);
  if (n->kind == KILN_NODE_FOR) bind(c, n->atom);
  each_of(n->names, visit, c);
  each_of(n->body->list, visit, c);
  c->local_count = before;
  for (uint32_t i = 0; n->kind == KILN_NODE_LOOP && i < n->body->list.count; i++)
    if (n->body->list.items[i]->kind == KILN_NODE_BREAK && n->body->list.items[i]->b)
      bind_names(c, n->body->list.items[i]->b);
}

// Names are bound as elaboration binds them: by statements, to the end of their block; a 'when' opens none.
static void visit(void *context, const kiln_node *n) {
  checking *c = context;
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_NAME: look_up(c, n); break;
  case KILN_NODE_CALL:
    look_up(c, n);
    kiln_elab_check_form(&c->e, n);
    each_of(n->list, visit, c);
    break;
  case KILN_NODE_NAMED: // words of operations are no names
    if (n->a->kind != KILN_NODE_NAME) visit(c, n->a);
    break;
  case KILN_NODE_LET:
  case KILN_NODE_VAR:
    each_child(n, visit, c);
    bind_names(c, n);
    break;
  case KILN_NODE_BLOCK: visit_block(c, n); break;
  case KILN_NODE_WHEN:
    visit(c, n->a);
    each_of(n->body->list, visit, c);
    if (n->c) each_of(n->c->list, visit, c);
    break;
  case KILN_NODE_FOR:
  case KILN_NODE_WHILE:
  case KILN_NODE_LOOP: visit_loop(c, n); break;
  default: each_child(n, visit, c); break;
  }
}

void kiln_native_check_unused(kiln_native_unit *u, kiln_diagnostics *d) {
  kiln_module *module = u->module;
  checking c = {0};
  module->atoms.mark++;
  for (uint32_t i = 0; i < module->item_count; i++) {
    const kiln_item *item = module->items[i];
    if (item->kind == KILN_ITEM_FN || item->broken) continue;
    each_of(item->attributes, reach, module);
    if (item->value) reach(module, item->value);
    if (item->body) reach(module, item->body);
    if (item->launches) reach(module, item->launches);
  }
  kiln_elab_init(&c.e, u->unit.arena, module, d, NULL);
  c.e.library = u->library;
  for (uint32_t i = 0; i < module->item_count; i++) {
    const kiln_item *item = module->items[i];
    if (item->kind != KILN_ITEM_FN || item->broken || item->atom->mark == module->atoms.mark) continue;
    c.local_count = 0;
    for (uint32_t j = 0; j < item->params.count; j++) bind(&c, item->params.items[j]->atom);
    visit_block(&c, item->body);
  }
  u->library = c.e.library;
}
