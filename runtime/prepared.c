// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements prepared launches, which are decided once. After a parameter changes, only what depends on it
// is decided again.
#include <stdlib.h>
#include <string.h>

#include "runtime/launch_extras.h"
#include "runtime/launches.h"
#include "runtime/refusal.h"

typedef struct launch_list {
  kiln_prepared *items[KILN_MOST_LAUNCHES]; // owned
  uint32_t count;
} launch_list;

struct kiln_prepared {
  kiln_kernel *kernel; // its device is counted
  uint32_t given_grid[3];
  bool has_given_grid, is_empty;
  kiln_launch_call call; // `block` is the one below; the stream is the launch's
  uint8_t *block;        // inside this allocation, aligned to 64: parameters, then tensor maps
  bool is_encoded;       // the block has the maps of call.code, made from `known`
  kiln_map_sizes known[KILN_MOST_MAPS];
  void *scratch; // the caller's; NULL: none
  size_t scratch_bytes;
  launch_list launches; // not empty: they run in place of `call`
};

// Chooses, loads and encodes for what is in the block. `old`: the parameters for which it was settled before.
static kiln_status decide_again(kiln_prepared *p, const uint8_t *old, kiln_error *err) {
  kiln_kernel *k = p->kernel;
  const uint32_t *grid = p->has_given_grid ? p->given_grid : NULL;
  kiln_launch_call call = {.block = p->block, .size = k->used_bytes};
  kiln_block_words changes;
  KILN_TRY(kiln_decide(k, p->block, grid, &call, err));
  bool is_empty = !call.grid[0] || !call.grid[1] || !call.grid[2],
       has_more = call.code->has_extras && !is_empty;
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

static KILN_COLD kiln_prepared *create(kiln_kernel *k, const uint32_t *grid) {
  size_t block = kiln_maps_at(k->interface.block_bytes + 8 + 16) + KILN_MAP_ALIGNMENT +
                 (size_t)most_maps(k) * KILN_MAP_BYTES;
  size_t head = kiln_maps_at(sizeof(kiln_prepared));
  kiln_prepared *p = aligned_alloc(KILN_MAP_ALIGNMENT, head + block);
  if (!p) return NULL;
  memset(p, 0, head + block);
  p->kernel = k;
  p->block = (uint8_t *)p + head;
  if (grid) memcpy(p->given_grid, grid, sizeof p->given_grid);
  p->has_given_grid = grid != NULL;
  return p;
}

// Decides about the arguments in the block, of which `status` says whether they could be packed.
static KILN_COLD kiln_status end_prepare(kiln_prepared *p, kiln_status status, kiln_prepared **out,
                                         kiln_error *err) {
  if (status == KILN_OK) status = decide_again(p, NULL, err);
  if (status != KILN_OK) {
    free(p);
    return status;
  }
  atomic_fetch_add(&p->kernel->device->references, 1);
  *out = p;
  return KILN_OK;
}

KILN_COLD kiln_status kiln_prepare(kiln_kernel *k, const void *const *args, size_t arg_count,
                                   const uint32_t *grid, kiln_prepared **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  if (!k || arg_count != k->interface.param_count || (!args && arg_count))
    return kiln_refuse_count(k, arg_count, err);
  kiln_prepared *p = create(k, grid);
  if (!p) return kiln_kernel_no_memory(k, err);
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < arg_count && status == KILN_OK; i++) { // create() has cleared the block
    if (args[i]) memcpy(p->block + k->interface.params[i].offset, args[i], k->interface.params[i].size);
    else status = kiln_refuse_count(k, arg_count, err);
  }
  return end_prepare(p, status, out, err);
}

// ------------------------------------------------------------------------------------- scratch memory

static KILN_COLD void free_list(launch_list *list) {
  while (list->count) kiln_prepared_free(list->items[--list->count]);
}

static KILN_COLD kiln_status add_launch(void *context, kiln_kernel *k, const uint8_t *block,
                                        kiln_error *err) {
  launch_list *list = context;
  kiln_prepared *p = create(k, NULL);
  if (!p) return kiln_kernel_no_memory(k, err);
  memcpy(p->block, block, k->interface.block_bytes);
  KILN_TRY(end_prepare(p, KILN_OK, &list->items[list->count], err));
  list->count++;
  return KILN_OK;
}

// What runs in place of the kernel for what is in the block.
static KILN_COLD kiln_status make_launches(const kiln_prepared *p, const void *scratch, size_t bytes,
                                           launch_list *out, kiln_error *err) {
  bool any;
  if (p->has_given_grid || !scratch) return KILN_OK;
  kiln_status status = kiln_launches_decide(p->kernel, p->block, scratch, bytes, add_launch, out, &any, err);
  if (status != KILN_OK) free_list(out);
  return status;
}

KILN_COLD kiln_status kiln_prepared_scratch(kiln_prepared *p, void *scratch, size_t bytes, kiln_error *err) {
  launch_list made = {.count = 0};
  KILN_NEED(p, "prepared launch");
  KILN_TRY(kiln_device_check(p->kernel->device, err));
  KILN_TRY(make_launches(p, scratch, bytes, &made, err));
  free_list(&p->launches);
  p->launches = made;
  p->scratch = scratch;
  p->scratch_bytes = bytes;
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ arguments

// What else changes with a parameter.
static inline bool decides(const kiln_prepared *p, size_t param) {
  return p->kernel->is_read[param] || p->call.code->has_extras || p->scratch;
}

static __attribute__((noinline)) kiln_status settle_again(kiln_prepared *p, const kiln_param_record *param,
                                                          const void *value, kiln_error *err) {
  uint8_t old[KILN_MOST_BLOCK];
  launch_list made = {.count = 0};
  memcpy(old, p->block, p->call.size);
  memcpy(p->block + param->offset, value, param->size);
  kiln_status status = p->scratch ? make_launches(p, p->scratch, p->scratch_bytes, &made, err) : KILN_OK;
  if (status == KILN_OK) status = decide_again(p, old, err);
  if (status != KILN_OK) memcpy(p->block, old, p->call.size);
  free_list(status == KILN_OK ? &p->launches : &made);
  if (status == KILN_OK) p->launches = made;
  return status;
}

kiln_status kiln_prepared_set(kiln_prepared *p, size_t index, const void *value, kiln_error *err) {
  KILN_NEED(p, "prepared launch");
  const kiln_kernel *k = p->kernel;
  KILN_NEED(value, "value");
  if (KILN_UNLIKELY(index >= k->interface.param_count)) return kiln_refuse_index(k, index, err);
  const kiln_param_record *param = &k->interface.params[index];
  uint64_t address = 0;
  if (kiln_param_is_address(param)) memcpy(&address, value, sizeof address);
  // What nothing depends on is only stored; a broken promise is refused where all are.
  if (decides(p, index) || address & k->masks[index]) return settle_again(p, param, value, err);
  memcpy(p->block + param->offset, value, param->size);
  return KILN_OK;
}

static __attribute__((noinline)) kiln_status launch_list_on(const launch_list *list, kiln_stream stream,
                                                            kiln_error *err) {
  for (uint32_t i = 0; i < list->count; i++) KILN_TRY(kiln_prepared_launch(list->items[i], stream, err));
  return KILN_OK;
}

kiln_status kiln_prepared_launch(kiln_prepared *p, kiln_stream stream, kiln_error *err) {
  KILN_NEED(p, "prepared launch");
  if (KILN_UNLIKELY(p->launches.count)) return launch_list_on(&p->launches, stream, err);
  if (KILN_UNLIKELY(p->is_empty)) return kiln_device_check(p->kernel->device, err);
  kiln_launch_call call = p->call;
  call.stream = stream;
  kiln_device *d = p->kernel->device;
  return atomic_load_explicit(&d->kind, memory_order_relaxed)->launch(d, &call, err);
}

const void *kiln_prepared_block(const kiln_prepared *p, size_t *out_size) {
  if (out_size) *out_size = p ? p->call.size : 0;
  return p ? p->block : NULL;
}

KILN_COLD void kiln_prepared_free(kiln_prepared *p) {
  if (!p) return;
  free_list(&p->launches);
  kiln_device_drop(p->kernel->device);
  free(p);
}
