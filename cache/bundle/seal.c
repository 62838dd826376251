// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fills in the checks, sums and signature of a bundle whose bytes are in place. The sums of ZIP are those
// of APPNOTE.TXT 4.3.9, 4.3.12, 4.3.14 to 4.3.16.
#include "cache/bundle/seal.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_sign_ed25519.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "base/bundle_format.h"

enum {
  LOCAL_FLAGS = 6,
  LOCAL_CRC = 14,
  HAS_DESCRIPTOR = 1 << 3,
  DESCRIPTOR = 0x08074b50,
  DESCRIPTOR_CRC = 4,
  ENTRY = 0x02014b50,
  ENTRY_CRC = 16,
  ENTRY_SIZE = 46,
  END = 0x06054b50,
  END_DIRECTORY = 16,
  END_SIZE = 22,
  LOCATOR = 0x07064b50,
  LOCATOR_AT = 8,
  LOCATOR_SIZE = 20,
  END64_DIRECTORY = 48,
  END64_SIZE = 56,
};

/// Places in the file.
typedef struct places {
  uint64_t index, index_end; // content of KILN-INDEX
  uint64_t sums[2];          // its CRC-32, in order
} places;

static kiln_status misfit(kiln_error *err, const char *what) {
  return kiln_fail(
      err, KILN_STATUS_CORRUPT,
      "expected %s as Kiln writes it; repacked archives become bundles again by `kiln fix-index`", what);
}

/// Where the central directory begins; 0 when the end of the archive does not say so.
static uint64_t directory_of(const uint8_t *file, size_t size) {
  if (size < END_SIZE + LOCATOR_SIZE + END64_SIZE) return 0;
  const uint8_t *end = file + size - END_SIZE, *locator = end - LOCATOR_SIZE;
  if (kiln_le32(end) != END) return 0;
  if (kiln_le32(end + END_DIRECTORY) != UINT32_MAX) return kiln_le32(end + END_DIRECTORY);
  uint64_t at = kiln_le32(locator) == LOCATOR ? kiln_le64(locator + LOCATOR_AT) : UINT64_MAX;
  return at <= size - END64_SIZE ? kiln_le64(file + at + END64_DIRECTORY) : 0;
}

static kiln_status find_places(const uint8_t *file, size_t size, places *out, kiln_error *err) {
  bool described = kiln_le16(file + LOCAL_FLAGS) & HAS_DESCRIPTOR;
  out->index =
      KILN_ZIP_LOCAL_SIZE + kiln_le16(file + KILN_ZIP_NAME_SIZE) + kiln_le16(file + KILN_ZIP_EXTRA_SIZE);
  out->index_end = out->index + kiln_le64(file + out->index + KILN_BH_CONTENT_SIZE);
  uint64_t directory = directory_of(file, size);
  if (described &&
      (out->index_end > size - DESCRIPTOR_CRC - 4 || kiln_le32(file + out->index_end) != DESCRIPTOR))
    return misfit(err, "a data descriptor");
  if (directory < out->index_end + DESCRIPTOR_CRC + 4 || directory > size - ENTRY_SIZE ||
      kiln_le32(file + directory) != ENTRY)
    return misfit(err, "a central directory");
  out->sums[0] = described ? out->index_end + DESCRIPTOR_CRC : LOCAL_CRC;
  out->sums[1] = directory + ENTRY_CRC;
  return KILN_OK;
}

static uint32_t sum_of(const uint8_t *file, const places *p) {
  return (uint32_t)crc32_z(0, file + p->index, (size_t)(p->index_end - p->index));
}

/// Everything but the index and its sums.
static kiln_digest digest_of_container(const uint8_t *file, size_t size, const places *p) {
  bool described = p->sums[0] > p->index;
  const uint64_t cuts[][2] = {{described ? p->index : p->sums[0], described ? p->index_end : p->sums[0] + 4},
                              {described ? p->sums[0] : p->index, described ? p->sums[0] + 4 : p->index_end},
                              {p->sums[1], p->sums[1] + 4},
                              {size, size}};
  kiln_digest digest;
  crypto_generichash_blake2b_state state;
  crypto_generichash_blake2b_init(&state, NULL, 0, sizeof digest.bytes);
  uint64_t at = 0;
  for (unsigned i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    crypto_generichash_blake2b_update(&state, file + at, cuts[i][0] - at);
    at = cuts[i][1];
  }
  crypto_generichash_blake2b_final(&state, digest.bytes, sizeof digest.bytes);
  return digest;
}

kiln_status kiln_bundle_container(const uint8_t *file, size_t size, kiln_digest *out, kiln_error *err) {
  places p;
  KILN_TRY(find_places(file, size, &p, err));
  uint32_t sum = sum_of(file, &p);
  for (unsigned i = 0; i < 2; i++)
    if (kiln_le32(file + p.sums[i]) != sum)
      return kiln_fail(err, KILN_STATUS_CORRUPT, "the CRC-32 of %s is %08x, the archive says %08x",
                       KILN_BUNDLE_INDEX_NAME, sum, kiln_le32(file + p.sums[i]));
  *out = digest_of_container(file, size, &p);
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------- sealing

static void put_check(uint8_t *at, const void *bytes, size_t size) {
  memcpy(at, kiln_check_of(bytes, size).bytes, KILN_BUNDLE_CHECK);
}

// One check for each page of `bytes`.
static void put_checks(uint8_t *out, const uint8_t *bytes, size_t size) {
  for (size_t at = 0; at < size; at += KILN_BUNDLE_PAGE, out += KILN_BUNDLE_CHECK)
    put_check(out, bytes + at, size - at < KILN_BUNDLE_PAGE ? size - at : KILN_BUNDLE_PAGE);
}

void kiln_bundle_seal_index(uint8_t *h) {
  uint8_t *region = h + kiln_le64(h + KILN_BH_REGION), *top = h + KILN_BUNDLE_TOP;
  size_t region_size = (size_t)kiln_le64(h + KILN_BH_REGION_SIZE),
         top_size = (size_t)kiln_le32(h + KILN_BH_TOP_COUNT) * KILN_BUNDLE_CHECK;
  put_checks(top + top_size, region, region_size);
  put_checks(top, top + top_size, (size_t)kiln_le32(h + KILN_BH_PAGE_COUNT) * KILN_BUNDLE_CHECK);
  put_check(h + KILN_BH_TOP_CHECK, top, top_size);
  memcpy(h + KILN_BH_DIGEST, kiln_digest_of(region, region_size).bytes, KILN_DIGEST_SIZE);
  put_check(h + KILN_BH_CHECK, h, KILN_BH_CHECK);
}

static void fill_slot(uint8_t *header, const uint8_t *secret_key) {
  uint8_t *slot = header + KILN_BH_SIZE;
  memset(slot, 0, KILN_BG_SIZE);
  if (!secret_key) return;
  kiln_put32(slot + KILN_BG_KIND, 1);
  // libsodium keeps the public key in the second half.
  memcpy(slot + KILN_BG_KEY,
         secret_key + crypto_sign_ed25519_SECRETKEYBYTES - crypto_sign_ed25519_PUBLICKEYBYTES,
         crypto_sign_ed25519_PUBLICKEYBYTES);
  crypto_sign_ed25519_detached(slot + KILN_BG_SIGNATURE, NULL, header, KILN_BH_SIZE, secret_key);
}

kiln_status kiln_bundle_seal(uint8_t *file, size_t size, const uint8_t *secret_key, kiln_error *err) {
  places p;
  KILN_TRY(find_places(file, size, &p, err));
  uint8_t *h = file + p.index;
  uint64_t statement = kiln_le64(h + KILN_BH_STATEMENT);
  if (statement)
    memcpy(h + kiln_le64(h + KILN_BH_REGION) + statement + KILN_BS_CONTAINER,
           digest_of_container(file, size, &p).bytes, KILN_DIGEST_SIZE);
  kiln_bundle_seal_index(h);
  fill_slot(h, secret_key);
  uint32_t sum = sum_of(file, &p);
  for (unsigned i = 0; i < 2; i++) kiln_put32(file + p.sums[i], sum);
  return KILN_OK;
}
