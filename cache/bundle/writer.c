// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects what goes into a bundle, stores equal codes once, and drives packing and writing.
#include "cache/bundle/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/bundle/internal.h"

kiln_bundle_writer *kiln_bundle_writer_create(void) {
  kiln_bundle_writer *w = calloc(1, sizeof *w);
  if (w) w->arena = kiln_arena_create();
  return w;
}

void kiln_bundle_writer_destroy(kiln_bundle_writer *w) {
  if (!w) return;
  free(w->kernel_map.slots);
  free(w->code_map.slots);
  free(w->blob_map.slots);
  kiln_arena_destroy(w->arena);
  free(w);
}

// -------------------------------------------------------------------------------------------- maps

typedef bool matcher(const kiln_bundle_writer *w, uint32_t position, const void *wanted);
typedef uint64_t hasher(const kiln_bundle_writer *w, uint32_t position);

static uint64_t kernel_hash(const kiln_bundle_writer *w, uint32_t i) {
  return kiln_le64(w->kernels[i].hash.bytes);
}
static uint64_t blob_hash(const kiln_bundle_writer *w, uint32_t i) {
  return kiln_le64(w->blobs[i].digest.bytes);
}
static uint64_t code_key(const kiln_pack_code *c) {
  uint64_t key = (uint64_t)c->kernel << 33 | (uint64_t)c->config << 17 | c->variant << 1 |
                 (c->flags & KILN_BUNDLE_CODE_PTX);
  kiln_check target = kiln_check_of(c->target, strlen(c->target));
  return (key * 0x9e3779b97f4a7c15u) ^ kiln_le64(target.bytes);
}
static uint64_t code_hash(const kiln_bundle_writer *w, uint32_t i) { return code_key(&w->codes[i]); }

static bool kernel_matches(const kiln_bundle_writer *w, uint32_t i, const void *wanted) {
  return !memcmp(w->kernels[i].hash.bytes, wanted, KILN_CHECK_SIZE);
}
static bool blob_matches(const kiln_bundle_writer *w, uint32_t i, const void *wanted) {
  return !memcmp(w->blobs[i].digest.bytes, wanted, KILN_DIGEST_SIZE);
}
static bool code_matches(const kiln_bundle_writer *w, uint32_t i, const void *wanted) {
  const kiln_pack_code *a = &w->codes[i], *b = wanted;
  bool same_form = !((a->flags ^ b->flags) & KILN_BUNDLE_CODE_PTX); // PTX may be stored with machine code
  return a->kernel == b->kernel && a->config == b->config && a->variant == b->variant && same_form &&
         !strcmp(a->target, b->target);
}

static bool map_grow(const kiln_bundle_writer *w, kiln_pack_map *map, hasher *hash_of) {
  if (map->used * 2 < map->slot_count) return true;
  uint32_t count = map->slot_count ? map->slot_count * 2 : 64;
  uint32_t *slots = calloc(count, sizeof *slots);
  if (!slots) return false;
  for (uint32_t i = 0; i < map->used; i++) {
    uint32_t at = (uint32_t)hash_of(w, i) & (count - 1);
    while (slots[at]) at = (at + 1) & (count - 1);
    slots[at] = i + 1;
  }
  free(map->slots);
  map->slots = slots;
  map->slot_count = count;
  return true;
}

// The position of what matches, or KILN_BUNDLE_NONE.
static uint32_t map_find(const kiln_bundle_writer *w, const kiln_pack_map *map, uint64_t hash,
                         matcher *matches, const void *wanted) {
  if (!map->slot_count) return KILN_BUNDLE_NONE;
  for (uint32_t at = (uint32_t)hash & (map->slot_count - 1); map->slots[at];
       at = (at + 1) & (map->slot_count - 1))
    if (matches(w, map->slots[at] - 1, wanted)) return map->slots[at] - 1;
  return KILN_BUNDLE_NONE;
}

// Notes the item that is about to become number map->used; map_grow was called before.
static void map_add(kiln_pack_map *map, uint64_t hash) {
  uint32_t at = (uint32_t)hash & (map->slot_count - 1);
  while (map->slots[at]) at = (at + 1) & (map->slot_count - 1);
  map->slots[at] = ++map->used;
}

static kiln_status no_memory(kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "bundle writer: memory is exhausted");
}

// ------------------------------------------------------------------------------------------ adding

kiln_status kiln_bundle_writer_kernel(kiln_bundle_writer *w, const char *name, const void *record,
                                      size_t size, uint32_t *out_kernel, kiln_error *err) {
  *out_kernel = KILN_BUNDLE_NONE;
  size_t length = strlen(name);
  if (!length || length > KILN_BUNDLE_MAX_NAME)
    return kiln_fail(err, KILN_STATUS_LIMIT, "kernel name of %zu bytes; 1 to %d are allowed", length,
                     KILN_BUNDLE_MAX_NAME);
  if (size > KILN_BUNDLE_MAX_RECORD)
    return kiln_fail(err, KILN_STATUS_LIMIT, "interface of '%s' has %zu bytes; the limit is %d", name, size,
                     KILN_BUNDLE_MAX_RECORD);
  kiln_check hash = kiln_check_of(name, length);
  uint32_t found = map_find(w, &w->kernel_map, kiln_le64(hash.bytes), kernel_matches, hash.bytes);
  if (found != KILN_BUNDLE_NONE) {
    const kiln_pack_kernel *k = &w->kernels[found];
    if (strcmp(k->name, name) || k->size != size || memcmp(k->record, record, size))
      return kiln_fail(err, KILN_STATUS_EXISTS,
                       "kernel '%s' is added twice with different interfaces (%zu and %zu bytes)", name,
                       k->size, size);
    *out_kernel = found;
    return KILN_OK;
  }
  if (!map_grow(w, &w->kernel_map, kernel_hash)) return no_memory(err);
  KILN_GROW(w->arena, w->kernels, w->kernel_count, w->kernel_capacity);
  *out_kernel = w->kernel_count;
  w->kernels[w->kernel_count++] = (kiln_pack_kernel){kiln_arena_text(w->arena, name, length),
                                                     kiln_arena_copy(w->arena, record, size), size, hash};
  map_add(&w->kernel_map, kiln_le64(hash.bytes));
  return KILN_OK;
}

static bool is_family_name(const char *text) {
  if (!*text || strlen(text) > 64) return false;
  for (; *text; text++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *text)) return false;
  return true;
}

static kiln_status check_code(const kiln_bundle_writer *w, const kiln_bundle_code *c, kiln_error *err) {
  if (c->kernel >= w->kernel_count)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "code for kernel %u, but only %u kernels were added",
                     c->kernel, w->kernel_count);
  if (c->config > UINT16_MAX || c->variant > UINT16_MAX)
    return kiln_fail(err, KILN_STATUS_LIMIT, "'%s': config %u or variant %u is above %d",
                     w->kernels[c->kernel].name, c->config, c->variant, UINT16_MAX);
  if (c->code && (!c->code_size || c->code_size > KILN_BUNDLE_MAX_BLOB))
    return kiln_fail(err, KILN_STATUS_LIMIT, "'%s' for %s: code of %zu bytes; 1 to %d are allowed",
                     w->kernels[c->kernel].name, c->target, c->code_size, KILN_BUNDLE_MAX_BLOB);
  if (c->info_size > KILN_BUNDLE_MAX_INFO)
    return kiln_fail(err, KILN_STATUS_LIMIT, "'%s' for %s: code info of %zu bytes; the limit is %d",
                     w->kernels[c->kernel].name, c->target, c->info_size, KILN_BUNDLE_MAX_INFO);
  if (c->maps_size > KILN_BUNDLE_MAX_INFO)
    return kiln_fail(err, KILN_STATUS_LIMIT, "'%s' for %s: tensor maps of %zu bytes; the limit is %d",
                     w->kernels[c->kernel].name, c->target, c->maps_size, KILN_BUNDLE_MAX_INFO);
  if (!is_family_name(c->family))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "family '%s' is not 1 to 64 letters, digits, '_' or '-'", c->family);
  return KILN_OK;
}

static kiln_status add_blob(kiln_bundle_writer *w, const kiln_digest *digest, const void *bytes, size_t size,
                            uint32_t *out, kiln_error *err) {
  *out = map_find(w, &w->blob_map, kiln_le64(digest->bytes), blob_matches, digest->bytes);
  if (*out != KILN_BUNDLE_NONE) return KILN_OK;
  if (!bytes) return kiln_fail(err, KILN_STATUS_NOT_FOUND, "bundle writer: no code of that digest was added");
  if (!map_grow(w, &w->blob_map, blob_hash)) return no_memory(err);
  KILN_GROW(w->arena, w->blobs, w->blob_count, w->blob_capacity);
  *out = w->blob_count;
  w->blobs[w->blob_count++] =
      (kiln_pack_blob){.digest = *digest, .bytes = kiln_arena_copy(w->arena, bytes, size), .size = size};
  map_add(&w->blob_map, kiln_le64(digest->bytes));
  return KILN_OK;
}

kiln_status kiln_bundle_writer_code(kiln_bundle_writer *w, const kiln_bundle_code *c, kiln_error *err) {
  KILN_TRY(check_code(w, c, err));
  kiln_digest digest;
  if (c->code) digest = kiln_digest_of(c->code, c->code_size);
  else memcpy(digest.bytes, c->digest, sizeof digest.bytes);
  kiln_pack_code code = {c->kernel, c->config, c->variant,   c->flags, 0,           c->target,
                         c->family, c->info,   c->info_size, c->maps,  c->maps_size};
  uint64_t hash = code_key(&code);
  uint32_t found = map_find(w, &w->code_map, hash, code_matches, &code);
  if (found != KILN_BUNDLE_NONE) {
    const kiln_pack_code *old = &w->codes[found];
    bool same_maps = !old->maps == !c->maps && old->maps_size == c->maps_size &&
                     (!c->maps || !memcmp(old->maps, c->maps, c->maps_size));
    bool same_info = old->info_size == c->info_size && !memcmp(old->info, c->info, c->info_size);
    if (blob_matches(w, old->blob, digest.bytes) && same_info && same_maps) return KILN_OK;
    return kiln_fail(err, KILN_STATUS_EXISTS,
                     "'%s' config %u variant %u for %s is added twice with different codes",
                     w->kernels[c->kernel].name, c->config, c->variant, c->target);
  }
  if (!map_grow(w, &w->code_map, code_hash)) return no_memory(err);
  KILN_TRY(add_blob(w, &digest, c->code, c->code_size, &code.blob, err));
  KILN_GROW(w->arena, w->codes, w->code_count, w->code_capacity);
  code.target = kiln_arena_text(w->arena, c->target, strlen(c->target));
  code.family = kiln_arena_text(w->arena, c->family, strlen(c->family));
  code.info = kiln_arena_copy(w->arena, c->info, c->info_size);
  if (c->maps) code.maps = kiln_arena_copy(w->arena, c->maps, c->maps_size);
  w->codes[w->code_count++] = code;
  map_add(&w->code_map, hash);
  return KILN_OK;
}

kiln_status kiln_bundle_writer_note(kiln_bundle_writer *w, const char *key, const char *value,
                                    kiln_error *err) {
  if (strlen(key) > KILN_BUNDLE_MAX_NAME || strlen(value) > KILN_BUNDLE_MAX_RECORD)
    return kiln_fail(err, KILN_STATUS_LIMIT, "note of %zu + %zu bytes is too long", strlen(key),
                     strlen(value));
  for (uint32_t i = 0; i < w->note_count; i++) {
    if (strcmp(w->notes[i].key, key)) continue;
    if (!strcmp(w->notes[i].value, value)) return KILN_OK;
    return kiln_fail(err, KILN_STATUS_EXISTS, "note '%s' is set to '%s' and to '%s'", key, w->notes[i].value,
                     value);
  }
  w->note_bytes += strlen(key) + strlen(value);
  if (w->note_bytes > KILN_BUNDLE_MAX_NOTES)
    return kiln_fail(err, KILN_STATUS_LIMIT, "notes of %zu bytes; the limit is %d", w->note_bytes,
                     KILN_BUNDLE_MAX_NOTES);
  KILN_GROW(w->arena, w->notes, w->note_count, w->note_capacity);
  w->notes[w->note_count++] = (kiln_pack_note){kiln_arena_text(w->arena, key, strlen(key)),
                                               kiln_arena_text(w->arena, value, strlen(value))};
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------- writing

static void take_sums(const kiln_packed *p, uint64_t file_size, kiln_bundle_sums *out) {
  memset(out, 0, sizeof *out);
  out->file = file_size;
  out->kernels = p->writer->kernel_count;
  out->codes = p->writer->code_count;
  out->blobs = p->blob_count;
  out->members = p->member_count;
  for (uint32_t i = 0; i < p->blob_count; i++) {
    bool is_dictionary = i < p->dictionary_count;
    *(is_dictionary ? &out->dictionaries : &out->payload) += p->blobs[i].stored_size;
    if (!is_dictionary) out->raw += p->blobs[i].size;
  }
  out->index = p->members[0].size;
  out->container = file_size - out->index - out->payload - out->dictionaries;
}

kiln_status kiln_bundle_writer_build(kiln_bundle_writer *w, const kiln_bundle_options *options,
                                     kiln_buffer *out, kiln_bundle_sums *out_sums, kiln_error *err) {
  static const kiln_bundle_options defaults;
  kiln_packed packed;
  if (!options) options = &defaults;
  kiln_buffer_clear(out);
  kiln_status status = kiln_pack(w, options, &packed, err);
  if (status == KILN_OK) status = kiln_pack_zip(&packed, options, out, err);
  if (status == KILN_OK && out_sums) take_sums(&packed, out->size, out_sums);
  kiln_packed_deinit(&packed);
  return status;
}
