// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes the content of KILN-INDEX: header, empty signature slot, and index region with an empty
// statement. Sealing fills in the checks. The size does not depend on where members lie, so that the layout
// can be computed with it.
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/record.h"
#include "cache/bundle/internal.h"

/// Records met so far, by content: open addressing over {check, offset + 1}.
typedef struct record_map {
  uint64_t *hashes;  // owned
  uint32_t *offsets; // owned
  uint32_t slot_count, used;
} record_map;

typedef struct encoder {
  kiln_packed *packed;
  kiln_buffer sections[KILN_BUNDLE_SECTIONS]; // owned
  uint64_t counts[KILN_BUNDLE_SECTIONS];
  record_map map;
  const char **targets; // owned array of borrowed names, sorted
  uint32_t target_count;
  bool failed; // memory
} encoder;

static kiln_status no_memory(kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "bundle index: memory is exhausted");
}

static void encoder_deinit(encoder *e) {
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) kiln_buffer_deinit(&e->sections[i]);
  free(e->map.hashes);
  free(e->map.offsets);
  free(e->targets);
}

// ----------------------------------------------------------------------------------------- records

static bool map_grow(record_map *m) {
  if (m->used * 2 < m->slot_count) return true;
  uint32_t count = m->slot_count ? m->slot_count * 2 : 256;
  uint64_t *hashes = calloc(count, sizeof *hashes);
  uint32_t *offsets = calloc(count, sizeof *offsets);
  if (!hashes || !offsets) {
    free(hashes);
    free(offsets);
    return false;
  }
  for (uint32_t i = 0; i < m->slot_count; i++) {
    if (!m->offsets[i]) continue;
    uint32_t at = (uint32_t)m->hashes[i] & (count - 1);
    while (offsets[at]) at = (at + 1) & (count - 1);
    hashes[at] = m->hashes[i];
    offsets[at] = m->offsets[i];
  }
  free(m->hashes);
  free(m->offsets);
  *m = (record_map){hashes, offsets, count, m->used};
  return true;
}

// The offset of a record with these bytes; equal records are stored once.
static uint32_t record(encoder *e, const void *bytes, size_t size) {
  kiln_buffer *out = &e->sections[KILN_BUNDLE_RECORDS];
  if (!map_grow(&e->map)) return e->failed = true, 0;
  uint64_t hash = kiln_le64(kiln_check_of(bytes, size).bytes);
  uint32_t at = (uint32_t)hash & (e->map.slot_count - 1);
  for (; e->map.offsets[at]; at = (at + 1) & (e->map.slot_count - 1)) {
    uint32_t offset = e->map.offsets[at] - 1;
    KILN_ASSERT(out->bytes); // what the map knows has been written
    if (e->map.hashes[at] != hash || kiln_le32(out->bytes + offset) != size) continue;
    if (!memcmp(out->bytes + offset + 4, bytes, size)) return offset;
  }
  uint32_t offset = (uint32_t)out->size;
  kiln_buffer_u32(out, (uint32_t)size);
  kiln_buffer_bytes(out, bytes, size);
  kiln_buffer_u8(out, 0);
  if (out->failed || out->size >= UINT32_MAX - KILN_BUNDLE_MAX_RECORD) return e->failed = true, 0;
  e->map.hashes[at] = hash;
  e->map.offsets[at] = offset + 1;
  e->map.used++;
  return offset;
}

static uint32_t text_record(encoder *e, const char *text) { return record(e, text, strlen(text)); }

// ------------------------------------------------------------------------------------------ tables

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static kiln_status encode_targets(encoder *e, kiln_error *err) {
  const kiln_bundle_writer *w = e->packed->writer;
  const char **names = malloc((w->code_count + 1) * sizeof *names);
  if (!names) return no_memory(err);
  for (uint32_t i = 0; i < w->code_count; i++) names[i] = w->codes[i].target;
  qsort(names, w->code_count, sizeof *names, by_text);
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->code_count; i++)
    if (!count || strcmp(names[count - 1], names[i])) names[count++] = names[i];
  e->targets = names;
  e->target_count = count;
  if (count > KILN_BUNDLE_MAX_TARGETS)
    return kiln_fail(err, KILN_STATUS_LIMIT, "%u different targets; the limit is %d", count,
                     KILN_BUNDLE_MAX_TARGETS);
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_u32(&e->sections[KILN_BUNDLE_TARGETS], text_record(e, names[i]));
  e->counts[KILN_BUNDLE_TARGETS] = count;
  return KILN_OK;
}

static uint32_t target_number(const encoder *e, const char *name) {
  const char **found = bsearch(&name, e->targets, e->target_count, sizeof *e->targets, by_text);
  return (uint32_t)(found - e->targets);
}

static void encode_code(encoder *e, const kiln_pack_code *c, uint32_t kernel) {
  uint8_t entry[KILN_BC_SIZE] = {0};
  kiln_put32(entry + KILN_BC_KERNEL, kernel);
  kiln_put16(entry + KILN_BC_CONFIG, (uint16_t)c->config);
  kiln_put16(entry + KILN_BC_VARIANT, (uint16_t)c->variant);
  kiln_put16(entry + KILN_BC_TARGET, (uint16_t)target_number(e, c->target));
  kiln_put16(entry + KILN_BC_FLAGS, (uint16_t)c->flags);
  kiln_put32(entry + KILN_BC_BLOB, e->packed->blob_numbers[c->blob]);
  kiln_put32(entry + KILN_BC_INFO, record(e, c->info, c->info_size));
  kiln_put32(entry + KILN_BC_MAPS, c->maps ? record(e, c->maps, c->maps_size) : KILN_BUNDLE_NONE);
  kiln_buffer_bytes(&e->sections[KILN_BUNDLE_CODES], entry, sizeof entry);
}

// Kernels, and right after each kernel's records those of its codes, so that one look-up touches few pages.
static void encode_kernels(encoder *e) {
  const kiln_packed *p = e->packed;
  const kiln_bundle_writer *w = p->writer;
  uint32_t code = 0;
  for (uint32_t i = 0; i < w->kernel_count; i++) {
    const kiln_pack_kernel *k = &w->kernels[p->kernels[i]];
    uint8_t entry[KILN_BK_SIZE];
    uint32_t first = code;
    memcpy(entry + KILN_BK_HASH, k->hash.bytes, KILN_CHECK_SIZE);
    kiln_put32(entry + KILN_BK_NAME, text_record(e, k->name));
    kiln_put32(entry + KILN_BK_INTERFACE, record(e, k->record, k->size));
    for (; code < w->code_count && w->codes[p->codes[code]].kernel == p->kernels[i]; code++)
      encode_code(e, &w->codes[p->codes[code]], i);
    kiln_put32(entry + KILN_BK_CODE, first);
    kiln_put32(entry + KILN_BK_CODE_COUNT, code - first);
    kiln_buffer_bytes(&e->sections[KILN_BUNDLE_KERNELS], entry, sizeof entry);
  }
  e->counts[KILN_BUNDLE_KERNELS] = w->kernel_count;
  e->counts[KILN_BUNDLE_CODES] = w->code_count;
}

static int by_name(const void *a, const void *b, void *context) {
  const kiln_packed *p = context;
  const kiln_pack_kernel *kernels = p->writer->kernels;
  return strcmp(kernels[p->kernels[*(const uint32_t *)a]].name,
                kernels[p->kernels[*(const uint32_t *)b]].name);
}

static void encode_names(encoder *e) {
  uint32_t count = e->packed->writer->kernel_count;
  uint32_t *order = malloc((count + 1) * sizeof *order);
  if (!order) {
    e->failed = true;
    return;
  }
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  qsort_r(order, count, sizeof *order, by_name, e->packed);
  for (uint32_t i = 0; i < count; i++) kiln_buffer_u32(&e->sections[KILN_BUNDLE_NAMES], order[i]);
  e->counts[KILN_BUNDLE_NAMES] = count;
  free(order);
}

static void encode_blobs(encoder *e) {
  for (uint32_t i = 0; i < e->packed->blob_count; i++) {
    const kiln_pack_blob *b = &e->packed->blobs[i];
    uint8_t entry[KILN_BB_SIZE] = {0};
    kiln_put64(entry + KILN_BB_OFFSET, b->offset);
    kiln_put32(entry + KILN_BB_STORED, (uint32_t)b->stored_size);
    kiln_put32(entry + KILN_BB_RAW, (uint32_t)b->size);
    memcpy(entry + KILN_BB_CHECK, kiln_check_of(b->bytes, b->size).bytes, KILN_BUNDLE_CHECK);
    entry[KILN_BB_CODEC] = b->codec;
    entry[KILN_BB_FORM] = b->form;
    kiln_put16(entry + KILN_BB_DICTIONARY, b->dictionary);
    kiln_put32(entry + KILN_BB_MEMBER, b->member);
    kiln_put32(entry + KILN_BB_REFERENCES, b->references);
    memcpy(entry + KILN_BB_DIGEST, b->digest.bytes, KILN_DIGEST_SIZE);
    kiln_buffer_bytes(&e->sections[KILN_BUNDLE_BLOBS], entry, sizeof entry);
  }
  e->counts[KILN_BUNDLE_BLOBS] = e->packed->blob_count;
}

static void encode_members(encoder *e) {
  for (uint32_t i = 0; i < e->packed->member_count; i++) {
    const kiln_pack_member *m = &e->packed->members[i];
    uint8_t entry[KILN_BM_SIZE] = {0};
    kiln_put32(entry + KILN_BM_NAME, text_record(e, m->name));
    kiln_put64(entry + KILN_BM_OFFSET, m->begin);
    kiln_put64(entry + KILN_BM_BYTES, m->size);
    kiln_buffer_bytes(&e->sections[KILN_BUNDLE_MEMBERS], entry, sizeof entry);
  }
  e->counts[KILN_BUNDLE_MEMBERS] = e->packed->member_count;
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const kiln_pack_note *)a)->key, ((const kiln_pack_note *)b)->key);
}

static void encode_notes(encoder *e) {
  const kiln_bundle_writer *w = e->packed->writer;
  kiln_pack_note *notes = malloc((w->note_count + 1) * sizeof *notes);
  if (!notes) {
    e->failed = true;
    return;
  }
  if (w->note_count) memcpy(notes, w->notes, w->note_count * sizeof *notes);
  qsort(notes, w->note_count, sizeof *notes, by_key);
  for (uint32_t i = 0; i < w->note_count; i++) {
    kiln_buffer_u32(&e->sections[KILN_BUNDLE_NOTES], text_record(e, notes[i].key));
    kiln_buffer_u32(&e->sections[KILN_BUNDLE_NOTES], text_record(e, notes[i].value));
  }
  e->counts[KILN_BUNDLE_NOTES] = w->note_count;
  free(notes);
}

// ----------------------------------------------------------------------------------------- content

static uint32_t pages_of(uint64_t size) {
  return (uint32_t)((size + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE);
}

static uint32_t window_log(const kiln_packed *p) {
  size_t largest = 0, dictionary = 0;
  for (uint32_t i = 0; i < p->blob_count; i++) {
    size_t *most = i < p->dictionary_count ? &dictionary : &largest;
    if (p->blobs[i].size > *most) *most = p->blobs[i].size;
  }
  uint32_t log = 10;
  while ((size_t)1 << log < largest + dictionary) log++;
  return log;
}

static uint32_t features_of(const kiln_packed *p) {
  uint32_t features = 0;
  for (uint32_t i = 0; i < p->dictionary_count; i++)
    if (p->blobs[i].form == KILN_BUNDLE_FORM_TABLES) features |= KILN_BUNDLE_FEATURE_TABLES;
  return features;
}

static kiln_status put_content(encoder *e, const kiln_bundle_options *options, uint64_t begin,
                               uint64_t file_size, kiln_buffer *out, kiln_error *err) {
  kiln_buffer *region = &e->packed->region;
  uint8_t header[KILN_BUNDLE_TOP] = {0};
  kiln_buffer_clear(region);
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) {
    kiln_put64(header + KILN_BH_SECTIONS + 16 * i, region->size);
    kiln_put64(header + KILN_BH_SECTIONS + 16 * i + 8,
               i == KILN_BUNDLE_RECORDS ? e->sections[i].size : e->counts[i]);
    kiln_buffer_bytes(region, e->sections[i].bytes, e->sections[i].size);
    kiln_buffer_align(region, 8);
    e->failed |= e->sections[i].failed;
  }
  uint64_t statement = region->size;
  kiln_buffer_bytes(region, (const uint8_t[KILN_BS_SIZE]){0}, KILN_BS_SIZE);
  if (e->failed || region->failed) return no_memory(err);
  uint32_t page_count = pages_of(region->size), checks_size = page_count * KILN_BUNDLE_CHECK,
           top_count = pages_of(checks_size);
  size_t unaligned = KILN_BUNDLE_TOP + (size_t)(top_count + page_count) * KILN_BUNDLE_CHECK;
  size_t padding = KILN_BUNDLE_ALIGN_REGION - 1 -
                   (begin + unaligned + KILN_BUNDLE_ALIGN_REGION - 1) % KILN_BUNDLE_ALIGN_REGION;
  // The padding's place depends on `begin`, the content's size does not: what is not before the region comes
  // after it.
  size_t after = KILN_BUNDLE_ALIGN_REGION - 1 - padding, at = unaligned + padding;
  kiln_buffer_clear(out);
  if (!kiln_buffer_reserve(out, at + region->size + after)) return no_memory(err);
  memset(out->bytes, 0, at + region->size + after);
  out->size = at + region->size + after;
  memcpy(out->bytes + at, region->bytes, region->size);

  memcpy(header + KILN_BH_MAGIC, KILN_BUNDLE_MAGIC, 8); // NOLINT(bugprone-not-null-terminated-result): bytes
  kiln_put16(header + KILN_BH_MAJOR, KILN_BUNDLE_MAJOR);
  kiln_put16(header + KILN_BH_MINOR, KILN_BUNDLE_MINOR);
  kiln_put16(header + KILN_BH_MINIMUM, KILN_BUNDLE_MINIMUM);
  kiln_put16(header + KILN_BH_ABI, KILN_KERNEL_ABI);
  kiln_put32(header + KILN_BH_MUST, features_of(e->packed));
  kiln_put64(header + KILN_BH_FILE_SIZE, file_size);
  kiln_put64(header + KILN_BH_CONTENT_SIZE, out->size);
  kiln_put64(header + KILN_BH_REGION, at);
  kiln_put64(header + KILN_BH_REGION_SIZE, region->size);
  kiln_put32(header + KILN_BH_PAGE_COUNT, page_count);
  kiln_put32(header + KILN_BH_TOP_COUNT, top_count);
  kiln_put32(header + KILN_BH_WINDOW_LOG, window_log(e->packed));
  kiln_put32(header + KILN_BH_LEVEL, (uint32_t)(options->level ? options->level : 3));
  kiln_put64(header + KILN_BH_STATEMENT, statement);
  memcpy(out->bytes, header, sizeof header);
  return KILN_OK;
}

kiln_status kiln_pack_index(kiln_packed *packed, const kiln_bundle_options *options, uint64_t begin,
                            uint64_t file_size, kiln_buffer *out, kiln_error *err) {
  encoder e = {.packed = packed};
  kiln_status status = encode_targets(&e, err);
  if (status == KILN_OK) {
    encode_kernels(&e);
    encode_names(&e);
    encode_blobs(&e);
    encode_members(&e);
    encode_notes(&e);
    status = put_content(&e, options, begin, file_size, out, err);
  }
  encoder_deinit(&e);
  return status;
}
