// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds kernels, codes and records in an open bundle, and checks every offset and size before it is used.
#include "runtime/bundle/reader.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/bundle/internal.h"

#define damaged kiln_bundle_damaged

typedef unsigned long long ull;

// ---------------------------------------------------------------------------------------- checking

static bool was_seen(const kiln_bundle *b, uint32_t bit) {
  return atomic_load_explicit(&b->seen[bit / 32], memory_order_acquire) >> bit % 32 & 1;
}

static void set_seen(kiln_bundle *b, uint32_t bit) {
  atomic_fetch_or_explicit(&b->seen[bit / 32], 1u << bit % 32, memory_order_release);
}

static size_t page_size(uint64_t total, uint32_t page) {
  uint64_t left = total - (uint64_t)page * KILN_BUNDLE_PAGE;
  return left < KILN_BUNDLE_PAGE ? (size_t)left : KILN_BUNDLE_PAGE;
}

// Bytes of the image that were not read before.
static kiln_status fill(kiln_bundle *b, const uint8_t *at, size_t size, kiln_error *err) {
  if (!b->image || b->is_whole) return KILN_OK;
  size_t from = (size_t)(at - b->image);
  if (kiln_bundle_copy(b, b->image_at + from, size, b->image + from, err) == KILN_OK) return KILN_OK;
  if (err) err->status = KILN_STATUS_CORRUPT; // what callers make of an entry that cannot be had
  return KILN_STATUS_CORRUPT;
}

static kiln_status check_checks(kiln_bundle *b, uint32_t number, kiln_error *err) {
  const uint8_t *at = b->checks + (size_t)number * KILN_BUNDLE_PAGE;
  size_t size = page_size((uint64_t)b->page_count * KILN_BUNDLE_CHECK, number);
  if (was_seen(b, b->page_count + number)) return KILN_OK;
  KILN_TRY(fill(b, at, size, err));
  if (!kiln_check_fits(b->top + (size_t)number * KILN_BUNDLE_CHECK, KILN_BUNDLE_CHECK, at, size))
    return damaged(err, b, "page %u of %u of the index's checks is damaged", number, b->top_count);
  set_seen(b, b->page_count + number);
  return KILN_OK;
}

// Under the lock: a page that another thread has seen must not be filled again, with other bytes.
static kiln_status check_page_locked(kiln_bundle *b, uint32_t page, kiln_error *err) {
  const uint8_t *at = b->region + (size_t)page * KILN_BUNDLE_PAGE;
  size_t size = page_size(b->region_size, page);
  if (was_seen(b, page)) return KILN_OK;
  KILN_TRY(check_checks(b, page / (KILN_BUNDLE_PAGE / KILN_BUNDLE_CHECK), err));
  KILN_TRY(fill(b, at, size, err));
  if (!kiln_check_fits(b->checks + (size_t)page * KILN_BUNDLE_CHECK, KILN_BUNDLE_CHECK, at, size))
    return damaged(err, b, "page %u of %u of the index is damaged", page, b->page_count);
  set_seen(b, page);
  return KILN_OK;
}

static kiln_status check_page(kiln_bundle *b, uint32_t page, kiln_error *err) {
  pthread_mutex_lock(&b->pages);
  kiln_status status = check_page_locked(b, page, err);
  pthread_mutex_unlock(&b->pages);
  return status;
}

const uint8_t *kiln_bundle_region(kiln_bundle *b, uint64_t at, uint64_t size, kiln_error *err) {
  if (!size) return b->region + at;
  for (uint32_t page = (uint32_t)(at / KILN_BUNDLE_PAGE),
                last = (uint32_t)((at + size - 1) / KILN_BUNDLE_PAGE);
       page <= last; page++)
    if (!was_seen(b, page) && check_page(b, page, err) != KILN_OK) return NULL;
  return b->region + at;
}

const uint32_t kiln_bundle_entry_sizes[KILN_BUNDLE_SECTIONS] = {
    [KILN_BUNDLE_KERNELS] = KILN_BK_SIZE,
    [KILN_BUNDLE_NAMES] = 4,
    [KILN_BUNDLE_CODES] = KILN_BC_SIZE,
    [KILN_BUNDLE_BLOBS] = KILN_BB_SIZE,
    [KILN_BUNDLE_TARGETS] = 4,
    [KILN_BUNDLE_MEMBERS] = KILN_BM_SIZE,
    [KILN_BUNDLE_NOTES] = 8,
    [KILN_BUNDLE_RECORDS] = 1,
};

const uint8_t *kiln_bundle_in(kiln_bundle *b, kiln_bundle_section section, uint64_t at, uint64_t size,
                              kiln_error *err) {
  uint64_t whole = b->section_count[section] * kiln_bundle_entry_sizes[section];
  if (at > whole || size > whole - at) {
    damaged(err, b, "bytes %llu + %llu of section %d, which has %llu", (ull)at, (ull)size, (int)section,
            (ull)whole);
    return NULL;
  }
  return kiln_bundle_region(b, b->section_at[section] + at, size, err);
}

const uint8_t *kiln_bundle_entry(kiln_bundle *b, kiln_bundle_section section, uint32_t number,
                                 kiln_error *err) {
  if (number >= b->section_count[section]) {
    damaged(err, b, "entry %u of section %d, which has %llu", number, (int)section,
            (ull)b->section_count[section]);
    return NULL;
  }
  return kiln_bundle_in(b, section, (uint64_t)number * kiln_bundle_entry_sizes[section],
                        kiln_bundle_entry_sizes[section], err);
}

// ----------------------------------------------------------------------------------------- entries

const uint8_t *kiln_bundle_record(kiln_bundle *b, uint32_t offset, size_t *out_size, kiln_error *err) {
  *out_size = 0;
  const uint8_t *at = kiln_bundle_in(b, KILN_BUNDLE_RECORDS, offset, 4, err);
  if (!at) return NULL;
  uint32_t size = kiln_le32(at);
  if (size > KILN_BUNDLE_MAX_RECORD) {
    damaged(err, b, "a record of %u bytes; the limit is %d", size, KILN_BUNDLE_MAX_RECORD);
    return NULL;
  }
  at = kiln_bundle_in(b, KILN_BUNDLE_RECORDS, (uint64_t)offset + 4, (uint64_t)size + 1, err);
  if (!at) return NULL;
  if (at[size]) {
    damaged(err, b, "the record at %u does not end in a NUL", offset);
    return NULL;
  }
  *out_size = size;
  return at;
}

// `limit` keeps a file from having the same long record read for each of many entries.
static const uint8_t *record_within(kiln_bundle *b, uint32_t offset, size_t limit, size_t *out_size,
                                    kiln_error *err) {
  const uint8_t *at = kiln_bundle_record(b, offset, out_size, err);
  if (!at || *out_size <= limit) return at;
  damaged(err, b, "the record at %u has %zu bytes; the limit of its kind is %zu", offset, *out_size, limit);
  return NULL;
}

const uint8_t *kiln_bundle_info(kiln_bundle *b, uint32_t offset, size_t *out_size, kiln_error *err) {
  return record_within(b, offset, KILN_BUNDLE_MAX_INFO, out_size, err);
}

const char *kiln_bundle_text(kiln_bundle *b, uint32_t offset, kiln_error *err) {
  size_t size;
  const char *text = (const char *)record_within(b, offset, KILN_BUNDLE_MAX_NAME, &size, err);
  if (text && strlen(text) != size) {
    damaged(err, b, "the text at %u has a NUL inside", offset);
    return NULL;
  }
  return text;
}

const char *kiln_bundle_note(kiln_bundle *b, const char *key, size_t *out_size) {
  uint64_t low = 0, high = b->section_count[KILN_BUNDLE_NOTES];
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    const uint8_t *at = kiln_bundle_in(b, KILN_BUNDLE_NOTES, middle * 8, 8, NULL);
    const char *found = at ? kiln_bundle_text(b, kiln_le32(at), NULL) : NULL;
    if (!found) return NULL;
    int order = strcmp(key, found);
    if (!order) return (const char *)kiln_bundle_record(b, kiln_le32(at + 4), out_size, NULL);
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return NULL;
}

kiln_status kiln_bundle_kernel_at(kiln_bundle *b, uint32_t number, kiln_kernel_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *e = kiln_bundle_entry(b, KILN_BUNDLE_KERNELS, number, err);
  if (!e) return KILN_STATUS_CORRUPT;
  *out = (kiln_kernel_entry){number, kiln_le32(e + KILN_BK_NAME), kiln_le32(e + KILN_BK_INTERFACE),
                             kiln_le32(e + KILN_BK_CODE), kiln_le32(e + KILN_BK_CODE_COUNT)};
  uint64_t codes = b->section_count[KILN_BUNDLE_CODES];
  if (out->code > codes || out->code_count > codes - out->code)
    return damaged(err, b, "kernel %u has codes %u + %u of %llu", number, out->code, out->code_count,
                   (ull)codes);
  return KILN_OK;
}

// Hashes are spread evenly, so where one must stand is known to within a page or two: each page that is
// looked at is read and checked. In a file that lies about it, halves end the search.
static uint32_t place_between(uint32_t low, uint32_t high, uint32_t least, uint32_t most, uint32_t hash,
                              unsigned step) {
  enum { GUESSES = 12 };
  if (step >= GUESSES || hash < least || most <= least || hash > most) return low + (high - low) / 2;
  return low + (uint32_t)((uint64_t)(hash - least) * (high - low - 1) / (most - least));
}

static uint32_t top_of(const uint8_t *hash) {
  return (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
}

kiln_status kiln_bundle_kernel_find(kiln_bundle *b, const char *name, const kiln_check *hash,
                                    kiln_kernel_entry *out, kiln_error *err) {
  uint32_t low = 0, high = (uint32_t)b->section_count[KILN_BUNDLE_KERNELS];
  uint32_t least = 0, most = UINT32_MAX, top = top_of(hash->bytes);
  memset(out, 0, sizeof *out);
  for (unsigned step = 0; low < high; step++) {
    uint32_t middle = place_between(low, high, least, most, top, step);
    const uint8_t *e = kiln_bundle_entry(b, KILN_BUNDLE_KERNELS, middle, err);
    if (!e) return KILN_STATUS_CORRUPT;
    int order = memcmp(e + KILN_BK_HASH, hash->bytes, KILN_CHECK_SIZE);
    if (!order) {
      KILN_TRY(kiln_bundle_kernel_at(b, middle, out, err));
      const char *text = kiln_bundle_text(b, out->name, err);
      if (!text) return KILN_STATUS_CORRUPT;
      if (!strcmp(text, name)) return KILN_OK;
      break;
    }
    if (order < 0) low = middle + 1, least = top_of(e + KILN_BK_HASH);
    else high = middle, most = top_of(e + KILN_BK_HASH);
  }
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s: no kernel '%.200s' among %llu", b->name, name,
                   (ull)b->section_count[KILN_BUNDLE_KERNELS]);
}

kiln_status kiln_bundle_code_at(kiln_bundle *b, const kiln_kernel_entry *kernel, uint32_t index,
                                kiln_code_entry *out, kiln_error *err) {
  uint32_t number = kernel->code + index;
  memset(out, 0, sizeof *out);
  const uint8_t *e = kiln_bundle_entry(b, KILN_BUNDLE_CODES, number, err);
  if (!e) return KILN_STATUS_CORRUPT;
  *out = (kiln_code_entry){
      .kernel = kiln_le32(e + KILN_BC_KERNEL),
      .blob = kiln_le32(e + KILN_BC_BLOB),
      .info = kiln_le32(e + KILN_BC_INFO),
      .maps = kiln_le32(e + KILN_BC_MAPS),
      .config = kiln_le16(e + KILN_BC_CONFIG),
      .variant = kiln_le16(e + KILN_BC_VARIANT),
      .target = kiln_le16(e + KILN_BC_TARGET),
      .flags = kiln_le16(e + KILN_BC_FLAGS),
  };
  if (out->kernel != kernel->number)
    return damaged(err, b, "code %u is listed for kernel %u and says it is of kernel %u", number,
                   kernel->number, out->kernel);
  if (out->target >= b->section_count[KILN_BUNDLE_TARGETS] ||
      out->blob >= b->section_count[KILN_BUNDLE_BLOBS])
    return damaged(err, b, "code %u names target %u of %llu and blob %u of %llu", number, out->target,
                   (ull)b->section_count[KILN_BUNDLE_TARGETS], out->blob,
                   (ull)b->section_count[KILN_BUNDLE_BLOBS]);
  return KILN_OK;
}

const char *kiln_bundle_target_at(kiln_bundle *b, uint32_t number, kiln_error *err) {
  const uint8_t *e = kiln_bundle_entry(b, KILN_BUNDLE_TARGETS, number, err);
  return e ? kiln_bundle_text(b, kiln_le32(e), err) : NULL;
}

kiln_status kiln_bundle_blob_at(kiln_bundle *b, uint32_t number, kiln_blob_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *e = kiln_bundle_entry(b, KILN_BUNDLE_BLOBS, number, err);
  if (!e) return KILN_STATUS_CORRUPT;
  uint32_t member = kiln_le32(e + KILN_BB_MEMBER);
  const uint8_t *m = kiln_bundle_entry(b, KILN_BUNDLE_MEMBERS, member, err);
  if (!m) return KILN_STATUS_CORRUPT;
  uint64_t begin = kiln_le64(m + KILN_BM_OFFSET), bytes = kiln_le64(m + KILN_BM_BYTES),
           offset = kiln_le64(e + KILN_BB_OFFSET);
  uint32_t stored = kiln_le32(e + KILN_BB_STORED), raw = kiln_le32(e + KILN_BB_RAW);
  if (begin > b->size || bytes > b->size - begin || offset > bytes || stored > bytes - offset)
    return damaged(err, b, "blob %u (%u bytes at %llu of member %u) is outside the file", number, stored,
                   (ull)offset, member);
  if (!raw || raw > KILN_BUNDLE_MAX_BLOB || e[KILN_BB_CODEC] >= KILN_BUNDLE_CODEC_COUNT)
    return damaged(err, b, "blob %u has %u raw bytes and codec %u; at most %d and %d are known", number, raw,
                   e[KILN_BB_CODEC], KILN_BUNDLE_MAX_BLOB, KILN_BUNDLE_CODEC_COUNT - 1);
  if (e[KILN_BB_CODEC] != KILN_BUNDLE_CODEC_NONE && raw > KILN_BUNDLE_MAX_EXPANSION(stored))
    return damaged(err, b, "blob %u has %u raw bytes in a frame of %u; the limit is %llu", number, raw,
                   stored, (ull)KILN_BUNDLE_MAX_EXPANSION(stored));
  if (e[KILN_BB_FORM] >= KILN_BUNDLE_FORM_COUNT)
    return damaged(err, b, "blob %u has form %u; at most %d is known", number, e[KILN_BB_FORM],
                   KILN_BUNDLE_FORM_COUNT - 1);
  *out = (kiln_blob_entry){begin + offset,
                           stored,
                           raw,
                           kiln_le32(e + KILN_BB_REFERENCES),
                           e + KILN_BB_CHECK,
                           e + KILN_BB_DIGEST,
                           e[KILN_BB_CODEC],
                           e[KILN_BB_FORM],
                           kiln_le16(e + KILN_BB_DICTIONARY),
                           member};
  return KILN_OK;
}
