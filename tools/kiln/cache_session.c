// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kiln/cache_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

/// KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln. A set-uid program does not listen to the environment.
static const char *default_folder(char *out, size_t capacity) {
  const char *value;
  if (getauxval(AT_SECURE)) return NULL;
  if ((value = getenv("KILN_CACHE_DIR")) && *value) return value;
  if ((value = getenv("XDG_CACHE_HOME")) && *value == '/') return snprintf(out, capacity, "%s/kiln", value) < (int)capacity ? out : NULL;
  if ((value = getenv("HOME")) && *value == '/') return snprintf(out, capacity, "%s/.cache/kiln", value) < (int)capacity ? out : NULL;
  return NULL;
}

kiln_status cache_session_open(const cache_session_options *options, kiln_cache **out, kiln_error *err) {
  char place[4096];
  kiln_cache_config config;
  kiln_cache_config_init(&config);
  config.folder = options->folder ? options->folder : default_folder(place, sizeof place);
  config.no_read = options->force;
  *out = NULL;
  if (!config.folder) return kiln_fail(err, KILN_STATUS_NOT_FOUND, "no folder for the cache: KILN_CACHE_DIR, XDG_CACHE_HOME and HOME are unset");
  return kiln_cache_open(&config, out, err);
}
