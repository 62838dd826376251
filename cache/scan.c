// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks over the entries of a store, all of them or a limited number from a given place.
#include "cache/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"

/// The kernel's struct linux_dirent64, as getdents64 packs it.
struct record {
  uint64_t inode;
  int64_t next;
  unsigned short size;
  unsigned char type;
  char name[];
};

enum { CHUNK = 16384 };

typedef struct walk {
  kiln_store *store;
  int fd;
  uint32_t shard;
  uint64_t left;
  bool (*each)(void *context, const kiln_scan_item *item);
  void *context;
  bool stopped;
} walk;

/// Hands one name on when it is an entry's. Other names are nobody's business.
static void visit_name(walk *w, const char *name) {
  static const char digits[] = "0123456789abcdef";
  char hex[KILN_DIGEST_HEX] = {digits[w->shard >> 4 & 15], digits[w->shard & 15]};
  kiln_scan_item item;
  struct stat st;
  if (strlen(name) != sizeof hex - 2) return;
  memcpy(hex + 2, name, sizeof hex - 2);
  if (!kiln_digest_parse(hex, sizeof hex, &item.key)) return;
  if (kiln_fs_stat_at(w->fd, name, &st)) return; // gone meanwhile
  item.bytes = (uint64_t)st.st_blocks * 512;
  if (!item.bytes) item.bytes = (uint64_t)st.st_size;
  item.size = (uint64_t)st.st_size;
  item.time = st.st_mtime;
  item.links = S_ISDIR(st.st_mode) ? 1 : (uint32_t)st.st_nlink; // a folder's links pin nothing
  w->left--;
  w->stopped = !w->each(w->context, &item);
}

/// Walks one folder from `*cookie`; 1 when its end was reached, 0 when the limit was, or -errno.
static int walk_folder(walk *w, int64_t *cookie) {
  _Alignas(8) char chunk[CHUNK];
  if (*cookie && kiln_fs_seek(w->fd, *cookie)) *cookie = 0;
  for (;;) {
    ssize_t got = kiln_fs_list(w->fd, chunk, sizeof chunk);
    if (got <= 0) return got < 0 ? (int)got : 1;
    for (ssize_t at = 0; at < got;) {
      const struct record *r = (const struct record *)(const void *)(chunk + at);
      at += r->size;
      visit_name(w, r->name);
      *cookie = r->next;
      if (w->stopped || !w->left) return 0;
    }
  }
}

int kiln_scan(kiln_store *store, kiln_scan_place *place, uint64_t limit,
              bool (*each)(void *, const kiln_scan_item *), void *context) {
  walk w = {.store = store, .left = limit ? limit : UINT64_MAX, .each = each, .context = context};
  int first = 0;
  while (place->shard < KILN_STORE_SHARDS && w.left && !w.stopped) {
    char name[16];
    snprintf(name, sizeof name, "entries/%02x", place->shard & 255);
    int e = w.fd = store->fd < 0 ? -ENOENT : kiln_fs_open(store->fd, name, O_RDONLY | O_DIRECTORY, 0);
    w.shard = place->shard;
    if (e >= 0) {
      e = walk_folder(&w, &place->cookie);
      kiln_fs_close(w.fd);
    }
    if (e == 0) break;
    if (e < 0 && e != -ENOENT && !first) first = e;
    place->shard++;
    place->cookie = 0;
  }
  return first;
}

int kiln_scan_all(kiln_store *store, bool (*each)(void *, const kiln_scan_item *), void *context) {
  kiln_scan_place place = {0};
  return kiln_scan(store, &place, 0, each, context);
}

void kiln_scan_folder(int fd, uint64_t limit, void (*each)(void *, int, const char *), void *context) {
  _Alignas(8) char chunk[CHUNK];
  ssize_t got;
  kiln_fs_seek(fd, 0);
  while (limit && (got = kiln_fs_list(fd, chunk, sizeof chunk)) > 0) {
    for (ssize_t at = 0; at < got && limit;) {
      const struct record *r = (const struct record *)(const void *)(chunk + at);
      at += r->size;
      if (!strcmp(r->name, ".") || !strcmp(r->name, "..")) continue;
      each(context, fd, r->name);
      limit--;
    }
  }
}

int kiln_scan_names(kiln_store *store, const char *folder, uint64_t limit,
                    void (*each)(void *, int, const char *), void *context) {
  int fd = store->fd < 0 ? -ENOENT : kiln_fs_open(store->fd, folder, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return fd;
  kiln_scan_folder(fd, limit, each, context);
  kiln_fs_close(fd);
  return 0;
}

unsigned kiln_scan_unreadable(kiln_store *store, char *out, size_t capacity) {
  unsigned count = 0;
  *out = 0;
  if (store->fd < 0 && store->error && store->error != ENOENT) {
    snprintf(out, capacity, "%s: %s", store->folder, strerror(store->error));
    return 1;
  }
  for (unsigned i = 0; i <= KILN_STORE_SHARDS && store->fd >= 0; i++) {
    char name[16] = "entries";
    if (i) snprintf(name, sizeof name, "entries/%02x", i - 1);
    int fd = kiln_fs_open(store->fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0) kiln_fs_close(fd);
    if (fd >= 0 || fd == -ENOENT) continue;
    if (!count++) snprintf(out, capacity, "%s: %s", name, strerror(-fd));
    if (!i) break; // nor can what is in it
  }
  return count;
}

// A store is vN / DOMAIN.SPACE / entries / ab / file: nothing of ours is deeper.
enum { DEEPEST = 5 };

static void remove_tree(void *context, int folder, const char *name) {
  unsigned *depth = context;
  if (kiln_fs_unlink(folder, name) == 0 || *depth == DEEPEST) return;
  int fd = kiln_fs_open(folder, name, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return;
  ++*depth;
  kiln_scan_folder(fd, UINT64_MAX, remove_tree, depth);
  --*depth;
  kiln_fs_close(fd);
  kiln_fs_rmdir(folder, name);
}

void kiln_scan_remove(int folder, const char *name) {
  unsigned depth = 0;
  remove_tree(&depth, folder, name);
}
