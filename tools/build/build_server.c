// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs commands for a program that builds often, such as a process of Python that compiles kernel after kernel.
// Each runs in a process that is forked for it, as if it had been started by itself; what they share is one
// code generator that is running already, which saves most of the time of a small kernel.
//
// A request is a little-endian u32 length and that many bytes: words that end with NUL, the command and its
// arguments. The reply is three little-endian u32, the exit status (or 256 and the number of the signal) and the
// lengths of what the command has written to standard output and to standard error, and then these.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/stream.h"
#include "tools/common/cli.h"
#include "tools/common/worker_client.h"
#include "tools/kiln/commands.h"
#include "tools/kiln/toolchain.h"

enum { MOST_REQUEST = 1 << 20, MOST_WORDS = 1024, IDLE_MS = 10000, BY_SIGNAL = 256 };

/// Waits for a request, for a while. False: there is none any more.
static bool receive(kiln_buffer *out) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  uint8_t head[4];
  int ready;
  while ((ready = poll(&input, 1, IDLE_MS)) < 0 && errno == EINTR) {
  }
  out->size = 0;
  if (ready <= 0 || kiln_stream_read(0, head, sizeof head) != sizeof head) return false;
  kiln_reader r = kiln_reader_of(head, sizeof head);
  const size_t size = kiln_read_u32(&r);
  if (!size || size > MOST_REQUEST || !kiln_buffer_reserve(out, size)) return false;
  out->size = size;
  return kiln_stream_read(0, out->bytes, size) == size && !out->bytes[size - 1];
}

static int split(kiln_buffer *request, char **words) {
  int count = 0;
  for (char *at = (char *)request->bytes, *end = at + request->size; at < end; at += strlen(at) + 1) {
    if (count == MOST_WORDS) return 0;
    words[count++] = at;
  }
  words[count] = NULL;
  return count;
}

/// Ends the worker, whatever it does.
static void drop(worker_client *worker) {
  if (worker->pid) kill(worker->pid, SIGKILL);
  worker_client_deinit(worker);
  if (worker->program_fd >= 0) close(worker->program_fd);
  if (worker->assembler_fd >= 0) close(worker->assembler_fd);
  worker->program_fd = worker->assembler_fd = -1;
}

static bool is_same(int a, int b) {
  struct stat first, second;
  if (a < 0 || b < 0) return a < 0 && b < 0;
  if (fstat(a, &first) || fstat(b, &second)) return false;
  const kiln_file_mark mark = kiln_file_mark_of(&first), other = kiln_file_mark_of(&second);
  return kiln_file_mark_same(&mark, &other);
}

/// Sees to it that a worker of today's files runs. Without one, commands start their own.
static void prepare(worker_client *worker) {
  int compiler, assembler;
  kiln_error err;
  toolchain_open_usual(&compiler, &assembler);
  const bool runs = worker->pid && waitpid(worker->pid, NULL, WNOHANG) == 0;
  if (!runs || !is_same(compiler, worker->program_fd) || !is_same(assembler, worker->assembler_fd)) {
    drop(worker);
    worker->program_fd = compiler;
    worker->assembler_fd = assembler;
    (void)worker_client_start(worker, &err);
    return;
  }
  if (compiler >= 0) close(compiler);
  if (assembler >= 0) close(assembler);
}

/// In the forked process.
static int run(const worker_client *worker, const int texts[2], int count, char **words) {
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(texts[0], 1) < 0 || dup2(texts[1], 2) < 0)
    return CLI_INTERNAL;
  close(nothing);
  prctl(PR_SET_PDEATHSIG, SIGKILL); // who asked has ended the server
  if (worker->pid) worker_client_inherit(worker);
  return kiln_run_command(count, words);
}

static uint32_t answer(worker_client *worker, const int texts[2], int count, char **words) {
  int how = 0;
  prepare(worker);
  const pid_t pid = fork();
  if (pid < 0) return CLI_INTERNAL;
  if (!pid) exit(run(worker, texts, count, words));
  while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(how)) return (uint32_t)WEXITSTATUS(how);
  drop(worker); // it may be in the middle of a request
  return BY_SIGNAL + (uint32_t)WTERMSIG(how);
}

static bool reply(uint32_t status, const int texts[2]) {
  kiln_buffer out = {0};
  struct stat found[2];
  if (fstat(texts[0], &found[0]) || fstat(texts[1], &found[1])) return false;
  kiln_buffer_u32(&out, status);
  for (unsigned i = 0; i < 2; i++) kiln_buffer_u32(&out, (uint32_t)found[i].st_size);
  bool is_sent = true;
  for (unsigned i = 0; i < 2 && is_sent; i++) {
    const size_t size = (size_t)found[i].st_size;
    is_sent = kiln_buffer_reserve(&out, size) && lseek(texts[i], 0, SEEK_SET) == 0 &&
              kiln_stream_read(texts[i], out.bytes + out.size, size) == size;
    out.size += size;
  }
  is_sent = is_sent && kiln_stream_write(1, out.bytes, out.size);
  kiln_buffer_deinit(&out);
  return is_sent;
}

/// Files without a name: none is left behind, however the process ends.
static bool answer_request(worker_client *worker, int count, char **words) {
  const int texts[2] = {memfd_create("output", MFD_CLOEXEC), memfd_create("errors", MFD_CLOEXEC)};
  bool is_sent = texts[0] >= 0 && texts[1] >= 0;
  if (is_sent) is_sent = reply(count < 2 ? CLI_USAGE : answer(worker, texts, count, words), texts);
  for (unsigned i = 0; i < 2; i++)
    if (texts[i] >= 0) close(texts[i]);
  return is_sent;
}

int kiln_command_build_server(int argc, char **argv) {
  static char *words[MOST_WORDS + 1];
  const cli_page page = {
      "kiln build-server",
      "Runs commands that a program asks for on standard input, one after another, with one "
      "code generator that stays. Ends when\nnothing is asked for 10 seconds.",
      NULL,
      0,
      NULL,
      NULL,
      NULL};
  kiln_buffer request = {0};
  kiln_error err = {0};
  worker_client worker;
  cli_list none = {0};
  int code = cli_parse(&page, argc, argv, &none);
  if (code == -1 && none.count) code = cli_usage(&page, "expected no words, found '%s'", none.items[0]);
  cli_list_deinit(&none);
  if (code != -1) return code;
  if (worker_client_init(&worker, &err) != KILN_OK) return cli_report(err.status, &err);
  while (receive(&request)) {
    const int count = split(&request, words);
    if (!answer_request(&worker, count, words)) break;
  }
  drop(&worker);
  kiln_buffer_deinit(&request);
  return CLI_OK;
}
