// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums are exact, what the source computes in 32 bits wraps around. Where ranges do not show that a sum, a
// product or a shift of 32 bits is the number that it is taken for, the launch tests it, for the lanes that
// the access has:
//
//   row * stride          (extent - 1) * stride <= 2^31 - 1, where a mask or a modulo keeps rows below extent
//   lane * stride         (lanes - 1) * stride <= 2^31 - 1
//
// What rests on the program's number is known by its range alone (middle/grid.c bounds it). A claim that the
// launch cannot test keeps the access what it was.
#include <string.h>

#include "base/expr.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/recover/recover_inner.h"

static bool add_claim(recovering *r, const sum *s) {
  for (unsigned i = 0; i < r->claim_count; i++)
    if (sum_is_equal(&r->claims[i], s)) return true;
  if (r->claim_count == MOST_CLAIMS) return false;
  r->claims[r->claim_count++] = *s;
  return true;
}

bool recover_claim(recovering *r, const ir_op *op, const sum *s) {
  return op->results[0].type.scalar != KILN_I32 || kiln_fact_does_not_wrap(r->facts, op) || add_claim(r, s);
}

bool recover_claim_carried(recovering *r, const ir_value *v, const sum *s) {
  return v->type.pointer || v->type.scalar != KILN_I32 || add_claim(r, s);
}

// -------------------------------------------------------------------------------------------- bounds

/// Between what the launch knows and numbers: lo + low .. hi + high; NULL is 0.
typedef struct bounds {
  ir_value *lo, *hi;
  __int128 low, high;
} bounds;

static ir_value *added(recovering *r, ir_value *a, ir_value *b) {
  return !a ? b : !b ? a : ir_binary(&r->b, IR_ADD, 0, a, b);
}

static ir_value *zero(recovering *r) { return ir_const_int(&r->b, KILN_I64, 0); }

/// Adds `by` times a number from `least` to `most`, which the launch knows or `most` NULL: from 0 to `last`.
static bool add_multiple(recovering *r, const term *by, const sum *most, int64_t last, bounds *out) {
  sum factor = sum_of_term(by), end = most ? *most : sum_constant(last), product;
  if (!sum_multiply(&factor, &end, &product)) return false;
  if (!by->count && !most) {
    out->high += by->factor > 0 ? (__int128)by->factor * last : 0;
    out->low += by->factor < 0 ? (__int128)by->factor * last : 0;
    return true;
  }
  ir_value *value = recover_emit_sum(r, &product, false);
  if (!value) return false;
  if (recover_is_never_negative(r, &factor)) {
    out->hi = added(r, out->hi, value);
    return true;
  }
  out->hi = added(r, out->hi, ir_binary(&r->b, IR_MAX, 0, value, zero(r)));
  out->lo = added(r, out->lo, ir_binary(&r->b, IR_MIN, 0, value, zero(r)));
  return true;
}

/// Takes `by` times the axis' index out of the sum, where that is all in it.
static bool take_index(const term *by, const limit *at, sum *rest) {
  sum factor = sum_of_term(by), product, without;
  if (!at->is_set || !at->index.count || !sum_multiply(&factor, &at->index, &product)) return false;
  if (!sum_difference(rest, &product, &without) || without.count + product.count != rest->count) return false;
  *rest = without;
  return true;
}

/// The lanes of one axis with the index that the mask bounds together with them.
static bool add_axis(recovering *r, unsigned axis, const limit *at, unsigned log2, sum *rest, bounds *out) {
  for (unsigned i = 0; i < rest->count; i++) {
    term by = rest->terms[i];
    if (!by.lane || (by.lane & ~(unsigned)MODULO) != LANE + axis) continue;
    const bool is_rest = by.lane & MODULO;
    rest->terms[i] = rest->terms[--rest->count];
    by.lane = 0;
    sum factor = sum_of_term(&by), last = at->extent, one = sum_constant(-1);
    if (!recover_is_known_at_launch(r, &factor)) return false;
    if (!take_index(&by, at, rest))
      return !is_rest && add_multiple(r, &by, NULL, ((int64_t)1 << log2) - 1, out);
    return sum_add(&last, &one, 1) && add_multiple(r, &by, &last, 0, out);
  }
  return true;
}

/// A number within its range, times what the launch knows.
static bool add_product(recovering *r, const term *t, bounds *out) {
  enum { MOST = 1 << 16 }; // more would refuse launches that are right
  term by = {.factor = t->factor}, number = {.factor = 1};
  __int128 low, high;
  for (unsigned k = 0; k < t->count; k++) {
    const sum one = sum_atom(t->atoms[k]);
    term *to = recover_is_known_at_launch(r, &one) ? &by : &number;
    to->atoms[to->count++] = t->atoms[k];
  }
  const sum numbers = sum_of_term(by.count ? &number : t);
  recover_bounds(r, &numbers, &low, &high);
  if (by.count) return low >= 0 && high <= MOST && add_multiple(r, &by, NULL, (int64_t)high, out);
  out->low += low, out->high += high;
  return true;
}

/// What has no lanes: known at launch, or within its range.
static bool add_rest(recovering *r, const sum *rest, bounds *out) {
  sum launch, others;
  if (!recover_split(r, rest, &launch, &others)) return false;
  for (unsigned i = 0; i < others.count; i++)
    if (!add_product(r, &others.terms[i], out)) return false;
  if (!launch.count) return true;
  ir_value *value = recover_emit_sum(r, &launch, false);
  out->lo = added(r, out->lo, value), out->hi = added(r, out->hi, value);
  return value != NULL;
}

// ---------------------------------------------------------------------------------------- conditions

/// value + slack <= INT32_MAX, or >= INT32_MIN.
static bool test(recovering *r, const ir_value *value, __int128 slack, bool is_upper) {
  const __int128 end = is_upper ? INT32_MAX - slack : INT32_MIN - slack;
  if (!value) return is_upper ? end >= 0 : end <= 0;
  if (is_upper ? end < 0 : end > 0) return false; // it could hardly hold
  return kiln_add_condition(r->kernel, value, is_upper ? KILN_EXPR_LE : KILN_EXPR_GE, (int64_t)end);
}

static bool test_claim(recovering *r, const sum *claim, const limit limits[RANK], ir_type tile) {
  bounds b = {0};
  sum rest = *claim;
  memset(rest.modulo, 0, sizeof rest.modulo);
  for (unsigned a = 0; a < RANK; a++)
    if (!add_axis(r, a, &limits[a], a < tile.rank ? tile.log2[a] : 0, &rest, &b)) return false;
  return add_rest(r, &rest, &b) && test(r, b.hi, b.high, true) && test(r, b.lo, b.low, false);
}

bool recover_test_claims(recovering *r, const ir_op *access, const limit limits[RANK], ir_type tile) {
  const ir_op *outermost = access;
  while (outermost->block->parent) outermost = outermost->block->parent;
  r->b.block = r->kernel->body, r->b.before = (ir_op *)outermost, r->b.place = access->place;
  const uint32_t conditions = r->kernel->tests.condition_count;
  bool are_tested = true;
  for (unsigned i = 0; i < r->claim_count && are_tested; i++)
    are_tested = test_claim(r, &r->claims[i], limits, tile);
  r->claim_count = 0;
  r->has_failed |= !are_tested;
  if (!are_tested) r->kernel->tests.condition_count = conditions;
  return are_tested;
}
