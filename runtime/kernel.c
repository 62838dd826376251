// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks up kernels: the bundle whose code fits best (the first of equals), the kernel's interface, and the
// best code for each config and variant.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/launch.h"
#include "runtime/launch_extras.h"
#include "base/launches.h"
#include "runtime/hook.h"
#include "runtime/launches.h"
#include "runtime/refusal.h"
#include "runtime/tuned_choice.h"

// ---------------------------------------------------------------------------------- choosing codes

typedef struct found_kernel {
  size_t bundle;
  kiln_kernel_entry entry;
  unsigned rank; // of its best code
} found_kernel;

static kiln_status best_rank(kiln_device *d, size_t index, const kiln_kernel_entry *kernel, unsigned *out,
                             kiln_error *err) {
  *out = KILN_RANK_REFUSED;
  for (uint32_t i = 0; i < kernel->code_count; i++) {
    kiln_code_entry code;
    KILN_TRY(kiln_bundle_code_at(d->library->bundles[index], kernel, i, &code, err));
    unsigned rank = kiln_device_rank(d, index, code.target, code.flags & KILN_BUNDLE_CODE_PTX, NULL);
    if (rank < *out) *out = rank;
  }
  return KILN_OK;
}

// NOT_FOUND when no bundle has the name; rank REFUSED when none has code for the device.
static kiln_status find_best(kiln_device *d, const char *name, const kiln_check *hash, found_kernel *out,
                             kiln_error *err) {
  bool exists = false;
  out->rank = KILN_RANK_REFUSED;
  for (size_t i = 0; i < d->library->bundle_count; i++) {
    found_kernel this = {.bundle = i};
    kiln_status status = kiln_bundle_kernel_find(d->library->bundles[i], name, hash, &this.entry, err);
    if (status == KILN_STATUS_NOT_FOUND) continue;
    if (status == KILN_OK) status = best_rank(d, i, &this.entry, &this.rank, err);
    if (status != KILN_OK) return status;
    if (!exists || this.rank < out->rank) *out = this;
    exists = true;
  }
  return exists ? KILN_OK : KILN_STATUS_NOT_FOUND;
}

// Of equal ranks the code for the newer processor wins, then what it is made for alone or with its family,
// then the later name.
static bool is_better(kiln_bundle *b, const kiln_code_entry *entry, unsigned rank, const kiln_code *old) {
  kiln_target now, before;
  if (!old->is_present || rank != old->rank) return !old->is_present || rank < old->rank;
  const char *name = kiln_bundle_target_at(b, entry->target, NULL),
             *old_name = kiln_bundle_target_at(b, old->target, NULL);
  if (!name || !old_name || kiln_target_parse(name, &now, NULL) != KILN_OK ||
      kiln_target_parse(old_name, &before, NULL) != KILN_OK)
    return false;
  if (now.processor->number != before.processor->number)
    return now.processor->number > before.processor->number;
  if (now.processor->reach != before.processor->reach) return now.processor->reach > before.processor->reach;
  return strcmp(name, old_name) > 0;
}

/// The code info has the record; older bundles have it apart.
static kiln_status take_maps(kiln_kernel *k, const kiln_code_entry *entry, kiln_code *code, kiln_error *err) {
  size_t size = code->info.maps.size;
  const uint8_t *record = code->info.maps.bytes;
  if (!size && entry->maps == KILN_BUNDLE_NONE) return KILN_OK;
  if (!size && !(record = kiln_bundle_info(k->bundle, entry->maps, &size, err))) return KILN_STATUS_CORRUPT;
  return kiln_tensor_maps_decode(k, record, size, code, err);
}

static kiln_status take_codes(kiln_kernel *k, const kiln_kernel_entry *kernel, kiln_error *err) {
  const kiln_interface *in = &k->interface;
  for (uint32_t i = 0; i < kernel->code_count; i++) {
    kiln_code_entry entry;
    size_t size;
    KILN_TRY(kiln_bundle_code_at(k->bundle, kernel, i, &entry, err));
    if (entry.config >= in->config_count || entry.variant >= in->variant_count)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: '%s' has code for config %u of %u, variant %u of %u",
                       k->bundle->name, in->name, entry.config, in->config_count, entry.variant,
                       in->variant_count);
    kiln_code *code = &k->codes[(size_t)entry.config * in->variant_count + entry.variant];
    bool is_ptx = entry.flags & KILN_BUNDLE_CODE_PTX;
    unsigned rank = kiln_device_rank(k->device, k->bundle_index, entry.target, is_ptx, NULL);
    if (rank == KILN_RANK_REFUSED || !is_better(k->bundle, &entry, rank, code)) continue;
    const uint8_t *info = kiln_bundle_info(k->bundle, entry.info, &size, err);
    if (!info) return KILN_STATUS_CORRUPT;
    if (!kiln_code_info_decode(info, size, &code->info))
      return kiln_record_refuse(err, KILN_RECORD_CODE_INFO, info, size, "%s: the code info of '%.200s'",
                                k->bundle->name, in->name);
    code->map_count = 0, code->memo = NULL;
    code->grid_at = (k->used_bytes + 3) & ~3u;
    code->params_end = code->info.blocks ? code->grid_at + KILN_GRID_BYTES : k->used_bytes;
    code->config = entry.config;
    code->variant = entry.variant;
    KILN_TRY(take_maps(k, &entry, code, err));
    code->has_extras = code->map_count || code->info.blocks;
    for (unsigned axis = 0; axis < 3; axis++) {
      const uint32_t most = code->info.most_programs[axis], devices = k->device->grid_limit[axis];
      code->grid_limit[axis] = most && most < devices ? most : devices;
    }
    code->kernel = k;
    code->blob = entry.blob;
    code->target = entry.target;
    code->rank = (uint8_t)rank;
    code->is_ptx = is_ptx;
    code->is_present = true;
    k->configs[entry.config].is_usable = true;
  }
  return KILN_OK;
}

// -------------------------------------------------------------------------------------- the handle

kiln_status kiln_kernel_no_memory(const kiln_kernel *k, kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "kernel '%.200s' of %s: memory is exhausted",
                   k->interface.name ? k->interface.name : "?", k->bundle->name);
}

static kiln_status read_interface(kiln_kernel *k, const kiln_kernel_entry *entry, const char *name,
                                  kiln_error *err) {
  size_t size;
  kiln_interface *in = &k->interface;
  const uint8_t *record = kiln_bundle_record(k->bundle, entry->interface, &size, err);
  if (!record) return KILN_STATUS_CORRUPT;
  bool is_whole = kiln_interface_decode(k->arena, record, size, in);
  if (kiln_arena_failed(k->arena)) return kiln_kernel_no_memory(k, err);
  if (!is_whole || strcmp(in->name, name) || !in->config_count || !in->variant_count)
    return kiln_record_refuse(err, KILN_RECORD_INTERFACE, record, size, "%s: the interface of '%.200s'",
                              k->bundle->name, name);
  kiln_layout_params(in);
  if (in->param_count > KILN_MOST_PARAMS || in->block_bytes > KILN_MOST_BLOCK)
    return kiln_fail(err, KILN_STATUS_LIMIT,
                     "'%s' has %u parameters of %u bytes; at most %d of %d bytes can be launched", name,
                     in->param_count, in->block_bytes, KILN_MOST_PARAMS, KILN_MOST_BLOCK);
  if ((uint64_t)in->config_count * in->variant_count > KILN_MOST_CODES)
    return kiln_fail(err, KILN_STATUS_LIMIT,
                     "'%s' has %u configs of %u variants; at most %d codes a kernel can be chosen from", name,
                     in->config_count, in->variant_count, KILN_MOST_CODES);
  for (uint32_t i = 0; i < in->param_count; i++) k->used_bytes = in->params[i].offset + in->params[i].size;
  k->abi = kiln_interface_abi(in);
  return KILN_OK;
}

static bool is_empty(const kiln_conjunction *c) { return !c->mask_count && !c->other_count; }

// The first code of the first config that may be used, unless a condition stands before it.
static void find_certain(kiln_kernel *k) {
  uint32_t c = 0, v = 0;
  const uint32_t variants = k->interface.variant_count;
  while (c < k->interface.config_count && !k->configs[c].is_usable) c++;
  if (c == k->interface.config_count || !is_empty(&k->configs[c].require)) return;
  while (!k->codes[c * variants + v].is_present) v++;
  if (!is_empty(&k->variants[v])) return;
  k->certain_config = c;
  k->certain = &k->codes[c * variants + v];
}

// What notes of the bundles say of the kernel.
static kiln_status attach_notes(kiln_kernel *k, kiln_error *err) {
  const kiln_library *l = k->device->library;
  char key[KILN_TUNED_NOTE];
  size_t size;
  bool is_tuned = l->record_path != NULL, has_key = kiln_tuned_note_key(k->interface.name, key);
  for (size_t i = 0; i < l->bundle_count && has_key && !is_tuned; i++)
    is_tuned = kiln_bundle_note(l->bundles[i], key, &size);
  if (is_tuned) KILN_TRY(kiln_tuned_attach(k, err));
  snprintf(key, sizeof key, KILN_LAUNCHES_NOTE, k->interface.name);
  k->has_launches = kiln_bundle_note(k->bundle, key, &size);
  k->is_plain = !k->tuned && !k->has_costs && !k->integer_count;
  if (k->is_plain) find_certain(k);
  return KILN_OK;
}

static kiln_status fill_kernel(kiln_kernel *k, const found_kernel *found, const char *name, kiln_error *err) {
  KILN_TRY(read_interface(k, &found->entry, name, err));
  k->codes =
      KILN_NEW_ARRAY(k->arena, kiln_code, (size_t)k->interface.config_count * k->interface.variant_count);
  if (!k->codes) return kiln_kernel_no_memory(k, err);
  KILN_TRY(kiln_kernel_prepare(k, err));
  KILN_TRY(take_codes(k, &found->entry, err));
  return attach_notes(k, err);
}

void kiln_kernel_end(kiln_kernel *k) {
  if (k->tuned) free(k->tuned->cells);
  struct kiln_launches *launches = atomic_load(&k->launches);
  if (launches) kiln_arena_destroy(launches->arena);
  kiln_arena_destroy(k->arena);
  *k = (kiln_kernel){.device = k->device, .interface.name = ""};
}

static kiln_status make_kernel(kiln_device *d, const found_kernel *found, const char *name,
                               const kiln_check *hash, kiln_kernel **out, kiln_error *err) {
  kiln_kernel *k = calloc(1, sizeof *k);
  if (k) k->arena = kiln_arena_create_with(NULL);
  if (!k || !k->arena) {
    free(k);
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "'%s': memory is exhausted", name);
  }
  k->device = d;
  k->bundle_index = found->bundle;
  k->bundle = d->library->bundles[found->bundle];
  k->hash = *hash;
  kiln_status status = fill_kernel(k, found, name, err);
  if (status == KILN_OK) {
    *out = k;
  } else {
    kiln_kernel_end(k);
    free(k);
  }
  return status;
}

// ------------------------------------------------------------------------------- table of a device

static kiln_kernel **slot_of(kiln_device *d, const kiln_check *hash, const char *name) {
  uint32_t at = kiln_le32(hash->bytes) & (d->kernel_slots - 1);
  while (d->kernels[at] && (memcmp(d->kernels[at]->hash.bytes, hash->bytes, KILN_CHECK_SIZE) ||
                            (name && strcmp(d->kernels[at]->interface.name, name))))
    at = (at + 1) & (d->kernel_slots - 1);
  return &d->kernels[at];
}

static bool grow_table(kiln_device *d) {
  if (d->kernel_count * 2 < d->kernel_slots) return true;
  kiln_kernel **old = d->kernels;
  uint32_t old_slots = d->kernel_slots, slots = old_slots ? old_slots * 2 : 32;
  kiln_kernel **table = calloc(slots, sizeof *table);
  if (!table) return false;
  d->kernels = table;
  atomic_signal_fence(memory_order_seq_cst); // the child of a fork finds slots that the table has
  d->kernel_slots = slots;
  for (uint32_t i = 0; i < old_slots; i++)
    if (old[i]) *slot_of(d, &old[i]->hash, old[i]->interface.name) = old[i];
  free(old);
  return true;
}

// NOT_FOUND and NO_VARIANT come without a message: the caller writes the report when the lock is free again.
static kiln_status look_up(kiln_device *d, const char *name, kiln_kernel **out, bool *out_made,
                           kiln_error *err) {
  kiln_check hash = kiln_check_of(name, strlen(name));
  found_kernel found = {0};
  if (!grow_table(d)) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "'%s': memory is exhausted", name);
  kiln_kernel **slot = slot_of(d, &hash, name);
  if (!*slot) {
    KILN_TRY(find_best(d, name, &hash, &found, err));
    if (found.rank == KILN_RANK_REFUSED) return KILN_STATUS_NO_VARIANT;
    KILN_TRY(make_kernel(d, &found, name, &hash, slot, err));
    d->kernel_count++;
    *out_made = true;
  }
  *out = *slot;
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ public

kiln_status kiln_kernel_get(kiln_device *d, const char *name, const kiln_signature *signature,
                            kiln_kernel **out, kiln_error *err) {
  KILN_NEED(out, "result");
  *out = NULL;
  KILN_NEED(d, "device");
  KILN_NEED(name, "name");
  kiln_error mine;
  if (!err) err = &mine;
  kiln_kernel *found = NULL;
  bool made = false;
  KILN_TRY(kiln_device_check(d, err));
  pthread_mutex_lock(&d->lock);
  kiln_status status = look_up(d, name, &found, &made, err);
  pthread_mutex_unlock(&d->lock);
  if (status == KILN_STATUS_NOT_FOUND || status == KILN_STATUS_NO_VARIANT)
    return kiln_refuse_kernel(d, name, status, err);
  if (made && (d->library->log || kiln_hook_is_any())) kiln_log_found(found, &mine);
  if (status == KILN_OK && signature && signature->abi && signature->abi != found->abi)
    status = kiln_refuse_signature(found, signature, err);
  if (status == KILN_OK) *out = found;
  return status;
}

size_t kiln_param_count(const kiln_kernel *k) { return k ? k->interface.param_count : 0; }
size_t kiln_block_size(const kiln_kernel *k) { return k ? k->interface.block_bytes : 0; }
uint64_t kiln_kernel_abi(const kiln_kernel *k) { return k ? k->abi : 0; }
const char *kiln_kernel_returns(const kiln_kernel *k) { return k ? k->interface.returns : NULL; }
const char *kiln_kernel_backward(const kiln_kernel *k) { return k ? k->interface.backward : NULL; }

// "*f32", "view bf16": static texts for every scalar and depth.
#define TYPE_ROW(spelling) \
  { spelling, "*" spelling, "**" spelling, "view " spelling }
static const char type_texts[KILN_SCALAR_COUNT][4][10] = {
#define TYPE(name, spelling, number, bits, type_class) [number] = TYPE_ROW(spelling),
#include "base/types.def"
#undef TYPE
};

kiln_status kiln_param_at(const kiln_kernel *k, size_t index, kiln_param *out) {
  if (!out) return KILN_STATUS_INVALID_ARGUMENT;
  memset(out, 0, sizeof *out);
  if (!k) return KILN_STATUS_INVALID_ARGUMENT;
  if (index >= k->interface.param_count) return KILN_STATUS_NOT_FOUND;
  const kiln_param_record *p = &k->interface.params[index];
  *out = (kiln_param){p->name,      type_texts[p->scalar][p->view_rank ? 3 : p->pointer],
                      p->offset,    p->size,
                      p->view_rank, p->pointer,
                      p->access};
  return KILN_OK;
}
