// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Key files on disk: the secret key that signs, and the list of keys that are trusted.
//
// A secret key file is one line, "kiln-secret-key NAME 128 hex digits"; a public one "kiln-public-key NAME 64 hex digits". The trust list has a line
// a key, "trust NAME 64-hex DOMAINS" or "revoke NAME 64-hex", where DOMAINS is "*" or names with commas between. "#" starts a comment.
#ifndef KILN_TOOLS_KILN_CACHE_KEYS_H
#define KILN_TOOLS_KILN_CACHE_KEYS_H

#include "cache/cache.h"

enum { CACHE_SECRET_KEY = 64, CACHE_PUBLIC_KEY = 32, CACHE_TRUST_KEYS = 64 };

typedef struct cache_trust_list {
  kiln_trust_key keys[CACHE_TRUST_KEYS];
  uint32_t count;
} cache_trust_list;

/// A missing file is an empty list.
kiln_status cache_trust_read(const char *path, cache_trust_list *out, kiln_error *err);
kiln_status cache_trust_write(const char *path, const cache_trust_list *list, kiln_error *err);
/// Refuses a file that others may read or write.
kiln_status cache_secret_read(const char *path, uint8_t out[CACHE_SECRET_KEY], kiln_error *err);
kiln_status cache_public_read(const char *path, uint8_t out[CACHE_PUBLIC_KEY], kiln_error *err);
/// Writes PATH (mode 0600) and PATH.pub; neither may exist.
kiln_status cache_keys_make(const char *path, const char *name, kiln_error *err);

#endif
