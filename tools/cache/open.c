// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the cache that the command line and the environment ask for.
#include "tools/cache/open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/url.h"
#include "cache/remote_address.h"
#include "tools/common/cli.h"
#include "tools/kiln/environment.h"
#include "tools/cache/trusted_keys.h"

enum { LIST_TEXT = 8192 };

/// What the config borrows until the cache is open. What few ask for is made when it is: a hit of
/// `kiln compile` pays for each page that it touches.
typedef struct texts {
  char folder[4096], remote[4096];
  char *layers, *domains; ///< copies of the variables' values, cut into items; NULL: not set
  cache_trust_list *trust;
  uint8_t sign_key[KEY_FILE_SECRET];
} texts;

static const char *path_below(environment_name variable, const char *rest, char *out, size_t capacity) {
  const char *value = environment_get(variable);
  return value && *value == '/' && snprintf(out, capacity, "%s/%s", value, rest) < (int)capacity ? out : NULL;
}

const char *cache_open_trust_file(char *out, size_t capacity) {
  const char *value = environment_get(ENV_KILN_TRUST_FILE);
  if (value) return value;
  value = path_below(ENV_XDG_CONFIG_HOME, "kiln/trust", out, capacity);
  return value ? value : path_below(ENV_HOME, ".config/kiln/trust", out, capacity);
}

/// Splits a copy of the variable's value into at most KILN_CACHE_LAYERS items.
static kiln_status split_variable(environment_name variable, const char *separator, char **copy,
                                  const char **items, kiln_error *err) {
  const char *value = environment_get(variable);
  char *save;
  unsigned count = 0;
  if (!value) return KILN_OK;
  if (strlen(value) >= LIST_TEXT)
    return kiln_fail(err, KILN_STATUS_LIMIT, "a list of the cache has %zu bytes, at most %d are allowed",
                     strlen(value), LIST_TEXT);
  if (!(*copy = strdup(value))) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a list");
  for (char *word = strtok_r(*copy, separator, &save); word; word = strtok_r(NULL, separator, &save)) {
    if (count == KILN_CACHE_LAYERS)
      return kiln_fail(err, KILN_STATUS_LIMIT, "a list of the cache has more than %d items",
                       KILN_CACHE_LAYERS);
    items[count++] = word;
  }
  return KILN_OK;
}

static kiln_status read_sizes(kiln_cache_config *config, kiln_error *err) {
  uint64_t wait = config->wait_ms, level = config->level, remote = config->remote_ms, lease = 0;
  struct {
    environment_name name;
    uint64_t *to;
    uint64_t most;
  } sizes[] = {{ENV_KILN_CACHE_SIZE, &config->max_bytes, UINT64_MAX},
               {ENV_KILN_CACHE_FILES, &config->max_files, UINT64_MAX},
               {ENV_KILN_CACHE_MIN_FREE, &config->min_free_bytes, UINT64_MAX},
               {ENV_KILN_CACHE_WAIT_MS, &wait, 3600000},
               {ENV_KILN_CACHE_LEVEL, &level, 19},
               {ENV_KILN_CACHE_REMOTE_MS, &remote, 600000},
               {ENV_KILN_CACHE_REMOTE_LEASE_MS, &lease, 600000}};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    kiln_status status = environment_size(sizes[i].name, sizes[i].most, sizes[i].to, err);
    if (status) return status;
  }
  if (!level)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: expected a number from 1 to 19, found \"0\"",
                     environment_variable(ENV_KILN_CACHE_LEVEL));
  config->wait_ms = (uint32_t)wait;
  config->level = (uint8_t)level;
  config->remote_ms = (uint32_t)remote;
  config->remote_lease_ms = (uint32_t)lease;
  return KILN_OK;
}

/// Signing also needs the list of trusted keys, to check that the parts are trusted.
static kiln_status read_trust(const cache_open_options *options, kiln_cache_config *config, texts *t,
                              kiln_error *err) {
  static const char *const names[] = {
      [KILN_TRUST_OFF] = "off", [KILN_TRUST_WARN] = "warn", [KILN_TRUST_REQUIRE] = "require"};
  const char *policy = environment_get(ENV_KILN_TRUST), *key = environment_get(ENV_KILN_SIGN_KEY);
  unsigned i = 0;
  while (policy && i < 3 && strcmp(policy, names[i])) i++;
  if (i == 3)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "KILN_TRUST: expected off, warn or require, found \"%.60s\"", policy);
  config->policy = (kiln_trust_policy)i;
  config->vouched_only = options->sign != NULL;
  if (!key) key = options->sign;
  if (config->policy != KILN_TRUST_OFF || key) {
    struct {
      cache_trust_list list;
      char file[4096];
    } *trust = calloc(1, sizeof *trust);
    if (!trust) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the list of trusted keys");
    t->trust = &trust->list;
    const char *file = cache_open_trust_file(trust->file, sizeof trust->file);
    if (environment_get(ENV_KILN_TRUST_FILE)) cli_keep(environment_get(ENV_KILN_TRUST_FILE));
    kiln_status status = file ? cache_trust_read(file, t->trust, err) : KILN_OK;
    if (status) return status;
    if (config->policy == KILN_TRUST_REQUIRE && (!file || access(file, F_OK)))
      return kiln_fail(
          err, KILN_STATUS_NOT_FOUND,
          "KILN_TRUST=require, and there is no list of trusted keys: %s; `kiln cache trust add` makes "
          "one",
          file ? file : "neither KILN_TRUST_FILE nor HOME names a place");
    config->trusted = t->trust->keys;
    config->trusted_count = t->trust->count;
  }
  if (!key) return KILN_OK;
  cli_keep(key);
  kiln_status status = key_file_secret(key, t->sign_key, err);
  if (!status) config->sign_key = t->sign_key;
  return status;
}

static kiln_status check_addresses(kiln_error *err) {
  const char *value = environment_get(ENV_KILN_CACHE_REMOTE);
  char *urls = value ? strdup(value) : NULL, *save, shown[KILN_URL_SHOWN];
  const kiln_s3_access access = kiln_s3_access_of(secure_getenv);
  kiln_status status = KILN_OK;
  for (char *url = urls ? strtok_r(urls, " ", &save) : NULL; url && !status;
       url = strtok_r(NULL, " ", &save)) {
    status = kiln_remote_address_check(url, &access, err);
    if (status) kiln_context(err, status, "%s", kiln_url_shown(url, shown, sizeof shown));
  }
  free(urls);
  return status;
}

bool cache_open_remote_fault(char *out, size_t capacity) {
  const char *ca = environment_get(ENV_KILN_CACHE_REMOTE_CA);
  char program[4096];
  uint64_t seconds;
  kiln_error err = {0};
  if (!environment_get(ENV_KILN_CACHE_S3_KEY) != !environment_get(ENV_KILN_CACHE_S3_SECRET))
    snprintf(out, capacity, "KILN_CACHE_S3_KEY and KILN_CACHE_S3_SECRET go together: one of them is not set");
  else if (check_addresses(&err)) snprintf(out, capacity, "KILN_CACHE_REMOTE: %s", err.text);
  else if (environment_size(ENV_KILN_CACHE_REMOTE_EXPIRE_S, UINT32_MAX / 1000, &seconds, &err) != KILN_OK)
    snprintf(out, capacity, "%s", err.text);
  else if (ca && access(ca, R_OK))
    snprintf(out, capacity, "KILN_CACHE_REMOTE_CA: %s: %s", ca, strerror(errno));
  else if (cli_need_program("kiln-remote", program, sizeof program, &err) != KILN_OK)
    snprintf(out, capacity, "%s", err.text);
  else return false;
  return true;
}

/// Anything that cannot be a remote cache is reported and left out; the build goes on without it.
static void add_remote(kiln_cache_config *config, texts *t) {
  const char *url = environment_get(ENV_KILN_CACHE_REMOTE);
  config->remote_write = environment_flag(ENV_KILN_CACHE_REMOTE_WRITE, false);
  if (!url) return;
  char why[KILN_ERROR_TEXT];
  if (cache_open_remote_fault(why, sizeof why)) {
    fprintf(stderr, "kiln: note: going on without remote caches: %s\n", why);
    return;
  }
  config->remote_url = url;
  if (cli_find_program("kiln-remote", t->remote, sizeof t->remote, NULL)) config->remote_program = t->remote;
}

enum { FLEET_WAIT_MS = 120000 }; // for an object that another machine compiles

kiln_status cache_open_check_fleet(const char *url, kiln_error *err) {
  char shown[KILN_URL_SHOWN];
  kiln_redis_address address;
  kiln_status status = kiln_redis_address_parse(url, &address, err);
  memset(address.password, 0, sizeof address.password);
  if (status == KILN_OK) return KILN_OK;
  return kiln_context(err, status, "--fleet=%s", kiln_url_shown(url, shown, sizeof shown));
}

static kiln_status join_fleet(kiln_cache_config *config, texts *t, const char *url, kiln_error *err) {
  KILN_TRY(cache_open_check_fleet(url, err));
  kiln_status status = cli_need_program("kiln-remote", t->remote, sizeof t->remote, err);
  if (status != KILN_OK) return kiln_context(err, status, "--fleet");
  config->remote_program = t->remote;
  config->remote_url = url;
  config->remote_write = true;
  config->remote_lease_ms = FLEET_WAIT_MS;
  return KILN_OK;
}

static kiln_status read_environment(const cache_open_options *options, kiln_cache_config *config, texts *t,
                                    kiln_error *err) {
  static const environment_name flags[] = {ENV_KILN_CACHE_SHARED,  ENV_KILN_CACHE_WORLD_WRITABLE,
                                           ENV_KILN_CACHE_DURABLE, ENV_KILN_CACHE_READ_ONLY,
                                           ENV_KILN_CACHE_STATS,   ENV_KILN_CACHE_REMOTE_WRITE};
  for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) KILN_TRY(environment_check_flag(flags[i], err));
  kiln_status status = read_sizes(config, err);
  config->domain = environment_get(ENV_KILN_CACHE_DOMAIN);
  config->space = environment_get(ENV_KILN_CACHE_NAMESPACE);
  config->shared = environment_flag(ENV_KILN_CACHE_SHARED, false);
  config->world_writable = environment_flag(ENV_KILN_CACHE_WORLD_WRITABLE, false);
  config->durable = environment_flag(ENV_KILN_CACHE_DURABLE, false);
  config->read_only = options->read_only || environment_flag(ENV_KILN_CACHE_READ_ONLY, false);
  config->no_stats = !environment_flag(ENV_KILN_CACHE_STATS, true);
  if (!status) status = read_trust(options, config, t, err);
  if (options->local) return status;
  if (!status) status = split_variable(ENV_KILN_CACHE_LAYERS, ":", &t->layers, config->layers, err);
  if (!status)
    status = split_variable(ENV_KILN_CACHE_READ_DOMAINS, ",", &t->domains, config->read_domains, err);
  if (!status && options->fleet) status = join_fleet(config, t, options->fleet, err);
  else if (!status) add_remote(config, t);
  return status;
}

kiln_status cache_open(const cache_open_options *options, kiln_cache **out, kiln_error *err) {
  texts t;
  kiln_cache_config config;
  *out = NULL;
  t.layers = t.domains = NULL;
  t.trust = NULL;
  kiln_cache_config_init(&config);
  config.folder = options->folder ? options->folder : environment_get(ENV_KILN_CACHE_DIR);
  if (!config.folder) config.folder = path_below(ENV_XDG_CACHE_HOME, "kiln", t.folder, sizeof t.folder);
  if (!config.folder) config.folder = path_below(ENV_HOME, ".cache/kiln", t.folder, sizeof t.folder);
  config.no_read = options->force;
  kiln_status status =
      config.folder ? read_environment(options, &config, &t, err)
                    : kiln_fail(err, KILN_STATUS_NOT_FOUND,
                                "no folder for the cache: KILN_CACHE_DIR, XDG_CACHE_HOME and HOME are unset");
  if (!status) status = kiln_cache_open(&config, out, err);
  memset(t.sign_key, 0, sizeof t.sign_key);
  free(t.layers), free(t.domains), free(t.trust);
  return status;
}
