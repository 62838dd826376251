// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combines the levels of the cache: memory, read-only stores, the own store and the remote side.
#include "cache/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/entry.h"
#include "cache/flight.h"

#include "base/fs.h"

void kiln_cache_config_init(kiln_cache_config *config) {
  memset(config, 0, sizeof *config);
  config->max_bytes = (uint64_t)10 << 30;
  config->min_free_bytes = KILN_FREE_BY_SIZE;
  config->min_free_files = 4096;
  config->max_entry_bytes = (uint64_t)256 << 20;
  config->wait_ms = 30000;
  config->recency_s = 60;
  config->level = 1;
  config->remote_ms = 2000;
}

// ---------------------------------------------------------------------------------- open and close

static kiln_status add_store(kiln_cache *c, const kiln_cache_config *config, const char *root,
                             const char *domain, bool writable, kiln_error *err) {
  kiln_store *s = &c->stores[c->store_count];
  s->writable = writable;
  s->shared = config->shared;
  s->world_writable = config->world_writable;
  s->durable = config->durable;
  s->max_entry_bytes = config->max_entry_bytes;
  s->recency_s = config->recency_s;
  s->policy = config->policy;
  s->trusted = c->trusted;
  s->trusted_count = config->trusted_count;
  s->signer = c->has_signer ? &c->signer : NULL;
  s->vouched_only = config->vouched_only;
  kiln_status status = kiln_store_open(s, root, domain, config->space ? config->space : "default", err);
  if (!status) c->store_count++;
  else s->root[0] = 0;
  return status;
}

static kiln_status add_stores(kiln_cache *c, const kiln_cache_config *config, kiln_error *err) {
  kiln_status status = KILN_OK;
  for (unsigned i = 0; i < KILN_CACHE_LAYERS && config->layers[i] && !status; i++)
    if (!(status = add_store(c, config, config->layers[i], c->domain, false, err))) c->stores[i].layer = true;
  if (!config->folder) return status;
  for (unsigned i = 0; i < KILN_CACHE_LAYERS && config->read_domains[i] && !status; i++)
    status = add_store(c, config, config->folder, config->read_domains[i], false, err);
  if (!status) status = add_store(c, config, config->folder, c->domain, !config->read_only, err);
  if (!status && !config->read_only) c->own = &c->stores[c->store_count - 1];
  return status;
}

/// Who signs believes his own signatures, unless the list says otherwise of his key.
static void trust_own(kiln_cache *c, const kiln_cache_config *config) {
  memcpy(c->sign_key, config->sign_key, sizeof c->sign_key);
  memcpy(c->signer.public_key, config->sign_key + 32, sizeof c->signer.public_key); // libsodium's layout
  strcpy(c->signer.name, "own");
  strcpy(c->signer.domains, "*");
  c->sign = c->has_signer = true;
  for (uint32_t i = 0; i < config->trusted_count; i++)
    c->has_signer &=
        memcmp(config->trusted[i].public_key, c->signer.public_key, sizeof c->signer.public_key) != 0;
}

static kiln_status copy_trust(kiln_cache *c, const kiln_cache_config *config, kiln_error *err) {
  if (config->sign_key) trust_own(c, config);
  if (!config->trusted_count) return KILN_OK;
  c->trusted = calloc(config->trusted_count, sizeof *c->trusted);
  if (!c->trusted)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for %u trusted keys", config->trusted_count);
  memcpy(c->trusted, config->trusted, config->trusted_count * sizeof *c->trusted);
  return KILN_OK;
}

static kiln_status add_levels(kiln_cache *c, const kiln_cache_config *config, kiln_error *err) {
  if (config->memory_bytes) {
    c->memory = kiln_memory_create(config->memory_bytes);
    if (!c->memory) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the memory level");
  }
  if (config->remote_program && config->remote_url && c->own) {
    c->remote =
        kiln_remote_create(config->remote_program, config->remote_url, config->remote_ms,
                           config->remote_lease_ms, config->remote_write, config->max_entry_bytes, c->own);
    if (!c->remote) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for the remote level");
  }
  return KILN_OK;
}

kiln_status kiln_cache_open(const kiln_cache_config *config, kiln_cache **out, kiln_error *err) {
  *out = NULL;
  const char *domain = config->domain ? config->domain : "main";
  if (!kiln_store_name_ok(domain))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "cache domain: expected [a-z0-9_-]{1,40}, found \"%.60s\"", domain);
  uint32_t layers = 0, domains = 0;
  while (layers < KILN_CACHE_LAYERS && config->layers[layers]) layers++;
  while (domains < KILN_CACHE_LAYERS && config->read_domains[domains]) domains++;
  const uint32_t most_stores = layers + (config->folder ? domains + 1 : 0);
  kiln_cache *c = calloc(1, sizeof *c + most_stores * sizeof *c->stores);
  if (!c) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a cache");
  c->config = *config;
  strcpy(c->domain, domain);
  c->limits =
      (kiln_limits){config->max_bytes, config->max_files, config->min_free_bytes, config->min_free_files};
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  c->run = (uint32_t)(((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) >>
                      10); // tells runs apart without a system call
  pthread_mutex_init(&c->stats_mutex, NULL);
  kiln_status status = copy_trust(c, config, err);
  if (!status) status = add_stores(c, config, err);
  if (!status) status = add_levels(c, config, err);
  if (!status) *out = c;
  else kiln_cache_close(c);
  return status;
}

void kiln_cache_close(kiln_cache *c) {
  if (!c) return;
  if (c->step_due) kiln_cache_step(c);
  if (c->memory) {
    uint64_t hits = kiln_memory_hits(c->memory);
    if (hits && c->own && !c->config.no_stats) {
      uint8_t bytes[KILN_STATS_RECORD];
      kiln_cache_flush(c);
      kiln_stats_encode(
          &(kiln_stats_record){
              .outcome = KILN_OUTCOME_HIT_MEMORY, .run = c->run, .time = (uint32_t)time(NULL), .count = hits},
          bytes);
      kiln_stats_append(c->own, bytes, 1);
    }
  }
  kiln_cache_flush(c);
  kiln_remote_destroy(c->remote);
  kiln_memory_destroy(c->memory);
  for (uint32_t i = 0; i < c->store_count; i++) kiln_store_close(&c->stores[i]);
  pthread_mutex_destroy(&c->stats_mutex);
  free(c->trusted);
  free(c->files);
  memset(c->sign_key, 0, sizeof c->sign_key);
  free(c);
}

// ---------------------------------------------------------------------------------------- counting

static void flush_locked(kiln_cache *c) {
  if (c->batched && c->own) kiln_stats_append(c->own, c->batch, c->batched);
  c->batched = 0;
}

void kiln_cache_flush(kiln_cache *c) {
  pthread_mutex_lock(&c->stats_mutex);
  flush_locked(c);
  pthread_mutex_unlock(&c->stats_mutex);
}

static void count_error(kiln_cache *c, kiln_outcome outcome, const kiln_digest *key, uint64_t bytes,
                        uint64_t ns, int error_number) {
  atomic_fetch_add_explicit(&c->counts[outcome], 1, memory_order_relaxed);
  if (!c->own || c->config.no_stats) return;
  kiln_stats_record r = {.outcome = (uint8_t)outcome,
                         .run = c->run,
                         .time = (uint32_t)time(NULL),
                         .bytes = bytes,
                         .ns = ns,
                         .error_number = error_number,
                         .count = 1};
  if (key) memcpy(r.key, key->bytes, sizeof r.key);
  pthread_mutex_lock(&c->stats_mutex);
  kiln_stats_encode(&r, c->batch + c->batched * KILN_STATS_RECORD);
  if (++c->batched == KILN_STATS_BATCH) flush_locked(c);
  pthread_mutex_unlock(&c->stats_mutex);
}

void kiln_cache_count(kiln_cache *c, kiln_outcome outcome, const kiln_digest *key, uint64_t bytes,
                      uint64_t ns) {
  count_error(c, outcome, key, bytes, ns, 0);
}

uint64_t kiln_cache_counted(const kiln_cache *c, kiln_outcome outcome) {
  if (outcome == KILN_OUTCOME_HIT_MEMORY) return c->memory ? kiln_memory_hits(c->memory) : 0;
  return atomic_load_explicit(&c->counts[outcome], memory_order_relaxed);
}

// ----------------------------------------------------------------------------------------- reading

kiln_outcome kiln_cache_look(kiln_cache *c, const kiln_digest *key, const uint8_t *fields, size_t fields_size,
                             kiln_cache_entry *out, kiln_store **out_store, bool *warned, kiln_error *err) {
  kiln_cache_entry worst = {.outcome = KILN_OUTCOME_MISS_ABSENT};
  kiln_store *where = c->own;
  for (uint32_t i = 0; i < c->store_count; i++) {
    kiln_store *s = &c->stores[i];
    kiln_outcome outcome = kiln_store_read(s, key, fields, fields_size, out, warned, err);
    if (outcome == KILN_OUTCOME_HIT_LOCAL) {
      bool last = i + 1 == c->store_count && c->config.folder;
      out->outcome = last ? KILN_OUTCOME_HIT_LOCAL : KILN_OUTCOME_HIT_LAYER;
      if (out_store) *out_store = s;
      return out->outcome;
    }
    if (outcome != KILN_OUTCOME_MISS_ABSENT) {
      worst.outcome = outcome;
      worst.error_number = out->error_number;
      where = s;
    }
  }
  *out = worst;
  if (out_store) *out_store = where;
  return worst.outcome;
}

static void found(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out, bool warned) {
  if (warned) kiln_cache_count(c, KILN_OUTCOME_UNSIGNED_WARNING, &key->digest, 0, 0);
  kiln_cache_count(c, out->outcome, &key->digest, out->content.payload.size, out->content.cost_ns);
  if (c->memory) kiln_memory_put(c->memory, &key->digest, out);
}

/// Writes an encoded entry to the own store and counts what came of it; 0 also when there is a good one
/// already.
static int publish(kiln_cache *c, const kiln_key *key, const uint8_t *bytes, size_t size) {
  kiln_cache_entry there;
  bool warned = false, healed = false;
  int e = kiln_store_write(c->own, &key->digest, bytes, size, c->config.no_read);
  if (e == 1) {
    if (kiln_store_read(c->own, &key->digest, key->fields, key->fields_size, &there, &warned, NULL) ==
        KILN_OUTCOME_HIT_LOCAL) {
      kiln_cache_entry_deinit(&there);
      kiln_cache_count(c, KILN_OUTCOME_STORED_ALREADY, &key->digest, 0, 0);
      return 0;
    }
    e = kiln_store_write(c->own, &key->digest, bytes, size, true);
    healed = !e;
  }
  if (e) {
    static const struct {
      int error_number;
      kiln_outcome outcome;
    } kinds[] = {{ENOSPC, KILN_OUTCOME_STORE_NO_SPACE}, {EDQUOT, KILN_OUTCOME_STORE_NO_SPACE},
                 {EFBIG, KILN_OUTCOME_STORE_NO_SPACE},  {EROFS, KILN_OUTCOME_STORE_READ_ONLY},
                 {EACCES, KILN_OUTCOME_STORE_DENIED},   {EPERM, KILN_OUTCOME_STORE_DENIED}};
    kiln_outcome outcome = KILN_OUTCOME_STORE_IO;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
      if (kinds[i].error_number == -e) outcome = kinds[i].outcome;
    if (outcome == KILN_OUTCOME_STORE_NO_SPACE) c->step_due = true;
    count_error(c, outcome, &key->digest, size, 0, -e);
    return e;
  }
  if (healed) kiln_cache_count(c, KILN_OUTCOME_HEALED, &key->digest, 0, 0);
  kiln_cache_count(c, KILN_OUTCOME_STORED, &key->digest, size, 0);
  if (kiln_usage_add(c->own, &c->limits, size, &key->digest)) c->step_due = true;
  return 0;
}

typedef kiln_remote_state remote_question(kiln_remote *remote, const char *domain, const kiln_digest *key,
                                          kiln_blob **out_file);

/// Asks the remote side; a hit is checked like any file and stored locally.
static bool get_remote(kiln_cache *c, remote_question *question, const kiln_key *key, kiln_cache_entry *out,
                       kiln_remote_state *out_state) {
  kiln_blob *file = NULL;
  bool warned = false;
  kiln_remote_state state = question(c->remote, c->domain, &key->digest, &file);
  if (out_state) *out_state = state;
  if (state == KILN_REMOTE_FOUND) {
    kiln_blob_retain(file);
    kiln_outcome outcome =
        kiln_store_accept(c->own, file, &key->digest, key->fields, key->fields_size, out, &warned, NULL);
    if (outcome == KILN_OUTCOME_HIT_LOCAL) {
      out->outcome = KILN_OUTCOME_HIT_REMOTE;
      publish(c, key, file->bytes, file->size);
      kiln_blob_release(file);
      found(c, key, out, warned);
      return true;
    }
    kiln_blob_release(file);
    state = outcome == KILN_OUTCOME_MISS_UNREADABLE ? KILN_REMOTE_FAILED : KILN_REMOTE_REFUSED;
  }
  static const kiln_outcome counters[] = {[KILN_REMOTE_FAILED] = KILN_OUTCOME_REMOTE_FAILED,
                                          [KILN_REMOTE_SKIPPED] = KILN_OUTCOME_REMOTE_SKIPPED,
                                          [KILN_REMOTE_REFUSED] = KILN_OUTCOME_REMOTE_REFUSED,
                                          [KILN_REMOTE_DENIED] = KILN_OUTCOME_REMOTE_DENIED,
                                          [KILN_REMOTE_LATE] = KILN_OUTCOME_WAIT_TIMEOUT};
  if (state < sizeof counters / sizeof *counters && counters[state])
    kiln_cache_count(c, counters[state], &key->digest, 0, 0);
  return false;
}

/// Memory and stores. False: `out` says which kind of miss it is so far; it is not counted yet.
static bool get_here(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out) {
  memset(out, 0, sizeof *out);
  out->outcome = KILN_OUTCOME_MISS_SKIPPED;
  if (c->config.no_read) return false;
  if (c->memory && kiln_memory_get(c->memory, key, out)) {
    if (out->vouched || !c->config.vouched_only) return true;
    kiln_cache_entry_deinit(out);
  }
  kiln_store *where = NULL;
  bool warned = false;
  kiln_outcome outcome =
      kiln_cache_look(c, &key->digest, key->fields, key->fields_size, out, &where, &warned, NULL);
  if (out->held) {
    found(c, key, out, warned);
    return true;
  }
  if (outcome != KILN_OUTCOME_MISS_CORRUPT || !c->own || where != c->own) return false;
  // On NFS that may be a file which another machine has replaced: what goes aside is what has the name now.
  kiln_store_look_again(c->own, &key->digest);
  outcome = kiln_cache_look(c, &key->digest, key->fields, key->fields_size, out, &where, &warned, NULL);
  if (out->held) {
    found(c, key, out, warned);
    return true;
  }
  if (outcome == KILN_OUTCOME_MISS_CORRUPT && where == c->own && !kiln_store_quarantine(c->own, &key->digest))
    kiln_cache_count(c, KILN_OUTCOME_QUARANTINED, &key->digest, 0, 0);
  return false;
}

static bool read_stored(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out, bool *warned) {
  memset(out, 0, sizeof *out);
  if (c->config.no_read || !kiln_cache_contains(c, &key->digest)) return false;
  kiln_cache_look(c, &key->digest, key->fields, key->fields_size, out, NULL, warned, NULL);
  return out->held;
}

bool kiln_cache_get_stored(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out) {
  bool warned = false;
  if (!read_stored(c, key, out, &warned)) return false;
  found(c, key, out, warned);
  return true;
}

bool kiln_cache_recall(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out) {
  bool warned = false;
  if (!read_stored(c, key, out, &warned)) return false;
  if (warned) kiln_cache_count(c, KILN_OUTCOME_UNSIGNED_WARNING, &key->digest, 0, 0);
  return true;
}

/// What is left of a look-up after the miss of get_here: the remote side, or a miss that counts.
static bool get_elsewhere(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out) {
  kiln_outcome outcome = out->outcome;
  int error_number = out->error_number;
  if (c->remote && !c->config.no_read && get_remote(c, kiln_remote_get, key, out, NULL)) return true;
  memset(out, 0, sizeof *out);
  out->outcome = outcome;
  out->error_number = error_number;
  count_error(c, outcome, &key->digest, 0, 0, error_number);
  return false;
}

bool kiln_cache_get(kiln_cache *c, const kiln_key *key, kiln_cache_entry *out) {
  return get_here(c, key, out) || get_elsewhere(c, key, out);
}

// ------------------------------------------------------------------------------------ many look-ups

enum { QUESTIONS = 32 }; // at the same time: a remote side takes its time for each

typedef struct question {
  size_t index;
  kiln_cache_entry entry; ///< the miss of get_here
} question;

typedef struct batch {
  kiln_cache *cache;
  const kiln_key *const *keys;
  question *questions; ///< owned
  size_t count, next;  ///< next: under mutex
  pthread_mutex_t mutex;
  kiln_cache_found *each; ///< called under mutex
  void *context;
} batch;

static void *ask(void *context) {
  batch *b = context;
  for (;;) {
    pthread_mutex_lock(&b->mutex);
    question *q = b->next < b->count ? &b->questions[b->next++] : NULL;
    pthread_mutex_unlock(&b->mutex);
    if (!q) return NULL;
    if (!get_elsewhere(b->cache, b->keys[q->index], &q->entry)) continue;
    pthread_mutex_lock(&b->mutex);
    b->each(b->context, q->index, &q->entry);
    pthread_mutex_unlock(&b->mutex);
  }
}

void kiln_cache_get_many(kiln_cache *c, const kiln_key *const *keys, size_t count, kiln_cache_found *each,
                         void *context) {
  batch b = {.cache = c, .keys = keys, .each = each, .context = context};
  pthread_t threads[QUESTIONS];
  unsigned started = 0;
  b.questions = c->remote ? calloc(count, sizeof *b.questions) : NULL;
  pthread_mutex_init(&b.mutex, NULL);
  for (size_t i = 0; i < count; i++) {
    question q = {.index = i};
    if (get_here(c, keys[i], &q.entry)) each(context, i, &q.entry);
    else if (b.questions) b.questions[b.count++] = q;
    else if (get_elsewhere(c, keys[i], &q.entry)) each(context, i, &q.entry);
  }
  while (started + 1 < b.count && started < QUESTIONS && !pthread_create(&threads[started], NULL, ask, &b))
    started++;
  ask(&b); // this thread is one of them, and all where no thread can be had
  for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
  pthread_mutex_destroy(&b.mutex);
  free(b.questions);
}

// ----------------------------------------------------------------------------------------- writing

/// The memory level keeps the content in one piece, as the file has it.
static void remember(kiln_cache *c, const kiln_key *key, const kiln_cache_content *content,
                     const kiln_buffer *encoded) {
  kiln_entry_view view;
  kiln_cache_entry entry = {0};
  if (kiln_entry_parse(encoded->bytes, encoded->size, UINT64_MAX - 1, &view, NULL)) return;
  kiln_blob *blob = kiln_blob_create((size_t)view.raw_size);
  if (!blob) return;
  const kiln_bytes parts[4] = {
      {key->fields, key->fields_size}, content->metadata, content->diagnostics, content->payload};
  uint8_t *at = blob->bytes;
  for (unsigned i = 0; i < 4; i++) {
    if (parts[i].size) memcpy(at, parts[i].bytes, parts[i].size);
    at += parts[i].size;
  }
  kiln_entry_point(&view, blob->bytes, &entry);
  entry.held = blob;
  entry.vouched = c->sign && !content->unvouched;
  kiln_memory_put(c->memory, &key->digest, &entry);
  kiln_blob_release(blob);
}

kiln_status kiln_cache_put(kiln_cache *c, const kiln_key *key, const kiln_cache_content *content,
                           kiln_error *err) {
  kiln_buffer encoded = {0};
  uint64_t total =
      key->fields_size + content->metadata.size + content->diagnostics.size + content->payload.size;
  if (total > c->config.max_entry_bytes) {
    kiln_cache_count(c, KILN_OUTCOME_STORE_TOO_LARGE, &key->digest, total, 0);
    kiln_cache_give_up(c, key); // it will not come
    return kiln_fail(err, KILN_STATUS_LIMIT, "an entry has at most %llu bytes, found %llu",
                     (unsigned long long)c->config.max_entry_bytes, (unsigned long long)total);
  }
  kiln_status status = kiln_entry_encode(key, content, c->domain, c->config.level ? c->config.level : 1,
                                         c->sign && !content->unvouched ? c->sign_key : NULL, &encoded, err);
  if (status) goto out;
  if (c->memory) remember(c, key, content, &encoded);
  if (!c->own) goto out;
  int e = publish(c, key, encoded.bytes, encoded.size);
  if (e) status = kiln_fail(err, kiln_status_of_errno(-e), "storing in %s: %s", c->own->root, strerror(-e));
  else if (c->remote && c->config.remote_write && !content->here_only)
    kiln_remote_upload(c->remote, c->own, &key->digest);
out:
  if (status) kiln_cache_give_up(c, key);
  kiln_buffer_deinit(&encoded);
  return status;
}

// ----------------------------------------------------------------------------------- single flight

struct readiness {
  kiln_cache *cache;
  const kiln_key *key;
  kiln_cache_entry *out;
};

static bool ready(void *context) {
  struct readiness *r = context;
  bool warned = false;
  kiln_cache_look(r->cache, &r->key->digest, r->key->fields, r->key->fields_size, r->out, NULL, &warned,
                  NULL);
  return r->out->held != NULL;
}

static bool never(void *context) {
  (void)context;
  return false;
}

// `out_busy` NULL: other machines are waited for.
static bool claim_key(kiln_cache *c, const kiln_key *key, kiln_cache_claim *claim, kiln_cache_entry *out,
                      bool *out_busy) {
  struct readiness context = {c, key, out};
  bool waited;
  *claim = (kiln_cache_claim){.fd = -1};
  memset(out, 0, sizeof *out);
  if (!c->own) return false;
  kiln_flight flight = kiln_flight_enter(c->own, &key->digest, c->config.wait_ms,
                                         c->config.no_read ? never : ready, &context, &claim->fd, &waited);
  if (waited) kiln_cache_count(c, KILN_OUTCOME_WAITED, &key->digest, 0, 0);
  if (flight == KILN_FLIGHT_TAKEOVER) kiln_cache_count(c, KILN_OUTCOME_TOOK_OVER, &key->digest, 0, 0);
  if (flight == KILN_FLIGHT_TIMEOUT) kiln_cache_count(c, KILN_OUTCOME_WAIT_TIMEOUT, &key->digest, 0, 0);
  if (flight == KILN_FLIGHT_NO_LOCK) kiln_cache_count(c, KILN_OUTCOME_NO_LOCK, &key->digest, 0, 0);
  if (flight == KILN_FLIGHT_THERE) found(c, key, out, false);
  if (flight == KILN_FLIGHT_THERE) return true;
  if (!c->remote || !c->config.remote_lease_ms || !c->config.remote_write || c->config.no_read) return false;
  kiln_remote_state state;
  bool there = get_remote(c, out_busy ? kiln_remote_try : kiln_remote_claim, key, out, &state);
  if (out_busy) *out_busy = state == KILN_REMOTE_BUSY;
  claim->alone = state == KILN_REMOTE_FAILED || state == KILN_REMOTE_SKIPPED || state == KILN_REMOTE_DENIED;
  if (there && !out_busy) kiln_cache_count(c, KILN_OUTCOME_WAITED_REMOTE, &key->digest, 0, 0);
  return there;
}

bool kiln_cache_claim_key(kiln_cache *c, const kiln_key *key, kiln_cache_claim *claim,
                          kiln_cache_entry *out) {
  return claim_key(c, key, claim, out, NULL);
}

bool kiln_cache_try_key(kiln_cache *c, const kiln_key *key, kiln_cache_claim *claim, kiln_cache_entry *out,
                        bool *out_busy) {
  *out_busy = false;
  return claim_key(c, key, claim, out, out_busy);
}

void kiln_cache_give_up(kiln_cache *c, const kiln_key *key) {
  if (c->remote && c->config.remote_lease_ms) kiln_remote_drop(c->remote, c->domain, &key->digest);
}

void kiln_cache_watch(kiln_cache *c, kiln_cache_moves *moves, void *context) {
  if (c->remote) kiln_remote_watch(c->remote, moves, context);
}

void kiln_cache_release(kiln_cache_claim *claim) {
  if (claim->fd >= 0) kiln_fs_close(claim->fd);
  claim->fd = -1;
}

// -------------------------------------------------------------------------------------------- care

static void count_evicted(void *context, const kiln_scan_item *item) {
  kiln_cache_count(context, KILN_OUTCOME_EVICTED, &item->key, item->bytes, 0);
}

void kiln_cache_step(kiln_cache *c) {
  kiln_evict_report report;
  c->step_due = false;
  if (!c->own) return;
  kiln_evict_step(c->own, &c->limits, count_evicted, c, &report);
  for (uint64_t i = 0; i < report.unsent; i++) kiln_cache_count(c, KILN_OUTCOME_REMOTE_DROPPED, NULL, 0, 0);
}

void kiln_cache_forget(kiln_cache *c) {
  if (c->memory) kiln_memory_clear(c->memory);
}

bool kiln_cache_contains(kiln_cache *c, const kiln_digest *key) {
  char name[KILN_STORE_NAME];
  struct stat st;
  kiln_store_entry_name(key, name);
  for (uint32_t i = 0; i < c->store_count; i++)
    if (c->stores[i].fd >= 0 && !kiln_fs_stat_at(c->stores[i].fd, name, &st)) return true;
  return false;
}

bool kiln_cache_holds(kiln_cache *c, const kiln_digest *key) {
  uint64_t payload, cost;
  for (uint32_t i = 0; !c->config.no_read && i < c->store_count; i++) {
    if (!kiln_store_holds(&c->stores[i], key, &payload, &cost)) continue;
    bool last = i + 1 == c->store_count && c->config.folder;
    kiln_cache_count(c, last ? KILN_OUTCOME_HIT_LOCAL : KILN_OUTCOME_HIT_LAYER, key, payload, cost);
    return true;
  }
  return false;
}

bool kiln_cache_touch(kiln_cache *c, const kiln_digest *key, uint64_t saved_ns) {
  for (uint32_t i = 0; i < c->store_count; i++) {
    if (!kiln_store_touch(&c->stores[i], key)) continue;
    bool last = i + 1 == c->store_count && c->config.folder;
    kiln_cache_count(c, last ? KILN_OUTCOME_HIT_LOCAL : KILN_OUTCOME_HIT_LAYER, key, 0, saved_ns);
    return true;
  }
  return false;
}

kiln_status kiln_cache_remove(kiln_cache *c, const kiln_digest *key, kiln_error *err) {
  if (c->memory) kiln_memory_remove(c->memory, key);
  if (!c->own) return KILN_OK;
  int e = kiln_store_remove(c->own, key);
  return e && e != -ENOENT ? kiln_fail(err, kiln_status_of_errno(-e), "removing an entry: %s", strerror(-e))
                           : KILN_OK;
}
