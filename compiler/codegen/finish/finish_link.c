// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linking in process. lld takes and gives files only: a memfd goes in, and what comes out goes through a
// pipe, which lld writes in one go from its memory (into a regular file it would make a temporary file next to
// it, and map it).
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/stream.h"
#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/finish/lld_shim.h"

// Two links at once corrupt lld's heap.
static pthread_mutex_t lld_lock = PTHREAD_MUTEX_INITIALIZER;
static bool lld_broken;

enum { DRAIN_STEP = 1 << 16 };

static kiln_status fail_errno(kiln_error *err, const char *what) {
  return kiln_fail(err, kiln_status_of_errno(errno), "link: %s: %s", what, strerror(errno));
}

// Drains the output pipe while lld writes to it.
typedef struct drain {
  int fd;           // owned by the caller
  kiln_buffer *out; // borrowed
  bool failed;
} drain;

static void *drain_pipe(void *p) {
  drain *d = p;
  for (;;) {
    if (!kiln_buffer_reserve(d->out, DRAIN_STEP)) d->failed = true;
    static _Thread_local uint8_t waste[4096];
    ssize_t n =
        d->failed ? read(d->fd, waste, sizeof waste) : read(d->fd, d->out->bytes + d->out->size, DRAIN_STEP);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) d->failed = true;
    if (n <= 0) return NULL;
    if (!d->failed) d->out->size += (size_t)n;
  }
}

static kiln_status run_lld(const char *const *args, size_t count, kiln_error *err) {
  char text[600] = "";
  bool usable = true, ok = false;
  pthread_mutex_lock(&lld_lock);
  if (!lld_broken) {
    ok = kiln_lld_run(args, count, text, sizeof text, &usable);
    lld_broken = !usable;
  } else {
    snprintf(text, sizeof text, "it failed inside before; start a new process");
  }
  pthread_mutex_unlock(&lld_lock);
  if (ok) return KILN_OK;
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = p[1] ? ';' : 0;
  return kiln_fail(err, KILN_STATUS_TOOL, "lld: %s", text[0] ? text : "failed without a message");
}

// Flags shared by all: one thread (kernels are small, workers are many), nothing that names the place or the
// time.
static const char *const common_args[] = {
    "ld.lld",         "-shared",           "--threads=1", "--build-id=none",
    "--no-undefined", "--hash-style=sysv", "-z",          "nognustack"};
enum { COMMON_COUNT = sizeof common_args / sizeof *common_args, MOST_ARGS = 32, OUTPUT_ARGS = 3 };

static void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// Runs lld with its output going through a pipe into `out`.
static kiln_status link_through_pipe(const char **args, size_t count, const char *in_path, kiln_buffer *out,
                                     kiln_error *err) {
  int ends[2] = {-1, -1};
  char out_path[32];
  pthread_t reader;
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(err, "no pipe");
  drain d = {.fd = ends[0], .out = out};
  kiln_status status = KILN_OK;
  int error = pthread_create(&reader, NULL, drain_pipe, &d);
  if (error) {
    errno = error;
    status = fail_errno(err, "no thread");
  } else {
    snprintf(out_path, sizeof out_path, "/proc/self/fd/%d", ends[1]);
    args[count++] = "-o", args[count++] = out_path, args[count++] = in_path;
    status = run_lld(args, count, err);
    close_fd(&ends[1]);
    pthread_join(reader, NULL);
    if (status == KILN_OK && d.failed)
      status = kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "link: no memory for the linked object");
  }
  close_fd(&ends[0]);
  close_fd(&ends[1]);
  return status; // NOLINT(clang-analyzer-core.StackAddressEscape): nobody reads args any more
}

kiln_status kiln_finish_link(const kiln_backend *backend, bool debug, const uint8_t *object, size_t size,
                             kiln_buffer *out, kiln_error *err) {
  const char *const *const lists[] = {backend->link, debug ? NULL : backend->bare};
  const char *args[MOST_ARGS];
  char in_path[32];
  size_t count = COMMON_COUNT;
  memcpy(args, common_args, sizeof common_args);
  for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const char *const *flag = lists[i]; flag && *flag && count + OUTPUT_ARGS < MOST_ARGS; flag++)
      args[count++] = *flag;
  KILN_TRY(kiln_stream_need_names("linking an object", err));
  int in = memfd_create("kiln-object", MFD_CLOEXEC);
  if (in < 0) return fail_errno(err, "no memory file");
  snprintf(in_path, sizeof in_path, "/proc/self/fd/%d", in);
  kiln_status status = kiln_stream_write(in, object, size) ? link_through_pipe(args, count, in_path, out, err)
                                                           : fail_errno(err, "writing the object");
  close(in);
  return status;
}

kiln_status kiln_finish_object(kiln_finishing *f, kiln_error *err) {
  kiln_status status = kiln_finish_link(kiln_backend_of(f->target), f->options->debug, f->object->bytes,
                                        f->object->size, f->code, err);
  if (status != KILN_OK) return kiln_context(err, status, "%s", f->symbol);
  kiln_buffer_format(f->producer, ", lld");
  return KILN_OK;
}
