// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the server inside kiln-remote: it answers look-ups from a unix socket and uploads the entries
// in the store's spool.
#include "cache/remote/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/url.h"
#include "cache/entry.h"
#include "cache/remote/breaker.h"
#include "cache/remote/lease.h"
#include "cache/spool.h"
#include "cache/stats.h"

#include <fcntl.h>

enum {
  REQUEST_LIMIT = 256,
  CLIENTS = 64,
  CLIENT_MS = 5000,
  UPLOAD_MS = 20000,
  LINGER_MS = 60000,
  ERRORS_BEFORE_TRIP = 3,
  ROUND = 256
};

struct kiln_remote_server {
  kiln_store store;
  kiln_level levels[KILN_REMOTE_LEVELS];
  atomic_uint errors[KILN_REMOTE_LEVELS]; ///< answers that were errors, one after another
  _Atomic int64_t
      until[KILN_REMOTE_LEVELS]; ///< left alone till then, also where the breaker's file cannot be written
  unsigned level_count;
  uint32_t deadline_ms, lease_ms;
  kiln_leases *leases;      ///< owned; NULL: none
  unsigned lease_level;     ///< whose they are
  atomic_bool is_impatient; ///< a claim waited as long as any does: the others do not wait for such a holder
  uint64_t max_bytes;
  bool write;
  atomic_uint clients;
  pthread_mutex_t mutex; ///< guards wake, ending
  pthread_cond_t condition;
  bool wake, ending;
};

static kiln_level_options options_of(const kiln_remote_server_config *config) {
  return (kiln_level_options){.token = config->token,
                              .ca_file = config->ca_file,
                              .max_bytes = config->max_bytes,
                              .begins = KILN_ENTRY_MAGIC,
                              .expire_s = config->expire_s,
                              .s3 = config->s3};
}

static kiln_status open_level(kiln_level *level, const char *url, const kiln_level_options *options,
                              kiln_error *err) {
  char shown[KILN_URL_SHOWN];
  kiln_status status = kiln_level_open(level, url, options, err);
  return status ? kiln_context(err, status, "%s", kiln_url_shown(url, shown, sizeof shown)) : KILN_OK;
}

kiln_status kiln_remote_server_create(const kiln_remote_server_config *config, kiln_remote_server **out,
                                      kiln_error *err) {
  *out = NULL;
  kiln_remote_server *s = calloc(1, sizeof *s);
  const kiln_level_options options = options_of(config);
  char *urls = strdup(config->urls), *save;
  kiln_status status =
      s && urls ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the remote server");
  if (!status) {
    s->store.writable = true;
    s->store.shared = config->shared;
    s->store.world_writable = config->world_writable;
    s->store.max_entry_bytes = s->max_bytes = config->max_bytes;
    s->deadline_ms = config->deadline_ms;
    s->lease_ms = config->lease_ms;
    s->write = config->write;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->condition, NULL);
    status = kiln_store_open(&s->store, config->root, config->domain, config->space, err);
  }
  for (char *url = status ? NULL : strtok_r(urls, " ", &save); url && !status;
       url = strtok_r(NULL, " ", &save)) {
    if (s->level_count == KILN_REMOTE_LEVELS)
      status = kiln_fail(err, KILN_STATUS_LIMIT, "more than %d remote caches", KILN_REMOTE_LEVELS);
    else {
      status = open_level(&s->levels[s->level_count], url, &options, err);
      s->level_count += !status;
    }
  }
  for (unsigned i = 0; !status && s->lease_ms && !s->leases && i < s->level_count;
       i++) // the first level that has leases has all of them
    if (s->levels[i].kind->lease) {
      s->leases = kiln_leases_create(&s->levels[i], KILN_LEASE_MS, KILN_LEASE_LONGEST_MS);
      s->lease_level = i;
    }
  free(urls);
  if (status) kiln_remote_server_destroy(s);
  else *out = s;
  return status;
}

void kiln_remote_server_destroy(kiln_remote_server *s) {
  if (!s) return;
  kiln_leases_destroy(s->leases);
  for (unsigned i = 0; i < s->level_count; i++) kiln_level_close(&s->levels[i]);
  kiln_store_close(&s->store);
  free(s);
}

// ------------------------------------------------------------------------ look-ups

static bool is_left_alone(kiln_remote_server *s, unsigned level) {
  return kiln_wire_now() < s->until[level] || kiln_breaker_open(&s->store, s->levels[level].breaker);
}

static void leave_alone(kiln_remote_server *s, unsigned level) {
  s->until[level] = kiln_wire_now() + KILN_BREAKER_MS;
  kiln_breaker_trip(&s->store, s->levels[level].breaker, KILN_BREAKER_MS);
}

static bool is_answer(kiln_remote_state state) {
  return state != KILN_REMOTE_FAILED && state != KILN_REMOTE_DENIED;
}

/// Remembers how an exchange that began at `start` went. A server that did not answer in time, or wants
/// another password, is left alone at once, one that answers with errors after a few.
static void judge(kiln_remote_server *s, unsigned level, kiln_remote_state state, int64_t start) {
  bool late = kiln_wire_now() - start >= (int64_t)s->deadline_ms / 2;
  if (is_answer(state)) atomic_store(&s->errors[level], 0);
  else if (late || state == KILN_REMOTE_DENIED ||
           atomic_fetch_add(&s->errors[level], 1) + 1 >= ERRORS_BEFORE_TRIP)
    leave_alone(s, level);
}

kiln_remote_state kiln_remote_server_get(kiln_remote_server *s, const char *domain, const kiln_digest *key,
                                         kiln_buffer *out) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_remote_state worst = KILN_REMOTE_ABSENT;
  int64_t deadline = kiln_wire_now() + s->deadline_ms;
  kiln_digest_hex(key, hex);
  for (unsigned i = 0; i < s->level_count; i++) {
    kiln_level *l = &s->levels[i];
    kiln_remote_state state = KILN_REMOTE_SKIPPED;
    if (!is_left_alone(s, i)) {
      int64_t start = kiln_wire_now();
      state = l->kind->get(l->state, domain, hex, deadline, out);
      judge(s, i, state, start);
    }
    if (state == KILN_REMOTE_FOUND) return state;
    if (state != KILN_REMOTE_ABSENT) worst = state;
  }
  return worst;
}

// -------------------------------------------------------------------------- claims

/// Doubling from 20 to 320 ms, up to as much again by chance: builds that wait for one entry do not ask in
/// step.
static void pause_before(unsigned turn) {
  unsigned ms = 20u << (turn < 4 ? turn : 4);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  ms += (unsigned)((uint64_t)now.tv_nsec / 1000 * 2654435761u % ms);
  nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

kiln_remote_state kiln_remote_server_claim(kiln_remote_server *s, const char *domain, const kiln_digest *key,
                                           bool waits, kiln_buffer *out) {
  char hex[KILN_DIGEST_HEX + 1];
  int64_t end = kiln_wire_now() + s->lease_ms;
  kiln_digest_hex(key, hex);
  for (unsigned turn = 0; s->leases && !is_left_alone(s, s->lease_level); turn++) {
    int64_t start = kiln_wire_now();
    kiln_remote_state lease = kiln_leases_take(s->leases, domain, hex, 0, start + s->deadline_ms);
    judge(s, s->lease_level, lease, start);
    if (lease != KILN_REMOTE_FOUND && lease != KILN_REMOTE_ABSENT) return lease;
    kiln_remote_state entry = kiln_remote_server_get(
        s, domain, key, out); // after the lease: its last holder may just have uploaded
    if (lease == KILN_REMOTE_FOUND && entry != KILN_REMOTE_ABSENT) kiln_leases_drop(s->leases, domain, hex);
    if (lease == KILN_REMOTE_FOUND || entry != KILN_REMOTE_ABSENT) return entry;
    if (!waits) return KILN_REMOTE_BUSY;
    if (kiln_wire_now() >= end) s->is_impatient = true;
    if (s->is_impatient) return KILN_REMOTE_LATE;
    pause_before(turn);
  }
  return KILN_REMOTE_SKIPPED;
}

// ------------------------------------------------------------------------- uploads

struct round {
  kiln_remote_server *server;
  unsigned stored, refused,
      failed; ///< ERRORS_BEFORE_TRIP failures end a round: one may be about its body only
  unsigned errors[KILN_REMOTE_LEVELS]; ///< failures of each level, one after another
};

/// The same for uploads. Only bodies of one round count, which differ: one at which a server always fails is
/// tried again in every round, and is no reason to leave the others here.
static void judge_upload(struct round *r, unsigned level, kiln_remote_state state) {
  if (is_answer(state)) {
    r->errors[level] = 0;
    atomic_store(&r->server->errors[level], 0);
  } else if (++r->errors[level] >= ERRORS_BEFORE_TRIP || state == KILN_REMOTE_DENIED) {
    leave_alone(r->server, level);
  }
}

/// FOUND when all levels have it, REFUSED when all that lack it will never take it, FAILED when a later try
/// may do better.
static kiln_remote_state upload_bytes(struct round *r, const kiln_entry_view *view, const kiln_blob *file) {
  kiln_remote_server *s = r->server;
  char hex[KILN_DIGEST_HEX + 1], domain[KILN_NAME_SIZE] = "";
  const kiln_bytes *label = &view->labels[KILN_LABEL_DOMAIN];
  kiln_remote_state worst = s->level_count ? KILN_REMOTE_FOUND : KILN_REMOTE_FAILED;
  if (label->size < sizeof domain) memcpy(domain, label->bytes, label->size);
  if (!kiln_store_name_ok(domain)) return KILN_REMOTE_REFUSED; // nothing that anybody could look up
  kiln_digest_hex(&view->key, hex);
  for (unsigned i = 0; i < s->level_count; i++) {
    kiln_level *l = &s->levels[i];
    kiln_remote_state state = KILN_REMOTE_FAILED;
    if (!is_left_alone(s, i)) {
      state = l->kind->put(l->state, domain, hex, file->bytes, file->size, kiln_wire_now() + UPLOAD_MS);
      judge_upload(r, i, state);
      if (state == KILN_REMOTE_DENIED) state = KILN_REMOTE_FAILED; // till somebody gives the right password
    }
    if (state != KILN_REMOTE_FOUND && worst != KILN_REMOTE_FAILED) worst = state;
  }
  if (s->leases) kiln_leases_drop(s->leases, domain, hex); // it is there, or does not come from here
  return worst;
}

static kiln_blob *read_spooled(kiln_remote_server *s, int folder, const char *name) {
  struct stat st;
  size_t got = 0;
  kiln_blob *file = NULL;
  int fd = kiln_fs_open(folder, name, O_RDONLY, 0);
  if (fd < 0) return NULL;
  if (!kiln_fs_stat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= s->max_bytes + (1 << 20))
    file = kiln_blob_create((size_t)st.st_size);
  if (file && (kiln_fs_read(fd, file->bytes, file->size, &got) || got != file->size)) {
    kiln_blob_release(file);
    file = NULL;
  }
  kiln_fs_close(fd);
  return file;
}

static void count_upload(kiln_remote_server *s, kiln_outcome outcome, const kiln_digest *key, uint64_t size) {
  uint8_t record[KILN_STATS_RECORD];
  kiln_stats_record stats = {
      .outcome = outcome, .run = (uint32_t)getpid(), .time = (uint32_t)time(NULL), .bytes = size, .count = 1};
  memcpy(stats.key, key->bytes, sizeof stats.key);
  kiln_stats_encode(&stats, record);
  kiln_stats_append(&s->store, record, 1);
}

static void upload_one(void *context, int folder, const char *name) {
  struct round *r = context;
  kiln_entry_view view;
  if (r->failed >= ERRORS_BEFORE_TRIP) return;
  int64_t start = kiln_wire_now();
  kiln_blob *file = read_spooled(r->server, folder, name);
  bool good = file && !kiln_entry_parse(file->bytes, file->size, r->server->max_bytes, &view, NULL);
  kiln_remote_state state = good ? upload_bytes(r, &view, file) : KILN_REMOTE_REFUSED;
  if (state != KILN_REMOTE_FAILED) kiln_fs_unlink(folder, name); // stored, or nothing that could be
  else r->failed += kiln_wire_now() - start < UPLOAD_MS / 4 ? 1 : ERRORS_BEFORE_TRIP;
  if (good && state != KILN_REMOTE_FAILED) {
    bool stored = state == KILN_REMOTE_FOUND;
    count_upload(r->server, stored ? KILN_OUTCOME_REMOTE_STORED : KILN_OUTCOME_REMOTE_UNWANTED, &view.key,
                 file->size);
    stored ? r->stored++ : r->refused++;
  }
  kiln_blob_release(file);
}

static struct round upload_round(kiln_remote_server *s) {
  struct round r = {.server = s};
  if (s->write && (s->store.fd >= 0 || !kiln_store_make(&s->store)))
    kiln_spool_walk(&s->store, ROUND, upload_one, &r);
  return r;
}

unsigned kiln_remote_server_upload(kiln_remote_server *s) { return upload_round(s).stored; }

kiln_remote_pushed kiln_remote_server_push(kiln_remote_server *s, uint32_t wait_ms) {
  int64_t end = kiln_wire_now() + wait_ms;
  kiln_remote_pushed pushed = {0};
  for (unsigned turn = 0;; turn++) {
    struct round r;
    for (unsigned i = 0; i < s->level_count; i++) {
      s->until[i] = 0;
      kiln_breaker_reset(&s->store, s->levels[i].breaker);
    }
    do {
      r = upload_round(s);
      pushed.stored += r.stored;
      pushed.refused += r.refused;
    } while (r.stored || r.refused);
    pushed.waiting = kiln_spool_count(&s->store);
    if (!pushed.waiting || kiln_wire_now() >= end) return pushed;
    pause_before(turn);
  }
}

static void *upload_loop(void *context) {
  kiln_remote_server *s = context;
  int64_t end = 0;
  pthread_mutex_lock(&s->mutex);
  for (;;) {
    while (!s->wake && !s->ending) pthread_cond_wait(&s->condition, &s->mutex);
    if (s->ending && !end) end = kiln_wire_now() + LINGER_MS;
    s->wake = false;
    pthread_mutex_unlock(&s->mutex);
    unsigned stored = kiln_remote_server_upload(s);
    pthread_mutex_lock(&s->mutex);
    if (stored == ROUND) s->wake = true; // there is more
    if (end && (!stored || kiln_wire_now() > end)) break;
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

static void wake(kiln_remote_server *s, bool ending) {
  pthread_mutex_lock(&s->mutex);
  s->wake = true;
  s->ending |= ending;
  pthread_cond_signal(&s->condition);
  pthread_mutex_unlock(&s->mutex);
}

/// Whether machines of a fleet can tell one another here what they compile.
static bool check_lease(const kiln_level *level, const char *domain, char *out, size_t capacity) {
  if (!level->kind->lease) {
    snprintf(out, capacity, "has no leases: a fleet wants redis:// or rediss://");
    return false;
  }
  int64_t deadline = kiln_wire_now() + UPLOAD_MS;
  kiln_remote_state state = level->kind->lease(level->state, domain, "doctor", "doctor", 1000, deadline);
  bool good = state == KILN_REMOTE_FOUND || state == KILN_REMOTE_ABSENT; // absent: another doctor has it
  if (state == KILN_REMOTE_FOUND)
    good = level->kind->renew(level->state, domain, "doctor", "doctor", 0, deadline) == KILN_REMOTE_FOUND;
  size_t used = strlen(out);
  if (good) snprintf(out + used, capacity - used, "; gives leases and takes them back");
  else snprintf(out, capacity, "takes an upload, but gives no lease or does not take it back");
  return good;
}

bool kiln_remote_check(const kiln_remote_server_config *config,
                       void (*out)(void *context, const char *url, bool good, const char *text),
                       void *context) {
  const kiln_level_options options = options_of(config);
  char *urls = strdup(config->urls), *save, text[256], shown[KILN_URL_SHOWN];
  bool all = urls != NULL;
  for (char *url = urls ? strtok_r(urls, " ", &save) : NULL; url; url = strtok_r(NULL, " ", &save)) {
    kiln_level level;
    kiln_error err;
    bool good = kiln_level_open(&level, url, &options, &err) == KILN_OK;
    if (!good) snprintf(text, sizeof text, "%.250s", err.text);
    else {
      good = level.kind->check(level.state, config->domain, kiln_wire_now() + config->deadline_ms, text,
                               sizeof text);
      if (good && config->write)
        good = level.kind->check_put(level.state, config->domain, kiln_wire_now() + UPLOAD_MS, text,
                                     sizeof text);
      else if (good) strcpy(text, "answers; uploads are off (KILN_CACHE_REMOTE_WRITE)");
      if (good && config->lease_ms) good = check_lease(&level, config->domain, text, sizeof text);
    }
    kiln_level_close(&level);
    out(context, kiln_url_shown(url, shown, sizeof shown), good, text);
    all &= good;
  }
  free(urls);
  return all;
}

// ------------------------------------------------------------------------- serving

struct client {
  kiln_remote_server *server;
  int fd;
};

static bool transfer(int fd, uint8_t *bytes, size_t size, bool out) {
  return kiln_wire_move(fd, bytes, size, out, kiln_wire_now() + CLIENT_MS);
}

static void answer(kiln_remote_server *s, int fd, const uint8_t *request, size_t size) {
  kiln_reader r = kiln_reader_of(request, size);
  uint8_t kind = kiln_read_u8(&r);
  const uint8_t *key_bytes = kiln_read_bytes(&r, KILN_DIGEST_SIZE);
  size_t length;
  const uint8_t *text = kiln_read_block(&r, &length);
  char domain[KILN_NAME_SIZE] = "";
  if (!kiln_read_done(&r) || length >= sizeof domain) return;
  memcpy(domain, text, length);
  if (!kiln_store_name_ok(domain)) return;
  kiln_digest key;
  char hex[KILN_DIGEST_HEX + 1];
  memcpy(key.bytes, key_bytes, sizeof key.bytes);
  kiln_digest_hex(&key, hex);
  if (kind == KILN_REMOTE_WAKE && s->leases) kiln_leases_upload(s->leases, domain, hex);
  if (kind == KILN_REMOTE_WAKE) wake(s, false);
  if (kind == KILN_REMOTE_BEAT && s->leases) kiln_leases_beat(s->leases, domain, hex);
  if (kind == KILN_REMOTE_DROP && s->leases) kiln_leases_drop(s->leases, domain, hex);
  if (kind != KILN_REMOTE_GET && kind != KILN_REMOTE_CLAIM && kind != KILN_REMOTE_TRY) return;
  kiln_buffer found = {0}, reply = {0};
  kiln_remote_state state =
      kind == KILN_REMOTE_GET ? kiln_remote_server_get(s, domain, &key, &found)
                              : kiln_remote_server_claim(s, domain, &key, kind == KILN_REMOTE_CLAIM, &found);
  kiln_buffer_u32(&reply, (uint32_t)(state == KILN_REMOTE_FOUND ? found.size + 1 : 1));
  kiln_buffer_u8(&reply, (uint8_t)state);
  bool sent = !reply.failed && transfer(fd, reply.bytes, reply.size, true);
  if (sent && state == KILN_REMOTE_FOUND) transfer(fd, found.bytes, found.size, true);
  kiln_buffer_deinit(&found);
  kiln_buffer_deinit(&reply);
}

static void *serve_client(void *context) {
  struct client *c = context;
  uint8_t head[4], request[REQUEST_LIMIT];
  if (transfer(c->fd, head, sizeof head, false)) {
    kiln_reader r = kiln_reader_of(head, sizeof head);
    uint32_t size = kiln_read_u32(&r);
    if (size && size <= REQUEST_LIMIT && transfer(c->fd, request, size, false))
      answer(c->server, c->fd, request, size);
  }
  close(c->fd);
  atomic_fetch_sub(&c->server->clients, 1);
  free(c);
  return NULL;
}

/// Only processes of the same user are listened to: an abstract socket has no permissions of its own.
static bool same_user(int fd) {
  struct ucred who;
  socklen_t size = sizeof who;
  return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.uid == geteuid();
}

static void accept_client(kiln_remote_server *s, int listening) {
  int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  struct client *c = same_user(fd) ? malloc(sizeof *c) : NULL;
  pthread_t id;
  if (!c) {
    close(fd);
    return;
  }
  *c = (struct client){s, fd};
  atomic_fetch_add(&s->clients, 1);
  if (!pthread_create(&id, NULL, serve_client, c)) {
    pthread_detach(id);
    return;
  }
  atomic_fetch_sub(&s->clients, 1);
  close(fd);
  free(c);
}

void kiln_remote_server_run(kiln_remote_server *s, int listening, int life) {
  pthread_t uploader;
  bool uploading = s->write && !pthread_create(&uploader, NULL, upload_loop, s);
  if (uploading) wake(s, false); // what an earlier build left
  for (;;) {
    bool full = atomic_load(&s->clients) >= CLIENTS;
    struct pollfd p[2] = {{life, POLLIN, 0}, {full ? -1 : listening, POLLIN, 0}};
    int n = poll(p, 2, full ? 10 : -1);
    if (n < 0 && errno != EINTR) break;
    if (n > 0 && p[0].revents) break;
    if (n > 0 && p[1].revents) accept_client(s, listening);
  }
  for (unsigned n = 0; n < CLIENT_MS / 10 && atomic_load(&s->clients); n++)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  if (!uploading) return;
  wake(s, true);
  pthread_join(uploader, NULL);
}
