// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the level in memory alone: its limit, which entries it removes, threads. (behaviours 21, 38d)
#include "tests/cache/common.h"

#include <pthread.h>

#include "cache/memory.h"

enum { KEYS = 2000, SIZE = 1000, LIMIT = 64 * 16000 };

static kiln_cache_entry make_entry(const kiln_key *key, size_t size) {
  kiln_blob *blob = kiln_blob_create(key->fields_size + size);
  memcpy(blob->bytes, key->fields, key->fields_size);
  payload_of(&key->digest, blob->bytes + key->fields_size, size);
  kiln_cache_entry entry = {.fields = {blob->bytes, key->fields_size}, .held = blob};
  entry.content.metadata = (kiln_bytes){(const uint8_t *)"meta", 4};
  entry.content.payload = (kiln_bytes){blob->bytes + key->fields_size, size};
  return entry;
}

static void put(kiln_memory *memory, const kiln_key *key, size_t size) {
  kiln_cache_entry entry = make_entry(key, size);
  kiln_memory_put(memory, &key->digest, &entry);
  kiln_cache_entry_deinit(&entry);
}

static bool get(kiln_memory *memory, const kiln_key *key, size_t size) {
  kiln_cache_entry entry;
  if (!kiln_memory_get(memory, key, &entry)) return false;
  if (!right_bytes(key, &entry, size)) FAIL("wrong bytes");
  kiln_cache_entry_deinit(&entry);
  return true;
}

static kiln_key *make_keys(void) {
  kiln_key *keys = calloc(KEYS, sizeof *keys);
  for (unsigned i = 0; i < KEYS; i++) keys[i] = key_number(i);
  return keys;
}

TEST(memory, the_bound_holds_and_the_used_stay) {
  kiln_memory *memory = kiln_memory_create(LIMIT);
  kiln_key *keys = make_keys();
  unsigned used = 0, unused = 0;
  for (unsigned i = 0; i < KEYS; i++) {
    put(memory, &keys[i], SIZE);
    for (unsigned k = 0; k < 50 && k <= i; k++) get(memory, &keys[k], SIZE);
    CHECK(kiln_memory_held(memory) <= LIMIT);
  }
  for (unsigned i = 0; i < 50; i++) used += get(memory, &keys[i], SIZE);
  for (unsigned i = 50; i < 1000; i++) unused += get(memory, &keys[i], SIZE);
  if (used < 45 || unused > 100) FAIL("of 50 used %u are left, of 950 unused %u", used, unused);
  put(memory, &keys[0], LIMIT); // larger than a shard's share: not kept, and nothing goes for it
  CHECK(kiln_memory_held(memory) <= LIMIT);
  kiln_memory_clear(memory);
  CHECK_INT(kiln_memory_held(memory), 0);
  kiln_memory_destroy(memory);
}

TEST(memory, an_update_evicts_nobody_else) {
  kiln_memory *memory = kiln_memory_create(LIMIT);
  kiln_key *keys = make_keys();
  for (unsigned i = 0; i < 100; i++) put(memory, &keys[i], 100);
  for (unsigned n = 0; n < 1000; n++) put(memory, &keys[7], 100);
  for (unsigned i = 0; i < 100; i++) CHECK(get(memory, &keys[i], 100));
  kiln_memory_remove(memory, &keys[7].digest);
  CHECK(!get(memory, &keys[7], 100));
  kiln_memory_destroy(memory);
}

/// Keys that share shard and bucket are told apart by all of their digests.
TEST(memory, digests_are_compared_in_full) {
  kiln_memory *memory = kiln_memory_create(LIMIT);
  kiln_key a = key_of("a"), b = key_of("a");
  put(memory, &a, 10);
  b.digest.bytes[KILN_DIGEST_SIZE - 1] ^= 1;
  CHECK(!get(memory, &b, 10));
  CHECK(get(memory, &a, 10));
  kiln_memory_destroy(memory);
}

struct work {
  kiln_memory *memory;
  kiln_key *keys;
  uint64_t seed;
};

static void *run(void *context) {
  struct work *w = context;
  for (unsigned n = 0; n < 20000; n++) {
    uint64_t r = kiln_test_random(&w->seed);
    const kiln_key *key = &w->keys[r % 300];
    if (r >> 32 & 1) get(w->memory, key, SIZE);
    else if (r >> 33 & 7) put(w->memory, key, SIZE);
    else if (r >> 36 & 63) kiln_memory_remove(w->memory, &key->digest);
    else kiln_memory_clear(w->memory);
  }
  return NULL;
}

TEST(memory, threads) {
  kiln_memory *memory = kiln_memory_create(LIMIT / 8);
  struct work work[8];
  pthread_t ids[8];
  kiln_key *keys = make_keys();
  for (unsigned i = 0; i < 8; i++) {
    work[i] = (struct work){memory, keys, i};
    CHECK(!pthread_create(&ids[i], NULL, run, &work[i]));
  }
  for (unsigned i = 0; i < 8; i++) pthread_join(ids[i], NULL);
  CHECK(kiln_memory_held(memory) <= LIMIT / 8);
  kiln_memory_destroy(memory);
}
