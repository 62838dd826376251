// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The client of the remote level: starts kiln-remote when it is first needed and talks to it over a socket.
// The network code is in that program; the replies are bytes, which the cache checks like any file.
//
// One request per connection, little-endian, both ways a u32 length and that many bytes:
//
//   request   u8 kind (1 get, 2 wake, 3 claim, 4 try, 5 drop, 6 beat), 32 bytes key, block domain
//   reply     u8 state, entry bytes when the state is FOUND
//
// Uploads are links in the store's spool/ folder; `wake` only says that there is one.
#ifndef KILN_CACHE_REMOTE_CLIENT_H
#define KILN_CACHE_REMOTE_CLIENT_H

#include "cache/store.h"

enum {
  KILN_REMOTE_GET = 1,
  KILN_REMOTE_WAKE = 2,
  KILN_REMOTE_CLAIM = 3,
  KILN_REMOTE_TRY = 4,
  KILN_REMOTE_DROP = 5,
  KILN_REMOTE_BEAT = 6
};

typedef enum kiln_remote_state {
  KILN_REMOTE_FOUND = 1,
  KILN_REMOTE_ABSENT = 2,
  KILN_REMOTE_FAILED = 3,  ///< unreachable, too slow, an error
  KILN_REMOTE_SKIPPED = 4, ///< left alone: it failed lately
  KILN_REMOTE_REFUSED = 5, ///< what it delivered was not what its own digest says
  KILN_REMOTE_LATE = 6,    ///< another machine makes the entry, longer than we wait
  KILN_REMOTE_BUSY = 7,    ///< of a try: another machine makes it
  KILN_REMOTE_DENIED = 8,  ///< the server wants a password or token, or another one
} kiln_remote_state;

typedef struct kiln_remote kiln_remote;

/// Starts nothing yet. Texts are copied. NULL when memory is exhausted.
/// `lease_ms`: how long a claim waits for another machine; 0: there are no claims.
kiln_remote *kiln_remote_create(const char *program, const char *url, uint32_t deadline_ms, uint32_t lease_ms,
                                bool write, uint64_t max_bytes, const kiln_store *spool);
/// Lets the helper go; it finishes uploads on its own.
void kiln_remote_destroy(kiln_remote *remote);
/// Thread safe. Never later than the deadline plus a little. `out_file` is set with FOUND.
kiln_remote_state kiln_remote_get(kiln_remote *remote, const char *domain, const kiln_digest *key,
                                  kiln_blob **out_file);
/// Before an entry is made that kiln_remote_get had not: FOUND when another machine made it meanwhile, ABSENT
/// when it is ours to make (other machines wait), anything else: make it all the same. Thread safe. Never
/// later than the wait and the deadline plus a little.
kiln_remote_state kiln_remote_claim(kiln_remote *remote, const char *domain, const kiln_digest *key,
                                    kiln_blob **out_file);
/// The same without waiting: BUSY where another machine makes it.
kiln_remote_state kiln_remote_try(kiln_remote *remote, const char *domain, const kiln_digest *key,
                                  kiln_blob **out_file);
/// How one knows that the work on claims of this process goes on (kiln_cache_watch); NULL: it does as long as
/// the process runs. Not called any more when this returns.
void kiln_remote_watch(kiln_remote *remote, kiln_cache_moves *moves, void *context);
/// Gives a claim back whose entry will not come.
void kiln_remote_drop(kiln_remote *remote, const char *domain, const kiln_digest *key);
/// Puts the entry, which is in the store, on the list of uploads; 0 or -errno. Returns at once.
int kiln_remote_upload(kiln_remote *remote, kiln_store *store, const kiln_digest *key);

#endif
