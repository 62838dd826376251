// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on sums of products. Nothing here knows where a sum comes from.
#include <string.h>

#include "compiler/passes/gpu/recover/recover_inner.h"

static bool same_product(const term *a, const term *b) {
  return a->lane == b->lane && a->count == b->count &&
         !memcmp(a->atoms, b->atoms, a->count * sizeof *a->atoms);
}

bool sum_add_term(sum *s, const term *t) {
  if (!t->factor) return true;
  for (unsigned i = 0; i < s->count; i++) {
    if (!same_product(&s->terms[i], t)) continue;
    if (__builtin_add_overflow(s->terms[i].factor, t->factor, &s->terms[i].factor)) return false;
    s->terms[i].is_wide |= t->is_wide;
    if (!s->terms[i].factor) s->terms[i] = s->terms[--s->count];
    return true;
  }
  if (s->count == MOST_TERMS) return false;
  s->terms[s->count++] = *t;
  return true;
}

static bool multiply_terms(const term *a, const term *b, term *out) {
  if ((a->lane && b->lane) || a->count + b->count > MOST_ATOMS) return false;
  *out = (term){.lane = a->lane | b->lane, .is_wide = a->is_wide || b->is_wide};
  if (__builtin_mul_overflow(a->factor, b->factor, &out->factor)) return false;
  for (unsigned i = 0, k = 0; i < a->count || k < b->count;) {
    bool left = k == b->count || (i < a->count && a->atoms[i]->id <= b->atoms[k]->id);
    out->atoms[out->count++] = left ? a->atoms[i++] : b->atoms[k++];
  }
  return true;
}

bool sum_add(sum *out, const sum *s, int64_t scale) {
  for (unsigned i = 0; i < s->count; i++) {
    term t = s->terms[i];
    if (__builtin_mul_overflow(t.factor, scale, &t.factor) || !sum_add_term(out, &t)) return false;
  }
  for (unsigned a = 0; a < RANK; a++) {
    if (s->modulo[a] && out->modulo[a] && s->modulo[a] != out->modulo[a]) return false;
    if (s->modulo[a]) out->modulo[a] = s->modulo[a];
  }
  return true;
}

bool sum_multiply(const sum *a, const sum *b, sum *out) {
  sum result = {0};
  for (unsigned i = 0; i < a->count; i++)
    for (unsigned k = 0; k < b->count; k++) {
      term t;
      if (!multiply_terms(&a->terms[i], &b->terms[k], &t) || !sum_add_term(&result, &t)) return false;
    }
  for (unsigned i = 0; i < RANK; i++) {
    if (a->modulo[i] && b->modulo[i]) return false;
    result.modulo[i] = a->modulo[i] ? a->modulo[i] : b->modulo[i];
  }
  *out = result;
  return true;
}

sum sum_constant(int64_t value) { return value ? (sum){.count = 1, .terms = {{.factor = value}}} : (sum){0}; }

sum sum_atom(const ir_value *v) {
  return (sum){.count = 1, .terms = {{.factor = 1, .count = 1, .atoms = {v}}}};
}

sum sum_of_term(const term *t) { return (sum){.count = 1, .terms = {*t}}; }

bool sum_difference(const sum *a, const sum *b, sum *out) {
  sum result = *a;
  if (!sum_add(&result, b, -1)) return false;
  *out = result;
  return true;
}

bool sum_is_equal(const sum *a, const sum *b) {
  sum rest;
  return sum_difference(a, b, &rest) && !rest.count;
}

bool term_is_one(const term *t) { return t->factor == 1 && !t->count; }

bool term_divide(const term *t, const term *by, term *out) {
  if (by->lane || !by->factor || t->factor % by->factor) return false;
  *out = (term){.lane = t->lane, .is_wide = t->is_wide, .factor = t->factor / by->factor};
  unsigned k = 0;
  for (unsigned i = 0; i < t->count; i++) {
    if (k < by->count && t->atoms[i] == by->atoms[k]) k++;
    else out->atoms[out->count++] = t->atoms[i];
  }
  return k == by->count;
}
