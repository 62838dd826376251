// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes BLAKE2b-256 digests with libsodium's generic hash, without a key (RFC 7693).
#include "base/digest.h"

#include <sodium/crypto_generichash_blake2b.h>
#include <string.h>

kiln_digest kiln_digest_of(const void *bytes, size_t size) {
  kiln_digest d;
  crypto_generichash_blake2b(d.bytes, sizeof d.bytes, bytes, size, NULL, 0);
  return d;
}

void kiln_digest_hex(const kiln_digest *digest, char out[KILN_DIGEST_HEX + 1]) {
  static const char digits[] = "0123456789abcdef";
  for (unsigned i = 0; i < KILN_DIGEST_SIZE; i++) {
    out[2 * i] = digits[digest->bytes[i] >> 4];
    out[2 * i + 1] = digits[digest->bytes[i] & 15];
  }
  out[KILN_DIGEST_HEX] = 0;
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

int kiln_digest_parse(const char *text, size_t length, kiln_digest *out) {
  memset(out, 0, sizeof *out);
  if (length != KILN_DIGEST_HEX) return 0;
  for (unsigned i = 0; i < KILN_DIGEST_SIZE; i++) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return memset(out, 0, sizeof *out), 0;
    out->bytes[i] = (uint8_t)(high << 4 | low);
  }
  return 1;
}
