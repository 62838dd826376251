// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Removes the oldest entries when a store is over its limits, in short steps while builds run or in one
// complete sweep.
#include "cache/evict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"
#include "cache/entry.h"
#include "cache/spool.h"
#include "cache/stats.h"
#include "cache/usage.h"

enum { ROUND_EVERY = 64, QUARANTINE_FILES = 64, BLOCK = 4096, OLD_S = 3600 };

/// How much has to go.
typedef struct need {
  uint64_t bytes, files;
} need;

static uint64_t above(uint64_t value, uint64_t limit) { return limit && value > limit ? value - limit : 0; }

uint64_t kiln_limits_reserve(const kiln_limits *limits, uint64_t size) {
  const uint64_t most = (uint64_t)256 << 20;
  if (limits->free_bytes != KILN_FREE_BY_SIZE) return limits->free_bytes;
  return size / 50 < most ? size / 50 : most;
}

/// Down to nine tenths of a limit once it is passed, so that not every write has to clean.
static need need_of(const kiln_store *store, const kiln_limits *limits, uint64_t bytes, uint64_t files) {
  need n = {0, 0};
  uint64_t free_bytes, free_files, size;
  if (above(bytes, limits->bytes)) n.bytes = above(bytes, limits->bytes - limits->bytes / 10);
  if (above(files, limits->files)) n.files = above(files, limits->files - limits->files / 10);
  if ((limits->free_bytes || limits->free_files) &&
      !kiln_fs_space(store->fd, &free_bytes, &free_files, &size)) {
    uint64_t reserve = kiln_limits_reserve(limits, size);
    if (free_bytes < reserve && reserve - free_bytes > n.bytes) n.bytes = reserve - free_bytes;
    if (free_files < limits->free_files && limits->free_files - free_files > n.files)
      n.files = limits->free_files - free_files;
  }
  return n;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

bool kiln_usage_add(kiln_store *store, const kiln_limits *limits, uint64_t bytes, const kiln_digest *key) {
  kiln_usage usage;
  int fd = -EAGAIN;
  for (unsigned attempt = 0; attempt < 20 && fd == -EAGAIN; attempt++) {
    fd = kiln_usage_lock(store, &usage);
    if (fd == -EAGAIN) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  if (fd < 0) return false;
  uint64_t rounded = (bytes + BLOCK - 1) / BLOCK * BLOCK;
  usage.bytes += rounded;
  usage.files++;
  if (key->bytes[0] < usage.place.shard) { // this round has passed it
    usage.round_bytes += rounded;
    usage.round_files++;
  }
  kiln_usage_save(fd, &usage);
  need n = need_of(store, limits, usage.bytes, usage.files);
  kiln_usage_unlock(fd);
  return n.bytes || n.files || !usage.counted || key->bytes[31] % ROUND_EVERY == 0;
}

// ------------------------------------------------------------------------------------------ common

typedef struct sample {
  kiln_scan_item *items; ///< owned
  size_t count, capacity;
  bool failed;
} sample;

static bool collect(void *context, const kiln_scan_item *item) {
  sample *s = context;
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? s->capacity * 2 : 1024;
    kiln_scan_item *items = realloc(s->items, capacity * sizeof *items);
    if (!items) return !(s->failed = true);
    s->items = items;
    s->capacity = capacity;
  }
  s->items[s->count++] = *item;
  return true;
}

static int oldest_first(const void *x, const void *y) {
  const kiln_scan_item *a = x, *b = y;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return memcmp(a->key.bytes, b->key.bytes, KILN_DIGEST_SIZE);
}

/// True when the only other link of the entry is its place in the list of uploads.
static bool waits_for_upload(kiln_store *store, const kiln_scan_item *item, char spooled[KILN_STORE_NAME]) {
  char name[KILN_STORE_NAME];
  struct stat st, other;
  kiln_store_entry_name(&item->key, name);
  return item->links == 2 && kiln_spool_find(store, &item->key, spooled) &&
         !kiln_fs_stat_at(store->fd, spooled, &other) && !kiln_fs_stat_at(store->fd, name, &st) &&
         st.st_ino == other.st_ino;
}

static void note_failure(kiln_evict_report *report, const char *what, int e) {
  if (!report->failed++) snprintf(report->why, sizeof report->why, "%s: %s", what, strerror(-e));
}

/// Removes one entry unless it was used since it was listed. True when it is gone (or would be). Entries that
/// are linked elsewhere stay; those that wait for their upload stay unless `unsent`.
static bool remove_one(kiln_store *store, const kiln_scan_item *item, bool unsent, bool dry_run,
                       kiln_evict_report *report) {
  char name[KILN_STORE_NAME], spooled[KILN_STORE_NAME];
  struct stat st;
  kiln_store_entry_name(&item->key, name);
  if (unsent != (item->links > 1)) return false;
  if (unsent && !waits_for_upload(store, item, spooled)) return false;
  if (!dry_run) {
    if (kiln_fs_stat_at(store->fd, name, &st) || st.st_mtime != item->time) return false;
    int e = kiln_fs_unlink(store->fd, name);
    if (e == -EISDIR) { // somebody's folder in an entry's place
      kiln_scan_remove(store->fd, name);
      e = kiln_fs_stat_at(store->fd, name, &st) ? 0 : e;
    }
    if (e && e != -ENOENT) return note_failure(report, name, e), false;
    if (unsent) kiln_fs_unlink(store->fd, spooled);
  }
  report->evicted_files++;
  report->evicted_bytes += item->bytes;
  report->unsent += unsent;
  return true;
}

static bool enough(const kiln_evict_report *report, need n) {
  return report->evicted_bytes >= n.bytes && report->evicted_files >= n.files;
}

/// A file in staging whose writer lives is locked; all others are left over from kills. Where locks do not work, a file is
/// left over when nobody has written to it for an hour.
static void remove_orphan(void *context, int folder, const char *name) {
  kiln_evict_report *report = context;
  struct stat st;
  int fd = kiln_fs_open(folder, name, O_RDWR, 0);
  if (fd < 0) return;
  int e = kiln_fs_lock(fd, 0, 1);
  bool orphan = !e || (e != -EAGAIN && !kiln_fs_stat(fd, &st) && time(NULL) - st.st_mtime > OLD_S);
  if (orphan && !kiln_fs_unlink(folder, name)) report->orphans++;
  kiln_fs_close(fd);
}

static void count_file(void *context, int folder, const char *name) {
  (void)folder, (void)name;
  ++*(uint64_t *)context;
}

static void remove_file(void *context, int folder, const char *name) {
  (void)context;
  kiln_scan_remove(folder, name);
}

static void tidy(kiln_store *store, kiln_evict_report *report) {
  uint64_t quarantined = 0;
  kiln_spool_expire(store);
  kiln_scan_names(store, "staging", KILN_EVICT_SAMPLE, remove_orphan, report);
  kiln_scan_names(store, "quarantine", QUARANTINE_FILES + 1, count_file, &quarantined);
  if (quarantined > QUARANTINE_FILES)
    kiln_scan_names(store, "quarantine", KILN_EVICT_SAMPLE, remove_file, NULL);
}

/// The descriptor that holds the lock of the sums; below 0 when another process has it or there is none, as
/// `out` then says.
static int begin(kiln_store *store, kiln_usage *usage, kiln_evict_report *out) {
  memset(out, 0, sizeof *out);
  int fd = kiln_usage_lock(store, usage);
  out->busy = fd == -EAGAIN;
  return fd;
}

static void take_sums(const sample *s, kiln_evict_report *out) {
  for (size_t i = 0; i < s->count; i++) out->seen_bytes += s->items[i].bytes;
  out->seen_files = s->count;
}

// -------------------------------------------------------------------------------------------- step

void kiln_evict_step(kiln_store *store, const kiln_limits *limits, kiln_evicted *each, void *context,
                     kiln_evict_report *out) {
  kiln_usage usage;
  int fd = begin(store, &usage, out);
  if (fd < 0) return;
  sample s = {0};
  bool whole = !usage.place.shard && !usage.place.cookie;
  if (whole) {
    usage.round_bytes = usage.round_files = 0;
    tidy(store, out);
  }
  kiln_scan(store, &usage.place, KILN_EVICT_SAMPLE, collect, &s);
  bool finished = usage.place.shard >= KILN_STORE_SHARDS;
  take_sums(&s, out);
  usage.round_bytes += out->seen_bytes;
  usage.round_files += out->seen_files;
  if (finished && !s.failed) {
    usage.bytes = usage.round_bytes;
    usage.files = usage.round_files;
    usage.counted = true;
  }
  if (finished) usage.place = (kiln_scan_place){0};

  if (s.count) qsort(s.items, s.count, sizeof *s.items, oldest_first);
  need n = need_of(store, limits, usage.bytes, usage.files);
  // Of a part of the store only the older half is fair game: its youngest may be younger than much elsewhere.
  size_t most = whole && finished ? s.count : (s.count + 1) / 2;
  for (unsigned unsent = 0; unsent < 2; unsent++) // a remote side that is gone does not lift the limits
    for (size_t i = 0; i < most && !enough(out, n); i++)
      if (remove_one(store, &s.items[i], unsent, false, out) && each) each(context, &s.items[i]);
  usage.bytes = less(usage.bytes, out->evicted_bytes);
  usage.files = less(usage.files, out->evicted_files);
  usage.round_bytes = less(usage.round_bytes, out->evicted_bytes);
  usage.round_files = less(usage.round_files, out->evicted_files);
  out->over = !enough(out, n);
  kiln_usage_save(fd, &usage);
  kiln_stats_rotate(store);
  kiln_usage_unlock(fd);
  free(s.items);
}

// ------------------------------------------------------------------------------------------- sweep

static bool label_has(const kiln_bytes *label, const char *part) {
  return !part || memmem(label->bytes, label->size, part, strlen(part));
}

/// Whether the labels of an entry match; reads its file. Damaged entries match, so that a sweep takes them
/// along.
static bool labels_match(kiln_store *store, const kiln_digest *key, const kiln_evict_choice *choice) {
  if (!choice->target && !choice->producer) return true;
  char name[KILN_STORE_NAME];
  kiln_store_entry_name(key, name);
  int fd = kiln_fs_open(store->fd, name, O_RDONLY, 0);
  if (fd < 0) return false;
  struct stat st;
  bool matches = false;
  kiln_blob *file = !kiln_fs_stat(fd, &st) && st.st_size >= 0 ? kiln_blob_create((size_t)st.st_size) : NULL;
  size_t got;
  if (file && !kiln_fs_read(fd, file->bytes, file->size, &got) && got == file->size) {
    kiln_entry_view view;
    matches = kiln_entry_parse(file->bytes, got, UINT64_MAX - 1, &view, NULL) != KILN_OK ||
              (label_has(&view.labels[KILN_LABEL_TARGET], choice->target) &&
               label_has(&view.labels[KILN_LABEL_PRODUCER], choice->producer));
  }
  kiln_blob_release(file);
  kiln_fs_close(fd);
  return matches;
}

static bool chosen(kiln_store *store, const kiln_scan_item *item, const kiln_evict_choice *choice,
                   int64_t now) {
  if (choice->all) return true;
  bool by_label = choice->target || choice->producer;
  if (!choice->max_age_s && !by_label) return false;
  if (choice->max_age_s && now - item->time <= choice->max_age_s) return false;
  return labels_match(store, &item->key, choice);
}

static bool sums_will_do(const kiln_store *store, const kiln_limits *limits, const kiln_evict_choice *choice,
                         const kiln_usage *usage) {
  if (!choice->by_sums || choice->all || choice->max_age_s || choice->target || choice->producer)
    return false;
  if (!usage->counted || usage->files <= KILN_USAGE_WALKED) return false;
  need n = need_of(store, limits, usage->bytes, usage->files);
  return !n.bytes && !n.files;
}

void kiln_evict_sweep(kiln_store *store, const kiln_limits *limits, const kiln_evict_choice *choice,
                      kiln_evicted *each, void *context, kiln_evict_report *out) {
  kiln_usage usage;
  int fd = begin(store, &usage, out);
  if (out->busy) return;
  out->failed = kiln_scan_unreadable(store, out->why, sizeof out->why);
  if (fd < 0 && store->fd >= 0) note_failure(out, store->writable ? "usage" : store->folder, fd);
  if (fd < 0) return; // without a folder, too: nothing is there, or nothing can be seen
  sample s = {0};
  if (!choice->dry_run) tidy(store, out);
  if (sums_will_do(store, limits, choice, &usage)) {
    out->by_sums = true;
    out->seen_bytes = usage.bytes;
    out->seen_files = usage.files;
    if (!choice->dry_run) kiln_stats_rotate(store);
    kiln_usage_unlock(fd);
    return;
  }
  kiln_scan_all(store, collect, &s);
  take_sums(&s, out);
  if (s.count) qsort(s.items, s.count, sizeof *s.items, oldest_first);
  need n = need_of(store, limits, out->seen_bytes, out->seen_files);
  int64_t now = (int64_t)time(NULL);
  for (unsigned unsent = 0; unsent < 2; unsent++)
    for (size_t i = 0; i < s.count; i++) {
      if (enough(out, n) && ((unsent && !choice->all) || !chosen(store, &s.items[i], choice, now))) continue;
      if (remove_one(store, &s.items[i], unsent, choice->dry_run, out) && each) each(context, &s.items[i]);
    }
  out->over = !enough(out, n);
  if (!choice->dry_run && !s.failed) {
    usage = (kiln_usage){.counted = true,
                         .bytes = less(out->seen_bytes, out->evicted_bytes),
                         .files = less(out->seen_files, out->evicted_files)};
    kiln_usage_save(fd, &usage);
    kiln_stats_rotate(store);
  }
  kiln_usage_unlock(fd);
  free(s.items);
}
