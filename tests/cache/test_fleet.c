// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests single flight across machines: caches that share nothing but a Redis server. One makes an entry and
// the others wait; whatever happens to the holder or the server, everybody finishes.
#include "tests/cache/servers.h"

/// PATIENCE_MS is for tests in which nothing is to run out, however busy the machine.
enum { LEASE_MS = 8000, MACHINES = 8, PATIENCE_MS = 120000 };

static const char *remote_program(void) {
  static char program[300];
  snprintf(program, sizeof program, "%s/bin/kiln-remote", kiln_test_build());
  return program;
}

static kiln_cache *patient_machine(const char *folder, unsigned number, const char *url, uint32_t lease_ms,
                                   uint32_t remote_ms) {
  char root[300];
  snprintf(root, sizeof root, "%s/machine%u", folder, number);
  kiln_cache_config config = config_in(root);
  config.remote_program = remote_program();
  config.remote_url = url;
  config.remote_ms = remote_ms;
  config.remote_write = true;
  config.remote_lease_ms = lease_ms;
  return open_with(&config);
}

static kiln_cache *machine(const char *folder, unsigned number, const char *url, uint32_t lease_ms) {
  return patient_machine(folder, number, url, lease_ms, DEADLINE_MS * KILN_TEST_PATIENCE);
}

/// Each test begins with it, before it forks.
static const char *redis_url(const char *folder) {
  static char url[64];
  if (access(remote_program(), X_OK)) SKIP("%s is not built", remote_program());
  snprintf(url, sizeof url, "redis://127.0.0.1:%d", start_redis(folder));
  return url;
}

/// A build that needs the key: 1 when it made the entry itself, after `compile_ms`, at whose start it writes
/// a byte to `told` (-1: nobody listens). A server that is not asked because a deadline passed leaves
/// everybody to make their own, so this build has none that could.
static int build(const char *folder, unsigned number, const char *url, unsigned compile_ms, int told) {
  kiln_cache *cache = patient_machine(folder, number, url, PATIENCE_MS, PATIENCE_MS);
  kiln_key key = key_of("shared");
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  int made = 0;
  if (!get_size(cache, &key, SIZE)) {
    if (kiln_cache_claim_key(cache, &key, &claim, &entry)) {
      kiln_cache_entry_deinit(&entry);
    } else {
      made = 1;
      if (told >= 0) CHECK_INT(write(told, "x", 1), 1);
      pause_ms(compile_ms);
      put_size(cache, &key, SIZE);
    }
    kiln_cache_release(&claim);
    CHECK_INT(get_size(cache, &key, SIZE), 1);
  }
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
  return made;
}

/// Exit status of a child that made no entry; one more for each that it made. A failed check is 1.
enum { MADE_NONE = 10 };

TEST(fleet, many_machines_one_compile) {
  const char *folder = kiln_test_folder(), *url = redis_url(folder);
  pid_t children[MACHINES];
  unsigned made = 0;
  for (unsigned i = 0; i < MACHINES; i++) {
    children[i] = fork();
    if (!children[i]) {
      server = 0; // the parent's
      _exit(MADE_NONE + build(folder, i, url, 600, -1));
    }
  }
  for (unsigned i = 0; i < MACHINES; i++) {
    int status;
    waitpid(children[i], &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) < MADE_NONE)
      FAIL("machine %u failed: status %d", i, status);
    made += (unsigned)WEXITSTATUS(status) - MADE_NONE;
  }
  CHECK_INT(made, 1);
}

TEST(fleet, the_wait_is_counted) {
  const char *folder = kiln_test_folder(), *url = redis_url(folder);
  int told[2];
  char x;
  CHECK(!pipe(told));
  pid_t maker = fork();
  if (!maker) {
    server = 0;
    _exit(build(folder, 0, url, 700, told[1]));
  }
  CHECK_INT(read(told[0], &x, 1), 1);
  kiln_cache *cache = patient_machine(folder, 1, url, PATIENCE_MS, PATIENCE_MS);
  kiln_key key = key_of("shared");
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  CHECK(kiln_cache_claim_key(cache, &key, &claim, &entry));
  kiln_cache_entry_deinit(&entry);
  kiln_cache_release(&claim);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_WAITED_REMOTE), 1);
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_HIT_REMOTE), 1);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
  waitpid(maker, NULL, 0);
}

/// How long a second machine waits for a claim after something happened to the first, which holds the lease;
/// it never gets the entry.
static int64_t waits_after(void (*happens)(pid_t holder), uint32_t lease_ms, kiln_outcome *counted) {
  const char *folder = kiln_test_folder(), *url = redis_url(folder);
  kiln_key key = key_of("shared");
  int told[2];
  CHECK(!pipe(told));
  pid_t holder = fork();
  if (!holder) {
    kiln_cache_claim claim;
    kiln_cache_entry entry;
    server = 0;
    setsid();
    kiln_cache *cache = machine(folder, 0, url, LEASE_MS);
    CHECK(!kiln_cache_claim_key(cache, &key, &claim, &entry));
    CHECK_INT(write(told[1], "x", 1), 1);
    pause_ms(60000);
    _exit(0);
  }
  char x;
  CHECK_INT(read(told[0], &x, 1), 1);
  happens(holder);
  kiln_cache *cache = machine(folder, 1, url, lease_ms);
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  int64_t start = now_ms();
  CHECK(!kiln_cache_claim_key(cache, &key, &claim, &entry));
  int64_t took = now_ms() - start;
  if (counted) *counted = kiln_cache_counted(cache, *counted) ? *counted : KILN_OUTCOME_LIMIT;
  kiln_cache_release(&claim);
  kiln_cache_close(cache);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  kiln_key_deinit(&key);
  return took;
}

static void dies(pid_t holder) { kill(holder, SIGKILL); }
static void works_on(pid_t holder) { (void)holder; }
static void loses_its_server(pid_t holder) {
  (void)holder;
  stop();
}

TEST(fleet, a_dead_holder_gives_its_lease_back) {
  int64_t took = waits_after(dies, PATIENCE_MS, NULL);
  if (took > PATIENCE_MS / 4) FAIL("waited %d ms for a build that is dead", (int)took);
}

TEST(fleet, a_slow_holder_is_waited_for_so_long_and_no_longer) {
  kiln_outcome counted = KILN_OUTCOME_WAIT_TIMEOUT;
  int64_t took = waits_after(works_on, 6500, &counted); // longer than an unrenewed lease lives
  if (took < 6400 || took > 30000) FAIL("waited %d ms, expected 6500", (int)took);
  CHECK_INT(counted, KILN_OUTCOME_WAIT_TIMEOUT);
}

TEST(fleet, without_the_server_everybody_makes_their_own) {
  int64_t took = waits_after(loses_its_server, LEASE_MS, NULL);
  if (took > ONCE_MS) FAIL("waited %d ms for nobody", (int)took);
}

TEST(fleet, a_server_without_leases_is_not_asked) {
  const char *folder = kiln_test_folder();
  char url[64];
  snprintf(url, sizeof url, "http://127.0.0.1:%d", start_nginx(folder));
  int64_t start = now_ms();
  CHECK_INT(build(folder, 0, url, 0, -1), 1);
  CHECK(now_ms() - start < PATIENCE_MS / 2);
}
