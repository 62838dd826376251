// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln cache sign, keygen, trust, doctor.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/usage.h"
#include "tools/kiln/cache_commands.h"
#include "tools/kiln/cache_environment.h"
#include "tools/kiln/cache_keys.h"
#include "tools/kiln/cache_session.h"
#include "tools/kiln/identity.h"

int cache_command_sign(int argc, char **argv) {
  cache_tool tool = {0};
  const char *path = environment_get(ENV_KILN_SIGN_KEY);
  const cli_option options[] = {
      CACHE_TOOL_OPTIONS(&tool),
      {"key", 'k', CLI_TEXT, &path, "FILE", "the secret key (default: KILN_SIGN_KEY)"}};
  const cli_page page = {"kiln cache sign [--key=FILE] [KEY]",
                         "Adds a signature to every entry, or to the one named. Entries may have up to 16.",
                         options,
                         3,
                         NULL,
                         NULL,
                         NULL};
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
  const cli_page page = {"kiln cache keygen [--name=NAME] FILE",
                         "Makes a key pair: FILE (secret, mode 0600) and FILE.pub.",
                         options,
                         1,
                         NULL,
                         NULL,
                         NULL};
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

static kiln_status change(cache_trust_list *list, const char *name, const uint8_t *key, const char *domains,
                          bool revoke, kiln_error *err) {
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
  if (!*name || strlen(name) >= sizeof k->name || strlen(domains) >= sizeof k->domains ||
      strpbrk(name, " \t\n#") || strpbrk(domains, " \t\n#"))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "name and domains: expected words of at most %zu and %zu bytes", sizeof k->name - 1,
                     sizeof k->domains - 1);
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
  const cli_page page = {"kiln cache trust [list | add NAME FILE.pub | revoke NAME]",
                         "Lists, adds or revokes trusted keys.",
                         options,
                         3,
                         NULL,
                         NULL,
                         NULL};
  int code = cli_parse(&page, argc, argv, &words);
  if (code != -1) return code;
  kiln_error err = {0};
  cache_trust_list list;
  uint8_t key[KEY_FILE_PUBLIC];
  const char *verb = words.count ? words.items[0] : "list";
  bool show = !strcmp(verb, "list") && words.count <= 1, add = !strcmp(verb, "add") && words.count == 3,
       revoke = !strcmp(verb, "revoke") && words.count == 2;
  if (!show && !add && !revoke) return cli_usage(&page, "expected list, add NAME FILE.pub or revoke NAME");
  if (!file) file = cache_session_trust_file(storage, sizeof storage);
  if (!file) return cli_usage(&page, "no file for the list: give --file or set KILN_TRUST_FILE");
  kiln_status status = cache_trust_read(file, &list, &err);
  if (!status && show) print_trust(&list, json);
  if (!status && add) status = key_file_public(words.items[2], key, &err);
  if (!status && !show) status = change(&list, words.items[1], key, domains, revoke, &err);
  if (!status && !show) status = cache_trust_write(file, &list, &err);
  cli_list_deinit(&words);
  return status ? cli_report(status, &err) : CLI_OK;
}

// ------------------------------------------------------------------------------------------ doctor

/// About how many entries of a large store are read.
enum { SAMPLED = 2000 };

typedef struct checkup {
  kiln_buffer out;
  bool json, first, bad;
} checkup;

static void note(checkup *c, bool good, const char *what, const char *detail) {
  c->bad |= !good;
  if (!c->json) {
    kiln_buffer_format(&c->out, "%-4s %s: %s\n", good ? "ok" : "BAD", what, detail);
    return;
  }
  kiln_buffer_format(&c->out, "%s\n {\"check\": \"%s\", \"good\": %s, \"detail\": ", c->first ? "" : ",",
                     what, good ? "true" : "false");
  cli_json_text(&c->out, detail);
  kiln_buffer_format(&c->out, "}");
  c->first = false;
}

static void note_errno(checkup *c, int e, const char *what, const char *good) {
  note(c, e >= 0, what, e >= 0 ? good : strerror(-e));
}

/// Nameless files, locks, links: what the fast and careful paths need. None is necessary; what is missing is
/// said.
static void check_file_system(checkup *c, kiln_store *store, const kiln_limits *limits) {
  struct statfs fs;
  uint64_t free_bytes, free_files, size;
  char text[160];
  if (!fstatfs(store->fd, &fs) && !kiln_fs_space(store->fd, &free_bytes, &free_files, &size)) {
    uint64_t reserve = kiln_limits_reserve(limits, size);
    snprintf(text, sizeof text, "type 0x%lx, %" PRIu64 " MiB free, %" PRIu64 " MiB are to stay free%s",
             (unsigned long)fs.f_type, free_bytes >> 20, reserve >> 20,
             free_bytes < reserve ? ": new entries go at once (KILN_CACHE_MIN_FREE)" : "");
    note(c, free_bytes >= reserve, "file system", text);
  }
  int fd = kiln_fs_open(store->fd, ".", O_TMPFILE | O_WRONLY, 0600);
  note_errno(c, fd, "nameless files", "yes");
  if (fd >= 0) {
    int e = kiln_fs_link_open(fd, store->fd, "doctor");
    note_errno(c, e, "naming them", "yes");
    if (!e) kiln_fs_unlink(store->fd, "doctor");
    kiln_fs_close(fd);
  }
  int a = kiln_fs_open(store->fd, "lock", O_RDWR | O_CREAT, 0600),
      b = kiln_fs_open(store->fd, "lock", O_RDWR, 0);
  int first = a < 0 ? a : kiln_fs_lock(a, INT64_MAX - 8, 1),
      second = b < 0 ? b : kiln_fs_lock(b, INT64_MAX - 8, 1);
  note(c, !first && second == -EAGAIN, "locks",
       !first && second == -EAGAIN ? "they exclude"
       : first                     ? strerror(-first)
                                   : "two holders at once");
  if (a >= 0) kiln_fs_close(a);
  if (b >= 0) kiln_fs_close(b);
}

/// Reads a tool again: a disk may change bytes without a trace in what the digest is remembered under.
static void check_tool(checkup *c, const char *what, const identity_tool *tool) {
  kiln_digest digest;
  kiln_file_mark mark;
  kiln_error err = {0};
  if (tool->fd < 0) return;
  bool read = kiln_cache_file_digest(NULL, tool->fd, &mark, &digest, &err) == KILN_OK;
  bool same = read && !memcmp(digest.bytes, tool->digest.bytes, sizeof digest.bytes);
  note(c, same, what,
       same   ? tool->path
       : read ? "its content is not what it was, under the same times"
              : err.text);
}

static void check_tools(checkup *c, kiln_cache *cache) {
  identity who;
  kiln_codegen_options options;
  kiln_error err = {0};
  kiln_codegen_options_init(&options);
  if (identity_find(&who, &options, true, true, cache, &err) != KILN_OK) note(c, false, "tools", err.text);
  check_tool(c, "code generator", &who.compiler);
  check_tool(c, "assembler", &who.assembler);
}

/// Reads every entry, of a large store some: others each second.
static void check_entries(checkup *c, kiln_store *store) {
  kiln_usage usage;
  kiln_scrub_report report;
  char text[160];
  if (kiln_usage_large(store, &usage)) {
    uint64_t shards = (uint64_t)KILN_STORE_SHARDS * SAMPLED / usage.files + 1;
    kiln_scrub_some(store, 2, (uint32_t)((uint64_t)time(NULL) * shards % KILN_STORE_SHARDS), (uint32_t)shards,
                    &report);
    snprintf(text, sizeof text,
             "%" PRIu64 " of %" PRIu64 " were read: %" PRIu64 " good, %" PRIu64
             " damaged; `kiln cache verify` reads all",
             report.good + report.bad, usage.files, report.good, report.bad);
  } else {
    kiln_scrub(store, 2, false, NULL, NULL, &report);
    snprintf(text, sizeof text, "%" PRIu64 " good, %" PRIu64 " damaged", report.good, report.bad);
  }
  note(c, !report.bad, "entries", text);
  note(c, !report.folders, "folders of entries", report.folders ? report.folder : "all can be read");
}

int cache_command_doctor(int argc, char **argv) {
  cache_tool tool = {0};
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool)};
  const cli_page page = {
      "kiln cache doctor [--json]",
      "Checks folder, permissions, locks, file system and settings. Exit code 1 when something is bad.",
      options,
      2,
      NULL,
      NULL,
      NULL};
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  if (code != -1) return cache_tool_end(&tool, code);
  checkup c = {.json = tool.json, .first = true};
  char text[4096 + 200];
  if (tool.json) kiln_buffer_format(&c.out, "[");
  snprintf(text, sizeof text, "%s/%s", tool.store->root, tool.store->folder);
  note(&c, true, "folder", text);
  note_errno(&c, kiln_store_make(tool.store), "writable", "yes");
  kiln_limits limits = kiln_cache_limits(tool.cache);
  if (tool.store->fd >= 0) check_file_system(&c, tool.store, &limits);
  check_tools(&c, tool.cache);
  const char *trust = cache_session_trust_file(text, sizeof text);
  cache_trust_list list;
  kiln_error err = {0};
  kiln_status status = trust ? cache_trust_read(trust, &list, &err) : KILN_OK;
  bool lacks = !status && trust && access(trust, F_OK);
  const char *policy = environment_get(ENV_KILN_TRUST);
  bool required = policy && strcmp(policy, "off");
  note(&c, !status && !(required && (lacks || !trust)), "trusted keys",
       status   ? err.text
       : !trust ? "no list"
       : lacks  ? "there is no list yet"
                : trust);
  check_entries(&c, tool.store);
  if (tool.json) kiln_buffer_format(&c.out, "\n]\n");
  cache_print(&c.out);
  return cache_tool_end(&tool, c.bad ? CLI_FAILED : CLI_OK);
}
