// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encoding: rows one after another, each a version byte, then its fields; varints, a text that ends in NUL.
#include "compiler/report.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_VERSION = 1, MOST_ROWS = 1 << 16, LEAST_ROW = 10 };

static const char *const kinds[] = {
#define KIND(code, text) text,
#define ENGINE(code, text)
#define REASON(code, text)
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
};

static const char *const engines[] = {
#define KIND(code, text)
#define ENGINE(code, text) text,
#define REASON(code, text)
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
};

static const char *const reasons[] = {
#define KIND(code, text)
#define ENGINE(code, text)
#define REASON(code, text) text,
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
};

_Static_assert(KILN_REPORT_KINDS <= 128 && KILN_ENGINES <= 128 && KILN_REASONS <= 128,
               "one byte each as varints, which is how read_row reads them");

const char *kiln_report_kind_text(unsigned kind) { return kind < KILN_REPORT_KINDS ? kinds[kind] : "?"; }
const char *kiln_engine_text(unsigned engine) { return engine < KILN_ENGINES ? engines[engine] : "?"; }
const char *kiln_reason_text(unsigned reason) { return reason < KILN_REASONS ? reasons[reason] : "?"; }

static const kiln_refusal *find_refusal(const kiln_refusals *r, uint32_t operation) {
  for (uint32_t i = 0; r && i < r->count; i++)
    if (r->items[i].operation == operation) return &r->items[i];
  return NULL;
}

void kiln_refuse(kiln_refusals *r, const kiln_refusal *refusal) {
  if (!r || find_refusal(r, refusal->operation)) return;
  KILN_GROW(r->arena, r->items, r->count, r->capacity);
  if (r->count < r->capacity) r->items[r->count++] = *refusal;
}

void kiln_refuse_others(kiln_refusals *r, kiln_report_reason reason) {
  if (r && !r->others) r->others = reason;
}

kiln_refusal kiln_refusal_of(const kiln_refusals *r, uint32_t operation) {
  const kiln_refusal *own = find_refusal(r, operation);
  if (own) return *own;
  return (kiln_refusal){.operation = operation, .reason = r ? r->others : KILN_REASON_NONE};
}

void kiln_report_put(kiln_buffer *report, const kiln_report_row *row) {
  const char *name = row->name ? row->name : "";
  const uint32_t size = (uint32_t)strlen(name) + 1;
  const uint32_t numbers[] = {ROW_VERSION, row->kind,  row->engine, row->reason,    row->operation,
                              row->bytes,  row->write, row->read,   row->parameter, size};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) kiln_buffer_varint(report, numbers[i]);
  kiln_buffer_bytes(report, name, size);
}

static bool read_row(kiln_reader *r, kiln_report_row *out) {
  uint8_t version = kiln_read_u8(r);
  out->kind = kiln_read_u8(r), out->engine = kiln_read_u8(r), out->reason = kiln_read_u8(r);
  out->operation = (uint32_t)kiln_read_count(r, UINT32_MAX);
  out->bytes = (uint32_t)kiln_read_count(r, UINT32_MAX);
  out->write = (uint32_t)kiln_read_count(r, UINT32_MAX);
  out->read = (uint32_t)kiln_read_count(r, UINT32_MAX);
  out->parameter = (uint32_t)kiln_read_count(r, UINT32_MAX);
  size_t size = 0;
  const uint8_t *name = kiln_read_block(r, &size);
  if (r->failed || version != ROW_VERSION || !size || memchr(name, 0, size) != name + size - 1) return false;
  out->name = (const char *)name;
  return true;
}

/// By operation; rows of one operation as they came.
static int by_operation(const void *a, const void *b) {
  const kiln_report_row *x = a, *y = b;
  int order = (x->operation > y->operation) - (x->operation < y->operation);
  if (!order) order = (x->kind > y->kind) - (x->kind < y->kind);
  if (!order) order = (x->engine > y->engine) - (x->engine < y->engine);
  if (!order) order = (x->bytes > y->bytes) - (x->bytes < y->bytes);
  if (!order) order = (x->write > y->write) - (x->write < y->write);
  if (!order) order = (x->read > y->read) - (x->read < y->read);
  if (!order) order = (x->reason > y->reason) - (x->reason < y->reason);
  if (!order) order = (x->parameter > y->parameter) - (x->parameter < y->parameter);
  return order ? order : strcmp(x->name, y->name);
}

bool kiln_report_read(kiln_arena *arena, const uint8_t *bytes, size_t size, kiln_report_rows *out) {
  kiln_reader r = kiln_reader_of(bytes, size);
  size_t most = size / LEAST_ROW;
  *out = (kiln_report_rows){0};
  if (most > MOST_ROWS) return false;
  out->items = KILN_NEW_ARRAY(arena, kiln_report_row, most + 1);
  while (r.left) {
    if (out->count == most || !read_row(&r, &out->items[out->count])) return false;
    out->count++;
  }
  if (!out->count) return true;
  qsort(out->items, out->count, sizeof *out->items, by_operation);
  uint32_t kept = 1;
  for (uint32_t i = 1; i < out->count; i++)
    if (by_operation(&out->items[i], &out->items[kept - 1])) out->items[kept++] = out->items[i];
  out->count = kept;
  return true;
}
