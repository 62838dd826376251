// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One remote store behind one small interface. Get and put are bounded by a deadline and may be called from
// several threads.
#ifndef KILN_CACHE_REMOTE_LEVEL_H
#define KILN_CACHE_REMOTE_LEVEL_H

#include "base/buffer.h"
#include "base/digest.h"
#include "cache/remote_address.h"
#include "cache/remote_client.h"
#include "cache/wire.h"

typedef struct kiln_level kiln_level;

/// Texts are copied.
typedef struct kiln_level_options {
  const char *token;   ///< NULL: anonymous
  const char *ca_file; ///< certificates that a server of https must come from; NULL: the system's
  uint64_t max_bytes;
  const char *begins; ///< what every value begins with: others are not taken to their end; NULL: anything.
                      ///< Borrowed as long as the level lives
  uint32_t expire_s;  ///< an entry goes that long after its upload, where the store can do that; 0: never
  kiln_s3_access s3;
} kiln_level_options;

/// How a kind of store is spoken with.
typedef struct kiln_level_kind {
  const char *scheme; ///< "http://"
  /// NULL, with the reason, when the address makes no sense or memory is exhausted.
  void *(*create)(const char *url, const kiln_level_options *options, kiln_error *err);
  void (*destroy)(void *state);
  /// Fills `out` with FOUND. Never later than `deadline` (monotonic ms) by more than a moment.
  kiln_remote_state (*get)(void *state, const char *domain, const char *key_hex, int64_t deadline,
                           kiln_buffer *out);
  /// FOUND when it is stored, REFUSED when the server will never take it.
  kiln_remote_state (*put)(void *state, const char *domain, const char *key_hex, const uint8_t *bytes,
                           size_t size, int64_t deadline);
  /// Looks up a key that nobody has. False: why that does not work, in words, in `out`.
  bool (*check)(void *state, const char *domain, int64_t deadline, char *out, size_t capacity);
  /// Uploads a few bytes that are no entry and asks for them. False: why that does not work, in words.
  bool (*check_put)(void *state, const char *domain, int64_t deadline, char *out, size_t capacity);
  /// Both NULL where there are no leases. `lease`: FOUND when `token` has the key's lease now, ABSENT when
  /// somebody else has. `renew` gives a lease that `token` has another `ms`, or ends it (0): FOUND, ABSENT
  /// when it has none.
  kiln_remote_state (*lease)(void *state, const char *domain, const char *key_hex, const char *token,
                             uint32_t ms, int64_t deadline);
  kiln_remote_state (*renew)(void *state, const char *domain, const char *key_hex, const char *token,
                             uint32_t ms, int64_t deadline);
  /// Both NULL where there are no sets. `add`: FOUND when the bytes were not in the set, else ABSENT. `list`
  /// appends a block a member.
  kiln_remote_state (*add)(void *state, const char *domain, const char *name, const uint8_t *bytes,
                           size_t size, int64_t deadline);
  kiln_remote_state (*list)(void *state, const char *domain, const char *name, int64_t deadline,
                            kiln_buffer *out);
} kiln_level_kind;

/// What check_put uploads: the same bytes under the same name each time.
#define KILN_LEVEL_TRIAL "kiln cache doctor was here\n"

extern const kiln_level_kind kiln_level_http, kiln_level_https, kiln_level_s3, kiln_level_redis,
    kiln_level_rediss;

enum { KILN_LEVEL_URL = KILN_ADDRESS_MOST };

struct kiln_level {
  const kiln_level_kind *kind;
  void *state;                ///< owned
  char shown[KILN_LEVEL_URL]; ///< its address without secrets
  char breaker[64];           ///< name of the breaker's file in the store's folder
};

/// Finds the kind by the scheme. INVALID_ARGUMENT: no such kind, or it refused the address.
kiln_status kiln_level_open(kiln_level *level, const char *url, const kiln_level_options *options,
                            kiln_error *err);
void kiln_level_close(kiln_level *level);

#endif
