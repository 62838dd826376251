// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln cache sign, keygen, trust: signs entries, makes keys and lists those that are trusted.
#include <inttypes.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "tools/cache/commands.h"
#include "tools/kiln/environment.h"
#include "tools/cache/trusted_keys.h"
#include "tools/cache/open.h"

int cache_command_sign(int argc, char **argv) {
  cache_tool tool = {0};
  const char *path = environment_get(ENV_KILN_SIGN_KEY);
  const cli_option options[] = {
      CACHE_TOOL_OPTIONS(&tool),
      {"key", 'k', CLI_INPUT, &path, "FILE", "the secret key (default: KILN_SIGN_KEY)"}};
  const cli_page page = CLI_PAGE(
      "kiln cache sign [--key=FILE] [KEY]",
      "Adds a signature to every entry, or to the one named, whoever made it. With KILN_TRUST=require only "
      "what is trusted\nalready gets one. Entries may have up to 16.",
      options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 1);
  if (code != -1) return cache_tool_end(&tool, code);
  if (!path) return cache_tool_end(&tool, cli_usage(&page, "no secret key: give --key or set KILN_SIGN_KEY"));
  uint8_t secret[KEY_FILE_SECRET];
  kiln_digest only;
  kiln_error err = {0};
  kiln_status status = key_file_secret(path, secret, &err);
  if (!status && tool.words.count) status = cache_find_key(tool.store, tool.words.items[0], &only, &err);
  if (status) return cache_tool_end(&tool, cli_report(status, &err));
  uint64_t done, failed = kiln_sign_all(tool.store, tool.words.count ? &only : NULL, secret, &done);
  sodium_memzero(secret, sizeof secret);
  printf(tool.json ? "{\"signed\": %" PRIu64 ", \"failed\": %" PRIu64 "}\n"
                   : "%" PRIu64 " entries are signed, %" PRIu64 " could not be\n",
         done, failed);
  return cache_tool_end(&tool, failed ? CLI_FAILED : CLI_OK);
}

int cache_command_keygen(int argc, char **argv) {
  cli_list words = {0};
  const char *name = "default";
  const cli_option options[] = {
      {"name", 'n', CLI_TEXT, &name, "NAME", "what the key is called (default: default)"}};
  const cli_page page = CLI_PAGE("kiln cache keygen [--name=NAME] FILE",
                                 "Makes a key pair: FILE (secret, mode 0600) and FILE.pub.", options);
  int code = cli_parse(&page, argc, argv, &words);
  if (code != -1) return code;
  kiln_error err = {0};
  if (words.count != 1) return cli_usage(&page, "expected one file, found %zu", words.count);
  kiln_status status = key_file_make(words.items[0], name, &err);
  if (!status) printf("wrote %s and %s.pub\n", words.items[0], words.items[0]);
  cli_list_deinit(&words);
  return status ? cli_report(status, &err) : CLI_OK;
}

// ------------------------------------------------------------------------------------------- trust

static void print_trust(const cache_trust_list *list, bool json) {
  kiln_buffer out = {0};
  if (json) kiln_buffer_format(&out, "[");
  for (uint32_t i = 0; i < list->count; i++) {
    const kiln_trust_key *k = &list->keys[i];
    char digits[2 * KEY_FILE_PUBLIC + 1];
    sodium_bin2hex(digits, sizeof digits, k->public_key, KEY_FILE_PUBLIC);
    if (!json) {
      kiln_buffer_format(&out, "%-8s %-24s %s %s\n", k->revoked ? "revoked" : "trusted", k->name, digits,
                         k->domains);
      continue;
    }
    kiln_buffer_format(&out, "%s\n {\"name\": ", i ? "," : "");
    cli_json_text(&out, k->name);
    kiln_buffer_format(&out, ", \"key\": \"%s\", \"revoked\": %s, \"domains\": ", digits,
                       k->revoked ? "true" : "false");
    cli_json_text(&out, k->domains);
    kiln_buffer_format(&out, "}");
  }
  if (json) kiln_buffer_format(&out, "\n]\n");
  cache_print(&out);
}

/// "*", or names that a cache's domain may have (kiln_cache_open), with commas between.
static bool are_domains(const char *list) {
  if (!strcmp(list, "*")) return true;
  for (size_t length;; list += length + 1) {
    length = strspn(list, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (!length || length > 40 || (list[length] && list[length] != ',')) return false;
    if (!list[length]) return true;
  }
}

static kiln_status change_list(cache_trust_list *list, const char *name, const uint8_t *key,
                               const char *domains, bool revoke, kiln_error *err) {
  uint32_t i = 0;
  while (i < list->count && strcmp(list->keys[i].name, name)) i++;
  kiln_trust_key *k = &list->keys[i];
  if (revoke) {
    if (i == list->count) return kiln_fail(err, KILN_STATUS_NOT_FOUND, "no trusted key is called %s", name);
    k->revoked = true;
    return KILN_OK;
  }
  if (i < list->count)
    return kiln_fail(err, KILN_STATUS_EXISTS, "a key called %s is in the list already", name);
  if (i == CACHE_TRUST_KEYS)
    return kiln_fail(err, KILN_STATUS_LIMIT, "the list has %d keys already", CACHE_TRUST_KEYS);
  if (!*name || strlen(name) >= sizeof k->name || strpbrk(name, " \t\r\n#"))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "expected a name of 1 to %zu bytes without blanks and '#', found '%s'",
                     sizeof k->name - 1, name);
  if (!are_domains(domains) || strlen(domains) >= sizeof k->domains)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "--domains: expected \"*\", or names of [a-z0-9_-]{1,40} with commas between, together "
                     "at most %zu bytes, found '%s'",
                     sizeof k->domains - 1, domains);
  memset(k, 0, sizeof *k);
  strcpy(k->name, name);
  strcpy(k->domains, domains);
  memcpy(k->public_key, key, KEY_FILE_PUBLIC);
  list->count++;
  return KILN_OK;
}

int cache_command_trust(int argc, char **argv) {
  cli_list words = {0};
  const char *domains = "main", *file = NULL;
  char storage[4096];
  bool json = false;
  const cli_option options[] = {{"domains", 0, CLI_TEXT, &domains, "LIST",
                                 "domains that the key may sign for, with commas; \"*\" for all (main)"},
                                {"file", 0, CLI_TEXT, &file, "FILE", "the list (default: KILN_TRUST_FILE)"},
                                {"json", 0, CLI_FLAG, &json, NULL, "print JSON"}};
  const cli_page page = CLI_PAGE("kiln cache trust [list | add NAME FILE.pub | revoke NAME]",
                                 "Lists, adds or revokes trusted keys.", options);
  int code = cli_parse(&page, argc, argv, &words);
  if (code != -1) return code;
  kiln_error err = {0};
  cache_trust_list list;
  uint8_t key[KEY_FILE_PUBLIC];
  const char *verb = words.count ? words.items[0] : "list";
  bool show = !strcmp(verb, "list") && words.count <= 1, add = !strcmp(verb, "add") && words.count == 3,
       revoke = !strcmp(verb, "revoke") && words.count == 2;
  if (!show && !add && !revoke) return cli_usage(&page, "expected list, add NAME FILE.pub or revoke NAME");
  if (!file) file = cache_open_trust_file(storage, sizeof storage);
  if (!file) return cli_usage(&page, "no file for the list: give --file or set KILN_TRUST_FILE");
  kiln_status status = cache_trust_read(file, &list, &err);
  if (!status && show) print_trust(&list, json);
  if (!status && add) status = key_file_public(words.items[2], key, &err);
  if (!status && !show) status = change_list(&list, words.items[1], key, domains, revoke, &err);
  if (!status && !show) status = cache_trust_write(file, &list, &err);
  cli_list_deinit(&words);
  return status ? cli_report(status, &err) : CLI_OK;
}
