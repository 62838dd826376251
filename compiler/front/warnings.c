// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel that compiles is warned of, or refused for, all the same: that it asks which program it is and states no
// grid, configs that no launch can come to, stages of a pipeline that no loop of the kernel can be, iterations that
// cannot be shared among blocks; and names in functions that no kernel calls. What a kernel calls is elaborated and
// checked there; the rest would pass with any name in it, so its names are looked up here.
//
// Warnings need a built kernel with places, and change nothing; names need a parsed module, of whose atoms they change
// the marks.
#include <string.h>

#include "compiler/front/native.h"

// --------------------------------------------------------------------------------------------- built kernels

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

static bool has_attribute(const kiln_item *kernel, const char *name) {
  for (uint32_t i = 0; i < kernel->attributes.count; i++)
    if (!strcmp(kernel->attributes.items[i]->atom->text, name)) return true;
  return false;
}

void kiln_native_warn_of_grid(const ir_kernel *kernel, const kiln_item *item, const char *file,
                              kiln_diagnostics *d) {
  if (has_attribute(item, "grid")) return;
  const ir_op *program = ir_next(kernel->body, NULL);
  while (program && program->code != IR_PID && program->code != IR_NPID)
    program = ir_next(kernel->body, program);
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

    if (kernel->kind == KILN_ITEM_KERNEL && !has_attribute(kernel, "configs")) {
      // Those that come from @autotune lose their configs here, and would not know.
      static const char advice[] =
          "@require says which launches a config is for, @cost which one is taken, 'kiln tune' measures all";
      for (uint32_t k = 0; k < kernel->attributes.count; k++) {
        const kiln_node *a = kernel->attributes.items[k];
        if (strcmp(a->atom->text, "config")) continue;
        config_use use = use_of(unit, kernel, k);
        if (use.is_used) continue;
        if (use.may_hold)
          kiln_diagnose(d, KILN_WARNING, unit->unit.file, a->place,
                        "this @config is never built: every launch takes the one at line %u first; %s",
                        use.taken_first.line, advice);
        else
          kiln_diagnose(d, KILN_WARNING, unit->unit.file, a->place,
                        "this @config is never built: @require holds for it in no launch");
      }
    }
  }
}

// ------------------------------------------------------------------------------- attributes of loops

/// A pipeline, if it has stages.
static bool can_be_pipeline(const ir_op *loop) {
  bool loads = false, multiplies = false, writes = false;
  if (loop->code != IR_FOR) return false;
  const ir_block *body = ir_loop_body(loop);
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    loads |= op->code == IR_LOAD || op->code == IR_VIEW_LOAD;
    multiplies |= op->code == IR_DOT;
    const bool adds = op->code == IR_VIEW_ATOMIC; // compiler/passes/gpu/promote.c: the copy engine does it
    const bool is_store = op->code == IR_STORE || op->code == IR_VIEW_STORE,
               is_chosen =
                   is_store && op->block->parent->code == IR_IF; // compiler/passes/gpu/fetch.c fetches again
    writes |= op->code == IR_BARRIER ||
              (ir_ops[op->code].effect == IR_WRITE && op->code != IR_ASSERT && !adds && !is_chosen);
  }
  return loads && multiplies && !writes;
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

static void warn_of(kiln_diagnostics *d, const char *file, ir_place place, const char *attribute,
                    unsigned number, const char *why) {
  const char *text = kiln_arena_format(d->arena, "%s = %u has no effect: %s", attribute, number, why);
  if (!is_said(d, place, text)) kiln_diagnose(d, KILN_WARNING, file, place, "%s", text);
}

static const char no_pipeline[] = "only a 'for' that loads operands of a 'dot', stores only in branches and "
                                  "prints nothing becomes a pipeline";

void kiln_native_warn_of_loops(const ir_kernel *kernel, const char *file, ir_place place,
                               kiln_diagnostics *d) {
  bool any_fits = false;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    if (op->code != IR_FOR && op->code != IR_WHILE) continue;
    const bool fits = can_be_pipeline(op);
    const char *why = op->attrs.loop.split > 1 ? why_not_shared(kernel, op) : NULL;
    any_fits |= fits;
    if (op->attrs.loop.stages > 1 && !fits)
      warn_of(d, file, op->place, "stages", op->attrs.loop.stages, no_pipeline);
    if (why) warn_of(d, file, op->place, "split", op->attrs.loop.split, why);
  }
  if (kernel->stages > 1 && !any_fits) warn_of(d, file, place, "stages", kernel->stages, no_pipeline);
}

// ---------------------------------------------------------------------------- functions that no kernel calls

typedef struct checking {
  kiln_elab e; ///< for errors, and for names of the module and the library
  const kiln_atom **locals;
  uint32_t local_count, local_capacity;
} checking;

typedef void visitor(void *context, const kiln_node *n);

static void each_of(kiln_list list, visitor *visit, void *context) {
  for (uint32_t i = 0; i < list.count; i++) visit(context, list.items[i]);
}

static void each_child(const kiln_node *n, visitor *visit, void *context) {
  const kiln_node *const parts[] = {n->a, n->b, n->c};
  for (unsigned i = 0; i < 3; i++)
    if (parts[i]) visit(context, parts[i]);
  each_of(n->list, visit, context);
  if (n->kind == KILN_NODE_FOR || n->kind == KILN_NODE_WHILE || n->kind == KILN_NODE_LOOP)
    each_of(n->names, visit, context); // attributes
  if (n->kind == KILN_NODE_LAUNCH) each_of(n->names, visit, context);
  if (n->body) visit(context, n->body);
}

// ------------------------------------------------------------------------------------------ what is called

static void reach(void *context, const kiln_node *n) {
  const kiln_module *module = context;
  bool names = n->kind == KILN_NODE_NAME || n->kind == KILN_NODE_CALL;
  kiln_item *item = names && n->atom ? n->atom->item : NULL;
  if (item && item->kind == KILN_ITEM_FN && item->atom->mark != module->atoms.mark) {
    item->atom->mark = module->atoms.mark;
    if (item->body) reach(context, item->body);
  }
  each_child(n, reach, context);
}

// ------------------------------------------------------------------------------------------ names

static void bind(checking *c, const kiln_atom *atom) {
  KILN_GROW(c->e.arena, c->locals, c->local_count, c->local_capacity);
  c->locals[c->local_count++] = atom;
}

static void bind_names(checking *c, const kiln_node *n) {
  for (uint32_t i = 0; i < n->names.count; i++) bind(c, n->names.items[i]->atom);
}

static bool is_local(const checking *c, const kiln_atom *atom) {
  for (uint32_t i = c->local_count; i-- > 0;)
    if (c->locals[i] == atom) return true;
  return false;
}

static void look_up(checking *c, const kiln_node *n) {
  const char *name = n->atom->text;
  if (is_local(c, n->atom) || kiln_elab_is_operation(name) || kiln_elab_is_constant(name) ||
      kiln_elab_item(&c->e, n->atom))
    return;
  kiln_nearest near = kiln_nearest_to(name);
  for (uint32_t i = 0; i < c->local_count; i++) kiln_nearest_consider(&near, c->locals[i]->text);
  kiln_elab_suggest(&c->e, &near);
  kiln_elab_error(&c->e, n->place, near.best ? "unknown name '%s'; did you mean '%s'?" : "unknown name '%s'",
                  name, near.best);
}

static void visit(void *context, const kiln_node *n);

static void visit_block(checking *c, const kiln_node *n) {
  uint32_t before = c->local_count;
  each_of(n->list, visit, c);
  c->local_count = before;
}

static void visit_loop(checking *c, const kiln_node *n) {
  uint32_t before = c->local_count;
  if (n->a) visit(c, n->a); // bounds, a condition, or heads, which stay bound inside
  if (n->b) visit(c, n->b);
  if (n->c) visit(c, n->c);
  if (n->kind == KILN_NODE_FOR) bind(c, n->atom);
  each_of(n->names, visit, c);
  each_of(n->body->list, visit, c);
  c->local_count = before;
  for (uint32_t i = 0; n->kind == KILN_NODE_LOOP && i < n->body->list.count; i++)
    if (n->body->list.items[i]->kind == KILN_NODE_BREAK && n->body->list.items[i]->b)
      bind_names(c, n->body->list.items[i]->b);
}

// Names are bound as elaboration binds them: by statements, to the end of their block; a 'when' opens none.
static void visit(void *context, const kiln_node *n) {
  checking *c = context;
  switch ((kiln_node_kind)n->kind) {
  case KILN_NODE_NAME: look_up(c, n); break;
  case KILN_NODE_CALL:
    look_up(c, n);
    kiln_elab_check_form(&c->e, n);
    each_of(n->list, visit, c);
    break;
  case KILN_NODE_NAMED: // words of operations are no names
    if (n->a->kind != KILN_NODE_NAME) visit(c, n->a);
    break;
  case KILN_NODE_LET:
  case KILN_NODE_VAR:
    each_child(n, visit, c);
    bind_names(c, n);
    break;
  case KILN_NODE_BLOCK: visit_block(c, n); break;
  case KILN_NODE_WHEN:
    visit(c, n->a);
    each_of(n->body->list, visit, c);
    if (n->c) each_of(n->c->list, visit, c);
    break;
  case KILN_NODE_FOR:
  case KILN_NODE_WHILE:
  case KILN_NODE_LOOP: visit_loop(c, n); break;
  default: each_child(n, visit, c); break;
  }
}

void kiln_native_check_unused(kiln_native_unit *u, kiln_diagnostics *d) {
  kiln_module *module = u->module;
  checking c = {0};
  module->atoms.mark++;
  for (uint32_t i = 0; i < module->item_count; i++) {
    const kiln_item *item = module->items[i];
    if (item->kind == KILN_ITEM_FN || item->broken) continue;
    each_of(item->attributes, reach, module);
    if (item->value) reach(module, item->value);
    if (item->body) reach(module, item->body);
    if (item->launches) reach(module, item->launches);
  }
  kiln_elab_init(&c.e, u->unit.arena, module, d, NULL);
  c.e.library = u->library;
  for (uint32_t i = 0; i < module->item_count; i++) {
    const kiln_item *item = module->items[i];
    if (item->kind != KILN_ITEM_FN || item->broken || item->atom->mark == module->atoms.mark) continue;
    c.local_count = 0;
    for (uint32_t j = 0; j < item->params.count; j++) bind(&c, item->params.items[j]->atom);
    visit_block(&c, item->body);
  }
  u->library = c.e.library;
}
