// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two digests of Kiln. BLAKE2b-256 (libsodium) names things: keys, contents, identities. XXH3-128
// (xxhash) only detects damage. They live in two files, so that who needs one does not link the other.
#ifndef KILN_BASE_DIGEST_H
#define KILN_BASE_DIGEST_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

enum { KILN_DIGEST_SIZE = 32, KILN_DIGEST_HEX = 64, KILN_CHECK_SIZE = 16 };

/// A BLAKE2b-256 digest.
typedef struct kiln_digest {
  uint8_t bytes[KILN_DIGEST_SIZE];
} kiln_digest;

/// An XXH3-128 check in canonical (big-endian) byte order.
typedef struct kiln_check {
  uint8_t bytes[KILN_CHECK_SIZE];
} kiln_check;

kiln_digest kiln_digest_of(const void *bytes, size_t size);
kiln_check kiln_check_of(const void *bytes, size_t size);
/// Whether the check of `bytes` begins with the `check_size` bytes that a file states of them.
bool kiln_check_fits(const uint8_t *check, size_t check_size, const void *bytes, size_t size);

/// The same of bytes that come piece by piece. Caller's storage; nothing to free.
typedef struct kiln_check_pieces {
  _Alignas(64) unsigned char state[640];
} kiln_check_pieces;
void kiln_check_begin(kiln_check_pieces *pieces);
void kiln_check_add(kiln_check_pieces *pieces, const void *bytes, size_t size);
kiln_check kiln_check_end(kiln_check_pieces *pieces);

/// Writes 64 lower-case hex digits and a NUL.
void kiln_digest_hex(const kiln_digest *digest, char out[KILN_DIGEST_HEX + 1]);
/// Reads exactly 64 lower-case hex digits; 0 when `text` is anything else, 1 when `out` is set.
int kiln_digest_parse(const char *text, size_t length, kiln_digest *out);

#endif
