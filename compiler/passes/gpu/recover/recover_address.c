// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses of tiles of pointers as accesses of a view.
#include "compiler/passes/gpu/recover/recover_inner.h"

/// Takes the terms with lanes out of `rest`: their other factors are the strides of the axes.
static bool take_lanes(sum *rest, term strides[RANK]) {
  unsigned seen = 0;
  for (unsigned i = rest->count; i-- > 0;) {
    term t = rest->terms[i];
    if (!t.lane) continue;
    unsigned axis = (t.lane & ~(unsigned)MODULO) - LANE;
    if (seen & 1u << axis || !(t.lane & MODULO) != !rest->modulo[axis]) return false;
    seen |= 1u << axis;
    rest->terms[i] = rest->terms[--rest->count];
    t.lane = 0;
    strides[axis] = t;
  }
  return seen == 3;
}

bool recover_take_base(const recovering *r, sum *rest, const ir_value **out_base) {
  *out_base = NULL;
  for (unsigned i = rest->count; i-- > 0;) {
    const term *t = &rest->terms[i];
    bool is_base = t->count == 1 && t->atoms[0]->type.pointer;
    if (!is_base) continue;
    if (*out_base || t->factor != 1 || t->atoms[0]->def || t->atoms[0]->block != r->kernel->body)
      return false;
    *out_base = t->atoms[0];
    rest->terms[i] = rest->terms[--rest->count];
  }
  return *out_base != NULL;
}

/// The axis of the tile without a bound whose stride divides the term, the largest such stride; RANK: none.
static unsigned axis_within(const term *t, const term strides[RANK], const limit limits[RANK], term *index) {
  unsigned best = RANK;
  for (unsigned a = 0; a < RANK; a++) {
    term quotient;
    if (limits[a].is_set || !term_divide(t, &strides[a], &quotient)) continue;
    bool is_larger = best == RANK || strides[a].count > strides[best].count ||
                     (strides[a].count == strides[best].count && strides[a].factor > strides[best].factor);
    if (is_larger) best = a, *index = quotient;
  }
  return best;
}

/// An axis outside the tile: number * what is known at launch.
static bool add_axis(const recovering *r, const term *t, address *out) {
  sum launch, inner;
  term by = {.factor = t->factor}, number = {.factor = 1};
  for (unsigned k = 0; k < t->count; k++) {
    sum one = sum_atom(t->atoms[k]);
    bool is_launch = recover_split(r, &one, &launch, &inner) && !inner.count;
    term *to = is_launch ? &by : &number;
    to->atoms[to->count++] = t->atoms[k];
  }
  sum index = sum_of_term(&number);
  if (number.count != 1 || number.atoms[0]->type.scalar != KILN_I32 || !recover_is_never_negative(r, &index))
    return false;
  if (out->rank == MOST_AXES - RANK) return false;
  out->indices[out->rank] = index;
  out->strides[out->rank] = sum_of_term(&by);
  out->extents[out->rank++] = sum_constant(UNBOUNDED);
  return true;
}

bool recover_place_rest(const recovering *r, const sum *rest, const term strides[RANK],
                        const limit limits[RANK], sum indices[RANK], address *out) {
  for (unsigned i = 0; i < rest->count; i++) {
    const term *t = &rest->terms[i];
    term index = {0};
    unsigned axis = axis_within(t, strides, limits, &index);
    sum index_sum = sum_of_term(&index);
    // A whole stride that is left over is an axis outside, not many columns of the contiguous axis.
    bool is_within = axis < RANK && !(term_is_one(&strides[axis]) && t->count > 1) &&
                     recover_is_never_negative(r, &index_sum);
    if (!(is_within ? sum_add_term(&indices[axis], &index) : add_axis(r, t, out))) return false;
  }
  return true;
}

bool recover_address(recovering *r, const ir_value *pointer, limit limits[RANK], address *out) {
  sum rest, indices[RANK] = {{0}};
  term strides[RANK];
  *out = (address){0};
  if (!recover_sum(r, pointer, &rest) || !take_lanes(&rest, strides) ||
      !recover_take_base(r, &rest, &out->base))
    return false;
  for (unsigned a = 0; a < RANK; a++) {
    sum stride = sum_of_term(&strides[a]), covered;
    if (!recover_is_known_at_launch(r, &stride)) return false;
    if (rest.modulo[a] && (limits[a].is_set || !recover_limit_of_modulo(r, rest.modulo[a], &limits[a])))
      return false;
    if (!limits[a].is_set) continue;
    if (!sum_multiply(&limits[a].index, &stride, &covered) || !sum_difference(&rest, &covered, &rest))
      return false;
    indices[a] = limits[a].index;
  }
  if (!recover_place_rest(r, &rest, strides, limits, indices, out)) return false;
  out->is_turned = term_is_one(&strides[0]) && !term_is_one(&strides[1]);
  for (unsigned i = 0; i < RANK; i++) {
    unsigned a = out->is_turned ? 1 - i : i, to = out->rank++;
    if (!recover_is_never_negative(r, &indices[a])) return false;
    if (!limits[a].is_set && !recover_is_at_most(r, &indices[a], UNBOUNDED - (1 << pointer->type.log2[a])))
      return false;
    out->indices[to] = indices[a];
    out->strides[to] = sum_of_term(&strides[a]);
    out->extents[to] = limits[a].is_set ? limits[a].extent : sum_constant(UNBOUNDED);
  }
  return true;
}
