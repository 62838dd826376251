// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides about a launch with general expressions: are the promised facts true, which config and variant
// runs, and what is the grid?
#include "runtime/decision.h"

#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "runtime/choice_memo.h"
#include "runtime/tuned_choice.h"

bool kiln_evaluate_other(const kiln_prepared_expr *e, const uint8_t *block, const int64_t *values,
                         int64_t *out) {
  switch ((kiln_form)e->form) {
  case KILN_FORM_CONST: *out = e->value; return true;
  case KILN_FORM_CDIV: {
    int64_t v = kiln_expr_param(e, block);
    *out = v <= 0 ? v / e->value : 1 + (v - 1) / e->value;
    return true;
  }
  case KILN_FORM_CDIV_LOG2: return kiln_evaluate(e, block, values, out);
  case KILN_FORM_DIVISIBLE: *out = kiln_expr_param(e, block) % e->value == 0; return true;
  case KILN_FORM_GENERAL: break;
  }
  return kiln_expr_eval(e->code.bytes, e->code.size, values, out);
}

bool kiln_others_hold(const kiln_conjunction *c, const uint8_t *block, const int64_t *values) {
  int64_t value = 1;
  for (uint32_t i = 0; i < c->other_count && value; i++)
    if (!kiln_evaluate_other(&c->others[i], block, values, &value)) return false;
  return value;
}

void kiln_read_values(const kiln_kernel *k, const uint8_t *block, int64_t *values) {
  for (uint32_t i = 0; i < k->integer_count; i++) {
    const kiln_integer_param *p = &k->integers[i];
    values[p->param] = kiln_read_integer(block + p->offset, p->size, p->is_signed);
  }
}

kiln_status kiln_check_facts(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  for (uint32_t i = 0; i < k->fact_count; i++) {
    const kiln_fact *f = &k->facts[i];
    int64_t value = kiln_read_integer(block + f->offset, f->size, f->is_signed);
    bool divides = f->div <= 1 || value % f->div == 0;
    if (KILN_UNLIKELY(!divides || value < f->lo || value > f->hi)) return kiln_refuse_fact(k, f, value, err);
  }
  return KILN_OK;
}

kiln_status kiln_take_grid(const kiln_kernel *k, const kiln_code *code, const uint32_t *grid, uint32_t *out,
                           kiln_error *err) {
  for (unsigned axis = 0; axis < 3; axis++) {
    if (KILN_UNLIKELY(grid[axis] > code->grid_limit[axis]))
      return kiln_refuse_extent(k, code, axis, grid[axis], (kiln_span){0}, NULL, err);
    out[axis] = grid[axis];
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- tuned

__attribute__((noinline)) const kiln_code *kiln_try_config(const kiln_weighing *w, uint32_t c) {
  return kiln_code_of(w->kernel, c, w->block, w->values);
}

typedef struct tuned_search {
  const kiln_weighing *weighing;
  const kiln_code *code;
  const kiln_tuned_choice *choice;
} tuned_search;

static bool try_choice(void *context, uint32_t number) {
  tuned_search *s = context;
  s->choice = &s->weighing->kernel->tuned->choices[number];
  s->code = kiln_try_config(s->weighing, s->choice->config);
  return s->code != NULL;
}

static __attribute__((noinline)) uint64_t cell_of(const kiln_kernel *k, const uint8_t *block) {
  return k->tuned ? kiln_tuned_cell(k->tuned, block) : 0;
}

/// `code` NULL: none may be used.
static __attribute__((noinline)) tuned_search search_tuned(const kiln_weighing *w) {
  uint8_t inputs[KILN_TUNED_MOST_AXES];
  tuned_search s = {.weighing = w};
  const kiln_tuned *t = w->kernel->tuned;
  t->values(t, w->block, inputs);
  t->search(t, inputs, try_choice, &s);
  return s;
}

// The config of the nearest may not be used: the next ones of the cell, then all that there are.
static KILN_COLD __attribute__((noinline)) const kiln_code *pick_farther(const kiln_weighing *w,
                                                                         uint64_t cell) {
  uint64_t left = (cell & (((uint64_t)1 << 16 * KILN_TUNED_NEAREST) - 1)) >> 16;
  for (; left; left >>= 16) {
    const kiln_code *code = kiln_try_config(w, (uint32_t)(left & 0xffff) - 1);
    if (code) return code;
  }
  return cell & KILN_TUNED_MORE ? search_tuned(w).code : NULL;
}

static const kiln_code *pick_nearest(const kiln_weighing *w, uint64_t cell) {
  const kiln_code *code = NULL;
  if (cell & 0xffff) {
    code = kiln_try_config(w, (uint32_t)(cell & 0xffff) - 1);
    if (KILN_UNLIKELY(!code)) code = pick_farther(w, cell);
  }
  for (uint32_t c = 0; c < w->kernel->interface.config_count && !code; c++) code = kiln_try_config(w, c);
  return code;
}

// ------------------------------------------------------------------------------------------- costs

static int64_t cost_of(const kiln_weighing *w, uint32_t config) {
  int64_t cost;
  const kiln_prepared_expr *e = &w->kernel->configs[config].cost;
  return kiln_evaluate_other(e, w->block, w->values, &cost) ? cost : INT64_MAX;
}

// Of equal costs the first in order.
static const kiln_code *pick_cheapest(const kiln_weighing *w, int64_t *out_least) {
  const kiln_code *best = NULL;
  int64_t least = INT64_MAX;
  for (uint32_t c = 0; c < w->kernel->interface.config_count; c++) {
    if (!w->kernel->configs[c].is_usable) continue;
    int64_t cost = cost_of(w, c);
    if (best && cost >= least) continue;
    const kiln_code *code = kiln_try_config(w, c);
    if (code) best = code, least = cost;
  }
  *out_least = least;
  return best;
}

// A quarter: what a cost may be wrong by.
static bool is_near(int64_t cost, int64_t least) {
  return cost <= least || (least > 0 && cost - least <= least / 4);
}

// What was measured for a bin goes before what costs say, unless they say that it loses more than they are
// wrong by: a bin is a range, in which the number of rounds over the processors may jump.
static const kiln_code *pick_by_cost(const kiln_weighing *w, uint64_t cell) {
  int64_t least;
  uint32_t config = (uint32_t)(cell & 0xffff) - 1;
  const kiln_code *cheapest = pick_cheapest(w, &least);
  const kiln_code *tuned = cell & 0xffff ? kiln_try_config(w, config) : NULL;
  bool is_declined = !tuned || (w->kernel->tuned->has_bins && !is_near(cost_of(w, config), least));
  return is_declined ? cheapest : tuned;
}

static __attribute__((noinline)) kiln_status decide_anew(const kiln_kernel *k, const uint8_t *block,
                                                         const uint32_t *grid, kiln_launch_call *out,
                                                         kiln_error *err) {
  int64_t values[KILN_MOST_PARAMS];
  const kiln_weighing w = {k, block, values};
  kiln_read_values(k, block, values);
  KILN_TRY(kiln_check_promises(k, block, err));
  uint64_t cell = cell_of(k, block);
  out->code = k->has_costs ? pick_by_cost(&w, cell) : pick_nearest(&w, cell);
  if (KILN_UNLIKELY(!out->code)) return kiln_refuse_configs(k, block, err);
  if (grid) return kiln_take_grid(k, out->code, grid, out->grid, err);
  return kiln_evaluate_grid(k, kiln_code_config(k, out->code), out->code, block, values, out->grid, err);
}

kiln_status kiln_decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                        kiln_launch_call *out, kiln_error *err) {
  kiln_chosen chosen;
  if (!k->memo || grid) return decide_anew(k, block, grid, out, err);
  kiln_memo_entry *entry = kiln_memo_place(k->memo, block);
  if (kiln_memo_find(k->memo, entry, block, &chosen)) {
    out->code = &k->codes[chosen.code];
    memcpy(out->grid, chosen.grid, sizeof out->grid);
    return KILN_OK;
  }
  KILN_TRY(decide_anew(k, block, NULL, out, err));
  chosen.code = (uint32_t)(out->code - k->codes);
  memcpy(chosen.grid, out->grid, sizeof chosen.grid);
  kiln_memo_keep(k->memo, entry, block, &chosen);
  return KILN_OK;
}
