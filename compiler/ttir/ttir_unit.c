// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Triton IR file as a unit: one instance a public function, one variant, one config: the launch facts of
// Triton's metadata. For tuning there are ranges after it: what a launch may choose freely is how many warps
// compute a program, how many stages its loops have, and what the code generator may spend: registers of a
// thread.
//
// TTIR has no launch expression, so the grid spans of the config are empty: the caller of a launch gives the
// grid.
#include <string.h>

#include "base/nearest.h"
#include "compiler/ttir/ttir.h"
#include "compiler/unit/access.h"
#include "compiler/unit/unit.h"

enum { MOST_WARPS = 16, MOST_STAGES = 4, MOST_CONFIGS = 1 + 5 * (MOST_STAGES + 3) };
enum { LANES = 32, FILE_OF_REGISTERS = 65536 };

// Beyond the recorded one.
typedef struct knobs {
  uint16_t warps, stages, registers; // registers: 0 as recorded
} knobs;

typedef struct ttir_unit {
  kiln_unit unit;
  ttir_module *module;
  ttir_facts facts;
  kiln_interface *interfaces; ///< one a kernel
  knobs *configs;             ///< MOST_CONFIGS a kernel
  const char *tuning_key;
  ir_kernel **kernels; ///< built when the unit was opened; each is handed out once
} ttir_unit;

static size_t instance_count(const kiln_unit *unit) {
  return ttir_kernel_count(((const ttir_unit *)unit)->module);
}

static const kiln_interface *interface_of(kiln_unit *unit, size_t index) {
  return &((ttir_unit *)unit)->interfaces[index];
}

static ir_kernel *build(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config, uint32_t variant,
                        const kiln_target *target, kiln_diagnostics *d) {
  ttir_unit *u = (ttir_unit *)unit;
  (void)variant;
  (void)target;
  ir_kernel *kernel = config ? NULL : u->kernels[index];
  ttir_facts facts = u->facts;
  const knobs *k = &u->configs[index * MOST_CONFIGS + config];
  facts.warps = k->warps;
  facts.stages = k->stages;
  if (k->registers) facts.max_registers = k->registers;
  if (kernel && arena == unit->arena) u->kernels[index] = NULL; // it will be changed in place
  else kernel = ttir_build(u->module, index, config ? &facts : &u->facts, arena, d);
  if (kernel) kernel->name = u->interfaces[index].symbol;
  return kernel;
}

static const char *tuning_key(const kiln_unit *unit, size_t index) {
  (void)index;
  return ((const ttir_unit *)unit)->tuning_key;
}

static bool is_generated(const kiln_unit *unit, size_t index, uint32_t config) {
  (void)unit, (void)index;
  return config != 0;
}

static const char *origin_of(const kiln_unit *unit, uint32_t line, char out[KILN_PLACE_TEXT]) {
  _Static_assert((int)TTIR_PLACE_TEXT <= (int)KILN_PLACE_TEXT, "a place of Python fits");
  return ttir_source_place(((const ttir_unit *)unit)->module, line, out);
}

static const kiln_unit_methods methods = {.instance_count = instance_count,
                                          .interface = interface_of,
                                          .build = build,
                                          .check = kiln_check_access,
                                          .is_generated = is_generated,
                                          .tuning_key = tuning_key,
                                          .origin = origin_of};

static void fill_param(const ir_param *param, kiln_param_record *out) {
  *out = (kiln_param_record){.name = param->name,
                             .scalar = param->type.scalar,
                             .pointer = param->type.pointer,
                             .view_rank = param->type.is_view ? param->type.rank : 0,
                             .access = param->access,
                             .noalias = param->noalias,
                             .has_range = param->has_range,
                             .align = param->align,
                             .rows = param->rows,
                             .div = param->div,
                             .lo = param->lo,
                             .hi = param->hi};
}

static void add_config(kiln_arena *arena, knobs k, kiln_interface *out, knobs *configs) {
  const char *text = kiln_arena_format(arena, "warps=%u,stages=%u", k.warps, k.stages);
  if (k.registers) text = kiln_arena_format(arena, "%s,regs=%u", text, k.registers);
  configs[out->config_count] = k;
  out->configs[out->config_count++] =
      (kiln_config_record){.text = text, .warps = k.warps, .stages = k.stages};
}

// All warps and stages; limits of registers, where they are below what the file of a unit allows anyway, with
// the recorded stages. 255 limits nothing but the roles of warps, which a kernel with a limit does not get.
static void add_ranges(kiln_arena *arena, kiln_interface *out, knobs *configs) {
  static const uint16_t limits[] = {64, 128, 255};
  const knobs recorded = configs[0];
  for (unsigned warps = 1; warps <= MOST_WARPS; warps *= 2)
    for (unsigned stages = 1; stages <= MOST_STAGES; stages++)
      if (warps != recorded.warps || stages != recorded.stages)
        add_config(arena, (knobs){(uint16_t)warps, (uint16_t)stages, 0}, out, configs);
  for (unsigned warps = 1; warps <= MOST_WARPS; warps *= 2)
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
      if (warps * LANES * limits[i] < FILE_OF_REGISTERS)
        add_config(arena, (knobs){(uint16_t)warps, recorded.stages, limits[i]}, out, configs);
}

static void fill_interface(kiln_arena *arena, const ir_kernel *kernel, const kiln_front_options *options,
                           kiln_interface *out, knobs *configs) {
  const char *suffix = options->name_suffix;
  const char *name = suffix ? kiln_arena_format(arena, "%s%s", kernel->name, suffix) : kernel->name;
  *out = (kiln_interface){.name = name,
                          .symbol = kiln_unit_symbol(arena, name),
                          .param_count = kernel->param_count,
                          .variant_count = 1};
  out->params = KILN_NEW_ARRAY(arena, kiln_param_record, out->param_count);
  for (uint32_t i = 0; i < out->param_count; i++) fill_param(&kernel->params[i], &out->params[i]);
  out->configs = KILN_NEW_ARRAY(arena, kiln_config_record, MOST_CONFIGS);
  add_config(arena, (knobs){kernel->warps, kernel->stages, 0}, out, configs);
  if (options->with_ranges) add_ranges(arena, out, configs);
  out->variants = KILN_NEW(arena, kiln_variant_record);
  out->variants[0].text = "";
  kiln_layout_params(out);
}

static bool is_integer(const ir_param *p) {
  return !p->type.pointer && !p->type.is_view && ir_type_class(p->type) == KILN_CLASS_INT;
}

// Every name of the key is an integer of every kernel.
static void check_key(const ttir_unit *u, const ir_kernel *kernel, const char *key, kiln_diagnostics *d) {
  for (const char *at = key; *at; at += strcspn(at, ","), at += *at == ',') {
    size_t length = strcspn(at, ",");
    const char *name = kiln_arena_text(u->unit.arena, at, length), *known = "";
    kiln_nearest near = kiln_nearest_to(name);
    bool is_there = false;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
      if (!is_integer(&kernel->params[i])) continue;
      is_there |= !strcmp(kernel->params[i].name, name);
      kiln_nearest_consider(&near, kernel->params[i].name);
      known = kiln_arena_format(u->unit.arena, "%s%s%s", known, *known ? ", " : "", kernel->params[i].name);
    }
    if (!is_there)
      kiln_diagnose(d, KILN_ERROR, u->unit.file, (ir_place){0},
                    "--key: '%s' is no integer parameter of %s, which has %s%s%s%s", name, kernel->name,
                    *known ? known : "none", near.best ? "; did you mean '" : "", near.best ? near.best : "",
                    near.best ? "'?" : "");
  }
}

// Facts: from the metadata, then what the caller set.
static bool read_facts(ttir_unit *u, const kiln_front_options *options, kiln_diagnostics *d) {
  kiln_error err;
  bool ok = true;
  if (options->metadata &&
      ttir_read_facts(u->unit.arena, options->metadata, options->metadata_size, &u->facts, &err) != KILN_OK) {
    kiln_diagnose(d, KILN_ERROR, u->unit.file, (ir_place){0}, "%s", err.text);
    ok = false;
  }
  if (options->warps) u->facts.warps = options->warps;
  if (options->stages) u->facts.stages = options->stages;
  uint32_t warps = u->facts.warps;
  if (warps > KILN_MOST_WARPS || (warps & (warps - 1))) {
    kiln_diagnose(d, KILN_ERROR, u->unit.file, (ir_place){0},
                  "expected warps to be a power of two up to %d, found %u", KILN_MOST_WARPS, warps);
    ok = false;
  }
  return ok;
}

kiln_unit *kiln_ttir_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                               const kiln_front_options *options, kiln_diagnostics *d) {
  uint32_t errors = d->errors;
  ttir_unit *u = KILN_NEW(arena, ttir_unit);
  u->tuning_key = options->tuning_key ? options->tuning_key : "";
  u->unit =
      (kiln_unit){.methods = &methods, .arena = arena, .file = kiln_arena_text(arena, file, strlen(file))};
  if (options->instance_count) {
    kiln_diagnose(d, KILN_ERROR, u->unit.file, (ir_place){0},
                  "a Triton IR file has no instance parameters; found --instance %s", options->instances[0]);
    return NULL;
  }
  if (!read_facts(u, options, d)) return NULL;
  u->module = ttir_open(arena, u->unit.file, text, size, d);
  if (!u->module) return NULL;
  size_t count = ttir_kernel_count(u->module);
  u->interfaces = KILN_NEW_ARRAY(arena, kiln_interface, count);
  u->configs = KILN_NEW_ARRAY(arena, knobs, count * MOST_CONFIGS);
  u->kernels = KILN_NEW_ARRAY(arena, ir_kernel *, count);
  for (size_t i = 0; i < count; i++) {
    u->kernels[i] = ttir_build(u->module, i, &u->facts, arena, d);
    if (!u->kernels[i]) return NULL;
    check_key(u, u->kernels[i], u->tuning_key, d);
    fill_interface(arena, u->kernels[i], options, &u->interfaces[i], u->configs + i * MOST_CONFIGS);
  }
  return d->errors == errors ? &u->unit : NULL;
}
