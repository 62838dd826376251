// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets every file call of the store fail in turn, with every error that it may have, once and permanently:
// the caller gets the right bytes or a miss, the named counter goes up, and everything works again when the
// disk does. (fault tests 6 to 10, 12; behaviour 25)
#include "tests/cache/common.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/admin.h"

enum { KEYS = 3, SIZE = 9000 };

struct fault {
  kiln_fs_call call;
  int error;   ///< 0: make the call short instead
  unsigned at; ///< the call that fails, from 1
  bool for_ever;
  unsigned seen, hit;
};

static int inject(void *context, kiln_fs_call call, const char *path, size_t *size) {
  struct fault *f = context;
  (void)path;
  if (call != f->call) return 0;
  f->seen++;
  if (f->for_ever ? f->seen < f->at : f->seen != f->at) return 0;
  f->hit++;
  if (f->error) return f->error;
  if (size && *size > 1) *size = *size / 2;
  return 0;
}

static uint64_t stores(const kiln_cache *cache) {
  uint64_t sum = 0;
  for (unsigned o = KILN_OUTCOME_STORED; o <= KILN_OUTCOME_STORE_TOO_LARGE; o++)
    sum += kiln_cache_counted(cache, o);
  return sum;
}

static uint64_t failures(const kiln_cache *cache) {
  uint64_t sum = 0;
  for (unsigned o = KILN_OUTCOME_STORE_NO_SPACE; o <= KILN_OUTCOME_STORE_IO; o++)
    sum += kiln_cache_counted(cache, o);
  return sum;
}

/// What a build does with each key: look, claim, compile, put, release. The bytes it ends up with are
/// checked; the cache cannot fail it.
static void build(kiln_cache *cache, const kiln_key *keys) {
  for (unsigned i = 0; i < KEYS; i++) {
    kiln_cache_claim claim;
    kiln_cache_entry entry;
    if (get_size(cache, &keys[i], SIZE)) continue;
    if (kiln_cache_claim_key(cache, &keys[i], &claim, &entry)) {
      CHECK(right_bytes(&keys[i], &entry, SIZE));
      kiln_cache_entry_deinit(&entry);
    } else {
      uint64_t before = stores(cache), failed = failures(cache);
      kiln_status status = put_size(cache, &keys[i], SIZE);
      CHECK_INT(stores(cache), before + 1); // one of the counters, always
      CHECK((status == KILN_OK) == (failures(cache) == failed));
    }
    kiln_cache_release(&claim);
  }
}

static kiln_cache_config small_config(const char *folder) {
  kiln_cache_config config = config_in(folder);
  config.max_files = 2; // so that steps evict
  config.wait_ms = 50;
  config.min_free_bytes = 1;
  return config;
}

static void check_healthy(const char *folder, const kiln_key *keys) {
  kiln_cache_config config = config_in(folder);
  kiln_cache *cache = open_with(&config);
  build(cache, keys);
  for (unsigned i = 0; i < KEYS; i++) CHECK_INT(get_size(cache, &keys[i], SIZE), 1);
  kiln_evict_report report;
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){0}, NULL, NULL, &report);
  CHECK(!report.busy);
  kiln_cache_close(cache);
  char *out;
  kiln_test_run(&out, "ls %s/v1/main.default/staging", folder);
  CHECK_TEXT(out, "");
  free(out);
  kiln_test_run(NULL, "rm -rf %s", folder);
}

/// One run with one fault; false when the fault's call does not come up any more.
static bool run(const char *folder, const kiln_key *keys, struct fault *f) {
  kiln_cache_config config = small_config(folder);
  kiln_cache *cache;
  kiln_error err;
  char path[300];
  f->seen = f->hit = 0;
  config.durable = f->call == KILN_FS_SYNC; // slow on real disks
  cache = open_in(folder);                  // one damaged entry is there from the start
  put_size(cache, &keys[0], SIZE);
  put_size(cache, &keys[1], SIZE);
  kiln_cache_close(cache);
  entry_path(folder, &keys[1], path, sizeof path); // and one that was not used for a day
  CHECK(
      !utimensat(AT_FDCWD, path, (struct timespec[2]){{time(NULL) - 86400, 0}, {time(NULL) - 86400, 0}}, 0));
  entry_path(folder, &keys[0], path, sizeof path);
  unlink(path);
  kiln_test_write(path, "damaged", 7);
  kiln_fs_install(inject, f);
  if (kiln_cache_open(&config, &cache, &err) == KILN_OK) {
    build(cache, keys);
    kiln_cache_step(cache);
    build(cache, keys);
    kiln_cache_close(cache);
  }
  kiln_fs_install(NULL, NULL);
  check_healthy(folder, keys);
  return f->hit > 0;
}

static void sweep(bool for_ever) {
  static const struct {
    kiln_fs_call call;
    const char *name;
    int errors[8];
  } rows[] = {
#define FS_CALL(name, ...) {KILN_FS_##name, #name, {__VA_ARGS__}},
#include "base/fs.def"
#undef FS_CALL
  };
  char folder[256];
  kiln_key keys[KEYS];
  unsigned runs = 0;
  snprintf(folder, sizeof folder, "%s/c", kiln_test_folder());
  for (unsigned i = 0; i < KEYS; i++) keys[i] = key_number(i);
  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++)
    for (unsigned e = 0; rows[r].errors[e]; e++) {
      if (for_ever && rows[r].errors[e] == EINTR)
        continue; // a call that is interrupted for ever never ends, by definition
      struct fault f = {.call = rows[r].call, .error = rows[r].errors[e], .at = 1, .for_ever = for_ever};
      for (; run(folder, keys, &f); f.at += kiln_test_full() || f.at < 12 ? 1 : 5) runs++;
      if (f.at == 1) FAIL("call %s never came up", rows[r].name);
    }
  printf("%u runs with an injected error\n", runs);
  CHECK(runs > 100);
  for (unsigned i = 0; i < KEYS; i++) kiln_key_deinit(&keys[i]);
}

TEST(faults, each_call_fails_once) { sweep(false); }
TEST(faults, each_call_fails_from_then_on) { sweep(true); }

TEST(faults, short_calls_are_completed) {
  char folder[256];
  kiln_key keys[KEYS];
  snprintf(folder, sizeof folder, "%s/c", kiln_test_folder());
  for (unsigned i = 0; i < KEYS; i++) keys[i] = key_number(i);
  for (unsigned c = 0; c < 2; c++) {
    struct fault f = {.call = c ? KILN_FS_READ : KILN_FS_WRITE, .at = 1, .for_ever = true};
    CHECK(run(folder, keys, &f));
    f.for_ever = false;
    while (run(folder, keys, &f)) f.at++;
  }
  for (unsigned i = 0; i < KEYS; i++) kiln_key_deinit(&keys[i]);
}

/// The counter that an error of the store moves.
TEST(faults, the_named_counter_moves) {
  static const struct {
    int error;
    kiln_outcome outcome;
  } rows[] = {{ENOSPC, KILN_OUTCOME_STORE_NO_SPACE},
              {EDQUOT, KILN_OUTCOME_STORE_NO_SPACE},
              {EFBIG, KILN_OUTCOME_STORE_NO_SPACE},
              {EIO, KILN_OUTCOME_STORE_IO}};
  kiln_cache *cache = open_in(kiln_test_folder());
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    kiln_key key = key_number(i);
    uint64_t before = kiln_cache_counted(cache, rows[i].outcome);
    struct fault f = {.call = KILN_FS_WRITE, .error = rows[i].error, .at = 1, .for_ever = true};
    kiln_fs_install(inject, &f);
    CHECK(put_size(cache, &key, SIZE) != KILN_OK);
    kiln_fs_install(NULL, NULL);
    CHECK_INT(kiln_cache_counted(cache, rows[i].outcome), before + 1);
    CHECK_INT(put_size(cache, &key, SIZE), KILN_OK); // no restart is needed
    CHECK_INT(get_size(cache, &key, SIZE), 1);
    kiln_key_deinit(&key);
  }
  struct fault f = {.call = KILN_FS_LINK, .error = EROFS, .at = 1, .for_ever = true};
  kiln_key key = key_of("read only");
  kiln_fs_install(inject, &f);
  CHECK(put_size(cache, &key, SIZE) != KILN_OK);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_STORE_READ_ONLY), 1);
  f.error = EACCES;
  CHECK(put_size(cache, &key, SIZE) != KILN_OK);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_STORE_DENIED), 1);
  f.call = KILN_FS_READ, f.error = EIO;
  kiln_fs_install(NULL, NULL);
  CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
  kiln_fs_install(inject, &f);
  CHECK_INT(get_size(cache, &key, SIZE), 0);
  kiln_fs_install(NULL, NULL);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_UNREADABLE), 1);
  CHECK_INT(get_size(cache, &key, SIZE), 1); // unreadable is not damaged: it was not put aside
  kiln_key_deinit(&key);
  kiln_cache_close(cache);
}

/// A disk that fills at every size: real ENOSPC from a small tmpfs, where the test may mount one.
TEST(faults, a_disk_that_is_really_full) {
  const char *folder = kiln_test_folder();
  kiln_key keys[40];
  if (geteuid() != 0 || kiln_test_run(NULL, "mount -t tmpfs -o size=65536 tmpfs %s", folder))
    SKIP("a tmpfs cannot be mounted here");
  kiln_cache *cache = open_in(folder);
  unsigned there = 0;
  for (unsigned i = 0; i < 40; i++) {
    keys[i] = key_number(i);
    (void)put_size(cache, &keys[i], 3000);
  }
  for (unsigned i = 0; i < 40; i++) there += (unsigned)get_size(cache, &keys[i], 3000);
  uint64_t full = kiln_cache_counted(cache, KILN_OUTCOME_STORE_NO_SPACE);
  kiln_cache_close(cache);
  kiln_test_run(NULL, "umount %s", folder);
  CHECK(there > 0 && there < 40);
  CHECK_INT(full, 40 - there);
}

TEST(faults, places_that_are_no_folder) {
  const char *folder = kiln_test_folder();
  char path[300];
  kiln_key key = key_of("a");
  for (unsigned i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/p%u", folder, i);
    if (i == 0) kiln_test_write(path, "x", 1);             // a file
    if (i == 1) CHECK(!symlink("/nonexistent/a", path));   // a link to nowhere
    if (i == 2) snprintf(path, sizeof path, "/proc/kiln"); // where nothing can be made
    kiln_cache *cache = open_in(path);
    CHECK_INT(get_size(cache, &key, 10), 0);
    CHECK(put_size(cache, &key, 10) != KILN_OK);
    CHECK_INT(failures(cache), 1);
    kiln_cache_close(cache);
  }
  kiln_key_deinit(&key);
}

TEST(faults, rubbish_in_the_side_files) {
  const char *folder = kiln_test_folder(), *names[] = {"stats", "stats.old", "stats.sum", "usage", "lock"};
  char path[300], rubbish[1000];
  uint64_t seed = 7;
  kiln_key key = key_of("a");
  kiln_cache *cache = open_in(folder);
  put_size(cache, &key, 10);
  kiln_cache_close(cache);
  for (size_t i = 0; i < sizeof rubbish; i++) rubbish[i] = (char)kiln_test_random(&seed);
  for (unsigned i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/v1/main.default/%s", folder, names[i]);
    kiln_test_write(path, rubbish, sizeof rubbish);
  }
  cache = open_in(folder);
  CHECK_INT(get_size(cache, &key, 10), 1);
  kiln_key other = key_of("b");
  CHECK_INT(put_size(cache, &other, 10), KILN_OK);
  kiln_cache_step(cache);
  kiln_cache_close(cache);
  cache = open_in(folder);
  kiln_stats_sum sum;
  kiln_stats_read(kiln_cache_store(cache), &sum);
  CHECK(sum.damaged > 0);
  CHECK_INT(sum.count[KILN_OUTCOME_HIT_LOCAL], 1); // what came after the rubbish is still understood
  CHECK_INT(sum.count[KILN_OUTCOME_STORED], 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
  kiln_key_deinit(&other);
}

/// Fails what names something in the folder until that is opened anew.
static int lose(void *context, kiln_fs_call call, const char *path, size_t *size) {
  bool *opened_again = context;
  (void)size;
  if (!path) return 0;
  if (*path == '/' && call == KILN_FS_OPEN) *opened_again = true;
  return *path == '/' || *opened_again ? 0 : ESTALE;
}

/// A folder that is removed has no entries any more (ENOENT); where another client of NFS removed it, it is stale.
TEST(faults, a_store_that_another_machine_removed) {
  const char *folder = kiln_test_folder();
  kiln_key keys[2] = {key_number(0), key_number(1)};
  bool opened_again = false;
  kiln_cache *cache = open_in(folder);
  CHECK_INT(put_size(cache, &keys[0], SIZE), KILN_OK);
  kiln_test_run(NULL, "rm -rf %s/v1", folder);
  kiln_fs_install(lose, &opened_again);
  CHECK_INT(get_size(cache, &keys[1], SIZE), 0);
  CHECK_INT(put_size(cache, &keys[1], SIZE), KILN_OK);
  kiln_fs_install(NULL, NULL);
  CHECK(opened_again);
  kiln_cache_close(cache);
  cache = open_in(folder);
  CHECK_INT(get_size(cache, &keys[1], SIZE), 1);
  kiln_cache_close(cache);
  for (unsigned i = 0; i < 2; i++) kiln_key_deinit(&keys[i]);
}

/// A client of NFS hears of a full disk or quota when it closes the file, and has no nameless ones: `context` is the
/// error, until a close has failed with it.
static int at_close(void *context, kiln_fs_call call, const char *path, size_t *size) {
  static bool is_staged;
  int *error = context, now = *error;
  (void)size;
  if (call == KILN_FS_OPEN && path && strlen(path) == 10 && !memcmp(path, "entries/", 8)) return EOPNOTSUPP;
  if (call == KILN_FS_OPEN && path) is_staged = !strncmp(path, "staging/", 8);
  if (call != KILN_FS_CLOSE || !is_staged) return 0;
  *error = 0;
  return now;
}

TEST(faults, an_entry_that_the_server_does_not_take_gets_no_name) {
  static const struct {
    int error;
    kiln_outcome outcome;
  } rows[] = {{EDQUOT, KILN_OUTCOME_STORE_NO_SPACE},
              {ENOSPC, KILN_OUTCOME_STORE_NO_SPACE},
              {EFBIG, KILN_OUTCOME_STORE_NO_SPACE},
              {EIO, KILN_OUTCOME_STORE_IO},
              {ETIMEDOUT, KILN_OUTCOME_STORE_IO}};
  const char *folder = kiln_test_folder();
  char *names;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    int error = rows[i].error;
    kiln_key key = key_number(i);
    kiln_cache *cache = open_in(folder);
    kiln_fs_install(at_close, &error);
    kiln_status status = put_size(cache, &key, SIZE);
    kiln_fs_install(NULL, NULL);
    CHECK(status != KILN_OK && !error);
    CHECK_INT(kiln_cache_counted(cache, rows[i].outcome), 1);
    kiln_test_run(&names, "cd %s/v1/main.default && find entries staging -type f", folder);
    CHECK_TEXT(names, "");
    free(names);
    CHECK_INT(put_size(cache, &key, SIZE), KILN_OK);
    CHECK_INT(get_size(cache, &key, SIZE), 1);
    CHECK_INT(kiln_cache_remove(cache, &key.digest, NULL), KILN_OK);
    kiln_cache_close(cache);
    kiln_key_deinit(&key);
  }
}
