// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the cache as command line and environment say.
#ifndef KILN_TOOLS_KILN_CACHE_SESSION_H
#define KILN_TOOLS_KILN_CACHE_SESSION_H

#include "cache/cache.h"

typedef struct cache_session_options {
  const char *folder; ///< --cache-dir; NULL: the environment decides
  bool force;         ///< reads miss, writes replace
} cache_session_options;

/// NOT_FOUND, with the reason, when nothing names a folder (no HOME).
kiln_status cache_session_open(const cache_session_options *options, kiln_cache **out, kiln_error *err);

#endif
