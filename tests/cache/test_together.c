// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs everybody at the same time: writers, readers, an evictor, a process that clears, a scrubber, threads
// of one process, other users. Everything that is read is right. (fault tests 10, 15, 16, 18, 20)
#include "tests/cache/common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/admin.h"

enum { KEYS = 40, SIZE = 3000 };

static kiln_key keys[KEYS];

static void make_keys(void) {
  for (unsigned i = 0; i < KEYS; i++) keys[i] = key_number(i);
}

static void writer(kiln_cache *cache, uint64_t *seed) {
  const kiln_key *key = &keys[kiln_test_random(seed) % KEYS];
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  if (get_size(cache, key, SIZE)) return;
  if (kiln_cache_claim_key(cache, key, &claim, &entry)) {
    CHECK(right_bytes(key, &entry, SIZE));
    kiln_cache_entry_deinit(&entry);
  } else {
    put_size(cache, key, SIZE);
  }
  kiln_cache_release(&claim);
}

static void reader(kiln_cache *cache, uint64_t *seed) {
  get_size(cache, &keys[kiln_test_random(seed) % KEYS], SIZE);
}

static void evictor(kiln_cache *cache, uint64_t *seed) {
  (void)seed;
  kiln_cache_step(cache);
}

static void clearer(kiln_cache *cache, uint64_t *seed) {
  kiln_evict_report report;
  if (kiln_test_random(seed) % 50) return;
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){.all = true}, NULL, NULL,
                   &report);
}

static void scrubber(kiln_cache *cache, uint64_t *seed) {
  kiln_scrub_report report;
  (void)seed;
  kiln_scrub(kiln_cache_store(cache), 2, false, NULL, NULL, &report);
  CHECK_INT(report.bad, 0);
}

static void remover(kiln_cache *cache, uint64_t *seed) {
  (void)kiln_cache_remove(cache, &keys[kiln_test_random(seed) % KEYS].digest, NULL);
}

TEST(together, processes_of_all_kinds) {
  static void (*const kinds[])(kiln_cache *, uint64_t *) = {writer,  writer,  writer,   reader, reader,
                                                            evictor, clearer, scrubber, remover};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  const char *folder = kiln_test_folder();
  pid_t children[KINDS];
  make_keys();
  for (unsigned i = 0; i < KINDS; i++) {
    children[i] = fork();
    if (children[i]) continue;
    kiln_cache_config config = config_in(folder);
    uint64_t seed = i;
    time_t end = time(NULL) + (kiln_test_full() ? 60 : 3);
    config.max_files = KEYS / 2;
    config.memory_bytes = i % 2 ? 0 : 1 << 20;
    while (time(NULL) < end) {
      kiln_cache *cache = open_with(&config);
      for (unsigned n = 0; n < 50; n++) kinds[i](cache, &seed);
      kiln_cache_close(cache);
    }
    _exit(0);
  }
  for (unsigned i = 0; i < KINDS; i++) {
    int status;
    waitpid(children[i], &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) FAIL("process %u ended with status %d", i, status);
  }
  kiln_cache *cache = open_in(folder);
  uint64_t seed = 0;
  scrubber(cache, &seed);
  kiln_cache_close(cache);
}

struct thread {
  kiln_cache *cache;
  uint64_t seed;
};

static void *in_thread(void *context) {
  struct thread *t = context;
  for (unsigned n = 0; n < 600; n++) {
    writer(t->cache, &t->seed);
    reader(t->cache, &t->seed);
    if (n % 60 == 0) kiln_cache_step(t->cache);
    if (n % 70 == 0) kiln_cache_forget(t->cache);
    if (n % 80 == 0) remover(t->cache, &t->seed);
  }
  return NULL;
}

TEST(together, threads_of_one_cache) {
  kiln_cache_config config = config_in(kiln_test_folder());
  struct thread threads[8];
  pthread_t ids[8];
  make_keys();
  config.max_files = KEYS / 2;
  config.memory_bytes = 1 << 20;
  kiln_cache *cache = open_with(&config);
  for (unsigned i = 0; i < 8; i++) {
    threads[i] = (struct thread){cache, i};
    CHECK(!pthread_create(&ids[i], NULL, in_thread, &threads[i]));
  }
  for (unsigned i = 0; i < 8; i++) pthread_join(ids[i], NULL);
  uint64_t hits =
      kiln_cache_counted(cache, KILN_OUTCOME_HIT_MEMORY) + kiln_cache_counted(cache, KILN_OUTCOME_HIT_LOCAL);
  CHECK(hits > 1000);
  kiln_cache_close(cache);
}

/// Runs as another user; what `work` returns.
static int as_user(unsigned uid, int (*work)(const char *), const char *folder) {
  pid_t child = fork();
  if (!child) {
    if (setgid(uid) || setuid(uid)) _exit(99);
    _exit(work(folder));
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int use_as_own(const char *folder) {
  kiln_cache_config config = config_in(folder);
  kiln_cache *cache;
  return kiln_cache_open(&config, &cache, NULL) == KILN_STATUS_DENIED ? 0 : 1;
}

static int use_as_layer(const char *folder) {
  kiln_cache_config config = config_in(NULL);
  config.layers[0] = folder;
  kiln_cache *cache = open_with(&config);
  return get_size(cache, &keys[0], SIZE) ? 0 : 1;
}

static int use_shared(const char *folder) {
  kiln_cache_config config = config_in(folder);
  config.shared = true;
  kiln_cache *cache = open_with(&config);
  if (!get_size(cache, &keys[0], SIZE)) return 1;
  return put_size(cache, &keys[1], SIZE) == KILN_OK ? 0 : 2;
}

/// Whether entries of a folder that somebody else owns are read at all.
static int use_foreign_layer(const char *folder) {
  kiln_cache_config config = config_in(NULL);
  config.layers[0] = folder;
  kiln_cache *cache;
  return kiln_cache_open(&config, &cache, NULL) == KILN_STATUS_DENIED ? 0 : 1;
}

TEST(together, users) {
  const char *folder = kiln_test_folder();
  char path[300];
  if (geteuid()) SKIP("needs to become other users");
  make_keys();
  CHECK(!chown(folder, 0, 12345) && !chmod(folder, 02775)); // the group's
  mode_t old = umask(0);
  for (unsigned shared = 0; shared < 2; shared++) {
    snprintf(path, sizeof path, "%s/%u", folder, shared);
    kiln_cache_config config = config_in(path);
    config.shared = shared;
    kiln_cache *cache = open_with(&config);
    put_size(cache, &keys[0], SIZE);
    kiln_cache_close(cache);
  }
  umask(old);
  CHECK_INT(as_user(12345, use_shared, path), 0);
  kiln_cache_config config = config_in(path);
  config.shared = true;
  kiln_cache *cache = open_with(&config);
  CHECK_INT(get_size(cache, &keys[1], SIZE), 1); // what the other user wrote
  kiln_cache_close(cache);
  snprintf(path, sizeof path, "%s/0", folder);
  kiln_test_run(NULL, "chmod -R a+rX %s", path);
  CHECK_INT(as_user(12345, use_as_own, path), 0);
  CHECK_INT(as_user(12345, use_as_layer, path),
            0); // root's, not writable for others: as an installed store is
  kiln_test_run(NULL, "chown -R 23456 %s", path);
  CHECK_INT(as_user(12345, use_foreign_layer, path), 0);
}
