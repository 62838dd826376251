// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What masks, and offsets taken modulo an extent, say of the axes of a tile.
#include "compiler/passes/gpu/recover/recover_inner.h"

/// `larger` - `smaller` > 0 bounds an axis: one lane with factor -1. True also when it always holds.
static bool limit_of(const recovering *r, const sum *larger, const sum *smaller, int64_t slack,
                     limit limits[RANK]) {
  sum rest = *larger, one = sum_constant(slack);
  const term *lane = NULL;
  if (!sum_add(&rest, smaller, -1) || !sum_add(&rest, &one, 1)) return false;
  for (unsigned a = 0; a < RANK; a++)
    if (rest.modulo[a]) return false;
  for (unsigned i = 0; i < rest.count; i++) {
    if (!rest.terms[i].lane) continue;
    if (lane) return false;
    lane = &rest.terms[i];
  }
  if (!lane || lane->count) return false;
  unsigned axis = lane->lane - LANE;
  term taken = *lane;
  taken.factor = -taken.factor;
  if (!sum_add_term(&rest, &taken)) return false;
  if (taken.factor == -1) { // lane + rest > 0
    sum at_first = rest, minus = sum_constant(-1);
    return sum_add(&at_first, &minus, 1) && recover_is_never_negative(r, &at_first);
  }
  limit found = {.is_set = true};
  if (taken.factor != 1 || !recover_split(r, &rest, &found.extent, &found.index)) return false;
  for (unsigned i = 0; i < found.index.count; i++) found.index.terms[i].factor *= -1;
  if (limits[axis].is_set)
    return sum_is_equal(&limits[axis].extent, &found.extent) &&
           sum_is_equal(&limits[axis].index, &found.index);
  limits[axis] = found;
  return true;
}

static bool limits_of_compare(recovering *r, const ir_op *op, limit limits[RANK]) {
  sum left, right;
  if (op->attrs.flags & IR_UNSIGNED || op->operands[0]->type.pointer) return false;
  r->is_mask = true;
  const bool are_sums = recover_sum(r, op->operands[0], &left) && recover_sum(r, op->operands[1], &right);
  r->is_mask = false;
  if (!are_sums) return false;
  switch (op->attrs.kind) {
  case IR_LT: return limit_of(r, &right, &left, 0, limits);
  case IR_LE: return limit_of(r, &right, &left, 1, limits);
  case IR_GT: return limit_of(r, &left, &right, 0, limits);
  case IR_GE: return limit_of(r, &left, &right, 1, limits);
  default: return false;
  }
}

static bool limits_of_moved(recovering *r, const ir_op *op, const unsigned to[RANK], limit limits[RANK]) {
  limit inner[RANK] = {{.is_set = false}};
  if (!recover_limits(r, op->operands[0], inner)) return false;
  for (unsigned i = 0; i < RANK; i++) {
    if (!inner[i].is_set) continue;
    if (to[i] >= RANK) return false;
    limit *at = &limits[to[i]];
    if (at->is_set &&
        !(sum_is_equal(&at->extent, &inner[i].extent) && sum_is_equal(&at->index, &inner[i].index)))
      return false;
    *at = inner[i];
  }
  return true;
}

bool recover_limits(recovering *r, const ir_value *mask, limit limits[RANK]) {
  const ir_op *op = mask->def;
  unsigned to[RANK] = {0, 1};
  uint64_t bits;
  if (ir_constant_bits(mask, &bits)) return bits == 1;
  if (!op || mask->type.rank > RANK || !mask->type.rank) return false;
  switch (op->code) {
  case IR_AND:
    return recover_limits(r, op->operands[0], limits) && recover_limits(r, op->operands[1], limits);
  case IR_CMP: return limits_of_compare(r, op, limits);
  case IR_EXPAND:
    for (unsigned i = 0; i < RANK; i++) to[i] = i < op->attrs.axis ? i : i + 1;
    return limits_of_moved(r, op, to, limits);
  case IR_BROADCAST:
    for (unsigned i = 0; i < RANK; i++)
      if (op->operands[0]->type.log2[i] != mask->type.log2[i]) to[i] = RANK;
    return limits_of_moved(r, op, to, limits);
  case IR_TRANS:
    for (unsigned i = 0; i < RANK && mask->type.rank == RANK; i++) to[op->attrs.perm[i]] = i;
    return limits_of_moved(r, op, to, limits);
  default: return false;
  }
}

bool recover_limit_of_modulo(recovering *r, const ir_op *op, limit *out) {
  sum index, lane = {.count = 1, .terms = {{.factor = 1, .lane = LANE}}};
  modulo_parts parts;
  *out = (limit){.is_set = true, .is_modulo = true};
  if (!recover_modulo_parts(op, &parts)) return false;
  const sum more = sum_constant(parts.more);
  return recover_sum(r, parts.of, &index) && sum_difference(&index, &lane, &out->index) &&
         recover_sum(r, parts.bound, &out->extent) && sum_add(&out->extent, &more, 1) &&
         recover_is_known_at_launch(r, &out->extent);
}
