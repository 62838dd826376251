// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests a store that several users share: its folder and each user's umask decide who may write into it,
// and where everybody may write nothing is believed.
#include "tests/cache/common.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 6000, ENTRIES = 12, MEMBER = 2001, SECOND = 2002, OUTSIDER = 3003, GROUP = 5000 };

static mode_t parent_mode, mask;
static bool for_everybody;
static unsigned seen;

static kiln_cache_config shared_in(const char *root) {
  kiln_cache_config config = config_in(root);
  config.shared = true;
  config.world_writable = for_everybody;
  return config;
}

/// Runs `work` as a user with one group; its result.
static int as(unsigned user, unsigned group, int (*work)(const char *), const char *root) {
  pid_t child = fork();
  if (!child) {
    if (setgid(group) || setuid(user)) _exit(99);
    umask(mask);
    _exit(work(root));
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

/// How many of the entries are there; those that are not are put.
static int use(const char *root) {
  kiln_cache_config config = shared_in(root);
  kiln_cache *cache;
  int hits = 0;
  if (kiln_cache_open(&config, &cache, NULL)) return 97;
  for (unsigned i = 0; i < ENTRIES; i++) {
    kiln_key key = key_number(i);
    bool hit = get_size(cache, &key, SIZE);
    hits += hit;
    if (!hit) (void)put_size(cache, &key, SIZE);
    kiln_key_deinit(&key);
  }
  kiln_cache_close(cache);
  return hits;
}

/// Each thing in the store, by the rules alone: not more than the parent's rights, none of the umask, no
/// right to write for everybody; the group's right only where it is the parent's group.
static int check_rights(const char *path, const struct stat *st, int type, struct FTW *where) {
  (void)type;
  if (!where->level) return 0; // the parent itself
  mode_t mode = st->st_mode & 0777;
  seen++;
  if (mode & mask & 077) FAIL("%s has mode %o in spite of umask %o", path, mode, mask);
  if (mode & 077 & ~parent_mode) FAIL("%s has mode %o in a folder of mode %o", path, mode, parent_mode);
  if (mode & 02 && !for_everybody) FAIL("%s has mode %o", path, mode);
  if (mode & 020 && st->st_gid != GROUP) FAIL("%s may be written by group %u", path, (unsigned)st->st_gid);
  if (S_ISDIR(st->st_mode) && parent_mode & S_ISGID && !(st->st_mode & S_ISGID))
    FAIL("%s has no setgid bit", path);
  return 0;
}

TEST(shared, rights_are_of_the_parent_and_the_umask) {
  uint64_t seed = 20261126;
  if (geteuid()) SKIP("only root can be several users");
  printf("seed %llu\n", (unsigned long long)seed);
  for (unsigned n = 0; n < 60; n++) {
    char root[300], deep[400];
    snprintf(root, sizeof root, "%s/%u", kiln_test_folder(), n);
    snprintf(deep, sizeof deep, "%s/some/where", root);
    CHECK(!chmod(kiln_test_folder(), 0755));
    mode_t drawn = (mode_t)kiln_test_random(&seed);
    for_everybody = n % 4 == 3;
    parent_mode = 0770 | (drawn & (for_everybody ? 02007 : 02005));
    mask = (mode_t)kiln_test_random(&seed) & 077;
    CHECK(!mkdir(root, 0700) && !chown(root, 0, GROUP) && !chmod(root, parent_mode));
    bool other_group = kiln_test_random(&seed) % 3 == 0 && parent_mode & S_ISGID;
    // Who is of another group can write here as root only; the new things are of the parent's group by
    // setgid.
    CHECK_INT(other_group ? as(0, OUTSIDER, use, deep) : as(MEMBER, GROUP, use, deep), 0);
    seen = 0;
    CHECK(!nftw(root, check_rights, 16, FTW_PHYS));
    if (seen < ENTRIES) FAIL("%u things in a store with parent %o and umask %o", seen, parent_mode, mask);
    // A second member reads what the first one let the group read.
    bool readable = !(mask & 050);
    if (readable && !other_group) CHECK_INT(as(SECOND, GROUP, use, deep), ENTRIES);
  }
  for_everybody = false;
}

/// Members with umask 002 in a setgid folder: both write, both read.
TEST(shared, members_of_a_group_share_it) {
  char root[300];
  if (geteuid()) SKIP("only root can be several users");
  snprintf(root, sizeof root, "%s/r", kiln_test_folder());
  CHECK(!chmod(kiln_test_folder(), 0755) && !mkdir(root, 0700) && !chown(root, 0, GROUP) &&
        !chmod(root, 02775));
  mask = 002;
  CHECK_INT(as(MEMBER, GROUP, use, root), 0);
  CHECK_INT(as(SECOND, GROUP, use, root), ENTRIES);
  CHECK_INT(kiln_test_run(NULL, "rm -rf %s/v1/main.default/entries/*", root), 0);
  CHECK_INT(as(SECOND, GROUP, use, root), 0);
  CHECK_INT(as(MEMBER, GROUP, use, root), ENTRIES);
  CHECK_INT(as(OUTSIDER, OUTSIDER, use, root), ENTRIES); // reading is for all here
}

/// Where a member's umask took the group's right away, the doctor says so.
TEST(shared, the_doctor_says_who_may_write) {
  const char *folder = kiln_test_folder();
  char *out, program[300];
  snprintf(program, sizeof program, "%s/bin/kiln", kiln_test_build());
  if (access(program, X_OK)) SKIP("%s is not built", program);
  for (unsigned i = 0; i < 2; i++) {
    kiln_test_run(&out,
                  "mkdir -p %s/%u && chmod 2775 %s/%u && umask %s && KILN_CACHE_SHARED=1 "
                  "KILN_CACHE_DIR=%s/%u %s cache doctor",
                  folder, i, folder, i, i ? "022" : "002", folder, i, program);
    bool told = strstr(out, "other members of the group only read it") != NULL;
    bool shown =
        strstr(out, i ? "sharing: mode 2755 in a folder of mode 2775" : "sharing: mode 2775 in") != NULL;
    if (!shown || told != i) FAIL("%s", out);
    free(out);
  }
}

/// Whichever folder everybody may write into, nothing of it is believed: neither a store nor an entry.
TEST(shared, what_everybody_may_write_is_not_believed) {
  static const struct {
    const char *path;
    bool sticky_is_fine;
  } rows[] = {{"", true},
              {"/up", true},
              {"/up/store", false},
              {"/up/store/v1", false},
              {"/up/store/v1/main.default", false},
              {"/up/store/v1/main.default/entries", false},
              {"/up/store/v1/main.default/staging", false},
              {"/up/store/v1/main.default/quarantine", false},
              {"/up/store/v1/main.default/entries/*", false},
              {"/up/store/v1/main.default/entries/*/*", false}};
  const char *folder = kiln_test_folder();
  char root[300];
  snprintf(root, sizeof root, "%s/up/store", folder);
  CHECK_INT(kiln_test_run(NULL, "chmod 755 %s && mkdir -p %s && chmod 2775 %s", folder, root, root), 0);
  umask(mask = 002);
  CHECK_INT(use(root), 0);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    for (unsigned sticky = 0; sticky < 2; sticky++) {
      CHECK_INT(use(root), ENTRIES);
      CHECK_INT(kiln_test_run(NULL, "chmod o+w%s %s%s", sticky ? ",+t" : "", folder, rows[i].path), 0);
      kiln_cache_config config = shared_in(root), reader = config_in(NULL);
      kiln_cache *cache = NULL, *layered = NULL;
      kiln_error err = {0};
      bool fine = sticky && rows[i].sticky_is_fine;
      reader.shared = true;
      reader.layers[0] = root;
      bool opened = !kiln_cache_open(&config, &cache, &err),
           as_layer = !kiln_cache_open(&reader, &layered, NULL);
      if (!opened && !strstr(err.text, "KILN_CACHE_WORLD_WRITABLE")) FAIL("%s: %s", rows[i].path, err.text);
      for (unsigned k = 0; k < ENTRIES; k++) {
        kiln_key key = key_number(k);
        if (opened && get_size(cache, &key, SIZE) != fine) FAIL("%s: entry %u: %d", rows[i].path, k, !fine);
        if (as_layer && get_size(layered, &key, SIZE) != fine) FAIL("%s: layer, entry %u", rows[i].path, k);
        kiln_key_deinit(&key);
      }
      kiln_cache_close(cache);
      kiln_cache_close(layered);
      if (fine && !opened) FAIL("%s with a sticky bit: %s", rows[i].path, err.text);
      for_everybody = true;
      CHECK_INT(use(root), ENTRIES); // who asks for it
      for_everybody = false;
      CHECK_INT(kiln_test_run(NULL, "chmod o-w,-t %s%s", folder, rows[i].path), 0);
    }
}
