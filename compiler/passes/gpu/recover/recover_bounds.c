// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of a sum: its bounds, and whether the launch knows it.
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/recover/recover_inner.h"

static __int128 clamp(__int128 x) {
  const __int128 most = (__int128)1 << 62;
  return x > most ? most : x < -most ? -most : x;
}

void recover_bounds(const recovering *r, const sum *s, __int128 *out_lo, __int128 *out_hi) {
  *out_lo = *out_hi = 0;
  for (unsigned i = 0; i < s->count; i++) {
    const term *t = &s->terms[i];
    __int128 lo = t->factor, hi = t->factor;
    for (unsigned k = 0; k < t->count; k++) {
      const kiln_fact *f = kiln_fact_of(r->facts, t->atoms[k]);
      __int128 a = clamp(lo * f->lo), b = clamp(lo * f->hi), c = clamp(hi * f->lo), d = clamp(hi * f->hi);
      __int128 least = a < b ? a : b, most = a < b ? b : a;
      least = c < least ? c : least, least = d < least ? d : least;
      most = c > most ? c : most, most = d > most ? d : most;
      lo = least, hi = most;
    }
    *out_lo = clamp(*out_lo + lo), *out_hi = clamp(*out_hi + hi);
  }
}

bool recover_is_never_negative(const recovering *r, const sum *s) {
  __int128 lo, hi;
  recover_bounds(r, s, &lo, &hi);
  return lo >= 0;
}

bool recover_is_at_most(const recovering *r, const sum *s, __int128 most) {
  enum { MOST_LANES = 1 << 16 };
  __int128 lo, hi;
  bool is_wide = false;
  for (unsigned i = 0; i < s->count; i++) {
    is_wide |= s->terms[i].is_wide;
    for (unsigned k = 0; k < s->terms[i].count; k++) is_wide |= s->terms[i].atoms[k]->type.scalar == KILN_I64;
  }
  recover_bounds(r, s, &lo, &hi);
  return (!is_wide && most >= INT32_MAX - MOST_LANES) || hi <= most;
}

bool recover_split(const recovering *r, const sum *s, sum *launch, sum *rest) {
  *launch = *rest = (sum){0};
  for (unsigned i = 0; i < s->count; i++) {
    const term *t = &s->terms[i];
    bool is_launch = true;
    for (unsigned k = 0; k < t->count; k++) {
      kiln_buffer ignored = {0};
      is_launch &= kiln_launch_expression(r->kernel, t->atoms[k], 1, &ignored);
      kiln_buffer_deinit(&ignored);
    }
    if (!sum_add_term(is_launch ? launch : rest, t)) return false;
  }
  return true;
}

bool recover_is_known_at_launch(const recovering *r, const sum *s) {
  sum launch, rest;
  return recover_split(r, s, &launch, &rest) && !rest.count;
}
