// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts the parts of a bundle into their final order and compresses them. The order follows names and
// digests, never the order in which they were added.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/bundle/internal.h"

static kiln_status no_memory(kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "bundle writer: memory is exhausted");
}

static int compare_u32(uint32_t a, uint32_t b) { return a < b ? -1 : a > b; }

static int by_hash(const void *a, const void *b, void *context) {
  const kiln_bundle_writer *w = context;
  return memcmp(w->kernels[*(const uint32_t *)a].hash.bytes, w->kernels[*(const uint32_t *)b].hash.bytes,
                KILN_CHECK_SIZE);
}

// Config, variant, target name, form of two codes of one kernel.
static int within_kernel(const kiln_pack_code *a, const kiln_pack_code *b) {
  if (a->config != b->config) return compare_u32(a->config, b->config);
  if (a->variant != b->variant) return compare_u32(a->variant, b->variant);
  int order = strcmp(a->target, b->target);
  return order ? order : compare_u32(a->flags & KILN_BUNDLE_CODE_PTX, b->flags & KILN_BUNDLE_CODE_PTX);
}

static int by_kernel_hash(const void *a, const void *b, void *context) {
  const kiln_bundle_writer *w = context;
  const kiln_pack_code *x = &w->codes[*(const uint32_t *)a], *y = &w->codes[*(const uint32_t *)b];
  if (x->kernel != y->kernel) return by_hash(&x->kernel, &y->kernel, context);
  return within_kernel(x, y);
}

static int by_kernel_name(const void *a, const void *b, void *context) {
  const kiln_bundle_writer *w = context;
  const kiln_pack_code *x = &w->codes[*(const uint32_t *)a], *y = &w->codes[*(const uint32_t *)b];
  if (x->kernel != y->kernel) return strcmp(w->kernels[x->kernel].name, w->kernels[y->kernel].name);
  return within_kernel(x, y);
}

static uint32_t *numbers(uint32_t count) {
  uint32_t *items = malloc((count ? count : 1) * sizeof *items);
  for (uint32_t i = 0; items && i < count; i++) items[i] = i;
  return items;
}

// ---------------------------------------------------------------------------------------- families

typedef struct owned_blob {
  uint32_t blob, order; // order: place of the first code that uses it, by name
  const char *family;
} owned_blob;

static int by_family(const void *a, const void *b) {
  const owned_blob *x = a, *y = b;
  int order = strcmp(x->family, y->family);
  return order ? order : compare_u32(x->order, y->order);
}

// Fills `owned` with every blob, sorted by family and by the name of the first code that uses it.
static kiln_status order_blobs(const kiln_bundle_writer *w, owned_blob *owned, kiln_error *err) {
  uint32_t *codes = numbers(w->code_count);
  if (!codes) return no_memory(err);
  qsort_r(codes, w->code_count, sizeof *codes, by_kernel_name, (void *)w);
  memset(owned, 0, w->blob_count * sizeof *owned);
  for (uint32_t i = 0; i < w->code_count; i++) {
    const kiln_pack_code *c = &w->codes[codes[i]];
    if (owned[c->blob].family) continue;
    owned[c->blob] = (owned_blob){c->blob, i, c->family};
  }
  free(codes);
  if (w->blob_count) qsort(owned, w->blob_count, sizeof *owned, by_family);
  return KILN_OK;
}

static kiln_pack_member *add_member(kiln_packed *p, const char *folder, const char *name,
                                    const char *suffix) {
  if (p->member_count == p->member_capacity) {
    uint32_t capacity = p->member_capacity ? p->member_capacity * 2 : 16;
    kiln_pack_member *members = realloc(p->members, capacity * sizeof *members);
    if (!members) return NULL;
    p->members = members;
    p->member_capacity = capacity;
  }
  kiln_pack_member *m = &p->members[p->member_count];
  memset(m, 0, sizeof *m);
  if (asprintf(&m->name, "%s%s%s", folder, name, suffix) < 0) return NULL;
  p->member_count++;
  return m;
}

static bool member_take(kiln_packed *p, kiln_pack_member *m, uint32_t blob) {
  if (m->blob_count == m->blob_capacity) {
    uint32_t capacity = m->blob_capacity ? m->blob_capacity * 2 : 16;
    uint32_t *blobs = realloc(m->blobs, capacity * sizeof *blobs);
    if (!blobs) return false;
    m->blobs = blobs;
    m->blob_capacity = capacity;
  }
  m->blobs[m->blob_count++] = blob;
  p->blobs[blob].member = (uint32_t)(m - p->members);
  return true;
}

static const char *codec_suffix(const kiln_pack_blob *b) {
  return b->codec == KILN_BUNDLE_CODEC_NONE ? ".bin" : ".zst";
}

static bool member_alone(kiln_packed *p, const char *family, uint32_t blob) {
  char hex[KILN_DIGEST_HEX + 1], folder[96];
  kiln_digest_hex(&p->blobs[blob].digest, hex);
  hex[32] = 0;
  snprintf(folder, sizeof folder, "code/%s/", family);
  kiln_pack_member *m = add_member(p, folder, hex, codec_suffix(&p->blobs[blob]));
  return m && (m->aligned = p->blobs[blob].codec == KILN_BUNDLE_CODEC_NONE, member_take(p, m, blob));
}

// The blobs [first, end) of a family go to one member for frames and one for stored codes.
static bool member_shared(kiln_packed *p, const char *family, uint32_t first, uint32_t end) {
  for (unsigned codec = 0; codec < KILN_BUNDLE_CODEC_COUNT; codec++) {
    kiln_pack_member *m = NULL;
    for (uint32_t i = first; i < end; i++) {
      if (p->blobs[i].codec != codec) continue;
      if (!m && !(m = add_member(p, "code/", family, codec_suffix(&p->blobs[i])))) return false;
      m->aligned = codec == KILN_BUNDLE_CODEC_NONE;
      if (!member_take(p, m, i)) return false;
    }
  }
  return true;
}

typedef struct family_range {
  const char *name;
  uint32_t first, count; // in the order of `owned`
  uint32_t dictionary;   // number, or KILN_BUNDLE_NO_DICTIONARY
} family_range;

static kiln_status make_members(kiln_packed *p, const kiln_bundle_options *options,
                                const family_range *families, uint32_t family_count, kiln_error *err) {
  bool ok = add_member(p, "", KILN_BUNDLE_INDEX_NAME, "") != NULL;
  for (uint32_t f = 0; ok && f < family_count; f++) {
    uint32_t first = p->dictionary_count + families[f].first, end = first + families[f].count;
    if (families[f].dictionary != KILN_BUNDLE_NO_DICTIONARY) {
      const kiln_pack_blob *d = &p->blobs[families[f].dictionary];
      kiln_pack_member *m = add_member(p, "dictionary/", families[f].name, codec_suffix(d));
      ok = m && (m->aligned = d->codec == KILN_BUNDLE_CODEC_NONE, true) &&
           member_take(p, m, families[f].dictionary);
    }
    if (!options->member_per_kernel) ok = ok && member_shared(p, families[f].name, first, end);
    for (uint32_t i = first; options->member_per_kernel && ok && i < end; i++)
      ok = member_alone(p, families[f].name, i);
  }
  return ok ? KILN_OK : no_memory(err);
}

// Compresses one family; its dictionary, when it pays, becomes number p->dictionary_count. Room for it was
// kept before the codes.
static kiln_status pack_family(kiln_packed *p, const kiln_bundle_options *options, kiln_pack_blob *codes,
                               family_range *family, kiln_error *err) {
  kiln_buffer raw = {0};
  uint8_t form = KILN_BUNDLE_FORM_CONTENT;
  kiln_pack_blob **blobs = malloc(family->count * sizeof *blobs);
  kiln_status status = blobs ? KILN_OK : no_memory(err);
  for (uint32_t i = 0; blobs && i < family->count; i++) blobs[i] = &codes[family->first + i];
  kiln_bundle_options own = *options;
  if (p->dictionary_bytes > KILN_BUNDLE_MAX_DICTIONARIES - KILN_BUNDLE_MAX_DICTIONARY)
    own.dictionary = KILN_BUNDLE_DICTIONARY_NONE;
  if (status == KILN_OK)
    status = kiln_pack_family_compress(&(kiln_pack_family){blobs, family->count, family->name}, &own, &raw,
                                       &form, err);
  family->dictionary = KILN_BUNDLE_NO_DICTIONARY;
  if (status == KILN_OK && raw.size) {
    kiln_pack_blob *d = &p->blobs[family->dictionary = p->dictionary_count++];
    *d = (kiln_pack_blob){.digest = kiln_digest_of(raw.bytes, raw.size),
                          .bytes = kiln_arena_copy(p->writer->arena, raw.bytes, raw.size),
                          .size = raw.size,
                          .form = form,
                          .dictionary = KILN_BUNDLE_NO_DICTIONARY};
    p->dictionary_bytes += raw.size;
    status = kiln_pack_dictionary_compress(d, options->level, err);
  }
  for (uint32_t i = 0; status == KILN_OK && i < family->count; i++) {
    bool uses = blobs[i]->codec != KILN_BUNDLE_CODEC_NONE && raw.size;
    blobs[i]->dictionary = (uint16_t)(uses ? family->dictionary : KILN_BUNDLE_NO_DICTIONARY);
    if (uses) p->blobs[family->dictionary].references++;
  }
  kiln_buffer_deinit(&raw);
  free(blobs);
  return status;
}

static kiln_status pack_blobs(kiln_packed *p, const kiln_bundle_options *options, kiln_error *err) {
  const kiln_bundle_writer *w = p->writer;
  owned_blob *owned = malloc((w->blob_count + 1) * sizeof *owned);
  family_range *families = calloc(w->blob_count + 1, sizeof *families);
  uint32_t family_count = 0;
  kiln_status status = owned && families ? order_blobs(w, owned, err) : no_memory(err);
  for (uint32_t i = 0; status == KILN_OK && i < w->blob_count; i++) {
    if (!i || strcmp(owned[i].family, owned[i - 1].family))
      families[family_count++] = (family_range){owned[i].family, i, 0, 0};
    families[family_count - 1].count++;
  }
  if (family_count >= KILN_BUNDLE_NO_DICTIONARY)
    status = kiln_fail(err, KILN_STATUS_LIMIT, "%u code families; the limit is %d", family_count,
                       KILN_BUNDLE_NO_DICTIONARY - 1);
  p->blobs = calloc((size_t)w->blob_count + family_count + 1, sizeof *p->blobs);
  p->blob_numbers = calloc(w->blob_count + 1, sizeof *p->blob_numbers);
  if (!p->blobs || !p->blob_numbers) status = status == KILN_OK ? no_memory(err) : status;

  if (status == KILN_OK) {
    kiln_pack_blob *codes = p->blobs + family_count;
    for (uint32_t i = 0; i < w->blob_count; i++) codes[i] = w->blobs[owned[i].blob];
    p->blob_count = family_count + w->blob_count;
    for (uint32_t f = 0; status == KILN_OK && f < family_count; f++)
      status = pack_family(p, options, codes, &families[f], err);
    // Close the gap that families without a dictionary left.
    memmove(p->blobs + p->dictionary_count, codes, w->blob_count * sizeof *codes);
    p->blob_count = p->dictionary_count + w->blob_count;
    for (uint32_t i = 0; i < w->blob_count; i++) p->blob_numbers[owned[i].blob] = p->dictionary_count + i;
  }
  if (status == KILN_OK) status = make_members(p, options, families, family_count, err);
  free(owned);
  free(families);
  return status;
}

kiln_status kiln_pack(kiln_bundle_writer *w, const kiln_bundle_options *options, kiln_packed *p,
                      kiln_error *err) {
  memset(p, 0, sizeof *p);
  p->writer = w;
  p->kernels = numbers(w->kernel_count);
  p->codes = numbers(w->code_count);
  if (!p->kernels || !p->codes) return no_memory(err);
  qsort_r(p->kernels, w->kernel_count, sizeof *p->kernels, by_hash, w);
  qsort_r(p->codes, w->code_count, sizeof *p->codes, by_kernel_hash, w);
  KILN_TRY(pack_blobs(p, options, err));
  for (uint32_t i = 0; i < w->code_count; i++) p->blobs[p->blob_numbers[w->codes[i].blob]].references++;
  return KILN_OK;
}

void kiln_packed_deinit(kiln_packed *p) {
  for (uint32_t i = 0; i < p->member_count; i++) {
    free(p->members[i].name);
    free(p->members[i].blobs);
  }
  for (uint32_t i = 0; p->blobs && i < p->blob_count; i++) free(p->blobs[i].stored);
  free(p->members);
  free(p->blobs);
  free(p->blob_numbers);
  free(p->kernels);
  free(p->codes);
  kiln_buffer_deinit(&p->region);
  memset(p, 0, sizeof *p);
}
