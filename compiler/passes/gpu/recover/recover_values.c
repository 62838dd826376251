// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of the kernel as sums.
#include <string.h>

#include "compiler/passes/gpu/recover/recover_inner.h"

/// Lanes and moduli of axis `i` go to axis `to[i]`; RANK: there must be none.
static bool move_axes(sum *s, const unsigned to[RANK]) {
  const ir_op *modulo[RANK] = {NULL};
  for (unsigned i = 0; i < RANK; i++) {
    if (!s->modulo[i]) continue;
    if (to[i] >= RANK) return false;
    modulo[to[i]] = s->modulo[i];
  }
  memcpy(s->modulo, modulo, sizeof modulo);
  for (unsigned i = 0; i < s->count; i++) {
    unsigned lane = s->terms[i].lane, axis = (lane & ~(unsigned)MODULO) - LANE;
    if (!lane) continue;
    if (to[axis] >= RANK) return false;
    s->terms[i].lane = (LANE + to[axis]) | (lane & MODULO);
  }
  return true;
}

static bool sum_of_expand(recovering *r, const ir_op *op, sum *out) {
  unsigned to[RANK];
  for (unsigned i = 0; i < RANK; i++) to[i] = i < op->attrs.axis ? i : i + 1;
  return recover_sum(r, op->operands[0], out) && move_axes(out, to);
}

static bool sum_of_broadcast(recovering *r, const ir_op *op, sum *out) {
  ir_type from = op->operands[0]->type, type = op->results[0].type;
  unsigned to[RANK];
  if (type.rank > RANK) return false;
  for (unsigned i = 0; i < RANK; i++) to[i] = i < type.rank && from.log2[i] == type.log2[i] ? i : RANK;
  return recover_sum(r, op->operands[0], out) && move_axes(out, to);
}

static bool sum_of_trans(recovering *r, const ir_op *op, sum *out) {
  unsigned to[RANK];
  if (op->results[0].type.rank != RANK) return false;
  for (unsigned i = 0; i < RANK; i++) to[op->attrs.perm[i]] = i;
  return recover_sum(r, op->operands[0], out) && move_axes(out, to);
}

/// Products of 64 bits may be large; what is of 32 bits is not.
static bool widen(ir_type type, sum *s) {
  for (unsigned i = 0; i < s->count && type.scalar == KILN_I64; i++) s->terms[i].is_wide = true;
  return true;
}

static bool sum_of_binary(recovering *r, const ir_op *op, sum *out) {
  sum right;
  if (!recover_sum(r, op->operands[0], out) || !recover_sum(r, op->operands[1], &right)) return false;
  const bool is_sum = op->code == IR_MUL ? sum_multiply(out, &right, out) && widen(op->results[0].type, out)
                                         : sum_add(out, &right, op->code == IR_SUB ? -1 : 1);
  return is_sum && (op->code == IR_PTRADD || recover_claim(r, op, out));
}

static bool sum_of_shift(recovering *r, const ir_op *op, sum *out) {
  int64_t by;
  if (!ir_constant_int(op->operands[1], &by) || by < 0 || by > 30) return false;
  sum factor = sum_constant((int64_t)1 << by);
  return recover_sum(r, op->operands[0], out) && sum_multiply(out, &factor, out) && recover_claim(r, op, out);
}

bool recover_modulo_parts(const ir_op *op, modulo_parts *out) {
  const ir_op *test = op->code == IR_SELECT ? op->operands[0]->def : op;
  bool is_turned = false;
  *out = (modulo_parts){.more = 0};
  if (!test || test->attrs.flags & IR_UNSIGNED) return false;
  if (op->code == IR_SELECT) {
    if (test->code != IR_CMP || test->attrs.kind == IR_EQ || test->attrs.kind == IR_NE) return false;
    is_turned = test->attrs.kind == IR_GT || test->attrs.kind == IR_GE;
    out->more = test->attrs.kind == IR_LE || test->attrs.kind == IR_GE;
  } else if (op->code == IR_MIN) {
    is_turned = ir_splat_source(op->operands[0]) != NULL;
    out->more = 1;
  }
  out->of = test->operands[is_turned];
  out->bound = test->operands[!is_turned];
  return test == op || op->operands[1] == out->of;
}

/// (lane + row) % extent of one axis, or another number where it is not below the extent: the lanes are marked.
static bool sum_of_modulo(recovering *r, const ir_op *op, sum *out) {
  modulo_parts parts;
  if (op->results[0].type.rank != 1 || !recover_modulo_parts(op, &parts)) return false;
  if (!recover_sum(r, parts.of, out) || out->modulo[0]) return false;
  unsigned lanes = 0;
  for (unsigned i = 0; i < out->count; i++) {
    term *t = &out->terms[i];
    if (!t->lane) continue;
    if (t->factor != 1 || t->count) return false;
    t->lane |= MODULO;
    lanes++;
  }
  out->modulo[0] = op;
  return lanes == 1;
}

static bool is_defined_in(const ir_value *v, const ir_op *loop) {
  const ir_op *at = v->def ? v->def : v->block->parent;
  for (; at; at = at->block->parent)
    if (at == loop) return true;
  return false;
}

/// What a loop carries and advances by the same amount each turn: initial + (counter - lower) / step *
/// amount.
static bool sum_of_carried(recovering *r, const ir_value *v, sum *out) {
  const ir_op *loop = v->block->parent;
  int64_t step;
  if (!loop || loop->code != IR_FOR || v->index == 0 || r->opaque) return false;
  if (!ir_constant_int(ir_for_step(loop), &step) || step < 1) return false;
  sum next, amount, self = sum_atom(v), lower, turns;
  r->opaque = v;
  bool is_sum = recover_sum(r, ir_loop_next(loop)->operands[v->index - 1], &next);
  r->opaque = NULL;
  if (!is_sum || !sum_difference(&next, &self, &amount)) return false;
  for (unsigned i = 0; i < amount.count; i++) {
    const term *t = &amount.terms[i];
    if (t->lane || t->factor % step) return false;
    amount.terms[i].factor /= step;
    for (unsigned k = 0; k < t->count; k++)
      if (is_defined_in(t->atoms[k], loop)) return false;
  }
  turns = sum_atom(ir_for_counter(loop));
  return recover_sum(r, ir_for_lower(loop), &lower) && sum_add(&turns, &lower, -1) &&
         sum_multiply(&turns, &amount, &turns) &&
         widen(v->type.pointer ? ir_scalar_type(KILN_I64) : v->type, &turns) &&
         recover_sum(r, ir_loop_initials(loop)[v->index - 1], out) && sum_add(out, &turns, 1) &&
         recover_claim_carried(r, v, out);
}

/// Numbers that are surely not negative stay whole: what says so is known of them, not of their parts. Of a
/// difference in a mask the parts are wanted, an extent and an index.
static bool stays_whole(const recovering *r, const ir_value *v) {
  if (r->is_mask && v->def && v->def->code == IR_SUB) return false;
  return !v->type.rank && !v->type.pointer && kiln_fact_of(r->facts, v)->lo >= 0;
}

/// A hint that makes a number surely not negative stays whole, too.
static bool says_more(const recovering *r, const ir_op *hint) {
  const ir_value *of = hint->operands[0];
  return stays_whole(r, &hint->results[0]) && kiln_fact_of(r->facts, of)->lo < 0;
}

static bool sum_of_result(recovering *r, const ir_value *v, sum *out) {
  const ir_op *op = v->def;
  switch (op->code) {
  case IR_IOTA: *out = (sum){.count = 1, .terms = {{.factor = 1, .lane = LANE}}}; return true;
  case IR_HINT: return !says_more(r, op) && recover_sum(r, op->operands[0], out);
  case IR_SPLAT: return recover_sum(r, op->operands[0], out);
  case IR_CAST:
    return !(op->attrs.flags & IR_UNSIGNED) && op->operands[0]->type.scalar == KILN_I32 &&
           v->type.scalar == KILN_I64 && recover_sum(r, op->operands[0], out);
  case IR_EXPAND: return sum_of_expand(r, op, out);
  case IR_BROADCAST: return sum_of_broadcast(r, op, out);
  case IR_TRANS: return sum_of_trans(r, op, out);
  case IR_ADD:
  case IR_SUB: return !stays_whole(r, v) && sum_of_binary(r, op, out);
  case IR_MUL:
  case IR_PTRADD: return sum_of_binary(r, op, out);
  case IR_SHL: return sum_of_shift(r, op, out);
  case IR_REM:
  case IR_MIN:
  case IR_SELECT: return sum_of_modulo(r, op, out);
  default: return false;
  }
}

bool recover_sum(recovering *r, const ir_value *v, sum *out) {
  int64_t value;
  bool is_number = !v->type.pointer && (v->type.scalar == KILN_I32 || v->type.scalar == KILN_I64);
  if ((!is_number && v->type.pointer != 1) || v->type.is_view || v->type.rank > RANK) return false;
  if (is_number && ir_constant_int(v, &value)) {
    *out = sum_constant(value);
    return true;
  }
  if (v == r->opaque) {
    *out = sum_atom(v);
    return true;
  }
  if (r->depth == MOST_DEPTH) return false;
  const unsigned claims = r->claim_count;
  r->depth++;
  *out = (sum){0};
  bool is_sum = v->def ? sum_of_result(r, v, out) : sum_of_carried(r, v, out);
  r->depth--;
  if (!is_sum) r->claim_count = claims;
  if (is_sum || v->type.rank) return is_sum;
  *out = sum_atom(v);
  return true;
}
