// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests eviction and statistics: oldest entries first, bounded steps, dry runs, recent use, and counts that
// agree. (fault tests 10, 12, 17; behaviours 32, 33, 38)
#include "tests/cache/common.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/admin.h"
#include "cache/usage.h"

static void set_age(const char *folder, const kiln_key *key, long seconds) {
  char path[300];
  struct timespec when = {time(NULL) - seconds, 0};
  entry_path(folder, key, path, sizeof path);
  CHECK(!utimensat(AT_FDCWD, path, (struct timespec[2]){when, when}, 0));
}

static long age_of(const char *folder, const kiln_key *key) {
  char path[300];
  struct stat st;
  entry_path(folder, key, path, sizeof path);
  return stat(path, &st) ? -1 : time(NULL) - st.st_mtime;
}

static void fill(const char *folder, kiln_cache *cache, kiln_key *keys, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    keys[i] = key_number(i);
    CHECK_INT(put_size(cache, &keys[i], 1000), KILN_OK);
    set_age(folder, &keys[i], 100000 - (long)i * 10); // number 0 is the oldest
  }
}

TEST(evict, a_step_takes_the_oldest) {
  const char *folder = kiln_test_folder();
  kiln_key keys[50];
  kiln_cache_config config = config_in(folder);
  config.no_stats = true;
  kiln_cache *cache = open_with(&config);
  fill(folder, cache, keys, 50);
  kiln_cache_close(cache);
  config.max_files = 20;
  cache = open_with(&config);
  kiln_cache_step(cache);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_EVICTED), 32); // down to nine tenths
  for (unsigned i = 0; i < 50; i++) CHECK_INT(kiln_cache_contains(cache, &keys[i].digest), i >= 32);
  kiln_cache_step(cache);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_EVICTED), 32); // under the limit nothing goes
  kiln_cache_close(cache);
  config.max_files = 0;
  config.max_bytes = 8 * 4096;
  cache = open_with(&config);
  kiln_cache_step(cache);
  unsigned left = 0;
  for (unsigned i = 0; i < 50; i++) left += kiln_cache_contains(cache, &keys[i].digest);
  CHECK(left <= 8 && left > 0);
  CHECK(kiln_cache_contains(cache, &keys[49].digest));
  kiln_cache_close(cache);
}

TEST(evict, a_hit_refreshes_once_a_minute) {
  const char *folder = kiln_test_folder();
  kiln_key keys[2];
  kiln_cache *cache = open_in(folder);
  fill(folder, cache, keys, 2);
  set_age(folder, &keys[0], 40);
  set_age(folder, &keys[1], 90);
  CHECK_INT(get_size(cache, &keys[0], 1000), 1);
  CHECK_INT(get_size(cache, &keys[1], 1000), 1);
  CHECK(age_of(folder, &keys[0]) >= 40);
  CHECK(age_of(folder, &keys[1]) < 30);
  set_age(folder, &keys[0], -40); // a server whose clock is ahead
  CHECK_INT(get_size(cache, &keys[0], 1000), 1);
  CHECK(age_of(folder, &keys[0]) < -20);
  set_age(folder, &keys[0], -86400L * 365 * 10); // a clock that was wrong
  CHECK_INT(get_size(cache, &keys[0], 1000), 1);
  CHECK(age_of(folder, &keys[0]) < 60 && age_of(folder, &keys[0]) >= 0);
  kiln_cache_close(cache);
}

TEST(evict, many_steps_over_a_large_store) {
  const char *folder = kiln_test_folder();
  enum { COUNT = 3000, LIMIT = 1000 };
  kiln_key *keys = calloc(COUNT, sizeof *keys);
  kiln_cache_config config = config_in(folder);
  config.no_stats = true;
  kiln_cache *cache = open_with(&config);
  fill(folder, cache, keys, COUNT);
  kiln_store *store = kiln_cache_store(cache);
  kiln_limits limits = {.files = LIMIT};
  kiln_evict_report report;
  unsigned steps = 0;
  do {
    kiln_evict_step(store, &limits, NULL, NULL, &report);
    CHECK(report.seen_files <= KILN_EVICT_SAMPLE);
    CHECK(++steps < 100);
  } while (report.over || steps < 12);
  unsigned old = 0, young = 0;
  for (unsigned i = 0; i < COUNT; i++)
    *(i < COUNT / 2 ? &old : &young) += kiln_cache_contains(cache, &keys[i].digest);
  if (old + young > LIMIT || old + young < LIMIT / 2)
    FAIL("%u entries are left, the limit is %d", old + young, LIMIT);
  if (old * 4 > young) FAIL("%u old and %u young entries are left", old, young);
  kiln_usage usage; // the sums agree with what is there
  int fd = kiln_usage_lock(store, &usage);
  CHECK(fd >= 0 && usage.counted);
  CHECK_INT(usage.files, old + young);
  kiln_usage_unlock(fd);
  kiln_cache_close(cache);
  for (unsigned i = 0; i < COUNT; i++) kiln_key_deinit(&keys[i]);
  free(keys);
}

TEST(evict, sweeps_choose_and_dry_runs_do_not_touch) {
  const char *folder = kiln_test_folder();
  kiln_key keys[10];
  kiln_cache *cache = open_in(folder);
  kiln_store *store = kiln_cache_store(cache);
  kiln_evict_report report;
  fill(folder, cache, keys, 10);
  for (unsigned i = 5; i < 10; i++) set_age(folder, &keys[i], 10);
  kiln_evict_choice choice = {.max_age_s = 1000, .dry_run = true};
  kiln_evict_sweep(store, &(kiln_limits){0}, &choice, NULL, NULL, &report);
  CHECK_INT(report.evicted_files, 5);
  for (unsigned i = 0; i < 10; i++) CHECK(kiln_cache_contains(cache, &keys[i].digest));
  choice.target = "gfx";
  kiln_evict_sweep(store, &(kiln_limits){0}, &choice, NULL, NULL, &report);
  CHECK_INT(report.evicted_files, 0); // both must hold
  choice.target = "sm_90";
  choice.dry_run = false;
  kiln_evict_sweep(store, &(kiln_limits){0}, &choice, NULL, NULL, &report);
  CHECK_INT(report.evicted_files, 5);
  for (unsigned i = 0; i < 10; i++) CHECK_INT(kiln_cache_contains(cache, &keys[i].digest), i >= 5);
  kiln_evict_sweep(store, &(kiln_limits){0}, &(kiln_evict_choice){.all = true}, NULL, NULL, &report);
  CHECK_INT(report.evicted_files, 5);
  kiln_cache_close(cache);
}

TEST(evict, a_linked_entry_is_pinned) {
  const char *folder = kiln_test_folder();
  char path[300], other[320];
  kiln_key keys[10];
  kiln_cache *cache = open_in(folder);
  kiln_evict_report report;
  fill(folder, cache, keys, 10);
  entry_path(folder, &keys[0], path, sizeof path);
  snprintf(other, sizeof other, "%s/pin", folder);
  CHECK(!link(path, other));
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){.files = 1}, &(kiln_evict_choice){0}, NULL, NULL,
                   &report);
  CHECK(kiln_cache_contains(cache, &keys[0].digest));
  kiln_cache_close(cache);
}

TEST(evict, readers_do_not_mind) {
  const char *folder = kiln_test_folder();
  kiln_key keys[10];
  kiln_cache *cache = open_in(folder);
  fill(folder, cache, keys, 10);
  kiln_cache_entry entry;
  CHECK(kiln_cache_get(cache, &keys[3], &entry));
  kiln_evict_report report;
  pid_t child = fork();
  if (!child) {
    kiln_cache *other = open_in(folder);
    for (unsigned n = 0; n < 200; n++)
      for (unsigned i = 0; i < 10; i++) {
        get_size(other, &keys[i], 1000); // fails on wrong bytes
        put_size(other, &keys[i], 1000);
      }
    _exit(0);
  }
  for (unsigned n = 0; n < 100; n++)
    kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){.files = 3}, &(kiln_evict_choice){0}, NULL, NULL,
                     &report);
  int status;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
  CHECK(right_bytes(&keys[3], &entry, 1000));
  kiln_cache_entry_deinit(&entry);
  kiln_cache_close(cache);
}

TEST(evict, other_formats_are_aged_out) {
  const char *folder = kiln_test_folder();
  kiln_cache *cache = open_in(folder);
  kiln_key key = key_of("a");
  put_size(cache, &key, 10);
  // v0: unused for long; v7: a newer release works in it; version: not ours; v0's inside has a link out of
  // it.
  kiln_test_run(NULL,
                "cd %s && mkdir -p v0/main.default/entries/ab v7/main.default version keep && touch keep/me "
                "v0/main.default/entries/ab/x v0/main.default/stats "
                "v7/main.default/stats && ln -s %s/keep v0/main.default/link && find v0 v7 version -exec "
                "touch -h -d '-40 days' {} +; touch v7/main.default/stats",
                folder, folder);
  kiln_store *store = kiln_cache_store(cache);
  CHECK_INT(kiln_evict_other_formats(store, 50 * 86400, false), 0);
  CHECK_INT(kiln_evict_other_formats(store, 30 * 86400, true), 1);
  CHECK_INT(kiln_evict_other_formats(store, 30 * 86400, false), 1);
  char *out;
  kiln_test_run(&out, "cd %s && ls -d v* keep/me", folder);
  CHECK_TEXT(out, "keep/me\nv1\nv7\nversion\n");
  free(out);
  CHECK_INT(get_size(cache, &key, 10), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

// -------------------------------------------------------------------------------------- statistics

TEST(stats, counts_of_many_processes_agree) {
  const char *folder = kiln_test_folder();
  enum { PROCESSES = 16, KEYS = 20 };
  kiln_key key = key_number(0);
  kiln_cache *cache = open_in(folder);
  put_size(cache, &key, 10);
  kiln_cache_close(cache);
  for (unsigned p = 0; p < PROCESSES; p++)
    if (!fork()) {
      cache = open_in(folder);
      for (unsigned i = 0; i < KEYS; i++) {
        kiln_key k = key_number(i * 1000);
        get_size(cache, &k, 10); // one hit, the rest misses
        kiln_cache_count(cache, KILN_OUTCOME_COMPILED, &k.digest, 7, 1000);
      }
      kiln_cache_close(cache);
      _exit(0);
    }
  while (wait(NULL) > 0) continue;
  kiln_stats_sum sum;
  cache = open_in(folder);
  kiln_stats_read(kiln_cache_store(cache), &sum);
  CHECK_INT(sum.count[KILN_OUTCOME_HIT_LOCAL], PROCESSES);
  CHECK_INT(sum.ns[KILN_OUTCOME_HIT_LOCAL], PROCESSES * 1000); // time saved: what making the entry cost
  CHECK_INT(sum.count[KILN_OUTCOME_MISS_ABSENT], PROCESSES * (KEYS - 1));
  CHECK_INT(sum.count[KILN_OUTCOME_COMPILED], PROCESSES * KEYS);
  CHECK_INT(sum.bytes[KILN_OUTCOME_COMPILED], PROCESSES * KEYS * 7);
  CHECK_INT(sum.damaged, 0);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(stats, rotation_loses_nothing) {
  const char *folder = kiln_test_folder();
  kiln_cache *cache = open_in(folder);
  kiln_key key = key_of("a");
  put_size(cache, &key, 10);
  kiln_store *store = kiln_cache_store(cache);
  uint8_t batch[KILN_STATS_BATCH * KILN_STATS_RECORD];
  kiln_stats_record record = {.outcome = KILN_OUTCOME_HIT_LOCAL, .count = 1, .ns = 3};
  for (unsigned i = 0; i < KILN_STATS_BATCH; i++) kiln_stats_encode(&record, batch + i * KILN_STATS_RECORD);
  uint64_t written = 0;
  kiln_stats_sum sum;
  for (unsigned n = 0; n < 3 * KILN_STATS_ROTATE / (int)sizeof batch + 10; n++) {
    CHECK_INT(kiln_stats_append(store, batch, KILN_STATS_BATCH), 0);
    written += KILN_STATS_BATCH;
    if (n % 64 == 0) kiln_stats_rotate(store);
  }
  kiln_stats_read(store, &sum);
  CHECK_INT(sum.count[KILN_OUTCOME_HIT_LOCAL], written);
  CHECK_INT(sum.ns[KILN_OUTCOME_HIT_LOCAL], written * 3);
  char path[300];
  struct stat st;
  snprintf(path, sizeof path, "%s/v1/main.default/stats.sum", folder);
  CHECK(!stat(path, &st));
  snprintf(path, sizeof path, "%s/v1/main.default/stats", folder);
  CHECK(!stat(path, &st) && st.st_size < KILN_STATS_ROTATE + 64 * (int)sizeof batch);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

/// The same to another client of NFS, for whom the folder is on a device of another number, after a cleaner was killed
/// that had summed the old log and not removed it yet.
static int keeps_old(void *context, kiln_fs_call call, const char *path, size_t *size) {
  (void)context, (void)size;
  return call == KILN_FS_UNLINK && path && !strcmp(path, "stats.old") ? EIO : 0;
}

TEST(stats, a_log_is_summed_once_whatever_the_device) {
  kiln_cache *cache = open_in(kiln_test_folder());
  kiln_key key = key_of("a");
  put_size(cache, &key, 10);
  kiln_store *store = kiln_cache_store(cache);
  const char *log = kiln_test_path("v1/main.default/stats"),
             *sum_path = kiln_test_path("v1/main.default/stats.sum");
  uint8_t *records = malloc(KILN_STATS_ROTATE), *bytes;
  const kiln_stats_record record = {.outcome = KILN_OUTCOME_HIT_LOCAL, .count = 1};
  for (size_t at = 0; at + KILN_STATS_RECORD <= KILN_STATS_ROTATE; at += KILN_STATS_RECORD)
    kiln_stats_encode(&record, records + at);
  kiln_test_write(log, records, KILN_STATS_ROTATE);
  kiln_stats_rotate(store); // it is stats.old now
  kiln_test_write(log, records, KILN_STATS_ROTATE);
  kiln_fs_install(keeps_old, NULL);
  kiln_stats_rotate(store); // its records are in stats.sum, and it is still there
  kiln_fs_install(NULL, NULL);
  size_t size;
  bytes = (uint8_t *)kiln_test_read(sum_path, &size);
  CHECK(bytes && size > 9 + 8 + 16);
  for (unsigned i = 9; i < 17; i++) bytes[i] ^= 0x5a; // the device
  const kiln_check check = kiln_check_of(bytes, size - sizeof check.bytes);
  memcpy(bytes + size - sizeof check.bytes, check.bytes, sizeof check.bytes);
  kiln_test_write(sum_path, bytes, size);
  kiln_stats_sum sum;
  kiln_stats_read(store, &sum);
  CHECK_INT(sum.count[KILN_OUTCOME_HIT_LOCAL], 2 * (KILN_STATS_ROTATE / KILN_STATS_RECORD));
  kiln_stats_rotate(store);
  kiln_stats_read(store, &sum);
  CHECK_INT(sum.count[KILN_OUTCOME_HIT_LOCAL], 2 * (KILN_STATS_ROTATE / KILN_STATS_RECORD));
  free(bytes);
  free(records);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

/// Bytes that are no record, before, between and after records: each run of them counts once.
TEST(stats, damage_is_skipped) {
  kiln_cache *cache = open_in(kiln_test_folder());
  kiln_key key = key_of("a");
  put_size(cache, &key, 10);
  kiln_store *store = kiln_cache_store(cache);
  kiln_stats_sum sum;
  uint8_t bytes[3 * 40 + 2 * KILN_STATS_RECORD] = {0};
  const kiln_stats_record record = {.outcome = KILN_OUTCOME_HIT_LOCAL, .count = 1};
  memset(bytes, 'K', sizeof bytes);
  kiln_stats_encode(&record, bytes + 40);
  kiln_stats_encode(&record, bytes + 80 + KILN_STATS_RECORD);
  CHECK_INT(kiln_stats_clear(store), 0);
  kiln_test_write(kiln_test_path("v1/main.default/stats"), bytes, sizeof bytes);
  kiln_stats_read(store, &sum);
  CHECK_INT(sum.count[KILN_OUTCOME_HIT_LOCAL], 2);
  CHECK_INT(sum.damaged, 3);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(stats, switched_off_they_leave_cleaning_on) {
  const char *folder = kiln_test_folder();
  char path[300];
  kiln_key keys[30];
  kiln_cache_config config = config_in(folder);
  config.no_stats = true;
  config.max_files = 10;
  kiln_cache *cache = open_with(&config);
  fill(folder, cache, keys, 30);
  kiln_cache_close(cache); // a step was due
  cache = open_with(&config);
  unsigned left = 0;
  for (unsigned i = 0; i < 30; i++) left += kiln_cache_contains(cache, &keys[i].digest);
  CHECK(left <= 10);
  snprintf(path, sizeof path, "%s/v1/main.default/stats", folder);
  CHECK(access(path, F_OK));
  kiln_cache_close(cache);
}

/// A file system whose locks fail with the error that `context` points to.
static int no_locks(void *context, kiln_fs_call call, const char *path, size_t *size) {
  (void)path, (void)size;
  return call == KILN_FS_LOCK ? *(const int *)context : 0;
}

static const int lock_errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, EIO, ENOTSUP};

TEST(evict, limits_hold_where_locks_do_not_work) {
  char folder[300];
  for (unsigned n = 0; n < sizeof lock_errors / sizeof *lock_errors; n++) {
    snprintf(folder, sizeof folder, "%s/%u", kiln_test_folder(), n);
    kiln_cache_config config = config_in(folder);
    config.max_files = 10;
    kiln_fs_install(no_locks, (void *)&lock_errors[n]);
    for (unsigned i = 0; i < 100; i++) {
      kiln_key key = key_number(i);
      kiln_cache *cache = open_with(&config);
      CHECK_INT(put_size(cache, &key, 1000), KILN_OK);
      kiln_cache_close(cache);
      kiln_key_deinit(&key);
    }
    kiln_fs_install(NULL, NULL);
    kiln_cache *cache = open_with(&config);
    unsigned left = 0;
    for (unsigned i = 0; i < 100; i++) {
      kiln_key key = key_number(i);
      left += kiln_cache_contains(cache, &key.digest);
      kiln_key_deinit(&key);
    }
    kiln_cache_close(cache);
    if (!left || left > 10)
      FAIL("%s of a lock: %u entries are left, the limit is 10", strerror(lock_errors[n]), left);
  }
}

TEST(evict, without_locks_only_old_files_are_left_over) {
  char path[300];
  struct timespec old = {time(NULL) - 2 * 3600, 0};
  const char *folder = kiln_test_folder();
  kiln_evict_report report;
  kiln_key key = key_of("a");
  kiln_cache *cache = open_in(folder);
  CHECK_INT(put_size(cache, &key, 1000), KILN_OK);
  snprintf(path, sizeof path, "%s/v1/main.default/staging/1-2-3", folder);
  kiln_test_write(path, "of a writer that lives", 22);
  for (unsigned n = 0; n < sizeof lock_errors / sizeof *lock_errors; n++) {
    kiln_fs_install(no_locks, (void *)&lock_errors[n]);
    kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){0}, NULL, NULL,
                     &report);
    kiln_fs_install(NULL, NULL);
    CHECK_INT((int)report.orphans, 0);
    CHECK(!access(path, F_OK));
  }
  CHECK(!utimensat(AT_FDCWD, path, (struct timespec[2]){old, old}, 0));
  kiln_fs_install(no_locks, (void *)&lock_errors[0]);
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){0}, NULL, NULL, &report);
  kiln_fs_install(NULL, NULL);
  CHECK_INT((int)report.orphans, 1);
  CHECK(access(path, F_OK));
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}
