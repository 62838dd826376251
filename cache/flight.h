// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single flight: byte-range locks in the store's one lock file. Two bytes a key: the first for who makes the
// entry, the second for the one waiter that takes over when the first hangs.
#ifndef KILN_CACHE_FLIGHT_H
#define KILN_CACHE_FLIGHT_H

#include "cache/store.h"

typedef enum kiln_flight {
  KILN_FLIGHT_OWNED,    ///< make the entry; `out_fd` holds the lock
  KILN_FLIGHT_TAKEOVER, ///< the same, while the holder hangs
  KILN_FLIGHT_THERE,    ///< `ready` said that the entry came up
  KILN_FLIGHT_TIMEOUT,  ///< neither happened in time: make it without a lock
  KILN_FLIGHT_NO_LOCK,  ///< locks do not work here: make it without
} kiln_flight;

/// `ready` is asked after each failed attempt and once after the lock was got. `out_waited` tells whether
/// anybody else had it.
kiln_flight kiln_flight_enter(kiln_store *store, const kiln_digest *key, uint32_t wait_ms,
                              bool (*ready)(void *context), void *context, int *out_fd, bool *out_waited);

#endif
