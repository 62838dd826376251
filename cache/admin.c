// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements maintenance of a cache for the tools: opening its own store, checking every entry, export,
// import, merge and signing.
#include "cache/admin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "cache/internal.h"

kiln_store *kiln_cache_store(kiln_cache *cache) {
  if (cache->own) return cache->own;
  return cache->config.folder && cache->store_count ? &cache->stores[cache->store_count - 1] : NULL;
}

kiln_limits kiln_cache_limits(const kiln_cache *cache) { return cache->limits; }

bool kiln_store_short(const kiln_store *store, const kiln_limits *limits, uint64_t *out_free,
                      uint64_t *out_reserve) {
  uint64_t free_files, size;
  *out_free = *out_reserve = 0;
  if (store->fd < 0 || kiln_fs_space(store->fd, out_free, &free_files, &size)) return false;
  *out_reserve = kiln_limits_reserve(limits, size);
  return *out_free < *out_reserve;
}

unsigned kiln_cache_unopened(const kiln_cache *cache, char *out, size_t capacity) {
  unsigned count = 0;
  for (uint32_t i = 0; i < cache->store_count; i++) {
    const kiln_store *s = &cache->stores[i];
    // A domain in which nothing was built yet has no folder; a layer was named because it is there.
    if (s->writable || !s->error || (s->error == ENOENT && !s->layer)) continue;
    if (!count++) snprintf(out, capacity, "%s/%s: %s", s->root, s->folder, strerror(s->error));
  }
  return count;
}

kiln_outcome kiln_store_inspect(kiln_store *store, const kiln_digest *key, kiln_blob **out_file,
                                kiln_entry_view *out_view, kiln_cache_entry *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  memset(out_view, 0, sizeof *out_view);
  kiln_blob *file = *out_file = kiln_store_file(store, key);
  if (!file) { // an ordinary reading knows why
    kiln_outcome outcome = kiln_store_read(store, key, NULL, 0, out, NULL, err);
    if (outcome != KILN_OUTCOME_HIT_LOCAL) return outcome;
    kiln_cache_entry_deinit(out); // another one came meanwhile
    file = *out_file = kiln_store_file(store, key);
    if (!file) return KILN_OUTCOME_MISS_ABSENT;
  }
  kiln_outcome outcome = kiln_store_accept(store, kiln_blob_retain(file), key, NULL, 0, out, NULL, err);
  if (outcome == KILN_OUTCOME_HIT_LOCAL) {
    if (!kiln_entry_parse(file->bytes, file->size, store->max_entry_bytes, out_view, err)) return outcome;
    kiln_cache_entry_deinit(out);
    outcome = KILN_OUTCOME_MISS_CORRUPT;
  }
  kiln_blob_release(file);
  *out_file = NULL;
  return outcome;
}

// --------------------------------------------------------------------------------------- scrubbing

typedef struct scrub {
  kiln_store view; ///< reads without refreshing times
  kiln_store *store;
  bool repair;
  kiln_scrub_bad *bad;
  void *context;
  pthread_mutex_t mutex; ///< guards report and bad
  kiln_scrub_report report;
  uint32_t first, shards; ///< which, around the end
  atomic_uint next;       ///< of `shards`
} scrub;

typedef struct shard_scrub {
  scrub *all;
  uint32_t shard;
} shard_scrub;

/// KILN_OUTCOME_HIT_LOCAL when everything fits.
static kiln_outcome check(scrub *s, const kiln_digest *key, uint64_t *bytes, kiln_error *err) {
  kiln_cache_entry entry;
  kiln_entry_view view;
  kiln_blob *file;
  kiln_outcome outcome = kiln_store_inspect(&s->view, key, &file, &view, &entry, err);
  if (outcome != KILN_OUTCOME_HIT_LOCAL) return outcome;
  if (kiln_entry_verify(&view, entry.fields.bytes, err)) outcome = KILN_OUTCOME_MISS_CORRUPT;
  *bytes = file->size;
  kiln_blob_release(file);
  kiln_cache_entry_deinit(&entry);
  return outcome;
}

static bool scrub_one(void *context, const kiln_scan_item *item) {
  shard_scrub *part = context;
  scrub *s = part->all;
  kiln_error err = {0};
  uint64_t bytes = 0;
  if (item->key.bytes[0] != part->shard) return false;
  kiln_outcome outcome = check(s, &item->key, &bytes, &err);
  if (outcome == KILN_OUTCOME_MISS_ABSENT) return true; // evicted meanwhile
  pthread_mutex_lock(&s->mutex);
  if (outcome == KILN_OUTCOME_HIT_LOCAL) {
    s->report.good++;
    s->report.bytes += bytes;
  } else {
    s->report.bad++;
    if (s->bad) s->bad(s->context, &item->key, outcome, err.text);
    if (s->repair && !kiln_store_remove(s->store, &item->key)) s->report.removed++;
  }
  pthread_mutex_unlock(&s->mutex);
  return true;
}

static void *scrub_shards(void *context) {
  scrub *s = context;
  for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->shards;) {
    uint32_t shard = (s->first + i) % KILN_STORE_SHARDS;
    shard_scrub part = {s, shard};
    kiln_scan_place place = {.shard = shard};
    kiln_scan(&s->view, &place, 0, scrub_one, &part);
  }
  return NULL;
}

static void run_scrub(kiln_store *store, unsigned threads, const scrub *how, kiln_scrub_report *out) {
  pthread_t ids[64];
  unsigned started = 0;
  scrub *s = malloc(sizeof *s);
  memset(out, 0, sizeof *out);
  if (!s) return;
  *s = *how;
  s->view = *store;
  s->view.writable = false;
  s->store = store;
  pthread_mutex_init(&s->mutex, NULL);
  for (unsigned i = 1; i < threads && i < 64; i++)
    if (!pthread_create(&ids[started], NULL, scrub_shards, s)) started++;
  scrub_shards(s);
  while (started) pthread_join(ids[--started], NULL);
  pthread_mutex_destroy(&s->mutex);
  *out = s->report;
  out->folders = kiln_scan_unreadable(store, out->folder, sizeof out->folder);
  free(s);
}

void kiln_scrub(kiln_store *store, unsigned threads, bool repair, kiln_scrub_bad *bad, void *context,
                kiln_scrub_report *out) {
  run_scrub(store, threads,
            &(scrub){.repair = repair, .bad = bad, .context = context, .shards = KILN_STORE_SHARDS}, out);
}

void kiln_scrub_some(kiln_store *store, unsigned threads, uint32_t first, uint32_t shards,
                     kiln_scrub_report *out) {
  run_scrub(store, threads, &(scrub){.first = first, .shards = shards}, out);
}

// ------------------------------------------------------------------------------------------ moving

static const char archive_magic[8] = {'K', 'I', 'L', 'N', 'A', 'R', 'C', '1'};

typedef struct key_list {
  kiln_digest *keys; ///< owned
  size_t count, capacity;
} key_list;

static bool collect(void *context, const kiln_scan_item *item) {
  key_list *l = context;
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 1024;
    kiln_digest *keys = realloc(l->keys, capacity * sizeof *keys);
    if (!keys) return false;
    l->keys = keys;
    l->capacity = capacity;
  }
  l->keys[l->count++] = item->key;
  return true;
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, KILN_DIGEST_SIZE); }

static key_list sorted_keys(kiln_store *store) {
  key_list l = {0};
  kiln_scan_all(store, collect, &l);
  if (l.count) qsort(l.keys, l.count, sizeof *l.keys, by_bytes);
  return l;
}

/// The entry's key when its bytes are good in every respect for this store.
static kiln_status accept(const kiln_store *store, const kiln_blob *file, kiln_digest *out_key,
                          kiln_error *err) {
  kiln_entry_view view;
  kiln_cache_entry entry = {0};
  kiln_status status = kiln_entry_parse(file->bytes, file->size, store->max_entry_bytes, &view, err);
  if (status) return status;
  *out_key = view.key;
  kiln_blob *copy = kiln_blob_create(file->size);
  if (!copy)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for an entry of %zu bytes", file->size);
  memcpy(copy->bytes, file->bytes, file->size);
  if (kiln_store_accept(store, copy, &view.key, NULL, 0, &entry, NULL, err) != KILN_OUTCOME_HIT_LOCAL)
    return err && err->status ? err->status : KILN_STATUS_CORRUPT;
  status = kiln_entry_verify(&view, entry.fields.bytes, err);
  kiln_cache_entry_deinit(&entry);
  return status;
}

/// Takes over `file`.
static void take(kiln_store *store, kiln_blob *file, kiln_move_report *report) {
  kiln_digest key;
  kiln_error err = {0};
  if (!file || accept(store, file, &key, &err)) {
    report->refused++;
  } else {
    int e = kiln_store_write(store, &key, file->bytes, file->size, false);
    kiln_cache_entry there;
    if (e == 1 && kiln_store_read(store, &key, NULL, 0, &there, NULL, NULL) == KILN_OUTCOME_HIT_LOCAL)
      kiln_cache_entry_deinit(&there);
    else if (e == 1) // damaged, or not trusted: what comes is better
      e = kiln_store_write(store, &key, file->bytes, file->size, true);
    if (e == 1) report->already++;
    else if (e) report->failed++;
    else {
      report->moved++;
      kiln_usage_add(store, &(kiln_limits){0}, file->size, &key);
    }
  }
  kiln_blob_release(file);
}

kiln_status kiln_export(kiln_store *store, int fd, kiln_move_report *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  key_list keys = sorted_keys(store);
  int e = kiln_fs_write(fd, archive_magic, sizeof archive_magic);
  for (size_t i = 0; i < keys.count && !e; i++) {
    kiln_digest key;
    kiln_error why;
    kiln_blob *file = kiln_store_file(store, &keys.keys[i]);
    if (!file || accept(store, file, &key, &why) || memcmp(&key, &keys.keys[i], sizeof key)) {
      out->refused++;
      kiln_blob_release(file);
      continue;
    }
    uint8_t size[8];
    for (unsigned k = 0; k < 8; k++) size[k] = (uint8_t)((uint64_t)file->size >> 8 * k);
    e = kiln_fs_write(fd, size, sizeof size);
    if (!e) e = kiln_fs_write(fd, file->bytes, file->size);
    kiln_blob_release(file);
    out->moved++;
  }
  free(keys.keys);
  return e ? kiln_fail(err, kiln_status_of_errno(-e), "writing the archive: %s", strerror(-e)) : KILN_OK;
}

kiln_status kiln_import(kiln_store *store, int fd, kiln_move_report *out, kiln_error *err) {
  uint8_t head[8];
  size_t got;
  memset(out, 0, sizeof *out);
  int e = kiln_fs_read(fd, head, sizeof head, &got);
  if (e) return kiln_fail(err, kiln_status_of_errno(-e), "reading the archive: %s", strerror(-e));
  if (got != sizeof head || memcmp(head, archive_magic, sizeof head))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "not an archive of cache entries");
  for (uint64_t number = 0;; number++) {
    e = kiln_fs_read(fd, head, sizeof head, &got);
    if (!e && got == 0) return KILN_OK;
    kiln_reader r = kiln_reader_of(head, got);
    uint64_t size = kiln_read_u64(&r);
    if (e || r.failed || size > store->max_entry_bytes + (1 << 20))
      return kiln_fail(err, KILN_STATUS_CORRUPT, "the archive is torn at entry %llu",
                       (unsigned long long)number);
    kiln_blob *file = kiln_blob_create((size_t)size);
    if (!file)
      return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for an entry of %llu bytes",
                       (unsigned long long)size);
    e = kiln_fs_read(fd, file->bytes, file->size, &got);
    if (e || got != size) {
      kiln_blob_release(file);
      return kiln_fail(err, KILN_STATUS_CORRUPT, "the archive is torn at entry %llu",
                       (unsigned long long)number);
    }
    take(store, file, out);
  }
}

void kiln_merge(kiln_store *store, kiln_store *from, kiln_move_report *out) {
  memset(out, 0, sizeof *out);
  key_list keys = sorted_keys(from);
  for (size_t i = 0; i < keys.count; i++) take(store, kiln_store_file(from, &keys.keys[i]), out);
  free(keys.keys);
}

static bool sign_one(kiln_store *store, const kiln_digest *key, const uint8_t sign_key[64]) {
  kiln_buffer entry = {0};
  kiln_digest found;
  kiln_blob *file = kiln_store_file(store, key);
  bool ok = file && !accept(store, file, &found, NULL) && !memcmp(&found, key, sizeof found);
  if (ok) kiln_buffer_bytes(&entry, file->bytes, file->size);
  ok = ok && !entry.failed && !kiln_entry_sign(&entry, sign_key, NULL);
  if (ok && entry.size != file->size) ok = kiln_store_write(store, key, entry.bytes, entry.size, true) == 0;
  kiln_buffer_deinit(&entry);
  kiln_blob_release(file);
  return ok;
}

uint64_t kiln_sign_all(kiln_store *store, const kiln_digest *only, const uint8_t sign_key[64],
                       uint64_t *out_signed) {
  *out_signed = 0;
  if (only) return sign_one(store, only, sign_key) ? (*out_signed = 1, 0) : 1;
  key_list keys = sorted_keys(store);
  for (size_t i = 0; i < keys.count; i++) *out_signed += sign_one(store, &keys.keys[i], sign_key);
  free(keys.keys);
  return keys.count - *out_signed;
}
