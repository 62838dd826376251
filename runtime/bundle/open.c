// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens bundles: finds the bytes, and checks the header and the signature.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/record.h"
#include "base/stream.h"
#include "runtime/bundle/internal.h"

typedef unsigned long long ull;

// In a program that closes descriptors it does not know, the bundle's own must at least not be 0 to 2.
static kiln_status take_file(kiln_bundle *b, const kiln_source *source, kiln_error *err) {
  struct stat st;
  b->fd = source->path ? kiln_stream_aside(open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY))
                       : fcntl(source->fd, F_DUPFD_CLOEXEC, 3);
  if (b->fd < 0 || fstat(b->fd, &st) < 0)
    return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", b->name, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: not a regular file", b->name);
  if (!st.st_size) return kiln_bundle_damaged(err, b, "the file is empty");
  b->size = (size_t)st.st_size;
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ header

// Finds KILN-INDEX and copies its header and signature slot; the ZIP's first local header says how long its
// name and extra fields are.
static kiln_status read_header(kiln_bundle *b, uint8_t out[KILN_BUNDLE_TOP], kiln_error *err) {
  enum { NAME = sizeof KILN_BUNDLE_INDEX_NAME - 1, LOCAL = KILN_ZIP_LOCAL_SIZE + NAME };
  uint8_t first[2 * KILN_BUNDLE_TOP];
  size_t got = b->size < sizeof first ? b->size : sizeof first;
  KILN_TRY(kiln_bundle_copy(b, 0, got, first, err));
  if (got < LOCAL || kiln_le32(first) != KILN_ZIP_LOCAL)
    return kiln_bundle_damaged(err, b, "%zu bytes that do not begin like a bundle (a stored ZIP archive)",
                               b->size);
  size_t name = kiln_le16(first + KILN_ZIP_NAME_SIZE),
         at = KILN_ZIP_LOCAL_SIZE + name + kiln_le16(first + KILN_ZIP_EXTRA_SIZE);
  if (name != NAME || b->size < at || b->size - at < KILN_BUNDLE_TOP ||
      memcmp(first + KILN_ZIP_LOCAL_SIZE, KILN_BUNDLE_INDEX_NAME, NAME))
    return kiln_bundle_damaged(err, b, "an archive of %zu bytes whose first member is not %s", b->size,
                               KILN_BUNDLE_INDEX_NAME);
  b->header_at = at;
  if (at <= got && KILN_BUNDLE_TOP <= got - at) memcpy(out, first + at, KILN_BUNDLE_TOP);
  else KILN_TRY(kiln_bundle_copy(b, at, KILN_BUNDLE_TOP, out, err));
  if (memcmp(out, KILN_BUNDLE_MAGIC, 8))
    return kiln_bundle_damaged(
        err, b,
        "the index does not begin with the magic bytes (was the archive compressed or changed as text?)");
  return KILN_OK;
}

static kiln_status check_header(const kiln_bundle *b, const uint8_t *h, kiln_error *err) {
  // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): read_header has read all of it
  unsigned major = kiln_le16(h + KILN_BH_MAJOR), minimum = kiln_le16(h + KILN_BH_MINIMUM);
  unsigned must = kiln_le32(h + KILN_BH_MUST) & ~(unsigned)KILN_BUNDLE_FEATURES;
  unsigned abi = kiln_le16(h + KILN_BH_ABI);
  if (!kiln_check_fits(h + KILN_BH_CHECK, KILN_BUNDLE_CHECK, h, KILN_BH_CHECK))
    return kiln_bundle_damaged(err, b, "the header is damaged");
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
    return kiln_bundle_damaged(err, b, "%zu bytes, the header says %llu (cut short or repacked)", b->size,
                               (ull)file_size);
  return KILN_OK;
}

static uint64_t pages_of(uint64_t size) { return size / KILN_BUNDLE_PAGE + (size % KILN_BUNDLE_PAGE != 0); }

// Places of checks and region. All sums stay below 2^63: each part is first compared with the file's size.
static kiln_status check_places(kiln_bundle *b, const uint8_t *h, kiln_error *err) {
  uint64_t content = kiln_le64(h + KILN_BH_CONTENT_SIZE), region = kiln_le64(h + KILN_BH_REGION);
  uint64_t left = b->size - b->header_at;
  b->region_size = kiln_le64(h + KILN_BH_REGION_SIZE);
  b->page_count = kiln_le32(h + KILN_BH_PAGE_COUNT);
  b->top_count = kiln_le32(h + KILN_BH_TOP_COUNT);
  uint64_t checks = (uint64_t)b->page_count * KILN_BUNDLE_CHECK,
           checks_at = KILN_BUNDLE_TOP + b->top_count * (uint64_t)KILN_BUNDLE_CHECK;
  if (content > left || region > content || b->region_size > content - region ||
      pages_of(b->region_size) != b->page_count || pages_of(checks) != b->top_count ||
      checks_at + checks > region)
    return kiln_bundle_damaged(err, b, "the parts of the index do not fit each other");
  for (unsigned i = 0; i < KILN_BUNDLE_SECTIONS; i++) {
    uint64_t at = kiln_le64(h + KILN_BH_SECTIONS + 16 * i),
             count = kiln_le64(h + KILN_BH_SECTIONS + 16 * i + 8);
    if (at > b->region_size || count > (b->region_size - at) / kiln_bundle_entry_sizes[i] ||
        count > UINT32_MAX)
      return kiln_bundle_damaged(err, b,
                                 "section %u (%llu entries at %llu) is outside the index of %llu bytes", i,
                                 (ull)count, (ull)at, (ull)b->region_size);
    b->section_at[i] = at;
    b->section_count[i] = count;
  }
  if (b->section_count[KILN_BUNDLE_TARGETS] > KILN_BUNDLE_MAX_TARGETS)
    return kiln_bundle_damaged(err, b, "%llu targets; the limit is %d",
                               (ull)b->section_count[KILN_BUNDLE_TARGETS], KILN_BUNDLE_MAX_TARGETS);
  if (b->section_count[KILN_BUNDLE_NAMES] != b->section_count[KILN_BUNDLE_KERNELS])
    return kiln_bundle_damaged(err, b, "%llu names for %llu kernels",
                               (ull)b->section_count[KILN_BUNDLE_NAMES],
                               (ull)b->section_count[KILN_BUNDLE_KERNELS]);
  b->image_at = b->header_at + (size_t)checks_at;
  b->image_size = (size_t)(region - checks_at + b->region_size);
  return KILN_OK;
}

// Header, slot and top checks, in private memory.
static kiln_status read_head(kiln_bundle *b, kiln_error *err) {
  uint8_t header[KILN_BUNDLE_TOP];
  KILN_TRY(read_header(b, header, err));
  KILN_TRY(check_header(b, header, err));
  KILN_TRY(check_places(b, header, err));
  size_t top_size = (size_t)b->top_count * KILN_BUNDLE_CHECK;
  if (!(b->head = malloc(KILN_BUNDLE_TOP + top_size))) return kiln_bundle_no_memory(err, b);
  memcpy(b->head, header, KILN_BUNDLE_TOP);
  b->header = b->head;
  b->top = b->head + KILN_BUNDLE_TOP;
  KILN_TRY(kiln_bundle_copy(b, b->header_at + KILN_BUNDLE_TOP, top_size, b->head + KILN_BUNDLE_TOP, err));
  if (!kiln_check_fits(b->header + KILN_BH_TOP_CHECK, KILN_BUNDLE_CHECK, b->top, top_size))
    return kiln_bundle_damaged(err, b, "the top checks of the index are damaged");
  return KILN_OK;
}

// Room for the index; no page of it is touched before it is needed.
static kiln_status make_image(kiln_bundle *b, kiln_error *err) {
  const uint8_t *at = b->memory ? b->memory + b->image_at : NULL;
  if ((!b->memory || b->verify) && b->image_size) {
    void *image =
        mmap(NULL, b->image_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED) return kiln_bundle_no_memory(err, b);
    at = b->image = image;
  }
  b->checks = at;
  b->region = at + (b->image_size - b->region_size);
  b->seen = calloc(((size_t)b->page_count + b->top_count) / 32 + 1, sizeof *b->seen);
  return b->seen ? KILN_OK : kiln_bundle_no_memory(err, b);
}

// -------------------------------------------------------------------------------------------- trust

// What is verified is what is used: the index is in private memory before the callback sees it.
static kiln_status check_signature(kiln_bundle *b, const kiln_open_options *options, kiln_error *err) {
  const uint8_t *slot = b->header + KILN_BH_SIZE;
  bool is_signed = kiln_le32(slot + KILN_BG_KIND) == 1;
  if (!options->verify && options->policy & KILN_NEED_SIGNATURE)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED,
                     "%s: the policy wants a signature, but no verify callback was given", b->name);
  if (!options->verify) return KILN_OK;
  KILN_TRY(kiln_bundle_copy(b, b->image_at, b->image_size, b->image, err));
  b->is_whole = true;
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

static kiln_status attach(kiln_bundle *b, const kiln_source *source, const kiln_open_options *options,
                          kiln_error *err) {
  b->memory = source->path ? NULL : source->bytes;
  if (b->memory) b->size = source->size;
  else KILN_TRY(take_file(b, source, err));
  b->verify = options->verify;
  b->verify_user = options->verify_user;
  KILN_TRY(read_head(b, err));
  KILN_TRY(make_image(b, err));
  KILN_TRY(check_signature(b, options, err));
  if (options->min_version || options->name) KILN_TRY(kiln_bundle_check_statement(b, options, err));
  return options->policy & KILN_CHECK_ALL ? kiln_bundle_check_all(b, err) : KILN_OK;
}

kiln_status kiln_bundle_open_named(const kiln_source *source, const char *name,
                                   const kiln_open_options *options, kiln_bundle **out, kiln_error *err) {
  *out = NULL;
  kiln_bundle *b = calloc(1, sizeof *b);
  if (!b) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  b->fd = -1;
  pthread_mutex_init(&b->pages, NULL);
  pthread_mutex_init(&b->lock, NULL);
  b->name = strdup(name);
  kiln_status status = b->name ? attach(b, source, options, err)
                               : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (status == KILN_OK) *out = b;
  else kiln_bundle_close(b);
  return status;
}

kiln_status kiln_bundle_open(const kiln_source *source, const kiln_open_options *options, kiln_bundle **out,
                             kiln_error *err) {
  const char *name = source->path    ? source->path
                     : source->bytes ? "bundle in memory"
                                     : "bundle of a descriptor";
  return kiln_bundle_open_named(source, name, options, out, err);
}

void kiln_bundle_close(kiln_bundle *b) {
  if (!b) return;
  kiln_bundle_forget_decoders(b);
  if (b->image) munmap(b->image, b->image_size);
  if (b->fd >= 0) close(b->fd);
  pthread_mutex_destroy(&b->pages);
  pthread_mutex_destroy(&b->lock);
  free((void *)b->seen);
  free(b->head);
  free(b->name);
  free(b);
}
