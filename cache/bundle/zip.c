// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the container: a ZIP archive of stored members, made by libarchive. The index holds where members
// begin, so the archive is written twice: first without contents, which shows how many bytes libarchive
// puts around each member, then with them, and each place is compared. No time is set: libarchive then
// writes 1980-01-01 in every time zone.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/bundle/internal.h"
#include "cache/bundle/seal.h"

typedef struct sink {
  kiln_buffer *out; // borrowed; NULL only counts
  uint64_t size;
} sink;

static la_ssize_t write_callback(struct archive *archive, void *context, const void *bytes, size_t size) {
  sink *s = context;
  if (s->out) {
    kiln_buffer_bytes(s->out, bytes, size);
    if (s->out->failed) {
      archive_set_error(archive, ENOMEM, "memory is exhausted");
      return -1;
    }
  }
  s->size += size;
  return (la_ssize_t)size;
}

static kiln_status failed(struct archive *archive, kiln_error *err) {
  const char *text = archive_error_string(archive);
  return kiln_fail(err, KILN_STATUS_INTERNAL, "libarchive: %s", text ? text : "unknown error");
}

static struct archive *begin_archive(sink *s, kiln_error *err) {
  struct archive *archive = archive_write_new();
  if (!archive) {
    kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "libarchive: memory is exhausted");
    return NULL;
  }
  if (archive_write_set_format_zip(archive) == ARCHIVE_OK &&
      archive_write_set_options(archive, "zip:compression=store") == ARCHIVE_OK &&
      archive_write_set_bytes_per_block(archive, 0) == ARCHIVE_OK &&
      archive_write_open(archive, s, NULL, write_callback, NULL) == ARCHIVE_OK)
    return archive;
  failed(archive, err);
  archive_write_free(archive);
  return NULL;
}

static kiln_status begin_member(struct archive *archive, const kiln_pack_member *m, kiln_error *err) {
  struct archive_entry *entry = archive_entry_new();
  if (!entry) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "libarchive: memory is exhausted");
  archive_entry_set_pathname(entry, m->name);
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, 0644);
  archive_entry_set_size(entry, (la_int64_t)m->size);
  kiln_status status = archive_write_header(archive, entry) == ARCHIVE_OK ? KILN_OK : failed(archive, err);
  archive_entry_free(entry);
  return status;
}

// ------------------------------------------------------------------------------------------ layout

static uint64_t padding_before(const kiln_pack_member *m, const kiln_pack_blob *b, uint64_t at) {
  uint64_t alignment = !m->aligned                                 ? 1
                       : b->stored_size < KILN_BUNDLE_ALIGN_STORED ? KILN_BUNDLE_ALIGN_SMALL
                                                                   : KILN_BUNDLE_ALIGN_STORED;
  return (alignment - at % alignment) % alignment;
}

// Places the codes of a member whose content begins at m->begin.
static void place_blobs(kiln_packed *p, kiln_pack_member *m) {
  m->size = 0;
  for (uint32_t i = 0; i < m->blob_count; i++) {
    kiln_pack_blob *b = &p->blobs[m->blobs[i]];
    m->size += padding_before(m, b, m->begin + m->size);
    b->offset = m->size;
    m->size += b->stored_size;
  }
}

// Writes headers without contents, setting each member's begin and size from what came before it.
static kiln_status lay_out(kiln_packed *p, uint64_t *out_file_size, kiln_error *err) {
  sink count = {0};
  uint64_t contents = 0;
  struct archive *archive = begin_archive(&count, err);
  kiln_status status = archive ? KILN_OK : err ? err->status : KILN_STATUS_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == KILN_OK && i < p->member_count; i++) {
    kiln_pack_member *m = &p->members[i];
    if (i) place_blobs(p, m); // a size near the final one, so that large members get their ZIP64 fields
    status = begin_member(archive, m, err);
    m->begin = count.size + contents;
    if (i) place_blobs(p, m);
    contents += m->size;
    if (status == KILN_OK && archive_write_finish_entry(archive) < ARCHIVE_WARN)
      status = failed(archive, err);
  }
  if (status == KILN_OK && archive_write_close(archive) != ARCHIVE_OK) status = failed(archive, err);
  archive_write_free(archive);
  *out_file_size = count.size + contents;
  return status;
}

// ----------------------------------------------------------------------------------------- writing

static kiln_status write_bytes(struct archive *archive, const void *bytes, size_t size, kiln_error *err) {
  return archive_write_data(archive, bytes, size) == (la_ssize_t)size ? KILN_OK : failed(archive, err);
}

static kiln_status write_blobs(struct archive *archive, const kiln_packed *p, const kiln_pack_member *m,
                               kiln_error *err) {
  static const uint8_t zeros[KILN_BUNDLE_ALIGN_STORED];
  uint64_t at = 0;
  for (uint32_t i = 0; i < m->blob_count; i++) {
    const kiln_pack_blob *b = &p->blobs[m->blobs[i]];
    if (b->offset > at) KILN_TRY(write_bytes(archive, zeros, (size_t)(b->offset - at), err));
    KILN_TRY(write_bytes(archive, b->stored ? b->stored : b->bytes, b->stored_size, err));
    at = b->offset + b->stored_size;
  }
  return KILN_OK;
}

static kiln_status write_members(kiln_packed *p, const kiln_buffer *index, uint64_t file_size,
                                 kiln_buffer *out, kiln_error *err) {
  sink s = {.out = out};
  struct archive *archive = begin_archive(&s, err);
  kiln_status status = archive ? KILN_OK : err ? err->status : KILN_STATUS_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == KILN_OK && i < p->member_count; i++) {
    const kiln_pack_member *m = &p->members[i];
    status = begin_member(archive, m, err);
    if (status == KILN_OK && s.size != m->begin)
      status = kiln_fail(err, KILN_STATUS_INTERNAL, "bundle layout: '%s' begins at %llu, planned %llu",
                         m->name, (unsigned long long)s.size, (unsigned long long)m->begin);
    if (status == KILN_OK)
      status = i ? write_blobs(archive, p, m, err) : write_bytes(archive, index->bytes, index->size, err);
    if (status == KILN_OK && archive_write_finish_entry(archive) != ARCHIVE_OK) status = failed(archive, err);
  }
  if (status == KILN_OK && archive_write_close(archive) != ARCHIVE_OK) status = failed(archive, err);
  if (status == KILN_OK && s.size != file_size)
    status = kiln_fail(err, KILN_STATUS_INTERNAL, "bundle layout: the file has %llu bytes, planned %llu",
                       (unsigned long long)s.size, (unsigned long long)file_size);
  archive_write_free(archive);
  return status;
}

kiln_status kiln_pack_zip(kiln_packed *p, const kiln_bundle_options *options, kiln_buffer *out,
                          kiln_error *err) {
  kiln_buffer index = {0};
  uint64_t file_size = 0;
  kiln_status status = kiln_pack_index(p, options, 0, 0, &index, err);
  p->members[0].size = index.size;
  if (status == KILN_OK) status = lay_out(p, &file_size, err);
  if (status == KILN_OK) status = kiln_pack_index(p, options, p->members[0].begin, file_size, &index, err);
  if (status == KILN_OK) status = write_members(p, &index, file_size, out, err);
  if (status == KILN_OK) status = kiln_bundle_seal(out->bytes, out->size, options->secret_key, err);
  kiln_buffer_deinit(&index);
  return status;
}
