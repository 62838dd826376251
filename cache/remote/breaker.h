// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Leaving a sick server alone. The state is a small file next to the store that says until when; every process
// of every build on this machine looks at it, so a delay is paid once and not once a process.
#ifndef KILN_CACHE_REMOTE_BREAKER_H
#define KILN_CACHE_REMOTE_BREAKER_H

#include "cache/store.h"

enum { KILN_BREAKER_MS = 30000, KILN_BREAKER_LONGEST_MS = 600000 };

/// True while the server named by the file is to be left alone.
bool kiln_breaker_open(kiln_store *store, const char *name);
/// Leaves it alone for `ms` from now. Nothing happens when that cannot be written: other processes then find
/// out themselves.
void kiln_breaker_trip(kiln_store *store, const char *name, uint32_t ms);
void kiln_breaker_reset(kiln_store *store, const char *name);

#endif
