// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remembers the digests of large files that every start needs, tools of 40 to 100 MB. They are stored in
// the store's folder, under everything that the file system reports about the file. Of processes that start
// together one reads a file.
//
// The file `digests` (`digests.UID` in a shared folder, where each user believes only his own) holds at most
// 64 records of 88 bytes:
//
//   offset size
//        0    8  what the digest is of (kiln_file_extent)
//        8   40  device, inode, size, time of modification and of change
//       48   32  BLAKE2b-256
//       80    8  first half of XXH3-128 of bytes 0..79
#include <errno.h>
#include <fcntl.h>
#include <sodium/core.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/flight.h"
#include "cache/internal.h"
#include "cache/loaded.h"

enum { RECORD = 88, CHECKED = 80, MOST_RECORDS = 64, MOST_BYTES = RECORD * MOST_RECORDS, CHUNK = 1 << 20 };

typedef struct record {
  uint64_t extent;
  kiln_file_mark mark;
  kiln_digest digest;
} record;

typedef struct kiln_file_memory {
  uint8_t bytes[MOST_BYTES];
  size_t size;
} memory;

static bool decode(const uint8_t *bytes, record *out) {
  kiln_check check = kiln_check_of(bytes, CHECKED);
  kiln_reader r = kiln_reader_of(bytes, CHECKED);
  if (memcmp(check.bytes, bytes + CHECKED, RECORD - CHECKED)) return false;
  out->extent = kiln_read_u64(&r);
  out->mark = kiln_file_mark_decode(&r);
  memcpy(out->digest.bytes, kiln_read_bytes(&r, KILN_DIGEST_SIZE), KILN_DIGEST_SIZE);
  return true;
}

static void memory_name(const kiln_store *store, char out[KILN_STORE_NAME]) {
  if (store->shared) snprintf(out, KILN_STORE_NAME, "digests.%u", (unsigned)geteuid());
  else strcpy(out, "digests");
}

static void load(const kiln_store *store, memory *out) {
  char name[KILN_STORE_NAME];
  out->size = 0;
  memory_name(store, name);
  int fd = store->fd < 0 ? -ENOENT : kiln_fs_open(store->fd, name, O_RDONLY, 0);
  if (fd < 0) return;
  struct stat st;
  bool is_own = !store->shared || (!kiln_fs_stat(fd, &st) && st.st_uid == geteuid());
  if (!is_own || kiln_fs_read_some(fd, out->bytes, sizeof out->bytes, &out->size)) out->size = 0;
  kiln_fs_close(fd);
}

/// Looks in what was loaded first: what other processes add meanwhile is read again, that is all.
static bool recall(kiln_cache *c, const kiln_store *store, kiln_file_extent extent,
                   const kiln_file_mark *mark, kiln_digest *out) {
  record r;
  bool found = false;
  pthread_mutex_lock(&c->stats_mutex);
  if (!c->files && (c->files = malloc(sizeof *c->files))) load(store, c->files);
  const memory *m = c->files;
  for (size_t at = 0; m && !found && at + RECORD <= m->size; at += RECORD) {
    found = decode(m->bytes + at, &r) && r.extent == extent && kiln_file_mark_same(&r.mark, mark);
    if (found) *out = r.digest;
  }
  pthread_mutex_unlock(&c->stats_mutex);
  return found;
}

static void forget_loaded(kiln_cache *c) {
  pthread_mutex_lock(&c->stats_mutex);
  free(c->files);
  c->files = NULL;
  pthread_mutex_unlock(&c->stats_mutex);
}

/// The new record first; those of the same file at an earlier time, and damaged ones, go.
static void remember(kiln_store *store, kiln_file_extent extent, const kiln_file_mark *mark,
                     const kiln_digest *digest) {
  kiln_buffer b = {0};
  memory m;
  record r;
  char name[KILN_STORE_NAME];
  if (kiln_store_make(store)) return;
  load(store, &m);
  kiln_buffer_u64(&b, extent);
  kiln_file_mark_encode(mark, &b);
  kiln_buffer_bytes(&b, digest->bytes, sizeof digest->bytes);
  kiln_check check = kiln_check_of(b.bytes, b.failed ? 0 : b.size);
  kiln_buffer_bytes(&b, check.bytes, RECORD - CHECKED);
  for (size_t at = 0; at + RECORD <= m.size && b.size < MOST_BYTES; at += RECORD)
    if (decode(m.bytes + at, &r) &&
        (r.extent != extent || r.mark.device != mark->device || r.mark.inode != mark->inode))
      kiln_buffer_bytes(&b, m.bytes + at, RECORD);
  memory_name(store, name);
  if (!b.failed) kiln_store_replace_file(store, name, b.bytes, b.size); // without it the next one reads again
  kiln_buffer_deinit(&b);
}

typedef struct digester {
  crypto_generichash_blake2b_state state;
  uint8_t *chunk;
  bool is_masked; // without what an ELF header says of sections
} digester;

/// Adds bytes of the file from `at`, at most `size`: fewer where it ends.
static int add_part(digester *d, int fd, uint64_t at, uint64_t size) {
  for (uint64_t end = size > UINT64_MAX - at ? UINT64_MAX : at + size; at < end;) {
    ssize_t got = pread(fd, d->chunk, end - at < CHUNK ? (size_t)(end - at) : CHUNK, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (!got) break;
    if (d->is_masked) kiln_loaded_mask(d->chunk, at, (size_t)got);
    crypto_generichash_blake2b_update(&d->state, d->chunk, (size_t)got);
    at += (uint64_t)got;
  }
  return 0;
}

/// What is read is what `mark` says, or the caller reads again.
static int digest_content(int fd, kiln_file_extent extent, const kiln_file_mark *mark, kiln_digest *out) {
  digester d = {.chunk = malloc(CHUNK)};
  kiln_loaded loaded;
  int e = 0;
  if (!d.chunk) return -ENOMEM;
  // libsodium uses the processor's vector instructions from here on: 138 ms per 100 MB in place of 206.
  if (sodium_init() < 0) return free(d.chunk), -EIO;
  if (extent == KILN_FILE_LOADED && kiln_loaded_find(fd, mark->size, &loaded)) {
    // Each part with its place before it, under a name of its own: no file's whole content has this digest.
    static const unsigned char name[crypto_generichash_blake2b_PERSONALBYTES] = "kiln loaded 1";
    d.is_masked = true;
    crypto_generichash_blake2b_init_salt_personal(&d.state, NULL, 0, KILN_DIGEST_SIZE, NULL, name);
    for (unsigned i = 0; i < loaded.count && !e; i++) {
      kiln_buffer place = {0};
      kiln_buffer_u64(&place, loaded.parts[i].at);
      kiln_buffer_u64(&place, loaded.parts[i].size);
      if (place.failed) e = -ENOMEM;
      else crypto_generichash_blake2b_update(&d.state, place.bytes, place.size);
      kiln_buffer_deinit(&place);
      if (!e) e = add_part(&d, fd, loaded.parts[i].at, loaded.parts[i].size);
    }
  } else {
    crypto_generichash_blake2b_init(&d.state, NULL, 0, sizeof out->bytes);
    e = add_part(&d, fd, 0, mark->size);
  }
  crypto_generichash_blake2b_final(&d.state, out->bytes, sizeof out->bytes);
  free(d.chunk);
  return e;
}

static int take_mark(int fd, kiln_file_mark *out) {
  struct stat st;
  int e = kiln_fs_stat(fd, &st);
  if (!e && !S_ISREG(st.st_mode)) e = -EINVAL;
  if (!e) *out = kiln_file_mark_of(&st);
  return e;
}

/// Reads until the file stays the same meanwhile.
static int digest_still(int fd, kiln_file_extent extent, kiln_file_mark *mark, kiln_digest *out) {
  enum { ATTEMPTS = 8 };
  int e = 0;
  for (unsigned i = 0; i < ATTEMPTS && !e; i++) {
    kiln_file_mark after;
    e = digest_content(fd, extent, mark, out);
    if (!e) e = take_mark(fd, &after);
    if (!e && kiln_file_mark_same(mark, &after)) return 0;
    if (!e) *mark = after;
  }
  return e ? e : -EBUSY;
}

/// A digest that another process may be computing.
typedef struct wanted {
  kiln_cache *cache;
  const kiln_store *store;
  kiln_file_extent extent;
  kiln_file_mark mark;
  kiln_digest *out;
} wanted;

static bool is_remembered(void *context) {
  const wanted *w = context;
  forget_loaded(w->cache);
  return recall(w->cache, w->store, w->extent, &w->mark, w->out);
}

/// One process reads the file while the others wait for what it remembers. Whether it is there; else the
/// caller reads, and closes the lock (-1: none) when it has remembered.
static bool wait_for_reader(kiln_store *store, wanted *w, int *out_lock) {
  enum { MOST_MS = 1000 }; // of a file that is read in less; where the reader hangs we read, too
  kiln_buffer name = {0};
  bool waited;
  kiln_buffer_u64(&name, w->extent);
  kiln_file_mark_encode(&w->mark, &name);
  kiln_digest key = kiln_digest_of(name.bytes, name.failed ? 0 : name.size);
  kiln_buffer_deinit(&name);
  return kiln_flight_enter(store, &key, MOST_MS, is_remembered, w, out_lock, &waited) == KILN_FLIGHT_THERE;
}

kiln_status kiln_cache_file_digest(kiln_cache *cache, int fd, kiln_file_extent extent,
                                   kiln_file_mark *out_mark, kiln_digest *out, kiln_error *err) {
  // Where digests are looked up: the writable store, else the last of the others.
  kiln_store *store = !cache || !cache->store_count ? NULL
                      : cache->own                  ? cache->own
                                                    : &cache->stores[cache->store_count - 1];
  memset(out, 0, sizeof *out);
  int e = take_mark(fd, out_mark);
  if (!e && store && recall(cache, store, extent, out_mark, out)) return KILN_OK;
  int lock = -1;
  wanted w = {cache, store, extent, *out_mark, out};
  bool remembers = store && store->writable;
  if (!e && remembers && kiln_file_mark_settled(out_mark) && wait_for_reader(store, &w, &lock))
    return KILN_OK;
  if (!e) e = digest_still(fd, extent, out_mark, out);
  if (!e && remembers && kiln_file_mark_settled(out_mark)) {
    remember(store, extent, out_mark, out);
    forget_loaded(cache);
  }
  if (lock >= 0) kiln_fs_close(lock);
  return e ? kiln_fail(err, kiln_status_of_errno(-e), "cannot read it: %s", strerror(-e)) : KILN_OK;
}
