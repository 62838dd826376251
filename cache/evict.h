// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeping a store small. Two ways: a step looks at a bounded number of entries, however many there are, and
// removes the oldest of them while the store is over a limit; a sweep looks at all and is exact. Both under
// one try-lock, so that one process cleans at a time.
//
// The sums that tell whether the store is over a limit live in the file `usage`: writers add to them, and
// each full round of steps replaces them by what was seen. They may be off after a crash, for one round.
#ifndef KILN_CACHE_EVICT_H
#define KILN_CACHE_EVICT_H

#include "cache/scan.h"

enum { KILN_EVICT_SAMPLE = 512 };

/// A reserve of free bytes that follows the file system: 256 MiB, and a fiftieth of a small one.
#define KILN_FREE_BY_SIZE UINT64_MAX

typedef struct kiln_limits {
  uint64_t bytes, files, free_bytes, free_files; ///< 0: no limit; free_bytes may be KILN_FREE_BY_SIZE
} kiln_limits;

/// What free_bytes comes to on a file system of `size` bytes.
uint64_t kiln_limits_reserve(const kiln_limits *limits, uint64_t size);

/// What a sweep removes besides what the limits demand.
typedef struct kiln_evict_choice {
  int64_t max_age_s;    ///< 0: any age
  const char *target;   ///< part of the target label; NULL: any
  const char *producer; ///< part of the producer label
  bool all;             ///< everything
  bool dry_run;
  bool by_sums; ///< a large store whose sums are within the limits is not walked, where nothing else is asked
                ///< for
} kiln_evict_choice;

typedef struct kiln_evict_report {
  uint64_t seen_files, seen_bytes, evicted_files, evicted_bytes, orphans, failed;
  uint64_t unsent; ///< of the evicted: were still to be uploaded
  bool busy;       ///< another process is cleaning; nothing was done
  bool over;       ///< the store is still over a limit
  bool by_sums;    ///< seen_ are the sums of `usage`: nothing was walked
  char why[160];   ///< the first failure, if any: what, and the reason
} kiln_evict_report;

/// Called for each entry that is removed (or would be). May be NULL.
typedef void kiln_evicted(void *context, const kiln_scan_item *item);

/// Adds to the sums after a write. True when a step is due.
bool kiln_usage_add(kiln_store *store, const kiln_limits *limits, uint64_t bytes, const kiln_digest *key);
void kiln_evict_step(kiln_store *store, const kiln_limits *limits, kiln_evicted *each, void *context,
                     kiln_evict_report *out);
void kiln_evict_sweep(kiln_store *store, const kiln_limits *limits, const kiln_evict_choice *choice,
                      kiln_evicted *each, void *context, kiln_evict_report *out);

/// Removes the folders that other formats of the store left in its root ("v0", "v7") when nothing in them was
/// used for `max_age_s`. They are never read, only removed. The count.
unsigned kiln_evict_other_formats(const kiln_store *store, int64_t max_age_s, bool dry_run);

#endif
