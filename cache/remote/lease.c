// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes and renews leases in the remote store, so that only one machine makes an entry.
#include "cache/remote/lease.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, ANSWER_MS = 1000 };

typedef struct lease {
  char domain[KILN_NAME_SIZE], key[KILN_DIGEST_HEX + 1];
  int64_t since;    // 0: free
  uint32_t ms;      // how long it lives without a renewal
  bool is_beaten;   // since the last renewal
  bool is_uploaded; // it waits for that
} lease;

struct kiln_leases {
  const kiln_level *level;
  uint32_t ms, longest_ms;
  char token[64]; // who we are, among all builds of all machines
  pthread_t renewer;
  pthread_mutex_t mutex; // guards the rest
  pthread_cond_t condition;
  bool ending;
  lease items[MOST];
};

static kiln_remote_state renew(kiln_leases *l, const lease *held, uint32_t ms) {
  return l->level->kind->renew(l->level->state, held->domain, held->key, l->token, ms,
                               kiln_wire_now() + ANSWER_MS);
}

/// What is to be renewed of place `i`; those that are too old go.
static lease due(kiln_leases *l, unsigned i) {
  pthread_mutex_lock(&l->mutex);
  lease *item = &l->items[i], held = *item;
  if (!item->is_beaten && !item->is_uploaded) held.since = 0;
  if (item->since && kiln_wire_now() - item->since > l->longest_ms) item->since = held.since = 0;
  item->is_beaten = false;
  pthread_mutex_unlock(&l->mutex);
  return held;
}

static void forget(kiln_leases *l, unsigned i, const lease *lost) {
  pthread_mutex_lock(&l->mutex);
  if (l->items[i].since == lost->since && !strcmp(l->items[i].key, lost->key)) l->items[i].since = 0;
  pthread_mutex_unlock(&l->mutex);
}

/// Renews each in turn, outside of the lock: the server may be slow. One that does not answer in time is not
/// asked for the rest of them.
static void renew_all(kiln_leases *l) {
  for (unsigned i = 0; i < MOST; i++) {
    int64_t start = kiln_wire_now();
    lease held = due(l, i);
    if (held.since && renew(l, &held, held.ms) == KILN_REMOTE_ABSENT) forget(l, i, &held); // it had run out
    if (kiln_wire_now() - start >= ANSWER_MS / 2) break;
  }
}

static void *renew_loop(void *context) {
  kiln_leases *l = context;
  pthread_mutex_lock(&l->mutex);
  while (!l->ending) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)KILN_LEASE_RENEW_MS * 1000000;
    until = (struct timespec){until.tv_sec + ns / 1000000000, ns % 1000000000};
    pthread_cond_timedwait(&l->condition, &l->mutex, &until);
    if (l->ending) break;
    pthread_mutex_unlock(&l->mutex);
    renew_all(l);
    pthread_mutex_lock(&l->mutex);
  }
  pthread_mutex_unlock(&l->mutex);
  return NULL;
}

kiln_leases *kiln_leases_create(const kiln_level *level, uint32_t ms, uint32_t longest_ms) {
  kiln_leases *l = calloc(1, sizeof *l);
  char host[32] = "";
  struct timespec now;
  if (!l) return NULL;
  gethostname(host, sizeof host - 1);
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(l->token, sizeof l->token, "%.20s:%ld:%llx", host, (long)getpid(),
           (unsigned long long)now.tv_sec << 30 ^ (unsigned long long)now.tv_nsec);
  l->level = level;
  l->ms = ms;
  l->longest_ms = longest_ms;
  pthread_mutex_init(&l->mutex, NULL);
  pthread_cond_init(&l->condition, NULL);
  if (!pthread_create(&l->renewer, NULL, renew_loop, l)) return l;
  free(l);
  return NULL;
}

void kiln_leases_destroy(kiln_leases *l) {
  if (!l) return;
  pthread_mutex_lock(&l->mutex);
  l->ending = true;
  pthread_cond_signal(&l->condition);
  pthread_mutex_unlock(&l->mutex);
  pthread_join(l->renewer, NULL);
  for (unsigned i = 0; i < MOST; i++)
    if (l->items[i].since && renew(l, &l->items[i], 0) == KILN_REMOTE_FAILED)
      break; // they expire by themselves
  pthread_cond_destroy(&l->condition);
  pthread_mutex_destroy(&l->mutex);
  free(l);
}

static lease *find(kiln_leases *l, const char *domain, const char *key_hex) {
  for (unsigned i = 0; i < MOST; i++)
    if (l->items[i].since && !strcmp(l->items[i].key, key_hex) && !strcmp(l->items[i].domain, domain))
      return &l->items[i];
  return NULL;
}

static void remember(kiln_leases *l, const char *domain, const char *key_hex, uint32_t ms) {
  pthread_mutex_lock(&l->mutex);
  lease *again = find(l, domain, key_hex); // that had run out meanwhile
  if (again) again->since = 0;
  for (unsigned i = 0; i < MOST; i++) {
    lease *free_place = &l->items[i];
    if (free_place->since) continue;
    *free_place = (lease){.ms = ms, .is_beaten = true};
    snprintf(free_place->domain, sizeof free_place->domain, "%s", domain);
    snprintf(free_place->key, sizeof free_place->key, "%s", key_hex);
    free_place->since = kiln_wire_now();
    break; // one that has no place is not renewed
  }
  pthread_mutex_unlock(&l->mutex);
}

kiln_remote_state kiln_leases_take(kiln_leases *l, const char *domain, const char *key_hex, uint32_t ms,
                                   int64_t deadline) {
  if (!ms) ms = l->ms;
  kiln_remote_state state = l->level->kind->lease(l->level->state, domain, key_hex, l->token, ms, deadline);
  if (state == KILN_REMOTE_FOUND) remember(l, domain, key_hex, ms);
  return state;
}

static void mark(kiln_leases *l, const char *domain, const char *key_hex, bool is_uploaded) {
  pthread_mutex_lock(&l->mutex);
  lease *held = find(l, domain, key_hex);
  if (held) held->is_beaten = true;
  if (held) held->is_uploaded |= is_uploaded;
  pthread_mutex_unlock(&l->mutex);
}

void kiln_leases_beat(kiln_leases *l, const char *domain, const char *key_hex) {
  mark(l, domain, key_hex, false);
}

void kiln_leases_upload(kiln_leases *l, const char *domain, const char *key_hex) {
  mark(l, domain, key_hex, true);
}

void kiln_leases_drop(kiln_leases *l, const char *domain, const char *key_hex) {
  pthread_mutex_lock(&l->mutex);
  lease *held = find(l, domain, key_hex), copy = {0};
  if (held) {
    copy = *held;
    held->since = 0;
  }
  pthread_mutex_unlock(&l->mutex);
  if (copy.since) renew(l, &copy, 0);
}
