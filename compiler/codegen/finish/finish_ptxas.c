// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's assembler as a child process: about 13 ms a kernel. All three files it touches are memory files of
// ours, so nothing is left over.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/stream.h"
#include "compiler/codegen/finish/finish_cubin.h"

extern char **environ;

enum { CHILD_IN = 10, CHILD_OUT = 11 }; // descriptors in the child

static kiln_status fail_errno(kiln_error *err, const char *what, int error) {
  return kiln_fail(err, kiln_status_of_errno(error), "ptxas: %s: %s", what, strerror(error));
}

static bool read_file(int fd, kiln_buffer *out) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !kiln_buffer_reserve(out, (size_t)st.st_size + 1)) return false;
  for (off_t at = 0; at < st.st_size;) {
    ssize_t n = pread(fd, out->bytes + out->size, (size_t)(st.st_size - at), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, out->size += (size_t)n;
  }
  return true;
}

// Starts ptxas and waits. `files`: PTX, cubin, what it prints. *out_status is its wait status.
static kiln_status run_ptxas(const kiln_tool_file *tool, const char *arch, unsigned optimise, bool debug,
                             const int files[3], int *out_status, kiln_error *err) {
  char arch_option[64], level[8], in[32], out[32];
  snprintf(arch_option, sizeof arch_option, "-arch=%s", arch);
  snprintf(level, sizeof level, "-O%u", optimise > 1 ? 3 : optimise); // its own default is 3
  snprintf(in, sizeof in, "/proc/self/fd/%d", CHILD_IN);
  snprintf(out, sizeof out, "/proc/self/fd/%d", CHILD_OUT);
  const char *args[] = {tool->path, arch_option, level, "-v", in, "-o", out, debug ? "-lineinfo" : NULL,
                        NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, files[2], 1);
  posix_spawn_file_actions_adddup2(&actions, files[2], 2);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, files[0], CHILD_IN);
  posix_spawn_file_actions_adddup2(&actions, files[1], CHILD_OUT);
  pid_t pid;
  char *clean[KILN_ENV_MOST + 1];
  kiln_env_for(KILN_ENV_COMPILER, environ, clean);
  int error = posix_spawn(&pid, tool->run, &actions, NULL, (char *const *)(const void *)args, clean);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    return kiln_fail(err, KILN_STATUS_TOOL, "ptxas cannot be started: %s: %s", tool->path, strerror(error));
  while (waitpid(pid, out_status, 0) < 0)
    if (errno != EINTR) return fail_errno(err, "waiting for it", errno);
  return KILN_OK;
}

/// "ptxas fatal   : Value 'sm_70' is not defined for option 'gpu-name'": what it says of a processor it does
/// not have.
static bool knows(kiln_buffer *log, const char *arch) {
  char text[80];
  snprintf(text, sizeof text, "'%s' is not defined for option", arch);
  kiln_buffer_u8(log, 0);
  if (log->failed) return true;
  bool unknown = strstr((const char *)log->bytes, text) != NULL;
  log->size--;
  return !unknown;
}

kiln_status kiln_assemble_ptxas(const kiln_tool_file *tool, const char *arch, unsigned optimise, bool debug,
                                const char *ptx, kiln_buffer *out, kiln_buffer *log, kiln_error *err) {
  int files[3] = {-1, -1, -1}, how = 0;
  kiln_status status = kiln_stream_need_names("ptxas", err);
  for (int i = 0; i < 3 && status == KILN_OK; i++) {
    int fd = memfd_create("kiln-ptxas", MFD_CLOEXEC);
    // Out of the way of the child's numbers.
    files[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, CHILD_OUT + 1);
    if (files[i] < 0) status = fail_errno(err, "no memory file", errno);
    if (fd >= 0) close(fd);
  }
  if (status == KILN_OK && !kiln_stream_write(files[0], ptx, strlen(ptx)))
    status = fail_errno(err, "writing PTX", errno);
  if (status == KILN_OK) status = run_ptxas(tool, arch, optimise, debug, files, &how, err);
  if (status == KILN_OK && !read_file(files[2], log))
    status = fail_errno(err, "reading what it printed", errno);
  if (status == KILN_OK && WIFSIGNALED(how))
    status = kiln_fail(err, KILN_STATUS_TOOL, "ptxas died of signal %d", WTERMSIG(how));
  if (status == KILN_OK && WEXITSTATUS(how) != 0)
    status = knows(log, arch) ? kiln_assemble_refused("ptxas", log, err)
                              : kiln_fail(err, KILN_STATUS_UNSUPPORTED, "ptxas does not know %s", arch);
  if (status == KILN_OK && !read_file(files[1], out)) status = fail_errno(err, "reading the cubin", errno);
  for (int i = 0; i < 3; i++)
    if (files[i] >= 0) close(files[i]);
  return status;
}
