// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln cache push and pull: check the command line and become kiln-remote, in which the network is.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "tools/cache/commands.h"
#include "tools/cache/open.h"
#include "tools/common/cli.h"
#include "tools/kiln/environment.h"

enum { MOST_KEYS = 16, MOST_WAIT_S = 86400, REQUEST_S = 60 };

/// Executes kiln-remote, which prints the result; returns only if that cannot be run. `words[0]` gets its path.
static kiln_status become(const char **words, kiln_error *err) {
  char program[4096], *clean[KILN_ENV_MOST + 1];
  KILN_TRY(cli_need_program("kiln-remote", program, sizeof program, err));
  words[0] = program;
  kiln_env_for(KILN_ENV_HELPER, environ, clean); // has addresses and rights
  execve(program, (char **)(uintptr_t)words, clean);
  return kiln_fail(err, KILN_STATUS_TOOL, "cannot run %s: %s", program, strerror(errno));
}

/// What waits for the remote cache.
static int push_waiting(const char *folder, int64_t wait, bool is_json) {
  char wait_ms[32], why[KILN_ERROR_TEXT];
  kiln_error err = {0};
  kiln_cache *cache;
  cache_open_options options = {.folder = folder, .local = true};
  kiln_status status = cache_open(&options, &cache, &err);
  if (status) return cli_report(status, &err);
  const kiln_store *store = kiln_cache_store(cache);
  const char *space = strchr(store->folder, '.') + 1; // "v1/DOMAIN.SPACE"
  snprintf(wait_ms, sizeof wait_ms, "%lld", (long long)(wait < MOST_WAIT_S ? wait : MOST_WAIT_S) * 1000);
  const char *words[] = {NULL,      "push", "--store",   store->root, "--domain", store->domain,
                         "--space", space,  "--wait-ms", wait_ms,     "--write",  is_json ? "--json" : NULL,
                         NULL};
  if (!environment_get(ENV_KILN_CACHE_REMOTE))
    kiln_fail(&err, KILN_STATUS_INVALID_ARGUMENT, "KILN_CACHE_REMOTE names no remote cache");
  else if (cache_open_remote_fault(why, sizeof why)) kiln_fail(&err, KILN_STATUS_INVALID_ARGUMENT, "%s", why);
  else become(words, &err);
  int code = cli_report(err.status, &err);
  kiln_cache_close(cache);
  return code;
}

int cache_command_push(int argc, char **argv) {
  const char *folder = NULL, *key = NULL;
  bool is_json = false;
  int64_t wait = 0;
  cli_list words = {0};
  kiln_error err = {0};
  const cli_option options[] = {
      {"cache-dir", 0, CLI_TEXT, &folder, "DIR", "folder of the cache (default: KILN_CACHE_DIR)"},
      {"json", 0, CLI_FLAG, &is_json, NULL, "print JSON"},
      {"sign", 0, CLI_INPUT, &key, "KEY", "of a bundle: sign it in the registry with this secret key"},
      {"wait", 0, CLI_COUNT, &wait, "SECONDS",
       "retry for that long if a server does not answer (0); of a bundle: how long each request may take "
       "(60)",
       MOST_WAIT_S}};
  const cli_page page = CLI_PAGE(
      "kiln cache push [--wait=SECONDS] [--sign=KEY] [BUNDLE oci://HOST/NAME[:TAG]]",
      "Uploads what waits for the remote cache, and ends when that is done. Exit code 1 when some of it "
      "still waits or will never\nbe taken. With a bundle and an address: uploads the bundle to a registry "
      "of containers, as an OCI artifact. oci+http:// is\nplain http.",
      options);
  int code = cli_parse(&page, argc, argv, &words);
  if (code == -1 && words.count && words.count != 2)
    code = cli_usage(&page, "expected no words, or a bundle and an address, found %zu", words.count);
  if (code == -1 && key && !words.count) code = cli_usage(&page, "--sign: expected a bundle and an address");
  if (code == -1 && !words.count) code = push_waiting(folder, wait, is_json);
  if (code == -1) {
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%lld", (long long)(wait ? wait : REQUEST_S));
    const char *list[] = {NULL,           "push-bundle",  seconds, is_json ? "json" : "text", key ? key : "-",
                          words.items[0], words.items[1], NULL};
    become(list, &err);
    code = cli_report(err.status, &err);
  }
  cli_list_deinit(&words);
  return code;
}

int cache_command_pull(int argc, char **argv) {
  const char *output = NULL;
  bool is_json = false;
  int64_t wait = REQUEST_S;
  cli_list words = {0}, keys = {0};
  kiln_error err = {0};
  const cli_option options[] = {
      {"json", 0, CLI_FLAG, &is_json, NULL, "print JSON"},
      {"output", 'o', CLI_OUTPUT, &output, "FILE", "where the bundle goes"},
      {"trust", 0, CLI_INPUTS, &keys, "FILE",
       "public key; one of those given must have signed the bundle in the registry"},
      {"wait", 0, CLI_COUNT, &wait, "SECONDS", "how long each request may take (60)", MOST_WAIT_S}};
  const cli_page page =
      CLI_PAGE("kiln cache pull [--trust=FILE.pub]... -o FILE oci://HOST/NAME[:TAG | @sha256:DIGEST]",
               "Fetches a bundle from a registry of containers. The file is written once all digests are "
               "right and, with "
               "--trust, a signature.\noci+http:// is plain http.",
               options);
  int code = cli_parse_one(&page, argc, argv, "address", &words);
  if (code == -1 && !output) code = cli_usage(&page, "-o: expected a file");
  if (code == -1 && keys.count > MOST_KEYS)
    code = cli_usage(&page, "--trust: expected at most %d keys, found %zu", MOST_KEYS, keys.count);
  if (code == -1) {
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%lld", (long long)wait);
    const char *list[6 + MOST_KEYS + 1] = {NULL,   "pull-bundle", seconds, is_json ? "json" : "text",
                                           output, words.items[0]};
    for (size_t i = 0; i < keys.count; i++) list[6 + i] = keys.items[i];
    become(list, &err);
    code = cli_report(err.status, &err);
  }
  cli_list_deinit(&words);
  cli_list_deinit(&keys);
  return code;
}
