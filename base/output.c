// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes files for users through a temporary file and a rename, and leaves a file alone whose content would
// not change.
#include "base/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "base/fs.h"
#include "base/stream.h"

enum { ATTEMPTS = 100, COPY = 1 << 16, MARK = sizeof ".kiln-0123456789ab-" };

static kiln_status failed(kiln_error *err, const char *verb, const char *path, int e) {
  return kiln_fail(err, kiln_status_of_errno(-e), "cannot %s %s: %s", verb, path, strerror(-e));
}

static bool is_complete;

void kiln_output_complete(bool complete) { is_complete = complete; }

// ------------------------------------------------------------------------------------------- names

static void folder_of(const char *path, char out[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

/// ".kiln-HASH-": how the names of what is written for `path` begin.
static void mark_of(const char *path, char out[MARK]) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  kiln_check check = kiln_check_of(name, strlen(name));
  const uint8_t *b = check.bytes;
  snprintf(out, MARK, ".kiln-%02x%02x%02x%02x%02x%02x-", b[0], b[1], b[2], b[3], b[4], b[5]);
}

/// A name next to `path` that nobody can guess. False: too long.
static bool name_temporary(const char *path, char out[PATH_MAX]) {
  uint64_t random[2];
  char mark[MARK];
  const char *slash = strrchr(path, '/');
  if (getrandom(random, sizeof random, 0) != sizeof random) {
    // A kernel or sandbox without it. A name that was guessed is still refused: it must be new.
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    random[0] = (uint64_t)now.tv_nsec << 32 | (uint32_t)getpid(), random[1] = (uintptr_t)random;
  }
  mark_of(path, mark);
  return snprintf(out, PATH_MAX, "%.*s%s%016llx%016llx.tmp", slash ? (int)(slash + 1 - path) : 0, path, mark,
                  (unsigned long long)random[0], (unsigned long long)random[1]) < PATH_MAX;
}

void kiln_output_clean(const char *path) {
  char folder[PATH_MAX], mark[MARK];
  folder_of(path, folder);
  mark_of(path, mark);
  const size_t length = strlen(mark);
  DIR *all = opendir(folder);
  for (struct dirent *e; all && (e = readdir(all));) {
    const bool is_left_over = !strncmp(e->d_name, mark, length) &&
                              strspn(e->d_name + length, "0123456789abcdef") == 32 &&
                              !strcmp(e->d_name + length + 32, ".tmp");
    if (!is_left_over) continue;
    int fd = openat(dirfd(all), e->d_name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) continue;
    // A writer that lives has it locked. Without locks nothing is taken away.
    if (!kiln_fs_lock(fd, 0, 1)) kiln_fs_unlink(dirfd(all), e->d_name);
    close(fd);
  }
  if (all) closedir(all);
}

// --------------------------------------------------------------------------------------- what is there

/// Piece by piece, without memory for the whole. One byte more than is left is asked for, so that a longer
/// file shows, and asking once more, only to be told that the file ends, does not cost each hit a system
/// call.
static bool is_same(const char *path, const uint8_t *bytes, size_t size) {
  uint8_t piece[8192];
  size_t done = 0;
  bool is_end = false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  while (!is_end) {
    size_t left = size - done, asked = left < sizeof piece ? left + 1 : sizeof piece;
    ssize_t got = read(fd, piece, asked);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || (size_t)got > left || memcmp(piece, bytes + done, (size_t)got)) break;
    done += (size_t)got;
    is_end = done == size && (size_t)got < asked;
    if (!got) break;
  }
  kiln_fs_close(fd);
  return is_end;
}

/// The descriptor of this process that writes what the link `path` leads to, which is `there`: /dev/stdout,
/// /dev/fd/N. -1: none.
static int own_descriptor(const char *path, const struct stat *there) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  int candidates[] = {STDOUT_FILENO, STDERR_FILENO, *name >= '0' && *name <= '9' ? atoi(name) : -1};
  struct stat own;
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
    if (candidates[i] > 0 && !fstat(candidates[i], &own) && own.st_dev == there->st_dev &&
        own.st_ino == there->st_ino && (fcntl(candidates[i], F_GETFL) & O_ACCMODE) != O_RDONLY)
      return candidates[i];
  return -1;
}

typedef enum place { PLACE_FREE, PLACE_FILE, PLACE_THROUGH } place;

/// What `path` is. `out_fd`: the own descriptor that it stands for, or -1.
static place look_up_place(const char *path, int *out_fd) {
  struct stat link, there;
  *out_fd = -1;
  if (lstat(path, &link)) return PLACE_FREE;
  if (S_ISREG(link.st_mode)) return PLACE_FILE;
  if (stat(path, &there)) return PLACE_FILE; // a link to nothing
  if (!S_ISREG(there.st_mode)) return PLACE_THROUGH;
  *out_fd = own_descriptor(path, &there);
  return *out_fd >= 0 ? PLACE_THROUGH : PLACE_FILE;
}

// ----------------------------------------------------------------------------------------- writing

/// Writes without the signals that may come with it: an application has not asked for any.
static int write_quietly(int fd, const void *bytes, size_t size) {
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGXFSZ);
  sigaddset(&ours, SIGPIPE);
  bool is_blocked = !pthread_sigmask(SIG_BLOCK, &ours, &before);
  int e = kiln_fs_write(fd, bytes, size);
  if (!is_blocked) return e;
  int signal = e == -EFBIG ? SIGXFSZ : e == -EPIPE ? SIGPIPE : 0;
  if (signal && !sigismember(&before, signal)) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigtimedwait(&one, NULL, &(struct timespec){0});
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return e;
}

/// A journal may keep the name and lose what it names: the content goes to the disk before the name is made.
static int flush_content(int fd) { return is_complete ? kiln_fs_sync(fd) : kiln_fs_flush(fd); }

/// On request the name is on the disk, too, before we say that it is.
static int flush_name(const char *path) {
  char folder[PATH_MAX];
  if (!is_complete) return 0;
  folder_of(path, folder);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  int e = kiln_fs_sync(fd), closed = kiln_fs_close(fd);
  return e ? e : closed;
}

static int create_named(const char *path, char temporary[PATH_MAX]) {
  int fd = -EEXIST;
  for (unsigned i = 0; i < ATTEMPTS && fd == -EEXIST; i++) {
    if (!name_temporary(path, temporary)) return -ENAMETOOLONG;
    fd = kiln_fs_open(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
  }
  if (fd >= 0) (void)kiln_fs_lock(fd, 0, 1); // where there are no locks, nobody takes it away either
  return fd;
}

static bool lacks_nameless(int e) {
  return e == -EOPNOTSUPP || e == -EISDIR || e == -EINVAL || e == -ENOSYS || e == -EXDEV || e == -EPERM ||
         e == -ENOENT;
}

kiln_status kiln_output_open(kiln_output *out, const char *path, kiln_error *err) {
  int own;
  out->path = path, out->fd = -1, out->temporary[0] = 0;
  if (strlen(path) >= PATH_MAX)
    return kiln_fail(err, KILN_STATUS_LIMIT, "the path %.200s... is too long", path);
  out->is_through = look_up_place(path, &own) == PLACE_THROUGH;
  if (own >= 0) {
    out->fd = fcntl(own, F_DUPFD_CLOEXEC, 3);
  } else if (out->is_through) {
    out->fd = kiln_stream_aside(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
  } else {
    char folder[PATH_MAX];
    folder_of(path, folder);
    // The folder may be a link.
    out->fd = kiln_stream_aside(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
    if (out->fd < 0) out->fd = lacks_nameless(-errno) ? create_named(path, out->temporary) : -errno;
  }
  if (out->fd >= 0) return KILN_OK;
  int e = out->is_through ? -errno : out->fd;
  out->fd = -1;
  return failed(err, out->is_through ? "write" : "create", path, e);
}

// ------------------------------------------------------------------------------------------- closing

/// Gives what has no name one of its own, in order to replace what is at `path`.
static int link_temporary(kiln_output *out) {
  int e = -EEXIST;
  (void)kiln_fs_lock(out->fd, 0, 1);
  for (unsigned i = 0; i < ATTEMPTS && e == -EEXIST; i++) {
    if (!name_temporary(out->path, out->temporary)) return -ENAMETOOLONG;
    e = kiln_fs_link_open(out->fd, AT_FDCWD, out->temporary);
  }
  if (e) out->temporary[0] = 0;
  return e;
}

/// A file system or sandbox that makes nameless files and gives them no name: its bytes go into one with a
/// name.
static int copy_to_named(kiln_output *out) {
  static const size_t piece = COPY;
  size_t got = 0;
  uint8_t *bytes = malloc(piece);
  int fd = bytes ? create_named(out->path, out->temporary) : -ENOMEM;
  int e = fd < 0 ? fd : lseek(out->fd, 0, SEEK_SET) < 0 ? -errno : 0;
  while (!e && !(e = kiln_fs_read(out->fd, bytes, piece, &got)) && got) e = write_quietly(fd, bytes, got);
  if (!e) e = flush_content(fd);
  free(bytes);
  if (fd < 0) return fd;
  kiln_fs_close(out->fd);
  out->fd = fd;
  return e;
}

static int publish(kiln_output *out) {
  int e = flush_content(out->fd);
  bool is_named = out->temporary[0];
  if (!e && !is_named) {
    e = kiln_fs_link_open(out->fd, AT_FDCWD, out->path);
    if (!e) return 0;
    if (e == -EEXIST) e = link_temporary(out);
    if (e && lacks_nameless(e)) e = copy_to_named(out);
  }
  if (!e) e = kiln_fs_rename(AT_FDCWD, out->temporary, AT_FDCWD, out->path);
  if (e && out->temporary[0]) kiln_fs_unlink(AT_FDCWD, out->temporary);
  if (!e) kiln_output_clean(out->path);
  return e;
}

kiln_status kiln_output_close(kiln_output *out, kiln_status status, kiln_error *err) {
  if (out->fd < 0) return status;
  int e = 0;
  if (status != KILN_OK && out->temporary[0]) kiln_fs_unlink(AT_FDCWD, out->temporary);
  if (status == KILN_OK && !out->is_through) e = publish(out);
  int closed = kiln_fs_close(out->fd); // with the lock, which nobody else may have before the name is gone
  out->fd = -1;
  if (status != KILN_OK) return status;
  if (!e) e = closed;
  if (!e && !out->is_through) e = flush_name(out->path);
  return e ? failed(err, "write", out->path, e) : KILN_OK;
}

kiln_status kiln_output_write(const char *path, const void *bytes, size_t size, kiln_error *err) {
  kiln_output out;
  int own;
  if (look_up_place(path, &own) == PLACE_FILE && is_same(path, bytes, size)) return KILN_OK;
  KILN_TRY(kiln_output_open(&out, path, err));
  int e = write_quietly(out.fd, bytes, size);
  kiln_status status = e ? failed(err, "write", path, e) : KILN_OK;
  return kiln_output_close(&out, status, err);
}

kiln_status kiln_output_try(const char *path, kiln_error *err) {
  kiln_output out;
  struct stat found;
  int own;
  if (!strcmp(path, "-")) return KILN_OK;
  if (!stat(path, &found) && S_ISDIR(found.st_mode)) return failed(err, "write", path, -EISDIR);
  if (strlen(path) < PATH_MAX && look_up_place(path, &own) == PLACE_THROUGH) return KILN_OK;
  KILN_TRY(kiln_output_open(&out, path, err)); // without a name where the file system can: nobody sees it
  kiln_output_close(&out, KILN_STATUS_IO, NULL);
  return KILN_OK;
}

kiln_status kiln_output_apart(const char *path, const char *other, kiln_error *err) {
  struct stat a, b;
  if (!path || !other || !strcmp(path, "-") || !strcmp(other, "-")) return KILN_OK;
  const bool is_there = !stat(path, &a),
             is_same = is_there && !stat(other, &b)
                           ? S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino
                           : !is_there && !strcmp(path, other);
  if (!is_same) return KILN_OK;
  if (!strcmp(path, other))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "'%s' is named twice: writing it would replace it",
                     path);
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "writing '%s' would replace '%s'", path, other);
}

bool kiln_output_is_stdout(const char *path) {
  struct stat link, there, own;
  if (!strcmp(path, "-")) return true;
  if (strncmp(path, "/dev/", 5) && strncmp(path, "/proc/", 6)) return false; // and costs a hit no look
  return !lstat(path, &link) && S_ISLNK(link.st_mode) && !stat(path, &there) && !fstat(STDOUT_FILENO, &own) &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

kiln_status kiln_output_create(const char *path, mode_t mode, const void *bytes, size_t size,
                               kiln_error *err) {
  int fd = kiln_fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (fd < 0) return failed(err, "create", path, fd);
  int e = write_quietly(fd, bytes, size);
  if (!e) e = kiln_fs_sync(fd);
  int closed = kiln_fs_close(fd);
  if (!e) e = closed;
  if (e) kiln_fs_unlink(AT_FDCWD, path);
  return e ? failed(err, "write", path, e) : KILN_OK;
}

// ------------------------------------------------------------------------------------------- lines

kiln_status kiln_output_append_open(const char *path, int *out_fd, kiln_error *err) {
  struct stat s;
  const int flags = O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY;
  *out_fd = -1;
  int fd = kiln_fs_open(AT_FDCWD, path, flags | O_CREAT | O_EXCL, 0600);
  if (fd == -EEXIST) fd = kiln_fs_open(AT_FDCWD, path, flags, 0);
  if (fd == -ELOOP) return kiln_fail(err, KILN_STATUS_DENIED, "cannot add to %s: it is a link", path);
  if (fd < 0) return failed(err, "add to", path, fd);
  int e = kiln_fs_stat(fd, &s);
  if (!e && S_ISREG(s.st_mode) && s.st_nlink == 1 && s.st_uid == geteuid() && !(s.st_mode & S_IWOTH)) {
    *out_fd = fd;
    return KILN_OK;
  }
  kiln_fs_close(fd);
  if (e) return failed(err, "add to", path, e);
  return kiln_fail(err, KILN_STATUS_DENIED,
                   "cannot add to %s: expected a file of one name, of this user, that others cannot write",
                   path);
}

void kiln_output_append(int fd, const void *bytes, size_t size) { (void)write_quietly(fd, bytes, size); }
