// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kiln_cache is, for the files of this folder only.
#ifndef KILN_CACHE_INTERNAL_H
#define KILN_CACHE_INTERNAL_H

#include "cache/evict.h"
#include "cache/memory.h"
#include "cache/remote_client.h"
#include "cache/stats.h"
#include "cache/store.h"

struct kiln_cache {
  kiln_cache_config config; ///< its texts are gone after open; only numbers and flags are used
  char domain[KILN_NAME_SIZE];
  kiln_limits limits;
  uint32_t store_count;
  kiln_store *own;         ///< the writable one, the last of `stores`; NULL: none
  kiln_memory *memory;     ///< NULL: none
  kiln_remote *remote;     ///< NULL: none
  kiln_trust_key *trusted; ///< owned
  uint8_t sign_key[64];
  kiln_trust_key signer; ///< the public half of sign_key, where the list of trusted keys says nothing of it
  bool sign, has_signer;
  struct kiln_file_memory *files; ///< what kiln_cache_file_digest loaded; owned, guarded by stats_mutex
  uint32_t run;                   ///< in statistics: tells runs apart
  _Atomic uint64_t counts[KILN_OUTCOME_LIMIT];
  _Atomic bool step_due;
  pthread_mutex_t stats_mutex;
  uint8_t batch[KILN_STATS_BATCH * KILN_STATS_RECORD]; ///< guarded by stats_mutex
  uint32_t batched;
  kiln_store stores[]; ///< in order of asking; a place for each that the config names
};

/// Reads from the stores without counting, healing or remembering. Which store it was in `out_store` (may be
/// NULL).
kiln_outcome kiln_cache_look(kiln_cache *cache, const kiln_digest *key, const uint8_t *fields,
                             size_t fields_size, kiln_cache_entry *out, kiln_store **out_store, bool *warned,
                             kiln_error *err);
void kiln_cache_flush(kiln_cache *cache);

#endif
