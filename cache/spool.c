// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps the list of entries that wait for upload, as links in weekly folders.
#include "cache/spool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"
#include "cache/scan.h"

enum { WEEK_S = 7 * 86400, WEEKS = 2, FOLDER = 32 };

/// The number of this week (`ago` 0), or of one before, in at most five digits.
static unsigned week(unsigned ago) { return (unsigned)((uint64_t)time(NULL) / WEEK_S - ago) % 100000; }

static void week_folder(unsigned ago, char out[FOLDER]) { snprintf(out, FOLDER, "spool/%u", week(ago)); }

static void listing_name(unsigned ago, const kiln_digest *key, char out[KILN_STORE_NAME]) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(key, hex);
  snprintf(out, KILN_STORE_NAME, "spool/%u/%s", week(ago), hex);
}

bool kiln_spool_find(kiln_store *store, const kiln_digest *key, char out[KILN_STORE_NAME]) {
  struct stat st;
  for (unsigned ago = 0; ago < WEEKS; ago++) {
    listing_name(ago, key, out);
    if (!kiln_fs_stat_at(store->fd, out, &st)) return true;
  }
  return false;
}

int kiln_spool_add(kiln_store *store, const kiln_digest *key) {
  char entry[KILN_STORE_NAME], name[KILN_STORE_NAME], folder[FOLDER];
  mode_t mode = kiln_store_mode(store, 0777);
  listing_name(1, key, name);
  struct stat st;
  if (!kiln_fs_stat_at(store->fd, name, &st)) return 0;
  kiln_store_entry_name(key, entry);
  listing_name(0, key, name);
  int e = kiln_fs_link(store->fd, entry, store->fd, name);
  if (e == -ENOENT) {
    week_folder(0, folder);
    kiln_fs_mkdir(store->fd, "spool", mode);
    e = kiln_fs_mkdir(store->fd, folder, mode);
    if (!e || e == -EEXIST) e = kiln_fs_link(store->fd, entry, store->fd, name);
  }
  return e == -EEXIST ? 0 : e;
}

struct limited {
  uint64_t left;
  void (*each)(void *context, int folder_fd, const char *name);
  void *context;
};

static void pass_on(void *context, int folder, const char *name) {
  struct limited *l = context;
  if (!l->left) return;
  l->left--;
  l->each(l->context, folder, name);
}

void kiln_spool_walk(kiln_store *store, uint64_t limit,
                     void (*each)(void *context, int folder_fd, const char *name), void *context) {
  struct limited l = {limit, each, context};
  for (unsigned ago = WEEKS; ago-- > 0 && l.left;) {
    char folder[FOLDER];
    week_folder(ago, folder);
    kiln_scan_names(store, folder, l.left, pass_on, &l);
  }
}

static void count_one(void *context, int folder, const char *name) {
  (void)folder, (void)name;
  ++*(uint64_t *)context;
}

uint64_t kiln_spool_count(kiln_store *store) {
  uint64_t count = 0;
  kiln_spool_walk(store, UINT64_MAX, count_one, &count);
  return count;
}

/// Whatever is no folder of these weeks, also of weeks to come: the clock was wrong then, or is now.
static void remove_old(void *context, int folder, const char *name) {
  (void)context;
  for (unsigned ago = 0; ago < WEEKS; ago++) {
    char kept[FOLDER];
    week_folder(ago, kept);
    if (!strcmp(kept + strlen("spool/"), name)) return;
  }
  kiln_scan_remove(folder, name);
}

void kiln_spool_expire(kiln_store *store) { kiln_scan_names(store, "spool", UINT64_MAX, remove_old, NULL); }
