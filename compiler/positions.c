// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encoding: count of files, each a text that ends in NUL (a block), count of operations, then file, line and
// column of each as varints.
#include "compiler/positions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 256, MOST_OPERATIONS = 1 << 24 };

typedef struct collecting {
  const kiln_unit *unit;
  const char *names[MOST_FILES]; // arena
  uint32_t file_count;
  kiln_arena *arena;
  kiln_buffer rows;
  uint32_t count;
} collecting;

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/// The number of a file, which is added when it is new; 0 when there are too many.
static uint32_t file_number(collecting *c, const char *name) {
  for (uint32_t i = 0; i < c->file_count; i++)
    if (!strcmp(c->names[i], name)) return i;
  if (c->file_count == MOST_FILES) return 0;
  c->names[c->file_count] = kiln_arena_text(c->arena, name, strlen(name));
  return c->file_count++;
}

/// Cuts ":NUMBER" off the end; 0 when it is not there.
static uint32_t cut_number(char *text) {
  char *colon = strrchr(text, ':'), *end = NULL;
  unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
  if (!colon || end == colon + 1 || *end || number > UINT32_MAX) return 0;
  *colon = 0;
  return (uint32_t)number;
}

/// "k.py:12:8", as kiln_unit_origin writes it.
static kiln_position read_origin(collecting *c, char *text, kiln_position otherwise) {
  uint32_t column = cut_number(text), line = cut_number(text);
  return line ? (kiln_position){file_number(c, base_name(text)), line, column} : otherwise;
}

static void collect(ir_op *op, void *context) {
  collecting *c = context;
  char origin[KILN_PLACE_TEXT];
  KILN_ASSERT_DEEP(op->number == c->count);
  kiln_position p = {0, op->place.line, op->place.column};
  if (p.line && *kiln_unit_origin(c->unit, p.line, origin)) p = read_origin(c, origin, p);
  kiln_buffer_varint(&c->rows, p.file);
  kiln_buffer_varint(&c->rows, p.line);
  kiln_buffer_varint(&c->rows, p.column);
  c->count++;
}

void kiln_positions_encode(const kiln_unit *unit, const char *file, ir_kernel *kernel, kiln_buffer *out) {
  collecting c = {.unit = unit, .arena = kernel->arena};
  file_number(&c, base_name(file));
  ir_number(kernel);
  ir_walk(kernel->body, collect, &c);
  kiln_buffer_varint(out, c.file_count);
  for (uint32_t i = 0; i < c.file_count; i++) kiln_buffer_block(out, c.names[i], strlen(c.names[i]) + 1);
  kiln_buffer_varint(out, c.count);
  kiln_buffer_bytes(out, c.rows.bytes, c.rows.size);
  out->failed |= c.rows.failed;
  kiln_buffer_deinit(&c.rows);
}

static bool read_files(kiln_arena *arena, kiln_reader *r, kiln_positions *out) {
  out->file_count = (uint32_t)kiln_read_count(r, MOST_FILES);
  out->files = KILN_NEW_ARRAY(arena, const char *, out->file_count + 1u);
  for (uint32_t i = 0; i < out->file_count; i++) {
    size_t size = 0;
    const uint8_t *text = kiln_read_block(r, &size);
    if (r->failed || !size || memchr(text, 0, size) != text + size - 1) return false;
    out->files[i] = (const char *)text;
  }
  return true;
}

bool kiln_positions_decode(kiln_arena *arena, const uint8_t *bytes, size_t size, kiln_positions *out) {
  kiln_reader r = kiln_reader_of(bytes, size);
  *out = (kiln_positions){0};
  if (!size) return true;
  if (!read_files(arena, &r, out)) return false;
  uint32_t count = (uint32_t)kiln_read_count(&r, MOST_OPERATIONS);
  if (r.failed || count > r.left) return false; // a row has three bytes at least
  out->items = KILN_NEW_ARRAY(arena, kiln_position, count + 1u);
  for (uint32_t i = 0; i < count; i++) {
    kiln_position *p = &out->items[i];
    p->file = (uint32_t)kiln_read_count(&r, UINT32_MAX);
    p->line = (uint32_t)kiln_read_count(&r, UINT32_MAX);
    p->column = (uint32_t)kiln_read_count(&r, UINT32_MAX);
    if (p->file >= out->file_count) return false;
  }
  out->count = count;
  return kiln_read_done(&r);
}
