// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranges allow: offsets and comparisons in 32 bits, comparisons that are always or never true, signed
// division of what is not negative as unsigned division. What every program assumes stays as it is, since the
// ranges of later passes rest on it, and is true wherever else it is used.
//
// Needs no views. Keeps every value; makes narrow copies next to wide ones and leaves what is then unused to
// DCE.
#include "compiler/analysis/facts.h"
#include "compiler/passes/pass.h"

typedef struct narrowing {
  kiln_facts *facts;
  ir_builder b;
  uint32_t count;   ///< of values when this began
  bool *is_claimed; ///< by value
  bool changed;
} narrowing;

static bool fits_i32(const narrowing *n, const ir_value *v) {
  return v->type.scalar == KILN_I64 && !v->type.pointer &&
         kiln_fact_within(kiln_fact_of(n->facts, v), INT32_MIN, INT32_MAX);
}

/// The low 32 bits of such operations follow from the low 32 bits of their operands.
static bool is_modular(ir_opcode code) {
  return code == IR_ADD || code == IR_SUB || code == IR_MUL || code == IR_AND || code == IR_OR ||
         code == IR_XOR;
}

/// The low half of an i64 value, made next to its definition and remembered in its slot.
static ir_value *low_half(narrowing *n, ir_value *v);

static ir_value *low_half_made(narrowing *n, ir_op *op, ir_value *v) {
  ir_value *halves[2];
  ir_type type = ir_with_element(v->type, ir_scalar_type(KILN_I32));
  // Only what fits itself is computed narrow: a partial sum that wraps would not be the exact value that
  // facts take offsets for.
  bool same = op && fits_i32(n, v) && (is_modular(op->code) || ir_is_renaming(op));
  if (op && op->code == IR_CAST && op->operands[0]->type.scalar == KILN_I32) return op->operands[0];
  for (uint32_t i = 0; same && i < op->operand_count; i++) halves[i] = low_half(n, op->operands[i]);
  ir_builder *b = &n->b;
  if (op) {
    b->block = op->block;
    b->before = op->next;
    b->place = op->place;
  } else {
    b->block = v->block;
    b->before = v->block->first;
  }
  if (op && op->code == IR_CONST) return ir_const_bits(b, type, op->attrs.bits);
  if (!same) return ir_cast(b, v, KILN_I32, 0, 0);
  ir_op *narrow = ir_emit(b, op->code, &op->attrs, halves, op->operand_count, &type, NULL, 0);
  return narrow ? &narrow->results[0] : NULL;
}

static ir_value *low_half(narrowing *n, ir_value *v) {
  KILN_ASSERT(v->type.scalar == KILN_I64 && !v->type.pointer);
  if (!v->slot) v->slot = low_half_made(n, v->def, v);
  return v->slot;
}

/// 1 always, 0 never, -1 unknown.
static int decided(const ir_op *op, const kiln_fact *a, const kiln_fact *b) {
  switch ((ir_predicate)op->attrs.kind) {
  case IR_LT: return a->hi < b->lo ? 1 : a->lo >= b->hi ? 0 : -1;
  case IR_GE: return a->lo >= b->hi ? 1 : a->hi < b->lo ? 0 : -1;
  case IR_LE: return a->hi <= b->lo ? 1 : a->lo > b->hi ? 0 : -1;
  case IR_GT: return a->lo > b->hi ? 1 : a->hi <= b->lo ? 0 : -1;
  case IR_EQ: return a->hi < b->lo || a->lo > b->hi ? 0 : -1;
  case IR_NE: return a->hi < b->lo || a->lo > b->hi ? 1 : -1;
  }
  return -1;
}

static void narrow_compare(narrowing *n, ir_op *op) {
  ir_value *left = op->operands[0], *right = op->operands[1];
  const kiln_fact *a = kiln_fact_of(n->facts, left), *b = kiln_fact_of(n->facts, right);
  if (ir_type_class(left->type) != KILN_CLASS_INT) return;
  if ((op->attrs.flags & IR_UNSIGNED) && (a->lo < 0 || b->lo < 0)) return;
  int known = decided(op, a, b);
  if (known >= 0) {
    n->b.block = op->block;
    n->b.before = op;
    ir_forward(&op->results[0], ir_const_like(&n->b, op->results[0].type, known));
    ir_remove(op);
    n->changed = true;
  } else if (fits_i32(n, left) && fits_i32(n, right)) {
    op->operands[0] = low_half(n, left);
    op->operands[1] = low_half(n, right);
    n->changed = true;
  }
}

/// Signed division of what is not negative is unsigned division, and one of two numbers that fit 32 bits is many times
/// cheaper there. INT32_MIN / -1 does not fit.
static void narrow_division(narrowing *n, ir_op *op) {
  const kiln_fact *a = kiln_fact_of(n->facts, op->operands[0]), *b = kiln_fact_of(n->facts, op->operands[1]);
  if (ir_type_class(op->operands[0]->type) != KILN_CLASS_INT) return;
  if (!(op->attrs.flags & IR_UNSIGNED) && a->lo >= 0 && b->lo >= 0) {
    op->attrs.flags |= IR_UNSIGNED;
    n->changed = true;
  }
  if (!fits_i32(n, op->operands[0]) || !fits_i32(n, op->operands[1])) return;
  const bool is_unsigned = op->attrs.flags & IR_UNSIGNED;
  if (is_unsigned ? a->lo < 0 || b->lo < 0 : a->lo == INT32_MIN && b->lo <= -1 && b->hi >= -1) return;
  ir_value *left = low_half(n, op->operands[0]), *right = low_half(n, op->operands[1]);
  ir_build_before(&n->b, op);
  ir_value *narrow = ir_binary(&n->b, op->code, op->attrs.flags, left, right);
  ir_forward(&op->results[0], ir_cast(&n->b, narrow, KILN_I64, 0, 0));
  ir_remove(op);
  n->changed = true;
}

static bool claims(const narrowing *n, const ir_value *v) { return v->id < n->count && n->is_claimed[v->id]; }

/// An assume's condition and, where that is a conjunction, its parts.
static void note_claim(narrowing *n, const ir_value *v) {
  if (!v->def) return;
  n->is_claimed[v->id] = true;
  for (uint32_t i = 0; v->def->code == IR_AND && i < 2; i++) note_claim(n, v->def->operands[i]);
}

static ir_value *truth(narrowing *n, ir_value *claimed) {
  ir_build_before(&n->b, claimed->def);
  if (!claimed->slot) claimed->slot = ir_const_like(&n->b, claimed->type, 1);
  n->changed = true;
  return claimed->slot;
}

kiln_status kiln_pass_narrow(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  kiln_arena *scratch = kiln_arena_create();
  narrowing n = {.facts = kiln_facts_compute(scratch, kernel), .b = {.arena = kernel->arena}};
  n.count = ir_number(kernel);
  n.is_claimed = KILN_NEW_ARRAY(scratch, bool, n.count + 1u);
  for (const ir_op *op = kernel->body->first; op; op = op->next)
    if (op->code == IR_ASSUME) note_claim(&n, op->operands[0]);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    bool is_claim = op->code == IR_ASSUME || (op->result_count && claims(&n, &op->results[0]));
    for (uint32_t i = 0; i < op->operand_count; i++) {
      ir_value *v = op->operands[i] = ir_resolve(op->operands[i]);
      if (!is_claim && claims(&n, v)) op->operands[i] = truth(&n, v);
    }
    if (is_claim) continue;
    if (op->code == IR_PTRADD && fits_i32(&n, op->operands[1])) {
      op->operands[1] = low_half(&n, op->operands[1]);
      n.changed = true;
    }
    if (op->code == IR_CMP) narrow_compare(&n, op);
    if (op->code == IR_DIV || op->code == IR_REM) narrow_division(&n, op);
  }
  ir_apply_forwards(kernel);
  kiln_arena_destroy(scratch);
  context->changed |= n.changed;
  return KILN_OK;
}
