// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The in-memory level: entries by key, bounded by bytes. Thread safe: 64 shards, one short lock each. What is
// handed out is counted, so eviction and forgetting never pull it away.
#ifndef KILN_CACHE_MEMORY_H
#define KILN_CACHE_MEMORY_H

#include "cache/blob.h"
#include "cache/cache.h"

typedef struct kiln_memory kiln_memory;

/// NULL when memory is exhausted.
kiln_memory *kiln_memory_create(uint64_t max_bytes);
void kiln_memory_destroy(kiln_memory *memory);
/// True: `out` has the entry with a reference of its own. The digests are compared in full.
bool kiln_memory_get(kiln_memory *memory, const kiln_key *key, kiln_cache_entry *out);
/// Keeps a reference to what the entry holds. Replaces an entry of the same key. Entries larger than a
/// shard's share are not kept.
void kiln_memory_put(kiln_memory *memory, const kiln_digest *key, const kiln_cache_entry *entry);
void kiln_memory_remove(kiln_memory *memory, const kiln_digest *key);
void kiln_memory_clear(kiln_memory *memory);
uint64_t kiln_memory_held(kiln_memory *memory);
uint64_t kiln_memory_hits(kiln_memory *memory);

#endif
