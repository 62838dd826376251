// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Configs of an instance: those that the source states, those of @space, and which a processor reaches.
#include <stdio.h>
#include <string.h>

#include "compiler/front/instance.h"

enum { MOST_WARPS = 32, MOST_CONFIGS = 4096 };

static bool check_config_arg(kiln_maker *m, const kiln_node *arg) {
  static const char *const words[] = {"warps", "stages", "regs", "targets"};
  if (arg->kind != KILN_NODE_NAMED)
    return kiln_elab_error(&m->e, arg->place, "'@config': expected name = value"), false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(arg->atom->text, words[i])) return true;
  kiln_nearest near = kiln_nearest_to(arg->atom->text);
  int at = kiln_cparam_index(m->kernel, arg->atom);
  for (size_t i = 0; at < 0 && i < sizeof words / sizeof *words; i++) kiln_nearest_consider(&near, words[i]);
  if (at < 0)
    kiln_elab_error(&m->e, arg->place, "'@config': '%s' is no compile-time parameter%s", arg->atom->text,
                    kiln_near_cparam(m, &near));
  else if (!kiln_is_of_config(m->kernel->cparams.items[at]))
    kiln_elab_error(&m->e, arg->place,
                    "'@config': '%s' is not marked 'tune'; what the caller chooses is set by @instance",
                    arg->atom->text);
  else return true;
  return false;
}

// What the config says of `name`; NULL: nothing.
static const kiln_node *value_in(const kiln_node *config, const char *name) {
  const kiln_node *value = NULL;
  for (uint32_t i = 0; config && i < config->list.count; i++)
    if (config->list.items[i]->kind == KILN_NODE_NAMED && kiln_is_attribute(config->list.items[i], name))
      value = config->list.items[i]->a;
  return value;
}

static bool geometry(kiln_maker *m, const kiln_node *a, const char *name, int64_t least, int64_t most,
                     uint16_t *out) {
  const kiln_node *given = value_in(a, name), *default_of = kiln_find_attribute(m, name);
  int64_t v = *out;
  bool ok = true;
  if (!given && default_of && default_of->list.count == 1) given = default_of->list.items[0];
  if (given) ok = kiln_elab_integer(&m->e, given, least, most, name, &v);
  if (ok && given && least && v & (v - 1))
    kiln_elab_error(&m->e, given->place, "%s must be a power of two, found %lld", name, (long long)v);
  *out = (uint16_t)v;
  return ok;
}

// ------------------------------------------------------------------ configs of @space

static bool is_of_cost(const kiln_maker *m, const kiln_atom *atom) {
  int at = kiln_cparam_index(m->kernel, atom);
  return at >= 0 && m->kernel->cparams.items[at]->op == KILN_CPARAM_COST;
}

// @space(BLOCK = [512, 1024], warps = [4, 8]): values that tuning tries besides those of @config.
static void check_space(kiln_maker *m, const kiln_node *a) {
  for (uint32_t i = 0; i < a->list.count; i++) {
    const kiln_node *arg = a->list.items[i];
    if (arg->kind == KILN_NODE_NAMED && kiln_is_attribute(arg, "targets"))
      kiln_elab_error(&m->e, arg->place, "'@space': what a config is for stands in @config");
    else if (!check_config_arg(m, arg)) continue;
    else if (is_of_cost(m, arg->atom))
      kiln_elab_error(&m->e, arg->place, "'@space': '%s' is a number of @cost, which changes no code",
                      arg->atom->text);
    else if (arg->a->kind != KILN_NODE_LIST || !arg->a->list.count)
      kiln_elab_error(&m->e, arg->a->place, "'@space': expected a list of values such as [512, 1024]");
    for (uint32_t j = 0; j < i; j++)
      if (a->list.items[j]->atom && a->list.items[j]->atom == arg->atom)
        kiln_elab_error(&m->e, arg->place, "'@space': '%s' is there already", arg->atom->text);
  }
}

/// What the config costs, in units of the kernel's own: the one place where its numbers of @cost are known,
/// so that neither code nor name of a config can depend on them.
static void cost_expression(kiln_maker *m, kiln_native_config *c) {
  const kiln_node *a = kiln_find_attribute(m, "cost");
  kiln_binding *top;
  if (!a || a->list.count != 1) return;
  uint32_t scope = kiln_elab_open_scope(&m->e, &top);
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++) {
    const kiln_node *p = m->kernel->cparams.items[i];
    if (p->op == KILN_CPARAM_COST) kiln_elab_bind(&m->e, p->atom, p->place, c->values[i]);
  }
  c->cost = kiln_launch_build(&m->e, m->kernel, m->instance->params, NULL, a->list.items[0], "@cost");
  if (c->cost && (c->cost->is_bool || kiln_launch_has_pointer(c->cost, m->instance->params)))
    kiln_elab_error(&m->e, a->list.items[0]->place, "@cost: expected an integer, found %s",
                    c->cost->is_bool ? "a condition" : "a pointer");
  kiln_elab_close_scope(&m->e, top, scope);
}

static bool never_holds(const kiln_native_config *c) {
  for (uint32_t i = 0; i < c->require_count; i++)
    if (c->require[i]->op == KILN_EXPR_CONST && !c->require[i]->value) return true;
  return false;
}

// One config; `a` is NULL for the default one. False: it can never be used, or has errors.
static bool make_config(kiln_maker *m, const kiln_node *a, kiln_native_config *c) {
  uint32_t errors = m->e.d->errors;
  kiln_binding *top;
  bool ok = true;
  *c = (kiln_native_config){
      .warps = 4, .registers = m->instance->max_registers, .place = a ? a->place : (ir_place){0}};
  for (uint32_t i = 0; a && i < a->list.count; i++) ok &= check_config_arg(m, a->list.items[i]);
  c->values = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_value, m->kernel->cparams.count);
  if (!ok || !kiln_compile_time_values(m, a ? a->list : (kiln_list){0}, m->instance->values, c->values))
    return false;
  uint32_t scope = kiln_elab_open_scope(&m->e, &top);
  kiln_native_bind(&m->e, m->kernel, c->values, KILN_CPARAM_TUNE);
  geometry(m, a, "warps", 1, MOST_WARPS, &c->warps);
  geometry(m, a, "stages", 0, KILN_MOST_STAGES, &c->stages);
  const kiln_node *registers = value_in(a, "regs"); // without it, the kernel's own (@regs) stay
  int64_t most;
  if (registers && kiln_elab_integer(&m->e, registers, 1, KILN_MOST_REGISTERS, "regs", &most))
    c->registers = (uint16_t)most;
  // The processors that a config is for.
  for (uint32_t i = 0; a && i < a->list.count; i++) {
    const kiln_node *arg = a->list.items[i];
    char list[KILN_TARGET_LIST];
    kiln_error err;
    if (arg->kind != KILN_NODE_NAMED || !kiln_is_attribute(arg, "targets")) continue;
    if (c->targets) kiln_elab_error(&m->e, arg->place, "'@config': 'targets' is there already");
    else if (arg->a->kind != KILN_NODE_STRING)
      kiln_elab_error(&m->e, arg->a->place, "'targets': expected a text such as \"sm_90a, gfx94*\"");
    else if (kiln_target_list_parse(arg->a->text, list, &err) != KILN_OK)
      kiln_elab_error(&m->e, arg->a->place, "'targets': %s", err.text);
    else c->targets = kiln_arena_text(kiln_maker_arena(m), list, strlen(list));
  }
  // Grid and requirements of the config, whose values are bound.
  const kiln_node *grid = kiln_find_attribute(m, "grid");
  for (uint32_t i = 0; grid && i < grid->list.count && i < 3; i++) {
    const ir_param *params = m->instance->params;
    ir_place place = grid->list.items[i]->place;
    const kiln_launch_expr *x =
        kiln_launch_build(&m->e, m->kernel, params, NULL, grid->list.items[i], "@grid");
    int64_t lo, hi;
    if (x && kiln_launch_has_pointer(x, params))
      kiln_elab_error(&m->e, place, "@grid: expected integers, found a pointer");
    else if (x && kiln_launch_range(x, params, &lo, &hi) && hi < 1)
      kiln_elab_error(&m->e, place, "@grid: expected at least 1, found at most %lld", (long long)hi);
    else if (x && kiln_launch_range(x, params, &lo, &hi) && lo > INT32_MAX)
      kiln_elab_error(&m->e, place, "@grid: expected at most %d, found at least %lld", INT32_MAX,
                      (long long)lo);
    c->grid[i] = x;
  }
  uint32_t capacity = 0;
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++) {
    const kiln_node *required = m->kernel->attributes.items[i];
    for (uint32_t j = 0; kiln_is_attribute(required, "require") && j < required->list.count; j++) {
      const kiln_launch_expr *x =
          kiln_launch_build(&m->e, m->kernel, m->instance->params, NULL, required->list.items[j], "@require");
      if (!x) continue;
      if (!x->is_bool)
        kiln_elab_error(&m->e, required->list.items[j]->place, "@require: expected a condition");
      if (x->op == KILN_EXPR_CONST && x->value) continue;
      KILN_GROW(kiln_maker_arena(m), c->require, c->require_count, capacity);
      c->require[c->require_count++] = x;
    }
  }
  cost_expression(m, c);
  kiln_elab_close_scope(&m->e, top, scope);
  return m->e.d->errors == errors && !never_holds(c);
}

static void add_config(kiln_maker *m, const kiln_node *a, const kiln_native_config *c, uint32_t *capacity) {
  kiln_native_instance *in = m->instance;
  kiln_interface *f = &in->interface;
  kiln_buffer b = {0};
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++)
    if (m->kernel->cparams.items[i]->op == KILN_CPARAM_TUNE)
      kiln_buffer_format(&b, "%s=%s,", m->kernel->cparams.items[i]->atom->text,
                         kiln_value_spelling(kiln_maker_arena(m), c->values[i]));
  kiln_buffer_format(&b, "warps=%u", c->warps);
  if (c->stages) kiln_buffer_format(&b, ",stages=%u", c->stages);
  if (c->registers != m->instance->max_registers) kiln_buffer_format(&b, ",regs=%u", c->registers);
  if (c->targets) kiln_buffer_format(&b, ",targets=%s", c->targets);
  const char *text = kiln_arena_text(kiln_maker_arena(m), (const char *)b.bytes, b.size);
  kiln_buffer_deinit(&b);
  for (uint32_t i = 0; i < f->config_count; i++) {
    if (strcmp(f->configs[i].text, text)) continue;
    if (a) kiln_elab_error(&m->e, a->place, "'@config' is there already: %s", text);
    return; // one that was generated may be written already
  }
  uint32_t count = f->config_count, again = *capacity;
  KILN_GROW(kiln_maker_arena(m), in->configs, count, again);
  KILN_GROW(kiln_maker_arena(m), f->configs, count, *capacity);
  in->configs[count] = *c;
  kiln_config_record *r = &f->configs[f->config_count++];
  *r = (kiln_config_record){.text = text,
                            .warps = c->warps,
                            .stages = c->stages,
                            .require_count = c->require_count,
                            .require = kiln_encode_conditions(m, c->require, c->require_count)};
  if (c->cost) r->cost = kiln_launch_encode(kiln_maker_arena(m), c->cost);
  for (uint32_t i = 0; i < 3; i++)
    if (c->grid[i]) r->grid[i] = kiln_launch_encode(kiln_maker_arena(m), c->grid[i]);
  // Without @grid one program runs. It is stated, since an interface without any extent leaves the grid to
  // the launcher; on the last axis, where no @grid has its only extent.
  static const kiln_launch_expr one = {.op = KILN_EXPR_CONST, .value = 1};
  if (!c->grid[0]) r->grid[2] = kiln_launch_encode(kiln_maker_arena(m), &one);
}

static bool is_for(const kiln_native_config *c, const kiln_processor *processor) {
  return !c->targets || kiln_target_list_has(c->targets, processor);
}

/// Whether no launch takes `later` once `first` is there, which is before it: that one always holds, and costs
/// are not compared, or are numbers and its own is not the greater one.
static bool is_always_before(const kiln_native_config *first, const kiln_native_config *later) {
  if (first->require_count) return false;
  if (!first->cost) return true;
  return first->cost->op == KILN_EXPR_CONST && later->cost->op == KILN_EXPR_CONST &&
         first->cost->value <= later->cost->value;
}

// At launch the first config that holds is taken, so none after one that always holds is reached: of those
// for the processor.
static bool is_reached(const kiln_native_instance *in, uint32_t before, const kiln_native_config *c,
                       const kiln_processor *processor) {
  for (uint32_t i = 0; i < before; i++)
    if (is_always_before(&in->configs[i], c) && is_for(&in->configs[i], processor)) return false;
  return is_for(c, processor);
}

bool kiln_native_has_config(const kiln_unit *unit, size_t index, uint32_t config, const kiln_target *target) {
  const kiln_native_unit *u = (const kiln_native_unit *)unit;
  const kiln_native_instance *in = &u->instances[index];
  return u->all_configs ? is_for(&in->configs[config], target->processor)
                        : is_reached(in, config, &in->configs[config], target->processor);
}

// The config `base` (NULL: that of the defaults) with the values of @space that `chosen` numbers.
static kiln_node varied(kiln_maker *m, const kiln_node *base, const kiln_node *ranges,
                        const uint32_t *chosen) {
  kiln_node out = {.kind = KILN_NODE_ATTRIBUTE, .place = ranges->place, .atom = ranges->atom};
  uint32_t others = base ? base->list.count : 0, count = ranges->list.count;
  out.list.items = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_node *, others + count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_node *range = ranges->list.items[i];
    kiln_node *arg = out.list.items[out.list.count++] = KILN_NEW(kiln_maker_arena(m), kiln_node);
    *arg = (kiln_node){.kind = KILN_NODE_NAMED,
                       .place = range->place,
                       .atom = range->atom,
                       .a = range->a->list.items[chosen[i]]};
  }
  for (uint32_t i = 0; i < others; i++) {
    bool is_varied = false;
    for (uint32_t k = 0; k < count; k++)
      is_varied |= ranges->list.items[k]->atom == base->list.items[i]->atom;
    if (!is_varied) out.list.items[out.list.count++] = base->list.items[i];
  }
  return out;
}

// All combinations of a @space on top of `base`; those that are there already are left out.
static void generate_configs(kiln_maker *m, const kiln_node *ranges, const kiln_node *base,
                             uint32_t *capacity) {
  uint32_t count = ranges->list.count, *chosen = KILN_NEW_ARRAY(kiln_maker_arena(m), uint32_t, count), at;
  do {
    kiln_native_config c;
    kiln_node node = varied(m, base, ranges, chosen);
    if (m->instance->interface.config_count == MOST_CONFIGS) return;
    if (make_config(m, &node, &c)) {
      c.is_generated = true;
      add_config(m, NULL, &c, capacity);
    }
    for (at = count; at-- > 0; chosen[at] = 0)
      if (++chosen[at] < ranges->list.items[at]->a->list.count) break;
  } while (at < count);
}

static void generate_all(kiln_maker *m, const kiln_node *ranges, uint32_t *capacity) {
  bool any = false;
  uint32_t errors = m->e.d->errors;
  for (uint32_t i = 0; i < m->kernel->attributes.count && m->e.d->errors == errors; i++) {
    if (!kiln_is_attribute(m->kernel->attributes.items[i], "config")) continue;
    any = true;
    generate_configs(m, ranges, m->kernel->attributes.items[i], capacity);
  }
  if (!any) generate_configs(m, ranges, NULL, capacity);
}

void kiln_make_configs(kiln_maker *m) {
  uint32_t written = 0, capacity = 0, errors = m->e.d->errors;
  kiln_native_config c;
  m->instance->never_holds = KILN_NEW_ARRAY(kiln_maker_arena(m), bool, m->kernel->attributes.count);
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    if (kiln_is_attribute(m->kernel->attributes.items[i], "space"))
      check_space(m, m->kernel->attributes.items[i]);
  for (uint32_t i = 0; i < m->kernel->attributes.count && m->instance->interface.config_count < MOST_CONFIGS;
       i++) {
    const kiln_node *a = m->kernel->attributes.items[i];
    if (!kiln_is_attribute(a, "config")) continue;
    written++;
    m->instance->never_holds[i] = !make_config(m, a, &c);
    if (m->instance->never_holds[i]) continue;
    // Some processor is to reach it after those that are there. Of the one that this program runs on only the
    // table's row is asked: the interface says the same on all machines.
    bool is_reached_by_one = m->unit->all_configs;
    for (size_t p = 0; p < kiln_processor_count() && !is_reached_by_one; p++)
      is_reached_by_one =
          is_reached(m->instance, m->instance->interface.config_count, &c, kiln_processor_at(p));
    if (is_reached_by_one) add_config(m, a, &c, &capacity);
  }
  if (!written && make_config(m, NULL, &c)) add_config(m, NULL, &c, &capacity);
  for (uint32_t i = 0; m->unit->with_ranges && i < m->kernel->attributes.count; i++) // each on its own
    if (kiln_is_attribute(m->kernel->attributes.items[i], "space") && m->e.d->errors == errors)
      generate_all(m, m->kernel->attributes.items[i], &capacity);
  if (!m->instance->interface.config_count && m->e.d->errors == errors)
    kiln_elab_error(&m->e, m->kernel->place, "kernel '%s' has no config whose @require can hold",
                    m->kernel->atom->text);
}
