// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Triton IR file as a unit: one instance a public function, one config (its launch facts are fixed in
// Triton's metadata), one variant.
//
// TTIR has no launch expression, so the grid spans of the config are empty: the caller of a launch gives the
// grid.
#include <string.h>

#include "compiler/front/native.h"
#include "compiler/front/unit.h"
#include "compiler/ttir/ttir.h"

typedef struct ttir_unit {
  kiln_unit unit;
  ttir_module *module;
  ttir_facts facts;
  kiln_interface *interfaces; ///< one a kernel
  ir_kernel **kernels;        ///< built when the unit was opened; each is handed out once
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
  (void)config;
  (void)variant;
  (void)target;
  ir_kernel *kernel = u->kernels[index];
  if (kernel && arena == unit->arena) u->kernels[index] = NULL; // it will be changed in place
  else kernel = ttir_build(u->module, index, &u->facts, arena, d);
  if (kernel) kernel->name = u->interfaces[index].symbol;
  return kernel;
}

static const char *origin_of(const kiln_unit *unit, uint32_t line, char out[KILN_PLACE_TEXT]) {
  _Static_assert((int)TTIR_PLACE_TEXT <= (int)KILN_PLACE_TEXT, "a place of Python fits");
  return ttir_source_place(((const ttir_unit *)unit)->module, line, out);
}

static const kiln_unit_methods methods = {.instance_count = instance_count,
                                          .interface = interface_of,
                                          .build = build,
                                          .check = kiln_native_check_access,
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
                             .div = param->div,
                             .lo = param->lo,
                             .hi = param->hi};
}

static void fill_interface(kiln_arena *arena, const ir_kernel *kernel, const char *suffix,
                           kiln_interface *out) {
  const char *name = suffix ? kiln_arena_format(arena, "%s%s", kernel->name, suffix) : kernel->name;
  *out = (kiln_interface){.name = name,
                          .symbol = kiln_unit_symbol(arena, name),
                          .param_count = kernel->param_count,
                          .config_count = 1,
                          .variant_count = 1};
  out->params = KILN_NEW_ARRAY(arena, kiln_param_record, out->param_count);
  for (uint32_t i = 0; i < out->param_count; i++) fill_param(&kernel->params[i], &out->params[i]);
  out->configs = KILN_NEW(arena, kiln_config_record);
  out->configs[0] = (kiln_config_record){
      .text = kiln_arena_format(arena, "warps=%u,stages=%u", kernel->warps, kernel->stages),
      .warps = kernel->warps,
      .stages = kernel->stages};
  out->variants = KILN_NEW(arena, kiln_variant_record);
  out->variants[0].text = "";
  kiln_layout_params(out);
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
  if (warps > 64 || (warps & (warps - 1))) {
    kiln_diagnose(d, KILN_ERROR, u->unit.file, (ir_place){0},
                  "expected warps to be a power of two up to 64, found %u", warps);
    ok = false;
  }
  return ok;
}

kiln_unit *kiln_ttir_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                               const kiln_front_options *options, kiln_diagnostics *d) {
  ttir_unit *u = KILN_NEW(arena, ttir_unit);
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
  u->kernels = KILN_NEW_ARRAY(arena, ir_kernel *, count);
  for (size_t i = 0; i < count; i++) {
    u->kernels[i] = ttir_build(u->module, i, &u->facts, arena, d);
    if (!u->kernels[i]) return NULL;
    fill_interface(arena, u->kernels[i], options->name_suffix, &u->interfaces[i]);
  }
  return &u->unit;
}
