// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/bundle_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/record.h"
#include "runtime/bundle_blob.h"

static kiln_status damaged(kiln_error *err, const kiln_bundle *b, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static kiln_status damaged(kiln_error *err, const kiln_bundle *b, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: %s", b->name, text);
}

typedef unsigned long long ull;

// ---------------------------------------------------------------------------------------- checking

static bool check_fits(const uint8_t *check, const uint8_t *bytes, size_t size) {
  return !memcmp(kiln_check_of(bytes, size).bytes, check, KILN_BUNDLE_CHECK);
}

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

static kiln_status check_page(kiln_bundle *b, uint32_t page, kiln_error *err) {
  uint32_t of_checks = page / (KILN_BUNDLE_PAGE / KILN_BUNDLE_CHECK), checks_bit = b->page_count + of_checks;
  if (!was_seen(b, checks_bit)) {
    uint64_t checks_size = (uint64_t)b->page_count * KILN_BUNDLE_CHECK;
    if (!check_fits(b->top + (size_t)of_checks * KILN_BUNDLE_CHECK,
                    b->checks + (size_t)of_checks * KILN_BUNDLE_PAGE, page_size(checks_size, of_checks)))
      return damaged(err, b, "page %u of %u of the index's checks is damaged", of_checks, b->top_count);
    set_seen(b, checks_bit);
  }
  if (!check_fits(b->checks + (size_t)page * KILN_BUNDLE_CHECK, b->region + (size_t)page * KILN_BUNDLE_PAGE,
                  page_size(b->region_size, page)))
    return damaged(err, b, "page %u of %u of the index is damaged", page, b->page_count);
  set_seen(b, page);
  return KILN_OK;
}

// Bytes of the region; the range is inside it.
static const uint8_t *region_bytes(kiln_bundle *b, uint64_t at, uint64_t size, kiln_error *err) {
  if (!size) return b->region + at;
  for (uint32_t page = (uint32_t)(at / KILN_BUNDLE_PAGE),
                last = (uint32_t)((at + size - 1) / KILN_BUNDLE_PAGE);
       page <= last; page++)
    if (!was_seen(b, page) && check_page(b, page, err) != KILN_OK) return NULL;
  return b->region + at;
}

static const uint32_t entry_sizes[KILN_BUNDLE_SECTIONS] = {
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
  uint64_t whole = b->section_count[section] * entry_sizes[section];
  if (at > whole || size > whole - at) {
    damaged(err, b, "bytes %llu + %llu of section %d, which has %llu", (ull)at, (ull)size, (int)section,
            (ull)whole);
    return NULL;
  }
  return region_bytes(b, b->section_at[section] + at, size, err);
}

static const uint8_t *entry_at(kiln_bundle *b, kiln_bundle_section section, uint32_t number,
                               kiln_error *err) {
  if (number >= b->section_count[section]) {
    damaged(err, b, "entry %u of section %d, which has %llu", number, (int)section,
            (ull)b->section_count[section]);
    return NULL;
  }
  return kiln_bundle_in(b, section, (uint64_t)number * entry_sizes[section], entry_sizes[section], err);
}

// ----------------------------------------------------------------------------------------- opening

// The bytes [at, at + size) for opening, inside the file. From a mapped file they are read, not touched:
// where the page cache has huge pages, one touch makes 2 MiB resident. Replaces what the call before gave.
static kiln_status head_bytes(kiln_bundle *b, int fd, size_t at, size_t size, const uint8_t **out,
                              kiln_error *err) {
  *out = b->file + at;
  if (fd < 0) return KILN_OK;
  uint8_t *bytes = realloc(b->head, size);
  if (!bytes) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", b->name);
  *out = b->head = bytes;
  for (size_t done = 0; done < size;) {
    ssize_t n = pread(fd, bytes + done, size - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return kiln_fail(err, n ? kiln_status_of_errno(errno) : KILN_STATUS_CORRUPT, "%s: %s", b->name,
                       n ? strerror(errno) : "the file shrank");
    done += (size_t)n;
  }
  return KILN_OK;
}

// Begin of KILN-INDEX's content; the ZIP's first local header says how long its name and extra fields are.
static kiln_status find_header(kiln_bundle *b, int fd, kiln_error *err) {
  enum { NAME = sizeof KILN_BUNDLE_INDEX_NAME - 1, LOCAL = KILN_ZIP_LOCAL_SIZE + NAME };
  const uint8_t *f = NULL;
  if (b->size >= LOCAL) KILN_TRY(head_bytes(b, fd, 0, LOCAL, &f, err));
  if (!f || kiln_le32(f) != KILN_ZIP_LOCAL)
    return damaged(err, b, "%zu bytes that do not begin like a bundle (a stored ZIP archive)", b->size);
  size_t name = kiln_le16(f + KILN_ZIP_NAME_SIZE),
         at = KILN_ZIP_LOCAL_SIZE + name + kiln_le16(f + KILN_ZIP_EXTRA_SIZE);
  if (name != NAME || b->size < at || b->size - at < KILN_BUNDLE_TOP ||
      memcmp(f + KILN_ZIP_LOCAL_SIZE, KILN_BUNDLE_INDEX_NAME, NAME))
    return damaged(err, b, "an archive of %zu bytes whose first member is not %s", b->size,
                   KILN_BUNDLE_INDEX_NAME);
  b->header_at = at;
  KILN_TRY(head_bytes(b, fd, at, KILN_BUNDLE_TOP, &b->header, err));
  if (memcmp(b->header, KILN_BUNDLE_MAGIC, 8))
    return damaged(
        err, b,
        "the index does not begin with the magic bytes (was the archive compressed or changed as text?)");
  return KILN_OK;
}

static kiln_status check_header(kiln_bundle *b, kiln_error *err) {
  const uint8_t *h = b->header;
  unsigned major = kiln_le16(h + KILN_BH_MAJOR), minimum = kiln_le16(h + KILN_BH_MINIMUM);
  unsigned must = kiln_le32(h + KILN_BH_MUST) & ~(unsigned)KILN_BUNDLE_FEATURES;
  unsigned abi = kiln_le16(h + KILN_BH_ABI);
  if (!check_fits(h + KILN_BH_CHECK, h, KILN_BH_CHECK)) return damaged(err, b, "the header is damaged");
  if (major != KILN_BUNDLE_MAJOR || minimum > KILN_BUNDLE_MINOR)
    return kiln_fail(err, KILN_STATUS_VERSION, "%s: format %u.%u is needed, this library reads %d.%d",
                     b->name, major, minimum, KILN_BUNDLE_MAJOR, KILN_BUNDLE_MINOR);
  if (must)
    return kiln_fail(err, KILN_STATUS_VERSION, "%s: needs features 0x%x that this library lacks", b->name,
                     must);
  if (abi != KILN_KERNEL_ABI)
    return kiln_fail(err, KILN_STATUS_ABI, "%s: kernel ABI %u, this library launches ABI %d", b->name, abi,
                     KILN_KERNEL_ABI);
  uint64_t file_size = kiln_le64(h + KILN_BH_FILE_SIZE);
  if (file_size != b->size)
    return damaged(err, b, "%zu bytes, the header says %llu (cut short or repacked)", b->size,
                   (ull)file_size);
  return KILN_OK;
}

static uint64_t pages_of(uint64_t size) { return size / KILN_BUNDLE_PAGE + (size % KILN_BUNDLE_PAGE != 0); }

// Places of checks and region. All sums stay below 2^63: each part is first compared with the file's size.
static kiln_status check_places(kiln_bundle *b, int fd, kiln_error *err) {
  const uint8_t *h = b->header;
  uint64_t content = kiln_le64(h + KILN_BH_CONTENT_SIZE), region = kiln_le64(h + KILN_BH_REGION);
  uint64_t left = b->size - b->header_at;
  b->region_size = kiln_le64(h + KILN_BH_REGION_SIZE);
  b->page_count = kiln_le32(h + KILN_BH_PAGE_COUNT);
  b->top_count = kiln_le32(h + KILN_BH_TOP_COUNT);
  uint64_t checks = (uint64_t)b->page_count * KILN_BUNDLE_CHECK;
  if (content > left || region > content || b->region_size > content - region ||
      pages_of(b->region_size) != b->page_count || pages_of(checks) != b->top_count ||
      KILN_BUNDLE_TOP + b->top_count * (uint64_t)KILN_BUNDLE_CHECK + checks > region)
    return damaged(err, b, "the parts of the index do not fit each other");
  size_t top_size = (size_t)b->top_count * KILN_BUNDLE_CHECK;
  b->checks = b->file + b->header_at + KILN_BUNDLE_TOP + top_size;
  b->region = b->file + b->header_at + region;
  KILN_TRY(head_bytes(b, fd, b->header_at, KILN_BUNDLE_TOP + top_size, &b->header, err));
  h = b->header;
  b->top = h + KILN_BUNDLE_TOP;
  if (!check_fits(h + KILN_BH_TOP_CHECK, b->top, (size_t)b->top_count * KILN_BUNDLE_CHECK))
    return damaged(err, b, "the top checks of the index are damaged");
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) {
    uint64_t at = kiln_le64(h + KILN_BH_SECTIONS + 16 * i),
             count = kiln_le64(h + KILN_BH_SECTIONS + 16 * i + 8);
    if (at > b->region_size || count > (b->region_size - at) / entry_sizes[i] || count > UINT32_MAX)
      return damaged(err, b, "section %u (%llu entries at %llu) is outside the index of %llu bytes", i,
                     (ull)count, (ull)at, (ull)b->region_size);
    b->section_at[i] = at;
    b->section_count[i] = count;
  }
  if (b->section_count[KILN_BUNDLE_TARGETS] > KILN_BUNDLE_MAX_TARGETS)
    return damaged(err, b, "%llu targets; the limit is %d", (ull)b->section_count[KILN_BUNDLE_TARGETS],
                   KILN_BUNDLE_MAX_TARGETS);
  return KILN_OK;
}

static kiln_status check_signature(kiln_bundle *b, const kiln_open_options *options, kiln_error *err) {
  const uint8_t *slot = b->header + KILN_BH_SIZE;
  bool is_signed = kiln_le32(slot + KILN_BG_KIND) == 1;
  b->verify = options->verify;
  b->verify_user = options->verify_user;
  if (!options->verify && options->policy & KILN_NEED_SIGNATURE)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED,
                     "%s: the policy wants a signature, but no verify callback was given", b->name);
  if (!options->verify) return KILN_OK;
  kiln_verify_request request = {
      .bundle = b->name,
      .signed_bytes = b->header,
      .signed_size = KILN_BH_SIZE,
      .index = b->region,
      .index_size = (size_t)b->region_size,
      .digest = b->header + KILN_BH_DIGEST,
      .public_key = is_signed ? slot + KILN_BG_KEY : NULL,
      .signature = is_signed ? slot + KILN_BG_SIGNATURE : NULL,
  };
  if (options->verify(options->verify_user, &request) == 1) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: %s", b->name,
                   is_signed ? "the signature was not accepted" : "the bundle is not signed");
}

static kiln_status map_file(kiln_bundle *b, int fd, kiln_error *err) {
  struct stat st;
  if (fstat(fd, &st) < 0)
    return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", b->name, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: not a regular file", b->name);
  if (!st.st_size) return damaged(err, b, "the file is empty");
  void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED)
    return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", b->name, strerror(errno));
  b->file = bytes;
  b->size = (size_t)st.st_size;
  b->is_mapped = true;
  return KILN_OK;
}

// `fd` is -1 for bytes in memory.
static kiln_status read_frame(kiln_bundle *b, int fd, const kiln_open_options *options, kiln_error *err) {
  KILN_TRY(find_header(b, fd, err));
  KILN_TRY(check_header(b, err));
  KILN_TRY(check_places(b, fd, err));
  b->seen = calloc(((size_t)b->page_count + b->top_count) / 32 + 1, sizeof *b->seen);
  if (!b->seen) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", b->name);
  KILN_TRY(check_signature(b, options, err));
  return options->policy & KILN_CHECK_ALL ? kiln_bundle_check_all(b, err) : KILN_OK;
}

static kiln_status attach(kiln_bundle *b, const kiln_source *source, const kiln_open_options *options,
                          kiln_error *err) {
  if (source->bytes) {
    b->file = source->bytes;
    b->size = source->size;
    return read_frame(b, -1, options, err);
  }
  int fd = source->path ? open(source->path, O_RDONLY | O_CLOEXEC) : source->fd;
  if (fd < 0)
    return kiln_fail(err, kiln_status_of_errno(source->path ? errno : EINVAL), "%s: %s", b->name,
                     strerror(source->path ? errno : EBADF));
  kiln_status status = map_file(b, fd, err);
  if (status == KILN_OK) status = read_frame(b, fd, options, err);
  if (source->path) close(fd);
  return status;
}

kiln_status kiln_bundle_open(const kiln_source *source, const kiln_open_options *options, kiln_bundle **out,
                             kiln_error *err) {
  *out = NULL;
  kiln_bundle *b = calloc(1, sizeof *b);
  if (!b) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  pthread_mutex_init(&b->lock, NULL);
  b->name = strdup(source->path    ? source->path
                   : source->bytes ? "bundle in memory"
                                   : "bundle of a descriptor");
  kiln_status status = b->name ? attach(b, source, options, err)
                               : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (status == KILN_OK) *out = b;
  else kiln_bundle_close(b);
  return status;
}

void kiln_bundle_close(kiln_bundle *b) {
  if (!b) return;
  kiln_bundle_forget_decoders(b);
  if (b->is_mapped) munmap((void *)b->file, b->size);
  pthread_mutex_destroy(&b->lock);
  free((void *)b->seen);
  free(b->head);
  free(b->name);
  free(b);
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

const char *kiln_bundle_text(kiln_bundle *b, uint32_t offset, kiln_error *err) {
  size_t size;
  const char *text = (const char *)kiln_bundle_record(b, offset, &size, err);
  if (text && strlen(text) != size) {
    damaged(err, b, "the text at %u has a NUL inside", offset);
    return NULL;
  }
  return text;
}

kiln_status kiln_bundle_kernel_at(kiln_bundle *b, uint32_t number, kiln_kernel_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *e = entry_at(b, KILN_BUNDLE_KERNELS, number, err);
  if (!e) return KILN_STATUS_CORRUPT;
  *out = (kiln_kernel_entry){number, kiln_le32(e + KILN_BK_NAME), kiln_le32(e + KILN_BK_INTERFACE),
                             kiln_le32(e + KILN_BK_CODE), kiln_le32(e + KILN_BK_CODE_COUNT)};
  uint64_t codes = b->section_count[KILN_BUNDLE_CODES];
  if (out->code > codes || out->code_count > codes - out->code)
    return damaged(err, b, "kernel %u has codes %u + %u of %llu", number, out->code, out->code_count,
                   (ull)codes);
  return KILN_OK;
}

kiln_status kiln_bundle_kernel_find(kiln_bundle *b, const char *name, const kiln_check *hash,
                                    kiln_kernel_entry *out, kiln_error *err) {
  uint32_t low = 0, high = (uint32_t)b->section_count[KILN_BUNDLE_KERNELS];
  memset(out, 0, sizeof *out);
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const uint8_t *e = entry_at(b, KILN_BUNDLE_KERNELS, middle, err);
    if (!e) return KILN_STATUS_CORRUPT;
    int order = memcmp(e + KILN_BK_HASH, hash->bytes, KILN_CHECK_SIZE);
    if (!order) {
      KILN_TRY(kiln_bundle_kernel_at(b, middle, out, err));
      const char *text = kiln_bundle_text(b, out->name, err);
      if (!text) return KILN_STATUS_CORRUPT;
      if (!strcmp(text, name)) return KILN_OK;
      break;
    }
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s: no kernel '%.200s' among %llu", b->name, name,
                   (ull)b->section_count[KILN_BUNDLE_KERNELS]);
}

kiln_status kiln_bundle_code_at(kiln_bundle *b, uint32_t number, kiln_code_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *e = entry_at(b, KILN_BUNDLE_CODES, number, err);
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
  if (out->target >= b->section_count[KILN_BUNDLE_TARGETS] ||
      out->blob >= b->section_count[KILN_BUNDLE_BLOBS])
    return damaged(err, b, "code %u names target %u of %llu and blob %u of %llu", number, out->target,
                   (ull)b->section_count[KILN_BUNDLE_TARGETS], out->blob,
                   (ull)b->section_count[KILN_BUNDLE_BLOBS]);
  return KILN_OK;
}

const char *kiln_bundle_target_at(kiln_bundle *b, uint32_t number, kiln_error *err) {
  const uint8_t *e = entry_at(b, KILN_BUNDLE_TARGETS, number, err);
  return e ? kiln_bundle_text(b, kiln_le32(e), err) : NULL;
}

kiln_status kiln_bundle_blob_at(kiln_bundle *b, uint32_t number, kiln_blob_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  const uint8_t *e = entry_at(b, KILN_BUNDLE_BLOBS, number, err);
  if (!e) return KILN_STATUS_CORRUPT;
  uint32_t member = kiln_le32(e + KILN_BB_MEMBER);
  const uint8_t *m = entry_at(b, KILN_BUNDLE_MEMBERS, member, err);
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

kiln_status kiln_bundle_check_all(kiln_bundle *b, kiln_error *err) {
  if (b->region_size && !region_bytes(b, 0, b->region_size, err)) return KILN_STATUS_CORRUPT;
  for (uint32_t i = 0; i < b->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_bytes bytes;
    KILN_TRY(kiln_bundle_load(b, i, &bytes, err));
    kiln_bytes_deinit(&bytes);
  }
  return KILN_OK;
}
