// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cache/remote/level.h"

#include <stdio.h>
#include <string.h>

bool kiln_level_open(kiln_level *level, const char *url, const kiln_level_options *options) {
  static const kiln_level_kind *const kinds[] = {&kiln_level_http, &kiln_level_https, &kiln_level_redis};
  memset(level, 0, sizeof *level);
  if (strlen(url) >= sizeof level->url) return false;
  strcpy(level->url, url);
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(url, kinds[i]->scheme, strlen(kinds[i]->scheme))) level->kind = kinds[i];
  if (!level->kind) return false;
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest digest = kiln_digest_of(url, strlen(url));
  kiln_digest_hex(&digest, hex);
  snprintf(level->breaker, sizeof level->breaker, "breaker-%.16s", hex);
  level->state = level->kind->create(level->url, options);
  return level->state != NULL;
}

void kiln_level_close(kiln_level *level) {
  if (level->state) level->kind->destroy(level->state);
  memset(level, 0, sizeof *level);
}
