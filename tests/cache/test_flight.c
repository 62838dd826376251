// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that processes compile each key once, whatever happens to the one that holds the lock. (fault tests
// 3, 14, 18; behaviours 26 to 28)
#include "base/fs.h"
#include "tests/cache/common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 5000 };

/// What all processes of a test share.
struct board {
  _Atomic int started, compiles, wrong, holding;
};

static struct board *make_board(void) {
  void *p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static void pause_ms(unsigned ms) {
  struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
  while (nanosleep(&t, &t)) continue;
}

/// A build of one kernel that takes `ms` to compile.
static void build(const char *folder, const kiln_key *key, struct board *board, unsigned wait_ms,
                  unsigned ms) {
  kiln_cache_config config = config_in(folder);
  kiln_cache_claim claim = {-1};
  kiln_cache_entry entry;
  config.wait_ms = wait_ms;
  kiln_cache *cache = open_with(&config);
  bool there = kiln_cache_get(cache, key, &entry) || kiln_cache_claim_key(cache, key, &claim, &entry);
  if (there) {
    if (!right_bytes(key, &entry, SIZE)) board->wrong++;
    kiln_cache_entry_deinit(&entry);
  } else {
    board->holding++;
    pause_ms(ms);
    board->compiles++;
    put_size(cache, key, SIZE);
  }
  kiln_cache_release(&claim);
  kiln_cache_close(cache);
}

static pid_t spawn(const char *folder, const kiln_key *key, struct board *board, unsigned wait_ms,
                   unsigned ms) {
  pid_t child = fork();
  if (child) return child;
  board->started++;
  build(folder, key, board, wait_ms, ms);
  _exit(0);
}

static void wait_for(_Atomic int *what, int value) {
  for (unsigned n = 0; *what < value; n++) {
    if (n > 60000) FAIL("waited a minute for %d, found %d", value, *what);
    pause_ms(1);
  }
}

static void join(pid_t *children, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    int status;
    waitpid(children[i], &status, 0);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
  }
}

TEST(flight, one_cold_key_one_compile) {
  char folder[256];
  for (unsigned processes = 2; processes <= (kiln_test_full() ? 256 : 64); processes *= 2) {
    struct board *board = make_board();
    pid_t children[256];
    kiln_key key = key_number(processes);
    snprintf(folder, sizeof folder, "%s/%u", kiln_test_folder(), processes);
    for (unsigned i = 0; i < processes; i++) children[i] = spawn(folder, &key, board, 20000, 100);
    join(children, processes);
    CHECK_INT(board->compiles, 1);
    CHECK_INT(board->wrong, 0);
    kiln_key_deinit(&key);
  }
}

TEST(flight, holder_killed) {
  const char *folder = kiln_test_folder();
  struct board *board = make_board();
  pid_t children[32];
  kiln_key key = key_of("a");
  pid_t holder = spawn(folder, &key, board, 20000, 60000);
  wait_for(&board->holding, 1);
  for (unsigned i = 0; i < 32; i++) children[i] = spawn(folder, &key, board, 20000, 50);
  wait_for(&board->started, 33);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  join(children, 32);
  CHECK_INT(board->compiles, 1);
  CHECK_INT(board->wrong, 0);
  kiln_key_deinit(&key);
}

TEST(flight, holder_stopped) {
  const char *folder = kiln_test_folder();
  struct board *board = make_board();
  pid_t children[32];
  kiln_key key = key_of("a");
  pid_t holder = spawn(folder, &key, board, 20000, 100);
  wait_for(&board->holding, 1);
  kill(holder, SIGSTOP);
  for (unsigned i = 0; i < 32; i++) children[i] = spawn(folder, &key, board, 400, 50);
  join(children, 32);
  CHECK_INT(board->compiles, 1); // by the one that took over; the holder's is still to come
  kill(holder, SIGCONT);
  join(&holder, 1);
  CHECK_INT(board->compiles, 2);
  CHECK_INT(board->wrong, 0);
  kiln_cache *cache = open_in(folder);
  CHECK_INT(get_size(cache, &key, SIZE), 1);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

TEST(flight, distinct_keys_do_not_wait) {
  const char *folder = kiln_test_folder();
  struct board *board = make_board();
  pid_t children[16];
  kiln_key keys[16];
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (unsigned i = 0; i < 16; i++) {
    keys[i] = key_number(i);
    children[i] = spawn(folder, &keys[i], board, 20000, 300);
  }
  join(children, 16);
  clock_gettime(CLOCK_MONOTONIC, &b);
  CHECK_INT(board->compiles, 16);
  CHECK((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < 16 * 300 / 2);
  for (unsigned i = 0; i < 16; i++) kiln_key_deinit(&keys[i]);
}

struct thread {
  const char *folder;
  const kiln_key *key;
  kiln_cache *cache;
  struct board *board;
};

static void *in_thread(void *context) {
  struct thread *t = context;
  kiln_cache_claim claim;
  kiln_cache_entry entry;
  if (kiln_cache_claim_key(t->cache, t->key, &claim, &entry)) {
    if (!right_bytes(t->key, &entry, SIZE)) t->board->wrong++;
    kiln_cache_entry_deinit(&entry);
  } else {
    pause_ms(50);
    t->board->compiles++;
    put_size(t->cache, t->key, SIZE);
  }
  kiln_cache_release(&claim);
  return NULL;
}

TEST(flight, threads_of_one_process_exclude_each_other) {
  const char *folder = kiln_test_folder();
  kiln_cache_config config = config_in(folder);
  kiln_key key = key_of("a");
  struct thread t = {folder, &key, open_with(&config), make_board()};
  pthread_t ids[16];
  for (unsigned i = 0; i < 16; i++) CHECK(!pthread_create(&ids[i], NULL, in_thread, &t));
  for (unsigned i = 0; i < 16; i++) pthread_join(ids[i], NULL);
  CHECK_INT(t.board->compiles, 1);
  CHECK_INT(t.board->wrong, 0);
  kiln_cache_close(t.cache);
  kiln_key_deinit(&key);
}

TEST(flight, a_program_that_is_started_does_not_inherit_the_lock) {
  const char *folder = kiln_test_folder();
  kiln_key key = key_of("a");
  kiln_cache_claim claim, second;
  kiln_cache_entry entry;
  kiln_cache_config config = config_in(folder);
  config.wait_ms = 2000;
  kiln_cache *cache = open_with(&config);
  CHECK(!kiln_cache_claim_key(cache, &key, &claim, &entry) && claim.fd >= 0);
  pid_t child = fork();
  if (!child) {
    execlp("sleep", "sleep", "5", (char *)NULL);
    _exit(1);
  }
  pause_ms(100);
  kiln_cache_release(&claim);
  CHECK(!kiln_cache_claim_key(cache, &key, &second, &entry));
  CHECK_INT(kiln_cache_counted(cache, KILN_OUTCOME_WAITED), 0);
  kiln_cache_release(&second);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  kiln_cache_close(cache);
  kiln_key_deinit(&key);
}

/// A client of NFS: once a name was looked up in vain it is missing, until this client changes the folders that it is in.
struct client {
  bool knows_missing, changed_entries;
  size_t opened; ///< the length of the path that was opened last
  unsigned lock_error;
};

static int as_a_client(void *context, kiln_fs_call call, const char *path, size_t *size) {
  struct client *c = context;
  (void)size;
  if (call == KILN_FS_LOCK) return (int)c->lock_error;
  if (call == KILN_FS_TIMES && c->opened == strlen("entries")) c->changed_entries = true;
  if (call == KILN_FS_TIMES && c->opened == strlen("entries/ab") && c->changed_entries)
    c->knows_missing = false;
  if (call != KILN_FS_OPEN || !path) return 0;
  c->opened = strncmp(path, "entries", 7) ? 0 : strlen(path);
  return c->opened > strlen("entries/ab") && c->knows_missing ? ENOENT : 0;
}

/// The kernel remembers that there was no entry; meanwhile another machine made it. Whoever claims the key finds it,
/// with locks and without.
TEST(flight, what_a_client_remembers_as_missing_is_looked_up_again) {
  const char *folder = kiln_test_folder();
  for (unsigned n = 0; n < 2; n++) {
    struct client client = {.lock_error = n ? ENOLCK : 0};
    kiln_key key = key_number(n);
    kiln_cache_claim claim = {-1};
    kiln_cache_entry entry;
    kiln_cache *cache = open_in(folder);
    CHECK_INT(get_size(cache, &key, SIZE), 0);
    kiln_cache *other = open_in(folder);
    CHECK_INT(put_size(other, &key, SIZE), KILN_OK);
    kiln_cache_close(other);
    client.knows_missing = true;
    kiln_fs_install(as_a_client, &client);
    CHECK_INT(get_size(cache, &key, SIZE), 0);
    bool there = kiln_cache_claim_key(cache, &key, &claim, &entry);
    kiln_fs_install(NULL, NULL);
    CHECK(there && right_bytes(&key, &entry, SIZE));
    kiln_cache_entry_deinit(&entry);
    kiln_cache_release(&claim);
    kiln_cache_close(cache);
    kiln_key_deinit(&key);
  }
}

/// The first lock of this process takes as long as a server that starts again: longer than a wait.
static int slow_server(void *context, kiln_fs_call call, const char *path, size_t *size) {
  bool *is_slow = context;
  (void)path, (void)size;
  if (call == KILN_FS_LOCK && *is_slow) pause_ms(3500);
  if (call == KILN_FS_LOCK) *is_slow = false;
  return 0;
}

TEST(flight, a_slow_server_is_no_reason_to_take_over) {
  const char *folder = kiln_test_folder();
  struct board *board = make_board();
  bool is_slow = true;
  kiln_key key = key_of("a");
  pid_t holder = spawn(folder, &key, board, 20000, 4000);
  wait_for(&board->holding, 1);
  kiln_fs_install(slow_server, &is_slow);
  build(folder, &key, board, 3000, 0);
  kiln_fs_install(NULL, NULL);
  join(&holder, 1);
  CHECK(!is_slow);
  CHECK_INT(board->compiles, 1);
  CHECK_INT(board->wrong, 0);
  kiln_key_deinit(&key);
}

/// A client of NFS that remembers that the store's folder is missing, until it changes the one that this is in.
static int knows_no_store(void *context, kiln_fs_call call, const char *path, size_t *size) {
  bool *knows_missing = context;
  const char *end = path ? strstr(path, "/main.default") : NULL;
  (void)size;
  if (call == KILN_FS_TIMES) *knows_missing = false;
  return *knows_missing && end && !end[13] && (call == KILN_FS_OPEN || call == KILN_FS_STAT) ? ENOENT : 0;
}

TEST(flight, a_store_that_a_client_remembers_as_missing_is_used) {
  const char *folder = kiln_test_folder();
  bool knows_missing = true;
  kiln_key keys[2] = {key_number(0), key_number(1)};
  kiln_cache *other = open_in(folder);
  CHECK_INT(put_size(other, &keys[0], SIZE), KILN_OK);
  kiln_fs_install(knows_no_store, &knows_missing);
  kiln_cache *cache = open_in(folder);
  CHECK_INT(get_size(cache, &keys[0], SIZE), 0);
  CHECK_INT(put_size(cache, &keys[1], SIZE), KILN_OK);
  CHECK_INT(get_size(cache, &keys[0], SIZE), 1);
  kiln_fs_install(NULL, NULL);
  CHECK_INT(get_size(other, &keys[1], SIZE), 1);
  kiln_cache_close(cache);
  kiln_cache_close(other);
  for (unsigned i = 0; i < 2; i++) kiln_key_deinit(&keys[i]);
}
