// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes entries into a store. An entry gets its name when it is complete, in one step; before that it has
// no name at all (O_TMPFILE), or one in staging/, which nobody reads and gc empties.
//
// The steps: make the shard's folder, open a nameless file there, write all, sync when the store is durable,
// link it to its name, close. EEXIST: another writer was first. File systems without nameless files or
// without links: a file in staging/ under a lock that says "alive", then link, or rename where there are no
// links. Before that the content is handed over: NFS may keep it until the file is closed, and other machines would
// read a name without it. Failures after the link (close) take the name away again.
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/scan.h"

static int write_and_sync(const kiln_store *store, int fd, const uint8_t *bytes, size_t size) {
  int e = kiln_fs_write(fd, bytes, size);
  return !e && store->durable ? kiln_fs_sync(fd) : e;
}

/// A name's directory record is made durable too.
static int sync_folder(const kiln_store *store, const char *folder) {
  if (!store->durable) return 0;
  int fd = kiln_fs_open(store->fd, folder, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return fd;
  int e = kiln_fs_sync(fd);
  kiln_fs_close(fd);
  return e;
}

static bool no_nameless(int e) { return e == -EOPNOTSUPP || e == -EISDIR || e == -EINVAL || e == -ENOSYS; }

/// The usual way. -EOPNOTSUPP: this file system or sandbox cannot; nothing was left behind.
static int write_nameless(kiln_store *store, const char *shard, const char *name, const uint8_t *bytes,
                          size_t size) {
  int fd = kiln_fs_open(store->fd, shard, O_TMPFILE | O_WRONLY, kiln_store_mode(store, 0444));
  if (fd < 0) return no_nameless(fd) ? -EOPNOTSUPP : fd;
  int e = write_and_sync(store, fd, bytes, size);
  bool linked = false;
  if (!e) {
    e = kiln_fs_link_open(fd, store->fd, name);
    linked = !e;
    if (e == -EXDEV || e == -EPERM || e == -EOPNOTSUPP || (e == -ENOENT && access("/proc/self/fd", X_OK)))
      e = -EOPNOTSUPP;
  }
  int closed = kiln_fs_close(fd);
  if (linked && closed) kiln_fs_unlink(store->fd, name);
  return e ? e : closed;
}

/// A new file in staging/, locked so that a cleaner sees that its writer lives.
static int open_staged(const kiln_store *store, char name[KILN_STORE_NAME]) {
  static atomic_uint counter;
  for (unsigned attempt = 0; attempt < 8; attempt++) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(name, KILN_STORE_NAME, "staging/%ld-%u-%09ld", (long)getpid(), atomic_fetch_add(&counter, 1),
             now.tv_nsec);
    int fd = kiln_fs_open(store->fd, name, O_WRONLY | O_CREAT | O_EXCL, kiln_store_mode(store, 0444) | 0200);
    if (fd == -EEXIST) continue;
    if (fd < 0) return fd;
    if (kiln_fs_lock(fd, 0, 1) != -EAGAIN) return fd;
    kiln_fs_close(fd); // a cleaner took it between the two calls
  }
  return -EBUSY;
}

static int write_staged(kiln_store *store, const char *name, const uint8_t *bytes, size_t size,
                        bool replace) {
  char staged[KILN_STORE_NAME];
  int fd = open_staged(store, staged);
  if (fd < 0) return fd;
  int e = write_and_sync(store, fd, bytes, size);
  bool published = false, gone = false;
  if (!e) e = kiln_fs_hand_over(fd);
  if (!e && !replace) {
    e = kiln_fs_link(store->fd, staged, store->fd, name);
    published = !e;
    if (e == -EPERM || e == -EOPNOTSUPP || e == -EMLINK || e == -ENOSYS) replace = true;
  }
  if (replace && (!e || e == -EPERM || e == -EOPNOTSUPP || e == -EMLINK || e == -ENOSYS)) {
    e = kiln_fs_rename(store->fd, staged, store->fd, name);
    published = gone = !e;
  }
  // Closed first: NFS gives a file that is removed while it is open another name instead.
  int closed = kiln_fs_close(fd);
  if (!gone) kiln_fs_unlink(store->fd, staged);
  if (published && closed) kiln_fs_unlink(store->fd, name);
  return e ? e : closed;
}

static int write_once(kiln_store *store, const char *shard, const char *name, const uint8_t *bytes,
                      size_t size, bool replace) {
  int e = replace ? -EOPNOTSUPP : write_nameless(store, shard, name, bytes, size);
  if (e == -EOPNOTSUPP) e = write_staged(store, name, bytes, size, replace);
  return e;
}

/// ESTALE: on a network file system, by another machine.
static bool is_gone(int e) { return e == -ENOENT || e == -ESTALE; }

int kiln_store_write(kiln_store *store, const kiln_digest *key, const uint8_t *bytes, size_t size,
                     bool replace) {
  char name[KILN_STORE_NAME], shard[16];
  int e = kiln_store_make(store);
  if (e) return e;
  kiln_store_entry_name(key, name);
  snprintf(shard, sizeof shard, "%.10s", name);
  e = write_once(store, shard, name, bytes, size, replace);
  if (is_gone(e)) { // the shard's folder is missing, or all of the store was pulled away
    kiln_store_look_again(store, key);
    e = kiln_fs_mkdir(store->fd, shard, kiln_store_mode(store, 0777));
    if (is_gone(e)) {
      e = kiln_store_make_again(store);
      if (!e) e = kiln_fs_mkdir(store->fd, shard, kiln_store_mode(store, 0777));
    }
    if (!e || e == -EEXIST) e = write_once(store, shard, name, bytes, size, replace);
  }
  if ((e == -ENOTDIR || e == -EACCES) && !kiln_store_heal_folder(store, "entries") &&
      !kiln_store_heal_folder(store, shard))
    e = write_once(store, shard, name, bytes, size, replace);
  if (e == -EEXIST) return 1;
  return e ? e : sync_folder(store, shard);
}

int kiln_store_quarantine(kiln_store *store, const kiln_digest *key) {
  char name[KILN_STORE_NAME], aside[KILN_STORE_NAME] = "quarantine/";
  if (!store->writable || store->fd < 0) return -EROFS;
  kiln_store_entry_name(key, name);
  kiln_digest_hex(key, aside + strlen(aside));
  int e = kiln_fs_rename(store->fd, name, store->fd, aside);
  if (e) kiln_scan_remove(store->fd, name);
  struct stat st;
  return e && !kiln_fs_stat_at(store->fd, name, &st) ? e : 0;
}

int kiln_store_remove(kiln_store *store, const kiln_digest *key) {
  char name[KILN_STORE_NAME];
  if (!store->writable) return -EROFS;
  if (store->fd < 0) return -ENOENT;
  kiln_store_entry_name(key, name);
  int e = kiln_fs_unlink(store->fd, name);
  if (e != -EISDIR) return e;
  kiln_scan_remove(store->fd, name);
  struct stat st;
  return kiln_fs_stat_at(store->fd, name, &st) ? 0 : e;
}

int kiln_store_replace_file(kiln_store *store, const char *name, const void *bytes, size_t size) {
  return write_staged(store, name, bytes, size, true);
}
