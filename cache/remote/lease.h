// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single flight over machines: who makes an entry holds a lease in the remote store (set if absent, with an
// expiry) and renews it while the build lives. A lease only saves work: whoever cannot get or ask for one
// makes the entry as ever.
#ifndef KILN_CACHE_REMOTE_LEASE_H
#define KILN_CACHE_REMOTE_LEASE_H

#include "cache/remote/level.h"

enum { KILN_LEASE_MS = 5000, KILN_LEASE_RENEW_MS = 1500, KILN_LEASE_LONGEST_MS = 600000 };

typedef struct kiln_leases kiln_leases;

/// Leases of `level`, which is borrowed and whose kind has them. NULL: no memory or thread.
kiln_leases *kiln_leases_create(const kiln_level *level);
/// Gives back what is held.
void kiln_leases_destroy(kiln_leases *leases);
/// FOUND: it is ours until dropped, at most KILN_LEASE_LONGEST_MS. ABSENT: another build has it. FAILED:
/// nobody can tell.
kiln_remote_state kiln_leases_take(kiln_leases *leases, const char *domain, const char *key_hex,
                                   int64_t deadline);
/// Gives one back, when the entry can be seen or will not come. Does nothing for a lease that is not held.
void kiln_leases_drop(kiln_leases *leases, const char *domain, const char *key_hex);

#endif
