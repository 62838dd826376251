// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch, in the order of this file: packs the arguments, tests what the signature promises of them, chooses config
// and variant, computes the grid, and calls the driver. Most kernels need the short forms of expressions only, and the
// first config that may be used.
#include "runtime/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "runtime/choice_memo.h"
#include "runtime/launch_extras.h"
#include "runtime/refusal.h"
#include "runtime/tuned_choice.h"

// --------------------------------------------------------------------------------------- arguments

// Copies all arguments to their places in the block, and clears what lies between. False: one is NULL. Copies of a
// constant size become single moves.
static inline bool pack(const kiln_kernel *k, const void *const *args, uint8_t *block) {
  const kiln_slot *s = k->slots, *end_8 = s + k->slots_of_8, *end_4 = s + k->slots_to_4,
                  *end = s + k->interface.param_count;
  if (KILN_UNLIKELY(k->has_gaps)) memset(block, 0, k->interface.block_bytes);
  else if (k->interface.param_count) memset(block + k->interface.block_bytes - 8, 0, 8);
  // NOLINTBEGIN(clang-analyzer-core.NullDereference): without an array of arguments there are no slots
  for (const void *from; s < end_8; s++) {
    if (KILN_UNLIKELY(!(from = args[s->param]))) return false;
    memcpy(block + s->offset, from, 8);
  }
  for (const void *from; s < end_4; s++) {
    if (KILN_UNLIKELY(!(from = args[s->param]))) return false;
    memcpy(block + s->offset, from, 4);
  }
  for (const void *from; s < end; s++) {
    if (KILN_UNLIKELY(!(from = args[s->param]))) return false;
    memcpy(block + s->offset, from, s->size);
  }
  // NOLINTEND(clang-analyzer-core.NullDereference)
  return true;
}

// The promised divisors and ranges.
static __attribute__((noinline)) kiln_status check_facts(const kiln_kernel *k, const uint8_t *block,
                                                         kiln_error *err) {
  for (uint32_t i = 0; i < k->fact_count; i++) {
    const kiln_fact *f = &k->facts[i];
    int64_t value = kiln_read_integer(block + f->offset, f->size, f->is_signed);
    bool divides = f->div <= 1 || value % f->div == 0;
    if (KILN_UNLIKELY(!divides || value < f->lo || value > f->hi)) return kiln_refuse_fact(k, f, value, err);
  }
  return KILN_OK;
}

static inline kiln_status check_promises(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  uint64_t broken = 0;
  for (const kiln_alignment *a = k->alignments, *end = a + k->alignment_count; a < end; a++) {
    uint64_t bits = 0;
    for (const uint16_t *offset = a->offsets; offset < a->end; offset++) bits |= kiln_le64(block + *offset);
    broken |= bits & a->mask;
  }
  if (KILN_UNLIKELY(broken)) return kiln_refuse_alignment(k, block, err);
  return KILN_UNLIKELY(k->fact_count) ? check_facts(k, block, err) : KILN_OK;
}

// ------------------------------------------------------------------------------------- expressions

static inline int64_t param_of(const kiln_prepared_expr *e, const uint8_t *block) {
  const uint8_t *at = block + e->offset;
  return e->is_wide ? (int64_t)kiln_le64(at) : (int32_t)kiln_le32(at);
}

static inline int64_t cdiv_log2(const kiln_prepared_expr *e, const uint8_t *block) {
  int64_t v = param_of(e, block);
  return (v >> e->shift) + ((v & e->value) != 0);
}

// False on overflow and division by zero.
static __attribute__((noinline)) bool evaluate_any(const kiln_prepared_expr *e, const uint8_t *block,
                                                   const int64_t *values, int64_t *out) {
  switch ((kiln_form)e->form) {
  case KILN_FORM_CONST: *out = e->value; return true;
  case KILN_FORM_CDIV: {
    int64_t v = param_of(e, block);
    *out = v <= 0 ? v / e->value : 1 + (v - 1) / e->value;
    return true;
  }
  case KILN_FORM_CDIV_LOG2: *out = cdiv_log2(e, block); return true;
  case KILN_FORM_DIVISIBLE: *out = param_of(e, block) % e->value == 0; return true;
  case KILN_FORM_GENERAL: break;
  }
  return kiln_expr_eval(e->code.bytes, e->code.size, values, out);
}

static __attribute__((noinline)) bool all_hold(const kiln_prepared_expr *conditions, uint32_t count,
                                               const uint8_t *block, const int64_t *values) {
  int64_t value = 1;
  for (uint32_t i = 0; i < count && value; i++)
    if (!evaluate_any(&conditions[i], block, values, &value)) return false;
  return value;
}

static inline bool holds(const kiln_conjunction *c, const uint8_t *block, const int64_t *values) {
  uint32_t broken = 0;
  for (uint32_t i = 0; i < c->mask_count; i++)
    broken |= kiln_le32(block + c->masks[i].offset) & c->masks[i].mask;
  return !broken && (!c->other_count || all_hold(c->others, c->other_count, block, values));
}

void kiln_read_values(const kiln_kernel *k, const uint8_t *block, int64_t *values) {
  for (uint32_t i = 0; i < k->integer_count; i++) {
    const kiln_integer_param *p = &k->integers[i];
    values[p->param] = kiln_read_integer(block + p->offset, p->size, p->is_signed);
  }
}

// ------------------------------------------------------------------------------ config and variant

// The code of a config for these arguments, or NULL.
static inline const kiln_code *code_of(const kiln_kernel *k, uint32_t c, const uint8_t *block,
                                       const int64_t *values) {
  const kiln_prepared_config *config = &k->configs[c];
  const uint32_t variants = k->interface.variant_count;
  if (!config->is_usable || !holds(&config->require, block, values)) return NULL;
  const kiln_code *code = k->codes + (size_t)c * variants;
  for (uint32_t v = 0; v < variants; v++, code++)
    if (code->is_present && holds(&k->variants[v], block, values)) return code;
  return NULL;
}

__attribute__((noinline)) const kiln_code *kiln_try_config(const kiln_weighing *w, uint32_t c) {
  return code_of(w->kernel, c, w->block, w->values);
}

typedef struct tuned_search {
  const kiln_weighing *weighing;
  const kiln_code *code;
} tuned_search;

static bool try_choice(void *context, uint32_t number) {
  tuned_search *s = context;
  s->code = kiln_try_config(s->weighing, s->weighing->kernel->tuned->choices[number].config);
  return s->code != NULL;
}

// The config of the nearest tuned choice may not be used: the next ones of the cell, then all that there are.
static KILN_COLD __attribute__((noinline)) const kiln_code *pick_farther(const kiln_weighing *w,
                                                                         uint64_t cell) {
  const kiln_tuned *t = w->kernel->tuned;
  tuned_search s = {.weighing = w};
  uint8_t inputs[KILN_TUNED_MOST_AXES];
  uint64_t left = (cell & (((uint64_t)1 << 16 * KILN_TUNED_NEAREST) - 1)) >> 16;
  for (; left && !s.code; left >>= 16) s.code = kiln_try_config(w, (uint32_t)(left & 0xffff) - 1);
  if (s.code || !(cell & KILN_TUNED_MORE)) return s.code;
  t->values(t, w->block, inputs);
  t->search(t, inputs, try_choice, &s);
  return s.code;
}

// By tuned choices; without one that may be used, the first config in order.
static const kiln_code *pick_nearest(const kiln_weighing *w, uint64_t cell) {
  const kiln_code *code = NULL;
  if (cell & 0xffff) {
    code = kiln_try_config(w, (uint32_t)(cell & 0xffff) - 1);
    if (KILN_UNLIKELY(!code)) code = pick_farther(w, cell);
  }
  for (uint32_t c = 0; c < w->kernel->interface.config_count && !code; c++) code = kiln_try_config(w, c);
  return code;
}

static int64_t cost_of(const kiln_weighing *w, uint32_t config) {
  int64_t cost;
  const kiln_prepared_expr *e = &w->kernel->configs[config].cost;
  return evaluate_any(e, w->block, w->values, &cost) ? cost : INT64_MAX;
}

// The config of least cost, of equal ones the first in order. What was measured for a bin goes before, unless costs say
// that it loses more than the quarter that they may be wrong by: a bin is a range, in which the number of rounds over
// the processors may jump.
static const kiln_code *pick_by_cost(const kiln_weighing *w, uint64_t cell) {
  const kiln_kernel *k = w->kernel;
  const kiln_code *best = NULL;
  int64_t least = INT64_MAX;
  for (uint32_t c = 0; c < k->interface.config_count; c++) {
    if (!k->configs[c].is_usable) continue;
    int64_t cost = cost_of(w, c);
    if (best && cost >= least) continue;
    const kiln_code *code = kiln_try_config(w, c);
    if (code) best = code, least = cost;
  }
  const uint32_t measured = (uint32_t)(cell & 0xffff) - 1;
  const kiln_code *tuned = cell & 0xffff ? kiln_try_config(w, measured) : NULL;
  if (!tuned || !k->tuned->has_bins) return tuned ? tuned : best;
  const int64_t cost = cost_of(w, measured);
  const bool is_near = cost <= least || (least > 0 && cost - least <= least / 4);
  return is_near ? tuned : best;
}

// -------------------------------------------------------------------------------------------- grid

static inline __attribute__((always_inline)) kiln_status
compute_grid(const kiln_kernel *k, uint32_t c, const kiln_code *code, const uint8_t *block,
             const int64_t *values, uint32_t *out, kiln_error *err) {
  const kiln_prepared_config *config = &k->configs[c];
  out[0] = out[1] = out[2] = 1;
  for (unsigned axis = 0; axis < config->axes; axis++) {
    const kiln_prepared_expr *e = &config->grid[axis];
    int64_t extent;
    if (KILN_UNLIKELY(e->form != KILN_FORM_CDIV_LOG2)) {
      if (!evaluate_any(e, block, values, &extent))
        return kiln_refuse_expr(k, e->code, block, "the grid expression", err);
    } else {
      extent = cdiv_log2(e, block);
    }
    if (KILN_UNLIKELY((uint64_t)extent > code->grid_limit[axis]))
      return kiln_refuse_extent(k, code, axis, extent, e->code, block, err);
    out[axis] = (uint32_t)extent;
  }
  return KILN_OK;
}

static __attribute__((noinline)) kiln_status take_grid(const kiln_kernel *k, const kiln_code *code,
                                                       const uint32_t *grid, uint32_t *out, kiln_error *err) {
  for (unsigned axis = 0; axis < 3; axis++) {
    if (KILN_UNLIKELY(grid[axis] > code->grid_limit[axis]))
      return kiln_refuse_extent(k, code, axis, grid[axis], (kiln_span){0}, NULL, err);
    out[axis] = grid[axis];
  }
  return KILN_OK;
}

// ---------------------------------------------------------------------------------------- decision

static __attribute__((noinline)) uint64_t cell_of(const kiln_kernel *k, const uint8_t *block) {
  return k->tuned ? kiln_tuned_cell(k->tuned, block) : 0;
}

static __attribute__((noinline)) kiln_status decide_anew(const kiln_kernel *k, const uint8_t *block,
                                                         const uint32_t *grid, kiln_launch_call *out,
                                                         kiln_error *err) {
  int64_t values[KILN_MOST_PARAMS];
  const kiln_weighing w = {k, block, values};
  kiln_read_values(k, block, values);
  KILN_TRY(check_promises(k, block, err));
  uint64_t cell = cell_of(k, block);
  out->code = k->has_costs ? pick_by_cost(&w, cell) : pick_nearest(&w, cell);
  if (KILN_UNLIKELY(!out->code)) return kiln_refuse_configs(k, block, err);
  if (grid) return take_grid(k, out->code, grid, out->grid, err);
  return compute_grid(k, out->code->config, out->code, block, values, out->grid, err);
}

// The bits of word `i` of the arguments that a choice depends on.
static inline uint64_t memo_word(const struct kiln_choice_memo *m, const uint8_t *block, uint32_t i) {
  uint64_t word;
  memcpy(&word, block + 8 * i, 8);
  return word & m->relevant[i];
}

// What an entry remembers, if that is of arguments like these. An entry that is being written does not count.
static inline bool recall(const struct kiln_choice_memo *m, kiln_memo_entry *e, const uint8_t *block,
                          kiln_chosen *out) {
  uint64_t differs = 0;
  uint32_t words[KILN_CHOSEN_WORDS];
  uint32_t version = atomic_load_explicit(&e->version, memory_order_acquire);
  for (uint32_t i = 0; i < m->word_count; i++)
    differs |= atomic_load_explicit(&e->words[i], memory_order_acquire) ^ memo_word(m, block, i);
  for (uint32_t i = 0; i < KILN_CHOSEN_WORDS; i++)
    words[i] = atomic_load_explicit(&e->chosen[i], memory_order_acquire);
  memcpy(out, words, sizeof *out);
  return version && !(version & 1) && !differs &&
         atomic_load_explicit(&e->version, memory_order_relaxed) == version;
}

// Does nothing while another thread writes the entry.
static inline void remember(const struct kiln_choice_memo *m, kiln_memo_entry *e, const uint8_t *block,
                            const kiln_chosen *chosen) {
  uint32_t words[KILN_CHOSEN_WORDS], version = atomic_load_explicit(&e->version, memory_order_relaxed);
  memcpy(words, chosen, sizeof words);
  if (version & 1 || !atomic_compare_exchange_strong_explicit(&e->version, &version, version + 1,
                                                              memory_order_acq_rel, memory_order_relaxed))
    return;
  for (uint32_t i = 0; i < m->word_count; i++)
    atomic_store_explicit(&e->words[i], memo_word(m, block, i), memory_order_relaxed);
  for (uint32_t i = 0; i < KILN_CHOSEN_WORDS; i++)
    atomic_store_explicit(&e->chosen[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&e->version, version + 2 ? version + 2 : 2, memory_order_release);
}

kiln_status kiln_decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                        kiln_launch_call *out, kiln_error *err) {
  struct kiln_choice_memo *m = k->memo;
  kiln_chosen chosen;
  uint64_t hash = 0;
  if (!m || grid) return decide_anew(k, block, grid, out, err);
  for (uint32_t i = 0; i < m->word_count; i++)
    hash = (hash ^ memo_word(m, block, i)) * UINT64_C(0x9e3779b97f4a7c15); // 2^64 / golden ratio
  kiln_memo_entry *entry = &m->entries[hash >> 60];
  if (recall(m, entry, block, &chosen)) {
    out->code = &k->codes[chosen.code];
    memcpy(out->grid, chosen.grid, sizeof out->grid);
    return KILN_OK;
  }
  KILN_TRY(decide_anew(k, block, NULL, out, err));
  chosen.code = (uint32_t)(out->code - k->codes);
  memcpy(chosen.grid, out->grid, sizeof chosen.grid);
  remember(m, entry, block, &chosen);
  return KILN_OK;
}

// kiln_decide for what most kernels are: the first config that may be used, and expressions in short forms.
static inline kiln_status decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                                 kiln_launch_call *out, kiln_error *err) {
  const kiln_code *code = k->certain;
  uint32_t c = k->certain_config;
  if (KILN_UNLIKELY(!k->is_plain)) return kiln_decide(k, block, grid, out, err);
  KILN_TRY(check_promises(k, block, err));
  while (!code && c < k->interface.config_count)
    if (!(code = code_of(k, c, block, NULL))) c++;
  if (KILN_UNLIKELY(!code)) return kiln_refuse_configs(k, block, err);
  out->code = code;
  return grid ? take_grid(k, code, grid, out->grid, err)
              : compute_grid(k, c, code, block, NULL, out->grid, err);
}

// ------------------------------------------------------------------------------------------ launch

// The first launch of a code.
static KILN_COLD kiln_status first_load(kiln_kernel *k, const kiln_launch_call *call, kiln_error *err) {
  kiln_device *d = k->device;
  if (d->kind->is_capturing && d->kind->is_capturing(d, call->stream))
    return kiln_fail(err, KILN_STATUS_LAUNCH,
                     "'%s' is not loaded, and nothing can be loaded while the stream is captured; call "
                     "kiln_preload before",
                     k->interface.name);
  return kiln_code_load(k, (kiln_code *)call->code, err);
}

static __attribute__((noinline)) kiln_status launch_block(kiln_kernel *k, kiln_stream stream,
                                                          const uint32_t *grid, const uint8_t *block,
                                                          kiln_error *err) {
  kiln_launch_call call;
  KILN_TRY(decide(k, block, grid, &call, err));
  call.stream = stream;
  call.block = block;
  call.size = k->used_bytes;
  // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch): a refusal has a status, else there is a grid
  if (KILN_UNLIKELY(!call.grid[0] || !call.grid[1] || !call.grid[2]))
    return kiln_end_empty(k, &call, grid, err);
  call.function = atomic_load_explicit(&call.code->function, memory_order_acquire);
  if (KILN_UNLIKELY(!call.function)) {
    KILN_TRY(first_load(k, &call, err));
    call.function = atomic_load_explicit(&call.code->function, memory_order_acquire);
  }
  if (KILN_UNLIKELY(call.code->has_extras)) return kiln_launch_with_extras(k, &call, err);
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): as above, the call is complete
  return atomic_load_explicit(&k->device->kind, memory_order_relaxed)->launch(k->device, &call, err);
}

kiln_status kiln_launch(kiln_kernel *k, kiln_stream stream, const void *const *args, size_t arg_count,
                        kiln_error *err) {
  _Alignas(16) uint8_t block[KILN_MOST_BLOCK];
  if (KILN_UNLIKELY(!k || arg_count != k->interface.param_count || (!args && arg_count) ||
                    !pack(k, args, block)))
    return kiln_refuse_count(k, arg_count, err);
  return launch_block(k, stream, NULL, block, err);
}

static kiln_status launch_packed(kiln_kernel *k, kiln_stream stream, const uint32_t *grid, const void *block,
                                 size_t size, kiln_error *err) {
  if (KILN_UNLIKELY(!k || size != k->interface.block_bytes || (!block && size)))
    return kiln_refuse_size(k, size, err);
  return launch_block(k, stream, grid, block, err);
}

kiln_status kiln_launch_packed(kiln_kernel *k, kiln_stream stream, const void *block, size_t size,
                               kiln_error *err) {
  return launch_packed(k, stream, NULL, block, size, err);
}

kiln_status kiln_launch_grid(kiln_kernel *k, kiln_stream stream, const uint32_t grid[3], const void *block,
                             size_t size, kiln_error *err) {
  return launch_packed(k, stream, grid, block, size, err);
}
