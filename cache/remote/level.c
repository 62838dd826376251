// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a remote store by the scheme of its address: HTTP, S3 or Redis.
#include "cache/remote/level.h"

#include <stdio.h>
#include <string.h>

#include "base/url.h"

kiln_status kiln_level_open(kiln_level *level, const char *url, const kiln_level_options *options,
                            kiln_error *err) {
  static const kiln_level_kind *const kinds[] = {&kiln_level_http, &kiln_level_https, &kiln_level_s3,
                                                 &kiln_level_redis, &kiln_level_rediss};
  memset(level, 0, sizeof *level);
  KILN_TRY(kiln_remote_address_check(url, &options->s3, err));
  kiln_url_shown(url, level->shown, sizeof level->shown);
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(url, kinds[i]->scheme, strlen(kinds[i]->scheme))) level->kind = kinds[i];
  char hex[KILN_DIGEST_HEX + 1];
  // Of what may be shown: the name is for all who see the folder.
  kiln_digest digest = kiln_digest_of(level->shown, strlen(level->shown));
  kiln_digest_hex(&digest, hex);
  snprintf(level->breaker, sizeof level->breaker, "breaker-%.16s", hex);
  level->state = level->kind->create(url, options, err);
  return level->state ? KILN_OK : err ? err->status : KILN_STATUS_INVALID_ARGUMENT;
}

void kiln_level_close(kiln_level *level) {
  if (level->state) level->kind->destroy(level->state);
  memset(level, 0, sizeof *level);
}
