// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kiln-remote does: answers look-ups that come over a unix socket, and uploads what lies in the store's
// spool.
#ifndef KILN_CACHE_REMOTE_SERVER_H
#define KILN_CACHE_REMOTE_SERVER_H

#include "cache/remote/level.h"

enum { KILN_REMOTE_LEVELS = 4 };

typedef struct kiln_remote_server kiln_remote_server;

typedef struct kiln_remote_server_config {
  const char *urls;    ///< with spaces between
  const char *token;   ///< NULL: anonymous
  const char *ca_file; ///< NULL: the system's certificates
  kiln_s3_access s3;
  const char *root, *domain, *space; ///< of the store
  uint32_t deadline_ms;              ///< of one look-up, over all levels
  uint32_t lease_ms; ///< how long a claim waits for another machine; 0: claims are answered SKIPPED
  uint64_t max_bytes;
  uint32_t expire_s; ///< of entries in stores that expire them; 0: never
  bool write;
  bool shared, world_writable;
} kiln_remote_server_config;

kiln_status kiln_remote_server_create(const kiln_remote_server_config *config, kiln_remote_server **out,
                                      kiln_error *err);
/// Serves `listening` until `life` reports its end; then finishes what is being uploaded, at most for a
/// minute.
void kiln_remote_server_run(kiln_remote_server *server, int listening, int life);
void kiln_remote_server_destroy(kiln_remote_server *server);

/// One look-up and one round over the spool, as the server does them; for tests and tools.
kiln_remote_state kiln_remote_server_get(kiln_remote_server *server, const char *domain,
                                         const kiln_digest *key, kiln_buffer *out);
/// A claim (see kiln_remote_claim), as the server does it; without `waits` a try.
kiln_remote_state kiln_remote_server_claim(kiln_remote_server *server, const char *domain,
                                           const kiln_digest *key, bool waits, kiln_buffer *out);
/// How many were uploaded. Stops after a few failures, or one that took long.
unsigned kiln_remote_server_upload(kiln_remote_server *server);
/// Uploads until nothing waits, and tries again for `wait_ms` where that fails; servers that were left alone
/// are asked again.
typedef struct kiln_remote_pushed {
  uint64_t stored, refused, waiting; ///< refused: dropped, since a server will never take it
} kiln_remote_pushed;
kiln_remote_pushed kiln_remote_server_push(kiln_remote_server *server, uint32_t wait_ms);

/// Asks each remote cache of the config once, whether or not it was left alone, and with `write` uploads a few
/// bytes. `out` is told of each with what it answers or what is wrong. False when something is.
bool kiln_remote_check(const kiln_remote_server_config *config,
                       void (*out)(void *context, const char *url, bool good, const char *text),
                       void *context);

#endif
