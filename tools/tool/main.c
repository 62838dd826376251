// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln-tool: everything that needs the runtime or the bundle writer. The user types `kiln`, which starts this program.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool/tool.h"

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} command;

static const command commands[] = {
#define COMMAND(name, function, help) {name, kiln_command_##function, help},
#include "tools/tool/subcommands.def"
#undef COMMAND
};

int kiln_tool_failed(const kiln_error *err) {
  const char *advice = kiln_status_advice(err->status);
  fprintf(stderr, "kiln: error KILN-E%04d: %s\n", (int)err->status, err->text);
  if (*advice) fprintf(stderr, "kiln: note: %s\n", advice);
  return 1;
}

int kiln_tool_usage(const char *name, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "kiln %s: ", name);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\nkiln %s --help says more\n", name);
  return 2;
}

const char *kiln_tool_option(int argc, char **argv, int *at, const char *name) {
  size_t length = strlen(name);
  if (*at >= argc || strncmp(argv[*at], name, length)) return NULL;
  if (argv[*at][length] == '=') return argv[(*at)++] + length + 1;
  if (argv[*at][length] || *at + 1 >= argc) return NULL;
  *at += 2;
  return argv[*at - 1];
}

bool kiln_tool_flag(char **argv, int *at, const char *name) {
  if (strcmp(argv[*at], name)) return false;
  ++*at;
  return true;
}

bool kiln_tool_number(const char *text, uint64_t limit, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 0);
  return !errno && end != text && !*end && *text != '-' && *out <= limit;
}

static kiln_status read_all(int fd, const char *path, kiln_buffer *out, kiln_error *err) {
  for (;;) {
    if (!kiln_buffer_reserve(out, 1 << 16)) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: more than memory holds", path);
    ssize_t n = read(fd, out->bytes + out->size, out->capacity - out->size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
    if (!n) return KILN_OK;
    out->size += (size_t)n;
  }
}

kiln_status kiln_tool_read(const char *path, kiln_buffer *out, kiln_error *err) {
  kiln_buffer_clear(out);
  if (!strcmp(path, "-")) return read_all(STDIN_FILENO, "standard input", out, err);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
  kiln_status status = read_all(fd, path, out, err);
  close(fd);
  return status;
}

static bool is_same(const char *path, const void *bytes, size_t size) {
  kiln_buffer old = {0};
  bool same = kiln_tool_read(path, &old, NULL) == KILN_OK && old.size == size && (!size || !memcmp(old.bytes, bytes, size));
  kiln_buffer_deinit(&old);
  return same;
}

static kiln_status write_all(int fd, const char *path, const uint8_t *bytes, size_t size, kiln_error *err) {
  for (size_t done = 0; done < size;) {
    ssize_t n = write(fd, bytes + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s after %zu of %zu bytes", path, strerror(errno), done, size);
    done += (size_t)n;
  }
  return KILN_OK;
}

kiln_status kiln_tool_write(const char *path, const void *bytes, size_t size, kiln_error *err) {
  if (!strcmp(path, "-")) return write_all(STDOUT_FILENO, "standard output", bytes, size, err);
  if (is_same(path, bytes, size)) return KILN_OK;
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.XXXXXX", path) < 0) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", path);
  mode_t mask = umask(0);
  umask(mask);
  int fd = mkostemp(temporary, O_CLOEXEC);
  kiln_status status = fd < 0 ? kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", temporary, strerror(errno)) : KILN_OK;
  if (status == KILN_OK) status = write_all(fd, temporary, bytes, size, err);
  if (status == KILN_OK && (fchmod(fd, 0666 & ~mask) < 0 || rename(temporary, path) < 0))
    status = kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
  if (fd >= 0) close(fd);
  if (fd >= 0 && status != KILN_OK) unlink(temporary);
  free(temporary);
  return status;
}

static int print_help(FILE *out) {
  fprintf(out, "usage: kiln-tool COMMAND [ARGUMENTS]\n");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].help);
  return out == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
  if (argc < 2) return print_help(stderr);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) return print_help(stdout);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "kiln-tool: '%s' is not a command\n", argv[1]);
  return print_help(stderr);
}
