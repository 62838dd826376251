// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small end of the remote level: starts kiln-remote at the first need and speaks with it over a socket. The network is in that program; what
// comes back is only bytes, which the cache checks like any file.
//
// One request a connection, little-endian, both ways a u32 length and that many bytes:
//   request: u8 kind (1 get, 2 wake), 32 bytes key, block domain         reply: u8 state, entry bytes when the state is FOUND
// Uploads are links in the store's spool/ folder; `wake` only says that there is one.
#ifndef KILN_CACHE_REMOTE_CLIENT_H
#define KILN_CACHE_REMOTE_CLIENT_H

#include "cache/store.h"

enum { KILN_REMOTE_GET = 1, KILN_REMOTE_WAKE = 2 };

typedef enum kiln_remote_state {
  KILN_REMOTE_FOUND = 1,
  KILN_REMOTE_ABSENT = 2,
  KILN_REMOTE_FAILED = 3,  ///< unreachable, too slow, an error
  KILN_REMOTE_SKIPPED = 4, ///< left alone: it failed lately
  KILN_REMOTE_REFUSED = 5, ///< what it delivered was not what its own digest says
} kiln_remote_state;

typedef struct kiln_remote kiln_remote;

/// Starts nothing yet. Texts are copied. NULL when memory is exhausted.
kiln_remote *kiln_remote_create(const char *program, const char *url, uint32_t deadline_ms, bool write, uint64_t max_bytes,
                                const kiln_store *spool);
/// Lets the helper go; it finishes uploads on its own.
void kiln_remote_destroy(kiln_remote *remote);
/// Thread safe. Never later than the deadline plus a little. `out_file` is set with FOUND.
kiln_remote_state kiln_remote_get(kiln_remote *remote, const char *domain, const kiln_digest *key, kiln_blob **out_file);
/// Puts the entry, which is in the store, on the list of uploads; 0 or -errno. Returns at once.
int kiln_remote_upload(kiln_remote *remote, kiln_store *store, const kiln_digest *key);

#endif
