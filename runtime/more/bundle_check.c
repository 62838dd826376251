// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks what a bundle says of itself, and the index as a whole, for tools that take a bundle apart; no look-up
// needs either. No member, blob, kernel or name may use bytes of another.
#include <stdlib.h>
#include <string.h>

#include "runtime/more/core.h"

#define damaged kiln_bundle_damaged
typedef unsigned long long ull;

kiln_status kiln_bundle_named_at(kiln_bundle *b, uint32_t index, kiln_kernel_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *number = kiln_bundle_entry(b, KILN_BUNDLE_NAMES, index, err);
  return number ? kiln_bundle_kernel_at(b, kiln_le32(number), out, err) : KILN_STATUS_CORRUPT;
}

kiln_status kiln_bundle_statement(kiln_bundle *b, kiln_statement *out, kiln_error *err) {
  *out = (kiln_statement){.name = ""};
  uint64_t at = kiln_le64(b->header + KILN_BH_STATEMENT);
  if (!at) return KILN_OK;
  if (at > b->region_size || b->region_size - at < KILN_BS_SIZE)
    return damaged(err, b, "the statement at %llu is outside the index of %llu bytes", (ull)at,
                   (ull)b->region_size);
  const uint8_t *s = kiln_bundle_region(b, at, KILN_BS_SIZE, err);
  if (!s) return KILN_STATUS_CORRUPT;
  size_t length = strnlen((const char *)s + KILN_BS_NAME, KILN_BS_NAME_SIZE);
  for (size_t i = length; i < KILN_BS_NAME_SIZE; i++)
    if (s[KILN_BS_NAME + i]) length = KILN_BS_NAME_SIZE;
  if (length == KILN_BS_NAME_SIZE) return damaged(err, b, "the name in the statement does not end in NULs");
  *out =
      (kiln_statement){kiln_le64(s + KILN_BS_VERSION), (const char *)s + KILN_BS_NAME, s + KILN_BS_CONTAINER};
  return KILN_OK;
}

// Against a bundle that was good once, or that is good for something else.
kiln_status kiln_more_bundle_check_statement(kiln_bundle *b, const kiln_open_options *options,
                                             kiln_error *err) {
  kiln_statement s;
  KILN_TRY(kiln_bundle_statement(b, &s, err));
  if (options->name && strcmp(s.name, options->name))
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle's name is '%s', '%.100s' is wanted", b->name,
                     s.name, options->name);
  if (s.version < options->min_version)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle's version is %llu, at least %llu is wanted",
                     b->name, (ull)s.version, (ull)options->min_version);
  return KILN_OK;
}

// Each kernel's codes begin where those of the one before end, and the names are in order: so each code is
// one kernel's and each kernel has one name.
static kiln_status check_kernels(kiln_bundle *b, kiln_error *err) {
  uint64_t codes = 0;
  const char *before = NULL;
  for (uint32_t i = 0; i < b->section_count[KILN_BUNDLE_KERNELS]; i++) {
    kiln_kernel_entry kernel;
    kiln_code_entry code;
    KILN_TRY(kiln_bundle_kernel_at(b, i, &kernel, err));
    if (kernel.code != codes)
      return damaged(err, b, "the codes of kernel %u begin at %u, those of the one before end at %llu", i,
                     kernel.code, (ull)codes);
    for (uint32_t c = 0; c < kernel.code_count; c++) KILN_TRY(kiln_bundle_code_at(b, &kernel, c, &code, err));
    codes += kernel.code_count;
  }
  if (codes != b->section_count[KILN_BUNDLE_CODES])
    return damaged(err, b, "%llu of %llu codes belong to a kernel", (ull)codes,
                   (ull)b->section_count[KILN_BUNDLE_CODES]);
  for (uint32_t i = 0; i < b->section_count[KILN_BUNDLE_NAMES]; i++) {
    kiln_kernel_entry kernel;
    KILN_TRY(kiln_bundle_named_at(b, i, &kernel, err));
    const char *name = kiln_bundle_text(b, kernel.name, err);
    if (!name) return KILN_STATUS_CORRUPT;
    if (before && strcmp(before, name) >= 0)
      return damaged(err, b, "the names '%.60s' and '%.60s' are not in order", before, name);
    before = name;
  }
  return KILN_OK;
}

typedef struct byte_range {
  uint64_t begin, end;
} byte_range;

static int by_begin(const void *a, const void *b) {
  uint64_t x = ((const byte_range *)a)->begin, y = ((const byte_range *)b)->begin;
  return x < y ? -1 : x > y;
}

static kiln_status check_members(kiln_bundle *b, byte_range *ranges, kiln_error *err) {
  size_t count = (size_t)b->section_count[KILN_BUNDLE_MEMBERS];
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *m = kiln_bundle_entry(b, KILN_BUNDLE_MEMBERS, i, err);
    if (!m) return KILN_STATUS_CORRUPT;
    uint64_t begin = kiln_le64(m + KILN_BM_OFFSET), bytes = kiln_le64(m + KILN_BM_BYTES);
    if (begin > b->size || bytes > b->size - begin)
      return damaged(err, b, "member %u (%llu bytes at %llu) is outside the file", i, (ull)bytes, (ull)begin);
    ranges[i] = (byte_range){begin, begin + bytes};
  }
  qsort(ranges, count, sizeof *ranges, by_begin);
  for (size_t i = 1; i < count; i++)
    if (ranges[i].begin < ranges[i - 1].end)
      return damaged(err, b, "the members at %llu and %llu overlap", (ull)ranges[i - 1].begin,
                     (ull)ranges[i].begin);
  return KILN_OK;
}

// The blobs of a member come one after another. `ends`: a zero for each member.
static kiln_status check_blobs(kiln_bundle *b, uint64_t *ends, kiln_error *err) {
  for (uint32_t i = 0; i < b->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_blob_entry e;
    KILN_TRY(kiln_bundle_blob_at(b, i, &e, err));
    if (!e.member || e.offset < ends[e.member])
      return damaged(err, b, "blob %u at %llu overlaps %s", i, (ull)e.offset,
                     e.member ? "the one before" : "the index");
    ends[e.member] = e.offset + e.stored;
  }
  return KILN_OK;
}

kiln_status kiln_bundle_check_index(kiln_bundle *b, kiln_error *err) {
  kiln_statement statement;
  if (!kiln_bundle_region(b, 0, b->region_size, err)) return KILN_STATUS_CORRUPT;
  KILN_TRY(kiln_bundle_statement(b, &statement, err));
  KILN_TRY(check_kernels(b, err));
  size_t members = (size_t)b->section_count[KILN_BUNDLE_MEMBERS];
  byte_range *ranges = calloc(members + 1, sizeof *ranges);
  uint64_t *ends = calloc(members + 1, sizeof *ends);
  kiln_status status = ranges && ends ? check_members(b, ranges, err) : kiln_bundle_no_memory(err, b);
  if (status == KILN_OK) status = check_blobs(b, ends, err);
  free(ranges);
  free(ends);
  return status;
}

kiln_status kiln_more_bundle_check_all(kiln_bundle *b, kiln_error *err) {
  KILN_TRY(kiln_bundle_check_index(b, err));
  for (uint32_t i = 0; i < b->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_bytes bytes;
    KILN_TRY(kiln_bundle_load(b, i, &bytes, err));
    kiln_bytes_deinit(&bytes);
  }
  return KILN_OK;
}
