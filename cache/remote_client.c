// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts kiln-remote when it is first needed, and sends it requests over a socket.
#include "cache/remote_client.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fs.h"
#include "cache/spool.h"
#include "cache/wire.h"

// The helper keeps the deadline itself; the grace is for its answer. One that is too busy for that, MOST_LATE
// times in a row, would cost every further look-up as much.
// Waking it only fills a socket, which takes no time unless the machine has none for this process: who gave
// up would leave what is put later for the end of the build.
enum { GRACE_MS = 250, WAKE_MS = 10000, MOST_LATE = 3, URL_SIZE = 1024 };
// Claims of this process, and how often the helper is told that it works on them.
enum { MOST_CLAIMS = 256, BEAT_MS = 1000 };

typedef struct claim {
  kiln_digest key;
  char domain[KILN_NAME_SIZE]; ///< "": free
} claim;

struct kiln_remote {
  pthread_mutex_t mutex; ///< guards starting
  char program[KILN_STORE_PATH], url[URL_SIZE], root[KILN_STORE_PATH], domain[KILN_NAME_SIZE],
      space[KILN_NAME_SIZE];
  uint32_t deadline_ms, lease_ms;
  bool write, started;
  atomic_bool broken; ///< the helper is gone, late or cannot be started: no further attempts in this process
  atomic_uint late;   ///< answers in a row that did not come in time
  uint64_t max_bytes;
  struct sockaddr_un address; ///< abstract, given by the kernel
  socklen_t address_size;
  int life;                   ///< closing it lets the helper go
  pthread_mutex_t beat_mutex; ///< guards what follows
  pthread_cond_t beat_condition;
  pthread_t beater;
  bool is_beating, is_ending;
  kiln_cache_moves *moves; ///< NULL: as long as this process runs
  void *moves_context;
  claim claims[MOST_CLAIMS];
};

kiln_remote *kiln_remote_create(const char *program, const char *url, uint32_t deadline_ms, uint32_t lease_ms,
                                bool write, uint64_t max_bytes, const kiln_store *spool) {
  kiln_remote *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  snprintf(r->program, sizeof r->program, "%s", program);
  snprintf(r->url, sizeof r->url, "%s", url);
  snprintf(r->root, sizeof r->root, "%s", spool->root);
  snprintf(r->domain, sizeof r->domain, "%s", spool->domain);
  snprintf(r->space, sizeof r->space, "%.60s", strchr(spool->folder, '.') + 1);
  r->deadline_ms = deadline_ms ? deadline_ms : 2000;
  r->lease_ms = write ? lease_ms : 0; // who does not upload has nothing to promise
  r->write = write;
  r->max_bytes = max_bytes;
  r->life = -1;
  pthread_mutex_init(&r->mutex, NULL);
  pthread_mutex_init(&r->beat_mutex, NULL);
  pthread_cond_init(&r->beat_condition, NULL);
  return r;
}

void kiln_remote_destroy(kiln_remote *r) {
  if (!r) return;
  pthread_mutex_lock(&r->beat_mutex);
  r->is_ending = true;
  bool is_beating = r->is_beating;
  pthread_cond_signal(&r->beat_condition);
  pthread_mutex_unlock(&r->beat_mutex);
  if (is_beating) pthread_join(r->beater, NULL);
  pthread_cond_destroy(&r->beat_condition);
  pthread_mutex_destroy(&r->beat_mutex);
  if (r->life >= 0) close(r->life);
  pthread_mutex_destroy(&r->mutex);
  free(r);
}

/// A listening socket without a place in the file system, and its address.
static int listen_somewhere(kiln_remote *r) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un any = {.sun_family = AF_UNIX};
  r->address_size = sizeof r->address;
  if (fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof any.sun_family) && !listen(fd, 128) &&
      !getsockname(fd, (struct sockaddr *)&r->address, &r->address_size))
    return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/// Runs the helper with the listening socket as descriptor 3 and the reading end of the life pipe as 0. It
/// detaches itself, so that waiting for the first process ends at once.
static bool spawn(kiln_remote *r, int listening, int life) {
  char deadline[16], lease[16], limit[24];
  snprintf(deadline, sizeof deadline, "%u", r->deadline_ms);
  snprintf(lease, sizeof lease, "%u", r->lease_ms);
  snprintf(limit, sizeof limit, "%llu", (unsigned long long)r->max_bytes);
  char url[URL_SIZE + 32], *clean[KILN_ENV_MOST + 1];
  snprintf(url, sizeof url, "KILN_CACHE_REMOTE=%s", r->url); // not for all to see, as arguments are
  kiln_env_for(KILN_ENV_HELPER, environ, clean);
  kiln_env_set(clean, url);
  char *const argv[] = {r->program, "serve",       "--deadline-ms", deadline,  "--lease-ms",
                        lease,      "--max-bytes", limit,           "--store", r->root,
                        "--domain", r->domain,     "--space",       r->space,  r->write ? "--write" : NULL,
                        NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int status;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, listening, 3);
  posix_spawn_file_actions_adddup2(&actions, life, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY,
                                   0); // whoever reads our errors must not wait for the helper
  bool started = !posix_spawn(&pid, r->program, &actions, NULL, argv, clean);
  posix_spawn_file_actions_destroy(&actions);
  if (!started) return false;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return true; // the application reaps its children itself
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool start(kiln_remote *r) {
  pthread_mutex_lock(&r->mutex);
  if (!r->started && !r->broken) {
    int pipes[2] = {-1, -1}, listening = listen_somewhere(r);
    // Numbers above 3, so that no dup2 of the child hits another one's source.
    if (listening >= 0) {
      int high = fcntl(listening, F_DUPFD_CLOEXEC, 10);
      close(listening);
      listening = high;
    }
    bool ok = listening >= 0 && !pipe2(pipes, O_CLOEXEC);
    int life = ok ? fcntl(pipes[0], F_DUPFD_CLOEXEC, 10) : -1;
    ok = ok && life >= 0 && spawn(r, listening, life);
    if (listening >= 0) close(listening);
    if (life >= 0) close(life);
    if (pipes[0] >= 0) close(pipes[0]);
    if (ok) r->life = pipes[1];
    else if (pipes[1] >= 0) close(pipes[1]);
    r->started = ok;
    r->broken = !ok;
  }
  bool ready = r->started && !r->broken;
  pthread_mutex_unlock(&r->mutex);
  return ready;
}

// ------------------------------------------------------------------------------------ one exchange

static bool request(kiln_remote *r, uint8_t kind, const char *domain, const kiln_digest *key,
                    int64_t deadline, int *out_fd) {
  kiln_buffer b = {0};
  *out_fd = -1;
  if (!start(r)) return false;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  kiln_buffer_u32(&b, 0);
  kiln_buffer_u8(&b, kind);
  kiln_buffer_bytes(&b, key->bytes, KILN_DIGEST_SIZE);
  kiln_buffer_text(&b, domain);
  bool ok = fd >= 0 && !b.failed;
  if (ok) b.bytes[0] = (uint8_t)(b.size - 4); // far below 256
  ok = ok && !connect(fd, (const struct sockaddr *)&r->address, r->address_size) &&
       kiln_wire_move(fd, b.bytes, b.size, true, deadline);
  kiln_buffer_deinit(&b);
  if (!ok) {
    if (fd >= 0) close(fd);
    r->broken = true;
    return false;
  }
  *out_fd = fd;
  return true;
}

static kiln_remote_state receive(kiln_remote *r, int fd, int64_t deadline, kiln_blob **out_file) {
  uint8_t head[5];
  if (!kiln_wire_move(fd, head, sizeof head, false, deadline)) return KILN_REMOTE_FAILED;
  kiln_reader reader = kiln_reader_of(head, sizeof head);
  uint32_t size = kiln_read_u32(&reader);
  uint8_t state = kiln_read_u8(&reader);
  if (state != KILN_REMOTE_FOUND)
    return state >= KILN_REMOTE_ABSENT && state <= KILN_REMOTE_DENIED ? state : KILN_REMOTE_FAILED;
  if (size < 1 || size - 1 > r->max_bytes) return KILN_REMOTE_REFUSED;
  kiln_blob *file = kiln_blob_create(size - 1);
  if (file && kiln_wire_move(fd, file->bytes, file->size, false, deadline)) {
    *out_file = file;
    return KILN_REMOTE_FOUND;
  }
  kiln_blob_release(file);
  return KILN_REMOTE_FAILED;
}

static kiln_remote_state ask(kiln_remote *r, uint8_t kind, uint32_t ms, const char *domain,
                             const kiln_digest *key, kiln_blob **out_file) {
  *out_file = NULL;
  if (r->broken) return KILN_REMOTE_SKIPPED;
  int64_t deadline = kiln_wire_now() + ms + GRACE_MS;
  int fd;
  if (!request(r, kind, domain, key, deadline, &fd)) return KILN_REMOTE_FAILED;
  kiln_remote_state state = receive(r, fd, deadline, out_file);
  close(fd);
  if (state != KILN_REMOTE_FAILED || kiln_wire_now() < deadline) atomic_store(&r->late, 0);
  else if (atomic_fetch_add(&r->late, 1) + 1 >= MOST_LATE) r->broken = true;
  return state;
}

kiln_remote_state kiln_remote_get(kiln_remote *r, const char *domain, const kiln_digest *key,
                                  kiln_blob **out_file) {
  return ask(r, KILN_REMOTE_GET, r->deadline_ms, domain, key, out_file);
}

// ------------------------------------------------------------------------------------------ claims

static void tell(kiln_remote *r, uint8_t kind, const char *domain, const kiln_digest *key) {
  int fd;
  if (!r->broken && request(r, kind, domain, key, kiln_wire_now() + GRACE_MS, &fd)) close(fd);
}

/// Tells the helper once a second of each claim that is still worked on: it has no other way to know.
static void *beat(void *context) {
  kiln_remote *r = context;
  pthread_mutex_lock(&r->beat_mutex);
  while (!r->is_ending) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BEAT_MS / 1000;
    pthread_cond_timedwait(&r->beat_condition, &r->beat_mutex, &until);
    for (unsigned i = 0; i < MOST_CLAIMS && !r->is_ending; i++) {
      claim held = r->claims[i];
      if (!*held.domain || (r->moves && !r->moves(r->moves_context, &held.key))) continue;
      pthread_mutex_unlock(&r->beat_mutex);
      tell(r, KILN_REMOTE_BEAT, held.domain, &held.key);
      pthread_mutex_lock(&r->beat_mutex);
    }
  }
  pthread_mutex_unlock(&r->beat_mutex);
  return NULL;
}

/// One that finds no place, or no thread, is not reported: its lease runs out.
static void hold(kiln_remote *r, const char *domain, const kiln_digest *key) {
  pthread_mutex_lock(&r->beat_mutex);
  unsigned i = 0;
  while (i < MOST_CLAIMS && *r->claims[i].domain) i++;
  if (i < MOST_CLAIMS) {
    r->claims[i].key = *key;
    snprintf(r->claims[i].domain, sizeof r->claims[i].domain, "%s", domain);
  }
  if (!r->is_beating) r->is_beating = !pthread_create(&r->beater, NULL, beat, r);
  pthread_mutex_unlock(&r->beat_mutex);
}

static void let_go(kiln_remote *r, const char *domain, const kiln_digest *key) {
  pthread_mutex_lock(&r->beat_mutex);
  for (unsigned i = 0; i < MOST_CLAIMS; i++)
    if (!memcmp(r->claims[i].key.bytes, key->bytes, sizeof key->bytes) &&
        !strcmp(r->claims[i].domain, domain))
      *r->claims[i].domain = 0;
  pthread_mutex_unlock(&r->beat_mutex);
}

void kiln_remote_watch(kiln_remote *r, kiln_cache_moves *moves, void *context) {
  pthread_mutex_lock(&r->beat_mutex);
  r->moves = moves;
  r->moves_context = context;
  pthread_mutex_unlock(&r->beat_mutex);
}

static kiln_remote_state ask_claim(kiln_remote *r, uint8_t kind, uint32_t ms, const char *domain,
                                   const kiln_digest *key, kiln_blob **out_file) {
  *out_file = NULL;
  if (!r->lease_ms) return KILN_REMOTE_SKIPPED;
  kiln_remote_state state = ask(r, kind, ms, domain, key, out_file);
  if (state == KILN_REMOTE_ABSENT) hold(r, domain, key);
  return state;
}

kiln_remote_state kiln_remote_claim(kiln_remote *r, const char *domain, const kiln_digest *key,
                                    kiln_blob **out_file) {
  return ask_claim(r, KILN_REMOTE_CLAIM, r->lease_ms + r->deadline_ms, domain, key, out_file);
}

kiln_remote_state kiln_remote_try(kiln_remote *r, const char *domain, const kiln_digest *key,
                                  kiln_blob **out_file) {
  return ask_claim(r, KILN_REMOTE_TRY, r->deadline_ms, domain, key, out_file);
}

void kiln_remote_drop(kiln_remote *r, const char *domain, const kiln_digest *key) {
  if (!r->lease_ms || !r->started) return;
  let_go(r, domain, key);
  tell(r, KILN_REMOTE_DROP, domain, key);
}

int kiln_remote_upload(kiln_remote *r, kiln_store *store, const kiln_digest *key) {
  int e = kiln_spool_add(store, key);
  let_go(r, store->domain, key); // it is made; the helper knows of its upload
  if (e) kiln_remote_drop(r, store->domain, key);
  if (e) return e;
  int fd;
  // Starting the helper is no part of the deadline: nobody waits for an answer.
  if (r->broken || !start(r)) return 0;
  if (request(r, KILN_REMOTE_WAKE, store->domain, key, kiln_wire_now() + WAKE_MS, &fd)) close(fd);
  return 0;
}
