// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the file calls of the store over the operating system's, completes interrupted and short ones,
// and lets a test make any of them fail.
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/stream.h"

static kiln_fs_hook *hook;
static void *hook_context;

void kiln_fs_install(kiln_fs_hook *new_hook, void *context) {
  hook = new_hook;
  hook_context = context;
}

static int call_hook(kiln_fs_call call, const char *path, size_t *size) {
  return hook ? -hook(hook_context, call, path, size) : 0;
}

/// What a call that returns -1 on failure comes to.
static int result(int got) { return got < 0 ? -errno : got; }

// struct open_how and its flags stand in a header of the kernel's, which not every libc comes with.
enum { RESOLVE_NO_SYMLINKS = 4, RESOLVE_BENEATH = 8 };

/// Below a folder's descriptor no link is followed in any part. Kernels and sandboxes without openat2 get the
/// weaker openat.
static int open_beneath(int folder, const char *path, int flags, mode_t mode) {
  static atomic_bool missing;
  if (!atomic_load_explicit(&missing, memory_order_relaxed)) {
    struct {
      uint64_t flags, mode, resolve;
    } how = {(uint64_t)flags, mode, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
    if (!(flags & O_CREAT) && (flags & O_TMPFILE) != O_TMPFILE) how.mode = 0;
    long fd = syscall(SYS_openat2, folder, path, &how, sizeof how);
    if (fd >= 0) return (int)fd;
    if (errno != ENOSYS && errno != EPERM) return -errno;
    if (errno == ENOSYS) atomic_store_explicit(&missing, true, memory_order_relaxed);
  }
  return result(openat(folder, path, flags, mode));
}

int kiln_fs_open(int folder, const char *path, int flags, mode_t mode) {
  for (;;) {
    int e = call_hook(KILN_FS_OPEN, path, NULL);
    flags |= O_CLOEXEC | O_NOFOLLOW;
    if (!e)
      e = folder == AT_FDCWD ? result(openat(folder, path, flags, mode))
                             : open_beneath(folder, path, flags | O_NONBLOCK, mode);
    if (e >= 0) e = result(kiln_stream_aside(e));
    if (e != -EINTR) return e;
  }
}

int kiln_fs_stat(int fd, struct stat *out) {
  int e = call_hook(KILN_FS_STAT, NULL, NULL);
  return e ? e : result(fstat(fd, out));
}

int kiln_fs_stat_at(int folder, const char *path, struct stat *out) {
  int e = call_hook(KILN_FS_STAT, path, NULL);
  return e ? e : result(fstatat(folder, path, out, AT_SYMLINK_NOFOLLOW));
}

int kiln_fs_read(int fd, void *bytes, size_t size, size_t *out_got) {
  *out_got = 0;
  while (*out_got < size) {
    size_t want = size - *out_got;
    int e = call_hook(KILN_FS_READ, NULL, &want);
    ssize_t got = e ? e : read(fd, (uint8_t *)bytes + *out_got, want);
    if (got < 0) {
      e = e ? e : -errno;
      if (e == -EINTR) continue;
      return e;
    }
    if (got == 0) return 0;
    *out_got += (size_t)got;
  }
  return 0;
}

int kiln_fs_read_some(int fd, void *bytes, size_t size, size_t *out_got) {
  *out_got = 0;
  for (;;) {
    size_t want = size;
    int e = call_hook(KILN_FS_READ, NULL, &want);
    ssize_t got = e ? e : result((int)read(fd, bytes, want));
    if (got == -EINTR) continue;
    if (got < 0) return (int)got;
    *out_got = (size_t)got;
    return 0;
  }
}

int kiln_fs_write(int fd, const void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    size_t want = size - done;
    int e = call_hook(KILN_FS_WRITE, NULL, &want);
    ssize_t got = e ? e : write(fd, (const uint8_t *)bytes + done, want);
    if (got < 0) {
      e = e ? e : -errno;
      if (e == -EINTR) continue;
      return e;
    }
    if (got == 0) return -ENOSPC;
    done += (size_t)got;
  }
  return 0;
}

int kiln_fs_append(int fd, const void *bytes, size_t size) {
  size_t want = size;
  int e = call_hook(KILN_FS_WRITE, NULL, &want);
  if (e) return e;
  ssize_t got = write(fd, bytes, want);
  if (got < 0) return -errno;
  return (size_t)got == size ? 0 : -ENOSPC;
}

int kiln_fs_sync(int fd) {
  int e = call_hook(KILN_FS_SYNC, NULL, NULL);
  return e ? e : result(fdatasync(fd));
}

int kiln_fs_flush(int fd) {
  int e = call_hook(KILN_FS_SYNC, NULL, NULL);
  if (!e) e = result(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
  return e == -ENOSYS || e == -EINVAL || e == -ESPIPE ? result(fdatasync(fd)) : e;
}

int kiln_fs_hand_over(int fd) {
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3); // the locks of `fd` are those of its open file, which stays open
  return copy < 0 ? kiln_fs_sync(fd) : kiln_fs_close(copy);
}

int kiln_fs_close(int fd) {
  int e = call_hook(KILN_FS_CLOSE, NULL, NULL);
  int closed = result(close(fd));
  return e ? e : closed;
}

int kiln_fs_link(int from_folder, const char *from, int to_folder, const char *to) {
  int e = call_hook(KILN_FS_LINK, to, NULL);
  return e ? e : result(linkat(from_folder, from, to_folder, to, 0));
}

int kiln_fs_link_open(int fd, int to_folder, const char *to) {
  char from[40];
  int e = call_hook(KILN_FS_LINK, to, NULL);
  if (e) return e;
  snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
  return result(linkat(AT_FDCWD, from, to_folder, to, AT_SYMLINK_FOLLOW));
}

int kiln_fs_unlink(int folder, const char *path) {
  int e = call_hook(KILN_FS_UNLINK, path, NULL);
  return e ? e : result(unlinkat(folder, path, 0));
}

int kiln_fs_chmod(int folder, const char *path, mode_t mode) {
  int e = call_hook(KILN_FS_TIMES, path, NULL);
  return e ? e : result(fchmodat(folder, path, mode, 0));
}

int kiln_fs_rmdir(int folder, const char *path) {
  int e = call_hook(KILN_FS_UNLINK, path, NULL);
  return e ? e : result(unlinkat(folder, path, AT_REMOVEDIR));
}

int kiln_fs_rename(int from_folder, const char *from, int to_folder, const char *to) {
  int e = call_hook(KILN_FS_RENAME, to, NULL);
  return e ? e : result(renameat(from_folder, from, to_folder, to));
}

// A client of NFS asks for the state of a folder that is opened, and looks its names up again if that has changed. One
// that holds a delegation of the folder (Linux 7) asks nothing. It gives that back when it changes the folder itself; so
// does a folder change that changed twice within one tick of the server's clock.
void kiln_fs_look_again(int folder, const char *path) {
  int fd = kiln_fs_open(folder, path, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return;
  kiln_fs_touch(fd);
  kiln_fs_close(fd);
}

int kiln_fs_mkdir(int folder, const char *path, mode_t mode) {
  char parent[4096];
  struct stat st;
  int e = call_hook(KILN_FS_MKDIR, path, NULL);
  if (!e) e = result(mkdirat(folder, path, mode));
  // Another client of NFS made it after this one had looked for it in vain.
  if (e == -EEXIST && kiln_fs_stat_at(folder, path, &st) == -ENOENT && strlen(path) < sizeof parent) {
    strcpy(parent, path);
    char *slash = strrchr(parent, '/');
    if (slash) slash[slash == parent] = 0;
    kiln_fs_look_again(folder, slash ? parent : ".");
  }
  return e;
}

int kiln_fs_mkdir_all(const char *path, mode_t mode) {
  char part[4096];
  size_t length = strlen(path);
  if (!length) return -ENOENT;
  if (length >= sizeof part) return -ENAMETOOLONG;
  for (size_t i = 1; i <= length; i++) {
    if (path[i] && path[i] != '/') continue;
    memcpy(part, path, i);
    part[i] = 0;
    int e = kiln_fs_mkdir(AT_FDCWD, part, mode);
    if (!e || e == -EEXIST) continue;
    // A read-only or foreign folder on the way that exists already is none of our business.
    struct stat st;
    if (stat(part, &st) || !S_ISDIR(st.st_mode)) return e;
  }
  struct stat st;
  return stat(path, &st) ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int kiln_fs_touch(int fd) {
  int e = call_hook(KILN_FS_TIMES, NULL, NULL);
  return e ? e : result(futimens(fd, NULL));
}

int kiln_fs_lock(int fd, uint64_t offset, uint64_t size) {
  for (;;) {
    int e = call_hook(KILN_FS_LOCK, NULL, NULL);
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = (off_t)size};
    if (!e) e = result(fcntl(fd, F_OFD_SETLK, &lock));
    if (e == -EINTR) continue;
    return e == -EACCES ? -EAGAIN : e;
  }
}

ssize_t kiln_fs_list(int fd, void *records, size_t size) {
  int e = call_hook(KILN_FS_LIST, NULL, NULL);
  if (e) return e;
  long got = syscall(SYS_getdents64, fd, records, size);
  return got < 0 ? -errno : got;
}

int kiln_fs_seek(int fd, int64_t cookie) { return lseek(fd, (off_t)cookie, SEEK_SET) < 0 ? -errno : 0; }

int kiln_fs_space(int fd, uint64_t *out_free_bytes, uint64_t *out_free_files, uint64_t *out_bytes) {
  struct statvfs v;
  *out_free_bytes = *out_free_files = *out_bytes = UINT64_MAX;
  int e = call_hook(KILN_FS_SPACE, NULL, NULL);
  if (!e) e = result(fstatvfs(fd, &v));
  if (e) return e;
  *out_free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
  *out_bytes = (uint64_t)v.f_blocks * v.f_frsize;
  // Some file systems have no fixed number of files and say 0.
  if (v.f_files) *out_free_files = v.f_favail;
  return 0;
}
