// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kills a writer with SIGKILL at every system call while it stores, evicts, repairs and counts (by ptrace,
// before and after each call), and at many random moments. Afterwards every key gives the right bytes or a
// miss, gc leaves no orphans, and no lock is stuck. (fault tests 1, 2, 5, 6; behaviours 24, 28)
#include "tests/cache/common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/admin.h"

enum { KEYS = 4, SIZE = 6000 };

/// A file system without nameless files: writers go through staging/.
static int no_nameless(void *context, kiln_fs_call call, const char *path, size_t *size) {
  (void)context, (void)size;
  return call == KILN_FS_OPEN && path && strlen(path) == 10 && !memcmp(path, "entries/", 8) ? EOPNOTSUPP : 0;
}

/// The writer: two new entries, a damaged one healed, one replaced, a step that evicts, statistics written.
static void work(const char *folder, const kiln_key *keys, bool staged) {
  kiln_cache_config config = config_in(folder);
  config.max_files = 3;
  kiln_cache *cache = open_with(&config);
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  get_size(cache, &keys[0], SIZE); // damaged: put aside
  if (staged) kiln_fs_install(no_nameless, NULL);
  for (unsigned i = 0; i < KEYS; i++) {
    bool there = kiln_cache_claim_key(cache, &keys[i], &claim, &entry);
    if (there) kiln_cache_entry_deinit(&entry);
    else put_size(cache, &keys[i], SIZE);
    kiln_cache_release(&claim);
  }
  kiln_fs_install(NULL, NULL);
  kiln_cache_step(cache);
  kiln_cache_close(cache);
}

static void prepare(const char *folder, const kiln_key *keys) {
  char path[300];
  kiln_test_run(NULL, "rm -rf %s", folder);
  kiln_cache *cache = open_in(folder);
  put_size(cache, &keys[0], SIZE);
  put_size(cache, &keys[3], SIZE);
  kiln_cache_close(cache);
  entry_path(folder, &keys[0], path, sizeof path);
  unlink(path);
  kiln_test_write(path, "damaged", 7);
}

/// Everything that must hold whenever, wherever the writer died.
static void check(const char *folder, const kiln_key *keys, unsigned where) {
  kiln_cache_config config = config_in(folder);
  config.wait_ms = 0;
  kiln_cache *cache = open_with(&config);
  for (unsigned i = 0; i < KEYS; i++) {
    kiln_cache_claim claim;
    kiln_cache_entry entry;
    bool hit = get_size(cache, &keys[i], SIZE); // fails on wrong bytes
    if (!hit && kiln_cache_claim_key(cache, &keys[i], &claim, &entry)) kiln_cache_entry_deinit(&entry);
    else if (!hit && claim.fd < 0) FAIL("a lock is stuck after a kill at stop %u", where);
    if (!hit) put_size(cache, &keys[i], SIZE);
    if (!hit) kiln_cache_release(&claim);
    CHECK_INT(get_size(cache, &keys[i], SIZE), 1);
  }
  kiln_evict_report report;
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){0}, NULL, NULL, &report);
  if (report.busy) FAIL("the cleaner's lock is stuck after a kill at stop %u", where);
  CHECK_INT(report.seen_files, KEYS);
  kiln_scrub_report scrub;
  kiln_scrub(kiln_cache_store(cache), 1, false, NULL, NULL, &scrub);
  CHECK_INT(scrub.bad, 0);
  kiln_cache_close(cache);
  char *out;
  kiln_test_run(&out, "ls %s/v1/main.default/staging; find %s/v1/main.default/entries -type f | wc -l",
                folder, folder);
  CHECK_TEXT(out, "4\n");
  free(out);
}

/// Runs the writer under ptrace and kills it at its `at`-th stop. False when it ended before.
static bool kill_at(const char *folder, const kiln_key *keys, bool staged, unsigned at) {
  int status;
  pid_t child = fork();
  if (!child) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    work(folder, keys, staged);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (!WIFSTOPPED(status)) FAIL("the writer cannot be traced");
  ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  for (unsigned stop = 0;; stop++) {
    if (stop == at) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return true;
    }
    ptrace(PTRACE_SYSCALL, child, NULL, NULL);
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
      CHECK_INT(WEXITSTATUS(status), 0);
      return false;
    }
    if (WIFSIGNALED(status)) FAIL("the writer died of signal %d", WTERMSIG(status));
  }
}

static void sweep(bool staged) {
  char folder[256];
  kiln_key keys[KEYS];
  snprintf(folder, sizeof folder, "%s/c", kiln_test_folder());
  for (unsigned i = 0; i < KEYS; i++) keys[i] = key_number(i);
  unsigned at = 0;
  // Stops alternate: before a call, after it. Nothing on the disk changes between "after" and the next
  // "before".
  for (;; at += kiln_test_full() ? 1 : 2) {
    prepare(folder, keys);
    bool killed = kill_at(folder, keys, staged, at);
    check(folder, keys, at);
    if (!killed) break;
  }
  printf("killed at %u places\n", at / (kiln_test_full() ? 1 : 2));
  if (at < 100) FAIL("only %u stops: the writer did not do its work", at);
  for (unsigned i = 0; i < KEYS; i++) kiln_key_deinit(&keys[i]);
}

TEST(kill, at_every_system_call) { sweep(false); }
TEST(kill, at_every_system_call_through_staging) { sweep(true); }

// ------------------------------------------------------------------------------------------- storm

enum { STORM_KEYS = 12, AT_ONCE = 8 };

/// One "build": all keys in random order, looked up, claimed, made.
static void build(const char *folder, const kiln_key *keys, uint64_t seed) {
  kiln_cache_config config = config_in(folder);
  config.max_files = 10;
  config.wait_ms = 200;
  kiln_cache *cache = open_with(&config);
  if (seed % 5 == 0) kiln_fs_install(no_nameless, NULL);
  for (unsigned n = 0; n < STORM_KEYS; n++) {
    const kiln_key *key = &keys[kiln_test_random(&seed) % STORM_KEYS];
    kiln_cache_claim claim;
    kiln_cache_entry entry;
    if (get_size(cache, key, SIZE)) continue;
    if (kiln_cache_claim_key(cache, key, &claim, &entry)) kiln_cache_entry_deinit(&entry);
    else put_size(cache, key, SIZE);
    kiln_cache_release(&claim);
    if (n % 5 == 0) kiln_cache_step(cache);
  }
  kiln_cache_close(cache);
}

/// The kernel kills this process so many nanoseconds from now. Its clock starts in the process itself: a parent that
/// waits for a processor while others have it would come too late.
static void die_in(long nanoseconds) {
  struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  timer_t timer;
  CHECK(!timer_create(CLOCK_MONOTONIC, &kill, &timer));
  CHECK(!timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = nanoseconds}, NULL));
}

/// Full runs go on until 320 builds were killed, or as many as KILN_TEST_KILLS says.
TEST(kill, storm) {
  char folder[256];
  kiln_key keys[STORM_KEYS];
  uint64_t seed = 42;
  unsigned killed = 0, finished = 0, builds = kiln_test_full() ? 2000 : 500,
           wanted = kiln_test_full() ? 320 : 1;
  const char *given = getenv("KILN_TEST_KILLS");
  if (given) wanted = (unsigned)strtoul(given, NULL, 10);
  snprintf(folder, sizeof folder, "%s/c", kiln_test_folder());
  for (unsigned i = 0; i < STORM_KEYS; i++) keys[i] = key_number(i);
  for (unsigned n = 0; n < builds || (killed < wanted && n < 20 * builds);) {
    pid_t children[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++, n++) {
      uint64_t mine = kiln_test_random(&seed);
      const unsigned magnitude = 8 + (unsigned)(kiln_test_random(&seed) % 15); // a build takes 0.1 to 10 ms
      const long moment = 1 + (long)(kiln_test_random(&seed) >> (64 - magnitude));
      const bool dies = kiln_test_random(&seed) % 4 != 0;
      children[i] = fork();
      if (!children[i]) {
        if (dies) die_in(moment);
        build(folder, keys, mine);
        _exit(0);
      }
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
      int status;
      waitpid(children[i], &status, 0);
      if (WIFSIGNALED(status)) killed++;
      else if (WEXITSTATUS(status)) FAIL("a build failed");
      else finished++;
    }
  }
  printf("%u builds killed, %u finished\n", killed, finished);
  if (killed < wanted || !finished) FAIL("%u killed, %u finished: the storm shows nothing", killed, finished);
  kiln_cache *cache = open_in(folder);
  kiln_evict_report report;
  kiln_scrub_report scrub;
  for (unsigned i = 0; i < STORM_KEYS; i++) {
    kiln_cache_claim claim;
    kiln_cache_entry entry;
    if (get_size(cache, &keys[i], SIZE)) continue;
    CHECK(!kiln_cache_claim_key(cache, &keys[i], &claim, &entry));
    CHECK(claim.fd >= 0); // no lock is stuck
    kiln_cache_release(&claim);
  }
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &(kiln_evict_choice){0}, NULL, NULL, &report);
  CHECK(!report.busy);
  kiln_scrub(kiln_cache_store(cache), 1, false, NULL, NULL, &scrub);
  CHECK_INT(scrub.bad, 0);
  kiln_cache_close(cache);
  char *out;
  kiln_test_run(&out, "ls %s/v1/main.default/staging %s/v1/main.default/quarantine | grep -v :", folder,
                folder);
  CHECK_TEXT(out, "\n");
  free(out);
}
