// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drawn rounds of builds on two clients of one NFS server (KILN_TEST_NFS, KILN_TEST_NFS_OTHER; tests/cache/nfs.sh brings
// them): keys, processes of each client, sizes, pauses, sweeps, kills. Entries are right or a miss, nobody waits longer
// than a cache says, and one process compiles a key where the server locks for both clients. KILN_TEST_SEED draws others.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/admin.h"
#include "cache/evict.h"
#include "tests/cache/common.h"

enum { CLIENTS = 2, KEYS = 3, PROCESSES = 12, WAIT_MS = 20000, LONGEST_COMPILE_MS = 400, LARGEST = 3000000 };

static char seen[CLIENTS][400];
static uint64_t draws;

static uint64_t draw(uint64_t below) { return kiln_test_random(&draws) % below; }

static bool one_in(unsigned n) { return !draw(n); }

static void pause_ms(uint64_t ms) {
  struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
  while (nanosleep(&t, &t)) continue;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/// Whether each client locks for itself alone (nolock), and not the server for both.
static bool locks_alone(void) {
  const char *text = getenv("KILN_TEST_NFS_LOCKS");
  return text && !strcmp(text, "own");
}

/// What all processes of a round share: how often each of them began to compile each key, and all that went wrong.
struct board {
  _Atomic int began[PROCESSES][KEYS], holding, corrupt, failed, without_lock, timeouts, late;
};

struct plan {
  unsigned keys, processes[CLIENTS], first_key, sizes[KEYS], compile_ms;
  bool looks_before, is_killed, is_swept, is_evicted, is_restarted;
};

static struct plan draw_plan(unsigned first_key) {
  struct plan p = {.keys = 1 + (unsigned)draw(KEYS), .first_key = first_key};
  do
    for (unsigned i = 0; i < CLIENTS; i++) p.processes[i] = (unsigned)draw(PROCESSES / 2 + 1);
  while (p.processes[0] + p.processes[1] < 2);
  for (unsigned i = 0; i < KEYS; i++)
    p.sizes[i] = (unsigned)draw(one_in(6) ? LARGEST : one_in(2) ? 200000 : 3000);
  p.compile_ms = (unsigned)draw(one_in(2) ? 10 : LONGEST_COMPILE_MS);
  p.looks_before = !one_in(3);
  p.is_killed = one_in(3);
  p.is_swept = one_in(3);
  p.is_evicted = one_in(8);
  return p;
}

static void check_bytes(const kiln_key *key, kiln_cache_entry *entry, size_t size) {
  if (!right_bytes(key, entry, size)) FAIL("wrong bytes were served");
  kiln_cache_entry_deinit(entry);
}

/// A build of the plan's keys, as `kiln build` makes one.
static void build(const struct plan *p, struct board *board, unsigned number, unsigned client) {
  kiln_cache_config config = config_in(seen[client]);
  const double start = now();
  config.wait_ms = WAIT_MS;
  kiln_cache *cache = open_with(&config);
  const unsigned first = (unsigned)draw(p->keys);
  for (unsigned n = 0; n < p->keys; n++) {
    const unsigned i = (first + n) % p->keys;
    kiln_key key = key_number(p->first_key + i);
    kiln_cache_claim claim = {-1};
    kiln_cache_entry entry;
    pause_ms(draw(30));
    if (p->looks_before && kiln_cache_get(cache, &key, &entry)) {
      check_bytes(&key, &entry, p->sizes[i]);
      kiln_key_deinit(&key);
      continue;
    }
    if (one_in(2)) pause_ms(draw(300)); // what is looked up next is older
    if (kiln_cache_claim_key(cache, &key, &claim, &entry)) check_bytes(&key, &entry, p->sizes[i]);
    else {
      board->began[number][i]++;
      board->holding++;
      pause_ms(p->compile_ms);
      board->failed += !stored(cache, &key, p->sizes[i]);
    }
    kiln_cache_release(&claim);
    kiln_key_deinit(&key);
  }
  board->corrupt += (int)kiln_cache_counted(cache, KILN_OUTCOME_MISS_CORRUPT) +
                    (int)kiln_cache_counted(cache, KILN_OUTCOME_QUARANTINED);
  board->without_lock += (int)kiln_cache_counted(cache, KILN_OUTCOME_NO_LOCK);
  board->timeouts += (int)kiln_cache_counted(cache, KILN_OUTCOME_WAIT_TIMEOUT) +
                     (int)kiln_cache_counted(cache, KILN_OUTCOME_TOOK_OVER);
  kiln_cache_close(cache);
  board->late += now() - start > p->keys * (2 * WAIT_MS + LONGEST_COMPILE_MS) * 1e-3 + 30;
}

static void sweep(unsigned client, bool all) {
  kiln_cache *cache = open_in(seen[client]);
  kiln_evict_report report;
  kiln_evict_choice choice = {.all = all};
  kiln_evict_sweep(kiln_cache_store(cache), &(kiln_limits){0}, &choice, NULL, NULL, &report);
  kiln_cache_close(cache);
}

/// Begins the round's processes: those of client 0 first.
static void begin(const struct plan *p, struct board *board, pid_t *children) {
  const unsigned count = p->processes[0] + p->processes[1];
  for (unsigned i = 0; i < count; i++) {
    const uint64_t own = kiln_test_random(&draws);
    if ((children[i] = fork())) continue;
    draws = own;
    build(p, board, i, i < p->processes[0] ? 0 : 1);
    _exit(0);
  }
}

/// How many processes that were not killed compiled the key.
static unsigned compiles(const struct plan *p, const struct board *board, const bool *killed, unsigned key) {
  unsigned sum = 0;
  for (unsigned i = 0; i < p->processes[0] + p->processes[1]; i++)
    sum += killed[i] ? 0 : (unsigned)board->began[i][key];
  return sum;
}

static unsigned wrong; ///< what did not hold, of all rounds

static void demand_at_most(int got, int most, const char *what) {
  if (got <= most) return;
  fprintf(stderr, "%s: %d, expected at most %d\n", what, got, most);
  wrong++;
}

static void join(const struct plan *p, pid_t *children, const bool *killed) {
  for (unsigned i = 0; i < p->processes[0] + p->processes[1]; i++) {
    int status;
    waitpid(children[i], &status, 0);
    if (!killed[i]) demand_at_most(status, 0, "a process ended with status");
  }
}

static struct board *make_board(void) {
  void *p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

/// Both clients find the key when they claim it.
static void check_there(const struct plan *p, unsigned number) {
  kiln_key key = key_number(p->first_key + number);
  for (unsigned client = 0; client < CLIENTS; client++) {
    kiln_cache *cache = open_in(seen[client]);
    kiln_cache_claim claim = {-1};
    kiln_cache_entry entry;
    bool there = kiln_cache_claim_key(cache, &key, &claim, &entry);
    demand_at_most(!there, 0, "a client does not find a key that was stored");
    if (there) check_bytes(&key, &entry, p->sizes[number]);
    kiln_cache_release(&claim);
    kiln_cache_close(cache);
  }
  kiln_key_deinit(&key);
}

static void run_command(const char *variable) {
  const char *command = getenv(variable);
  if (command && kiln_test_run(NULL, "%s", command)) FAIL("%s: %s failed", variable, command);
}

static void try_round(struct plan p) {
  pid_t children[PROCESSES];
  bool killed[PROCESSES] = {false};
  struct board *board = make_board();
  const unsigned count = p.processes[0] + p.processes[1];
  begin(&p, board, children);
  if (p.is_swept || p.is_evicted) pause_ms(draw(LONGEST_COMPILE_MS));
  if (p.is_swept || p.is_evicted) sweep((unsigned)draw(CLIENTS), p.is_evicted);
  if (p.is_restarted) {
    pause_ms(draw(LONGEST_COMPILE_MS));
    run_command("KILN_TEST_NFS_RESTART");
  }
  if (p.is_killed) {
    pause_ms(draw(2 * LONGEST_COMPILE_MS));
    const bool client_only = one_in(2);
    const unsigned client = (unsigned)draw(CLIENTS);
    for (unsigned i = 0; i < count; i++) {
      killed[i] = client_only ? (i >= p.processes[0]) == client : one_in(3);
      if (killed[i]) kill(children[i], SIGKILL);
    }
  }
  join(&p, children, killed);
  const unsigned most = locks_alone() && p.processes[0] && p.processes[1] ? CLIENTS : 1;
  demand_at_most(board->late, 0, "processes that waited too long");
  demand_at_most(board->failed, 0, "entries that could not be stored");
  demand_at_most(board->corrupt, 0, "entries that were damaged");
  demand_at_most(board->timeouts, 0, "waits that were given up");
  demand_at_most(board->without_lock, 0, "locks that did not work");
  for (unsigned i = 0; i < p.keys && !p.is_evicted; i++) {
    demand_at_most((int)compiles(&p, board, killed, i), (int)most, "processes that compiled a key");
    bool is_made = false;
    for (unsigned n = 0; n < count; n++) is_made |= !killed[n]; // each of these needs all keys
    if (is_made) check_there(&p, i);
  }
  munmap(board, sizeof *board);
}

static void begin_test(const char *name) {
  folder_on_nfs("KILN_TEST_NFS", seen[0], sizeof seen[0]);
  folder_on_nfs("KILN_TEST_NFS_OTHER", seen[1], sizeof seen[1]);
  const char *seed = getenv("KILN_TEST_SEED");
  draws = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
  fprintf(stderr, "%s: KILN_TEST_SEED=%llu\n", name, (unsigned long long)draws);
}

static unsigned rounds(void) {
  const char *text = getenv("KILN_TEST_NFS_ROUNDS");
  return text ? (unsigned)strtoul(text, NULL, 10) : 30;
}

static void try_rounds(const char *name, unsigned count, bool is_restarted) {
  begin_test(name);
  for (unsigned n = 0, key = 0; n < count; n++, key += KEYS) {
    struct plan p = draw_plan(key);
    p.is_restarted = is_restarted;
    const double start = now();
    fprintf(stderr, "round %u: %u keys, %u and %u processes, %u ms%s%s%s%s\n", n, p.keys, p.processes[0],
            p.processes[1], p.compile_ms, p.looks_before ? ", looks before" : "",
            p.is_killed ? ", kills" : "", p.is_swept ? ", swept" : "", p.is_evicted ? ", evicted" : "");
    try_round(p);
    if (is_restarted) fprintf(stderr, "%.0f s\n", now() - start);
  }
  char *left;
  sweep(0, false);
  kiln_test_run(&left, "ls -A %s/v1/main.default/staging", seen[0]);
  CHECK_TEXT(left, "");
  free(left);
  kiln_test_run(NULL, "rm -rf %s", seen[0]);
  CHECK_INT(wrong, 0);
}

TEST(nfs, drawn_rounds) { try_rounds("drawn_rounds", rounds(), false); }

/// Both clients claim their locks again, and whoever waits for the server does not take over meanwhile.
TEST(nfs, server_restarted) {
  if (!getenv("KILN_TEST_NFS_RESTART"))
    SKIP("KILN_TEST_NFS_RESTART names no command that restarts the server");
  try_rounds("server_restarted", 3, true);
}

static pid_t begin_one(unsigned client, const struct plan *p, struct board *board) {
  pid_t child = fork();
  if (child) return child;
  build(p, board, client, client);
  _exit(0);
}

/// The machine that compiles is cut off from the server: the other one waits no longer than it says, and both end with
/// the entry once the server is back.
TEST(nfs, client_cut_off) {
  enum {
    MOST_S = 100
  }; // the waits of a cache, then the server's until it takes back what it gave to the other
  if (!getenv("KILN_TEST_NFS_CUT")) SKIP("KILN_TEST_NFS_CUT names no command that cuts the other client off");
  begin_test("client_cut_off");
  const struct plan p = {.keys = 1, .sizes = {3000}, .compile_ms = 3000, .looks_before = true};
  struct board *board = make_board();
  pid_t other = begin_one(1, &p, board);
  for (unsigned n = 0; !board->holding && n < 60000; n++) pause_ms(1);
  run_command("KILN_TEST_NFS_CUT");
  const double start = now();
  pid_t own = begin_one(0, &p, board);
  int status;
  waitpid(own, &status, 0);
  const double waited = now() - start;
  run_command("KILN_TEST_NFS_MEND");
  fprintf(stderr, "the other client was waited for %.1f s\n", waited);
  demand_at_most(status, 0, "the process that was not cut off ended with status");
  demand_at_most((int)waited, MOST_S, "seconds that it took");
  waitpid(other, &status, 0);
  demand_at_most(status, 0, "the process that was cut off ended with status");
  check_there(&p, 0);
  kiln_test_run(NULL, "rm -rf %s", seen[0]);
  CHECK_INT(wrong, 0);
}
