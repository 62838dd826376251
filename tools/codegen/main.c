// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-codegen: the worker. Reads requests from descriptor 0, writes replies to descriptor 1
// (docs/architecture.md, "Worker protocol"). Writes no files. A request that is wrong gets an error reply;
// when LLVM gives up on the process, the reply says so and the program starts itself anew.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program.h"
#include "base/stream.h"
#include "tools/codegen/request.h"

enum { MOST_REQUEST = 1 << 28 };

static const char assembler_option[] = "--assembler-fd=";

static int reply_fd = 1;
static kiln_request_setting setting;

// -------------------------------------------------------------------------------------------- pipe

static bool send_reply(const kiln_buffer *body) {
  uint8_t head[4];
  for (int i = 0; i < 4; i++) head[i] = (uint8_t)(body->size >> 8 * i);
  return !body->failed && body->size <= UINT32_MAX && kiln_stream_write(reply_fd, head, sizeof head) &&
         kiln_stream_write(reply_fd, body->bytes, body->size);
}

static bool send_error(const kiln_error *err) {
  kiln_buffer body = {0};
  kiln_request_refuse(&body, err, NULL);
  bool ok = send_reply(&body);
  kiln_buffer_deinit(&body);
  return ok;
}

static const char *started_by; ///< path of this program; NULL: unknown
static struct stat started;    ///< of it, at the start

// LLVM is about to end the process: say why, then begin again with the same pipes.
static void on_fatal(const char *reason) {
  kiln_error err;
  kiln_fail(&err, KILN_STATUS_INTERNAL, "LLVM gave up: %.800s", reason);
  for (char *p = err.text; *p; p++)
    if (*p == '\n') *p = ' ';
  if (!send_error(&err) || dup2(reply_fd, 1) < 0) _exit(1);
  char option[sizeof assembler_option + 16];
  snprintf(option, sizeof option, "%s%d", assembler_option, setting.assembler_fd);
  const char *argument = setting.assembler_fd ? option : NULL;
  execl("/proc/self/exe", "kiln-codegen", argument, (char *)NULL);
  struct stat st; // without /proc: the path that it was started by, if it still leads to the same file
  if (started_by && !stat(started_by, &st) && st.st_dev == started.st_dev && st.st_ino == started.st_ino)
    execl(started_by, "kiln-codegen", argument, (char *)NULL);
  _exit(1);
}

// Skips the body of a request that is too large to hold.
static bool skip(size_t size) {
  uint8_t waste[4096];
  while (size) {
    size_t part = size < sizeof waste ? size : sizeof waste;
    if (kiln_stream_read(0, waste, part) != part) return false;
    size -= part;
  }
  return true;
}

// One request; false at the end of input or when nobody reads replies.
static bool serve_one(kiln_buffer *request) {
  uint8_t head[4];
  kiln_error err;
  size_t got = kiln_stream_read(0, head, sizeof head);
  if (got != sizeof head) return false;
  kiln_reader r = kiln_reader_of(head, sizeof head);
  size_t size = kiln_read_u32(&r);
  kiln_buffer_clear(request);
  if (size > MOST_REQUEST || !kiln_buffer_reserve(request, size)) {
    kiln_fail(&err, KILN_STATUS_LIMIT, "request: expected at most %d bytes, found %zu", MOST_REQUEST, size);
    return skip(size) && send_error(&err);
  }
  request->failed = false;
  request->size = kiln_stream_read(0, request->bytes, size);
  if (request->size != size) return false;
  kiln_buffer reply = {0};
  kiln_request_answer(&setting, request->bytes, request->size, &reply);
  bool ok = send_reply(&reply);
  kiln_buffer_deinit(&reply);
  return ok;
}

// ------------------------------------------------------------------------------------ command line

static int say_version(void) { return printf("kiln-codegen %s\n", KILN_VERSION) < 0; }
static int say_fingerprint(void) { return printf("%s\n", kiln_codegen_fingerprint()) < 0; }
static int say_help(void);

static const struct {
  const char *name, *help;
  int (*run)(void);
} commands[] = {
    {"--fingerprint", "print the identity of this code generator", say_fingerprint},
    {"--help", "print this text", say_help},
    {"--version", "print the version", say_version},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static int say_help(void) {
  printf("usage: kiln-codegen [option]\n\nWithout an option it compiles what comes over descriptor 0; `kiln` "
         "starts it so, with --assembler-fd=N where descriptor N is the PTX assembler to use.\n\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++) printf("  %-15s %s\n", commands[i].name, commands[i].help);
  return 0;
}

int main(int argc, char **argv) {
  kiln_program_begin();
  if (argc == 2 && !strncmp(argv[1], assembler_option, sizeof assembler_option - 1))
    setting.assembler_fd = atoi(argv[1] + sizeof assembler_option - 1);
  if (argc < 2 || setting.assembler_fd > 2) {
    // Replies keep their own descriptor: what a library prints to 1 must not get between them.
    reply_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
    if (reply_fd < 0 || dup2(2, 1) < 0) {
      fprintf(stderr, "kiln-codegen: descriptor 1: %s\n", strerror(errno));
      return 1;
    }
    struct stat st;
    started_by = (const char *)getauxval(AT_EXECFN);
    if (started_by && stat(started_by, &started)) started_by = NULL;
    if (!stat("/proc/self/exe", &st)) setting.own = kiln_file_mark_of(&st);
    kiln_codegen_on_fatal(on_fatal);
    kiln_buffer request = {0};
    while (serve_one(&request)) {
    }
    kiln_buffer_deinit(&request);
    return 0;
  }
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (argc == 2 && strcmp(argv[1], commands[i].name) == 0) return commands[i].run();
  fprintf(stderr, "kiln-codegen: expected --fingerprint, --help or --version, found '%s'\n", argv[1]);
  return 2;
}
