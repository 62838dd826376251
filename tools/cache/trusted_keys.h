// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of trusted keys, on disk. It has one line per key, "trust NAME 64-hex DOMAINS" or "revoke NAME
// 64-hex", where DOMAINS is "*" or a comma-separated list of names. "#" starts a comment.
#ifndef KILN_TOOLS_CACHE_TRUSTED_KEYS_H
#define KILN_TOOLS_CACHE_TRUSTED_KEYS_H

#include "cache/cache.h"
#include "tools/common/key_file.h"

enum { CACHE_TRUST_KEYS = 64 };

typedef struct cache_trust_list {
  kiln_trust_key keys[CACHE_TRUST_KEYS];
  uint32_t count;
} cache_trust_list;

/// A missing file is an empty list.
kiln_status cache_trust_read(const char *path, cache_trust_list *out, kiln_error *err);
kiln_status cache_trust_write(const char *path, const cache_trust_list *list, kiln_error *err);

#endif
