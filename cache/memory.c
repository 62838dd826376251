// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the cache's level in memory. Each shard is a table of chains and a ring of all its entries
// with a clock hand: an entry that was used since the hand passed stays for another round, one that was not
// is removed.
#include "cache/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 64, FIRST_BUCKETS = 16, OVERHEAD = 128 };

typedef struct item {
  kiln_digest key;
  struct item *next;           ///< in the chain
  struct item *after, *before; ///< in the ring
  kiln_cache_entry entry;      ///< holds a reference
  size_t cost;
  bool used;
} item;

typedef struct shard {
  _Alignas(128) pthread_mutex_t mutex;
  item **buckets; ///< owned
  size_t bucket_count, count;
  item *hand;
  uint64_t bytes, hits;
} shard;

struct kiln_memory {
  uint64_t share; ///< bytes a shard may hold
  shard shards[SHARDS];
};

static uint64_t hash_of(const kiln_digest *key) {
  uint64_t h;
  memcpy(&h, key->bytes + 8, sizeof h);
  return h;
}

static shard *shard_of(kiln_memory *m, const kiln_digest *key) { return &m->shards[key->bytes[0] % SHARDS]; }

kiln_memory *kiln_memory_create(uint64_t max_bytes) {
  kiln_memory *m = aligned_alloc(128, (sizeof *m + 127) / 128 * 128);
  if (!m) return NULL;
  memset(m, 0, sizeof *m);
  m->share = max_bytes / SHARDS;
  for (unsigned i = 0; i < SHARDS; i++) pthread_mutex_init(&m->shards[i].mutex, NULL);
  return m;
}

static item **find(shard *s, const kiln_digest *key) {
  static item *none;
  if (!s->bucket_count) return &none;
  item **at = &s->buckets[hash_of(key) & (s->bucket_count - 1)];
  while (*at && memcmp((*at)->key.bytes, key->bytes, KILN_DIGEST_SIZE)) at = &(*at)->next;
  return at;
}

/// Takes an item out of chain and ring and drops its reference.
static void drop(shard *s, item **at) {
  item *it = *at;
  *at = it->next; // NOLINT(clang-analyzer-core.NullDereference): what is in the ring is in a chain
  if (it->after == it) {
    s->hand = NULL;
  } else {
    it->before->after = it->after;
    it->after->before = it->before;
    if (s->hand == it) s->hand = it->after;
  }
  s->bytes -= it->cost;
  s->count--;
  kiln_cache_entry_deinit(&it->entry);
  free(it);
}

static void make_room(shard *s, uint64_t more, uint64_t share) {
  while (s->hand && s->bytes + more > share) {
    item *it = s->hand;
    if (it->used) {
      it->used = false;
      s->hand = it->after;
    } else {
      drop(s, find(s, &it->key));
    }
  }
}

static bool grow(shard *s) {
  if (s->count < s->bucket_count) return true;
  size_t count = s->bucket_count ? s->bucket_count * 2 : FIRST_BUCKETS;
  item **buckets = calloc(count, sizeof *buckets);
  if (!buckets) return s->bucket_count != 0;
  for (size_t i = 0; i < s->bucket_count; i++)
    for (item *it = s->buckets[i], *next; it; it = next) {
      next = it->next;
      item **at = &buckets[hash_of(&it->key) & (count - 1)];
      it->next = *at;
      *at = it;
    }
  free(s->buckets);
  s->buckets = buckets;
  s->bucket_count = count;
  return true;
}

static void insert(shard *s, item *it) {
  item **at = &s->buckets[hash_of(&it->key) & (s->bucket_count - 1)];
  it->next = *at;
  *at = it;
  if (!s->hand) {
    s->hand = it->after = it->before = it;
  } else { // just after the hand: the last to be looked at
    it->after = s->hand;
    it->before = s->hand->before;
    it->before->after = it;
    s->hand->before = it;
  }
  s->bytes += it->cost;
  s->count++;
}

bool kiln_memory_get(kiln_memory *memory, const kiln_key *key, kiln_cache_entry *out) {
  shard *s = shard_of(memory, &key->digest);
  pthread_mutex_lock(&s->mutex);
  item *it = *find(s, &key->digest);
  // All 256 bits of the digest were compared. The fields themselves were when the entry came in; nobody else
  // writes here since.
  bool hit = it && it->entry.fields.size == key->fields_size;
  if (hit) {
    *out = it->entry;
    kiln_blob_retain(out->held);
    it->used = true;
    s->hits++;
  }
  pthread_mutex_unlock(&s->mutex);
  return hit;
}

void kiln_memory_put(kiln_memory *memory, const kiln_digest *key, const kiln_cache_entry *entry) {
  size_t cost = ((kiln_blob *)entry->held)->size + sizeof(item) + OVERHEAD;
  if (cost > memory->share) return;
  item *it = calloc(1, sizeof *it);
  if (!it) return;
  it->key = *key;
  it->entry = *entry;
  it->entry.outcome = KILN_OUTCOME_HIT_MEMORY;
  kiln_blob_retain(it->entry.held);
  it->cost = cost;
  shard *s = shard_of(memory, key);
  pthread_mutex_lock(&s->mutex);
  item **old = find(s, key);
  if (*old) drop(s, old);
  make_room(s, cost, memory->share);
  bool fits = grow(s);
  if (fits) insert(s, it);
  pthread_mutex_unlock(&s->mutex);
  if (fits) return;
  kiln_cache_entry_deinit(&it->entry);
  free(it);
}

void kiln_memory_remove(kiln_memory *memory, const kiln_digest *key) {
  shard *s = shard_of(memory, key);
  pthread_mutex_lock(&s->mutex);
  item **at = find(s, key);
  if (*at) drop(s, at);
  pthread_mutex_unlock(&s->mutex);
}

void kiln_memory_clear(kiln_memory *memory) {
  for (unsigned i = 0; i < SHARDS; i++) {
    shard *s = &memory->shards[i];
    pthread_mutex_lock(&s->mutex);
    while (s->hand) drop(s, find(s, &s->hand->key));
    pthread_mutex_unlock(&s->mutex);
  }
}

/// Sums one number over the shards.
static uint64_t sum(kiln_memory *memory, size_t offset) {
  uint64_t total = 0;
  for (unsigned i = 0; i < SHARDS; i++) {
    shard *s = &memory->shards[i];
    pthread_mutex_lock(&s->mutex);
    total += *(const uint64_t *)(const void *)((const char *)s + offset);
    pthread_mutex_unlock(&s->mutex);
  }
  return total;
}

uint64_t kiln_memory_held(kiln_memory *memory) { return sum(memory, offsetof(shard, bytes)); }
uint64_t kiln_memory_hits(kiln_memory *memory) { return sum(memory, offsetof(shard, hits)); }

void kiln_memory_destroy(kiln_memory *memory) {
  if (!memory) return;
  kiln_memory_clear(memory);
  for (unsigned i = 0; i < SHARDS; i++) {
    free(memory->shards[i].buckets);
    pthread_mutex_destroy(&memory->shards[i].mutex);
  }
  free(memory);
}
