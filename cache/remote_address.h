// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses of remote caches, and the settings that belong to them: what they mean, and what is wrong with them. All who
// read one use this, so that what cannot be an address is said before any server is asked.
#ifndef KILN_CACHE_REMOTE_ADDRESS_H
#define KILN_CACHE_REMOTE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { KILN_ADDRESS_MOST = 1024, KILN_ADDRESS_SECRET = 512 };

/// How a bucket of S3, or of a server that speaks as S3 does, is reached. NULL or "": not given.
typedef struct kiln_s3_access {
  const char *endpoint;     ///< "http://HOST[:PORT]"; without it Amazon's of the region
  const char *region;       ///< without it us-east-1
  const char *key, *secret; ///< without them requests are not signed
  const char *session;      ///< of credentials that expire
} kiln_s3_access;

/// As the variables say that `get` reads: Kiln's own, or else those of AWS. Key, secret and session are of one source.
kiln_s3_access kiln_s3_access_of(char *(*get)(const char *name));

/// Of s3://BUCKET[/PREFIX] the address of the objects: ENDPOINT/BUCKET/PREFIX, or without an endpoint
/// https://BUCKET.s3.REGION.amazonaws.com/PREFIX.
kiln_status kiln_s3_address(const char *url, const kiln_s3_access *access, char out[KILN_ADDRESS_MOST],
                            kiln_error *err);

/// redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
typedef struct kiln_redis_address {
  char host[256], user[KILN_ADDRESS_SECRET], password[KILN_ADDRESS_SECRET];
  bool tls;
  int port, database;
} kiln_redis_address;
kiln_status kiln_redis_address_parse(const char *url, kiln_redis_address *out, kiln_error *err);

/// INVALID_ARGUMENT for what is no address of a remote cache, with what was expected and found; the message does not
/// repeat the address. `access` may be NULL for addresses that are not s3://.
kiln_status kiln_remote_address_check(const char *url, const kiln_s3_access *access, kiln_error *err);

#endif
