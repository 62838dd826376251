// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters of an instance with the facts that their attributes promise.
#include <string.h>

#include "compiler/front/instance.h"

static void param_attribute(kiln_maker *m, const kiln_node *a, ir_param *p) {
  static const struct {
    const char *name;
    uint8_t args, pointers, views, integers;
  } known[] = {{"align", 1, 1, 1, 0},   {"div", 1, 0, 0, 1},    {"range", 2, 0, 0, 1},
               {"noalias", 0, 1, 1, 0}, {"within", 0, 1, 0, 0}, {"rows", 1, 0, 1, 0}};
  enum { KNOWN = sizeof known / sizeof *known };
  size_t which = 0;
  int64_t v[2] = {0};
  char text[IR_TYPE_TEXT];
  bool pointer = p->type.pointer || p->type.is_view,
       integer = !pointer && ir_type_class(p->type) == KILN_CLASS_INT;
  while (which < KNOWN && strcmp(known[which].name, a->atom->text)) which++;
  if (which == KNOWN) {
    kiln_elab_unknown_attribute(&m->e, a, "parameter",
                                "@align(n) @rows(n) @div(n) @range(lo, hi) @noalias @within");
    return;
  }
  if (!(known[which].pointers && p->type.pointer) && !(known[which].views && p->type.is_view) &&
      !(known[which].integers && integer)) {
    kiln_elab_error(&m->e, a->place, "'@%s' is for %s parameters, '%s' is none", known[which].name,
                    known[which].views && known[which].pointers ? "pointer and view"
                    : known[which].views                        ? "view"
                    : known[which].pointers                     ? "pointer"
                                                                : "integer",
                    p->name);
    return;
  }
  if (a->list.count != known[which].args) {
    kiln_elab_error(&m->e, a->place, "'@%s' takes %u argument%s, found %u", known[which].name,
                    known[which].args, known[which].args == 1 ? "" : "s", a->list.count);
    return;
  }
  bool takes_bytes = which == 0 || which == 5;
  if (which == 1 && !kiln_elab_divisor(&m->e, a->list.items[0], p->type, "'@div'", &v[0])) return;
  for (uint32_t i = 0; which != 1 && i < a->list.count; i++)
    if (!kiln_elab_integer(&m->e, a->list.items[i], which == 2 ? INT64_MIN : 1,
                           takes_bytes ? 1 << 20 : INT64_MAX, known[which].name, &v[i]))
      return;
  if (takes_bytes && v[0] & (v[0] - 1))
    kiln_elab_error(&m->e, a->place, "'@%s' takes a power of two, found %lld", known[which].name,
                    (long long)v[0]);
  if (which == 5 && v[0] < kiln_scalars[p->type.scalar].bytes)
    kiln_elab_error(&m->e, a->place, "'@rows': expected the bytes of an element of %s or more, found %lld",
                    ir_type_text(ir_scalar_type(p->type.scalar), text), (long long)v[0]);
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
  if (which == 5) p->rows = (uint32_t)v[0];
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
}
