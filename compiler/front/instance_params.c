// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters of an instance with the facts that their attributes promise.
#include <string.h>

#include "compiler/front/instance.h"
#include "compiler/front/launch_expr.h"

typedef void taker(kiln_maker *m, const kiln_node *a, ir_param *p);

/// The one argument: bytes, a power of two. 0 after an error.
static uint32_t take_bytes(kiln_maker *m, const kiln_node *a) {
  enum { MOST = 1 << 20 };
  int64_t v;
  if (!kiln_elab_integer(&m->e, a->list.items[0], 1, MOST, a->atom->text, &v)) return 0;
  if (!(v & (v - 1))) return (uint32_t)v;
  kiln_elab_error(&m->e, a->place, "'@%s' takes a power of two, found %lld", a->atom->text, (long long)v);
  return 0;
}

static void take_align(kiln_maker *m, const kiln_node *a, ir_param *p) { p->align = take_bytes(m, a); }

static void take_rows(kiln_maker *m, const kiln_node *a, ir_param *p) {
  p->rows = take_bytes(m, a);
  if (p->rows && p->rows < kiln_scalars[p->type.scalar].bytes)
    kiln_elab_error(&m->e, a->place, "'@rows': expected the bytes of an element of %s or more, found %u",
                    kiln_scalars[p->type.scalar].spelling, p->rows);
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
} attributes[] = {{"align", 1, 1, 1, 0, take_align},     {"rows", 1, 0, 1, 0, take_rows},
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

static void make_sizes(kiln_maker *m) {
  for (uint32_t i = 0; i < m->kernel->params.count; i++) {
    const kiln_list own = m->kernel->params.items[i]->names;
    if (m->instance->params[i].type.pointer)
      for (uint32_t j = 0; j < own.count; j++)
        if (kiln_is_attribute(own.items[j], "size") && own.items[j]->list.count == 1)
          make_size(m, own.items[j]->list.items[0], &m->instance->interface.params[i]);
  }
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
  if (!m->instance->is_untyped) make_sizes(m);
}
