// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warns about a load through a parameter after a store through the same one with no barrier() between: an
// element that another lane stored may not be seen yet. A load at the very pointer of the store is a lane's
// own element and is left alone.
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

static void warn(tracker *t, ir_op *load, const ir_op *store, int param) {
  char text[300];
  if (load->number == WARNED) return;
  load->number = WARNED;
  snprintf(text, sizeof text,
           "load through '%.80s' after the store through it at line %u without barrier() between: what "
           "another lane stored may not be seen",
           t->kernel->params[param].name, store->place.line);
  for (uint32_t i = 0; i < t->d->count; i++) // another config of the same source has said so
    if (t->d->items[i].line == load->place.line && t->d->items[i].column == load->place.column &&
        !strcmp(t->d->items[i].text, text))
      return;
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
