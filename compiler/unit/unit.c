// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Units: chooses the front end by suffix, checks indices, and brings what a front end built into canonical
// form.
#include "compiler/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/float_state.h"

static kiln_unit *open_unit(kiln_arena *arena, const char *file, const char *text, size_t size,
                            const kiln_front_options *options, kiln_diagnostics *d) {
  static const kiln_front_options none;
  if (!options) options = &none;
  if (size > (64u << 20)) {
    kiln_diagnose(d, KILN_ERROR, file, (ir_place){0}, "the source has %zu bytes, the limit is %u", size,
                  64u << 20);
    return NULL;
  }
  size_t length = strlen(file), suffix = strlen(".ttir");
  if (length >= suffix && !strcmp(file + length - suffix, ".ttir"))
    return kiln_ttir_unit_open(arena, file, text, size, options, d);
  return kiln_native_unit_open(arena, file, text, size, options, d);
}

// Numbers are read and folded in the environment that programs run in, not in the caller's.
kiln_unit *kiln_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                          const kiln_front_options *options, kiln_diagnostics *d) {
  kiln_float_all was = kiln_float_enter_all();
  kiln_unit *unit = open_unit(arena, file, text, size, options, d);
  kiln_float_leave_all(&was);
  return unit;
}

size_t kiln_unit_instance_count(const kiln_unit *unit) { return unit->methods->instance_count(unit); }

const kiln_interface *kiln_unit_interface(kiln_unit *unit, size_t index) {
  return index < kiln_unit_instance_count(unit) ? unit->methods->interface(unit, index) : NULL;
}

bool kiln_unit_has_config(kiln_unit *unit, size_t index, uint32_t config, const kiln_target *target) {
  const kiln_interface *interface = kiln_unit_interface(unit, index);
  if (!interface || config >= interface->config_count) return false;
  return !target || !unit->methods->has_config || unit->methods->has_config(unit, index, config, target);
}

bool kiln_unit_has_variant(const kiln_unit *unit, size_t index, uint32_t config, uint32_t variant) {
  return !unit->methods->has_variant || unit->methods->has_variant(unit, index, config, variant);
}

bool kiln_unit_is_generated(const kiln_unit *unit, size_t index, uint32_t config) {
  return unit->methods->is_generated && unit->methods->is_generated(unit, index, config);
}

const char *kiln_unit_tuning_key(const kiln_unit *unit, size_t index) {
  return unit->methods->tuning_key && index < kiln_unit_instance_count(unit)
             ? unit->methods->tuning_key(unit, index)
             : "";
}

uint32_t kiln_unit_first_config(kiln_unit *unit, size_t index, const kiln_target *target) {
  const kiln_interface *interface = kiln_unit_interface(unit, index);
  uint32_t config = 0;
  while (interface && config < interface->config_count && !kiln_unit_has_config(unit, index, config, target))
    config++;
  return config;
}

/// Says that a kernel's code prints nothing, for a target whose code cannot: it computes the same, but who wrote it waits
/// for that.
static void warn_of_prints(const kiln_unit *unit, ir_kernel *kernel, const char *name,
                           const kiln_target *target, kiln_diagnostics *d) {
  char processor[KILN_TARGET_NAME], origin[KILN_PLACE_TEXT] = "", more[40] = "";
  const ir_op *first = NULL;
  unsigned count = 0;
  if (!target || kiln_family_of(target->processor->family)->prints) return;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op))
    if (op->code == IR_PRINT && !count++) first = op;
  if (!count) return;
  kiln_unit_origin(unit, first->place.line, origin);
  if (count > 1) snprintf(more, sizeof more, ", and %u more", count - 1);
  kiln_diagnose(d, KILN_WARNING, unit->file, first->place, "kernel '%s' prints nothing on %s: \"%s\"%s%s%s",
                name, kiln_target_name(target, processor), first->attrs.print.text, *origin ? " at " : "",
                origin, more);
}

static ir_kernel *lower(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config, uint32_t variant,
                        const kiln_target *target, kiln_diagnostics *d) {
  const kiln_interface *interface = kiln_unit_interface(unit, index);
  if (!interface || config >= interface->config_count || variant >= interface->variant_count) {
    kiln_diagnose(d, KILN_ERROR, unit->file, (ir_place){0}, "no instance %zu with config %u and variant %u",
                  index, config, variant);
    return NULL;
  }
  if (!kiln_unit_has_config(unit, index, config, target)) {
    char name[KILN_TARGET_NAME];
    kiln_diagnose(d, KILN_ERROR, unit->file, (ir_place){0}, "%s has no config %s for %s", interface->name,
                  interface->configs[config].text, kiln_target_name(target, name));
    return NULL;
  }
  ir_kernel *kernel = unit->methods->build(unit, arena, index, config, variant, target, d);
  if (!kernel) return NULL;
  kiln_canonicalise(kernel);
  warn_of_prints(unit, kernel, interface->name, target, d);
  uint32_t errors = d->errors + d->suppressed;
  if (unit->methods->check) unit->methods->check(kernel, unit->file, d);
  if (d->errors + d->suppressed != errors) return NULL;
  // A step may have become a constant only when the kernel was made canonical.
  bool are_good = true;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    int64_t width;
    char origin[KILN_PLACE_TEXT];
    if (op->code != IR_FOR || !ir_constant_int(ir_for_step(op), &width) || width > 0) continue;
    kiln_unit_origin(unit, op->place.line, origin);
    kiln_diagnose(d, KILN_ERROR, unit->file, op->place,
                  "step of a 'for': expected at least 1, found %lld%s%s%s", (long long)width,
                  *origin ? " (from " : "", origin, *origin ? ")" : "");
    are_good = false;
  }
  if (!are_good) return NULL;
  kiln_error err;
  if (ir_verify(kernel, "front", &err) == KILN_OK) return kernel;
  kiln_diagnose(d, KILN_ERROR, unit->file, (ir_place){0}, "%s: %s", interface->name, err.text);
  return NULL;
}

ir_kernel *kiln_unit_lower(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config,
                           uint32_t variant, const kiln_target *target, kiln_diagnostics *d) {
  kiln_float_all was = kiln_float_enter_all();
  ir_kernel *kernel = lower(unit, arena, index, config, variant, target, d);
  kiln_float_leave_all(&was);
  return kernel;
}

const char *kiln_unit_origin(const kiln_unit *unit, uint32_t line, char out[KILN_PLACE_TEXT]) {
  out[0] = 0;
  return unit->methods->origin ? unit->methods->origin(unit, line, out) : out;
}

ir_place kiln_operation_place(ir_kernel *kernel, uint32_t number) {
  ir_number(kernel);
  const ir_op *op = ir_next(kernel->body, NULL);
  while (op && op->number != number) op = ir_next(kernel->body, op);
  return op ? op->place : (ir_place){0};
}

const char *kiln_unit_symbol(kiln_arena *arena, const char *name) {
  char *symbol = kiln_arena_format(arena, KILN_SYMBOL_PREFIX "%s", name);
  for (char *c = symbol; *c; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    if (!plain) *c = '_';
  }
  return symbol;
}
