// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts kiln-codegen processes, sends them requests and reads their replies.
#include "tools/common/worker_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/record.h"
#include "base/stream.h"
#include "tools/common/cli.h"

extern char **environ;

enum { REQUEST_COMPILE = 1, REQUEST_STAGE = 2, MOST_REPLY = 1 << 30, CHILD_ASSEMBLER = 9 };

kiln_status worker_client_init(worker_client *client, kiln_error *err) {
  memset(client, 0, sizeof *client);
  client->to = client->from = client->program_fd = client->assembler_fd = -1;
  signal(SIGPIPE, SIG_IGN); // a worker that died is a status, not a signal
  return cli_need_program("kiln-codegen", client->program, sizeof client->program, err);
}

/// Closes the pipes and reaps; the wait status in `out_how`.
static void stop(worker_client *client, int *out_how) {
  *out_how = 0;
  if (!client->pid) return;
  close(client->to);
  close(client->from);
  while (waitpid(client->pid, out_how, 0) < 0 && errno == EINTR) {
  }
  __atomic_store_n(&client->pid, 0, __ATOMIC_RELAXED);
  client->to = client->from = -1;
}

void worker_client_deinit(worker_client *client) {
  int how;
  stop(client, &how);
}

/// A copy whose number is above those that the child's dup2 uses; -1 for -1.
static int above_ours(int fd) { return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, CHILD_ASSEMBLER + 1); }

/// Runs the open file, or its path if that does not work (no /proc).
static int spawn(worker_client *client, const posix_spawn_file_actions_t *actions, int program,
                 bool has_assembler) {
  char option[32], open_file[32];
  char *argv[] = {client->program, has_assembler ? option : NULL, NULL}, *clean[KILN_ENV_MOST + 1];
  kiln_env_for(KILN_ENV_COMPILER, environ, clean);
  snprintf(option, sizeof option, "--assembler-fd=%d", CHILD_ASSEMBLER);
  snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", program);
  pid_t pid = 0;
  int failed = program < 0 ? ENOENT : posix_spawn(&pid, open_file, actions, NULL, argv, clean);
  client->by_path = failed;
  if (failed) failed = posix_spawn(&pid, client->program, actions, NULL, argv, clean);
  __atomic_store_n(&client->pid, failed ? 0 : pid, __ATOMIC_RELAXED);
  return failed;
}

static const worker_client *inherited; ///< until a client takes it

void worker_client_inherit(const worker_client *running) { inherited = running; }

static bool is_same_file(int a, int b) {
  struct stat first, second;
  if (a < 0 || b < 0 || fstat(a, &first) || fstat(b, &second)) return false;
  const kiln_file_mark mark = kiln_file_mark_of(&first), other = kiln_file_mark_of(&second);
  return kiln_file_mark_same(&mark, &other);
}

/// Takes the inherited worker if it runs the files of this client; for one that needs no assembler, any will
/// do.
static bool take_over(worker_client *client) {
  const worker_client *running = __atomic_exchange_n(&inherited, NULL, __ATOMIC_ACQ_REL);
  if (!running || !is_same_file(running->program_fd, client->program_fd) ||
      (client->assembler_fd >= 0 && !is_same_file(running->assembler_fd, client->assembler_fd)))
    return false;
  client->is_inherited = true;
  client->by_path = running->by_path;
  client->to = running->to;
  client->from = running->from;
  __atomic_store_n(&client->pid, running->pid, __ATOMIC_RELAXED);
  return true;
}

kiln_status worker_client_start(worker_client *client, kiln_error *err) {
  if (client->pid || take_over(client)) return KILN_OK;
  int in[2], out[2], program = above_ours(client->program_fd), assembler = above_ours(client->assembler_fd);
  posix_spawn_file_actions_t actions;
  if (pipe2(in, O_CLOEXEC)) return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]);
    close(in[1]);
    return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  }
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  if (assembler >= 0) posix_spawn_file_actions_adddup2(&actions, assembler, CHILD_ASSEMBLER);
  // Stays open in the child: a script is read from it by its interpreter.
  if (program >= 0) posix_spawn_file_actions_adddup2(&actions, program, program);
  int failed = spawn(client, &actions, program, assembler >= 0);
  posix_spawn_file_actions_destroy(&actions);
  if (program >= 0) close(program);
  if (assembler >= 0) close(assembler);
  close(in[0]);
  close(out[1]);
  client->to = in[1];
  client->from = out[0];
  if (!failed) return KILN_OK;
  close(in[1]);
  close(out[0]);
  return kiln_fail(err, KILN_STATUS_TOOL, "cannot start %s: %s", client->program, strerror(failed));
}

/// The ticks of process `pid` alone, with those of its children that have ended; 0 when there is no such
/// process.
static uint64_t ticks_of(long pid) {
  char path[64], text[1024];
  unsigned long own[2];
  long ended[2];
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *file = fopen(path, "re");
  size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[got] = 0;
  const char *rest = strrchr(text, ')'); // what is before it is a name, which may hold anything
  if (!rest || sscanf(rest, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %ld %ld", &own[0], &own[1],
                      &ended[0], &ended[1]) != 4)
    return 0;
  return own[0] + own[1] + (uint64_t)ended[0] + (uint64_t)ended[1];
}

uint64_t worker_client_work(const worker_client *client) {
  pid_t pid = __atomic_load_n(&client->pid, __ATOMIC_RELAXED);
  char path[64];
  long child;
  if (!pid) return 0;
  if (kiln_stream_need_names("a count of its work", NULL) != KILN_OK) return cli_now_ns();
  uint64_t sum = ticks_of(pid);
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
  FILE *children = fopen(path, "re");
  while (children && fscanf(children, "%ld", &child) == 1) sum += ticks_of(child);
  if (children) fclose(children);
  return sum;
}

static bool receive(worker_client *client, kiln_buffer *out) {
  uint8_t head[4];
  if (kiln_stream_read(client->from, head, sizeof head) != sizeof head) return false;
  kiln_reader r = kiln_reader_of(head, sizeof head);
  size_t size = kiln_read_u32(&r);
  if (size > MOST_REPLY || !kiln_buffer_reserve(out, size)) return false;
  out->size = size;
  return kiln_stream_read(client->from, out->bytes, size) == size;
}

static kiln_status died(worker_client *client, kiln_error *err) {
  int how;
  stop(client, &how);
  bool is_killed = WIFSIGNALED(how) && (WTERMSIG(how) == SIGKILL || WTERMSIG(how) == SIGTERM);
  if (WIFSIGNALED(how)) // killed from outside, or by its own fault
    return kiln_fail(err, is_killed ? KILN_STATUS_TOOL : KILN_STATUS_INTERNAL,
                     "the code generator died of signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  return kiln_fail(err, KILN_STATUS_TOOL, "the code generator ended with exit code %d", WEXITSTATUS(how));
}

static bool ask(worker_client *client, const kiln_buffer *request, worker_reply *out) {
  out->bytes.size = 0;
  return !request->failed && kiln_stream_write(client->to, request->bytes, request->size) &&
         receive(client, &out->bytes);
}

static kiln_status exchange(worker_client *client, uint8_t kind, const kiln_span blocks[5], worker_reply *out,
                            kiln_error *err) {
  kiln_buffer request = {0};
  memset(out, 0, sizeof *out);
  KILN_TRY(worker_client_start(client, err));
  kiln_buffer_u32(&request, 0);
  kiln_buffer_u8(&request, kind);
  for (unsigned i = 0; i < 5; i++) kiln_buffer_block(&request, blocks[i].bytes, blocks[i].size);
  for (unsigned i = 0; !request.failed && i < 4; i++)
    request.bytes[i] = (uint8_t)((request.size - 4) >> 8 * i);
  bool ok = ask(client, &request, out);
  if (!ok && client->is_inherited) { // one of ours says what ails it, or does it
    int how;
    stop(client, &how);
    client->is_inherited = false;
    kiln_status status = worker_client_start(client, err);
    if (status != KILN_OK) return kiln_buffer_deinit(&request), status;
    ok = ask(client, &request, out);
  }
  kiln_buffer_deinit(&request);
  if (ok) {
    kiln_reader r = kiln_reader_of(out->bytes.bytes, out->bytes.size);
    uint8_t status = kiln_read_u8(&r);
    out->printed = (const char *)kiln_read_block(&r, &out->printed_size);
    if (status != KILN_OK) {
      size_t size;
      const uint8_t *text = kiln_read_block(&r, &size);
      kiln_fail(err, (kiln_status)status, "%.*s", text ? (int)size : 0, text ? (const char *)text : "");
      err->operation = kiln_read_u32(&r);
      return (kiln_status)status;
    }
    out->info = kiln_read_block(&r, &out->info_size);
    out->code = kiln_read_block(&r, &out->code_size);
    out->report = kiln_read_block(&r, &out->report_size);
    for (unsigned i = 0; i < 6; i++) out->times[i] = kiln_read_u64(&r);
    out->maker = kiln_file_mark_decode(&r);
    return kiln_read_done(&r) ? KILN_OK
                              : kiln_fail(err, KILN_STATUS_INTERNAL, "the worker's reply is malformed");
  }
  return died(client, err);
}

static kiln_span span_of(const char *text) {
  return (kiln_span){(const uint8_t *)text, text ? strlen(text) : 0};
}

kiln_status worker_compile(worker_client *client, const char *target, const char *symbol,
                           const kiln_buffer *options, const kiln_buffer *canonical,
                           const kiln_buffer *positions, worker_reply *out, kiln_error *err) {
  const kiln_span blocks[5] = {span_of(target),
                               span_of(symbol),
                               {options->bytes, options->size},
                               {canonical->bytes, canonical->size},
                               {positions ? positions->bytes : NULL, positions ? positions->size : 0}};
  return exchange(client, REQUEST_COMPILE, blocks, out, err);
}

kiln_status worker_compile_stage(worker_client *client, const char *until, const kiln_buffer *options,
                                 const kiln_buffer *text, worker_reply *out, kiln_error *err) {
  const kiln_span blocks[5] = {
      span_of(until), {NULL, 0}, {options->bytes, options->size}, {text->bytes, text->size}, {NULL, 0}};
  return exchange(client, REQUEST_STAGE, blocks, out, err);
}
