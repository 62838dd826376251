// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the head of a kernel says of an instance: attributes (which there are, those that are plain values, what callers may
// allocate and differentiate), parameters with the facts that theirs promise, and variants: the conditions of a call
// under which better code runs.
#include <string.h>

#include "compiler/front/instance.h"
#include "compiler/front/launch_expr.h"

// ------------------------------------------------------------------------------------------------ attributes

bool kiln_is_kernel(const kiln_item *item) { return item->kind == KILN_ITEM_KERNEL && !item->broken; }

bool kiln_is_attribute(const kiln_node *a, const char *name) { return !strcmp(a->atom->text, name); }

// The one attribute `name` of the kernel, or NULL.
const kiln_node *kiln_find_attribute(const kiln_maker *m, const char *name) {
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    if (kiln_is_attribute(m->kernel->attributes.items[i], name)) return m->kernel->attributes.items[i];
  return NULL;
}

void kiln_check_attributes(kiln_maker *m) {
  static const struct {
    const char *name;
    bool repeats;
    uint8_t least, most;
  } known[] = {{"grid", false, 1, 3},     {"config", true, 0, 255},    {"instance", true, 1, 255},
               {"variant", true, 1, 32},  {"require", true, 1, 32},    {"warps", false, 1, 1},
               {"stages", false, 1, 1},   {"regs", false, 1, 1},       {"key", false, 1, 255},
               {"fp", false, 1, 2},       {"grid_limit", false, 3, 3}, {"space", true, 1, 255},
               {"returns", false, 1, 26}, {"backward", false, 1, 1},   {"cost", false, 1, 1},
               {"configs", false, 1, 1}};
  enum { KNOWN = sizeof known / sizeof *known };
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++) {
    const kiln_node *a = m->kernel->attributes.items[i];
    size_t which = 0;
    while (which < KNOWN && !kiln_is_attribute(a, known[which].name)) which++;
    if (which == KNOWN)
      kiln_elab_unknown_attribute(&m->e, a, "kernel",
                                  "@grid @config @instance @variant @require @cost @configs @warps @stages "
                                  "@regs @key @space @fp @returns @backward");
    else if (!known[which].repeats && kiln_find_attribute(m, a->atom->text) != a)
      kiln_elab_error(&m->e, a->place, "'@%s' is there already, at line %u", a->atom->text,
                      kiln_find_attribute(m, a->atom->text)->place.line);
    else if (a->list.count < known[which].least || a->list.count > known[which].most)
      kiln_elab_error(&m->e, a->place, "'@%s' takes %u to %u arguments, found %u", a->atom->text,
                      known[which].least, known[which].most, a->list.count);
  }
}

// The kernel that `a`, "@configs(K)", names, if it states configs; NULL after an error.
static const kiln_item *stating(kiln_maker *m, const kiln_node *a) {
  const kiln_node *n = a->list.count == 1 ? a->list.items[0] : NULL;
  const kiln_item *other = n && n->kind == KILN_NODE_NAME ? n->atom->item : NULL;
  uint32_t count = 0;
  bool borrows = false;
  if (other && other->broken) return NULL; // has its errors
  for (uint32_t i = 0; other && kiln_is_kernel(other) && i < other->attributes.count; i++) {
    count += kiln_is_attribute(other->attributes.items[i], "config");
    borrows |= kiln_is_attribute(other->attributes.items[i], "configs");
  }
  if (count && !borrows) return other;
  kiln_elab_error(&m->e, n ? n->place : a->place,
                  "'@configs': expected a kernel that states its own configs");
  return NULL;
}

void kiln_share_configs(kiln_maker *m, kiln_item *kernel) {
  kiln_list all = {0};
  uint32_t capacity = 0;
  for (uint32_t i = 0; i < kernel->attributes.count; i++) {
    kiln_node *a = kernel->attributes.items[i];
    const kiln_item *other = kiln_is_attribute(a, "configs") ? stating(m, a) : NULL;
    for (uint32_t j = 0; other && j < other->attributes.count; j++) {
      if (!kiln_is_attribute(other->attributes.items[j], "config")) continue;
      KILN_GROW(kiln_maker_arena(m), all.items, all.count, capacity);
      all.items[all.count++] = other->attributes.items[j];
    }
    KILN_GROW(kiln_maker_arena(m), all.items, all.count, capacity);
    all.items[all.count++] = a; // it stays: whose configs are taken over states none of its own
  }
  kernel->attributes = all;
}

void kiln_plain_attributes(kiln_maker *m) {
  int64_t v = 0;
  const kiln_node *regs = kiln_find_attribute(m, "regs"), *limits = kiln_find_attribute(m, "grid_limit");
  if (regs && regs->list.count != 1)
    kiln_elab_error(&m->e, regs->place, "'@regs' takes 1 argument, found %u", regs->list.count);
  else if (regs && kiln_elab_integer(&m->e, regs->list.items[0], 1, KILN_MOST_REGISTERS, "regs", &v))
    m->instance->max_registers = (uint16_t)v;
  m->instance->has_grid_limit = limits != NULL;
  for (uint32_t i = 0; limits && i < limits->list.count && i < 3; i++)
    if (kiln_elab_integer(&m->e, limits->list.items[i], 0, INT32_MAX, "grid_limit", &v))
      m->instance->grid_limit[i] = v;
  const kiln_node *fp = kiln_find_attribute(m, "fp");
  for (uint32_t i = 0; fp && i < fp->list.count; i++) {
    const kiln_node *n = fp->list.items[i];
    bool strict = n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "strict"),
         flush = n->kind == KILN_NODE_NAME && !strcmp(n->atom->text, "ftz");
    m->instance->fp_strict |= strict;
    m->instance->fp_flush |= flush;
    if (!strict && !flush) kiln_elab_error(&m->e, n->place, "'@fp': expected strict or ftz");
  }
  const kiln_node *key = kiln_find_attribute(m, "key");
  const char *names = "";
  for (uint32_t i = 0; key && i < key->list.count; i++) {
    const kiln_node *n = key->list.items[i];
    uint32_t j = 0;
    while (j < m->kernel->params.count &&
           !(n->kind == KILN_NODE_NAME && m->kernel->params.items[j]->atom == n->atom))
      j++;
    if (j == m->kernel->params.count)
      kiln_elab_error(&m->e, n->place, "'@key': expected the name of a parameter");
    else names = kiln_arena_format(kiln_maker_arena(m), "%s%s%s", names, i ? "," : "", n->atom->text);
  }
  m->instance->tuning_key = names;
}

// --------------------------------------------------------- what callers may allocate and differentiate

// The parameter that `n`, "y[rows, cols]", names, if a caller may allocate it; -1 after an error.
static int returned_param(kiln_maker *m, const kiln_node *n) {
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

static void returned_extents(kiln_maker *m, const kiln_node *n, const char *const *names, kiln_buffer *out) {
  for (uint32_t i = 0; i < n->list.count; i++) {
    const ir_param *params = m->instance->params;
    const kiln_launch_expr *x =
        kiln_launch_build(&m->e, m->kernel, params, NULL, n->list.items[i], "@returns");
    char text[512];
    if (!x) continue;
    if (x->is_bool || kiln_launch_has_pointer(x, params))
      kiln_elab_error(&m->e, n->list.items[i]->place, "@returns: expected integers");
    kiln_span code = kiln_launch_encode(kiln_maker_arena(m), x);
    kiln_buffer_format(
        out, "%s%s", i ? ", " : "",
        kiln_expr_text(code.bytes, code.size, names, m->kernel->params.count, text, sizeof text));
  }
}

void kiln_make_statements(kiln_maker *m) {
  const kiln_node *returns = kiln_find_attribute(m, "returns"),
                  *backward = kiln_find_attribute(m, "backward");
  const char **names = kiln_param_names(m);
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
    m->instance->interface.returns =
        kiln_arena_text(kiln_maker_arena(m), (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
  if (!backward || !backward->list.count) return;
  const kiln_node *name = backward->list.items[0];
  if (name->kind == KILN_NODE_NAME) m->instance->interface.backward = name->atom->text;
  else kiln_elab_error(&m->e, name->place, "'@backward': expected the name of a kernel");
}

// ------------------------------------------------------------------------------------------------ parameters

typedef void taker(kiln_maker *m, const kiln_node *a, ir_param *p);

/// @align and @rows: bytes, a power of two. 0 after an error.
static void take_bytes(kiln_maker *m, const kiln_node *a, ir_param *p) {
  enum { MOST = 1 << 20 };
  const bool is_rows = !strcmp(a->atom->text, "rows");
  uint32_t *bytes = is_rows ? &p->rows : &p->align;
  int64_t v;
  *bytes = 0;
  if (!kiln_elab_integer(&m->e, a->list.items[0], 1, MOST, a->atom->text, &v)) return;
  if (v & (v - 1)) {
    kiln_elab_error(&m->e, a->place, "'@%s' takes a power of two, found %lld", a->atom->text, (long long)v);
    return;
  }
  *bytes = (uint32_t)v;
  if (is_rows && *bytes < kiln_scalars[p->type.scalar].bytes)
    kiln_elab_error(&m->e, a->place, "'@rows': expected the bytes of an element of %s or more, found %u",
                    kiln_scalars[p->type.scalar].spelling, *bytes);
}

static void take_div(kiln_maker *m, const kiln_node *a, ir_param *p) {
  int64_t v;
  if (kiln_elab_divisor(&m->e, a->list.items[0], p->type, "'@div'", &v)) p->div = v;
}

static void take_range(kiln_maker *m, const kiln_node *a, ir_param *p) {
  char text[IR_TYPE_TEXT];
  unsigned width = ir_type_bits(p->type);
  int64_t v[2], most = width < 64 ? (INT64_C(1) << (width - 1)) - 1 : INT64_MAX;
  for (unsigned i = 0; i < 2; i++)
    if (!kiln_elab_integer(&m->e, a->list.items[i], INT64_MIN, INT64_MAX, "range", &v[i])) return;
  if (v[0] > v[1])
    kiln_elab_error(&m->e, a->place, "'@range' is empty: %lld is above %lld", (long long)v[0],
                    (long long)v[1]);
  bool is_upper = v[0] >= -most - 1;
  if (!is_upper || v[1] > most)
    kiln_elab_error(&m->e, a->list.items[is_upper]->place,
                    "'@range': expected numbers of %s, from %lld to %lld, found %lld",
                    ir_type_text(p->type, text), (long long)(-most - 1), (long long)most,
                    (long long)v[is_upper]);
  p->has_range = true, p->lo = v[0], p->hi = v[1];
}

static void take_noalias(kiln_maker *m, const kiln_node *a, ir_param *p) {
  (void)m, (void)a;
  p->noalias = true;
}

static void take_within(kiln_maker *m, const kiln_node *a, ir_param *p) {
  (void)m, (void)a;
  p->within = true;
}

// It may read parameters that come later: make_sizes takes it when all are known.
static void take_size(kiln_maker *m, const kiln_node *a, ir_param *p) { (void)m, (void)a, (void)p; }

/// An attribute, how many arguments it takes, and what has it.
static const struct attribute {
  const char *name;
  uint8_t args, pointers, views, integers;
  taker *take;
} attributes[] = {{"align", 1, 1, 1, 0, take_bytes},     {"rows", 1, 0, 1, 0, take_bytes},
                  {"div", 1, 0, 0, 1, take_div},         {"range", 2, 0, 0, 1, take_range},
                  {"noalias", 0, 1, 1, 0, take_noalias}, {"within", 0, 1, 0, 0, take_within},
                  {"size", 1, 1, 0, 0, take_size}};

static const char *owners_of(const struct attribute *of) {
  if (of->integers) return "integer";
  return of->views && of->pointers ? "pointer and view" : of->views ? "view" : "pointer";
}

static void param_attribute(kiln_maker *m, const kiln_node *a, ir_param *p) {
  enum { KNOWN = sizeof attributes / sizeof *attributes };
  size_t which = 0;
  bool is_integer = !p->type.pointer && !p->type.is_view && ir_type_class(p->type) == KILN_CLASS_INT;
  while (which < KNOWN && strcmp(attributes[which].name, a->atom->text)) which++;
  if (which == KNOWN) {
    kiln_elab_unknown_attribute(&m->e, a, "parameter",
                                "@align(n) @rows(n) @div(n) @range(lo, hi) @noalias @within @size(n)");
    return;
  }
  const struct attribute *of = &attributes[which];
  if (!(of->pointers && p->type.pointer) && !(of->views && p->type.is_view) &&
      !(of->integers && is_integer)) {
    bool is_view_size = of->take == take_size && p->type.is_view;
    kiln_elab_error(&m->e, a->place, "'@%s' is for %s parameters, '%s' is none%s", of->name, owners_of(of),
                    p->name, is_view_size ? "; what a view needs follows from its extents and strides" : "");
    return;
  }
  if (a->list.count != of->args) {
    kiln_elab_error(&m->e, a->place, "'@%s' takes %u argument%s, found %u", of->name, of->args,
                    of->args == 1 ? "" : "s", a->list.count);
    return;
  }
  of->take(m, a, p);
}

static void make_param(kiln_maker *m, const kiln_node *n, ir_param *p) {
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

static void make_size(kiln_maker *m, const kiln_node *n, kiln_param_record *out) {
  const ir_param *params = m->instance->params;
  const kiln_launch_expr *x = kiln_launch_build(&m->e, m->kernel, params, NULL, n, "@size");
  int64_t lo, hi;
  if (!x) return;
  if (x->is_bool || kiln_launch_has_pointer(x, params))
    kiln_elab_error(&m->e, n->place, "@size: expected a number of elements, found %s",
                    x->is_bool ? "a condition" : "a pointer");
  else if (kiln_launch_range(x, params, &lo, &hi) && hi < 0)
    kiln_elab_error(&m->e, n->place, "@size: expected a number of elements, found %lld at most",
                    (long long)hi);
  else out->needs = kiln_launch_encode(kiln_maker_arena(m), x);
}

void kiln_make_params(kiln_maker *m) {
  uint32_t count = m->kernel->params.count;
  kiln_interface *f = &m->instance->interface;
  ir_param *params = m->instance->params = KILN_NEW_ARRAY(kiln_maker_arena(m), ir_param, count);
  f->params = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_param_record, count);
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
                                       .rows = p->rows,
                                       .div = p->div,
                                       .lo = p->lo,
                                       .hi = p->hi};
  }
  kiln_layout_params(f);
  // What a pointer's memory holds, in elements.
  for (uint32_t i = 0; !m->instance->is_untyped && i < m->kernel->params.count; i++) {
    const kiln_list own = m->kernel->params.items[i]->names;
    if (m->instance->params[i].type.pointer)
      for (uint32_t j = 0; j < own.count; j++)
        if (kiln_is_attribute(own.items[j], "size") && own.items[j]->list.count == 1)
          make_size(m, own.items[j]->list.items[0], &m->instance->interface.params[i]);
  }
}

// -------------------------------------------------------------------------------------------------- variants

enum { MOST_VARIANTS = 64 };

kiln_span *kiln_encode_conditions(kiln_maker *m, const kiln_launch_expr *const *items, uint32_t count) {
  kiln_span *spans = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_span, count);
  for (uint32_t i = 0; i < count; i++) spans[i] = kiln_launch_encode(kiln_maker_arena(m), items[i]);
  return spans;
}

static void make_variant(kiln_maker *m, const kiln_node *a, kiln_native_variant *v) {
  *v = (kiln_native_variant){.conditions =
                                 KILN_NEW_ARRAY(kiln_maker_arena(m), const kiln_launch_expr *, a->list.count),
                             .place = a->place};
  for (uint32_t i = 0; i < a->list.count; i++) {
    const kiln_launch_expr *x =
        kiln_launch_build(&m->e, m->kernel, m->instance->params, NULL, a->list.items[i], "@variant");
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

const char **kiln_param_names(kiln_maker *m) {
  uint32_t count = m->kernel->params.count;
  const char **names = KILN_NEW_ARRAY(kiln_maker_arena(m), const char *, count);
  for (uint32_t i = 0; i < count; i++) names[i] = m->instance->params[i].name;
  return names;
}

static const char *variant_text(kiln_maker *m, const kiln_native_variant *v, const kiln_span *spans) {
  kiln_buffer b = {0};
  uint32_t count = m->kernel->params.count;
  const char **names = kiln_param_names(m);
  char text[512];
  for (uint32_t i = 0; i < v->count; i++)
    kiln_buffer_format(&b, "%s%s", i ? ", " : "",
                       kiln_expr_text(spans[i].bytes, spans[i].size, names, count, text, sizeof text));
  const char *out = kiln_arena_text(kiln_maker_arena(m), (const char *)b.bytes, b.size);
  kiln_buffer_deinit(&b);
  return out;
}

void kiln_make_variants(kiln_maker *m) {
  kiln_native_instance *in = m->instance;
  kiln_interface *f = &in->interface;
  uint32_t count = 0, written = 0;
  for (uint32_t i = 0; i < m->kernel->attributes.count; i++)
    written += kiln_is_attribute(m->kernel->attributes.items[i], "variant");
  if (written > MOST_VARIANTS) {
    kiln_elab_error(&m->e, m->kernel->place, "%u variants, the limit is %d", written, MOST_VARIANTS);
    written = 0;
  }
  in->variants = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_native_variant, written + 1);
  f->variants = KILN_NEW_ARRAY(kiln_maker_arena(m), kiln_variant_record, written + 1);
  for (uint32_t i = 0; written && i < m->kernel->attributes.count; i++) {
    if (!kiln_is_attribute(m->kernel->attributes.items[i], "variant")) continue;
    kiln_native_variant *v = &in->variants[count];
    make_variant(m, m->kernel->attributes.items[i], v);
    for (uint32_t j = 0; v->count && j < count; j++)
      if (shadows(&in->variants[j], v))
        kiln_elab_error(&m->e, v->place,
                        "this variant is never reached: the one at line %u fits whenever it does",
                        in->variants[j].place.line);
    if (v->count == m->kernel->attributes.items[i]->list.count &&
        !kiln_launch_can_hold(kiln_maker_arena(m), v->conditions, v->count, in->params, f->param_count))
      kiln_elab_error(&m->e, v->place, "this variant is never reached: no call fulfils its conditions");
    kiln_span *spans = kiln_encode_conditions(m, v->conditions, v->count);
    f->variants[count++] = (kiln_variant_record){
        .text = variant_text(m, v, spans), .conditions = spans, .condition_count = v->count};
  }
  f->variants[count] = (kiln_variant_record){.text = ""};
  f->variant_count = count + 1;
}

static bool implies(const kiln_launch_expr **known, uint32_t count, const kiln_launch_expr *wanted) {
  for (uint32_t i = 0; i < count; i++)
    if (kiln_launch_implies(known[i], wanted)) return true;
  return false;
}

/// Every call that fulfils the config's requirements and fits `v` fits `earlier`, which comes first.
static bool always_fits(const kiln_native_config *c, const kiln_native_variant *v,
                        const kiln_native_variant *earlier) {
  for (uint32_t i = 0; i < earlier->count; i++)
    if (!implies(c->require, c->require_count, earlier->conditions[i]) &&
        !implies(v->conditions, v->count, earlier->conditions[i]))
      return false;
  return true;
}

bool kiln_native_has_variant(const kiln_unit *unit, size_t index, uint32_t config, uint32_t variant) {
  const kiln_native_unit *u = (const kiln_native_unit *)unit;
  const kiln_native_instance *in = &u->instances[index];
  const kiln_native_config *c = &in->configs[config];
  const kiln_native_variant *v = &in->variants[variant];
  if (u->all_variants) return true;
  for (uint32_t i = 0; i < variant; i++)
    if (always_fits(c, v, &in->variants[i])) return false;
  // Some call fulfils the config's requirements and fits `v`.
  const uint32_t count = c->require_count + v->count;
  kiln_arena *arena = v->count && c->require_count ? kiln_arena_create() : NULL;
  if (!arena) return true;
  const kiln_launch_expr **all = KILN_NEW_ARRAY(arena, const kiln_launch_expr *, count);
  for (uint32_t i = 0; i < count; i++) all[i] = i < v->count ? v->conditions[i] : c->require[i - v->count];
  const bool can = kiln_launch_can_hold(arena, all, count, in->params, in->interface.param_count);
  kiln_arena_destroy(arena);
  return can;
}
