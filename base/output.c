// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "base/fs.h"

enum { ATTEMPTS = 1000 };

/// Reads until `wanted` bytes or more are there: asking once more, only to be told that the file ends, would
/// cost each hit a system call.
static size_t read_enough(int fd, uint8_t *bytes, size_t capacity, size_t wanted) {
  size_t got = 0;
  for (ssize_t n = 1; n > 0 && got < wanted;) {
    n = read(fd, bytes + got, capacity - got);
    if (n > 0) got += (size_t)n;
    else if (n < 0 && errno == EINTR) n = 1;
  }
  return got;
}

/// One byte more than expected is asked for, so that a longer file shows without asking for its size.
static bool is_same(const char *path, const void *bytes, size_t size) {
  kiln_buffer old = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC |
                          O_NONBLOCK); // a link as output is followed, a pipe does not hold us up
  if (fd < 0) return false;
  size_t got = kiln_buffer_reserve(&old, size + 1) ? read_enough(fd, old.bytes, size + 1, size) : size + 1;
  kiln_fs_close(fd);
  bool same = got == size && !memcmp(old.bytes, bytes, size);
  kiln_buffer_deinit(&old);
  return same;
}

static void folder_of(const char *path, char out[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

bool kiln_output_temporary(const char *path, long writer, char out[PATH_MAX]) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  kiln_check check = kiln_check_of(name, strlen(name));
  char mark[24] = "";
  if (writer) snprintf(mark, sizeof mark, ".%ld", writer);
  return snprintf(out, PATH_MAX, "%.*s.kiln-%02x%02x%02x%02x%02x%02x%s.tmp", (int)(name - path), path,
                  check.bytes[0], check.bytes[1], check.bytes[2], check.bytes[3], check.bytes[4],
                  check.bytes[5], mark) < PATH_MAX;
}

static kiln_status failed(kiln_error *err, const char *verb, const char *path, int e) {
  return kiln_fail(err, kiln_status_of_errno(-e), "cannot %s %s: %s", verb, path, strerror(-e));
}

static bool is_complete;

void kiln_output_complete(bool complete) { is_complete = complete; }

/// A journal may keep the name and lose what it names: the content goes to the disk before the name is made.
static int write_and_settle(int fd, const void *bytes, size_t size) {
  int e = kiln_fs_write(fd, bytes, size);
  if (e) return e;
  return is_complete ? kiln_fs_sync(fd) : kiln_fs_flush(fd);
}

/// On request the name is on the disk, too, before we say that it is.
static int settle_name(const char *path) {
  char folder[PATH_MAX];
  if (!is_complete) return 0;
  folder_of(path, folder);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  int e = kiln_fs_sync(fd), closed = kiln_fs_close(fd);
  return e ? e : closed;
}

static bool lacks_nameless(int e) { return e == -EOPNOTSUPP || e == -EISDIR || e == -EINVAL || e == -ENOSYS; }

/// Whether `path` is the open file: another writer may have renamed ours into place.
static bool is_ours(int fd, const char *path) {
  struct stat ours, there;
  return !fstat(fd, &ours) && !stat(path, &there) && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

/// Replaces an existing file. -EAGAIN: another writer of the same path was in between.
static int replace(int fd, const char *path, const char *temporary) {
  int e = kiln_fs_link_open(fd, AT_FDCWD, temporary);
  if (e == -EEXIST) {
    e = kiln_fs_unlink(AT_FDCWD, temporary);
    return e && e != -ENOENT ? e : -EAGAIN;
  }
  if (e) return e;
  e = kiln_fs_rename(AT_FDCWD, temporary, AT_FDCWD, path);
  if (e == -ENOENT) return is_ours(fd, path) ? 0 : -EAGAIN;
  if (e) kiln_fs_unlink(AT_FDCWD, temporary);
  return e;
}

/// -ESTALE: another writer took our name away, and a file whose last name is gone never gets one again
/// (ENOENT of linkat).
static int publish(int fd, const char *path, const char *temporary) {
  int e = -EAGAIN;
  for (unsigned i = 0; i < ATTEMPTS && e == -EAGAIN; i++) {
    e = kiln_fs_link_open(fd, AT_FDCWD, path);
    if (e == -EEXIST) e = replace(fd, path, temporary);
  }
  return e == -ENOENT && !access("/proc/self/fd", X_OK) ? -ESTALE : e;
}

/// 0, -EOPNOTSUPP when the file system or sandbox cannot, -ESTALE to begin again, or another -errno. Leaves
/// nothing behind.
static int write_nameless(const char *path, const char *temporary, const void *bytes, size_t size) {
  char folder[PATH_MAX];
  folder_of(path, folder);
  int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666); // the folder may be a link
  if (fd < 0) return lacks_nameless(-errno) ? -EOPNOTSUPP : -errno;
  int e = write_and_settle(fd, bytes, size);
  if (!e) e = publish(fd, path, temporary);
  if (e == -EXDEV || e == -EPERM || e == -ENOENT) e = -EOPNOTSUPP;
  int closed = kiln_fs_close(fd);
  return e ? e : closed;
}

/// Opens the file that writers of `path` have in common, when no other one is at it: what a dead one left in
/// it goes. Else, or without locks, one of our own.
static int open_named(const char *path, char temporary[PATH_MAX]) {
  for (unsigned i = 0; i < ATTEMPTS; i++) {
    int fd = kiln_fs_open(AT_FDCWD, temporary, O_WRONLY | O_CREAT, 0666);
    if (fd < 0) return fd;
    int e = kiln_fs_lock(fd, 0, 1);
    if (!e && is_ours(fd, temporary)) {
      if (!ftruncate(fd, 0)) return fd;
      e = -errno;
    }
    kiln_fs_close(fd);
    if (e) break;
  }
  return kiln_output_temporary(path, (long)getpid(), temporary)
             ? kiln_fs_open(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666)
             : -ENAMETOOLONG;
}

static kiln_status write_named(const char *path, char temporary[PATH_MAX], const void *bytes, size_t size,
                               kiln_error *err) {
  int fd = open_named(path, temporary);
  if (fd < 0) return failed(err, "create", temporary, fd);
  int e = write_and_settle(fd, bytes, size);
  if (!e) e = kiln_fs_rename(AT_FDCWD, temporary, AT_FDCWD, path);
  if (e) kiln_fs_unlink(AT_FDCWD, temporary);
  int closed = kiln_fs_close(fd); // with the lock, which nobody else may have before the name is gone
  if (!e) e = closed;
  if (!e) e = settle_name(path);
  return e ? failed(err, "write", path, e) : KILN_OK;
}

/// Pipes and devices are written as they are.
static kiln_status write_through(const char *path, const void *bytes, size_t size, kiln_error *err) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  int e = fd < 0 ? -errno : kiln_fs_write(fd, bytes, size), closed = fd < 0 ? 0 : kiln_fs_close(fd);
  e = e ? e : closed;
  return e ? failed(err, "write", path, e) : KILN_OK;
}

kiln_status kiln_output_write(const char *path, const void *bytes, size_t size, kiln_error *err) {
  char temporary[PATH_MAX];
  struct stat st;
  if (is_same(path, bytes, size)) return KILN_OK;
  if (!kiln_output_temporary(path, 0, temporary))
    return kiln_fail(err, KILN_STATUS_LIMIT, "the path %.200s... is too long", path);
  if (!stat(path, &st) && !S_ISREG(st.st_mode)) return write_through(path, bytes, size, err);
  int e = -ESTALE;
  for (unsigned i = 0; i < ATTEMPTS && e == -ESTALE; i++) e = write_nameless(path, temporary, bytes, size);
  if (e == -EOPNOTSUPP) return write_named(path, temporary, bytes, size, err);
  if (!e) e = settle_name(path);
  return e ? failed(err, "write", path, e) : KILN_OK;
}

void kiln_output_clean(const char *path) {
  char temporary[PATH_MAX];
  if (!kiln_output_temporary(path, 0, temporary)) return;
  int fd = kiln_fs_open(AT_FDCWD, temporary, O_WRONLY, 0);
  if (fd < 0) return;
  if (kiln_fs_lock(fd, 0, 1) != -EAGAIN) kiln_fs_unlink(AT_FDCWD, temporary);
  kiln_fs_close(fd);
}
