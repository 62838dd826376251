// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The native front end as a unit: opening a source, and building one kernel for instance, config, variant and
// target. Where a loop might never end, the kernel says so when it runs.
#include "compiler/front/native.h"
#include "compiler/analysis/facts.h"
#include "compiler/unit/access.h"

#include <stdlib.h>
#include <string.h>

static size_t instance_count(const kiln_unit *unit) { return ((const kiln_native_unit *)unit)->count; }

static const kiln_interface *interface(kiln_unit *unit, size_t index) {
  return &((kiln_native_unit *)unit)->instances[index].interface;
}

static bool is_generated(const kiln_unit *unit, size_t index, uint32_t config) {
  return ((const kiln_native_unit *)unit)->instances[index].configs[config].is_generated;
}

static const char *tuning_key(const kiln_unit *unit, size_t index) {
  return ((const kiln_native_unit *)unit)->instances[index].tuning_key;
}

// ------------------------------------------------------------------------------------------ kernel

static bool is_zero(const ir_value *v) {
  int64_t n;
  return ir_constant_int(v, &n) && n == 0;
}

// step > 0, or 0 < step.
static bool says_positive(const ir_value *claim, const ir_value *step) {
  const ir_op *op = claim->def;
  if (!op || op->code != IR_CMP || op->attrs.flags & IR_UNSIGNED) return false;
  return (op->attrs.kind == IR_GT && op->operands[0] == step && is_zero(op->operands[1])) ||
         (op->attrs.kind == IR_LT && op->operands[1] == step && is_zero(op->operands[0]));
}

static bool is_asserted(const ir_op *loop) {
  for (const ir_op *op = loop->prev; op; op = op->prev)
    if (op->code == IR_ASSERT && says_positive(op->operands[0], ir_for_step(loop))) return true;
  return false;
}

// The step of a 'for' is above zero. Where the text does not show it, an assert before the loop does: nothing
// else would tell a loop that can never end from one that was meant. A loop that an assert of its step stands
// before is left alone, so that printed kernels read back as they are. Numbers the kernel.
static void guard_steps(ir_kernel *kernel) {
  kiln_facts *facts = NULL; // of the kernel as it was built, once a loop needs them
  for (ir_op *loop = ir_next(kernel->body, NULL); loop; loop = ir_next(kernel->body, loop)) {
    int64_t known;
    if (loop->code != IR_FOR || ir_constant_int(ir_for_step(loop), &known)) continue;
    ir_value *step = ir_for_step(loop);
    if (!facts) facts = kiln_facts_compute(kernel->arena, kernel);
    if (kiln_fact_of(facts, step)->lo >= 1 || is_asserted(loop)) continue;
    ir_builder b = {.arena = kernel->arena, .block = loop->block, .before = loop, .place = loop->place};
    ir_value *positive = ir_compare(&b, IR_GT, 0, step, ir_const_int(&b, (kiln_scalar)step->type.scalar, 0));
    ir_attrs attrs = {.assertion = {"step of a 'for': expected at least 1", loop->place.line}};
    ir_emit(&b, IR_ASSERT, &attrs, &positive, 1, NULL, NULL, 0);
  }
}

static ir_kernel *build(kiln_unit *unit, kiln_arena *arena, size_t index, uint32_t config, uint32_t variant,
                        const kiln_target *target, kiln_diagnostics *d) {
  kiln_native_unit *u = (kiln_native_unit *)unit;
  const kiln_native_instance *in = &u->instances[index];
  const kiln_native_config *c = &in->configs[config];
  const kiln_native_variant *v = &in->variants[variant];
  uint32_t errors = d->errors + d->suppressed;
  kiln_elab e;
  kiln_binding *top;
  ir_kernel *kernel = ir_kernel_create(arena, in->interface.symbol);
  bool *left_over = KILN_NEW_ARRAY(arena, bool, v->count);
  kernel->warps = c->warps;
  kernel->stages = c->stages;
  kernel->max_registers = c->registers;
  kernel->fp_strict = in->fp_strict;
  kernel->fp_flush = in->fp_flush;
  // Facts of variant and requirements become facts of parameters; what is none becomes an assumption at the
  // kernel's start.
  uint32_t count = in->interface.param_count;
  ir_param *params = kiln_arena_copy(kernel->arena, in->params, count * sizeof *params);
  for (uint32_t i = 0; i < v->count; i++) left_over[i] = !kiln_launch_fact(v->conditions[i], params);
  for (uint32_t i = 0; i < c->require_count; i++) {
    const ir_param *before = kiln_arena_copy(kernel->arena, params, count * sizeof *params);
    bool is_empty = false;
    kiln_launch_fact(c->require[i], params);
    for (uint32_t p = 0; p < count; p++) is_empty |= kiln_launch_is_empty(&params[p]);
    // No launch of the config comes to the variant: what both say is true of no number.
    if (is_empty) memcpy(params, before, count * sizeof *params);
  }
  for (uint32_t i = 0; i < 3; i++) {
    int64_t lo, hi;
    bool known = c->grid[i] && kiln_launch_range(c->grid[i], params, &lo, &hi) && hi > 0 && hi <= INT32_MAX;
    kernel->grid_limit[i] = known ? hi : c->grid[i] ? IR_GRID_UNKNOWN : 1;
    if (in->has_grid_limit) kernel->grid_limit[i] = in->grid_limit[i];
  }
  for (uint32_t i = 0; i < count; i++) ir_add_param(kernel, &params[i]);
  kiln_elab_init(&e, arena, u->module, d, target);
  e.library = u->library;
  if (e.library) e.library->epoch++;
  e.kernel = kernel;
  e.has_builder = true;
  e.b.block = kernel->body;
  uint32_t scope = kiln_elab_open_scope(&e, &top);
  kiln_native_bind(&e, in->kernel, c->values, KILN_CPARAM_TUNE);
  for (uint32_t i = 0; i < kernel->param_count; i++)
    kiln_elab_bind(&e, in->kernel->params.items[i]->atom, in->kernel->params.items[i]->place,
                   kiln_value_runtime(kernel->body->args[i]));
  for (uint32_t i = 0; i < v->count; i++) {
    if (!left_over[i]) continue;
    ir_value *condition = kiln_launch_emit(&e.b, e.kernel, v->conditions[i]);
    if (condition) ir_emit(&e.b, IR_ASSUME, NULL, &condition, 1, NULL, NULL, 0);
  }
  kiln_elab_block(&e, in->kernel->body);
  kiln_elab_close_scope(&e, top, scope);
  u->library = e.library;
  if (e.b.error.status != KILN_OK)
    kiln_diagnose(d, KILN_ERROR, unit->file, in->kernel->place, "%s", e.b.error.text);
  if (d->errors + d->suppressed != errors) return NULL;
  kiln_check_access(kernel, unit->file, d);
  if (d->errors + d->suppressed != errors) return NULL;
  kiln_native_warn_of_grid(kernel, in->kernel, unit->file, d);
  kiln_native_warn_of_loops(kernel, unit->file, in->kernel->place, d);
  guard_steps(kernel);
  return kernel;
}

// -------------------------------------------------------------------------------------------- open

// A source with errors is elaborated as far as it goes, so that one run shows more of them.
static void look_further(kiln_native_unit *u, kiln_diagnostics *d) {
  static const char any_target[] = "sm_90a";
  kiln_target target;
  kiln_error err;
  if (kiln_target_parse(any_target, &target, &err) != KILN_OK) return;
  const kiln_item *last = NULL;
  for (uint32_t i = 0; i < u->count; i++) {
    const kiln_native_instance *in = &u->instances[i];
    if (in->kernel == last || in->is_untyped || !in->interface.config_count) continue;
    last = in->kernel;
    build(&u->unit, u->unit.arena, i, 0, in->interface.variant_count - 1, &target, d);
  }
}

// A message with the notes after it, by place, then in order.
typedef struct ranked {
  kiln_diagnostic item;
  ir_place place;
  uint32_t order;
} ranked;

static int by_place(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->place.line != y->place.line) return x->place.line < y->place.line ? -1 : 1;
  if (x->place.column != y->place.column) return x->place.column < y->place.column ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

static void sort_diagnostics(kiln_diagnostics *d, uint32_t from) {
  uint32_t count = d->count - from;
  ranked *all = KILN_NEW_ARRAY(d->arena, ranked, count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_diagnostic *item = &d->items[from + i];
    bool follows = i && item->severity == KILN_NOTE;
    all[i] = (ranked){*item, follows ? all[i - 1].place : (ir_place){item->line, item->column}, i};
  }
  if (count) qsort(all, count, sizeof *all, by_place);
  for (uint32_t i = 0; i < count; i++) d->items[from + i] = all[i].item;
}

kiln_unit *kiln_native_unit_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                                 const kiln_front_options *options, kiln_diagnostics *d) {
  static const kiln_unit_methods methods = {.instance_count = instance_count,
                                            .interface = interface,
                                            .has_config = kiln_native_has_config,
                                            .has_variant = kiln_native_has_variant,
                                            .is_generated = is_generated,
                                            .tuning_key = tuning_key,
                                            .build = build};
  uint32_t errors = d->errors, first = d->count;
  kiln_native_unit *u = KILN_NEW(arena, kiln_native_unit);
  u->module = kiln_parse(arena, file, text, size, d);
  u->unit = (kiln_unit){.methods = &methods, .arena = arena, .file = u->module->file};
  u->all_configs = options->all_configs;
  u->all_variants = options->all_variants;
  u->with_ranges = options->with_ranges;
  for (uint32_t i = 0; i < u->module->item_count; i++) {
    const kiln_item *item = u->module->items[i];
    if (kiln_elab_is_operation(item->atom->text) || kiln_elab_is_constant(item->atom->text))
      kiln_diagnose(d, KILN_ERROR, u->module->file, item->place,
                    "'%s' is the name of an operation or reserved constant", item->atom->text);
  }
  if (options->tuning_key)
    kiln_diagnose(d, KILN_ERROR, u->unit.file, (ir_place){0},
                  "--key is for Triton IR; a kernel of this language says @key");
  kiln_native_instances(u, options, d);
  kiln_native_check_unused(u, d);
  if (d->errors == errors) kiln_native_warn_of_configs(u, d);
  if (d->errors == errors) return &u->unit;
  look_further(u, d);
  sort_diagnostics(d, first);
  return NULL;
}
