// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warns about stages of a pipeline that no loop of the kernel can be, and about iterations that cannot be
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

// ------------------------------------------------------------------------------- attributes of loops

typedef struct loop_content {
  bool loads, multiplies, writes;
} loop_content;

static void note_content(ir_op *op, void *context) {
  loop_content *c = context;
  c->loads |= op->code == IR_LOAD || op->code == IR_VIEW_LOAD;
  c->multiplies |= op->code == IR_DOT;
  bool adds = op->code == IR_VIEW_ATOMIC; // compiler/gpu/promote.c: the copy engine does it
  c->writes |=
      op->code == IR_BARRIER || (ir_ops[op->code].effect == IR_WRITE && op->code != IR_ASSERT && !adds);
}

/// A pipeline, if it has stages.
static bool can_be_pipeline(const ir_op *loop) {
  loop_content c = {0};
  for (uint32_t i = 0; i < loop->region_count; i++) ir_walk(loop->regions[i], note_content, &c);
  return loop->code == IR_FOR && c.loads && c.multiplies && !c.writes;
}

/// What is carried comes back as itself and products added to it: what compiler/gpu/split.c asks, as far as
/// the text shows it.
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
    "only a 'for' that loads operands of a 'dot' and writes nothing becomes a pipeline";

static void look_at_loop(ir_op *op, void *context) {
  loops *l = context;
  if (op->code != IR_FOR && op->code != IR_WHILE) return;
  bool fits = can_be_pipeline(op);
  const char *why = op->attrs.split > 1 ? why_not_shared(l->kernel, op) : NULL;
  l->any |= fits;
  if (op->attrs.stages > 1 && !fits) warn_of(l, op->place, "stages", op->attrs.stages, no_pipeline);
  if (why) warn_of(l, op->place, "split", op->attrs.split, why);
}

void kiln_native_warn_of_loops(const ir_kernel *kernel, const char *file, ir_place place,
                               kiln_diagnostics *d) {
  loops l = {.kernel = kernel, .d = d, .file = file};
  ir_walk(kernel->body, look_at_loop, &l);
  if (kernel->stages > 1 && !l.any) warn_of(&l, place, "stages", kernel->stages, no_pipeline);
}
