// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the store as its users see it: what was put comes back, from where, and how it is counted.
// (behaviours 21, 22, 25, 29, 30, 34, 36, 38)
#include "tests/cache/common.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

TEST(store, put_and_get) {
  const char *folder = kiln_test_folder();
  size_t sizes[] = {0, 1, 4095, 4096, 100000, 3000000};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    kiln_cache *cache = open_in(folder);
    kiln_key key = key_number(i);
    CHECK_INT(get_size(cache, &key, sizes[i]), 0);
    CHECK_INT(put_size(cache, &key, sizes[i]), KILN_OK);
    CHECK_INT(get_size(cache, &key, sizes[i]), 1);
    CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_ABSENT), 1);
    CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_STORED), 1);
    CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_HIT_LOCAL), 1);
    kiln_cache_close(cache);
    cache = open_in(folder); // another process
    CHECK_INT(get_size(cache, &key, sizes[i]), 1);
    kiln_cache_close(cache);
    kiln_key_deinit(&key);
  }
}

TEST(store, second_writer_keeps_the_first) {
  kiln_cache *cache = open_in(kiln_test_folder());
  kiln_key key = key_of("a");
  CHECK_INT(put_size(cache, &key, 100), KILN_OK);
  kiln_cache_content other = {{(const uint8_t *)"m2", 2}, {NULL, 0}, {(const uint8_t *)"p2", 2}, 1, 0};
  CHECK_INT(kiln_cache_put(cache, &key, &other, NULL), KILN_OK);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_STORED_ALREADY), 1);
  CHECK_INT(get_size(cache, &key, 100), 1); // metadata and payload of one writer
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(store, force_reads_nothing_and_replaces) {
  kiln_cache_config config = config_in(kiln_test_folder());
  kiln_cache *cache = open_with(&config);
  kiln_key key = key_of("a");
  kiln_cache_content old = {{(const uint8_t *)"m", 1}, {NULL, 0}, {(const uint8_t *)"old", 3}, 1, 0};
  CHECK_INT(kiln_cache_put(cache, &key, &old, NULL), KILN_OK);
  kiln_cache_close(cache);
  config.no_read = true;
  cache = open_with(&config);
  CHECK_INT(get_size(cache, &key, 10), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_SKIPPED), 1);
  CHECK_INT(put_size(cache, &key, 10), KILN_OK);
  kiln_cache_close(cache);
  config.no_read = false;
  cache = open_with(&config);
  CHECK_INT(get_size(cache, &key, 10), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(store, swapped_entries_are_refused_and_healed) {
  const char *folder = kiln_test_folder();
  kiln_cache *cache = open_in(folder);
  kiln_key a = key_of("a"), b = key_of("b");
  char pa[256], pb[256], tmp[256];
  put_size(cache, &a, 500);
  put_size(cache, &b, 500);
  entry_path(folder, &a, pa, sizeof pa);
  entry_path(folder, &b, pb, sizeof pb);
  snprintf(tmp, sizeof tmp, "%s/tmp", folder);
  CHECK(!rename(pa, tmp) && !rename(pb, pa) && !rename(tmp, pb));
  CHECK_INT(get_size(cache, &a, 500), 0);
  CHECK_INT(get_size(cache, &b, 500), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_CORRUPT), 2);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_QUARANTINED), 2);
  CHECK_INT(put_size(cache, &a, 500), KILN_OK);
  CHECK_INT(get_size(cache, &a, 500), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&a);
  kiln_key_deinit(&b);
}

TEST(store, put_over_an_unusable_entry_heals_it) {
  const char *folder = kiln_test_folder();
  kiln_cache *cache = open_in(folder);
  kiln_key key = key_of("a");
  char path[256];
  put_size(cache, &key, 500);
  entry_path(folder, &key, path, sizeof path);
  unlink(path);
  kiln_test_write(path, "rubbish", 7);
  CHECK_INT(put_size(cache, &key, 500), KILN_OK); // nobody looked before
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_HEALED), 1);
  CHECK_INT(get_size(cache, &key, 500), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(store, layers_and_domains) {
  const char *folder = kiln_test_folder();
  char layer[256], root[256];
  snprintf(layer, sizeof layer, "%s/layer", folder);
  snprintf(root, sizeof root, "%s/root", folder);
  kiln_key key = key_of("a"), key2 = key_of("b"), key3 = key_of("c");
  kiln_cache *cache = open_in(layer);
  put_size(cache, &key, 10);
  kiln_cache_close(cache);
  kiln_cache_config main_config = config_in(root), low = config_in(root);
  main_config.layers[0] = layer;
  low.domain = "pr-1";
  low.read_domains[0] = "main";
  kiln_cache *high = open_with(&main_config);
  CHECK_INT(get_size(high, &key, 10), 1);
  CHECK_INT(kiln_cache_counted(high, KILN_OUTCOME_HIT_LAYER), 1);
  put_size(high, &key2, 10);
  kiln_cache *lower = open_with(&low);
  CHECK_INT(get_size(lower, &key2, 10), 1); // reads upward
  put_size(lower, &key3, 10);
  CHECK_INT(get_size(lower, &key3, 10), 1);
  CHECK_INT(get_size(high, &key3, 10), 0); // never downward
  kiln_cache_close(high);
  kiln_cache_close(lower);
  kiln_key_deinit(&key);
  kiln_key_deinit(&key2);
  kiln_key_deinit(&key3);
}

TEST(store, an_entry_of_another_domain_is_not_believed) {
  const char *folder = kiln_test_folder();
  kiln_cache_config low = config_in(folder), high = config_in(folder);
  low.domain = "pr-1";
  kiln_key key = key_of("a");
  kiln_cache *lower = open_with(&low), *upper = open_with(&high);
  kiln_key warm = key_of("warm");
  put_size(lower, &key, 10);
  put_size(upper, &warm, 10);
  // The replay: what the lower domain wrote is copied, as it is, to where the higher one reads.
  CHECK_INT(kiln_test_run(NULL, "cp -r %s/v1/pr-1.default/entries %s/v1/main.default/", folder, folder), 0);
  CHECK(!kiln_cache_holds(upper, &key.digest));
  CHECK_INT(get_size(upper, &key, 10), 0);
  CHECK_INT(kiln_cache_counted(upper, KILN_OUTCOME_MISS_UNTRUSTED), 1);
  kiln_cache_close(lower);
  kiln_cache_close(upper);
  kiln_key_deinit(&key);
  kiln_key_deinit(&warm);
}

TEST(store, memory_level) {
  kiln_cache_config config = config_in(kiln_test_folder());
  config.memory_bytes = 64 * 20000;
  kiln_cache *cache = open_with(&config);
  kiln_key key = key_of("a");
  put_size(cache, &key, 1000);
  kiln_cache_entry held;
  CHECK(kiln_cache_get(cache, &key, &held));
  CHECK_INT(held.outcome, KILN_OUTCOME_HIT_MEMORY);
  kiln_cache_forget(cache);
  CHECK(right_bytes(&key, &held, 1000)); // a handle outlives the level
  CHECK_INT(get_size(cache, &key, 1000), 1);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_HIT_LOCAL), 1); // promotion
  CHECK_INT(get_size(cache, &key, 1000), 1);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_HIT_MEMORY), 2);
  CHECK_INT(kiln_cache_remove(cache, &key.digest, NULL), KILN_OK);
  CHECK_INT(get_size(cache, &key, 1000), 0);
  CHECK(!kiln_cache_contains(cache, &key.digest));
  kiln_cache_close(cache);
  CHECK(right_bytes(&key, &held, 1000)); // and the cache
  kiln_cache_entry_deinit(&held);
  kiln_key_deinit(&key);
}

TEST(store, without_a_disk_memory_still_serves) {
  kiln_cache_config config = config_in("/proc/none/such");
  config.memory_bytes = 1 << 24;
  kiln_cache *cache = open_with(&config);
  kiln_key key = key_of("a");
  CHECK(put_size(cache, &key, 1000) != KILN_OK);
  CHECK_INT(get_size(cache, &key, 1000), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(store, the_folder_pulled_away_under_us) {
  const char *folder = kiln_test_folder();
  char root[256];
  snprintf(root, sizeof root, "%s/c", folder);
  kiln_cache *cache = open_in(root);
  kiln_key a = key_of("a"), b = key_of("b");
  CHECK_INT(put_size(cache, &a, 100), KILN_OK);
  kiln_test_run(NULL, "rm -rf %s", root);
  CHECK_INT(get_size(cache, &a, 100), 0);
  CHECK_INT(put_size(cache, &b, 100), KILN_OK);
  CHECK_INT(get_size(cache, &b, 100), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&a);
  kiln_key_deinit(&b);
}

TEST(store, names_that_are_no_names) {
  const char *bad[] = {"", "..", "a/b", "A", "a.b", "0123456789012345678901234567890123456789x"};
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    kiln_cache_config config = config_in(kiln_test_folder());
    kiln_cache *cache;
    config.domain = bad[i];
    CHECK_INT(kiln_cache_open(&config, &cache, NULL), KILN_STATUS_INVALID_ARGUMENT);
    config.domain = "main";
    config.space = bad[i];
    CHECK_INT(kiln_cache_open(&config, &cache, NULL), KILN_STATUS_INVALID_ARGUMENT);
    CHECK(!cache);
  }
}

TEST(store, folders_that_are_not_ours) {
  const char *folder = kiln_test_folder();
  char path[256];
  kiln_cache_config config = config_in(folder);
  kiln_cache *cache = open_with(&config);
  kiln_key key = key_of("a");
  put_size(cache, &key, 10);
  kiln_cache_close(cache);
  snprintf(path, sizeof path, "%s/v1/main.default", folder);
  CHECK(!chmod(path, 0777));
  CHECK_INT(kiln_cache_open(&config, &cache, NULL), KILN_STATUS_DENIED);
  for (unsigned n = 0; n < 2; n++) { // for a group, then for everybody
    config.shared = true;
    CHECK_INT(kiln_cache_open(&config, &cache, NULL), KILN_STATUS_DENIED);
    if (n) config.world_writable = true;
    else CHECK(!chmod(path, 0775));
    CHECK_INT(kiln_cache_open(&config, &cache, NULL), KILN_OK);
    CHECK_INT(get_size(cache, &key, 10), 1);
    kiln_cache_close(cache);
    CHECK(!chmod(path, 0777));
  }
  config.shared = config.world_writable = false;
  CHECK(!chmod(path, 0700));
  if (geteuid() == 0) {
    CHECK(!chown(path, 12345, 12345));
    CHECK_INT(kiln_cache_open(&config, &cache, NULL), KILN_STATUS_DENIED);
    CHECK(!chown(path, 0, 0));
    // A foreign file under an entry's name in a folder of ours.
    entry_path(folder, &key, path, sizeof path);
    CHECK(!chown(path, 12345, 12345));
    cache = open_with(&config);
    CHECK_INT(get_size(cache, &key, 10), 0);
    CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_UNTRUSTED), 1);
    kiln_cache_close(cache);
  }
  kiln_key_deinit(&key);
}

TEST(store, links_are_not_followed) {
  const char *folder = kiln_test_folder();
  kiln_cache *cache = open_in(folder);
  kiln_key key = key_of("a");
  char path[256], moved[300];
  put_size(cache, &key, 10);
  entry_path(folder, &key, path, sizeof path);
  snprintf(moved, sizeof moved, "%s/moved", folder);
  CHECK(!rename(path, moved) && !symlink(moved, path));
  CHECK_INT(get_size(cache, &key, 10), 0);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_MISS_UNREADABLE), 1);
  CHECK_INT(put_size(cache, &key, 10), KILN_OK); // replaced by a file
  CHECK_INT(get_size(cache, &key, 10), 1);
  // A linked shard.
  *strrchr(path, '/') = 0;
  snprintf(moved, sizeof moved, "%s/shard", folder);
  CHECK(!rename(path, moved) && !symlink(moved, path));
  CHECK_INT(get_size(cache, &key, 10), 0);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

static int count_calls(void *context, kiln_fs_call call, const char *path, size_t *size) {
  (void)path, (void)size;
  ++((unsigned *)context)[call];
  return 0;
}

/// What a hit may cost: no lock, no sync, nothing made or renamed; one reading of one file, one record
/// appended.
TEST(store, a_hit_is_few_calls) {
  const char *folder = kiln_test_folder();
  unsigned calls[KILN_FS_CALLS] = {0}, sum = 0;
  kiln_key key = key_of("a");
  kiln_cache *cache = open_in(folder);
  put_size(cache, &key, 3000);
  kiln_cache_close(cache);
  kiln_fs_install(count_calls, calls);
  cache = open_in(folder);
  CHECK_INT(get_size(cache, &key, 3000), 1);
  kiln_cache_close(cache);
  kiln_fs_install(NULL, NULL);
  for (unsigned c = 0; c < KILN_FS_CALLS; c++) {
    bool may = c == KILN_FS_OPEN || c == KILN_FS_STAT || c == KILN_FS_READ || c == KILN_FS_CLOSE ||
               c == KILN_FS_WRITE;
    if (calls[c] && !may) FAIL("a hit made %u calls of kind %u", calls[c], c);
    sum += calls[c];
  }
  CHECK_INT(calls[KILN_FS_OPEN], 3); // folder, entry, statistics
  CHECK_INT(calls[KILN_FS_READ], 1);
  CHECK_INT(sum, 9);
  kiln_key_deinit(&key);
}

/// A file system without nameless files, and a letter of each call on the way of an entry to its name.
static int note_calls(void *context, kiln_fs_call call, const char *path, size_t *size) {
  static const char letters[KILN_FS_CALLS] = {[KILN_FS_WRITE] = 'w',
                                              [KILN_FS_CLOSE] = 'c',
                                              [KILN_FS_LINK] = 'l',
                                              [KILN_FS_RENAME] = 'r',
                                              [KILN_FS_UNLINK] = 'u'};
  char *at = context;
  (void)size;
  if (call == KILN_FS_OPEN && path && strlen(path) == 10 && !memcmp(path, "entries/", 8)) return EOPNOTSUPP;
  if (call == KILN_FS_OPEN && path && !strncmp(path, "staging/", 8)) strcpy(at, "o");
  else if (letters[call] && *at == 'o') at[strlen(at)] = letters[call];
  return 0;
}

/// NFS sends the content of a file when one of its descriptors is closed, and keeps a name of one that is removed while
/// it is open. So a descriptor is closed between the last write and the name, and the last one before the removal.
TEST(store, an_entry_is_handed_over_before_it_has_a_name) {
  const char *folder = kiln_test_folder();
  kiln_key key = key_of("a");
  kiln_cache_config config = config_in(folder);
  for (unsigned replace = 0; replace < 2; replace++) {
    char calls[200] = "";
    config.no_stats = true;
    config.no_read = replace;
    kiln_cache *cache = open_with(&config);
    kiln_fs_install(note_calls, calls);
    CHECK_INT(put_size(cache, &key, 3000), KILN_OK);
    kiln_fs_install(NULL, NULL);
    kiln_cache_close(cache);
    CHECK(!strncmp(calls, replace ? "owcrc" : "owclcu", replace ? 5 : 6));
  }
  kiln_key_deinit(&key);
}
