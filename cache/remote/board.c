// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Serves a board that several machines share (values, sets of names, leases) on top of a remote store.
#include "cache/remote/board.h"

#include <stdlib.h>
#include <string.h>

#include "base/board.h"
#include "base/stream.h"
#include "cache/remote/lease.h"

enum { ANSWER_MS = 20000, MOST_NAME = 128, LONGEST_MS = 3600000 };

typedef struct board {
  kiln_level level;
  kiln_leases *leases;
} board;

typedef struct request {
  kiln_board_kind kind;
  char room[MOST_NAME], name[MOST_NAME];
  const uint8_t *value;
  size_t size;
} request;

static bool read_name(kiln_reader *r, char out[MOST_NAME]) {
  size_t size;
  const uint8_t *text = kiln_read_block(r, &size);
  memset(out, 0, MOST_NAME);
  if (!text || size >= MOST_NAME) return false;
  memcpy(out, text, size);
  return strlen(out) == size && !strpbrk(out, " :\r\n");
}

static bool read_request(const kiln_buffer *bytes, request *out) {
  kiln_reader r = kiln_reader_of(bytes->bytes, bytes->size);
  out->kind = kiln_read_u8(&r);
  bool named = read_name(&r, out->room) && read_name(&r, out->name);
  out->value = kiln_read_block(&r, &out->size);
  return named && kiln_read_done(&r);
}

/// How long a lease is to live without a report: the value as a number, at most what one may live at all.
static uint32_t lease_ms(const request *q) {
  kiln_reader r = kiln_reader_of(q->value, q->size);
  uint32_t ms = q->size == sizeof ms ? kiln_read_u32(&r) : 0;
  return ms < LONGEST_MS ? ms : LONGEST_MS;
}

static kiln_remote_state answer(board *b, const request *q, kiln_buffer *out) {
  const kiln_level_kind *kind = b->level.kind;
  int64_t deadline = kiln_wire_now() + ANSWER_MS;
  switch (q->kind) {
  case KILN_BOARD_GET: return kind->get(b->level.state, q->room, q->name, deadline, out);
  case KILN_BOARD_PUT: return kind->put(b->level.state, q->room, q->name, q->value, q->size, deadline);
  case KILN_BOARD_ADD: return kind->add(b->level.state, q->room, q->name, q->value, q->size, deadline);
  case KILN_BOARD_LIST: return kind->list(b->level.state, q->room, q->name, deadline, out);
  case KILN_BOARD_LEASE: return kiln_leases_take(b->leases, q->room, q->name, lease_ms(q), deadline);
  case KILN_BOARD_BEAT: return kiln_leases_beat(b->leases, q->room, q->name), KILN_REMOTE_FOUND;
  case KILN_BOARD_DROP: return kiln_leases_drop(b->leases, q->room, q->name), KILN_REMOTE_FOUND;
  }
  return KILN_REMOTE_REFUSED;
}

static bool read_message(int in, kiln_buffer *out) {
  uint8_t head[4];
  if (kiln_stream_read(in, head, sizeof head) != sizeof head) return false;
  kiln_reader r = kiln_reader_of(head, sizeof head);
  uint32_t size = kiln_read_u32(&r);
  kiln_buffer_clear(out);
  if (size > KILN_BOARD_MOST) return false;
  uint8_t *bytes = malloc((size_t)size + 1);
  bool whole = bytes && kiln_stream_read(in, bytes, size) == size;
  if (whole) kiln_buffer_bytes(out, bytes, size);
  free(bytes);
  return whole && !out->failed;
}

static bool reply(int out, kiln_remote_state state, const kiln_buffer *found) {
  kiln_buffer message = {0}, body = {0};
  kiln_buffer_u8(&body, (uint8_t)state);
  kiln_buffer_block(&body, found->bytes, state == KILN_REMOTE_FOUND ? found->size : 0);
  kiln_buffer_u32(&message, (uint32_t)body.size);
  kiln_buffer_bytes(&message, body.bytes, body.size);
  bool sent = !body.failed && !message.failed && kiln_stream_write(out, message.bytes, message.size);
  kiln_buffer_deinit(&message);
  kiln_buffer_deinit(&body);
  return sent;
}

bool kiln_board_serve(const char *url, const kiln_level_options *options, int in, int out) {
  board b = {0};
  kiln_buffer bytes = {0}, found = {0};
  request q;
  bool good =
      kiln_level_open(&b.level, url, options, NULL) == KILN_OK && b.level.kind->add && b.level.kind->lease;
  b.leases = good ? kiln_leases_create(&b.level, KILN_LEASE_BOARD_MS, LONGEST_MS) : NULL;
  while (b.leases && read_message(in, &bytes)) {
    kiln_buffer_clear(&found);
    kiln_remote_state state = read_request(&bytes, &q) ? answer(&b, &q, &found) : KILN_REMOTE_REFUSED;
    if (!reply(out, state, &found)) break;
  }
  good = b.leases != NULL;
  kiln_leases_destroy(b.leases);
  if (b.level.kind) kiln_level_close(&b.level);
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&found);
  return good;
}
