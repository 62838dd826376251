// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows pointers and views back to the parameters that they may come from.
#include "compiler/analysis/provenance.h"

static bool points(const ir_value *v) { return v->type.pointer || v->type.is_view; }

/// The only operand that `op` passes on; NULL where there is none or more than one.
static const ir_value *passed(const ir_op *op) {
  const ir_value *only = NULL;
  if (!ir_has(op->code, IR_PASSES)) return NULL;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    if (!points(op->operands[i])) continue;
    if (only) return NULL;
    only = op->operands[i];
  }
  return only;
}

int kiln_param_of(const ir_value *v) {
  while (v && v->def) v = passed(v->def);
  return v && !v->block->parent ? (int)v->index : -1;
}

/// To as many bits or more, as signed numbers.
static bool keeps_number(const ir_op *cast) {
  const ir_type from = cast->operands[0]->type, to = cast->results[0].type;
  return !(cast->attrs.flags & IR_UNSIGNED) && ir_type_class(from) == KILN_CLASS_INT &&
         ir_type_class(to) == KILN_CLASS_INT && ir_type_bits(from) <= ir_type_bits(to);
}

const ir_value *kiln_behind(const ir_value *v) {
  while (v->def && (v->def->code == IR_HINT || v->def->code == IR_CONVERT ||
                    (v->def->code == IR_CAST && keeps_number(v->def))))
    v = v->def->operands[0];
  return v;
}

// ------------------------------------------------------------------------------------- all sources

kiln_sources kiln_sources_of(kiln_arena *arena, ir_kernel *kernel) {
  return (kiln_sources){.arena = arena, .seen = KILN_NEW_ARRAY(arena, uint32_t, ir_number(kernel) + 1u)};
}

static void meet(kiln_sources *s, const ir_value *v) {
  if (!points(v) || s->seen[v->id] == s->search) return;
  s->seen[v->id] = s->search;
  KILN_GROW(s->arena, s->found, s->count, s->capacity);
  s->found[s->count++] = v;
}

static void meet_carried(kiln_sources *s, const ir_op *loop, uint32_t i) {
  meet(s, ir_loop_initials(loop)[i]);
  meet(s, ir_loop_next(loop)->operands[i]);
}

void kiln_visit_sources(kiln_sources *s, const ir_value *v, kiln_source_visit *visit, void *context) {
  s->search++;
  s->count = 0;
  meet(s, v);
  for (uint32_t i = 0; i < s->count; i++) {
    v = s->found[i];
    const ir_op *op = v->def, *outer = op ? NULL : v->block->parent;
    bool is_first = op ? op->code != IR_IF && !ir_is_loop(op) : !outer;
    if (op) {
      for (uint32_t k = 0; ir_has(op->code, IR_PASSES) && k < op->operand_count; k++) {
        is_first &= !points(op->operands[k]);
        meet(s, op->operands[k]);
      }
      switch (op->code) {
      case IR_IF:
        for (unsigned which = 0; which < 2; which++) meet(s, ir_if_end(op, which)->operands[v->index]);
        break;
      case IR_FOR: meet_carried(s, op, v->index); break;
      case IR_WHILE: meet(s, ir_cond_passed(ir_while_test(op))[v->index]); break;
      default: break;
      }
    } else if (outer && ir_is_loop(outer) && v->block == outer->regions[0])
      meet_carried(s, outer, v->index - ir_loop_counters(outer));
    else if (outer && ir_is_loop(outer)) meet(s, ir_cond_passed(ir_while_test(outer))[v->index]);
    if (is_first) visit(v, context);
  }
}
