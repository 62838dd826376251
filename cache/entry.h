// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bytes of one entry: written once, read whole, believed only when every length and check fits. No files
// here.
//
//   offset size
//        0    8  "KILNENT\n"
//        8    2  format version
//       10    2  key schema
//       12    1  codec: 0 raw, 1 zstd
//       13    3  zero
//       16   32  key: BLAKE2b-256 of the fields
//       48   32  content digest: BLAKE2b-256 of the four sizes, the flags and the raw body
//       80    8  size of the fields        }
//       88    8  size of the metadata      } the raw body is
//       96    8  size of the diagnostics   } these four, in order
//      104    8  size of the payload       }
//      112    8  size of the stored body
//      120    4  size of the labels
//      124    4  count of signatures
//      128    8  cost in ns
//      136    4  flags
//      140    4  zero
//      144   16  XXH3-128 of everything after the header
//      160   16  XXH3-128 of bytes 0..159
//      176       labels: blocks of text, one for each KILN_LABEL_
//                stored body
//                signatures, 96 bytes each: Ed25519 public key, signature
//
// The file's size is exactly the sum.
#ifndef KILN_CACHE_ENTRY_H
#define KILN_CACHE_ENTRY_H

#include "cache/cache.h"

#define KILN_ENTRY_MAGIC "KILNENT\n"

enum {
  KILN_ENTRY_HEADER = 176,
  KILN_ENTRY_SIGNATURE = 96,
  KILN_ENTRY_SIGNATURES = 16,
  KILN_ENTRY_RAW_LIMIT = 65536, ///< entries up to that are stored raw: unpacking would cost a hit a tenth
};

/// What people are shown without unpacking the body: the domain, who made it, the target from the fields, and
/// the content's name or the symbol.
enum { KILN_LABEL_DOMAIN, KILN_LABEL_PRODUCER, KILN_LABEL_TARGET, KILN_LABEL_NAME, KILN_LABELS };

typedef struct kiln_entry_view {
  kiln_digest key, content_digest;
  uint8_t codec;
  uint32_t flags, signature_count;
  uint64_t cost_ns;
  uint64_t sizes[4]; ///< fields, metadata, diagnostics, payload
  uint64_t raw_size;
  kiln_bytes labels[KILN_LABELS]; ///< borrowed, like everything below
  kiln_bytes stored;
  const uint8_t *signatures;
} kiln_entry_view;

/// Appends a complete entry to `out`.
KILN_MUST_USE kiln_status kiln_entry_encode(const kiln_key *key, const kiln_cache_content *content,
                                            const char *domain, int level, const uint8_t *sign_key,
                                            kiln_buffer *out, kiln_error *err);

/// Checks everything that can be checked without unpacking. VERSION: another format; LIMIT: more than
/// `max_bytes` unpacked; CORRUPT.
KILN_MUST_USE kiln_status kiln_entry_parse(const uint8_t *bytes, size_t size, uint64_t max_bytes,
                                           kiln_entry_view *out, kiln_error *err);
/// The same of an entry of `size` bytes of which only the first `have` are in memory: header, labels, and 18 of what is
/// stored or all of it. `body` is the check of all that follows the header. Nothing but the labels may be read
/// through `out`.
KILN_MUST_USE kiln_status kiln_entry_parse_head(const uint8_t *bytes, size_t have, uint64_t size,
                                                const kiln_check *body, uint64_t max_bytes,
                                                kiln_entry_view *out, kiln_error *err);
/// Writes the raw body (view->raw_size bytes) to `raw`.
KILN_MUST_USE kiln_status kiln_entry_unpack(const kiln_entry_view *view, uint8_t *raw, kiln_error *err);
/// Points fields and content into `raw`. The entry holds nothing yet.
void kiln_entry_point(const kiln_entry_view *view, const uint8_t *raw, kiln_cache_entry *out);
/// Compares the digests with the bytes: the content digest, and the key with the fields. For import,
/// signatures and scrubbing.
KILN_MUST_USE kiln_status kiln_entry_verify(const kiln_entry_view *view, const uint8_t *raw, kiln_error *err);

/// Writes both checks of an entry whose other bytes are complete.
void kiln_entry_seal(uint8_t *entry, size_t size);
/// Adds a signature to a complete entry, in place (NO duplicate of the same key is made). LIMIT above 16.
KILN_MUST_USE kiln_status kiln_entry_sign(kiln_buffer *entry, const uint8_t sign_key[64], kiln_error *err);
/// KILN_OK when a trusted, not revoked key that may sign for `domain` signed the entry; UNTRUSTED with the
/// reason otherwise. Signatures by unknown keys are ignored.
KILN_MUST_USE kiln_status kiln_entry_trusted(const kiln_entry_view *view, const char *domain,
                                             const kiln_trust_key *keys, uint32_t count, kiln_error *err);

#endif
