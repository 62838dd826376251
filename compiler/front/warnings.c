// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warns about kernels that ask which program they are and state no grid, about configs that no launch can
// come to, about stages of a pipeline that no loop of the kernel can be, and about iterations that cannot be
// shared among blocks.
//
// Needs a built kernel with places; changes nothing.
#include <string.h>

#include "compiler/front/native.h"

static bool is_said(const kiln_diagnostics *d, ir_place place, const char *text) {
  for (uint32_t i = 0; i < d->count; i++)
    if (d->items[i].line == place.line && d->items[i].column == place.column &&
        !strcmp(d->items[i].text, text))
      return true;
  return false;
}

// -------------------------------------------------------------------------------- heads of kernels

/// What becomes of one @config of a kernel.
typedef struct config_use {
  bool is_used;         ///< some instance has it
  bool may_hold;        ///< in a launch of some instance
  ir_place taken_first; ///< of the first config that holds in every launch of one
} config_use;

static config_use use_of(const kiln_native_unit *u, const kiln_item *kernel, uint32_t attribute) {
  const ir_place place = kernel->attributes.items[attribute]->place;
  config_use use = {0};
  for (uint32_t i = 0; i < u->count; i++) {
    const kiln_native_instance *in = &u->instances[i];
    if (in->kernel != kernel) continue;
    use.may_hold |= !in->never_holds[attribute];
    for (uint32_t c = 0; c < in->interface.config_count; c++) {
      const kiln_native_config *config = &in->configs[c];
      use.is_used |= config->place.line == place.line && config->place.column == place.column;
      const bool is_certain = !config->cost || config->cost->op == KILN_EXPR_CONST;
      if (!config->require_count && is_certain && !use.taken_first.line) use.taken_first = config->place;
    }
  }
  return use;
}

// Those that come from @autotune lose their configs here, and would not know.
static void warn_of_configs(const kiln_native_unit *u, const kiln_item *kernel, kiln_diagnostics *d) {
  static const char advice[] =
      "@require says which launches a config is for, @cost which one is taken, 'kiln tune' measures all";
  for (uint32_t i = 0; i < kernel->attributes.count; i++) {
    const kiln_node *a = kernel->attributes.items[i];
    if (strcmp(a->atom->text, "config")) continue;
    config_use use = use_of(u, kernel, i);
    if (use.is_used) continue;
    if (use.may_hold)
      kiln_diagnose(d, KILN_WARNING, u->unit.file, a->place,
                    "this @config is never built: every launch takes the one at line %u first; %s",
                    use.taken_first.line, advice);
    else
      kiln_diagnose(d, KILN_WARNING, u->unit.file, a->place,
                    "this @config is never built: @require holds for it in no launch");
  }
}

static bool has_attribute(const kiln_item *kernel, const char *name) {
  for (uint32_t i = 0; i < kernel->attributes.count; i++)
    if (!strcmp(kernel->attributes.items[i]->atom->text, name)) return true;
  return false;
}

static void note_program(ir_op *op, void *context) {
  const ir_op **found = context;
  if ((op->code == IR_PID || op->code == IR_NPID) && !*found) *found = op;
}

void kiln_native_warn_of_grid(const ir_kernel *kernel, const kiln_item *item, const char *file,
                              kiln_diagnostics *d) {
  const ir_op *program = NULL;
  if (has_attribute(item, "grid")) return;
  ir_walk(kernel->body, note_program, &program);
  if (!program) return; // one program does it all
  const char *text =
      kiln_arena_format(d->arena,
                        "kernel '%s' has no @grid and asks for %s(%u): a launch that gives no grid "
                        "runs one program; @grid(1) says that this is meant",
                        item->atom->text, ir_ops[program->code].text, program->attrs.axis);
  if (!is_said(d, item->place, text)) kiln_diagnose(d, KILN_WARNING, file, item->place, "%s", text);
}

void kiln_native_warn_of_configs(const kiln_native_unit *unit, kiln_diagnostics *d) {
  for (uint32_t i = 0; i < unit->module->item_count; i++) {
    const kiln_item *kernel = unit->module->items[i];
    // Configs of another kernel are there for what fits of them.
    if (kernel->kind == KILN_ITEM_KERNEL && !has_attribute(kernel, "configs"))
      warn_of_configs(unit, kernel, d);
  }
}

// ------------------------------------------------------------------------------- attributes of loops

typedef struct loop_content {
  bool loads, multiplies, writes;
} loop_content;

static void note_content(ir_op *op, void *context) {
  loop_content *c = context;
  c->loads |= op->code == IR_LOAD || op->code == IR_VIEW_LOAD;
  c->multiplies |= op->code == IR_DOT;
  const bool adds = op->code == IR_VIEW_ATOMIC; // compiler/passes/gpu/promote.c: the copy engine does it
  const bool is_store = op->code == IR_STORE || op->code == IR_VIEW_STORE,
             is_chosen =
                 is_store && op->block->parent->code == IR_IF; // compiler/passes/gpu/fetch.c fetches again
  c->writes |= op->code == IR_BARRIER ||
               (ir_ops[op->code].effect == IR_WRITE && op->code != IR_ASSERT && !adds && !is_chosen);
}

/// A pipeline, if it has stages.
static bool can_be_pipeline(const ir_op *loop) {
  loop_content c = {0};
  for (uint32_t i = 0; i < loop->region_count; i++) ir_walk(loop->regions[i], note_content, &c);
  return loop->code == IR_FOR && c.loads && c.multiplies && !c.writes;
}

/// What is carried comes back as itself and products added to it: what compiler/passes/gpu/split.c asks, as
/// far as the text shows it.
static bool is_sum_of_products(const ir_op *loop, uint32_t i) {
  const ir_value *carried = ir_loop_args(loop)[i], *v = ir_resolve(ir_loop_next(loop)->operands[i]);
  if (v == carried) return false;
  for (; v != carried; v = ir_resolve(v->def->operands[2]))
    if (!v->def || v->def->code != IR_DOT || v->def->block != ir_loop_body(loop)) return false;
  return true;
}

/// Why the iterations of the loop cannot be shared out among blocks; NULL: they may be.
static const char *why_not_shared(const ir_kernel *kernel, const ir_op *loop) {
  static const char no_sums[] = "only a loop that carries sums of products, 's = dot(a, b, s)', and nothing "
                                "else is shared out";
  if (loop->code != IR_FOR || loop->block != kernel->body)
    return "only a 'for' at the top of a kernel is shared out";
  for (uint32_t i = 0; i < loop->result_count; i++)
    if (!is_sum_of_products(loop, i)) return no_sums;
  return loop->result_count ? NULL : no_sums;
}

typedef struct loops {
  const ir_kernel *kernel;
  kiln_diagnostics *d;
  const char *file;
  bool any; ///< one that can be a pipeline
} loops;

static void warn_of(const loops *l, ir_place place, const char *attribute, unsigned number, const char *why) {
  const char *text = kiln_arena_format(l->d->arena, "%s = %u has no effect: %s", attribute, number, why);
  if (!is_said(l->d, place, text)) kiln_diagnose(l->d, KILN_WARNING, l->file, place, "%s", text);
}

static const char no_pipeline[] =
    "only a 'for' that loads operands of a 'dot' and writes nothing, but in branches, becomes a pipeline";

static void look_at_loop(ir_op *op, void *context) {
  loops *l = context;
  if (op->code != IR_FOR && op->code != IR_WHILE) return;
  bool fits = can_be_pipeline(op);
  const char *why = op->attrs.loop.split > 1 ? why_not_shared(l->kernel, op) : NULL;
  l->any |= fits;
  if (op->attrs.loop.stages > 1 && !fits) warn_of(l, op->place, "stages", op->attrs.loop.stages, no_pipeline);
  if (why) warn_of(l, op->place, "split", op->attrs.loop.split, why);
}

void kiln_native_warn_of_loops(const ir_kernel *kernel, const char *file, ir_place place,
                               kiln_diagnostics *d) {
  loops l = {.kernel = kernel, .d = d, .file = file};
  ir_walk(kernel->body, look_at_loop, &l);
  if (kernel->stages > 1 && !l.any) warn_of(&l, place, "stages", kernel->stages, no_pipeline);
}
