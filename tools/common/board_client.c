// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sends requests to a shared board through a `kiln-remote board` process.
#include "tools/common/board_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/stream.h"
#include "base/url.h"
#include "cache/remote_address.h"
#include "tools/common/cli.h"

enum { FOUND = 1, ABSENT = 2, DENIED = 8 };

kiln_status board_open(board_client *b, const char *url, kiln_error *err) {
  char program[PATH_MAX];
  int in[2], out[2];
  char shown[KILN_URL_SHOWN];
  kiln_redis_address address;
  kiln_status status = kiln_redis_address_parse(url, &address, err);
  memset(address.password, 0, sizeof address.password);
  if (status) return kiln_context(err, status, "%s", kiln_url_shown(url, shown, sizeof shown));
  KILN_TRY(cli_need_program("kiln-remote", program, sizeof program, err));
  if (pipe2(in, O_CLOEXEC)) return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]), close(in[1]);
    return kiln_fail(err, kiln_status_of_errno(errno), "pipe: %s", strerror(errno));
  }
  signal(SIGPIPE, SIG_IGN);
  pid_t pid = fork();
  if (!pid) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    char text[4096], *clean[KILN_ENV_MOST + 1];
    snprintf(text, sizeof text, "KILN_CACHE_REMOTE=%s", url); // not for all to see, as arguments are
    kiln_env_for(KILN_ENV_HELPER, environ, clean);
    kiln_env_set(clean, text);
    execve(program, (char *[]){program, "board", NULL}, clean);
    _exit(127);
  }
  close(in[0]), close(out[1]);
  *b = (board_client){url, pid, in[1], out[0]};
  if (pid > 0) return KILN_OK;
  close(in[1]), close(out[0]);
  return kiln_fail(err, kiln_status_of_errno(errno), "fork: %s", strerror(errno));
}

void board_close(board_client *b) {
  if (b->pid <= 0) return;
  close(b->to);
  close(b->from);
  while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR) {
  }
  b->pid = 0;
}

// u8 state, block.
static bool take_reply(const uint8_t *bytes, uint32_t size, uint8_t *out_state, kiln_buffer *out) {
  size_t found_size;
  kiln_reader r = kiln_reader_of(bytes, size);
  *out_state = kiln_read_u8(&r);
  const uint8_t *found = kiln_read_block(&r, &found_size);
  if (!kiln_read_done(&r)) return false;
  if (out) kiln_buffer_bytes(out, found, found_size);
  return true;
}

static bool receive(const board_client *b, uint8_t *out_state, kiln_buffer *out) {
  uint8_t head[4];
  if (kiln_stream_read(b->from, head, sizeof head) != sizeof head) return false;
  kiln_reader r = kiln_reader_of(head, sizeof head);
  uint32_t size = kiln_read_u32(&r);
  uint8_t *bytes = size <= KILN_BOARD_MOST ? malloc((size_t)size + 1) : NULL;
  bool good =
      bytes && kiln_stream_read(b->from, bytes, size) == size && take_reply(bytes, size, out_state, out);
  free(bytes);
  return good;
}

kiln_status board_ask(board_client *b, kiln_board_kind kind, const char *room, const char *name,
                      const void *value, size_t size, bool *out_yes, kiln_buffer *out, kiln_error *err) {
  kiln_buffer body = {0}, message = {0};
  uint8_t state = 0;
  kiln_buffer_u8(&body, (uint8_t)kind);
  kiln_buffer_text(&body, room);
  kiln_buffer_text(&body, name);
  kiln_buffer_block(&body, value, size);
  kiln_buffer_u32(&message, (uint32_t)body.size);
  kiln_buffer_bytes(&message, body.bytes, body.size);
  if (out) kiln_buffer_clear(out);
  bool good = !body.failed && !message.failed && body.size <= KILN_BOARD_MOST &&
              kiln_stream_write(b->to, message.bytes, message.size) && receive(b, &state, out);
  kiln_buffer_deinit(&body);
  kiln_buffer_deinit(&message);
  if (out_yes) *out_yes = state == FOUND;
  if (good && (state == FOUND || state == ABSENT)) return KILN_OK;
  char shown[KILN_URL_SHOWN];
  return kiln_fail(err, KILN_STATUS_IO, "%s %s", kiln_url_shown(b->url, shown, sizeof shown),
                   state == DENIED ? "refuses the password (KILN_CACHE_REMOTE_TOKEN)" : "does not answer");
}
