// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file-system seam: every file call of the store goes through here, so that a test can make the n-th one
// fail, for every n.
//
// Failures are values of errno, negative; nothing here prints or retries for ever. Interrupted and short
// calls are completed.
#ifndef KILN_BASE_FS_H
#define KILN_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef enum kiln_fs_call {
#define FS_CALL(name, ...) KILN_FS_##name,
#include "base/fs.def"
#undef FS_CALL
  KILN_FS_CALLS
} kiln_fs_call;

/// Called before each call: returns 0 to let it through or the errno to fail with. `size` (NULL when the call
/// has none) may be lowered to make a read or a write short.
typedef int kiln_fs_hook(void *context, kiln_fs_call call, const char *path, size_t *size);
/// For tests; one hook a process, NULL takes it away. Not synchronised with running calls.
void kiln_fs_install(kiln_fs_hook *hook, void *context);

/// Opens with close-on-exec and without following a link in the last part. Below a folder's descriptor it
/// does not wait for the other end of a pipe that stands in a file's place. The descriptor, or -errno.
int kiln_fs_open(int folder, const char *path, int flags, mode_t mode);
int kiln_fs_stat(int fd, struct stat *out);
int kiln_fs_stat_at(int folder, const char *path, struct stat *out);
/// Reads until `size` bytes are there or the file ends; `out_got` is set in any case.
int kiln_fs_read(int fd, void *bytes, size_t size, size_t *out_got);
/// One read call: all of a small file when `size` is more than it has.
int kiln_fs_read_some(int fd, void *bytes, size_t size, size_t *out_got);
/// Writes all or fails. At the file's position, which is the end for O_APPEND.
int kiln_fs_write(int fd, const void *bytes, size_t size);
/// One single write call of an appended record: 0 only when all of it went out at once.
int kiln_fs_append(int fd, const void *bytes, size_t size);
/// Content and what is needed to find it are on the disk afterwards, and its caches are flushed.
int kiln_fs_sync(int fd);
/// The content is handed to the disk, where it otherwise waits for half a minute: its places are allocated
/// before any later change of a name. Waits for nothing, so it is cheap.
int kiln_fs_flush(int fd);
/// What a network file system keeps back until a descriptor is closed is on its server. Waits for no disk: on others it
/// costs two calls.
int kiln_fs_hand_over(int fd);
/// Always closes; reports what close reports.
int kiln_fs_close(int fd);
int kiln_fs_link(int from_folder, const char *from, int to_folder, const char *to);
/// Gives the nameless file of O_TMPFILE a name (through /proc/self/fd).
int kiln_fs_link_open(int fd, int to_folder, const char *to);
int kiln_fs_unlink(int folder, const char *path);
/// Sets the permissions of what is no link.
int kiln_fs_chmod(int folder, const char *path, mode_t mode);
/// Removes an empty folder.
int kiln_fs_rmdir(int folder, const char *path);
int kiln_fs_rename(int from_folder, const char *from, int to_folder, const char *to);
/// Makes the kernel forget which names there are in a folder, and which not: on NFS the next look-up asks the server.
/// Elsewhere it costs a few calls, and the folder's time is now.
void kiln_fs_look_again(int folder, const char *path);
/// With exactly `mode` when others may write, whatever the mask says. What is there already (-EEXIST) can be looked up.
int kiln_fs_mkdir(int folder, const char *path, mode_t mode);
/// Makes `path` and what is missing above it, each with `mode`. An existing last part that is no folder is
/// -ENOTDIR.
int kiln_fs_mkdir_all(const char *path, mode_t mode);
/// Sets the modification time to now.
int kiln_fs_touch(int fd);
/// An exclusive OFD lock on [offset, offset + size): 0, -EAGAIN when another open file description has it, or
/// another -errno.
int kiln_fs_lock(int fd, uint64_t offset, uint64_t size);
/// Raw directory records (struct linux_dirent64) from the position of `fd`; the count of bytes, 0 at the end.
ssize_t kiln_fs_list(int fd, void *records, size_t size);
/// Moves the position of a folder's descriptor to a cookie that a record had (d_off), or to 0.
int kiln_fs_seek(int fd, int64_t cookie);
int kiln_fs_space(int fd, uint64_t *out_free_bytes, uint64_t *out_free_files, uint64_t *out_bytes);

#endif
