// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why an entry is not served, in words. Reads, never changes.
#ifndef KILN_CACHE_EXPLAIN_H
#define KILN_CACHE_EXPLAIN_H

#include "cache/cache.h"

/// The entry of the same kind, other than `key` itself, whose fields differ least. `limit`: entries to look
/// at, 0 for all. False when there is none; else `out` is the caller's to deinit and `out_distance` the count
/// of differing fields.
bool kiln_cache_nearest(kiln_cache *cache, const kiln_digest *key, const uint8_t *fields, size_t size,
                        uint64_t limit, kiln_cache_entry *out, kiln_digest *out_key, int *out_distance);

/// One line a differing field: "  option opt-level: "3", there "2"", and what `more` adds (NULL: nothing).
/// Returns the count, -1 when a side is damaged.
int kiln_explain_difference(const uint8_t *here, size_t here_size, const uint8_t *there, size_t there_size,
                            kiln_explain_field *more, kiln_buffer *out);

/// What became of a key that has no entry now: evicted or put aside, with the time, as far as statistics
/// tell. False when they do not.
bool kiln_explain_fate(kiln_cache *cache, const kiln_digest *key, kiln_buffer *out);

/// What a look-up of the key comes to, as one line; the outcome.
kiln_outcome kiln_explain_state(kiln_cache *cache, const kiln_digest *key, const uint8_t *fields, size_t size,
                                kiln_buffer *out);

#endif
