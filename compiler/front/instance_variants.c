// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Variants of an instance: the conditions of a call under which better code runs.
#include <string.h>

#include "compiler/front/instance.h"

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

/// Some call fulfils the config's requirements and fits `v`.
static bool can_fit(const kiln_native_instance *in, const kiln_native_config *c,
                    const kiln_native_variant *v) {
  const uint32_t count = c->require_count + v->count;
  kiln_arena *arena = v->count && c->require_count ? kiln_arena_create() : NULL;
  if (!arena) return true;
  const kiln_launch_expr **all = KILN_NEW_ARRAY(arena, const kiln_launch_expr *, count);
  for (uint32_t i = 0; i < count; i++) all[i] = i < v->count ? v->conditions[i] : c->require[i - v->count];
  const bool can = kiln_launch_can_hold(arena, all, count, in->params, in->interface.param_count);
  kiln_arena_destroy(arena);
  return can;
}

bool kiln_native_has_variant(const kiln_unit *unit, size_t index, uint32_t config, uint32_t variant) {
  const kiln_native_unit *u = (const kiln_native_unit *)unit;
  const kiln_native_instance *in = &u->instances[index];
  const kiln_native_config *c = &in->configs[config];
  const kiln_native_variant *v = &in->variants[variant];
  if (u->all_variants) return true;
  for (uint32_t i = 0; i < variant; i++)
    if (always_fits(c, v, &in->variants[i])) return false;
  return can_fit(in, c, v);
}
