// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the cache that the command line and the environment name.
#ifndef KILN_TOOLS_CACHE_OPEN_H
#define KILN_TOOLS_CACHE_OPEN_H

#include "cache/cache.h"

typedef struct cache_open_options {
  const char *folder; ///< --cache-dir; NULL: the environment decides
  bool force;         ///< reads miss, writes replace
  bool read_only;     ///< whatever the environment says
  const char *fleet;  ///< redis://...: takes the place of the remote caches of the environment, with uploads
                      ///< and leases; NULL: none
  const char *sign;   ///< secret key that will sign what is made of entries: only those that somebody vouches
                      ///< for are read, and new ones are signed with it where the environment names no key;
                      ///< NULL: nothing will be signed
  bool local; ///< without layers, higher domains and the remote side: for tools that look at one store
} cache_open_options;

/// NOT_FOUND, with the reason, when nothing names a folder (no HOME). INVALID_ARGUMENT names the variable
/// that is wrong.
kiln_status cache_open(const cache_open_options *options, kiln_cache **out, kiln_error *err);

/// The list of trusted keys that would be used, or NULL; `out` is storage.
const char *cache_open_trust_file(char *out, size_t capacity);
/// Writes what is wrong with the settings of remote caches, as far as can be seen without asking the servers.
/// False: nothing is wrong.
bool cache_open_remote_fault(char *out, size_t capacity);

/// Whether a fleet may meet at that address; INVALID_ARGUMENT with the form that is wanted.
kiln_status cache_open_check_fleet(const char *url, kiln_error *err);

#endif
