// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks every code and the signature of a bundle, for `kiln verify` and the commands with --check.
#include "tools/bundle/check.h"

#include <sodium/crypto_sign_ed25519.h>
#include <string.h>

#include "base/digest.h"
#include "cache/bundle/seal.h"

bool bundle_is_signed(const uint8_t *header) { return kiln_le32(header + KILN_BH_SIZE + KILN_BG_KIND) != 0; }

kiln_status bundle_check_signature(const char *name, const uint8_t *header,
                                   const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count,
                                   kiln_error *err) {
  static const uint8_t empty[KILN_BG_SIZE];
  const uint8_t *slot = header + KILN_BH_SIZE;
  uint32_t kind = kiln_le32(slot + KILN_BG_KIND);
  bool is_listed = !key_count;
  if (!kind && key_count) return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle is not signed", name);
  if (kind > 1 || kiln_le32(slot + KILN_BG_ZERO) || (!kind && memcmp(slot, empty, sizeof empty)))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the signature slot is damaged", name);
  if (!kind) return KILN_OK;
  for (size_t i = 0; i < key_count; i++) is_listed |= !memcmp(keys[i], slot + KILN_BG_KEY, KEY_FILE_PUBLIC);
  if (!is_listed)
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the bundle is signed with another key", name);
  if (crypto_sign_ed25519_verify_detached(slot + KILN_BG_SIGNATURE, header, KILN_BH_SIZE, slot + KILN_BG_KEY))
    return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: the signature does not fit the header", name);
  return KILN_OK;
}

kiln_status bundle_check_codes(kiln_bundle *b, kiln_error *err) {
  for (uint32_t i = 0; i < b->section_count[KILN_BUNDLE_BLOBS]; i++) {
    kiln_blob_entry e;
    kiln_bytes bytes;
    KILN_TRY(kiln_bundle_blob_at(b, i, &e, err));
    KILN_TRY(kiln_bundle_load(b, i, &bytes, err));
    kiln_digest digest = kiln_digest_of(bytes.bytes, bytes.size);
    kiln_bytes_deinit(&bytes);
    if (memcmp(digest.bytes, e.digest, KILN_DIGEST_SIZE))
      return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: blob %u does not have the digest of the index", b->name,
                       i);
  }
  return KILN_OK;
}

static bool all_zero(const uint8_t *from, const uint8_t *to) {
  while (from < to && !*from) from++;
  return from >= to;
}

// Every byte of the file belongs to the header, the slot, the checks, the region, the zeros around it, or the
// container, of which the statement has the digest.
static kiln_status check_container(const bundle_view *v, const kiln_buffer *file, kiln_error *err) {
  const kiln_bundle *b = v->bundle;
  kiln_digest digest;
  if (!v->statement.container)
    return kiln_fail(err, KILN_STATUS_VERSION,
                     "%s: format 1.%u does not cover the archive around the index; `kiln merge -o FILE` "
                     "writes the bundle in format 1.%d",
                     b->name, kiln_le16(b->header + KILN_BH_MINOR), KILN_BUNDLE_MINOR);
  const uint8_t *checks_end = b->checks + (size_t)b->page_count * KILN_BUNDLE_CHECK,
                *end = file->bytes + b->header_at + kiln_le64(b->header + KILN_BH_CONTENT_SIZE);
  if (!all_zero(checks_end, b->region) || !all_zero(b->region + b->region_size, end))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the zeros around the index are damaged", b->name);
  kiln_status status = kiln_bundle_container(file->bytes, file->size, &digest, err);
  if (status != KILN_OK) return kiln_context(err, status, "%s", b->name);
  if (memcmp(digest.bytes, v->statement.container, KILN_DIGEST_SIZE))
    return kiln_fail(err, KILN_STATUS_CORRUPT,
                     "%s: the archive around the index does not have the digest of the index", b->name);
  return KILN_OK;
}

kiln_status bundle_check(const bundle_view *v, const kiln_buffer *file,
                         const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count, kiln_error *err) {
  KILN_TRY(kiln_bundle_check_index(v->bundle, err));
  KILN_TRY(check_container(v, file, err));
  KILN_TRY(bundle_check_codes(v->bundle, err));
  kiln_digest digest = kiln_digest_of(v->bundle->region, (size_t)v->bundle->region_size);
  if (memcmp(digest.bytes, v->bundle->header + KILN_BH_DIGEST, KILN_DIGEST_SIZE))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: the index does not have the digest of the header",
                     v->bundle->name);
  return bundle_check_signature(v->bundle->name, v->bundle->header, keys, key_count, err);
}
