// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walking over the entries of a store, all of it or a bounded stretch.
#ifndef KILN_CACHE_SCAN_H
#define KILN_CACHE_SCAN_H

#include "cache/store.h"

/// What is known of an entry without opening it.
typedef struct kiln_scan_item {
  kiln_digest key;
  uint64_t bytes; ///< on the disk: allocated blocks
  uint64_t size;
  int64_t time;   ///< last use, within recency_s
  uint32_t links; ///< more than 1: pinned by a link elsewhere (spool)
} kiln_scan_item;

/// Where a bounded walk goes on.
typedef struct kiln_scan_place {
  uint32_t shard; ///< KILN_STORE_SHARDS: at the end
  int64_t cookie;
} kiln_scan_place;

/// Calls `each` for at most about `limit` entries from `place` on, which is moved. 0 or -errno of a folder
/// that exists and cannot be listed (which is then skipped). `each` returns false to stop.
int kiln_scan(kiln_store *store, kiln_scan_place *place, uint64_t limit,
              bool (*each)(void *context, const kiln_scan_item *item), void *context);
/// All entries.
int kiln_scan_all(kiln_store *store, bool (*each)(void *context, const kiln_scan_item *item), void *context);

/// Calls `each` for the names in a folder of the store ("staging", "spool"), at most `limit`.
int kiln_scan_names(kiln_store *store, const char *folder, uint64_t limit,
                    void (*each)(void *context, int folder_fd, const char *name), void *context);

/// The same for any open folder, from its beginning.
void kiln_scan_folder(int fd, uint64_t limit, void (*each)(void *context, int folder_fd, const char *name),
                      void *context);

/// Folders of entries that exist and cannot be listed, or the store's own: how many, and the first with its reason in
/// `out`.
unsigned kiln_scan_unreadable(kiln_store *store, char *out, size_t capacity);

/// Removes a file, or a folder with what is in it, at most as deep as a store is.
void kiln_scan_remove(int folder, const char *name);

#endif
