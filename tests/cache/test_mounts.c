// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cache folders on overlayfs, as containers have them: an image brings a filled cache below, what is new goes
// above. And on NFS, where KILN_TEST_NFS names a folder of such a mount. The right bytes or a miss, one compile per
// key, the image unchanged.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/admin.h"
#include "cache/evict.h"
#include "tests/cache/common.h"

enum { SIZE = 5000, LARGE = 200000, IN_IMAGE = 6, PROCESSES = 12, COMPILE_MS = 200 };

static char lower[300], merged[300];

static bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY);
  bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) close(fd);
  return good;
}

/// A mount namespace of this process alone, as root or with a user namespace.
static bool leave_mounts(void) {
  char users[64], groups[64];
  snprintf(users, sizeof users, "0 %u 1", geteuid());
  snprintf(groups, sizeof groups, "0 %u 1", getegid());
  if (geteuid() ? unshare(CLONE_NEWUSER | CLONE_NEWNS) : unshare(CLONE_NEWNS)) return false;
  if (getuid() && (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", users) ||
                   !write_text("/proc/self/gid_map", groups)))
    return false;
  return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

enum { CANNOT = 77 };

/// lower/ has a cache with IN_IMAGE entries; merged/ is that with an upper folder, or without one.
static void mount_image(bool is_writable) {
  char options[1000], path[400];
  const char *folder = kiln_test_folder();
  snprintf(lower, sizeof lower, "%s/lower", folder);
  snprintf(merged, sizeof merged, "%s/merged", folder);
  kiln_test_run(NULL, "cd %s && mkdir lower empty upper work merged", folder);
  kiln_cache *cache = open_in(lower);
  for (unsigned i = 0; i < IN_IMAGE; i++) {
    kiln_key key = key_number(i);
    CHECK_INT(put_size(cache, &key, i % 2 ? LARGE : SIZE), KILN_OK);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(cache);
  snprintf(path, sizeof path, "%s/tool", lower);
  kiln_test_write(path, "tool of the image", 17);
  // An image is old: a hit would refresh the time of use.
  kiln_test_run(NULL, "find %s -type f -exec touch -d '3 days ago' {} +", lower);
  if (is_writable)
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, folder, folder);
  else snprintf(options, sizeof options, "lowerdir=%s:%s/empty", lower, folder);
  if (!leave_mounts() || mount("overlay", merged, "overlay", 0, options)) _exit(CANNOT);
}

/// Runs `body` in a process with mounts of its own: who has threads, as a test's process, gets no user namespace.
static void with_image(bool is_writable, void (*body)(void)) {
  int status;
  (void)kiln_test_folder(); // which this process removes
  pid_t child = fork();
  if (!child) {
    mount_image(is_writable);
    body();
    umount2(merged, MNT_DETACH);
    _exit(0);
  }
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) SKIP("overlayfs cannot be mounted here");
  CHECK_INT(status, 0);
}

/// All that lies below, with times and content.
static char *image_state(void) {
  char *out;
  kiln_test_run(&out, "cd %s && find . -type f -printf '%%p %%T@ ' -exec sha256sum {} \\; | sort", lower);
  return out;
}

static unsigned hits(kiln_cache *cache) {
  unsigned found = 0;
  for (unsigned i = 0; i < IN_IMAGE; i++) {
    kiln_key key = key_number(i);
    found += (unsigned)get_size(cache, &key, i % 2 ? LARGE : SIZE);
    kiln_key_deinit(&key);
  }
  return found;
}

/// What holds wherever the folder is: entries are stored, found by others and replaced when damaged; a sweep
/// removes them; one of many processes compiles.
static void use(const char *folder) {
  char path[400];
  kiln_scrub_report report;
  kiln_evict_report evicted;
  kiln_key key = key_of("new"), shared = key_of("shared");
  kiln_cache *cache = open_in(folder);
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  kiln_cache *other = open_in(folder);
  CHECK_INT(get_size(other, &key, SIZE), 1);
  entry_path(folder, &key, path, sizeof path);
  CHECK(!truncate(path, 300));
  kiln_cache_close(cache);
  cache = open_in(folder); // without the former's memory
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_scrub(kiln_cache_store(cache), 1, false, NULL, NULL, &report);
  CHECK_INT((int)report.bad + (int)report.folders, 0);

  _Atomic int *compiles =
      mmap(NULL, sizeof *compiles, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t children[PROCESSES];
  for (unsigned i = 0; i < PROCESSES; i++) {
    if ((children[i] = fork())) continue;
    kiln_cache *mine = open_in(folder);
    kiln_cache_claim claim = {-1};
    kiln_cache_entry entry;
    if (!kiln_cache_get(mine, &shared, &entry) && !kiln_cache_claim_key(mine, &shared, &claim, &entry)) {
      nanosleep(&(struct timespec){.tv_nsec = COMPILE_MS * 1000000L}, NULL);
      ++*compiles;
      put_size(mine, &shared, SIZE);
    }
    kiln_cache_release(&claim);
    _exit(get_size(mine, &shared, SIZE) ? 0 : 1);
  }
  for (unsigned i = 0; i < PROCESSES; i++) {
    int status;
    waitpid(children[i], &status, 0);
    CHECK_INT(status, 0);
  }
  CHECK_INT(*compiles, 1);

  kiln_evict_choice all = {.all = true};
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &all, NULL, NULL, &evicted);
  CHECK_INT((int)evicted.failed, 0);
  kiln_cache_close(cache);
  kiln_cache_close(other);
  cache = open_in(folder);
  CHECK_INT(get_size(cache, &key, SIZE) + (int)hits(cache), 0);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
  kiln_key_deinit(&shared);
}

static void use_overlay(void) {
  char *before = image_state();
  kiln_cache *cache = open_in(merged);
  CHECK_INT(hits(cache), IN_IMAGE);
  kiln_cache_close(cache);
  cache = open_in(merged); // after the hits have copied what they touched
  CHECK_INT(hits(cache), IN_IMAGE);
  kiln_cache_close(cache);
  use(merged);
  char *after = image_state();
  CHECK_TEXT(after, before);
  free(before);
  free(after);
}

TEST(mounts, overlay) { with_image(true, use_overlay); }

/// An entry of the image that is damaged is put aside and made anew, above.
static void try_damage_in_an_image(void) {
  char path[400];
  kiln_key key = key_number(0);
  entry_path(lower, &key, path, sizeof path);
  CHECK(!truncate(path, 300)); // the file that overlayfs has below, which nobody has opened yet
  kiln_cache *cache = open_in(merged);
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  CHECK_INT((int)hits(cache), IN_IMAGE - 1);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  CHECK_INT((int)hits(cache), IN_IMAGE);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(mounts, damage_in_an_image) { with_image(true, try_damage_in_an_image); }

/// Nothing above: an image's cache is read.
static void try_overlay_without_an_upper_folder(void) {
  kiln_cache *cache = open_in(merged);
  kiln_key key = key_of("new");
  CHECK_INT((int)hits(cache), IN_IMAGE);
  CHECK(put_size(cache, &key, SIZE) != KILN_OK);
  CHECK_INT((int)hits(cache), IN_IMAGE);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(mounts, overlay_without_an_upper_folder) { with_image(false, try_overlay_without_an_upper_folder); }

/// A program's digest is remembered by device, inode and times: a file of the image that is written to becomes another one.
static void try_digests_of_files_of_an_image(void) {
  char path[400];
  kiln_digest digests[3];
  kiln_file_mark mark;
  kiln_error err;
  snprintf(path, sizeof path, "%s/tool", merged);
  kiln_cache *cache = open_in(merged);
  for (unsigned i = 0; i < 3; i++) {
    if (i == 2)
      kiln_test_run(
          NULL,
          "cd $(dirname %s)/.. && touch -r %s time && printf 'tool of this day!' > %s && touch -r time %s",
          path, path, path, path);
    int fd = open(path, O_RDONLY);
    if (kiln_cache_file_digest(cache, fd, KILN_FILE_WHOLE, &mark, &digests[i], &err)) FAIL("%s", err.text);
    close(fd);
  }
  CHECK(!memcmp(digests[0].bytes, digests[1].bytes, sizeof digests[0].bytes));
  CHECK(memcmp(digests[0].bytes, digests[2].bytes, sizeof digests[0].bytes) != 0);
  kiln_cache_close(cache);
}

TEST(mounts, digests_of_files_of_an_image) { with_image(true, try_digests_of_files_of_an_image); }

TEST(mounts, of_the_tests_themselves) { use(kiln_test_folder()); }

TEST(mounts, nfs) {
  char folder[400];
  folder_on_nfs("KILN_TEST_NFS", folder, sizeof folder);
  use(folder);
  kiln_test_run(NULL, "rm -rf %s", folder);
}

/// One folder as two clients see it, who share nothing but the server (tests/cache/nfs.sh).
static char seen[2][400];

static void folder_of_two_clients(void) {
  folder_on_nfs("KILN_TEST_NFS", seen[0], sizeof seen[0]);
  folder_on_nfs("KILN_TEST_NFS_OTHER", seen[1], sizeof seen[1]);
}

static int get_afresh(const char *folder, const kiln_key *key) {
  kiln_cache *cache = open_in(folder); // without another's memory
  int found = get_size(cache, key, SIZE);
  kiln_cache_close(cache);
  return found;
}

static void put_afresh(const char *folder, const kiln_key *key) {
  kiln_cache *cache = open_in(folder);
  CHECK_INT(put_size(cache, key, SIZE), KILN_OK);
  kiln_cache_close(cache);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/// Until the other client's memory of a folder ends (acdirmax, 60 s).
static void find_within_a_minute(const char *folder, const kiln_key *key, int want, const char *what) {
  const double start = now();
  while (get_afresh(folder, key) != want) {
    if (now() - start > 70) FAIL("%s: not seen after 70 s", what);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  }
  printf("%s: seen after %.1f s\n", what, now() - start);
}

TEST(mounts, nfs_entries_of_the_other_client) {
  char path[500];
  folder_of_two_clients();
  kiln_key first = key_of("first"), key = key_of("asked for before");
  put_afresh(seen[0], &first);
  CHECK_INT(get_afresh(seen[1], &first), 1); // whose folders nobody has looked into
  CHECK_INT(get_afresh(seen[1], &key), 0);
  put_afresh(seen[0], &key);
  find_within_a_minute(seen[1], &key, 1, "an entry that was missing");

  // Damaged by one, put aside by the other, made again by the first.
  entry_path(seen[1], &key, path, sizeof path);
  CHECK(!truncate(path, 300));
  find_within_a_minute(seen[0], &key, 0, "damage");
  put_afresh(seen[0], &key);
  find_within_a_minute(seen[1], &key, 1, "the entry that replaces it");

  // Removed by one while the other has it open.
  entry_path(seen[0], &key, path, sizeof path);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  kiln_evict_report evicted;
  kiln_evict_choice all = {.all = true};
  kiln_cache *cache = open_in(seen[1]);
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &all, NULL, NULL, &evicted);
  CHECK_INT((int)evicted.failed, 0);
  kiln_cache_close(cache);
  printf("a removed entry is found: %d\n", get_afresh(seen[0], &key)); // as long as the client remembers it
  close(fd);
  put_afresh(seen[0], &key);
  CHECK_INT(get_afresh(seen[0], &key), 1);

  // All of the store is removed by one while the other uses it.
  cache = open_in(seen[0]);
  CHECK_INT(put_size(cache, &first, SIZE), KILN_OK);
  kiln_test_run(NULL, "rm -rf %s", seen[1]);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  kiln_cache_close(cache);
  CHECK_INT(get_afresh(seen[0], &key), 1);
  kiln_test_run(NULL, "rm -rf %s", seen[0]);
  kiln_key_deinit(&first);
  kiln_key_deinit(&key);
}

/// One of many processes of two clients compiles, where the server locks for both; one of each client where not.
TEST(mounts, nfs_one_compile_for_two_clients) {
  enum { KEYS = 4 };
  folder_of_two_clients();
  const char *locks = getenv("KILN_TEST_NFS_LOCKS");
  const int most = locks && !strcmp(locks, "own") ? 2 : 1;
  kiln_key first = key_of("first");
  put_afresh(seen[0], &first);
  CHECK_INT(get_afresh(seen[1], &first), 1);
  for (unsigned n = 0; n < KEYS; n++) {
    kiln_key key = key_number(n);
    _Atomic int *compiles =
        mmap(NULL, sizeof *compiles, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++) {
      if ((children[i] = fork())) continue;
      kiln_cache *mine = open_in(seen[i % 2]);
      kiln_cache_claim claim = {-1};
      kiln_cache_entry entry;
      if (!kiln_cache_get(mine, &key, &entry) && !kiln_cache_claim_key(mine, &key, &claim, &entry)) {
        nanosleep(&(struct timespec){.tv_nsec = COMPILE_MS * 1000000L}, NULL);
        ++*compiles;
        put_size(mine, &key, SIZE);
      }
      kiln_cache_release(&claim);
      _exit(get_size(mine, &key, SIZE) ? 0 : 1);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
      int status;
      waitpid(children[i], &status, 0);
      CHECK_INT(status, 0);
    }
    if (*compiles < 1 || *compiles > most) FAIL("key %u was compiled %d times", n, *compiles);
    kiln_key_deinit(&key);
  }
  kiln_test_run(NULL, "rm -rf %s", seen[0]);
  kiln_key_deinit(&first);
}

/// Processes of both clients put, get and evict the same few keys: right bytes or a miss, and no put that fails.
TEST(mounts, nfs_two_clients_at_once) {
  enum { KEYS = 16, ROUNDS = 60, USERS = 6 };
  folder_of_two_clients();
  pid_t children[USERS];
  for (unsigned i = 0; i < USERS; i++) {
    if ((children[i] = fork())) continue;
    uint64_t state = i + 1;
    for (unsigned n = 0; n < ROUNDS; n++) {
      kiln_key key = key_number((unsigned)(kiln_test_random(&state) % KEYS));
      kiln_cache *cache = open_in(seen[i % 2]);
      kiln_evict_report evicted;
      kiln_evict_choice all = {.all = true};
      if (n % 20 == 19)
        kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &all, NULL, NULL, &evicted);
      else if (!get_size(cache, &key, SIZE) && !stored(cache, &key, SIZE)) _exit(1);
      kiln_cache_close(cache);
      kiln_key_deinit(&key);
    }
    _exit(0);
  }
  for (unsigned i = 0; i < USERS; i++) {
    int status;
    waitpid(children[i], &status, 0);
    CHECK_INT(status, 0);
  }
  kiln_test_run(NULL, "test -z \"$(ls -A %s/v1/main.default/staging)\" && rm -rf %s", seen[0], seen[0]);
}
