// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes integer division and shifts safe for machines: after this pass no divisor is 0, no smallest integer
// is divided by -1, and no shift count reaches the width. The language leaves the quotient by zero open and
// wraps the other; hardware and LLVM do worse.
//
// Needs no views; runs once. Uses ranges, so that most divisions stay as they are.
#include "compiler/analysis/facts.h"
#include "compiler/passes/pass.h"

typedef struct guarding {
  kiln_facts *facts;
  ir_builder b;
} guarding;

static ir_value *like(guarding *g, const ir_value *v, double n) { return ir_const_like(&g->b, v->type, n); }

static uint8_t least_divisibility(const kiln_fact *f, ir_type type) {
  uint8_t least = f->divisibility[0];
  for (unsigned i = 1; i < type.rank; i++)
    if (f->divisibility[i] < least) least = f->divisibility[i];
  for (unsigned i = 0; i < type.rank; i++)
    if (f->contiguity[i]) return 0;
  return least;
}

static bool excludes(const kiln_fact *f, ir_type type, int64_t n) {
  return f->lo > n || f->hi < n || (n & 1 && least_divisibility(f, type));
}

static ir_value *guard_division(guarding *g, ir_op *op) {
  ir_value *a = op->operands[0], *b = op->operands[1];
  const kiln_fact *fa = kiln_fact_of(g->facts, a), *fb = kiln_fact_of(g->facts, b);
  int64_t smallest = a->type.scalar == KILN_I64 ? INT64_MIN : -((int64_t)1 << (ir_type_bits(a->type) - 1));
  bool zero = !excludes(fb, b->type, 0);
  bool wraps =
      !(op->attrs.flags & IR_UNSIGNED) && !excludes(fb, b->type, -1) && !excludes(fa, a->type, smallest);
  if (!zero && !wraps) return NULL;
  ir_value *bad = zero ? ir_compare(&g->b, IR_EQ, 0, b, like(g, b, 0)) : NULL;
  ir_value *minus = wraps ? ir_compare(&g->b, IR_EQ, 0, b, like(g, b, -1)) : NULL;
  ir_value *either = bad && minus ? ir_binary(&g->b, IR_OR, 0, bad, minus) : bad ? bad : minus;
  // What stands for the divisor of a tile is a multiple of what the divisor is a multiple of: runs stay runs.
  unsigned even = wraps || !b->type.rank ? 0 : least_divisibility(fb, b->type),
           most = ir_type_bits(b->type) - 2;
  double other = (double)((int64_t)1 << (even < most ? even : most));
  ir_value *divisor = ir_ternary(&g->b, IR_SELECT, 0, either, like(g, b, other), b);
  ir_value *quotient = ir_binary(&g->b, op->code, op->attrs.flags, a, divisor);
  if (!wraps) return quotient;
  ir_value *by_minus = op->code == IR_DIV ? ir_binary(&g->b, IR_SUB, 0, like(g, a, 0), a) : like(g, a, 0);
  return ir_ternary(&g->b, IR_SELECT, 0, minus, by_minus, quotient);
}

static ir_value *guard_shift(guarding *g, ir_op *op) {
  ir_value *count = op->operands[1];
  unsigned width = ir_type_bits(count->type);
  if (kiln_fact_within(kiln_fact_of(g->facts, count), 0, width - 1)) return NULL;
  ir_value *cut = ir_binary(&g->b, IR_AND, 0, count, like(g, count, width - 1));
  return ir_binary(&g->b, op->code, op->attrs.flags, op->operands[0], cut);
}

kiln_status kiln_pass_guard(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  kiln_arena *scratch = kiln_arena_create();
  guarding g = {.facts = kiln_facts_compute(scratch, kernel), .b = {.arena = kernel->arena}};
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    bool divides = op->code == IR_DIV || op->code == IR_REM,
         shifts = op->code == IR_SHL || op->code == IR_SHR;
    if ((!divides && !shifts) || ir_type_class(op->operands[0]->type) != KILN_CLASS_INT) continue;
    ir_build_before(&g.b, op);
    for (uint32_t i = 0; i < 2; i++) op->operands[i] = ir_resolve(op->operands[i]);
    ir_value *v = divides ? guard_division(&g, op) : guard_shift(&g, op);
    if (!v) continue;
    ir_forward(&op->results[0], v);
    ir_remove(op);
    context->changed = true;
  }
  ir_apply_forwards(kernel);
  kiln_arena_destroy(scratch);
  return KILN_OK;
}
