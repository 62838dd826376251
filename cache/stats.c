// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Appends statistics to a log of fixed-size records, and reads, sums and rotates it.
#include "cache/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum { VERSION = 1, CHECK_AT = 56, SUM_VERSION = 2 };

void kiln_stats_encode(const kiln_stats_record *record, uint8_t out[KILN_STATS_RECORD]) {
  uint8_t *at = out;
  *at++ = 'K', *at++ = 'S', *at++ = VERSION, *at++ = record->outcome;
#define PUT(value, size) \
  for (unsigned i = 0; i < (size); i++) *at++ = (uint8_t)((uint64_t)(value) >> 8 * i)
  PUT(record->run, 4);
  PUT(record->time, 4);
  memcpy(at, record->key, sizeof record->key), at += sizeof record->key;
  PUT(record->bytes, 8);
  PUT(record->ns, 8);
  PUT((uint32_t)record->error_number, 4);
  PUT(record->count, 8);
#undef PUT
  kiln_check check = kiln_check_of(out, CHECK_AT);
  memcpy(at, check.bytes, KILN_STATS_RECORD - CHECK_AT);
}

bool kiln_stats_decode(const uint8_t bytes[KILN_STATS_RECORD], kiln_stats_record *out) {
  kiln_check check = kiln_check_of(bytes, CHECK_AT);
  if (bytes[0] != 'K' || bytes[1] != 'S' || bytes[2] != VERSION || bytes[3] >= KILN_OUTCOME_LIMIT ||
      memcmp(bytes + CHECK_AT, check.bytes, KILN_STATS_RECORD - CHECK_AT))
    return false;
  kiln_reader r = kiln_reader_of(bytes + 3, CHECK_AT - 3);
  out->outcome = kiln_read_u8(&r);
  out->run = kiln_read_u32(&r);
  out->time = kiln_read_u32(&r);
  memcpy(out->key, kiln_read_bytes(&r, sizeof out->key), sizeof out->key);
  out->bytes = kiln_read_u64(&r);
  out->ns = kiln_read_u64(&r);
  out->error_number = (int32_t)kiln_read_u32(&r);
  out->count = kiln_read_u64(&r);
  return true;
}

int kiln_stats_append(kiln_store *store, const uint8_t *records, size_t count) {
  if (store->fd < 0) return -ENOENT;
  int fd = kiln_store_open_own(store, "stats", O_WRONLY | O_APPEND | O_CREAT);
  if (fd < 0) return fd;
  int e = kiln_fs_append(fd, records, count * KILN_STATS_RECORD);
  int closed = kiln_fs_close(fd);
  return e ? e : closed;
}

// ----------------------------------------------------------------------------------------- reading

/// The whole file; NULL when it is missing, unreadable or larger than statistics get.
static uint8_t *slurp(kiln_store *store, const char *name, size_t *out_size, struct stat *out_stat) {
  *out_size = 0;
  int fd = store->fd < 0 ? -ENOENT : kiln_fs_open(store->fd, name, O_RDONLY, 0);
  if (fd < 0) return NULL;
  uint8_t *bytes = NULL;
  if (!kiln_fs_stat(fd, out_stat) && S_ISREG(out_stat->st_mode) &&
      out_stat->st_size < 64 * KILN_STATS_ROTATE) {
    bytes = malloc((size_t)out_stat->st_size + 1);
    if (bytes && kiln_fs_read(fd, bytes, (size_t)out_stat->st_size, out_size)) {
      free(bytes);
      bytes = NULL;
    }
  }
  kiln_fs_close(fd);
  return bytes;
}

/// Walks the records of one file. A torn or damaged stretch is skipped byte by byte until a record fits
/// again.
static void walk(kiln_store *store, const char *name, void (*each)(void *, const kiln_stats_record *),
                 void *context, uint64_t *damaged) {
  size_t size, at = 0;
  struct stat st;
  uint8_t *bytes = slurp(store, name, &size, &st);
  bool lost = false;
  while (bytes && at + KILN_STATS_RECORD <= size) {
    kiln_stats_record record;
    if (bytes[at] == 'K' && kiln_stats_decode(bytes + at, &record)) {
      each(context, &record);
      at += KILN_STATS_RECORD;
      lost = false;
    } else {
      if (!lost) ++*damaged;
      lost = true;
      at++;
    }
  }
  if (bytes && at < size && !lost) ++*damaged;
  free(bytes);
}

void kiln_stats_walk(kiln_store *store, void (*each)(void *context, const kiln_stats_record *record),
                     void *context) {
  uint64_t damaged = 0;
  walk(store, "stats.old", each, context, &damaged);
  walk(store, "stats", each, context, &damaged);
}

static void add(void *context, const kiln_stats_record *record) {
  kiln_stats_sum *sum = context;
  if (record->time && (!sum->since || record->time < sum->since)) sum->since = record->time;
  sum->count[record->outcome] += record->count;
  sum->bytes[record->outcome] += record->bytes;
  sum->ns[record->outcome] += record->ns;
}

// stats.sum: u8 version, u64 inode of the file folded last, u64 ignored (its device, which each client of NFS numbers for
// itself), KILN_OUTCOME_LIMIT x 3 u64, u64 time of the first record (not in version 1), XXH3-128 of what is before.
enum { SUM_SIZE = 1 + 16 + KILN_OUTCOME_LIMIT * 24 + 8 + KILN_CHECK_SIZE };

static void read_sum(kiln_store *store, kiln_stats_sum *out, uint64_t *last_inode) {
  size_t size;
  struct stat st;
  memset(out, 0, sizeof *out);
  *last_inode = 0;
  uint8_t *bytes = slurp(store, "stats.sum", &size, &st);
  if (!bytes) return;
  if ((size == SUM_SIZE && bytes[0] == SUM_VERSION) || (size == SUM_SIZE - 8 && bytes[0] == 1)) {
    kiln_check check = kiln_check_of(bytes, size - KILN_CHECK_SIZE);
    kiln_reader r = kiln_reader_of(bytes + 1, size - 1);
    if (!memcmp(check.bytes, bytes + size - KILN_CHECK_SIZE, KILN_CHECK_SIZE)) {
      *last_inode = kiln_read_u64(&r);
      kiln_read_u64(&r);
      for (unsigned i = 0; i < KILN_OUTCOME_LIMIT; i++) {
        out->count[i] = kiln_read_u64(&r);
        out->bytes[i] = kiln_read_u64(&r);
        out->ns[i] = kiln_read_u64(&r);
      }
      if (bytes[0] == SUM_VERSION) out->since = kiln_read_u64(&r);
    }
  }
  free(bytes);
}

static int write_sum(kiln_store *store, const kiln_stats_sum *sum, uint64_t last_inode) {
  kiln_buffer b = {0};
  kiln_buffer_u8(&b, SUM_VERSION);
  kiln_buffer_u64(&b, last_inode);
  kiln_buffer_u64(&b, 0);
  for (unsigned i = 0; i < KILN_OUTCOME_LIMIT; i++) {
    kiln_buffer_u64(&b, sum->count[i]);
    kiln_buffer_u64(&b, sum->bytes[i]);
    kiln_buffer_u64(&b, sum->ns[i]);
  }
  kiln_buffer_u64(&b, sum->since);
  kiln_check check = kiln_check_of(b.bytes, b.size);
  kiln_buffer_bytes(&b, check.bytes, sizeof check.bytes);
  int e = b.failed ? -ENOMEM : kiln_store_replace_file(store, "stats.sum", b.bytes, b.size);
  kiln_buffer_deinit(&b);
  return e;
}

static bool is_folded(kiln_store *store, uint64_t last_inode) {
  struct stat st;
  return store->fd >= 0 && !kiln_fs_stat_at(store->fd, "stats.old", &st) && st.st_ino == last_inode;
}

void kiln_stats_read(kiln_store *store, kiln_stats_sum *out) {
  uint64_t last;
  read_sum(store, out, &last);
  // A cleaner that was killed between writing the sum and removing what it had summed left both.
  if (!is_folded(store, last)) walk(store, "stats.old", add, out, &out->damaged);
  walk(store, "stats", add, out, &out->damaged);
}

/// Takes the records of stats.old into stats.sum, then removes the file.
static int fold(kiln_store *store) {
  kiln_stats_sum sum;
  uint64_t last;
  struct stat st;
  read_sum(store, &sum, &last);
  int e = kiln_fs_stat_at(store->fd, "stats.old", &st);
  if (e == -ENOENT) return 0;
  if (e) return e;
  if (st.st_ino != last) {
    walk(store, "stats.old", add, &sum, &sum.damaged);
    e = write_sum(store, &sum, st.st_ino);
    if (e) return e;
  }
  return kiln_fs_unlink(store->fd, "stats.old");
}

void kiln_stats_rotate(kiln_store *store) {
  struct stat st;
  if (store->fd < 0 || kiln_fs_stat_at(store->fd, "stats", &st) || st.st_size < KILN_STATS_ROTATE) return;
  // Who has stats open still appends to the file that becomes stats.old; it is folded at the next turn only.
  if (fold(store) == 0) kiln_fs_rename(store->fd, "stats", store->fd, "stats.old");
}

int kiln_stats_clear(kiln_store *store) {
  static const char *const names[] = {"stats", "stats.old", "stats.sum"};
  int first = store->fd < 0 && store->error != ENOENT ? -store->error : 0;
  for (unsigned i = 0; i < 3 && store->fd >= 0; i++) {
    int e = kiln_fs_unlink(store->fd, names[i]);
    if (e && e != -ENOENT && !first) first = e;
  }
  return first;
}
