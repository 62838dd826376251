// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One folder of entries on a disk. No statistics, no memory level, no policy about what to do with a miss.
//
//   ROOT/CACHEDIR.TAG                  so that backups leave it out
//   ROOT/v1/DOMAIN.SPACE/
//     entries/00..ff/<62 hex digits>   one immutable file an entry
//     staging/                         only where nameless files do not work; never read
//     quarantine/<64 hex digits>       damaged entries, for a look; emptied by gc
//     spool/<64 hex digits>            links to entries that are still to be uploaded
//     lock                             byte ranges: who makes which entry, who cleans
//     stats, stats.old, stats.sum      counted events
//     usage                            sums and the cleaner's place
//     files, files.UID                 digests of files that were read (tools)
//
// A descriptor of the DOMAIN.SPACE folder is all that is kept open. Thread safe except for kiln_store_open
// and kiln_store_close.
#ifndef KILN_CACHE_STORE_H
#define KILN_CACHE_STORE_H

#include <pthread.h>
#include <sys/types.h>

#include "cache/blob.h"
#include "cache/cache.h"

enum { KILN_STORE_PATH = 4096, KILN_STORE_NAME = 80, KILN_STORE_SHARDS = 256 };

typedef struct kiln_store {
  pthread_mutex_t mutex; ///< guards making the folder
  _Atomic int fd;        ///< -1 while the folder does not exist
  char root[KILN_STORE_PATH];
  char folder[KILN_STORE_NAME * 2]; ///< "v1/main.default"
  char domain[KILN_NAME_SIZE];
  bool writable, shared, durable, made;
  bool world_writable; ///< as kiln_cache_config says
  bool layer;          ///< another cache's, named to be read
  int error;           ///< errno of opening the folder; 0: it was there
  uid_t owner;         ///< whose entries are read; anybody's when shared
  uint64_t max_entry_bytes;
  uint32_t recency_s;
  kiln_trust_policy policy;
  const kiln_trust_key *trusted; ///< borrowed from the cache
  uint32_t trusted_count;
  const kiln_trust_key *signer; ///< borrowed from the cache: the key that it signs with; NULL: none
  bool vouched_only;            ///< as kiln_cache_config says
} kiln_store;

/// True for names that may become part of a path: [a-z0-9_-]{1,40}.
bool kiln_store_name_ok(const char *name);

/// Opens what exists; a missing folder is an empty store. `root`, `domain` and the settings must be in place.
/// DENIED when the folder is neither the caller's nor declared shared, or writable for others; a shared one
/// when it, a folder in it or one that it is in is writable for everybody, unless that was asked for. Layers
/// may also belong to root.
KILN_MUST_USE kiln_status kiln_store_open(kiln_store *store, const char *root, const char *domain,
                                          const char *space, kiln_error *err);
void kiln_store_close(kiln_store *store);
/// Whether something else stands where the store's folder or one on its path should: a file, a link that leads to
/// none. `out` is its path.
bool kiln_store_obstacle(const kiln_store *store, char *out, size_t size);
/// Makes the folders of a writable store; 0 or -errno. Cheap when they are there.
int kiln_store_make(kiln_store *store);
/// Makes one folder below the store's, in place of whatever stands there, with the rights it needs; 0 or
/// -errno.
int kiln_store_heal_folder(kiln_store *store, const char *name);
/// The rights of something new in the store, of those in `most`. A private store is its owner's. In a shared
/// one they are those of the store's folder: a group may write where the new thing will be of that group,
/// others only in a store for everybody. The kernel takes away what the umask says.
mode_t kiln_store_mode(const kiln_store *store, mode_t most);
/// Opens a small file of the store's (`usage`, `stats`, `lock`); what is no regular file there gives way to
/// one.
int kiln_store_open_own(kiln_store *store, const char *name, int flags);
/// The same after the folder was pulled away under us.
int kiln_store_make_again(kiln_store *store);

/// "entries/ab/cdef..." of a key.
void kiln_store_entry_name(const kiln_digest *key, char out[KILN_STORE_NAME]);

/// Reads and verifies. A hit outcome (HIT_LOCAL) with `out` filled, or the kind of miss with
/// out->error_number. `fields` NULL: any fields are fine. `warned` is set when the policy is WARN and the
/// entry is not signed as it should.
kiln_outcome kiln_store_read(kiln_store *store, const kiln_digest *key, const uint8_t *fields,
                             size_t fields_size, kiln_cache_entry *out, bool *warned, kiln_error *err);
/// The file of an entry, with its content unchecked and its time as it was; NULL when it cannot be read, or is not trusted
/// for its owner or for who may write it.
kiln_blob *kiln_store_file(kiln_store *store, const kiln_digest *key);
/// Whether there is an intact entry of that key, for a caller who has its content: its checks are compared, it is not
/// unpacked. False where somebody has to vouch for entries, since that is about the content.
bool kiln_store_holds(kiln_store *store, const kiln_digest *key, uint64_t *out_payload, uint64_t *out_cost);
/// Remembers that an entry is in use, without reading it. False: there is none.
bool kiln_store_touch(kiln_store *store, const kiln_digest *key);
/// The same checks over the bytes of an entry from elsewhere (remote, import). `file` is consumed.
kiln_outcome kiln_store_accept(const kiln_store *store, kiln_blob *file, const kiln_digest *key,
                               const uint8_t *fields, size_t fields_size, kiln_cache_entry *out, bool *warned,
                               kiln_error *err);

/// Makes the kernel forget what it remembers of the names of the key's entry and of the store's
/// own files: on NFS the next look-up asks the server. Elsewhere it costs a few calls.
void kiln_store_look_again(kiln_store *store, const kiln_digest *key);

/// Publishes a complete entry: 0, 1 when there was one already (kept), or -errno. With `replace` the new one
/// wins.
int kiln_store_write(kiln_store *store, const kiln_digest *key, const uint8_t *bytes, size_t size,
                     bool replace);
/// Puts a damaged entry aside, or removes it where that fails; 0 or -errno.
int kiln_store_quarantine(kiln_store *store, const kiln_digest *key);
int kiln_store_remove(kiln_store *store, const kiln_digest *key);

/// Replaces the small file `name` of the folder by new contents, through staging and rename; 0 or -errno.
int kiln_store_replace_file(kiln_store *store, const char *name, const void *bytes, size_t size);

#endif
