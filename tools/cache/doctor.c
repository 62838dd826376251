// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln cache doctor: prints a line for each thing that a cache needs.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fs.h"
#include "cache/usage.h"
#include "tools/cache/commands.h"
#include "tools/kiln/environment.h"
#include "tools/cache/trusted_keys.h"
#include "tools/cache/open.h"
#include "tools/kiln/toolchain.h"

/// About how many entries are read in a large store.
enum { SAMPLED = 2000 };

typedef struct checkup {
  kiln_buffer out;
  bool json, first, bad;
} checkup;

static void report_check(checkup *c, bool good, const char *what, const char *detail) {
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

static void report_errno(checkup *c, int e, const char *what, const char *good) {
  report_check(c, e >= 0, what, e >= 0 ? good : strerror(-e));
}

/// Checks nameless files, locks and links, which the fast paths need. None is required; missing ones are
/// reported.
static void check_file_system(checkup *c, kiln_store *store, const kiln_limits *limits) {
  struct statfs fs;
  uint64_t is_free, reserve;
  char text[160];
  bool is_short = kiln_store_short(store, limits, &is_free, &reserve);
  if (!fstatfs(store->fd, &fs)) {
    snprintf(text, sizeof text, "type 0x%lx, %" PRIu64 " MiB free, %" PRIu64 " MiB are to stay free%s",
             (unsigned long)fs.f_type, is_free >> 20, reserve >> 20,
             is_short ? ": new entries go at once (KILN_CACHE_MIN_FREE)" : "");
    report_check(c, !is_short, "file system", text);
  }
  int fd = kiln_fs_open(store->fd, ".", O_TMPFILE | O_WRONLY, 0600);
  report_errno(c, fd, "nameless files", "yes");
  if (fd >= 0) {
    int e = kiln_fs_link_open(fd, store->fd, "doctor");
    report_errno(c, e, "naming them", "yes");
    if (!e) kiln_fs_unlink(store->fd, "doctor");
    kiln_fs_close(fd);
  }
  int a = kiln_store_open_own(store, "lock", O_RDWR | O_CREAT),
      b = kiln_fs_open(store->fd, "lock", O_RDWR, 0);
  int first = a < 0 ? a : kiln_fs_lock(a, INT64_MAX - 8, 1),
      second = b < 0 ? b : kiln_fs_lock(b, INT64_MAX - 8, 1);
  report_check(c, !first && second == -EAGAIN, "locks",
               !first && second == -EAGAIN ? "they exclude"
               : first                     ? strerror(-first)
                                           : "two holders at once");
  if (a >= 0) kiln_fs_close(a);
  if (b >= 0) kiln_fs_close(b);
}

/// If the umask of a member removed the group's write permission from a folder, the other members can only
/// read it.
static void check_sharing(checkup *c, kiln_store *store) {
  struct stat root, own;
  if (!store->shared || stat(store->root, &root) || kiln_fs_stat(store->fd, &own)) return;
  bool lost = root.st_mode & S_IWGRP && !(own.st_mode & S_IWGRP);
  char text[160];
  snprintf(text, sizeof text, "mode %04o in a folder of mode %04o%s", (unsigned)own.st_mode & 07777,
           (unsigned)root.st_mode & 07777,
           lost ? ": other members of the group only read it (umask 002, chmod -R g+w)" : "");
  report_check(c, true, "sharing", text);
}

/// Reads a program again: a disk may corrupt bytes without a change of the file's mark, under which the
/// digest is remembered.
static void check_tool(checkup *c, const char *what, const toolchain_program *tool) {
  kiln_digest digest;
  kiln_file_mark mark;
  kiln_error err = {0};
  if (tool->fd < 0) return;
  bool read = kiln_cache_file_digest(NULL, tool->fd, tool->extent, &mark, &digest, &err) == KILN_OK;
  bool same = read && !memcmp(digest.bytes, tool->digest.bytes, sizeof digest.bytes);
  report_check(c, same, what,
               same   ? tool->path
               : read ? "its content is not what it was, under the same times"
                      : err.text);
}

/// What a build starts. kiln-remote does not come with every installation.
static void check_programs(checkup *c) {
  static const char *const needed[] = {"kiln-codegen", "kiln-tool"};
  kiln_error err = {0};
  char path[4096];
  bool good = true;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    if (cli_need_program(needed[i], path, sizeof path, &err) == KILN_OK) continue;
    report_check(c, false, "programs", err.text);
    good = false;
  }
  kiln_status status = cli_need_program("kiln-remote", path, sizeof path, &err);
  if (status == KILN_STATUS_DENIED) report_check(c, false, "programs", err.text);
  else if (good)
    report_check(c, true, "programs",
                 status ? "kiln-codegen, kiln-tool; without kiln-remote, so without remote caches"
                        : "kiln-codegen, kiln-tool, kiln-remote");
}

static void check_tools(checkup *c, kiln_cache *cache) {
  toolchain who;
  kiln_codegen_options options;
  kiln_error err = {0};
  kiln_codegen_options_init(&options);
  if (toolchain_find(&who, &options, true, true, cache, &err) != KILN_OK)
    report_check(c, false, "tools", err.text);
  check_tool(c, "code generator", &who.compiler);
  check_tool(c, "assembler", &who.assembler);
}

/// Checks the remote settings locally, then prints what each server answers to a look-up and, where builds upload,
/// to an upload; with `fleet`, what that server does as `kiln build --fleet` wants it.
static void check_remote(checkup *c, const kiln_store *store, const char *fleet) {
  char text[8192], program[4096];
  const char *space = strchr(store->folder, '.') + 1;
  bool writes = fleet || environment_flag(ENV_KILN_CACHE_REMOTE_WRITE, false);
  if (!fleet && !environment_get(ENV_KILN_CACHE_REMOTE)) return;
  if (!fleet && cache_open_remote_fault(text, sizeof text)) {
    report_check(c, false, "remote caches", text);
    return;
  }
  int out[2];
  if (!cli_find_program("kiln-remote", program, sizeof program, NULL) || pipe2(out, O_CLOEXEC)) return;
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    dup2(out[1], 1);
    const char *words[] = {program,
                           "check",
                           "--store",
                           store->root,
                           "--domain",
                           store->domain,
                           "--space",
                           space,
                           "--lease-ms",
                           fleet ? "1000" : "0",
                           writes ? "--write" : NULL,
                           NULL};
    if (fleet) setenv("KILN_CACHE_REMOTE", fleet, 1);
    char *clean[KILN_ENV_MOST + 1];
    kiln_env_for(KILN_ENV_HELPER, environ, clean); // has the address
    execve(program, (char **)(uintptr_t)words, clean);
    _exit(127);
  }
  close(out[1]);
  FILE *answers = fdopen(out[0], "r");
  unsigned count = 0;
  while (answers && fgets(text, sizeof text, answers)) { // "ok URL: text"
    text[strcspn(text, "\n")] = 0;
    char *rest = strchr(text, ' ');
    report_check(c, !strncmp(text, "ok ", 3), fleet ? "fleet" : "remote cache", rest ? rest + 1 : text);
    count++;
  }
  if (answers) fclose(answers);
  if (pid > 0) waitpid(pid, NULL, 0);
  if (!count) report_check(c, false, "remote caches", "kiln-remote says nothing of them");
}

/// Reads every entry; in a large store only some, which change from second to second.
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
  report_check(c, !report.bad, "entries", text);
  report_check(c, !report.folders, "folders of entries", report.folders ? report.folder : "all can be read");
}

int cache_command_doctor(int argc, char **argv) {
  cache_tool tool = {0};
  const char *fleet = NULL;
  const cli_option options[] = {
      CACHE_TOOL_OPTIONS(&tool),
      {"fleet", 0, CLI_TEXT, &fleet, "redis://...",
       "ask this server, too, as `kiln build --fleet` would: a look-up, an upload and a lease"}};
  const cli_page page =
      CLI_PAGE("kiln cache doctor [--fleet=redis://...] [--json]",
               "Checks folder, permissions, locks, file system and settings, and asks each remote cache: a "
               "look-up and,\n"
               "with KILN_CACHE_REMOTE_WRITE, an upload of a few bytes. Exit code 1 when something is bad.",
               options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  if (code != -1) return cache_tool_end(&tool, code);
  checkup c = {.json = tool.json, .first = true};
  char text[4096 + 200];
  if (tool.json) kiln_buffer_format(&c.out, "[");
  snprintf(text, sizeof text, "%s/%s", tool.store->root, tool.store->folder);
  report_check(&c, true, "folder", text);
  report_errno(&c, kiln_store_make(tool.store), "writable", "yes");
  kiln_limits limits = kiln_cache_limits(tool.cache);
  if (tool.store->fd >= 0) check_file_system(&c, tool.store, &limits);
  if (tool.store->fd >= 0) check_sharing(&c, tool.store);
  check_programs(&c);
  check_tools(&c, tool.cache);
  const char *trust = cache_open_trust_file(text, sizeof text);
  cache_trust_list list;
  kiln_error err = {0};
  kiln_status status = trust ? cache_trust_read(trust, &list, &err) : KILN_OK;
  bool lacks = !status && trust && access(trust, F_OK);
  const char *policy = environment_get(ENV_KILN_TRUST);
  bool required = policy && strcmp(policy, "off");
  report_check(&c, !status && !(required && (lacks || !trust)), "trusted keys",
               status   ? err.text
               : !trust ? "no list"
               : lacks  ? "there is no list yet"
                        : trust);
  for (size_t at = 0; environment_next_misspelt(&at, text, sizeof text);)
    report_check(&c, false, "settings", text);
  check_entries(&c, tool.store);
  check_remote(&c, tool.store, NULL);
  if (fleet) check_remote(&c, tool.store, fleet);
  if (tool.json) kiln_buffer_format(&c.out, "\n]\n");
  cache_print(&c.out);
  return cache_tool_end(&tool, c.bad ? CLI_FAILED : CLI_OK);
}
