// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The decision about the arguments of a launch: whether the promised facts hold, which code runs, and with
// which grid. The inline part is all that launches of most kernels need.
#ifndef KILN_RUNTIME_DECISION_H
#define KILN_RUNTIME_DECISION_H

#include <string.h>

#include "runtime/device/device.h"
#include "runtime/launch.h"
#include "runtime/refusal.h"

/// Fills code and grid. `grid`: the caller's; NULL: the kernel's own expressions.
kiln_status kiln_decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                        kiln_launch_call *out, kiln_error *err);

/// What is weighed: arguments, and the values of those that expressions in general form read.
typedef struct kiln_weighing {
  const kiln_kernel *kernel;
  const uint8_t *block;
  const int64_t *values;
} kiln_weighing;
/// The code of a config, or NULL.
const kiln_code *kiln_try_config(const kiln_weighing *w, uint32_t config);

/// Parts of it. The forms that kiln_evaluate leaves; false on overflow, division by zero.
bool kiln_evaluate_other(const kiln_prepared_expr *e, const uint8_t *block, const int64_t *values,
                         int64_t *out);
/// The part of a conjunction that is not tested by mask.
bool kiln_others_hold(const kiln_conjunction *c, const uint8_t *block, const int64_t *values);
/// Reads the values that expressions in general form use; the other values stay unset.
void kiln_read_values(const kiln_kernel *k, const uint8_t *block, int64_t *values);
/// The promised divisors and ranges.
kiln_status kiln_check_facts(const kiln_kernel *k, const uint8_t *block, kiln_error *err);
/// Takes the caller's grid for a code.
kiln_status kiln_take_grid(const kiln_kernel *k, const kiln_code *code, const uint32_t *grid, uint32_t *out,
                           kiln_error *err);

static inline bool kiln_is_empty(const uint32_t *grid) { return !grid[0] || !grid[1] || !grid[2]; }

/// The config and variant of a code.
static inline uint32_t kiln_code_config(const kiln_kernel *k, const kiln_code *code) {
  return (uint32_t)((size_t)(code - k->codes) / k->interface.variant_count);
}
static inline uint32_t kiln_code_variant(const kiln_kernel *k, const kiln_code *code) {
  return (uint32_t)((size_t)(code - k->codes) % k->interface.variant_count);
}

/// What is known of a launch of `code` with that grid. choose.c
void kiln_choice_of(const kiln_code *code, const uint32_t *grid, kiln_choice *out);

/// Copies arguments from the slot `s` on to their places in a block. False: one is NULL.
static inline bool kiln_pack_rest(const kiln_kernel *k, const kiln_slot *s, const void *const *args,
                                  uint8_t *block) {
  const kiln_slot *end = k->slots + k->interface.param_count;
  for (const void *from; s < end; s++) {
    if (KILN_UNLIKELY(!(from = args[s->param]))) return false;
    memcpy(block + s->offset, from, s->size);
  }
  return true;
}

/// All of them, and clears what lies between. Copies of a constant size become single moves.
static inline bool kiln_pack(const kiln_kernel *k, const void *const *args, uint8_t *block) {
  const kiln_slot *s = k->slots, *end_8 = s + k->slots_of_8, *end_4 = s + k->slots_to_4;
  if (KILN_UNLIKELY(k->has_gaps)) memset(block, 0, k->interface.block_bytes);
  else if (k->interface.param_count) memset(block + k->interface.block_bytes - 8, 0, 8);
  for (const void *from; s < end_8; s++) {
    if (KILN_UNLIKELY(!(from = args[s->param]))) return false;
    memcpy(block + s->offset, from, 8);
  }
  for (const void *from; s < end_4; s++) {
    if (KILN_UNLIKELY(!(from = args[s->param]))) return false;
    memcpy(block + s->offset, from, 4);
  }
  return kiln_pack_rest(k, s, args, block);
}

static inline int64_t kiln_expr_param(const kiln_prepared_expr *e, const uint8_t *block) {
  const uint8_t *at = block + e->offset;
  return e->is_wide ? (int64_t)kiln_le64(at) : (int32_t)kiln_le32(at);
}

static inline bool kiln_evaluate(const kiln_prepared_expr *e, const uint8_t *block, const int64_t *values,
                                 int64_t *out) {
  if (KILN_UNLIKELY(e->form != KILN_FORM_CDIV_LOG2)) return kiln_evaluate_other(e, block, values, out);
  int64_t v = kiln_expr_param(e, block);
  *out = (v >> e->shift) + ((v & e->value) != 0);
  return true;
}

static inline bool kiln_holds(const kiln_conjunction *c, const uint8_t *block, const int64_t *values) {
  uint32_t broken = 0;
  for (uint32_t i = 0; i < c->mask_count; i++)
    broken |= kiln_le32(block + c->masks[i].offset) & c->masks[i].mask;
  return !broken && (!c->other_count || kiln_others_hold(c, block, values));
}

static inline kiln_status kiln_check_promises(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  uint64_t broken = 0;
  for (const kiln_alignment *a = k->alignments, *end = a + k->alignment_count; a < end; a++) {
    uint64_t bits = 0;
    for (const uint16_t *offset = a->offsets; offset < a->end; offset++) bits |= kiln_le64(block + *offset);
    broken |= bits & a->mask;
  }
  if (KILN_UNLIKELY(broken)) return kiln_refuse_alignment(k, block, err);
  return KILN_UNLIKELY(k->fact_count) ? kiln_check_facts(k, block, err) : KILN_OK;
}

/// The code of a config for these arguments, or NULL.
static inline const kiln_code *kiln_code_of(const kiln_kernel *k, uint32_t c, const uint8_t *block,
                                            const int64_t *values) {
  const kiln_prepared_config *config = &k->configs[c];
  const uint32_t variants = k->interface.variant_count;
  if (!config->is_usable || !kiln_holds(&config->require, block, values)) return NULL;
  const kiln_code *code = k->codes + (size_t)c * variants;
  for (uint32_t v = 0; v < variants; v++, code++)
    if (code->is_present && kiln_holds(&k->variants[v], block, values)) return code;
  return NULL;
}

/// The grid of config `c`, of which `code` is.
static inline kiln_status kiln_evaluate_grid(const kiln_kernel *k, uint32_t c, const kiln_code *code,
                                             const uint8_t *block, const int64_t *values, uint32_t *out,
                                             kiln_error *err) {
  const kiln_prepared_config *config = &k->configs[c];
  out[0] = out[1] = out[2] = 1;
  for (unsigned axis = 0; axis < config->axes; axis++) {
    const kiln_prepared_expr *e = &config->grid[axis];
    int64_t extent;
    if (KILN_UNLIKELY(!kiln_evaluate(e, block, values, &extent)))
      return kiln_refuse_expr(k, e->code, block, "the grid expression", err);
    if (KILN_UNLIKELY((uint64_t)extent > code->grid_limit[axis]))
      return kiln_refuse_extent(k, code, axis, extent, e->code, block, err);
    out[axis] = (uint32_t)extent;
  }
  return KILN_OK;
}

#endif
