// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes, decodes and hashes the ActionResult message that servers of Bazel's HTTP cache require.
#include "cache/remote/action.h"

#include <sodium/crypto_hash_sha256.h>
#include <sodium/utils.h>
#include <string.h>

enum { VARINT = 0, BYTES = 2 };

static void put_block(kiln_buffer *out, unsigned field, const void *bytes, size_t size) {
  kiln_buffer_varint(out, field << 3 | BYTES);
  kiln_buffer_block(out, bytes, size);
}

void kiln_action_encode(const char hash[KILN_SHA256_HEX + 1], uint64_t size, kiln_buffer *out) {
  kiln_buffer digest = {0}, file = {0};
  put_block(&digest, 1, hash, KILN_SHA256_HEX);
  kiln_buffer_varint(&digest, 2 << 3 | VARINT);
  kiln_buffer_varint(&digest, size);
  put_block(&file, 1, "entry", 5);
  put_block(&file, 2, digest.bytes, digest.size);
  put_block(out, 2, file.bytes, file.size);
  out->failed |= digest.failed || file.failed;
  kiln_buffer_deinit(&digest);
  kiln_buffer_deinit(&file);
}

/// Finds field `wanted` of a message; other fields are skipped. False when the message is damaged or has the
/// field twice or not at all.
static bool find(const uint8_t *bytes, size_t size, unsigned wanted, unsigned kind, const uint8_t **out_bytes,
                 uint64_t *out_value) {
  kiln_reader r = kiln_reader_of(bytes, size);
  unsigned found = 0;
  while (r.left && !r.failed) {
    uint64_t tag = kiln_read_varint(&r), value = 0;
    const uint8_t *at = NULL;
    size_t block = 0;
    switch (tag & 7) {
    case VARINT: value = kiln_read_varint(&r); break;
    case BYTES: at = kiln_read_block(&r, &block), value = block; break;
    case 1: (void)kiln_read_u64(&r); break;
    case 5: (void)kiln_read_u32(&r); break;
    default: return false;
    }
    if (tag >> 3 != wanted || (tag & 7) != kind) continue;
    *out_bytes = at;
    *out_value = value;
    found++;
  }
  return !r.failed && found == 1;
}

bool kiln_action_decode(const uint8_t *bytes, size_t size, char out_hash[KILN_SHA256_HEX + 1],
                        uint64_t *out_size) {
  const uint8_t *file, *digest, *hash, *none;
  uint64_t file_size, digest_size, hash_size;
  if (!find(bytes, size, 2, BYTES, &file, &file_size) ||
      !find(file, (size_t)file_size, 2, BYTES, &digest, &digest_size) ||
      !find(digest, (size_t)digest_size, 1, BYTES, &hash, &hash_size) ||
      !find(digest, (size_t)digest_size, 2, VARINT, &none, out_size) || hash_size != KILN_SHA256_HEX)
    return false;
  memcpy(out_hash, hash, KILN_SHA256_HEX);
  out_hash[KILN_SHA256_HEX] = 0;
  return strspn(out_hash, "0123456789abcdef") == KILN_SHA256_HEX;
}

void kiln_action_hash(const uint8_t *bytes, size_t size, char out[KILN_SHA256_HEX + 1]) {
  uint8_t hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, bytes, size);
  sodium_bin2hex(out, KILN_SHA256_HEX + 1, hash, sizeof hash);
}
