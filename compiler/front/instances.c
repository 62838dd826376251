// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the head of a kernel to its instances: compile-time values and names; the other parts have files of
// their own.
#include <stdio.h>
#include <string.h>

#include "compiler/front/instance.h"

kiln_arena *kiln_maker_arena(kiln_maker *m) { return m->unit->unit.arena; }

// ------------------------------------------------------------- compile-time values

void kiln_native_bind(kiln_elab *e, const kiln_item *kernel, const kiln_value *values, uint8_t last) {
  for (uint32_t i = 0; i < kernel->cparams.count; i++) {
    const kiln_node *p = kernel->cparams.items[i];
    if (p->op <= last) kiln_elab_bind(e, p->atom, p->place, values[i]);
  }
}

// `v` as a value of compile-time parameter `p`.
static kiln_value checked(kiln_maker *m, const kiln_node *p, ir_place place, kiln_value v) {
  char text[IR_TYPE_TEXT];
  ir_type type;
  if (v.kind == KILN_VALUE_ERROR) return v;
  bool plain_type = v.kind == KILN_VALUE_TYPE && !v.type.rank && !v.type.is_view && !v.type.pointer;
  if (p->op == KILN_CPARAM_TYPE && !plain_type)
    return kiln_elab_error(&m->e, place, "parameter '%s': expected an element type, found %s", p->atom->text,
                           kiln_value_text(v, text));
  if (p->op == KILN_CPARAM_TYPE) return v;
  if (p->op == KILN_CPARAM_COST && v.kind != KILN_VALUE_INT)
    return kiln_elab_error(&m->e, place, "parameter '%s' of @cost: expected an integer, found %s",
                           p->atom->text, kiln_value_text(v, text));
  if (p->op == KILN_CPARAM_TUNE && v.kind != KILN_VALUE_INT &&
      !(v.kind == KILN_VALUE_CONST && ir_type_class(v.type) != KILN_CLASS_FLOAT))
    return kiln_elab_error(&m->e, place, "parameter '%s' to tune: expected an integer or a boolean, found %s",
                           p->atom->text, kiln_value_text(v, text));
  if (p->a)
    return kiln_elab_type(&m->e, p->a, &type)
               ? kiln_elab_as_element(&m->e, place, v, type, "compile-time parameter")
               : (kiln_value){0};
  if (kiln_value_is_known(v)) return v;
  return kiln_elab_error(&m->e, place, "parameter '%s': expected a number or a boolean, found %s%s%s%s",
                         p->atom->text, kiln_value_text(v, text), plain_type ? "; '" : "",
                         plain_type ? p->atom->text : "", plain_type ? ": type' declares a type" : "");
}

int kiln_cparam_index(const kiln_item *kernel, const kiln_atom *atom) {
  for (uint32_t i = 0; i < kernel->cparams.count; i++)
    if (kernel->cparams.items[i]->atom == atom) return (int)i;
  return -1;
}

// "; did you mean 'x'?" of a name that is no compile-time parameter, or "".
const char *kiln_near_cparam(kiln_maker *m, kiln_nearest *near) {
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++)
    kiln_nearest_consider(near, m->kernel->cparams.items[i]->atom->text);
  return near->best ? kiln_arena_format(kiln_maker_arena(m), "; did you mean '%s'?", near->best) : "";
}

bool kiln_is_of_config(const kiln_node *cparam) { return cparam->op >= KILN_CPARAM_TUNE; }

// Values from defaults and `over` (named arguments, each checked by the caller to fit). A default may use the
// parameters before it, but for those of @cost.
bool kiln_compile_time_values(kiln_maker *m, kiln_list over, const kiln_value *base, kiln_value *out) {
  kiln_binding *top;
  uint32_t scope = kiln_elab_open_scope(&m->e, &top), errors = m->e.d->errors;
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++) {
    const kiln_node *p = m->kernel->cparams.items[i];
    const kiln_node *value = NULL;
    for (uint32_t j = 0; j < over.count; j++)
      if (over.items[j]->kind == KILN_NODE_NAMED && over.items[j]->atom == p->atom) value = over.items[j]->a;
    if (value || !base || kiln_is_of_config(p))
      out[i] = checked(m, p, value ? value->place : p->place, kiln_elab_eval(&m->e, value ? value : p->b));
    else out[i] = base[i];
    if (p->op != KILN_CPARAM_COST) kiln_elab_bind(&m->e, p->atom, p->place, out[i]);
  }
  kiln_elab_close_scope(&m->e, top, scope);
  return m->e.d->errors == errors;
}

// "bf16", "128", "true": how a value stands in names.
const char *kiln_value_spelling(kiln_arena *arena, kiln_value v) {
  char text[IR_TYPE_TEXT];
  if (v.kind == KILN_VALUE_TYPE) return kiln_arena_format(arena, "%s", ir_type_text(v.type, text));
  if (v.kind == KILN_VALUE_INT) return kiln_arena_format(arena, "%lld", (long long)v.integer);
  unsigned class = v.kind == KILN_VALUE_CONST ? ir_type_class(v.type) : 0;
  if (class == KILN_CLASS_BOOL) return v.bits ? "true" : "false";
  if (class == KILN_CLASS_INT) return kiln_arena_format(arena, "%lld", (long long)kiln_value_const_int(v));
  double real = v.kind == KILN_VALUE_REAL ? v.real : kiln_value_const_real(v);
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, real);
    double back;
    if (sscanf(text, "%lf", &back) == 1 && back == real) break;
  }
  return kiln_arena_format(arena, "%s", text);
}

// ----------------------------------------------------------------------- instances

static bool check_instance_args(kiln_maker *m, kiln_list args) {
  bool ok = true;
  for (uint32_t i = 0; i < args.count; i++) {
    const kiln_node *arg = args.items[i];
    bool named = arg->kind == KILN_NODE_NAMED;
    int at = named ? kiln_cparam_index(m->kernel, arg->atom) : -1;
    kiln_nearest near = kiln_nearest_to(named ? arg->atom->text : "");
    if (!named) kiln_elab_error(&m->e, arg->place, "an instance: expected name = value");
    else if (at < 0)
      kiln_elab_error(&m->e, arg->place, "kernel '%s' has no compile-time parameter '%s'%s",
                      m->kernel->atom->text, arg->atom->text, kiln_near_cparam(m, &near));
    else if (kiln_is_of_config(m->kernel->cparams.items[at]))
      kiln_elab_error(&m->e, arg->place, "'%s' is %s and is set by @config", arg->atom->text,
                      m->kernel->cparams.items[at]->op == KILN_CPARAM_TUNE ? "to be tuned"
                                                                           : "a number of @cost");
    else continue;
    ok = false;
  }
  return ok;
}

// One instance of the kernel with the values `args`: its number, or -1 after an error. `may_repeat`: one that
// exists already is taken.
static int64_t make_instance(kiln_maker *m, kiln_list args, ir_place place, bool may_repeat) {
  kiln_native_unit *u = m->unit;
  kiln_native_instance in = {.kernel = m->kernel};
  kiln_binding *top;
  if (!check_instance_args(m, args)) return -1;
  m->instance = &in;
  in.values = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_value, m->kernel->cparams.count);
  if (!kiln_compile_time_values(m, args, NULL, in.values)) return -1;
  kiln_buffer name = {0}, plain = {0};
  kiln_buffer_format(&name, "%s", m->kernel->atom->text);
  kiln_buffer_format(&plain, "%s", m->kernel->atom->text);
  bool any = false;
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++) {
    const kiln_node *p = m->kernel->cparams.items[i];
    if (kiln_is_of_config(p)) continue;
    const char *text = kiln_value_spelling(kiln_maker_arena(m), m->instance->values[i]);
    kiln_buffer_format(&name, "%s%s=%s", any ? "," : "[", p->atom->text, text);
    kiln_buffer_format(&plain, "_%s%s", *text == '-' ? "m" : "", *text == '-' ? text + 1 : text);
    any = true;
  }
  if (any) kiln_buffer_u8(&name, ']');
  m->instance->interface.name = kiln_arena_text(kiln_maker_arena(m), (const char *)name.bytes, name.size);
  kiln_buffer_u8(&plain, 0);
  m->instance->interface.symbol = kiln_unit_symbol(kiln_maker_arena(m), (const char *)plain.bytes);
  kiln_buffer_deinit(&name);
  kiln_buffer_deinit(&plain);
  kiln_atom *symbol = kiln_atoms_get(&m->symbols, in.interface.symbol, strlen(in.interface.symbol));
  if (symbol->mark) {
    const kiln_interface *other = &u->instances[symbol->mark - 1].interface;
    bool same = !strcmp(other->name, in.interface.name);
    if (same && may_repeat) return symbol->mark - 1;
    if (same) kiln_elab_error(&m->e, place, "instance %s is there already", in.interface.name);
    else
      kiln_elab_error(&m->e, place, "instances %s and %s have one C name, %s", other->name, in.interface.name,
                      in.interface.symbol);
    return -1;
  }
  symbol->mark = u->count + 1;
  if (m->e.steps) m->e.steps = KILN_ELAB_STEPS; // what one instance needs does not count for the next
  uint32_t scope = kiln_elab_open_scope(&m->e, &top);
  kiln_native_bind(&m->e, m->kernel, in.values, KILN_CPARAM_TYPE);
  kiln_make_params(m);
  kiln_plain_attributes(m);
  kiln_make_variants(m);
  kiln_make_statements(m);
  kiln_elab_close_scope(&m->e, top, scope);
  kiln_make_configs(m);
  KILN_GROW(kiln_maker_arena(m), u->instances, u->count, u->capacity);
  u->instances[u->count++] = in;
  return u->count - 1;
}

int64_t kiln_instance_of(kiln_maker *m, const kiln_item *item, kiln_list args, ir_place place) {
  const kiln_item *before = m->kernel;
  uint32_t errors = m->e.d->errors;
  m->kernel = item;
  int64_t number = make_instance(m, args, place, true);
  m->kernel = before;
  return m->e.d->errors == errors ? number : -1;
}

static void option_instance(kiln_maker *m, const char *text, kiln_diagnostics *d) {
  uint32_t errors = d->errors;
  kiln_node *n = kiln_parse_instance(m->unit->module, text, strlen(text), d);
  const kiln_item *item = n ? n->atom->item : NULL;
  if (n && (!item || item->kind != KILN_ITEM_KERNEL)) {
    kiln_nearest near = kiln_nearest_to(n->atom->text);
    for (uint32_t i = 0; i < m->unit->module->item_count; i++)
      if (m->unit->module->items[i]->kind == KILN_ITEM_KERNEL)
        kiln_nearest_consider(&near, m->unit->module->items[i]->atom->text);
    kiln_elab_error(&m->e, (ir_place){0},
                    near.best ? "there is no kernel '%s'; did you mean '%s'?" : "there is no kernel '%s'",
                    n->atom->text, near.best);
  } else if (n && !item->broken) {
    m->kernel = item;
    make_instance(m, n->list, (ir_place){0}, true);
  }
  if (d->errors != errors)
    kiln_diagnose(d, KILN_NOTE, m->unit->unit.file, (ir_place){0},
                  "in the instance '%.200s' that was asked for", text);
}

void kiln_native_instances(kiln_native_unit *unit, const kiln_front_options *options, kiln_diagnostics *d) {
  kiln_maker m = {.unit = unit};
  kiln_atoms_init(&m.symbols, unit->unit.arena);
  kiln_elab_init(&m.e, unit->unit.arena, unit->module, d, NULL);
  m.e.library = unit->library;
  // Constants that nothing uses yet have their errors reported too.
  m.e.is_check = true;
  for (uint32_t i = 0; i < m.unit->module->item_count; i++) {
    const kiln_item *item = m.unit->module->items[i];
    kiln_node name = {.kind = KILN_NODE_NAME, .place = item->place, .atom = item->atom};
    if (item->kind == KILN_ITEM_CONST) kiln_elab_name(&m.e, &name);
  }
  m.e.is_check = false;
  m.unit->module->epoch++; // what was passed over is no value to keep
  for (uint32_t i = 0; i < unit->module->item_count; i++)
    if (kiln_is_kernel(unit->module->items[i])) kiln_share_configs(&m, unit->module->items[i]);
  for (uint32_t i = 0; i < unit->module->item_count; i++) {
    m.kernel = unit->module->items[i];
    if (kiln_is_kernel(m.kernel)) {
      uint32_t written = 0;
      kiln_check_attributes(&m);
      for (uint32_t k = 0; k < m.kernel->attributes.count; k++) {
        const kiln_node *a = m.kernel->attributes.items[k];
        if (!kiln_is_attribute(a, "instance")) continue;
        written++;
        make_instance(&m, a->list, a->place, false);
      }
      if (!written) make_instance(&m, (kiln_list){0}, m.kernel->place, false);
    }
  }
  for (size_t i = 0; i < options->instance_count; i++) option_instance(&m, options->instances[i], d);
  for (uint32_t i = 0; i < unit->count; i++)
    if (!d->errors) kiln_make_launches(&m, i);
}
