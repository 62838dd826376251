// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tools need besides cache.h: a cache's own store, scrubbing it, moving entries in and out,
// signing them.
#ifndef KILN_CACHE_ADMIN_H
#define KILN_CACHE_ADMIN_H

#include "cache/entry.h"
#include "cache/evict.h"
#include "cache/stats.h"
#include "cache/store.h"

/// The writable (or, with read_only, the last) store; NULL when the cache has no folder.
kiln_store *kiln_cache_store(kiln_cache *cache);
kiln_limits kiln_cache_limits(const kiln_cache *cache);
/// True when less is free than the limits want to stay free: what is stored goes again at the next cleaning.
bool kiln_store_short(const kiln_store *store, const kiln_limits *limits, uint64_t *out_free,
                      uint64_t *out_reserve);
/// Stores that are read only and could not be opened, so that nothing is found there: a layer that is
/// missing, or any that is something else than a folder. How many; the first with its reason in `out`.
unsigned kiln_cache_unopened(const kiln_cache *cache, char *out, size_t capacity);

/// One entry in full, from one reading of its file: HIT_LOCAL with all three set, or the kind of miss. The
/// caller releases `out_file` (which the view points into) and deinits `out`.
kiln_outcome kiln_store_inspect(kiln_store *store, const kiln_digest *key, kiln_blob **out_file,
                                kiln_entry_view *out_view, kiln_cache_entry *out, kiln_error *err);

// --------------------------------------------------------------------------------------- scrubbing

typedef struct kiln_scrub_report {
  uint64_t good, bad, bytes, removed;
  uint64_t folders; ///< that could not be listed: nothing is known of what is in them
  char folder[96];  ///< the first of them, with the reason
} kiln_scrub_report;

/// Called for each entry that is not good, one call at a time.
typedef void kiln_scrub_bad(void *context, const kiln_digest *key, kiln_outcome outcome, const char *reason);

/// Reads every entry, checks everything that can be checked (also digests, and signatures as the policy
/// wants), with `threads` threads. With `repair` the bad ones are removed.
void kiln_scrub(kiln_store *store, unsigned threads, bool repair, kiln_scrub_bad *bad, void *context,
                kiln_scrub_report *out);
/// The same for `shards` of the KILN_STORE_SHARDS shards from `first` on (after the last comes the first),
/// without repair. Folders are looked at in all.
void kiln_scrub_some(kiln_store *store, unsigned threads, uint32_t first, uint32_t shards,
                     kiln_scrub_report *out);

// ------------------------------------------------------------------------------------------ moving

typedef struct kiln_move_report {
  uint64_t moved, already, refused, failed;
} kiln_move_report;

/// Writes all entries, in order of their keys, as "KILNARC1" and for each u64 size and the entry.
KILN_MUST_USE kiln_status kiln_export(kiln_store *store, int fd, kiln_move_report *out, kiln_error *err);
/// Takes in what kiln_export wrote. Each entry is verified in full; those of another domain are refused.
/// CORRUPT when the archive itself is torn: what came before is in.
KILN_MUST_USE kiln_status kiln_import(kiln_store *store, int fd, kiln_move_report *out, kiln_error *err);
/// Takes in the entries of another store.
void kiln_merge(kiln_store *store, kiln_store *from, kiln_move_report *out);

/// Adds a signature to every entry (or to `only`); 0 or the count of those that could not be signed. Under a
/// policy that requires signatures, what nobody signed yet gets none.
uint64_t kiln_sign_all(kiln_store *store, const kiln_digest *only, const uint8_t sign_key[64],
                       uint64_t *out_signed);

#endif
