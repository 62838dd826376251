// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warns about stages of a pipeline that no loop of the kernel can be, and about a load through a parameter
// after a store through the same one with no barrier() between: an element that another lane stored may not
// be seen yet. A load at the very pointer of the store is a lane's own element and is left alone.
//
// Needs a built kernel with places; changes nothing but the numbers of loads it has warned about.
#include <stdio.h>
#include <string.h>

#include "compiler/analysis/provenance.h"
#include "compiler/front/native.h"

enum { WARNED = UINT32_MAX };

typedef struct tracker {
  kiln_arena *arena;
  kiln_diagnostics *d;
  const char *file;
  const ir_kernel *kernel;
  const ir_op **stores; ///< by parameter: the last store since a barrier, or NULL
} tracker;

static bool is_said(const kiln_diagnostics *d, ir_place place, const char *text) {
  for (uint32_t i = 0; i < d->count; i++)
    if (d->items[i].line == place.line && d->items[i].column == place.column &&
        !strcmp(d->items[i].text, text))
      return true;
  return false;
}

static void warn(tracker *t, ir_op *load, const ir_op *store, int param) {
  char text[300];
  if (load->number == WARNED) return;
  load->number = WARNED;
  snprintf(text, sizeof text,
           "load through '%.80s' after the store through it at line %u without barrier() between: what "
           "another lane stored may not be seen",
           t->kernel->params[param].name, store->place.line);
  if (is_said(t->d, load->place, text)) return; // by another config of the same source
  kiln_diagnose(t->d, KILN_WARNING, t->file, load->place, "%s", text);
}

static void visit_block(tracker *t, const ir_block *block);

// Both sides start from the same state; what either stored stays.
static void visit_sides(tracker *t, const ir_op *op) {
  size_t size = t->kernel->param_count * sizeof *t->stores;
  const ir_op **before = kiln_arena_copy(t->arena, t->stores, size), **after;
  visit_block(t, op->regions[0]);
  after = kiln_arena_copy(t->arena, t->stores, size);
  memcpy(t->stores, before, size);
  visit_block(t, op->regions[1]);
  for (uint32_t i = 0; i < t->kernel->param_count; i++)
    if (!t->stores[i]) t->stores[i] = after[i];
}

static void visit(tracker *t, ir_op *op) {
  int param = op->operand_count ? kiln_param_behind(op->operands[0]) : -1;
  switch (op->code) {
  case IR_BARRIER: memset(t->stores, 0, t->kernel->param_count * sizeof *t->stores); break;
  case IR_STORE:
  case IR_VIEW_STORE:
    if (param >= 0) t->stores[param] = op;
    break;
  case IR_LOAD:
  case IR_VIEW_LOAD:
    if (param >= 0 && t->stores[param] && t->stores[param]->operands[0] != op->operands[0])
      warn(t, op, t->stores[param], param);
    break;
  case IR_IF: visit_sides(t, op); break;
  case IR_FOR:
  case IR_WHILE:
    for (unsigned round = 0; round < 2; round++) // the second time round sees what the first stored
      for (uint32_t i = 0; i < op->region_count; i++) visit_block(t, op->regions[i]);
    break;
  default: break;
  }
}

static void visit_block(tracker *t, const ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) visit(t, op);
}

// -------------------------------------------------------------------------------------- pipelines

typedef struct loop_content {
  bool loads, multiplies, writes;
} loop_content;

static void note_content(ir_op *op, void *context) {
  loop_content *c = context;
  c->loads |= op->code == IR_LOAD || op->code == IR_VIEW_LOAD;
  c->multiplies |= op->code == IR_DOT;
  c->writes |= op->code == IR_BARRIER || (ir_ops[op->code].effect == IR_WRITE && op->code != IR_ASSERT);
}

typedef struct pipelines {
  kiln_diagnostics *d;
  const char *file;
  bool any; ///< a loop that can be one
} pipelines;

static const char no_effect[] =
    "stages = %u has no effect: only a 'for' that loads operands of a 'dot' and writes "
    "nothing becomes a pipeline";

static void warn_of_stages(const pipelines *p, ir_place place, unsigned stages) {
  const char *text = kiln_arena_format(p->d->arena, no_effect, stages);
  if (!is_said(p->d, place, text)) kiln_diagnose(p->d, KILN_WARNING, p->file, place, "%s", text);
}

static void look_at_loop(ir_op *op, void *context) {
  pipelines *p = context;
  loop_content c = {0};
  if (op->code != IR_FOR && op->code != IR_WHILE) return;
  for (uint32_t i = 0; i < op->region_count; i++) ir_walk(op->regions[i], note_content, &c);
  bool fits = op->code == IR_FOR && c.loads && c.multiplies && !c.writes;
  p->any |= fits;
  if (op->attrs.stages > 1 && !fits) warn_of_stages(p, op->place, op->attrs.stages);
}

void kiln_native_warn_of_stages(const ir_kernel *kernel, const char *file, ir_place place,
                                kiln_diagnostics *d) {
  pipelines p = {.d = d, .file = file};
  ir_walk(kernel->body, look_at_loop, &p);
  if (kernel->stages > 1 && !p.any) warn_of_stages(&p, place, kernel->stages);
}

// ------------------------------------------------------------------------------------------- barrier

static bool too_deep(const ir_block *block, unsigned depth) {
  enum { DEEPEST = 6 };
  if (depth > DEEPEST) return true;
  for (const ir_op *op = block->first; op; op = op->next)
    for (uint32_t i = 0; i < op->region_count; i++)
      if (too_deep(op->regions[i], depth + ir_is_loop(op))) return true;
  return false;
}

void kiln_native_warn(const ir_kernel *kernel, const char *file, kiln_diagnostics *d) {
  if (too_deep(kernel->body, 0)) return; // each level doubles the walk; nobody writes that many
  tracker t = {.arena = kernel->arena, .d = d, .file = file, .kernel = kernel};
  t.stores = KILN_NEW_ARRAY(kernel->arena, const ir_op *, kernel->param_count);
  visit_block(&t, kernel->body);
}
