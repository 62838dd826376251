// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The launch path. Warm, it is: pack, test the promised facts, pick config and variant, evaluate the grid,
// call the driver.
#include "runtime/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "runtime/choice_memo.h"
#include "runtime/device.h"
#include "runtime/tensor_map.h"
#include "runtime/tuned_choice.h"

/// Errors, and what runs once a kernel or for people who ask: compiled for size, libkiln is small.
#define COLD __attribute__((cold))

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

static inline bool evaluate(const kiln_prepared_expr *e, const int64_t *values, int64_t *out) {
  switch (e->form) {
  case KILN_FORM_CONST: *out = e->value; return true;
  case KILN_FORM_PARAM: *out = values[e->param]; return true;
  case KILN_FORM_CDIV: {
    int64_t v = values[e->param];
    *out = v <= 0 ? v / e->value : 1 + (v - 1) / e->value;
    return true;
  }
  case KILN_FORM_CDIV_LOG2: {
    int64_t v = values[e->param];
    *out = v <= 0 ? v / ((int64_t)1 << e->value) : 1 + ((v - 1) >> e->value);
    return true;
  }
  case KILN_FORM_MASK: *out = !(values[e->param] & e->value); return true;
  case KILN_FORM_DIVISIBLE: *out = values[e->param] % e->value == 0; return true;
  case KILN_FORM_GENERAL: break;
  }
  return kiln_expr_eval(e->code.bytes, e->code.size, values, out);
}

// ---------------------------------------------------------------------------------------- refusals

static void name_params(const kiln_kernel *k, const char **names) {
  for (uint32_t i = 0; i < k->interface.param_count; i++) names[i] = k->interface.params[i].name;
}

// "cols <= 1024 (cols = 2000)"
static COLD void describe(const kiln_kernel *k, kiln_span code, const int64_t *values, char *out,
                          size_t capacity) {
  const char *names[KILN_MOST_PARAMS];
  name_params(k, names);
  kiln_expr_text(code.bytes, code.size, names, k->interface.param_count, out, capacity);
  size_t used = strlen(out);
  const char *separator = " (";
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  for (uint64_t seen = 0; r.left;) {
    uint8_t op = kiln_read_u8(&r);
    if (op == KILN_EXPR_CONST) kiln_read_svarint(&r);
    if (op != KILN_EXPR_PARAM) continue;
    uint32_t param = (uint32_t)kiln_read_varint(&r);
    if (param < 64 && seen >> param & 1) continue;
    if (param < 64) seen |= (uint64_t)1 << param;
    int n = snprintf(out + used, capacity - used, "%s%s = %lld", separator, names[param],
                     (long long)values[param]);
    if (n < 0 || (size_t)n >= capacity - used) return;
    used += (size_t)n;
    separator = ", ";
  }
  if (*separator == ',' && used + 1 < capacity) memcpy(out + used, ")", 2);
}

static COLD kiln_status refuse_expr(const kiln_kernel *k, kiln_span code, const int64_t *values,
                                    const char *what, kiln_error *err) {
  char text[400];
  describe(k, code, values, text, sizeof text);
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s overflows or divides by zero: %s", k->interface.name,
                   what, text);
}

static COLD kiln_status refuse_alignment(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  const kiln_alignment *a = k->alignments;
  while (!(kiln_le64(block + a->offset) & a->mask)) a++;
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s is promised to be aligned to %llu bytes, but is 0x%llx",
                   k->interface.name, k->interface.params[a->param].name, (unsigned long long)a->mask + 1,
                   (unsigned long long)kiln_le64(block + a->offset));
}

static COLD kiln_status refuse_fact(const kiln_kernel *k, const kiln_fact *f, int64_t value,
                                    kiln_error *err) {
  const char *name = k->interface.params[f->param].name;
  if (value < f->lo || value > f->hi)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s is promised to be in %lld..%lld, but is %lld",
                     k->interface.name, name, (long long)f->lo, (long long)f->hi, (long long)value);
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s is promised to be divisible by %lld, but is %lld",
                   k->interface.name, name, (long long)f->div, (long long)value);
}

// No config with code allows these arguments: say for each which requirement failed.
static COLD kiln_status refuse_configs(const kiln_kernel *k, const int64_t *values, kiln_error *err) {
  KILN_TRY(kiln_device_check(k->device, err)); // that of a closed device has none
  char all[800] = "", text[300];
  size_t used = 0;
  for (uint32_t c = 0; c < k->interface.config_count && used + 1 < sizeof all; c++) {
    const kiln_prepared_config *config = &k->configs[c];
    snprintf(text, sizeof text, "no code for %s", k->device->target.name);
    const kiln_config_record *record = &k->interface.configs[c];
    for (uint32_t i = 0; config->is_usable && i < record->require_count; i++) {
      int64_t value;
      if (kiln_expr_eval(record->require[i].bytes, record->require[i].size, values, &value) && value)
        continue;
      snprintf(text, sizeof text, "needs ");
      describe(k, record->require[i], values, text + 6, sizeof text - 6);
      break;
    }
    int n = snprintf(all + used, sizeof all - used, "%s%s: %s", used ? "; " : "",
                     k->interface.configs[c].text, text);
    used += n < 0 ? 0 : (size_t)n;
  }
  return kiln_fail(err, KILN_STATUS_NO_VARIANT, "'%s': no config allows these arguments: %s",
                   k->interface.name, all);
}

// ------------------------------------------------------------------------------------------ choice

static inline bool holds(const kiln_conjunction *c, const uint8_t *block, const int64_t *values) {
  uint32_t broken = 0;
  for (uint32_t i = 0; i < c->mask_count; i++)
    broken |= kiln_le32(block + c->masks[i].offset) & c->masks[i].mask;
  for (uint32_t i = 0; i < c->other_count && !broken; i++) {
    int64_t value;
    broken = !evaluate(&c->others[i], values, &value) || !value;
  }
  return !broken;
}

static inline kiln_status check_facts(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  uint64_t broken = 0;
  for (uint32_t i = 0; i < k->alignment_count; i++)
    broken |= kiln_le64(block + k->alignments[i].offset) & k->alignments[i].mask;
  if (UNLIKELY(broken)) return refuse_alignment(k, block, err);
  for (uint32_t i = 0; i < k->fact_count; i++) {
    const kiln_fact *f = &k->facts[i];
    int64_t value = kiln_read_integer(block + f->offset, f->size, f->is_signed);
    bool divides = f->div <= 1 || value % f->div == 0;
    if (UNLIKELY(!divides || value < f->lo || value > f->hi)) return refuse_fact(k, f, value, err);
  }
  return KILN_OK;
}

// The code of a config for these arguments, or NULL.
static inline const kiln_code *pick_of(const kiln_kernel *k, uint32_t c, const uint8_t *block,
                                       const int64_t *values, uint32_t *out_variant) {
  const kiln_prepared_config *config = &k->configs[c];
  if (!config->is_usable || !holds(&config->require, block, values)) return NULL;
  const kiln_code *codes = k->codes + (size_t)c * k->interface.variant_count;
  for (uint32_t v = 0; v < k->interface.variant_count; v++) {
    if (!codes[v].is_present || !holds(&k->variants[v], block, values)) continue;
    *out_variant = v;
    return &codes[v];
  }
  return NULL;
}

// The same where speed does not matter.
static __attribute__((noinline)) const kiln_code *try_config(const kiln_kernel *k, uint32_t c,
                                                             const uint8_t *block, const int64_t *values,
                                                             uint32_t *out_variant) {
  return pick_of(k, c, block, values, out_variant);
}

typedef struct tuned_search {
  const kiln_kernel *kernel;
  const uint8_t *block;
  const int64_t *values;
  const kiln_code *code;
  uint32_t choice, variant;
} tuned_search;

static bool try_choice(void *context, uint32_t choice) {
  tuned_search *s = context;
  s->choice = choice;
  s->code = try_config(s->kernel, s->kernel->tuned->choices[choice].config, s->block, s->values, &s->variant);
  return s->code != NULL;
}

// The nearest choice that may be used; `out->code` NULL: none may.
static __attribute__((noinline)) void search_tuned(const kiln_kernel *k, const uint8_t *block,
                                                   const int64_t *values, tuned_search *out) {
  uint8_t inputs[KILN_TUNED_MOST_AXES];
  *out = (tuned_search){.kernel = k, .block = block, .values = values};
  kiln_tuned_values(k->tuned, block, inputs);
  kiln_tuned_search(k->tuned, inputs, try_choice, out);
}

// The config of the nearest may not be used: the next ones of the cell, then all that there are.
static __attribute__((noinline)) const kiln_code *pick_farther(const kiln_kernel *k, uint64_t cell,
                                                               const uint8_t *block, const int64_t *values,
                                                               uint32_t *out_config, uint32_t *out_variant) {
  tuned_search s;
  uint64_t left = (cell & (((uint64_t)1 << 16 * KILN_TUNED_NEAREST) - 1)) >> 16;
  for (; left; left >>= 16) {
    *out_config = (uint32_t)(left & 0xffff) - 1;
    const kiln_code *code = try_config(k, *out_config, block, values, out_variant);
    if (code) return code;
  }
  if (!(cell & KILN_TUNED_MORE)) return NULL;
  search_tuned(k, block, values, &s);
  *out_config = k->tuned->choices[s.choice].config;
  *out_variant = s.variant;
  return s.code;
}

static __attribute__((noinline)) int64_t cost_of(const kiln_kernel *k, uint32_t config,
                                                 const int64_t *values) {
  int64_t cost;
  return evaluate(&k->configs[config].cost, values, &cost) ? cost : INT64_MAX;
}

// Of equal costs the first in order.
static const kiln_code *pick_cheapest(const kiln_kernel *k, const uint8_t *block, const int64_t *values,
                                      uint32_t *out_config, uint32_t *out_variant, int64_t *out_least) {
  const kiln_code *best = NULL;
  int64_t least = INT64_MAX;
  for (uint32_t c = 0; c < k->interface.config_count; c++) {
    uint32_t variant;
    if (!k->configs[c].is_usable) continue;
    int64_t cost = cost_of(k, c, values);
    if (best && cost >= least) continue;
    const kiln_code *code = try_config(k, c, block, values, &variant);
    if (!code) continue;
    best = code, least = cost, *out_config = c, *out_variant = variant;
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
static __attribute__((noinline)) const kiln_code *pick_by_cost(const kiln_kernel *k, uint64_t cell,
                                                               const uint8_t *block, const int64_t *values,
                                                               uint32_t *out_config, uint32_t *out_variant) {
  int64_t least;
  uint32_t config = (uint32_t)(cell & 0xffff) - 1, variant;
  const kiln_code *cheapest = pick_cheapest(k, block, values, out_config, out_variant, &least), *tuned = NULL;
  if (cell & 0xffff) tuned = try_config(k, config, block, values, &variant);
  if (!tuned || (k->tuned->has_bins && !is_near(cost_of(k, config, values), least))) return cheapest;
  *out_config = config, *out_variant = variant;
  return tuned;
}

static inline const kiln_code *pick(const kiln_kernel *k, const uint8_t *block, const int64_t *values,
                                    uint32_t *out_config, uint32_t *out_variant) {
  const kiln_code *code = NULL;
  uint64_t cell = k->tuned ? kiln_tuned_cell(k->tuned, block) : 0;
  if (k->has_costs) return pick_by_cost(k, cell, block, values, out_config, out_variant);
  if (cell & 0xffff) {
    *out_config = (uint32_t)(cell & 0xffff) - 1;
    code = pick_of(k, *out_config, block, values, out_variant);
    if (UNLIKELY(!code)) code = pick_farther(k, cell, block, values, out_config, out_variant);
  }
  for (uint32_t c = 0; c < k->interface.config_count && !code; c++)
    code = pick_of(k, *out_config = c, block, values, out_variant);
  return code;
}

static kiln_status evaluate_grid(const kiln_kernel *k, uint32_t config, const int64_t *values,
                                 uint32_t *out_grid, bool *out_is_empty, kiln_error *err) {
  static const char axes[] = "xyz";
  out_grid[0] = out_grid[1] = out_grid[2] = 1;
  for (unsigned axis = 0; axis < k->configs[config].axes; axis++) {
    const kiln_prepared_expr *e = &k->configs[config].grid[axis];
    int64_t extent;
    if (UNLIKELY(!evaluate(e, values, &extent)))
      return refuse_expr(k, e->code, values, "the grid expression", err);
    if (UNLIKELY(extent < 0 || extent > k->device->grid_limit[axis])) {
      char text[400] = "";
      if (e->code.size) describe(k, e->code, values, text, sizeof text);
      return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': grid %c is %lld, %s allows 0 to %lld: %s",
                       k->interface.name, axes[axis], (long long)extent, k->device->name,
                       (long long)k->device->grid_limit[axis], text);
    }
    out_grid[axis] = (uint32_t)extent;
  }
  if (UNLIKELY(!k->configs[config].has_grid))
    memset(out_grid, 0, 3 * sizeof *out_grid); // told apart where an empty grid ends the launch
  *out_is_empty = !out_grid[0] || !out_grid[1] || !out_grid[2];
  return KILN_OK;
}

typedef struct decision {
  const kiln_code *code;
  uint32_t config, variant, grid[3];
  bool is_empty;
} decision;

static kiln_status take_grid(const kiln_kernel *k, const uint32_t *grid, uint32_t *out_grid,
                             bool *out_is_empty, kiln_error *err) {
  for (unsigned axis = 0; axis < 3; axis++) {
    if (UNLIKELY(grid[axis] > k->device->grid_limit[axis]))
      return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': grid %c is %u, %s allows 0 to %lld", k->interface.name,
                       "xyz"[axis], grid[axis], k -> device -> name,
                       (long long)k -> device -> grid_limit[axis]);
    out_grid[axis] = grid[axis];
  }
  *out_is_empty = !grid[0] || !grid[1] || !grid[2];
  return KILN_OK;
}

// Only the parameters whose values expressions use are read; the others' values stay unset.
static inline void read_integers(const kiln_kernel *k, const uint8_t *block, int64_t *values) {
  const kiln_integer_param *p = k->integers;
  uint32_t i = 0;
  for (; i < k->integers_of_4; i++) values[p[i].param] = (int32_t)kiln_le32(block + p[i].offset);
  for (; i < k->integers_to_8; i++) values[p[i].param] = (int64_t)kiln_le64(block + p[i].offset);
  for (; i < k->integer_count; i++)
    values[p[i].param] = kiln_read_integer(block + p[i].offset, p[i].size, p[i].is_signed);
}

static inline bool remember(const kiln_kernel *k, kiln_memo_entry *e, const uint8_t *block, decision *out) {
  kiln_chosen c;
  if (!kiln_memo_find(k->memo, e, block, &c)) return false;
  *out = (decision){.code = &k->codes[(size_t)c.config * k->interface.variant_count + c.variant],
                    .config = c.config,
                    .variant = c.variant,
                    .grid = {c.grid[0], c.grid[1], c.grid[2]},
                    .is_empty = c.is_empty};
  return true;
}

static void keep(const kiln_kernel *k, kiln_memo_entry *e, const uint8_t *block, const decision *d) {
  kiln_chosen c = {d->config, d->variant, {d->grid[0], d->grid[1], d->grid[2]}, d->is_empty};
  kiln_memo_keep(k->memo, e, block, &c);
}

/// `grid`: the caller's; NULL: the kernel's own expressions.
static inline kiln_status decide(const kiln_kernel *k, const uint8_t *block, const uint32_t *grid,
                                 decision *out, kiln_error *err) {
  int64_t values[KILN_MOST_PARAMS];
  kiln_memo_entry *entry = k->memo && !grid ? kiln_memo_place(k->memo, block) : NULL;
  if (entry && remember(k, entry, block, out)) return KILN_OK;
  read_integers(k, block, values);
  KILN_TRY(check_facts(k, block, err));
  out->code = pick(k, block, values, &out->config, &out->variant);
  if (UNLIKELY(!out->code)) return refuse_configs(k, values, err);
  if (grid) return take_grid(k, grid, out->grid, &out->is_empty, err);
  kiln_status status = evaluate_grid(k, out->config, values, out->grid, &out->is_empty, err);
  if (status == KILN_OK && entry) keep(k, entry, block, out);
  return status;
}

// ------------------------------------------------------------------------------------------ launch

// The first launch of a code.
static COLD kiln_status first_load(kiln_kernel *k, const kiln_code *code, kiln_stream stream,
                                   kiln_error *err) {
  const kiln_device *d = k->device;
  if (d->kind->is_capturing && d->kind->is_capturing(k->device, stream))
    return kiln_fail(err, KILN_STATUS_LAUNCH,
                     "'%s' is not loaded, and nothing can be loaded while the stream is captured; call "
                     "kiln_preload before",
                     k->interface.name);
  return kiln_code_load(k, (kiln_code *)code, err);
}

static COLD kiln_status end_empty(const kiln_kernel *k, uint32_t config, const uint32_t *grid,
                                  kiln_error *err) {
  if (grid || k->configs[config].has_grid) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s' states no grid; launch it with kiln_launch_grid",
                   k->interface.name);
}

// What lies behind the parameters in `block`: the logical grid, then tensor maps, as kiln_tensor_maps_encode
// has it. A grid of more programs than blocks that the device has room for becomes that many blocks.
static kiln_status complete(const kiln_kernel *k, kiln_launch_call *call, const kiln_block_words *changes,
                            kiln_map_sizes *known, uint8_t *block, kiln_error *err) {
  const kiln_code *code = call->code;
  call->block = block;
  call->size = code->map_count ? kiln_maps_end(code->maps_at, code->map_count) : kiln_code_extras_at(k, code);
  if (code->map_count) KILN_TRY(kiln_tensor_maps_encode(k, code, changes, known, block, err));
  if (!code->info.blocks) return KILN_OK;
  uint64_t programs = (uint64_t)call->grid[0] * call->grid[1], room = k->device->processors;
  programs = programs > INT32_MAX ? programs : programs * call->grid[2];
  if (programs > INT32_MAX)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': a grid of %u x %u x %u programs; at most %d are allowed",
                     k->interface.name, call->grid[0], call->grid[1], call->grid[2], INT32_MAX);
  memset(block + k->used_bytes, 0, code->grid_at - k->used_bytes);
  for (unsigned axis = 0; axis < 3; axis++) kiln_put32(block + code->grid_at + 4 * axis, call->grid[axis]);
  uint32_t cluster = code->info.cluster ? code->info.cluster : 1;
  // Clusters. Not every processor finds as many neighbours as one wants, so the device was asked.
  room = code->clusters ? code->clusters : room * code->info.blocks / cluster;
  if (!room || room > INT32_MAX / cluster) room = INT32_MAX / cluster;
  call->grid[0] = cluster * (uint32_t)(room < programs ? room : programs);
  call->grid[1] = call->grid[2] = 1;
  return KILN_OK;
}

static inline bool has_extras(const kiln_code *code) { return code->map_count || code->info.blocks; }

// What the last launch of a code with extras passed. The launch that holds it may read it; others that come
// meanwhile encode for themselves.
enum { MEMO_BYTES = 1024 };
struct kiln_memo {
  uint8_t block[MEMO_BYTES]; // aligned to KILN_MAP_ALIGNMENT
  atomic_flag is_held;
  bool is_set;
  uint32_t asked[3], grid[3];
  size_t size;
  kiln_map_sizes known[]; // one a map
};

COLD struct kiln_memo *kiln_memo_create(const kiln_kernel *k, const kiln_code *code) {
  uint32_t end = kiln_code_extras_at(k, code) + KILN_MAP_ALIGNMENT + code->map_count * KILN_MAP_BYTES;
  size_t size = sizeof(struct kiln_memo) + code->map_count * sizeof(kiln_map_sizes);
  uint8_t *memory = end > MEMO_BYTES ? NULL : kiln_arena_alloc(k->arena, size + KILN_MAP_ALIGNMENT);
  if (!memory) return NULL;
  struct kiln_memo *m =
      (void *)(((uintptr_t)memory + KILN_MAP_ALIGNMENT - 1) & ~(uintptr_t)(KILN_MAP_ALIGNMENT - 1));
  memset(m, 0, size);
  atomic_flag_clear(&m->is_held);
  return m;
}

static kiln_status launch_alone(kiln_kernel *k, kiln_launch_call *call, kiln_error *err) {
  _Alignas(KILN_MAP_ALIGNMENT) uint8_t block[KILN_MOST_BLOCK];
  kiln_map_sizes sizes[KILN_MOST_MAPS];
  memcpy(block, call->block, k->used_bytes);
  // NOLINTBEGIN(clang-analyzer-core.StackAddressEscape): nobody reads the call any more
  KILN_TRY(complete(k, call, NULL, sizes, block, err));
  return k->device->kind->launch(k->device, call, err);
  // NOLINTEND(clang-analyzer-core.StackAddressEscape)
}

static kiln_status recall(kiln_kernel *k, kiln_launch_call *call, struct kiln_memo *m, kiln_error *err) {
  if (m->is_set && !memcmp(m->asked, call->grid, sizeof m->asked) &&
      !memcmp(m->block, call->block, k->used_bytes)) {
    call->block = m->block;
    call->size = m->size;
    memcpy(call->grid, m->grid, sizeof m->grid);
    return KILN_OK;
  }
  kiln_block_words changes;
  bool was_set = m->is_set;
  if (was_set) kiln_block_changes(m->block, call->block, k->used_bytes, &changes);
  m->is_set = false;
  memcpy(m->block, call->block, k->used_bytes);
  memcpy(m->asked, call->grid, sizeof m->asked);
  KILN_TRY(complete(k, call, was_set ? &changes : NULL, m->known, m->block, err));
  memcpy(m->grid, call->grid, sizeof m->grid);
  m->size = call->size;
  m->is_set = true;
  return KILN_OK;
}

// The same arguments again encode no map, others those maps that depend on what is different. A prepared
// launch keeps what is encoded by itself.
static __attribute__((noinline)) kiln_status launch_with_extras(kiln_kernel *k, kiln_launch_call *call,
                                                                kiln_error *err) {
  struct kiln_memo *m = call->code->memo;
  if (!m || atomic_flag_test_and_set_explicit(&m->is_held, memory_order_acquire))
    return launch_alone(k, call, err);
  kiln_status status = recall(k, call, m, err);
  if (status == KILN_OK) status = k->device->kind->launch(k->device, call, err);
  atomic_flag_clear_explicit(&m->is_held, memory_order_release);
  return status;
}

static kiln_status launch_block(kiln_kernel *k, kiln_stream stream, const uint32_t *grid,
                                const uint8_t *block, kiln_error *err) {
  decision d;
  KILN_TRY(decide(k, block, grid, &d, err));
  if (d.is_empty) return end_empty(k, d.config, grid, err);
  void *function = atomic_load_explicit(&d.code->function, memory_order_acquire);
  if (UNLIKELY(!function)) {
    KILN_TRY(first_load(k, d.code, stream, err));
    function = atomic_load_explicit(&d.code->function, memory_order_acquire);
  }
  kiln_launch_call call = {function, d.code, {d.grid[0], d.grid[1], d.grid[2]}, stream, block, k->used_bytes};
  if (UNLIKELY(has_extras(d.code))) return launch_with_extras(k, &call, err);
  return k->device->kind->launch(k->device, &call, err);
}

// Copies of a constant size become single moves.
static inline void pack(const kiln_kernel *k, const void *const *args, uint8_t *block) {
  const kiln_slot *s = k->slots;
  uint32_t i = 0;
  if (UNLIKELY(k->has_gaps)) memset(block, 0, k->interface.block_bytes);
  else if (k->interface.block_bytes) memset(block + k->interface.block_bytes - 8, 0, 8);
  for (; i < k->slots_of_8; i++) memcpy(block + s[i].offset, args[s[i].param], 8);
  for (; i < k->slots_to_4; i++) memcpy(block + s[i].offset, args[s[i].param], 4);
  for (; i < k->interface.param_count; i++) memcpy(block + s[i].offset, args[s[i].param], s[i].size);
}

static COLD __attribute__((noinline)) kiln_status refuse_count(const kiln_kernel *k, size_t count,
                                                               kiln_error *err) {
  KILN_TRY(kiln_device_check(k->device, err));
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' takes %u arguments, %zu were given",
                   k->interface.name, k->interface.param_count, count);
}

kiln_status kiln_launch(kiln_kernel *k, kiln_stream stream, const void *const *args, size_t arg_count,
                        kiln_error *err) {
  _Alignas(16) uint8_t block[KILN_MOST_BLOCK];
  const kiln_interface *in = &k->interface;
  if (UNLIKELY(arg_count != in->param_count)) return refuse_count(k, arg_count, err);
  pack(k, args, block);
  return launch_block(k, stream, NULL, block, err);
}

// ---------------------------------------------------------------------------------------- prepared

struct kiln_prepared {
  kiln_kernel *kernel; // its device is counted
  uint32_t given_grid[3];
  bool has_given_grid, is_empty;
  kiln_launch_call call; // `block` is the one below; the stream is the launch's
  uint8_t *block;        // inside this allocation, aligned to 64: parameters, then tensor maps
  bool is_encoded;       // the block has the maps of call.code, made from `known`
  kiln_map_sizes known[KILN_MOST_MAPS];
};

// Chooses, loads and encodes for what is in the block. `old`: the parameters for which it was settled before.
static kiln_status settle(kiln_prepared *p, const uint8_t *old, kiln_error *err) {
  kiln_kernel *k = p->kernel;
  decision d;
  const uint32_t *grid = p->has_given_grid ? p->given_grid : NULL;
  KILN_TRY(decide(k, p->block, grid, &d, err));
  if (d.is_empty) KILN_TRY(end_empty(k, d.config, grid, err));
  if (!atomic_load_explicit(&d.code->function, memory_order_acquire))
    KILN_TRY(kiln_code_load(k, (kiln_code *)d.code, err));
  kiln_launch_call call = {
      .function = atomic_load_explicit(&d.code->function, memory_order_acquire),
      .code = d.code,
      .grid = {d.grid[0], d.grid[1], d.grid[2]},
      .block = p->block,
      .size = k->used_bytes,
  };
  bool has_more = has_extras(d.code) && !d.is_empty, is_same = p->is_encoded && d.code == p->call.code;
  kiln_block_words changes;
  if (is_same && has_more) kiln_block_changes(old, p->block, k->used_bytes, &changes);
  p->is_encoded = false;
  if (has_more) KILN_TRY(complete(k, &call, is_same ? &changes : NULL, p->known, p->block, err));
  p->is_encoded = has_more;
  p->is_empty = d.is_empty;
  p->call = call;
  return KILN_OK;
}

static uint32_t most_maps(const kiln_kernel *k) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < k->interface.config_count * k->interface.variant_count; i++)
    if (k->codes[i].map_count > most) most = k->codes[i].map_count;
  return most;
}

COLD kiln_status kiln_prepare(kiln_kernel *k, const void *const *args, size_t arg_count, const uint32_t *grid,
                              kiln_prepared **out, kiln_error *err) {
  *out = NULL;
  if (arg_count != k->interface.param_count) return refuse_count(k, arg_count, err);
  size_t block = kiln_maps_at(k->interface.block_bytes + 8 + 16) + KILN_MAP_ALIGNMENT +
                 (size_t)most_maps(k) * KILN_MAP_BYTES;
  size_t head = kiln_maps_at(sizeof(kiln_prepared));
  kiln_prepared *p = aligned_alloc(KILN_MAP_ALIGNMENT, head + block);
  if (!p) return kiln_kernel_no_memory(k, err);
  memset(p, 0, head + block);
  p->kernel = k;
  p->block = (uint8_t *)p + head;
  if (grid) memcpy(p->given_grid, grid, sizeof p->given_grid);
  p->has_given_grid = grid != NULL;
  pack(k, args, p->block);
  kiln_status status = settle(p, NULL, err);
  if (status != KILN_OK) {
    free(p);
    return status;
  }
  atomic_fetch_add(&k->device->references, 1);
  *out = p;
  return KILN_OK;
}

// What else changes with a parameter.
static inline bool decides(const kiln_prepared *p, size_t param) {
  return p->kernel->is_read[param] || has_extras(p->call.code);
}

static __attribute__((noinline)) kiln_status settle_again(kiln_prepared *p, const kiln_param_record *param,
                                                          const void *value, kiln_error *err) {
  uint8_t old[KILN_MOST_BLOCK];
  memcpy(old, p->block, p->call.size);
  memcpy(p->block + param->offset, value, param->size);
  kiln_status status = settle(p, old, err);
  if (status != KILN_OK) memcpy(p->block, old, p->call.size);
  return status;
}

static COLD __attribute__((noinline)) kiln_status refuse_index(const kiln_kernel *k, size_t index,
                                                               kiln_error *err) {
  KILN_TRY(kiln_device_check(k->device, err));
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' has %u parameters, %zu is to be set",
                   k->interface.name, k->interface.param_count, index);
}

kiln_status kiln_prepared_set(kiln_prepared *p, size_t index, const void *value, kiln_error *err) {
  const kiln_kernel *k = p->kernel;
  if (UNLIKELY(index >= k->interface.param_count)) return refuse_index(k, index, err);
  const kiln_param_record *param = &k->interface.params[index];
  uint64_t address = 0;
  if (param->pointer || param->view_rank) memcpy(&address, value, sizeof address);
  // What nothing depends on is only stored; a broken promise is refused where all are.
  if (decides(p, index) || address & k->masks[index]) return settle_again(p, param, value, err);
  memcpy(p->block + param->offset, value, param->size);
  return KILN_OK;
}

kiln_status kiln_prepared_launch(kiln_prepared *p, kiln_stream stream, kiln_error *err) {
  if (UNLIKELY(p->is_empty)) return KILN_OK;
  kiln_launch_call call = p->call;
  call.stream = stream;
  kiln_device *d = p->kernel->device;
  return d->kind->launch(d, &call, err);
}

const void *kiln_prepared_block(const kiln_prepared *p, size_t *out_size) {
  *out_size = p->call.size;
  return p->block;
}

COLD void kiln_prepared_free(kiln_prepared *p) {
  if (!p) return;
  kiln_device_drop(p->kernel->device);
  free(p);
}

// ------------------------------------------------------------------------------------------ packed

static kiln_status check_size(const kiln_kernel *k, size_t size, kiln_error *err) {
  if (size == k->interface.block_bytes) return KILN_OK;
  KILN_TRY(kiln_device_check(k->device, err));
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' takes a block of %u bytes, %zu were given",
                   k->interface.name, k->interface.block_bytes, size);
}

kiln_status kiln_launch_packed(kiln_kernel *k, kiln_stream stream, const void *block, size_t size,
                               kiln_error *err) {
  KILN_TRY(check_size(k, size, err));
  return launch_block(k, stream, NULL, block, err);
}

kiln_status kiln_launch_grid(kiln_kernel *k, kiln_stream stream, const uint32_t grid[3], const void *block,
                             size_t size, kiln_error *err) {
  KILN_TRY(check_size(k, size, err));
  return launch_block(k, stream, grid, block, err);
}

COLD kiln_status kiln_choose(kiln_kernel *k, const void *block, size_t size, kiln_choice *out,
                             kiln_error *err) {
  decision d;
  kiln_status status = check_size(k, size, err);
  if (status == KILN_OK) status = decide(k, block, NULL, &d, err);
  if (UNLIKELY(status != KILN_OK)) {
    memset(out, 0, sizeof *out);
    return status;
  }
  const kiln_code_info *info = &d.code->info;
  *out = (kiln_choice){
      .config = k->interface.configs[d.config].text,
      .variant = k->interface.variants[d.variant].text,
      .target = info->target,
      .bundle = k->bundle->name,
      .grid = {d.grid[0], d.grid[1], d.grid[2]},
      .block_threads = info->block_threads,
      .shared_bytes = info->shared_bytes,
      .registers = info->registers,
      .spill_bytes = info->spill_bytes,
      .rank = d.code->rank,
  };
  return KILN_OK;
}

// The line `number` of a text.
static const char *line_at(const char *text, uint32_t number, size_t *out_size) {
  while (--number) text = strchr(text, '\n') + 1;
  *out_size = strcspn(text, "\n");
  return text;
}

/// `config`: what was decided.
static COLD void explain_choice(const kiln_kernel *k, uint32_t config, const uint8_t *block,
                                kiln_reason *out) {
  int64_t values[KILN_MOST_PARAMS];
  tuned_search s = {.code = NULL};
  bool is_tuned = k->tuned && k->tuned->choice_count;
  uint64_t cell = is_tuned ? kiln_tuned_cell(k->tuned, block) : 0;
  read_integers(k, block, values);
  if (cell) search_tuned(k, block, values, &s);
  bool is_first = s.code && k->tuned->choices[s.choice].config + 1u == (cell & 0xffff),
       is_declined = s.code && k->tuned->choices[s.choice].config != config;
  out->by = !s.code || is_declined                ? k->has_costs ? KILN_BY_COST
                                                    : is_tuned   ? KILN_BY_DEFAULT
                                                                 : KILN_BY_ORDER
            : is_first && cell & KILN_TUNED_EXACT ? KILN_BY_TABLE
                                                  : KILN_BY_NEAREST;
  out->text = out->by == KILN_BY_TABLE     ? "tuned for arguments like these"
              : out->by == KILN_BY_NEAREST ? "tuned for the nearest arguments"
              : is_declined ? "more than a quarter above the least cost: the config that has it"
              : !is_tuned   ? "nothing was tuned for kernel and device: by order, or least cost"
              : !cell       ? "the arguments lie outside of what was tuned: by order, or least cost"
                            : "nothing that may be used was tuned near: by order, or least cost";
  if (is_tuned) out->bundle = k->tuned->bundle->name;
  if (s.code) out->entry = line_at(k->tuned->note, k->tuned->choices[s.choice].line, &out->entry_size);
}

COLD kiln_status kiln_choose_reason(kiln_kernel *k, const void *block, size_t size, kiln_reason *out,
                                    kiln_error *err) {
  decision d;
  kiln_reason reason = {.size = sizeof reason, .text = "", .entry = "", .bundle = ""};
  if (!out || out->size < sizeof reason)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "a reason has %zu bytes, the caller's has %zu",
                     sizeof reason, out ? out->size : 0);
  reason.size = out->size;
  kiln_status status = check_size(k, size, err);
  if (status == KILN_OK) status = decide(k, block, NULL, &d, err);
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it is decided where nothing was refused
  if (status == KILN_OK) explain_choice(k, d.config, block, &reason);
  memcpy(out, &reason, sizeof reason);
  return status;
}
