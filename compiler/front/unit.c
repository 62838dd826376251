// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Units: chooses the front end by suffix, checks indices, and brings what a front end built into canonical form.
#include "compiler/front/unit.h"

#include <stdio.h>
#include <string.h>

#include "compiler/middle/legality.h"

static bool has_suffix(const char *file, const char *suffix) {
  size_t length = strlen(file), wanted = strlen(suffix);
  return length >= wanted && !strcmp(file + length - wanted, suffix);
}

kiln_unit *kiln_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size, const kiln_front_options *options,
                          kiln_diagnostics *d) {
  static const kiln_front_options none;
  if (!options) options = &none;
  if (size > (64u << 20)) {
    kiln_diagnose(d, KILN_ERROR, file, (ir_place){0}, "the source has %zu bytes, the limit is %u", size, 64u << 20);
    return NULL;
  }
  if (has_suffix(file, ".ttir")) return kiln_ttir_unit_open(arena, file, text, size, options, d);
  return kiln_native_unit_open(arena, file, text, size, options, d);
}

size_t kiln_unit_instance_count(const kiln_unit *unit) { return unit->methods->instance_count(unit); }

const kiln_interface *kiln_unit_interface(kiln_unit *unit, size_t index) {
  return index < kiln_unit_instance_count(unit) ? unit->methods->interface(unit, index) : NULL;
}

ir_kernel *kiln_unit_lower(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config, uint32_t variant,
                           const kiln_target *target, kiln_diagnostics *d) {
  const kiln_interface *interface = kiln_unit_interface(unit, index);
  if (!interface || config >= interface->config_count || variant >= interface->variant_count) {
    kiln_diagnose(d, KILN_ERROR, unit->file, (ir_place){0}, "no instance %zu with config %u and variant %u", index, config, variant);
    return NULL;
  }
  ir_kernel *kernel = unit->methods->build(unit, arena, index, config, variant, target, d);
  if (!kernel) return NULL;
  kiln_canonicalise(kernel);
  kiln_error err;
  if (ir_verify(kernel, "front", &err) == KILN_OK) return kernel;
  kiln_diagnose(d, KILN_ERROR, unit->file, (ir_place){0}, "%s: %s", interface->name, err.text);
  return NULL;
}

typedef struct refusals {
  const kiln_target *target;
  ir_place first;
  bool found;
} refusals;

static void look_at(ir_op *op, void *context) {
  refusals *r = context;
  if (r->found || kiln_legality_of(op, r->target).legal != KILN_LEGAL_REFUSED) return;
  r->found = true;
  r->first = op->place;
}

const char *kiln_unit_refused_place(const kiln_unit *unit, const ir_kernel *kernel, const kiln_target *target, char out[KILN_PLACE_TEXT]) {
  refusals r = {.target = target};
  char origin[KILN_PLACE_TEXT] = "";
  out[0] = 0;
  ir_walk(kernel->body, look_at, &r);
  if (!r.found || r.first.line == 0) return out;
  if (unit->methods->origin) unit->methods->origin(unit, r.first.line, origin);
  snprintf(out, KILN_PLACE_TEXT, "%.300s:%u:%u%s%.250s%s", unit->file, r.first.line, r.first.column, *origin ? " (from " : "", origin, *origin ? ")" : "");
  return out;
}

typedef struct place_search {
  uint32_t number;
  ir_place place;
} place_search;

static void take_place(ir_op *op, void *context) {
  place_search *s = context;
  if (op->number == s->number) s->place = op->place;
}

ir_place kiln_operation_place(ir_kernel *kernel, uint32_t number) {
  place_search s = {.number = number};
  ir_number(kernel);
  ir_walk(kernel->body, take_place, &s);
  return s.place;
}

const char *kiln_unit_symbol(kiln_arena *arena, const char *name) {
  char *symbol = kiln_arena_format(arena, "kiln_%s", name);
  for (char *c = symbol; *c; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    if (!plain) *c = '_';
  }
  return symbol;
}
