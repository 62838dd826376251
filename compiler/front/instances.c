// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the head of a kernel to its instances: compile-time values, parameters with their promised facts,
// configs, variants, names.
#include <stdio.h>
#include <string.h>

#include "compiler/front/native.h"

/// A thread of AMD's matrix processors has 512 vector registers, which is the most that any machine has.
enum { MOST_REGISTERS = 512, MOST_WARPS = 32, MOST_CONFIGS = 4096, MOST_VARIANTS = 64 };

typedef struct maker {
  kiln_native_unit *unit;
  kiln_elab e;
  const kiln_item *kernel;
  kiln_native_instance *instance;
  kiln_atoms symbols; ///< of the instances so far; `mark`: 1 + which instance has it
} maker;

static kiln_arena *arena_of(maker *m) { return m->unit->unit.arena; }

// ------------------------------------------------------------- compile-time values

void kiln_native_bind(kiln_elab *e, const kiln_item *kernel, const kiln_value *values, bool tuned) {
  for (uint32_t i = 0; i < kernel->cparams.count; i++) {
    const kiln_node *p = kernel->cparams.items[i];
    if (tuned || p->op != KILN_CPARAM_TUNE) kiln_elab_bind(e, p->atom, p->place, values[i]);
  }
}

// `v` as a value of compile-time parameter `p`.
static kiln_value checked(maker *m, const kiln_node *p, ir_place place, kiln_value v) {
  char text[IR_TYPE_TEXT];
  ir_type type;
  if (v.kind == KILN_VALUE_ERROR) return v;
  bool plain_type = v.kind == KILN_VALUE_TYPE && !v.type.rank && !v.type.is_view && !v.type.pointer;
  if (p->op == KILN_CPARAM_TYPE && !plain_type)
    return kiln_elab_error(&m->e, place, "parameter '%s': expected an element type, found %s", p->atom->text,
                           kiln_value_text(v, text));
  if (p->op == KILN_CPARAM_TYPE) return v;
  if (p->op == KILN_CPARAM_TUNE && v.kind != KILN_VALUE_INT &&
      !(v.kind == KILN_VALUE_CONST && ir_type_class(v.type) != KILN_CLASS_FLOAT))
    return kiln_elab_error(&m->e, place, "parameter '%s' to tune: expected an integer or a boolean, found %s",
                           p->atom->text, kiln_value_text(v, text));
  if (p->a)
    return kiln_elab_type(&m->e, p->a, &type)
               ? kiln_elab_as_element(&m->e, place, v, type, "compile-time parameter")
               : (kiln_value){0};
  if (kiln_value_is_known(v)) return v;
  return kiln_elab_error(&m->e, place, "parameter '%s': expected a number, a boolean or a type, found %s",
                         p->atom->text, kiln_value_text(v, text));
}

static int cparam_index(const kiln_item *kernel, const kiln_atom *atom) {
  for (uint32_t i = 0; i < kernel->cparams.count; i++)
    if (kernel->cparams.items[i]->atom == atom) return (int)i;
  return -1;
}

// "; did you mean 'x'?" of a name that is no compile-time parameter, or "".
static const char *near_cparam(maker *m, kiln_nearest *near) {
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++)
    kiln_nearest_consider(near, m->kernel->cparams.items[i]->atom->text);
  return near->best ? kiln_arena_format(arena_of(m), "; did you mean '%s'?", near->best) : "";
}

// Values from defaults and `over` (named arguments, each checked by the caller to fit). A default may use the
// parameters before it.
static bool compile_time_values(maker *m, kiln_list over, const kiln_value *base, kiln_value *out) {
  kiln_binding *top;
  uint32_t scope = kiln_elab_open_scope(&m->e, &top), errors = m->e.d->errors;
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++) {
    const kiln_node *p = m->kernel->cparams.items[i];
    const kiln_node *value = NULL;
    for (uint32_t j = 0; j < over.count; j++)
      if (over.items[j]->kind == KILN_NODE_NAMED && over.items[j]->atom == p->atom) value = over.items[j]->a;
    if (value || !base || p->op == KILN_CPARAM_TUNE)
      out[i] = checked(m, p, value ? value->place : p->place, kiln_elab_eval(&m->e, value ? value : p->b));
    else out[i] = base[i];
    kiln_elab_bind(&m->e, p->atom, p->place, out[i]);
  }
  kiln_elab_close_scope(&m->e, top, scope);
  return m->e.d->errors == errors;
}

// "bf16", "128", "true": how a value stands in names.
static const char *value_text(kiln_arena *arena, kiln_value v) {
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

static void name_instance(maker *m) {
  kiln_buffer name = {0}, symbol = {0};
  kiln_buffer_format(&name, "%s", m->kernel->atom->text);
  kiln_buffer_format(&symbol, "%s", m->kernel->atom->text);
  bool any = false;
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++) {
    const kiln_node *p = m->kernel->cparams.items[i];
    if (p->op == KILN_CPARAM_TUNE) continue;
    const char *text = value_text(arena_of(m), m->instance->values[i]);
    kiln_buffer_format(&name, "%s%s=%s", any ? "," : "[", p->atom->text, text);
    kiln_buffer_format(&symbol, "_%s%s", *text == '-' ? "m" : "", *text == '-' ? text + 1 : text);
    any = true;
  }
  if (any) kiln_buffer_u8(&name, ']');
  m->instance->interface.name = kiln_arena_text(arena_of(m), (const char *)name.bytes, name.size);
  kiln_buffer_u8(&symbol, 0);
  m->instance->interface.symbol = kiln_unit_symbol(arena_of(m), (const char *)symbol.bytes);
  kiln_buffer_deinit(&name);
  kiln_buffer_deinit(&symbol);
}

// ---------------------------------------------------------------------- parameters

static void param_attribute(maker *m, const kiln_node *a, ir_param *p) {
  static const struct {
    const char *name;
    uint8_t args, pointers, views, integers;
  } known[] = {{"align", 1, 1, 1, 0},
               {"div", 1, 0, 0, 1},
               {"range", 2, 0, 0, 1},
               {"noalias", 0, 1, 1, 0},
               {"within", 0, 1, 0, 0}};
  enum { KNOWN = sizeof known / sizeof *known };
  size_t which = 0;
  int64_t v[2] = {0};
  char text[IR_TYPE_TEXT];
  bool pointer = p->type.pointer || p->type.is_view,
       integer = !pointer && ir_type_class(p->type) == KILN_CLASS_INT;
  while (which < KNOWN && strcmp(known[which].name, a->atom->text)) which++;
  if (which == KNOWN) {
    kiln_elab_unknown_attribute(&m->e, a, "parameter", "@align(n) @div(n) @range(lo, hi) @noalias @within");
    return;
  }
  if (!(known[which].pointers && p->type.pointer) && !(known[which].views && p->type.is_view) &&
      !(known[which].integers && integer)) {
    kiln_elab_error(&m->e, a->place, "'@%s' is for %s parameters, '%s' is none", known[which].name,
                    known[which].views      ? "pointer and view"
                    : known[which].pointers ? "pointer"
                                            : "integer",
                    p->name);
    return;
  }
  if (a->list.count != known[which].args) {
    kiln_elab_error(&m->e, a->place, "'@%s' takes %u argument%s, found %u", known[which].name,
                    known[which].args, known[which].args == 1 ? "" : "s", a->list.count);
    return;
  }
  if (which == 1 && !kiln_elab_divisor(&m->e, a->list.items[0], p->type, "'@div'", &v[0])) return;
  for (uint32_t i = 0; which != 1 && i < a->list.count; i++)
    if (!kiln_elab_integer(&m->e, a->list.items[i], which == 2 ? INT64_MIN : 1,
                           which == 0 ? 1 << 20 : INT64_MAX, known[which].name, &v[i]))
      return;
  if (which == 0 && v[0] & (v[0] - 1))
    kiln_elab_error(&m->e, a->place, "'@align' takes a power of two, found %lld", (long long)v[0]);
  if (which == 2 && v[0] > v[1])
    kiln_elab_error(&m->e, a->place, "'@range' is empty: %lld is above %lld", (long long)v[0],
                    (long long)v[1]);
  unsigned width = integer ? ir_type_bits(p->type) : 64;
  int64_t most = width < 64 ? (INT64_C(1) << (width - 1)) - 1 : INT64_MAX;
  if (which == 2 && (v[0] < -most - 1 || v[1] > most))
    kiln_elab_error(&m->e, a->list.items[v[0] >= -most - 1]->place,
                    "'@range': expected numbers of %s, from %lld to %lld, found %lld",
                    ir_type_text(p->type, text), (long long)(-most - 1), (long long)most,
                    (long long)v[v[0] >= -most - 1]);
  if (which == 0) p->align = (uint32_t)v[0];
  if (which == 1) p->div = v[0];
  if (which == 2) p->has_range = true, p->lo = v[0], p->hi = v[1];
  if (which == 3) p->noalias = true;
  if (which == 4) p->within = true;
}

static void make_param(maker *m, const kiln_node *n, ir_param *p) {
  char text[IR_TYPE_TEXT];
  *p = (ir_param){.name = n->atom->text};
  if (!kiln_elab_type(&m->e, n->a, &p->type)) {
    m->instance->is_untyped = true;
    return;
  }
  bool pointer = p->type.pointer || p->type.is_view;
  if (p->type.rank && !p->type.is_view)
    kiln_elab_error(&m->e, n->place, "parameter '%s': expected a scalar, pointer or view, found %s", p->name,
                    ir_type_text(p->type, text));
  if (!pointer && n->op)
    kiln_elab_error(&m->e, n->place, "parameter '%s': access modes are for pointers and views, found %s",
                    p->name, ir_type_text(p->type, text));
  p->access = pointer ? n->op ? n->op : IR_ACCESS_INOUT : IR_ACCESS_NONE;
  for (uint32_t i = 0; i < n->names.count; i++) {
    for (uint32_t j = 0; j < i; j++)
      if (n->names.items[j]->atom == n->names.items[i]->atom)
        kiln_elab_error(&m->e, n->names.items[i]->place, "'@%s' is there already",
                        n->names.items[i]->atom->text);
    param_attribute(m, n->names.items[i], p);
  }
  if (kiln_launch_is_empty(p))
    kiln_elab_error(&m->e, n->place, "parameter '%s': no number from %lld to %lld is a multiple of %lld",
                    p->name, (long long)p->lo, (long long)p->hi, (long long)p->div);
}

static void make_params(maker *m) {
  uint32_t count = m->kernel->params.count;
  kiln_interface *f = &m->instance->interface;
  ir_param *params = m->instance->params = KILN_NEW_ARRAY(arena_of(m), ir_param, count);
  f->params = KILN_NEW_ARRAY(arena_of(m), kiln_param_record, count);
  f->param_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ir_param *p = &params[i];
    make_param(m, m->kernel->params.items[i], p);
    f->params[i] = (kiln_param_record){.name = p->name,
                                       .scalar = p->type.scalar,
                                       .pointer = p->type.pointer,
                                       .view_rank = p->type.is_view ? p->type.rank : 0,
                                       .access = p->access,
                                       .noalias = p->noalias,
                                       .has_range = p->has_range,
                                       .align = p->align,
                                       .div = p->div,
                                       .lo = p->lo,
                                       .hi = p->hi};
  }
  kiln_layout_params(f);
}

// ---------------------------------------------------------------------- attributes

static bool is_attribute(const kiln_node *a, const char *name) { return !strcmp(a->atom->text, name); }

// The one attribute `name` of the kernel, or NULL.
static const kiln_node *find_attribute(const maker *m, const char *name) {
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    if (is_attribute(m->kernel->attributes.items[i], name)) return m->kernel->attributes.items[i];
  return NULL;
}

static bool integer_attribute(maker *m, const char *name, int64_t least, int64_t most, int64_t *out) {
  const kiln_node *a = find_attribute(m, name);
  if (!a) return false;
  if (a->list.count == 1) return kiln_elab_integer(&m->e, a->list.items[0], least, most, name, out);
  kiln_elab_error(&m->e, a->place, "'@%s' takes 1 argument, found %u", name, a->list.count);
  return false;
}

static void check_attributes(maker *m) {
  static const struct {
    const char *name;
    bool repeats;
    uint8_t least, most;
  } known[] = {{"grid", false, 1, 3},     {"config", true, 0, 255},    {"instance", true, 1, 255},
               {"variant", true, 1, 32},  {"require", true, 1, 32},    {"warps", false, 1, 1},
               {"stages", false, 1, 1},   {"regs", false, 1, 1},       {"key", false, 1, 255},
               {"fp", false, 1, 2},       {"grid_limit", false, 3, 3}, {"space", true, 1, 255},
               {"returns", false, 1, 26}, {"backward", false, 1, 1},   {"cost", false, 1, 1}};
  enum { KNOWN = sizeof known / sizeof *known };
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++) {
    const kiln_node *a = m->kernel->attributes.items[i];
    size_t which = 0;
    while (which < KNOWN && !is_attribute(a, known[which].name)) which++;
    if (which == KNOWN)
      kiln_elab_unknown_attribute(&m->e, a, "kernel",
                                  "@grid @config @instance @variant @require @cost @warps @stages @regs @key "
                                  "@space @fp @returns @backward");
    else if (!known[which].repeats && find_attribute(m, a->atom->text) != a)
      kiln_elab_error(&m->e, a->place, "'@%s' is there already, at line %u", a->atom->text,
                      find_attribute(m, a->atom->text)->place.line);
    else if (a->list.count < known[which].least || a->list.count > known[which].most)
      kiln_elab_error(&m->e, a->place, "'@%s' takes %u to %u arguments, found %u", a->atom->text,
                      known[which].least, known[which].most, a->list.count);
  }
}

static void fp_attribute(maker *m) {
  const kiln_node *a = find_attribute(m, "fp");
  for (uint32_t i = 0; a && i < a->list.count; i++) {
    const kiln_node *n = a->list.items[i];
    bool strict = n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "strict"),
         flush = n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "ftz");
    m->instance->fp_strict |= strict;
    m->instance->fp_flush |= flush;
    if (!strict && !flush) kiln_elab_error(&m->e, n->place, "'@fp': expected strict or ftz");
  }
}

static void key_attribute(maker *m) {
  const kiln_node *a = find_attribute(m, "key");
  const char *names = "";
  for (uint32_t i = 0; a && i < a->list.count; i++) {
    const kiln_node *n = a->list.items[i];
    uint32_t j = 0;
    while (j < m->kernel->params.count &&
           !(n->kind == KILN_NODE_NAME && m->kernel->params.items[j]->atom == n->atom))
      j++;
    if (j == m->kernel->params.count)
      kiln_elab_error(&m->e, n->place, "'@key': expected the name of a parameter");
    else names = kiln_arena_format(arena_of(m), "%s%s%s", names, i ? "," : "", n->atom->text);
  }
  m->instance->tuning_key = names;
}

static void plain_attributes(maker *m) {
  int64_t v = 0;
  const kiln_node *limits = find_attribute(m, "grid_limit");
  if (integer_attribute(m, "regs", 1, MOST_REGISTERS, &v)) m->instance->max_registers = (uint16_t)v;
  m->instance->has_grid_limit = limits != NULL;
  for (uint32_t i = 0; limits && i < limits->list.count && i < 3; i++)
    if (kiln_elab_integer(&m->e, limits->list.items[i], 0, INT32_MAX, "grid_limit", &v))
      m->instance->grid_limit[i] = v;
  fp_attribute(m);
  key_attribute(m);
}

// ------------------------------------------------------------------------- configs

static bool check_config_arg(maker *m, const kiln_node *arg) {
  static const char *const words[] = {"warps", "stages", "regs", "targets"};
  if (arg->kind != KILN_NODE_NAMED)
    return kiln_elab_error(&m->e, arg->place, "'@config': expected name = value"), false;
  kiln_nearest near = kiln_nearest_to(arg->atom->text);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!strcmp(arg->atom->text, words[i])) return true;
    kiln_nearest_consider(&near, words[i]);
  }
  int at = cparam_index(m->kernel, arg->atom);
  if (at < 0)
    kiln_elab_error(&m->e, arg->place, "'@config': '%s' is no compile-time parameter%s", arg->atom->text,
                    near_cparam(m, &near));
  else if (m->kernel->cparams.items[at]->op != KILN_CPARAM_TUNE)
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
    if (config->list.items[i]->kind == KILN_NODE_NAMED && is_attribute(config->list.items[i], name))
      value = config->list.items[i]->a;
  return value;
}

static bool geometry(maker *m, const kiln_node *a, const char *name, int64_t least, int64_t most,
                     uint16_t *out) {
  const kiln_node *given = value_in(a, name), *default_of = find_attribute(m, name);
  int64_t v = *out;
  bool ok = true;
  if (!given && default_of && default_of->list.count == 1) given = default_of->list.items[0];
  if (given) ok = kiln_elab_integer(&m->e, given, least, most, name, &v);
  if (ok && given && least && v & (v - 1))
    kiln_elab_error(&m->e, given->place, "%s must be a power of two, found %lld", name, (long long)v);
  *out = (uint16_t)v;
  return ok;
}

// The kernel's own (@regs) stays where the config has none.
static void register_limit(maker *m, const kiln_node *a, uint16_t *out) {
  const kiln_node *given = value_in(a, "regs");
  int64_t v;
  if (given && kiln_elab_integer(&m->e, given, 1, MOST_REGISTERS, "regs", &v)) *out = (uint16_t)v;
}

// The processors that a config is for.
static void config_targets(maker *m, const kiln_node *a, kiln_native_config *c) {
  for (uint32_t i = 0; a && i < a->list.count; i++) {
    const kiln_node *arg = a->list.items[i];
    char list[KILN_TARGET_LIST];
    kiln_error err;
    if (arg->kind != KILN_NODE_NAMED || !is_attribute(arg, "targets")) continue;
    if (c->targets) kiln_elab_error(&m->e, arg->place, "'@config': 'targets' is there already");
    else if (arg->a->kind != KILN_NODE_STRING)
      kiln_elab_error(&m->e, arg->a->place, "'targets': expected a text such as \"sm_90a, gfx94*\"");
    else if (kiln_target_list_parse(arg->a->text, list, &err) != KILN_OK)
      kiln_elab_error(&m->e, arg->a->place, "'targets': %s", err.text);
    else c->targets = kiln_arena_text(arena_of(m), list, strlen(list));
  }
}

// ------------------------------------------------------------------ configs of @space

// @space(BLOCK = [512, 1024], warps = [4, 8]): values that tuning tries besides those of @config.
static void check_space(maker *m, const kiln_node *a) {
  for (uint32_t i = 0; i < a->list.count; i++) {
    const kiln_node *arg = a->list.items[i];
    if (arg->kind == KILN_NODE_NAMED && is_attribute(arg, "targets"))
      kiln_elab_error(&m->e, arg->place, "'@space': what a config is for stands in @config");
    else if (!check_config_arg(m, arg)) continue;
    else if (arg->a->kind != KILN_NODE_LIST || !arg->a->list.count)
      kiln_elab_error(&m->e, arg->a->place, "'@space': expected a list of values such as [512, 1024]");
    for (uint32_t j = 0; j < i; j++)
      if (a->list.items[j]->atom && a->list.items[j]->atom == arg->atom)
        kiln_elab_error(&m->e, arg->place, "'@space': '%s' is there already", arg->atom->text);
  }
}

// Grid and requirements of the config, whose values are bound.
static void launch_expressions(maker *m, kiln_native_config *c) {
  const kiln_node *grid = find_attribute(m, "grid");
  for (uint32_t i = 0; grid && i < grid->list.count && i < 3; i++) {
    const ir_param *params = m->instance->params;
    ir_place place = grid->list.items[i]->place;
    const kiln_launch_expr *x = kiln_launch_build(&m->e, m->kernel, params, grid->list.items[i], "@grid");
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
    const kiln_node *a = m->kernel->attributes.items[i];
    for (uint32_t j = 0; is_attribute(a, "require") && j < a->list.count; j++) {
      const kiln_launch_expr *x =
          kiln_launch_build(&m->e, m->kernel, m->instance->params, a->list.items[j], "@require");
      if (!x) continue;
      if (!x->is_bool) kiln_elab_error(&m->e, a->list.items[j]->place, "@require: expected a condition");
      if (x->op == KILN_EXPR_CONST && x->value) continue;
      KILN_GROW(arena_of(m), c->require, c->require_count, capacity);
      c->require[c->require_count++] = x;
    }
  }
}

/// What the config costs, in units of the kernel's own.
static void cost_expression(maker *m, kiln_native_config *c) {
  const kiln_node *a = find_attribute(m, "cost");
  if (!a || a->list.count != 1) return;
  c->cost = kiln_launch_build(&m->e, m->kernel, m->instance->params, a->list.items[0], "@cost");
  if (c->cost && (c->cost->is_bool || kiln_launch_has_pointer(c->cost, m->instance->params)))
    kiln_elab_error(&m->e, a->list.items[0]->place, "@cost: expected an integer, found %s",
                    c->cost->is_bool ? "a condition" : "a pointer");
}

static bool never_holds(const kiln_native_config *c) {
  for (uint32_t i = 0; i < c->require_count; i++)
    if (c->require[i]->op == KILN_EXPR_CONST && !c->require[i]->value) return true;
  return false;
}

static const char *config_text(maker *m, const kiln_native_config *c) {
  kiln_buffer b = {0};
  for (uint32_t i = 0; i < m->kernel->cparams.count; i++)
    if (m->kernel->cparams.items[i]->op == KILN_CPARAM_TUNE)
      kiln_buffer_format(&b, "%s=%s,", m->kernel->cparams.items[i]->atom->text,
                         value_text(arena_of(m), c->values[i]));
  kiln_buffer_format(&b, "warps=%u", c->warps);
  if (c->stages) kiln_buffer_format(&b, ",stages=%u", c->stages);
  if (c->registers != m->instance->max_registers) kiln_buffer_format(&b, ",regs=%u", c->registers);
  if (c->targets) kiln_buffer_format(&b, ",targets=%s", c->targets);
  const char *text = kiln_arena_text(arena_of(m), (const char *)b.bytes, b.size);
  kiln_buffer_deinit(&b);
  return text;
}

// One config; `a` is NULL for the default one. False: it can never be used, or has errors.
static bool make_config(maker *m, const kiln_node *a, kiln_native_config *c) {
  uint32_t errors = m->e.d->errors;
  kiln_binding *top;
  bool ok = true;
  *c = (kiln_native_config){.warps = 4, .registers = m->instance->max_registers};
  for (uint32_t i = 0; a && i < a->list.count; i++) ok &= check_config_arg(m, a->list.items[i]);
  c->values = KILN_NEW_ARRAY(arena_of(m), kiln_value, m->kernel->cparams.count);
  if (!ok || !compile_time_values(m, a ? a->list : (kiln_list){0}, m->instance->values, c->values))
    return false;
  uint32_t scope = kiln_elab_open_scope(&m->e, &top);
  kiln_native_bind(&m->e, m->kernel, c->values, true);
  geometry(m, a, "warps", 1, MOST_WARPS, &c->warps);
  geometry(m, a, "stages", 0, KILN_MOST_STAGES, &c->stages);
  register_limit(m, a, &c->registers);
  config_targets(m, a, c);
  launch_expressions(m, c);
  cost_expression(m, c);
  kiln_elab_close_scope(&m->e, top, scope);
  return m->e.d->errors == errors && !never_holds(c);
}

static kiln_span *encode_all(maker *m, const kiln_launch_expr *const *items, uint32_t count) {
  kiln_span *spans = KILN_NEW_ARRAY(arena_of(m), kiln_span, count);
  for (uint32_t i = 0; i < count; i++) spans[i] = kiln_launch_encode(arena_of(m), items[i]);
  return spans;
}

static void add_config(maker *m, const kiln_node *a, const kiln_native_config *c, uint32_t *capacity) {
  kiln_native_instance *in = m->instance;
  kiln_interface *f = &in->interface;
  const char *text = config_text(m, c);
  for (uint32_t i = 0; i < f->config_count; i++) {
    if (strcmp(f->configs[i].text, text)) continue;
    if (a) kiln_elab_error(&m->e, a->place, "'@config' is there already: %s", text);
    return; // one that was generated may be written already
  }
  uint32_t count = f->config_count, again = *capacity;
  KILN_GROW(arena_of(m), in->configs, count, again);
  KILN_GROW(arena_of(m), f->configs, count, *capacity);
  in->configs[count] = *c;
  kiln_config_record *r = &f->configs[f->config_count++];
  *r = (kiln_config_record){.text = text,
                            .warps = c->warps,
                            .stages = c->stages,
                            .require_count = c->require_count,
                            .require = encode_all(m, c->require, c->require_count)};
  if (c->cost) r->cost = kiln_launch_encode(arena_of(m), c->cost);
  for (uint32_t i = 0; i < 3; i++)
    if (c->grid[i]) r->grid[i] = kiln_launch_encode(arena_of(m), c->grid[i]);
  // Without @grid one program runs. It is stated: an interface without any extent leaves the grid to the
  // launcher.
  static const kiln_launch_expr one = {.op = KILN_EXPR_CONST, .value = 1};
  if (!c->grid[0]) r->grid[0] = kiln_launch_encode(arena_of(m), &one);
}

static bool is_for(const kiln_native_config *c, const kiln_processor *processor) {
  return !c->targets || kiln_target_list_has(c->targets, processor);
}

// At launch the first config that holds is taken, so none after one that always holds is reached: of those
// for the processor. Where configs have costs each may be the cheapest.
static bool is_reached(const kiln_native_instance *in, uint32_t before, const kiln_native_config *c,
                       const kiln_processor *processor) {
  for (uint32_t i = 0; i < before; i++)
    if (!in->configs[i].require_count && !in->configs[i].cost && is_for(&in->configs[i], processor))
      return false;
  return is_for(c, processor);
}

bool kiln_native_has_config(const kiln_native_unit *unit, const kiln_native_instance *in, uint32_t config,
                            const kiln_processor *processor) {
  return unit->all_configs ? is_for(&in->configs[config], processor)
                           : is_reached(in, config, &in->configs[config], processor);
}

/// Some processor reaches a config behind those that are there. Of the one that this program runs on only the
/// table's row is asked: the interface says the same on all machines.
static bool is_reached_anywhere(const kiln_native_instance *in, const kiln_native_config *c) {
  for (size_t i = 0; i < kiln_processor_count(); i++)
    if (is_reached(in, in->interface.config_count, c, kiln_processor_at(i))) return true;
  return false;
}

// The config `base` (NULL: that of the defaults) with the values of @space that `chosen` numbers.
static kiln_node varied(maker *m, const kiln_node *base, const kiln_node *ranges, const uint32_t *chosen) {
  kiln_node out = {.kind = KILN_NODE_ATTRIBUTE, .place = ranges->place, .atom = ranges->atom};
  uint32_t others = base ? base->list.count : 0, count = ranges->list.count;
  out.list.items = KILN_NEW_ARRAY(arena_of(m), kiln_node *, others + count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_node *range = ranges->list.items[i];
    kiln_node *arg = out.list.items[out.list.count++] = KILN_NEW(arena_of(m), kiln_node);
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
static void generate_configs(maker *m, const kiln_node *ranges, const kiln_node *base, uint32_t *capacity) {
  uint32_t count = ranges->list.count, *chosen = KILN_NEW_ARRAY(arena_of(m), uint32_t, count), at;
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

static void generate_all(maker *m, const kiln_node *ranges, uint32_t *capacity) {
  bool any = false;
  uint32_t errors = m->e.d->errors;
  for (uint32_t i = 0; i < m->kernel->attributes.count && m->e.d->errors == errors; i++) {
    if (!is_attribute(m->kernel->attributes.items[i], "config")) continue;
    any = true;
    generate_configs(m, ranges, m->kernel->attributes.items[i], capacity);
  }
  if (!any) generate_configs(m, ranges, NULL, capacity);
}

static void make_configs(maker *m) {
  uint32_t written = 0, capacity = 0, errors = m->e.d->errors;
  kiln_native_config c;
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    if (is_attribute(m->kernel->attributes.items[i], "space")) check_space(m, m->kernel->attributes.items[i]);
  for (uint32_t i = 0; i < m->kernel->attributes.count && m->instance->interface.config_count < MOST_CONFIGS;
       i++) {
    const kiln_node *a = m->kernel->attributes.items[i];
    if (!is_attribute(a, "config")) continue;
    written++;
    if (!make_config(m, a, &c) || !(m->unit->all_configs || is_reached_anywhere(m->instance, &c))) continue;
    add_config(m, a, &c, &capacity);
  }
  if (!written && make_config(m, NULL, &c)) add_config(m, NULL, &c, &capacity);
  for (uint32_t i = 0; m->unit->with_ranges && i < m->kernel->attributes.count; i++) // each on its own
    if (is_attribute(m->kernel->attributes.items[i], "space") && m->e.d->errors == errors)
      generate_all(m, m->kernel->attributes.items[i], &capacity);
  if (!m->instance->interface.config_count && m->e.d->errors == errors)
    kiln_elab_error(&m->e, m->kernel->place, "kernel '%s' has no config whose @require can hold",
                    m->kernel->atom->text);
}

// ------------------------------------------------------------------------ variants

static void make_variant(maker *m, const kiln_node *a, kiln_native_variant *v) {
  *v = (kiln_native_variant){
      .conditions = KILN_NEW_ARRAY(arena_of(m), const kiln_launch_expr *, a->list.count), .place = a->place};
  for (uint32_t i = 0; i < a->list.count; i++) {
    const kiln_launch_expr *x =
        kiln_launch_build(&m->e, m->kernel, m->instance->params, a->list.items[i], "@variant");
    if (!x) continue;
    if (!x->is_bool) kiln_elab_error(&m->e, a->list.items[i]->place, "@variant: expected a condition");
    if (x->op == KILN_EXPR_CONST)
      kiln_elab_error(&m->e, a->list.items[i]->place, "@variant: the condition is always %s",
                      x->value ? "true" : "false");
    v->conditions[v->count++] = x;
  }
}

// Every call that fits `later` fits `earlier`, which is tried first.
static bool shadows(const kiln_native_variant *earlier, const kiln_native_variant *later) {
  for (uint32_t i = 0; i < earlier->count; i++) {
    uint32_t j = 0;
    while (j < later->count && !kiln_launch_implies(later->conditions[j], earlier->conditions[i])) j++;
    if (j == later->count) return false;
  }
  return true;
}

static const char **param_names(maker *m) {
  uint32_t count = m->kernel->params.count;
  const char **names = KILN_NEW_ARRAY(arena_of(m), const char *, count);
  for (uint32_t i = 0; i < count; i++) names[i] = m->instance->params[i].name;
  return names;
}

static const char *variant_text(maker *m, const kiln_native_variant *v, const kiln_span *spans) {
  kiln_buffer b = {0};
  uint32_t count = m->kernel->params.count;
  const char **names = param_names(m);
  char text[512];
  for (uint32_t i = 0; i < v->count; i++)
    kiln_buffer_format(&b, "%s%s", i ? ", " : "",
                       kiln_expr_text(spans[i].bytes, spans[i].size, names, count, text, sizeof text));
  const char *out = kiln_arena_text(arena_of(m), (const char *)b.bytes, b.size);
  kiln_buffer_deinit(&b);
  return out;
}

static void make_variants(maker *m) {
  kiln_native_instance *in = m->instance;
  kiln_interface *f = &in->interface;
  uint32_t count = 0, written = 0;
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    written += is_attribute(m->kernel->attributes.items[i], "variant");
  if (written > MOST_VARIANTS) {
    kiln_elab_error(&m->e, m->kernel->place, "%u variants, the limit is %d", written, MOST_VARIANTS);
    written = 0;
  }
  in->variants = KILN_NEW_ARRAY(arena_of(m), kiln_native_variant, written + 1);
  f->variants = KILN_NEW_ARRAY(arena_of(m), kiln_variant_record, written + 1);
  for (uint32_t i = 0; written && i < m->kernel->attributes.count; i++) {
    if (!is_attribute(m->kernel->attributes.items[i], "variant")) continue;
    kiln_native_variant *v = &in->variants[count];
    make_variant(m, m->kernel->attributes.items[i], v);
    for (uint32_t j = 0; v->count && j < count; j++)
      if (shadows(&in->variants[j], v))
        kiln_elab_error(&m->e, v->place,
                        "this variant is never reached: the one at line %u fits whenever it does",
                        in->variants[j].place.line);
    if (v->count == m->kernel->attributes.items[i]->list.count &&
        !kiln_launch_can_hold(arena_of(m), v->conditions, v->count, in->params, f->param_count))
      kiln_elab_error(&m->e, v->place, "this variant is never reached: no call fulfils its conditions");
    kiln_span *spans = encode_all(m, v->conditions, v->count);
    f->variants[count++] = (kiln_variant_record){
        .text = variant_text(m, v, spans), .conditions = spans, .condition_count = v->count};
  }
  f->variants[count] = (kiln_variant_record){.text = ""};
  f->variant_count = count + 1;
}

/// Every call that fulfils the config's requirements fits the variant.
static bool always_fits(const kiln_native_config *c, const kiln_native_variant *v) {
  for (uint32_t i = 0; i < v->count; i++) {
    uint32_t j = 0;
    while (j < c->require_count && !kiln_launch_implies(c->require[j], v->conditions[i])) j++;
    if (j == c->require_count) return false;
  }
  return true;
}

bool kiln_native_has_variant(const kiln_native_unit *unit, const kiln_native_instance *in, uint32_t config,
                             uint32_t variant) {
  for (uint32_t i = 0; !unit->all_configs && i < variant; i++)
    if (always_fits(&in->configs[config], &in->variants[i])) return false;
  return true;
}

// --------------------------------------------------------- what callers may allocate and differentiate

// The parameter that `n`, "y[rows, cols]", names, if a caller may allocate it; -1 after an error.
static int returned_param(maker *m, const kiln_node *n) {
  const ir_param *params = m->instance->params;
  if (n->kind != KILN_NODE_INDEX || n->a->kind != KILN_NODE_NAME)
    return kiln_elab_error(&m->e, n->place,
                           "'@returns': expected a parameter and its extents, as in y[rows, cols]"),
           -1;
  uint32_t i = 0;
  while (i < m->kernel->params.count && m->kernel->params.items[i]->atom != n->a->atom) i++;
  if (i == m->kernel->params.count)
    return kiln_elab_error(&m->e, n->place, "'@returns': there is no parameter '%s'", n->a->atom->text), -1;
  bool is_written = params[i].access == IR_ACCESS_OUT || params[i].access == IR_ACCESS_ACCUM;
  if (!is_written || (!params[i].type.is_view && params[i].type.pointer != 1))
    return kiln_elab_error(&m->e, n->place,
                           "'@returns': expected a parameter that is out or accum, which '%s' is not",
                           n->a->atom->text),
           -1;
  if (params[i].type.is_view && params[i].type.rank != n->list.count)
    return kiln_elab_error(&m->e, n->place, "'@returns': '%s' has %u axes, found %u extents",
                           n->a->atom->text, params[i].type.rank, n->list.count),
           -1;
  return (int)i;
}

static void returned_extents(maker *m, const kiln_node *n, const char *const *names, kiln_buffer *out) {
  for (uint32_t i = 0; i < n->list.count; i++) {
    const ir_param *params = m->instance->params;
    const kiln_launch_expr *x = kiln_launch_build(&m->e, m->kernel, params, n->list.items[i], "@returns");
    char text[512];
    if (!x) continue;
    if (x->is_bool || kiln_launch_has_pointer(x, params))
      kiln_elab_error(&m->e, n->list.items[i]->place, "@returns: expected integers");
    kiln_span code = kiln_launch_encode(arena_of(m), x);
    kiln_buffer_format(
        out, "%s%s", i ? ", " : "",
        kiln_expr_text(code.bytes, code.size, names, m->kernel->params.count, text, sizeof text));
  }
}

static void make_statements(maker *m) {
  const kiln_node *returns = find_attribute(m, "returns"), *backward = find_attribute(m, "backward");
  const char **names = param_names(m);
  kiln_buffer text = {0};
  uint64_t seen = 0;
  for (uint32_t i = 0; returns && i < returns->list.count; i++) {
    const kiln_node *n = returns->list.items[i];
    int at = returned_param(m, n);
    if (at < 0) continue;
    if (at < 64 && seen >> at & 1)
      kiln_elab_error(&m->e, n->place, "'@returns': '%s' is there already", n->a->atom->text);
    seen |= at < 64 ? (uint64_t)1 << at : 0;
    kiln_buffer_format(&text, "%s%s[", text.size ? ", " : "", names[at]);
    returned_extents(m, n, names, &text);
    kiln_buffer_format(&text, "]");
  }
  if (text.size)
    m->instance->interface.returns = kiln_arena_text(arena_of(m), (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
  if (!backward || !backward->list.count) return;
  const kiln_node *name = backward->list.items[0];
  if (name->kind == KILN_NODE_NAME) m->instance->interface.backward = name->atom->text;
  else kiln_elab_error(&m->e, name->place, "'@backward': expected the name of a kernel");
}

// ----------------------------------------------------------------------- instances

static bool check_instance_args(maker *m, kiln_list args) {
  bool ok = true;
  for (uint32_t i = 0; i < args.count; i++) {
    const kiln_node *arg = args.items[i];
    bool named = arg->kind == KILN_NODE_NAMED;
    int at = named ? cparam_index(m->kernel, arg->atom) : -1;
    kiln_nearest near = kiln_nearest_to(named ? arg->atom->text : "");
    if (!named) kiln_elab_error(&m->e, arg->place, "an instance: expected name = value");
    else if (at < 0)
      kiln_elab_error(&m->e, arg->place, "kernel '%s' has no compile-time parameter '%s'%s",
                      m->kernel->atom->text, arg->atom->text, near_cparam(m, &near));
    else if (m->kernel->cparams.items[at]->op == KILN_CPARAM_TUNE)
      kiln_elab_error(&m->e, arg->place, "'%s' is to be tuned and is set by @config", arg->atom->text);
    else continue;
    ok = false;
  }
  return ok;
}

// One instance of the kernel with the values `args`. `may_repeat`: one that is there already is left out in
// silence.
static void make_instance(maker *m, kiln_list args, ir_place place, bool may_repeat) {
  kiln_native_unit *u = m->unit;
  kiln_native_instance in = {.kernel = m->kernel};
  kiln_binding *top;
  if (!check_instance_args(m, args)) return;
  m->instance = &in;
  in.values = KILN_NEW_ARRAY(arena_of(m), kiln_value, m->kernel->cparams.count);
  if (!compile_time_values(m, args, NULL, in.values)) return;
  name_instance(m);
  kiln_atom *symbol = kiln_atoms_get(&m->symbols, in.interface.symbol, strlen(in.interface.symbol));
  if (symbol->mark) {
    const kiln_interface *other = &u->instances[symbol->mark - 1].interface;
    bool same = !strcmp(other->name, in.interface.name);
    if (same && may_repeat) return;
    if (same) kiln_elab_error(&m->e, place, "instance %s is there already", in.interface.name);
    else
      kiln_elab_error(&m->e, place, "instances %s and %s have one C name, %s", other->name, in.interface.name,
                      in.interface.symbol);
    return;
  }
  symbol->mark = u->count + 1;
  uint32_t scope = kiln_elab_open_scope(&m->e, &top);
  kiln_native_bind(&m->e, m->kernel, in.values, false);
  make_params(m);
  plain_attributes(m);
  make_variants(m);
  make_statements(m);
  kiln_elab_close_scope(&m->e, top, scope);
  make_configs(m);
  KILN_GROW(arena_of(m), u->instances, u->count, u->capacity);
  u->instances[u->count++] = in;
}

static void kernel_instances(maker *m) {
  uint32_t written = 0;
  check_attributes(m);
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++) {
    const kiln_node *a = m->kernel->attributes.items[i];
    if (!is_attribute(a, "instance")) continue;
    written++;
    make_instance(m, a->list, a->place, false);
  }
  if (!written) make_instance(m, (kiln_list){0}, m->kernel->place, false);
}

static void option_instance(maker *m, const char *text, kiln_diagnostics *d) {
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

// Constants that nothing uses yet have their errors reported too.
static void check_constants(maker *m) {
  m->e.is_check = true;
  for (uint32_t i = 0; i < m->unit->module->item_count; i++) {
    const kiln_item *item = m->unit->module->items[i];
    kiln_node name = {.kind = KILN_NODE_NAME, .place = item->place, .atom = item->atom};
    if (item->kind == KILN_ITEM_CONST) kiln_elab_name(&m->e, &name);
  }
  m->e.is_check = false;
  m->unit->module->epoch++; // what was passed over is no value to keep
}

void kiln_native_instances(kiln_native_unit *unit, const kiln_front_options *options, kiln_diagnostics *d) {
  maker m = {.unit = unit};
  kiln_atoms_init(&m.symbols, unit->unit.arena);
  kiln_elab_init(&m.e, unit->unit.arena, unit->module, d, NULL);
  m.e.library = unit->library;
  check_constants(&m);
  for (uint32_t i = 0; i < unit->module->item_count; i++) {
    m.kernel = unit->module->items[i];
    if (m.kernel->kind == KILN_ITEM_KERNEL && !m.kernel->broken) kernel_instances(&m);
  }
  for (size_t i = 0; i < options->instance_count; i++) option_instance(&m, options->instances[i], d);
}
