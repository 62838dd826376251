// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single flight over machines: who makes an entry holds a lease in the remote store (set if absent, with an
// expiry). It is renewed as long as the work on the entry is reported to go on, or its upload waits, and no
// longer than KILN_LEASE_LONGEST_MS: that this process lives says nothing of who compiles. A lease only saves
// work: whoever cannot get or ask for one makes the entry as ever.
#ifndef KILN_CACHE_REMOTE_LEASE_H
#define KILN_CACHE_REMOTE_LEASE_H

#include "cache/remote/level.h"

enum {
  KILN_LEASE_MS = 5000,
  KILN_LEASE_RENEW_MS = 1500,
  KILN_LEASE_LONGEST_MS = 120000,
  KILN_LEASE_BOARD_MS =
      60000, ///< of a board, whose holder reports once a step, unless it says how long that takes
};

typedef struct kiln_leases kiln_leases;

/// Leases of `level`, which is borrowed and whose kind has them; each ends `ms` after its last renewal, and
/// `longest_ms` after it was taken. NULL: no memory or thread.
kiln_leases *kiln_leases_create(const kiln_level *level, uint32_t ms, uint32_t longest_ms);
/// Gives back what is held.
void kiln_leases_destroy(kiln_leases *leases);
/// FOUND: it is ours until dropped, as long as it is renewed. ABSENT: another build has it. FAILED, DENIED:
/// nobody can tell.
/// `ms`: another time than that of the others; 0: theirs.
kiln_remote_state kiln_leases_take(kiln_leases *leases, const char *domain, const char *key_hex, uint32_t ms,
                                   int64_t deadline);
/// The work on it goes on: it will be renewed once more.
void kiln_leases_beat(kiln_leases *leases, const char *domain, const char *key_hex);
/// The entry is made and waits here for its upload: it is renewed until it is dropped.
void kiln_leases_upload(kiln_leases *leases, const char *domain, const char *key_hex);
/// Gives one back, when the entry can be seen or will not come. Does nothing for a lease that is not held.
void kiln_leases_drop(kiln_leases *leases, const char *domain, const char *key_hex);

#endif
