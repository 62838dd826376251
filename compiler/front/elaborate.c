// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The elaborator's state: errors, scopes, names, constants, and inlining of functions.
#include "compiler/front/elaborate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void kiln_elab_init(kiln_elab *e, kiln_arena *arena, kiln_module *module, kiln_diagnostics *d,
                    const kiln_target *target) {
  *e = (kiln_elab){.arena = arena,
                   .module = module,
                   .file = module->file,
                   .d = d,
                   .target = target,
                   .in_kernel = true,
                   .steps = KILN_ELAB_STEPS};
  e->b.arena = arena;
  module->epoch++;
}

// One fault of a call may show at several places of the library's function: the first is enough.
static bool is_reported(const kiln_elab *e) {
  if (!e->library_call || !e->d->count) return false;
  const kiln_diagnostic *last = &e->d->items[e->d->count - 1];
  const char *lead = kiln_arena_format(e->arena, "in '%s': ", e->library_call);
  return last->severity == KILN_ERROR && last->line == e->library_place.line &&
         last->column == e->library_place.column && !strncmp(last->text, lead, strlen(lead));
}

kiln_value kiln_elab_error(kiln_elab *e, ir_place place, const char *format, ...) {
  if (is_reported(e)) return (kiln_value){0};
  char text[900];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (e->library_call)
    kiln_diagnose(e->d, KILN_ERROR, e->file, e->library_place, "in '%s': %s", e->library_call, text);
  else kiln_diagnose(e->d, KILN_ERROR, e->file, place, "%s", text);
  return (kiln_value){0};
}

// ------------------------------------------------------------------------------------------ scopes

uint32_t kiln_elab_open_scope(kiln_elab *e, kiln_binding **out_top) {
  *out_top = e->top;
  return e->scope++;
}

void kiln_elab_close_scope(kiln_elab *e, kiln_binding *top, uint32_t scope) {
  for (; e->top != top; e->top = e->top->below) e->top->atom->binding = e->top->shadowed;
  e->scope = scope;
}

kiln_binding *kiln_elab_find(const kiln_elab *e, const kiln_atom *atom) {
  kiln_binding *b = atom->binding;
  return b && b->frame == e->frame ? b : NULL;
}

kiln_binding *kiln_elab_bind(kiln_elab *e, kiln_atom *atom, ir_place place, kiln_value value) {
  kiln_binding *old = kiln_elab_find(e, atom);
  if (old && old->scope == e->scope) {
    kiln_elab_error(e, place, "'%s' is bound already in this block, at line %u", atom->text, old->place.line);
    old->value = (kiln_value){0};
    return old;
  }
  kiln_binding *b = KILN_NEW(e->arena, kiln_binding);
  *b = (kiln_binding){.atom = atom,
                      .shadowed = atom->binding,
                      .below = e->top,
                      .value = value,
                      .place = place,
                      .frame = e->frame,
                      .scope = e->scope,
                      .order = e->order++,
                      .control = e->control};
  atom->binding = e->top = b;
  return b;
}

// ------------------------------------------------------------------------------------------- names

static const char *const constants[] = {"TARGET", "WARP", "SMEM"};

bool kiln_elab_is_constant(const char *name) {
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (!strcmp(name, constants[i])) return true;
  return false;
}

void kiln_elab_suggest(const kiln_elab *e, kiln_nearest *n) {
  enum { FARTHEST = 1000 };
  unsigned left = e->d->suppressed ? 0 : FARTHEST;
  const char *name;
  for (kiln_binding *b = e->top; b && left && b->frame == e->frame; b = b->below, left--)
    kiln_nearest_consider(n, b->atom->text);
  for (uint32_t i = 0; left && i < e->module->item_count; i++, left--)
    kiln_nearest_consider(n, e->module->items[i]->atom->text);
  for (size_t i = 0; (name = kiln_elab_operation_name(i)); i++) kiln_nearest_consider(n, name);
  for (size_t i = 0; (name = kiln_library_name(i)); i++) kiln_nearest_consider(n, name);
  for (size_t i = 0; i < KILN_SCALAR_COUNT; i++) kiln_nearest_consider(n, kiln_scalars[i].spelling);
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) kiln_nearest_consider(n, constants[i]);
}

const char *kiln_elab_meant(kiln_elab *e, const char *word, const char *lead, const char *known) {
  kiln_nearest n = kiln_nearest_to(word);
  for (const char *at = known; *at;) {
    size_t length = strcspn(at, " (");
    if (length) kiln_nearest_consider(&n, kiln_arena_format(e->arena, "%.*s", (int)length, at));
    at += length;
    at += *at == '(' ? strcspn(at, ")") + 1 : strspn(at, " ");
  }
  return n.best ? kiln_arena_format(e->arena, "; did you mean '%s'?", n.best)
                : kiln_arena_format(e->arena, "%s%s", *known ? lead : "", known);
}

void kiln_elab_unknown_attribute(kiln_elab *e, const kiln_node *attribute, const char *thing,
                                 const char *known) {
  const char *name = kiln_arena_format(e->arena, "@%s", attribute->atom->text);
  kiln_elab_error(e, attribute->place, "unknown attribute '%s' of a %s%s", name, thing,
                  kiln_elab_meant(e, name, "; known are ", known));
}

static kiln_value reserved(kiln_elab *e, const kiln_node *n, bool *found) {
  const char *name = n->atom->text;
  bool target = !strcmp(name, "TARGET"), warp = !strcmp(name, "WARP");
  *found = kiln_elab_is_constant(name);
  if (!*found) return (kiln_value){0};
  if (!e->target && e->is_check) return (kiln_value){0};
  if (!e->target)
    return kiln_elab_error(e, n->place, "'%s' depends on the target and cannot be used here", name);
  if (target) return (kiln_value){.kind = KILN_VALUE_TARGET};
  return kiln_value_int(warp ? e->target->wave : e->target->processor->shared_bytes);
}

kiln_item *kiln_elab_item(kiln_elab *e, const kiln_atom *atom) {
  if (atom->item) return atom->item;
  if (e->module->is_library) return kiln_library_item(e->module, atom->text, atom->length, e->d);
  if (!e->library) e->library = kiln_library_open(e->module->arena);
  return kiln_library_item(e->library, atom->text, atom->length, e->d);
}

// Everything that a change of module or function replaces.
typedef struct context {
  kiln_module *module;
  uint32_t frame;
  bool in_kernel, ended, has_builder;
  kiln_values *returns;
  kiln_control *base;
  const char *library_call;
  ir_place library_place;
} context;

static context leave_for(kiln_elab *e, const kiln_item *item, ir_place place) {
  context c = {e->module,  e->frame, e->in_kernel,    e->ended,        e->has_builder,
               e->returns, e->base,  e->library_call, e->library_place};
  if (item->module->is_library && !e->module->is_library) {
    e->library_call = item->atom->text;
    e->library_place = place;
  }
  e->module = item->module;
  e->frame = ++e->frames;
  e->in_kernel = e->ended = false;
  e->base = e->control;
  return c;
}

static void come_back(kiln_elab *e, const context *c) {
  e->module = c->module;
  e->frame = c->frame;
  e->in_kernel = c->in_kernel;
  e->ended = c->ended;
  e->has_builder = c->has_builder;
  e->returns = c->returns;
  e->base = c->base;
  e->library_call = c->library_call;
  e->library_place = c->library_place;
}

static kiln_value typed_constant(kiln_elab *e, const kiln_item *item, kiln_value v) {
  ir_type type;
  if (!item->type || !kiln_elab_type(e, item->type, &type)) return item->type ? (kiln_value){0} : v;
  if (type.rank || type.is_view || type.pointer)
    return kiln_elab_error(e, item->type->place, "expected an element type for constant '%s'",
                           item->atom->text);
  return kiln_elab_as_element(e, item->place, v, type, "constant");
}

static kiln_value constant(kiln_elab *e, kiln_item *item, ir_place place) {
  if (item->broken) return (kiln_value){0};
  if (item->memo && item->memo_epoch == item->module->epoch) return *item->memo;
  if (item->evaluating) return kiln_elab_error(e, place, "constant '%s' depends on itself", item->atom->text);
  context c = leave_for(e, item, place);
  item->evaluating = true;
  e->has_builder = false;
  kiln_value v = typed_constant(e, item, kiln_elab_eval(e, item->value));
  item->evaluating = false;
  come_back(e, &c);
  item->memo = kiln_arena_copy(e->arena, &v, sizeof v);
  item->memo_epoch = item->module->epoch;
  return v;
}

kiln_value kiln_elab_name(kiln_elab *e, const kiln_node *n) {
  kiln_binding *b = kiln_elab_find(e, n->atom);
  if (b) return kiln_elab_read(e, b);
  kiln_item *item = n->atom->item;
  if (item && item->kind == KILN_ITEM_CONST) return constant(e, item, n->place);
  bool found;
  kiln_value v = reserved(e, n, &found);
  if (found) return v;
  if (!item) item = kiln_elab_item(e, n->atom);
  if (item && item->kind == KILN_ITEM_CONST) return constant(e, item, n->place);
  if (item)
    return kiln_elab_error(e, n->place, "'%s' is a %s, not a value", n->atom->text,
                           item->kind == KILN_ITEM_FN ? "function" : "kernel");
  if (kiln_elab_is_operation(n->atom->text))
    return kiln_elab_error(e, n->place, "'%s' is an operation, not a value; write %s(...)", n->atom->text,
                           n->atom->text);
  kiln_nearest near = kiln_nearest_to(n->atom->text);
  kiln_elab_suggest(e, &near);
  if (!near.best) return kiln_elab_error(e, n->place, "unknown name '%s'", n->atom->text);
  return kiln_elab_error(e, n->place, "unknown name '%s'; did you mean '%s'?", n->atom->text, near.best);
}

// --------------------------------------------------------------------------------------- functions

static bool may_call(kiln_elab *e, const kiln_item *item, uint32_t count, ir_place place) {
  if (item->broken) return false;
  if (item->kind != KILN_ITEM_FN)
    return kiln_elab_error(e, place, "'%s' is not a function", item->atom->text), false;
  if (item->evaluating)
    return kiln_elab_error(e, place, "function '%s' calls itself; functions are inlined", item->atom->text),
           false;
  if (e->calls >= KILN_ELAB_CALLS)
    return kiln_elab_error(e, place, "calls are nested deeper than the limit of %d", KILN_ELAB_CALLS), false;
  if (count == item->params.count) return true;
  kiln_elab_error(e, place, "'%s' takes %u argument%s, found %u", item->atom->text, item->params.count,
                  item->params.count == 1 ? "" : "s", count);
  return false;
}

static kiln_value check_param(kiln_elab *e, const kiln_node *param, kiln_value v) {
  ir_type want, got;
  char a[IR_TYPE_TEXT], b[IR_TYPE_TEXT];
  if (!param->a || v.kind == KILN_VALUE_ERROR) return v;
  if (!kiln_elab_type(e, param->a, &want)) return (kiln_value){0};
  if (!kiln_value_is_known(v) || v.kind == KILN_VALUE_CONST) {
    if (!kiln_elab_type_of(e, param->place, v, &got) || ir_type_equal(want, got)) return v;
    return kiln_elab_error(e, param->place, "parameter '%s': expected %s, found %s", param->atom->text,
                           ir_type_text(want, a), ir_type_text(got, b));
  }
  return kiln_elab_as_element(e, param->place, v, want, "parameter");
}

kiln_values kiln_elab_inline(kiln_elab *e, kiln_item *item, const kiln_value *args, uint32_t count,
                             ir_place place) {
  kiln_values results = {0};
  if (!may_call(e, item, count, place)) {
    results.items = KILN_NEW(e->arena, kiln_value);
    results.count = 1;
    return results;
  }
  uint32_t errors = e->d->errors;
  context c = leave_for(e, item, place);
  kiln_binding *top;
  uint32_t scope = kiln_elab_open_scope(e, &top);
  item->evaluating = true;
  e->calls++;
  e->returns = &results;
  for (uint32_t i = 0; i < count; i++)
    kiln_elab_bind(e, item->params.items[i]->atom, place, check_param(e, item->params.items[i], args[i]));
  kiln_elab_statements(e, &(kiln_rest){.list = item->body->list});
  e->calls--;
  item->evaluating = false;
  kiln_elab_close_scope(e, top, scope);
  come_back(e, &c);
  if (e->d->errors != errors && !item->module->is_library && !e->library_call)
    kiln_diagnose(e->d, KILN_NOTE, e->file, place, "in the call of '%s' here", item->atom->text);
  return results;
}
