// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln fix-index: restores a bundle from an archive that was unpacked and packed again with another tool.
// The members have the same contents at other places, perhaps compressed, so the index no longer fits the
// file. Everything is checked before the bundle is written.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "cache/bundle/seal.h"
#include "tools/bundle/view.h"
#include "tools/bundle/resign.h"
#include "tools/kiln-tool/commands.h"

enum { MOST_MEMBERS = 1 << 20 };
// Limit of the unpacked size of an archive: codes are already compressed, and an index compresses a few
// times.
enum { MOST_SMALL = 16 << 20, MOST_GROWTH = 64 };

typedef struct member {
  char *name;      // owned
  uint64_t offset; // of the content in `image`
  uint64_t size;
} member;

/// The archive laid out again in memory: a local header, the index, the other members' contents.
typedef struct archive_image {
  kiln_buffer bytes; // owned
  member *members;   // owned; index first
  size_t count, capacity;
  size_t limit; // of `bytes`
} archive_image;

static void image_deinit(archive_image *im) {
  for (size_t i = 0; i < im->count; i++) free(im->members[i].name);
  free(im->members);
  kiln_buffer_deinit(&im->bytes);
}

static kiln_status failed(struct archive *a, const char *path, kiln_error *err) {
  const char *text = archive_error_string(a);
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: %s", path, text ? text : "not an archive");
}

static kiln_status add_member(archive_image *im, struct archive *a, const char *name, const char *path,
                              kiln_error *err) {
  if (im->count == im->capacity) {
    im->capacity = im->capacity ? im->capacity * 2 : 16;
    member *bigger = im->count < MOST_MEMBERS ? realloc(im->members, im->capacity * sizeof *bigger) : NULL;
    if (!bigger) return kiln_fail(err, KILN_STATUS_LIMIT, "%s: more than %zu members", path, im->count);
    im->members = bigger;
  }
  member *m = &im->members[im->count++];
  *m = (member){strdup(name), im->bytes.size, 0};
  for (;;) {
    if (!m->name || !kiln_buffer_reserve(&im->bytes, 1 << 16))
      return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", path);
    la_ssize_t n =
        archive_read_data(a, im->bytes.bytes + im->bytes.size, im->bytes.capacity - im->bytes.size);
    if (n < 0) return failed(a, path, err);
    if (!n) return KILN_OK;
    im->bytes.size += (size_t)n;
    m->size += (uint64_t)n;
    if (im->bytes.size > im->limit)
      return kiln_fail(err, KILN_STATUS_LIMIT,
                       "%s: unpacks to more than %zu bytes (%d times its size and %d bytes); no bundle does",
                       path, im->limit, MOST_GROWTH, MOST_SMALL);
  }
}

// Reads the index, or all members but the index.
static kiln_status read_members(archive_image *im, int fd, const char *path, bool inverse, kiln_error *err) {
  struct archive *a = archive_read_new();
  struct archive_entry *entry;
  archive_read_support_format_zip(a);
  archive_read_support_format_tar(a);
  archive_read_support_filter_gzip(a);
  archive_read_support_filter_bzip2(a);
  archive_read_support_filter_xz(a);
  archive_read_support_filter_zstd(a);
  kiln_status status = lseek(fd, 0, SEEK_SET) == 0 && archive_read_open_fd(a, fd, 1 << 16) == ARCHIVE_OK
                           ? KILN_OK
                           : failed(a, path, err);
  while (status == KILN_OK) {
    int r = archive_read_next_header(a, &entry);
    if (r == ARCHIVE_EOF) break;
    if (r < ARCHIVE_WARN) status = failed(a, path, err);
    const char *name = archive_entry_pathname(entry);
    if (status == KILN_OK && name && archive_entry_filetype(entry) == AE_IFREG &&
        (strcmp(name, KILN_BUNDLE_INDEX_NAME) != 0) == inverse)
      status = add_member(im, a, name, path, err);
  }
  archive_read_free(a);
  return status;
}

typedef struct index_parts {
  uint8_t *header, *top, *checks, *region;
  uint64_t region_size;
  uint32_t page_count, top_count;
} index_parts;

// Checks the old index against its own header, so that a damaged one is not made to look intact.
static kiln_status open_index(archive_image *im, index_parts *p, const char *path, kiln_error *err) {
  const member *m = &im->members[0];
  uint8_t *h = p->header = im->bytes.bytes + m->offset;
  if (m->size < KILN_BUNDLE_TOP || memcmp(h, KILN_BUNDLE_MAGIC, 8) ||
      !kiln_check_fits(h + KILN_BH_CHECK, KILN_BUNDLE_CHECK, h, KILN_BH_CHECK))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the index is damaged", path);
  uint64_t region = kiln_le64(h + KILN_BH_REGION);
  p->region_size = kiln_le64(h + KILN_BH_REGION_SIZE);
  p->page_count = kiln_le32(h + KILN_BH_PAGE_COUNT);
  p->top_count = kiln_le32(h + KILN_BH_TOP_COUNT);
  uint64_t checks = KILN_BUNDLE_TOP + (uint64_t)p->top_count * KILN_BUNDLE_CHECK;
  if (region > m->size || p->region_size > m->size - region ||
      checks + (uint64_t)p->page_count * KILN_BUNDLE_CHECK > region ||
      (p->region_size + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE != p->page_count ||
      ((uint64_t)p->page_count * KILN_BUNDLE_CHECK + KILN_BUNDLE_PAGE - 1) / KILN_BUNDLE_PAGE != p->top_count)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the parts of the index do not fit each other", path);
  p->top = h + KILN_BUNDLE_TOP;
  p->checks = h + checks;
  p->region = h + region;
  kiln_digest digest = kiln_digest_of(p->region, (size_t)p->region_size);
  if (memcmp(digest.bytes, h + KILN_BH_DIGEST, KILN_DIGEST_SIZE))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the index does not have the digest of its header", path);
  return KILN_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const member *const *)a)->name, (*(const member *const *)b)->name);
}

/// The members in order of name; the caller frees.
static const member **sorted_members(const archive_image *im) {
  const member **sorted = malloc((im->count + 1) * sizeof *sorted);
  for (size_t i = 0; sorted && i < im->count; i++) sorted[i] = &im->members[i];
  if (sorted) qsort(sorted, im->count, sizeof *sorted, by_name);
  return sorted;
}

// Points the member table to where the contents lie in the image.
static kiln_status place_members(const archive_image *im, const member **sorted, index_parts *p,
                                 const char *path, kiln_error *err) {
  const uint8_t *section = p->header + KILN_BH_SECTIONS;
  uint64_t at = kiln_le64(section + 16 * KILN_BUNDLE_MEMBERS),
           count = kiln_le64(section + 16 * KILN_BUNDLE_MEMBERS + 8);
  uint64_t records = kiln_le64(section + 16 * KILN_BUNDLE_RECORDS),
           records_size = kiln_le64(section + 16 * KILN_BUNDLE_RECORDS + 8);
  if (at > p->region_size || count > (p->region_size - at) / KILN_BM_SIZE || records > p->region_size ||
      records_size > p->region_size - records)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the member table is outside the index", path);
  for (uint64_t i = 0; i < count; i++) {
    uint8_t *entry = p->region + at + i * KILN_BM_SIZE;
    uint64_t name = kiln_le32(entry + KILN_BM_NAME);
    if (name + 5 > records_size || kiln_le32(p->region + records + name) > records_size - name - 5)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the name of member %llu is outside the index", path,
                       (unsigned long long)i);
    const uint8_t *record = p->region + records + name;
    member wanted = {.name = (char *)record + 4};
    const member *key = &wanted, **found = NULL;
    if (!record[4 + kiln_le32(record)]) found = bsearch(&key, sorted, im->count, sizeof *sorted, by_name);
    if (!found || (*found != im->members && (*found)->size != kiln_le64(entry + KILN_BM_BYTES)))
      return kiln_fail(err, KILN_STATUS_CORRUPT,
                       "%s: the member '%.*s' of %llu bytes is missing or has another size", path,
                       (int)strnlen(wanted.name, kiln_le32(record)), wanted.name,
                       (unsigned long long)kiln_le64(entry + KILN_BM_BYTES));
    kiln_put64(entry + KILN_BM_OFFSET, (*found)->offset);
  }
  return KILN_OK;
}

// The image becomes a bundle in memory that the ordinary reader takes. The digest that its statement has of
// the archive is of the archive as it was: who writes the bundle anew makes another.
// `out_header` gets the header as it was signed, with its signature.
static kiln_status rebuild(const char *path, int fd, archive_image *im, const resign *r,
                           uint8_t out_header[KILN_BH_SIZE + KILN_BG_SIZE], kiln_error *err) {
  uint8_t local[KILN_ZIP_LOCAL_SIZE] = {0};
  index_parts p = {0};
  kiln_put32(local, KILN_ZIP_LOCAL);
  kiln_put16(local + KILN_ZIP_NAME_SIZE, sizeof KILN_BUNDLE_INDEX_NAME - 1);
  kiln_buffer_bytes(&im->bytes, local, sizeof local);
  kiln_buffer_bytes(&im->bytes, KILN_BUNDLE_INDEX_NAME, sizeof KILN_BUNDLE_INDEX_NAME - 1);
  KILN_TRY(read_members(im, fd, path, false, err));
  if (im->count != 1)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: %zu members are called %s", path, im->count,
                     KILN_BUNDLE_INDEX_NAME);
  KILN_TRY(read_members(im, fd, path, true, err));
  KILN_TRY(open_index(im, &p, path, err));
  if (r->key) // it is of this header, which has the digest of the index, which has those of the codes
    KILN_TRY(bundle_check_signature(path, p.header, (const uint8_t(*)[KEY_FILE_PUBLIC])r->keys, r->key_count,
                                    err));
  memcpy(out_header, p.header, KILN_BH_SIZE + KILN_BG_SIZE);
  const member **sorted = sorted_members(im);
  kiln_status status = sorted ? place_members(im, sorted, &p, path, err)
                              : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", path);
  free(sorted);
  if (status != KILN_OK) return status;
  kiln_put64(p.header + KILN_BH_FILE_SIZE, im->bytes.size);
  memset(p.header + KILN_BH_SIZE, 0, KILN_BG_SIZE);
  kiln_bundle_seal_index(p.header);
  return KILN_OK;
}

// The archive is read twice, so a pipe is not taken.
static kiln_status open_archive(const char *path, int *out, size_t *out_limit, kiln_error *err) {
  struct stat st;
  int fd = *out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &st) < 0) {
    kiln_status status = kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
  }
  *out_limit = MOST_SMALL + MOST_GROWTH * (size_t)st.st_size;
  if (S_ISREG(st.st_mode)) return KILN_OK;
  close(fd);
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: not a regular file", path);
}

static kiln_status fix(const char *path, const char *out, resign *r, kiln_error *err) {
  archive_image im = {0};
  bundle_view v = {0};
  kiln_buffer bytes = {0};
  uint8_t header[KILN_BH_SIZE + KILN_BG_SIZE];
  int fd;
  KILN_TRY(open_archive(path, &fd, &im.limit, err));
  kiln_bundle_writer *w = kiln_bundle_writer_create();
  kiln_status status = w ? rebuild(path, fd, &im, r, header, err)
                         : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (status == KILN_OK) status = bundle_view_open_bytes(path, im.bytes.bytes, im.bytes.size, &v, err);
  if (status == KILN_OK) status = kiln_bundle_check_all(v.bundle, err);
  if (status == KILN_OK && r->key) status = bundle_check_codes(v.bundle, err);
  if (status == KILN_OK) status = bundle_view_copy(&v, w, NULL, NULL, false, err);
  if (status == KILN_OK) resign_note_input(r, path, header, &v.statement);
  kiln_bundle_options options = {.threads = 4};
  if (status == KILN_OK) options.level = (int)kiln_le32(v.bundle->header + KILN_BH_LEVEL);
  if (status == KILN_OK) status = kiln_bundle_writer_build(w, &options, &bytes, NULL, err);
  if (status == KILN_OK) status = resign_finish(r, out, &bytes, err);
  if (status == KILN_OK) status = cli_write_file(out, bytes.bytes, bytes.size, err);
  if (status == KILN_OK) resign_report(r, out);
  if (v.arena) bundle_view_close(&v);
  kiln_bundle_writer_destroy(w);
  kiln_buffer_deinit(&bytes);
  image_deinit(&im);
  close(fd);
  return status;
}

int kiln_command_fix_index(int argc, char **argv) {
  const char *out = NULL;
  resign signature = {0};
  const cli_option options[] = {
      {"out", 'o', CLI_OUTPUT, &out, "FILE", "the bundle to write (in place of the archive)"},
      RESIGN_OPTIONS(&signature)};
  const cli_page page =
      CLI_PAGE("kiln fix-index [-o FILE] ARCHIVE",
               "Makes a bundle from an archive that was repacked with another tool. A signature is lost, "
               "with a message, unless --sign\nsigns again.",
               options);
  cli_list words = {0};
  kiln_error err;
  int exit_code = cli_parse_one(&page, argc, argv, "archive", &words);
  if (exit_code == -1) {
    kiln_status status = resign_open(&signature, &err);
    if (status == KILN_OK) status = fix(words.items[0], out ? out : words.items[0], &signature, &err);
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  cli_list_deinit(&words);
  resign_deinit(&signature);
  return exit_code;
}
