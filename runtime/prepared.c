// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements prepared launches, which are decided once. After a parameter changes, only what depends on it
// is decided again.
#include <stdlib.h>
#include <string.h>

#include "runtime/decision.h"
#include "runtime/launch_extras.h"

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
static kiln_status decide_again(kiln_prepared *p, const uint8_t *old, kiln_error *err) {
  kiln_kernel *k = p->kernel;
  const uint32_t *grid = p->has_given_grid ? p->given_grid : NULL;
  kiln_launch_call call = {.block = p->block, .size = k->used_bytes};
  kiln_block_words changes;
  KILN_TRY(kiln_decide(k, p->block, grid, &call, err));
  bool is_empty = kiln_is_empty(call.grid), has_more = call.code->has_extras && !is_empty;
  if (is_empty) KILN_TRY(kiln_end_empty(k, &call, grid, err));
  if (!atomic_load_explicit(&call.code->function, memory_order_acquire))
    KILN_TRY(kiln_code_load(k, (kiln_code *)call.code, err));
  call.function = atomic_load_explicit(&call.code->function, memory_order_acquire);
  bool is_same = p->is_encoded && call.code == p->call.code;
  if (is_same && has_more) kiln_block_changes(old, p->block, k->used_bytes, &changes);
  p->is_encoded = false;
  if (has_more) KILN_TRY(kiln_extras_encode(k, &call, is_same ? &changes : NULL, p->known, p->block, err));
  p->is_encoded = has_more;
  p->is_empty = is_empty;
  p->call = call;
  return KILN_OK;
}

static uint32_t most_maps(const kiln_kernel *k) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < k->interface.config_count * k->interface.variant_count; i++)
    if (k->codes[i].map_count > most) most = k->codes[i].map_count;
  return most;
}

KILN_COLD kiln_status kiln_prepare(kiln_kernel *k, const void *const *args, size_t arg_count,
                                   const uint32_t *grid, kiln_prepared **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  if (!k || arg_count != k->interface.param_count || (!args && arg_count))
    return kiln_refuse_count(k, arg_count, err);
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
  kiln_status status =
      kiln_pack(k, args, p->block) ? decide_again(p, NULL, err) : kiln_refuse_count(k, arg_count, err);
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
  return p->kernel->is_read[param] || p->call.code->has_extras;
}

static __attribute__((noinline)) kiln_status settle_again(kiln_prepared *p, const kiln_param_record *param,
                                                          const void *value, kiln_error *err) {
  uint8_t old[KILN_MOST_BLOCK];
  memcpy(old, p->block, p->call.size);
  memcpy(p->block + param->offset, value, param->size);
  kiln_status status = decide_again(p, old, err);
  if (status != KILN_OK) memcpy(p->block, old, p->call.size);
  return status;
}

kiln_status kiln_prepared_set(kiln_prepared *p, size_t index, const void *value, kiln_error *err) {
  KILN_NEED(p, "prepared launch");
  const kiln_kernel *k = p->kernel;
  KILN_NEED(value, "value");
  if (KILN_UNLIKELY(index >= k->interface.param_count)) return kiln_refuse_index(k, index, err);
  const kiln_param_record *param = &k->interface.params[index];
  uint64_t address = 0;
  if (param->pointer || param->view_rank) memcpy(&address, value, sizeof address);
  // What nothing depends on is only stored; a broken promise is refused where all are.
  if (decides(p, index) || address & k->masks[index]) return settle_again(p, param, value, err);
  memcpy(p->block + param->offset, value, param->size);
  return KILN_OK;
}

kiln_status kiln_prepared_launch(kiln_prepared *p, kiln_stream stream, kiln_error *err) {
  KILN_NEED(p, "prepared launch");
  if (KILN_UNLIKELY(p->is_empty)) return KILN_OK;
  kiln_launch_call call = p->call;
  call.stream = stream;
  kiln_device *d = p->kernel->device;
  return d->kind->launch(d, &call, err);
}

const void *kiln_prepared_block(const kiln_prepared *p, size_t *out_size) {
  if (out_size) *out_size = p ? p->call.size : 0;
  return p ? p->block : NULL;
}

KILN_COLD void kiln_prepared_free(kiln_prepared *p) {
  if (!p) return;
  kiln_device_drop(p->kernel->device);
  free(p);
}
