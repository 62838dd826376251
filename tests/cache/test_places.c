// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts other things where a file or a folder of the store should be: pipes, sockets, folders, files, links,
// and folders that nobody may enter. Nothing hangs, the next put repairs it, and whoever looks is informed.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/admin.h"
#include "cache/internal.h"
#include "cache/usage.h"
#include "tests/cache/common.h"

enum { SIZE = 5000, SECONDS = 20 };

static void make_pipe(const char *path) { CHECK(!mkfifo(path, 0600)); }

static void make_folder(const char *path) {
  char inside[400];
  CHECK(!mkdir(path, 0700));
  snprintf(inside, sizeof inside, "%s/inside", path);
  kiln_test_write(inside, "x", 1);
}

static void make_file(const char *path) { kiln_test_write(path, "x", 1); }

static void make_socket(const char *path) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  char folder[400];
  // Names of sockets are short: it is made in the current folder and moved.
  snprintf(a.sun_path, sizeof a.sun_path, "/tmp/kiln-%ld", (long)getpid());
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a));
  close(fd);
  snprintf(folder, sizeof folder, "mv %s %s", a.sun_path, path);
  CHECK(!kiln_test_run(NULL, "%s", folder));
}

static const struct {
  const char *name;
  void (*make)(const char *path);
} kinds[] = {{"pipe", make_pipe}, {"socket", make_socket}, {"folder", make_folder}, {"file", make_file}};

/// Puts `kind` in the place of `name`, "" for the entry and "shard" for its folder; then one build's calls.
static void try_place(const char *folder, const char *name, unsigned kind) {
  char path[300];
  kiln_key key = key_of("a");
  kiln_test_run(NULL, "rm -rf %s/v1", folder);
  kiln_cache *cache = open_in(folder);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  kiln_cache_close(cache);
  entry_path(folder, &key, path, sizeof path);
  if (!strcmp(name, "shard")) *strrchr(path, '/') = 0;
  else if (*name) snprintf(path, sizeof path, "%s/v1/main.default/%s", folder, name);
  CHECK(!kiln_test_run(NULL, "rm -rf %s", path));
  kinds[kind].make(path);
  alarm(SECONDS);
  cache = open_in(folder);
  get_size(cache, &key, SIZE);
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  if (kiln_cache_claim_key(cache, &key, &claim, &entry)) kiln_cache_entry_deinit(&entry);
  kiln_status status = put_size(cache, &key, SIZE);
  kiln_cache_release(&claim);
  if (status != KILN_OK || !get_size(cache, &key, SIZE))
    FAIL("a %s in the place of '%s': the entry is not there after a put (%d)", kinds[kind].name, name,
         status);
  kiln_cache_step(cache);
  kiln_cache_close(cache);
  cache = open_in(folder);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_scrub_report report;
  kiln_scrub(kiln_cache_store(cache), 1, false, NULL, NULL, &report);
  if (report.good != 1 || report.bad || report.folders)
    FAIL("a %s in the place of '%s': %d good, %d bad", kinds[kind].name, name, (int)report.good,
         (int)report.bad);
  kiln_cache_close(cache);
  alarm(0);
  kiln_key_deinit(&key);
}

TEST(places, anything_in_any_place_is_set_right) {
  static const char *const names[] = {"",      "shard", "entries", "usage",
                                      "stats", "lock",  "staging", "quarantine"};
  const char *folder = kiln_test_folder();
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
      bool is_folder = !strcmp(names[n], "shard") || !strcmp(names[n], "entries") ||
                       !strcmp(names[n], "staging") || !strcmp(names[n], "quarantine");
      if (is_folder ? kinds[kind].make == make_folder : *names[n] && kinds[kind].make == make_file) continue;
      try_place(folder, names[n], kind);
    }
}

/// Before anything is written to it, a check says what is there.
TEST(places, a_check_names_what_is_no_entry) {
  const char *folder = kiln_test_folder();
  char path[300];
  kiln_key key = key_of("a");
  kiln_scrub_report report;
  for (unsigned kind = 0; kind < 3; kind++) {
    kiln_cache *cache = open_in(folder);
    CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
    entry_path(folder, &key, path, sizeof path);
    CHECK(!unlink(path));
    kinds[kind].make(path);
    alarm(SECONDS);
    kiln_scrub(kiln_cache_store(cache), 2, false, NULL, NULL, &report);
    CHECK_INT(report.bad, 1);
    kiln_scrub(kiln_cache_store(cache), 2, true, NULL, NULL, &report);
    CHECK_INT(report.removed, 1);
    kiln_scrub(kiln_cache_store(cache), 2, false, NULL, NULL, &report);
    CHECK_INT(report.bad, 0);
    kinds[kind].make(path);
    kiln_evict_report swept;
    kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){.all = true}, NULL,
                     NULL, &swept);
    CHECK_INT(swept.evicted_files, 1);
    CHECK_INT(swept.failed, 0);
    CHECK(access(path, F_OK));
    alarm(0);
    kiln_cache_close(cache);
  }
  kiln_key_deinit(&key);
}

/// In a process without root's rights.
static void run_in_closed_folder(const char *folder) {
  char path[300];
  kiln_key key = key_of("a");
  kiln_scrub_report report;
  kiln_evict_report swept;
  kiln_cache *cache = open_in(folder);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  entry_path(folder, &key, path, sizeof path);
  *strrchr(path, '/') = 0;
  CHECK(!chmod(path, 0));
  kiln_scrub(kiln_cache_store(cache), 2, false, NULL, NULL, &report);
  CHECK_INT(report.folders, 1);
  CHECK(strstr(report.folder, "entries/") && strstr(report.folder, "Permission denied"));
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){.all = true}, NULL, NULL,
                   &swept);
  CHECK_INT(swept.failed, 1);
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_scrub(kiln_cache_store(cache), 2, false, NULL, NULL, &report);
  CHECK_INT(report.folders, 0);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(places, a_folder_that_cannot_be_entered_is_named_and_opened) {
  const char *folder = kiln_test_folder();
  int how;
  if (geteuid()) {
    run_in_closed_folder(folder);
    return;
  }
  CHECK(!chown(folder, 12345, 12345));
  pid_t child = fork();
  if (!child) {
    if (setgid(12345) || setuid(12345)) _exit(1);
    run_in_closed_folder(folder);
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &how, 0) == child);
  CHECK_INT(how, 0);
}

/// The reserve of free space follows the file system: a small one keeps entries, too.
TEST(places, a_small_file_system_keeps_entries) {
  const char *folder = kiln_test_folder();
  kiln_cache_config config;
  if (kiln_test_run(NULL, "mount -t tmpfs -o size=64m none %s", folder)) SKIP("nothing can be mounted here");
  kiln_cache_config_init(&config);
  config.folder = folder;
  kiln_cache *cache = open_with(&config);
  kiln_key key[20];
  unsigned there = 0;
  for (unsigned i = 0; i < 20; i++) {
    key[i] = key_number(i);
    put_size(cache, &key[i], SIZE);
    kiln_cache_step(cache);
  }
  for (unsigned i = 0; i < 20; i++) there += (unsigned)get_size(cache, &key[i], SIZE);
  kiln_cache_close(cache);
  kiln_test_run(NULL, "umount %s", folder);
  CHECK_INT(there, 20);
  const kiln_limits limits = {.free_bytes = KILN_FREE_BY_SIZE}, fixed = {.free_bytes = 7};
  CHECK_INT(kiln_limits_reserve(&limits, (uint64_t)64 << 20), ((uint64_t)64 << 20) / 50);
  CHECK_INT(kiln_limits_reserve(&limits, (uint64_t)1 << 40), (uint64_t)256 << 20);
  CHECK_INT(kiln_limits_reserve(&fixed, (uint64_t)1 << 40), 7);
}

static void use_shared(const char *folder, unsigned first) {
  umask(002);
  kiln_cache_config config = config_in(folder);
  config.shared = true;
  kiln_cache *cache = open_with(&config);
  for (unsigned i = 0; i < 300; i++) { // in all folders of entries, also those that the other user made
    kiln_key key = key_number(i);
    CHECK_INT(get_size(cache, &key, 100), i < first);
    if (i >= first) CHECK_INT(put_size(cache, &key, 100), KILN_OK);
    kiln_key_deinit(&key);
  }
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_STORED), 300 - first);
  kiln_cache_close(cache);
}

TEST(places, a_shared_folder_is_the_second_users_too) {
  const char *folder = kiln_test_folder();
  char shared[300];
  int how;
  if (geteuid()) SKIP("only root can be two users");
  CHECK(!chown(folder, 0, 12345) && !chmod(folder, 02775)); // the group's
  snprintf(shared, sizeof shared, "%s/shared", folder);
  umask(002);
  kiln_cache_config config = config_in(shared);
  config.shared = true;
  kiln_cache *cache = open_with(&config);
  for (unsigned i = 0; i < 150; i++) {
    kiln_key key = key_number(i);
    CHECK_INT(put_size(cache, &key, 100), KILN_OK);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(cache);
  pid_t child = fork();
  if (!child) {
    if (setgid(12345) || setuid(12345)) _exit(1);
    use_shared(shared, 150);
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &how, 0) == child);
  CHECK_INT(how, 0);
  use_shared(shared, 300); // and the first reads the second one's
  uint64_t sum = 0;
  cache = open_with(&config);
  kiln_usage usage;
  int fd = kiln_usage_lock(kiln_cache_store(cache), &usage);
  CHECK(fd >= 0);
  sum = usage.files;
  kiln_usage_unlock(fd);
  CHECK_INT(sum, 300);
  kiln_cache_close(cache);
}
