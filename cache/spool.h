// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of uploads: links to entries, spool/WEEK/KEY, where WEEK is the week since 1970 in which the entry
// was listed. A link shares all times with its entry, and a hit changes those, so the folder tells how long
// an upload has waited. Listings of this week and the last are tried; older ones expire.
#ifndef KILN_CACHE_SPOOL_H
#define KILN_CACHE_SPOOL_H

#include "cache/store.h"

/// Lists the entry unless it is listed; 0 or -errno.
int kiln_spool_add(kiln_store *store, const kiln_digest *key);
/// Where the entry is listed, as a name below the store's folder. False: it is not.
bool kiln_spool_find(kiln_store *store, const kiln_digest *key, char out[KILN_STORE_NAME]);
/// Calls `each` for what is listed, last week's first, at most `limit`.
void kiln_spool_walk(kiln_store *store, uint64_t limit,
                     void (*each)(void *context, int folder_fd, const char *name), void *context);
uint64_t kiln_spool_count(kiln_store *store);
/// Takes away what was listed before the last week.
void kiln_spool_expire(kiln_store *store);

#endif
