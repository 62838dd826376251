// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes and decodes the two records, interface and code info. A text is stored as a varint length that
// counts its final NUL, then the bytes, so that a decoder can point into them. Version bytes differ between
// the records, so that one is never read as the other.
#include "base/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/expr.h"

enum {
  INTERFACE_VERSION = 1,
  INTERFACE_EXTENDED =
      2, // the same with costs, then `returns` and `backward`; written where one of them is set
  INTERFACE_WITH_ROWS = 3, // the same, a flag of parameters and their `rows`; written where one has them
  INTERFACE_WITH_KEPT = 4, // the same, of which an expression keeps values
  CODE_INFO_VERSION = 65,
  CODE_INFO_WHY_PTX =
      66, // the same and `why_ptx`; written only where that is set, so that others read the rest
  CODE_INFO_WITH_MAPS = 67,    // the same, then blocks and maps; written where one of them is set
  CODE_INFO_WITH_CLUSTER = 68, // the same, then the cluster
  CODE_INFO_WITH_LIMIT = 69,   // the same, then the most programs; written where there is a limit
  MOST_CLUSTER = 16,           // the most that CUDA takes
  MOST_PARAMS = 4096,
  MOST_CONFIGS = 65536,
  MOST_VARIANTS = 256,
  MOST_EXPRESSIONS = 256,
};

static uint32_t align_up(uint32_t at, uint32_t alignment) { return (at + alignment - 1) & ~(alignment - 1); }

void kiln_layout_params(kiln_interface *interface) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < interface->param_count; i++) {
    kiln_param_record *p = &interface->params[i];
    uint32_t alignment = p->view_rank || p->pointer ? 8 : kiln_scalars[p->scalar].bytes;
    p->size = p->view_rank ? 8u + 16u * p->view_rank : alignment;
    p->offset = align_up(at, alignment);
    at = p->offset + p->size;
  }
  interface->block_bytes = align_up(at, 8);
}

uint64_t kiln_interface_abi(const kiln_interface *interface) {
  kiln_buffer b = {0};
  uint64_t sum = 0;
  kiln_buffer_u8(&b, KILN_KERNEL_ABI);
  for (uint32_t i = 0; i < interface->param_count; i++) {
    const kiln_param_record *p = &interface->params[i];
    kiln_buffer_u8(&b, p->scalar);
    kiln_buffer_u8(&b, p->pointer);
    kiln_buffer_u8(&b, p->view_rank);
  }
  kiln_check check = kiln_check_of(b.bytes, b.size);
  for (unsigned i = 0; i < 8; i++) sum = sum << 8 | check.bytes[i];
  kiln_buffer_deinit(&b);
  return sum;
}

void kiln_param_type(const kiln_param_record *p, char out[KILN_PARAM_TYPE]) {
  static const char stars[] = "**";
  const char *scalar = kiln_scalars[p->scalar].spelling;
  if (p->view_rank) snprintf(out, KILN_PARAM_TYPE, "view %s/%u", scalar, p->view_rank);
  else snprintf(out, KILN_PARAM_TYPE, "%.*s%s", p->pointer, stars, scalar);
}

void kiln_interface_types(const kiln_interface *interface, kiln_buffer *out) {
  char type[KILN_PARAM_TYPE];
  for (uint32_t i = 0; i < interface->param_count; i++) {
    kiln_param_type(&interface->params[i], type);
    kiln_buffer_format(out, "%s%s", i ? ", " : "", type);
  }
}

static void put_text(kiln_buffer *b, const char *text) {
  size_t length = text ? strlen(text) : 0;
  kiln_buffer_varint(b, length + 1);
  kiln_buffer_bytes(b, text, length);
  kiln_buffer_u8(b, 0);
}

static const char *get_text(kiln_reader *r) {
  size_t size;
  const uint8_t *at = kiln_read_block(r, &size);
  if (at && size && !at[size - 1] && !memchr(at, 0, size - 1)) return (const char *)at;
  r->failed = true;
  r->left = 0;
  return "";
}

static void put_span(kiln_buffer *b, kiln_span span) { kiln_buffer_block(b, span.bytes, span.size); }

static kiln_span get_span(kiln_reader *r) {
  kiln_span span = {0};
  span.bytes = kiln_read_block(r, &span.size);
  return span;
}

static void put_spans(kiln_buffer *b, const kiln_span *spans, uint32_t count) {
  kiln_buffer_varint(b, count);
  for (uint32_t i = 0; i < count; i++) put_span(b, spans[i]);
}

static kiln_span *get_spans(kiln_arena *arena, kiln_reader *r, uint32_t *out_count) {
  *out_count = (uint32_t)kiln_read_count(r, MOST_EXPRESSIONS);
  kiln_span *spans = KILN_NEW_ARRAY(arena, kiln_span, *out_count);
  if (!spans) *out_count = 0;
  for (uint32_t i = 0; i < *out_count; i++) spans[i] = get_span(r);
  return spans;
}

enum { PARAM_NOALIAS = 1, PARAM_RANGE = 2, PARAM_ROWS = 4 };

static void put_param(kiln_buffer *b, const kiln_param_record *p) {
  put_text(b, p->name);
  kiln_buffer_u8(b, p->scalar);
  kiln_buffer_u8(b, p->pointer);
  kiln_buffer_u8(b, p->view_rank);
  kiln_buffer_u8(b, p->access);
  kiln_buffer_u8(b, (p->noalias ? PARAM_NOALIAS : 0) | (p->has_range ? PARAM_RANGE : 0) |
                        (p->rows ? PARAM_ROWS : 0));
  kiln_buffer_varint(b, p->align);
  if (p->rows) kiln_buffer_varint(b, p->rows);
  kiln_buffer_svarint(b, p->div);
  if (!p->has_range) return;
  kiln_buffer_svarint(b, p->lo);
  kiln_buffer_svarint(b, p->hi);
}

static void get_param(kiln_reader *r, kiln_param_record *p, bool may_have_rows) {
  p->name = get_text(r);
  p->scalar = kiln_read_u8(r);
  p->pointer = kiln_read_u8(r);
  p->view_rank = kiln_read_u8(r);
  p->access = kiln_read_u8(r);
  uint8_t flags = kiln_read_u8(r);
  p->noalias = flags & PARAM_NOALIAS;
  p->has_range = flags & PARAM_RANGE;
  p->align = (uint32_t)kiln_read_count(r, UINT32_MAX);
  if (may_have_rows && flags & PARAM_ROWS) p->rows = (uint32_t)kiln_read_count(r, UINT32_MAX);
  p->div = kiln_read_svarint(r);
  if (p->has_range) {
    p->lo = kiln_read_svarint(r);
    p->hi = kiln_read_svarint(r);
  }
  if (p->scalar >= KILN_SCALAR_COUNT || p->view_rank > 12 || p->pointer > 2 || p->access > 4 ||
      (p->rows && (!p->view_rank || p->rows % kiln_scalars[p->scalar].bytes))) {
    r->failed = true;
    r->left = 0;
    p->scalar = 0;
  }
}

static void put_config(kiln_buffer *b, const kiln_config_record *c, bool is_extended) {
  put_text(b, c->text);
  kiln_buffer_varint(b, c->warps);
  kiln_buffer_varint(b, c->stages);
  for (unsigned i = 0; i < 3; i++) put_span(b, c->grid[i]);
  put_spans(b, c->require, c->require_count);
  if (is_extended) put_span(b, c->cost);
}

static void get_config(kiln_arena *arena, kiln_reader *r, kiln_config_record *c, bool is_extended) {
  c->text = get_text(r);
  c->warps = (uint16_t)kiln_read_count(r, 1024);
  c->stages = (uint16_t)kiln_read_count(r, 1024);
  for (unsigned i = 0; i < 3; i++) c->grid[i] = get_span(r);
  c->require = get_spans(arena, r, &c->require_count);
  if (is_extended) c->cost = get_span(r);
}

static bool one_keeps(const kiln_span *code, uint32_t count) {
  bool keeps = false;
  for (uint32_t i = 0; i < count; i++) keeps |= kiln_expr_keeps(code[i].bytes, code[i].size);
  return keeps;
}

static bool keeps_values(const kiln_interface *interface) {
  bool keeps = false;
  for (uint32_t i = 0; i < interface->config_count; i++) {
    const kiln_config_record *c = &interface->configs[i];
    keeps |= one_keeps(c->grid, 3) || one_keeps(c->require, c->require_count) || one_keeps(&c->cost, 1);
  }
  for (uint32_t i = 0; i < interface->variant_count; i++)
    keeps |= one_keeps(interface->variants[i].conditions, interface->variants[i].condition_count);
  return keeps;
}

// The least that says all.
static uint8_t version_for(const kiln_interface *interface) {
  if (keeps_values(interface)) return INTERFACE_WITH_KEPT;
  bool is_extended = interface->returns || interface->backward, has_rows = false;
  for (uint32_t i = 0; i < interface->config_count; i++) is_extended |= interface->configs[i].cost.size != 0;
  for (uint32_t i = 0; i < interface->param_count; i++) has_rows |= interface->params[i].rows != 0;
  return has_rows ? INTERFACE_WITH_ROWS : is_extended ? INTERFACE_EXTENDED : INTERFACE_VERSION;
}

void kiln_interface_encode(const kiln_interface *interface, kiln_buffer *out) {
  uint8_t version = version_for(interface);
  bool is_extended = version >= INTERFACE_EXTENDED;
  kiln_buffer_u8(out, version);
  put_text(out, interface->name);
  put_text(out, interface->symbol);
  kiln_buffer_varint(out, interface->param_count);
  for (uint32_t i = 0; i < interface->param_count; i++) put_param(out, &interface->params[i]);
  kiln_buffer_varint(out, interface->config_count);
  for (uint32_t i = 0; i < interface->config_count; i++) put_config(out, &interface->configs[i], is_extended);
  kiln_buffer_varint(out, interface->variant_count);
  for (uint32_t i = 0; i < interface->variant_count; i++) {
    put_text(out, interface->variants[i].text);
    put_spans(out, interface->variants[i].conditions, interface->variants[i].condition_count);
  }
  if (!is_extended) return;
  put_text(out, interface->returns);
  put_text(out, interface->backward);
}

// A count is also bounded by the bytes that are left, since each item takes at least one: a small file cannot
// ask for much memory.
static uint32_t item_count(kiln_reader *r, uint32_t limit) {
  return (uint32_t)kiln_read_count(r, limit < r->left ? limit : r->left);
}

static const char *text_or_none(kiln_reader *r) {
  const char *text = get_text(r);
  return text[0] ? text : NULL;
}

bool kiln_interface_decode(kiln_arena *arena, const uint8_t *bytes, size_t size, kiln_interface *out) {
  kiln_reader r = kiln_reader_of(bytes, size);
  memset(out, 0, sizeof *out);
  uint8_t version = kiln_read_u8(&r);
  if (version < INTERFACE_VERSION || version > INTERFACE_WITH_KEPT) return false;
  bool is_extended = version >= INTERFACE_EXTENDED;
  out->name = get_text(&r);
  out->symbol = get_text(&r);
  out->param_count = item_count(&r, MOST_PARAMS);
  out->params = KILN_NEW_ARRAY(arena, kiln_param_record, out->param_count);
  if (!out->params) return false;
  for (uint32_t i = 0; i < out->param_count; i++)
    get_param(&r, &out->params[i], version >= INTERFACE_WITH_ROWS);
  out->config_count = item_count(&r, MOST_CONFIGS);
  out->configs = KILN_NEW_ARRAY(arena, kiln_config_record, out->config_count);
  if (!out->configs) return false;
  for (uint32_t i = 0; i < out->config_count; i++) get_config(arena, &r, &out->configs[i], is_extended);
  out->variant_count = item_count(&r, MOST_VARIANTS);
  out->variants = KILN_NEW_ARRAY(arena, kiln_variant_record, out->variant_count);
  if (!out->variants) return false;
  for (uint32_t i = 0; i < out->variant_count; i++) {
    out->variants[i].text = get_text(&r);
    out->variants[i].conditions = get_spans(arena, &r, &out->variants[i].condition_count);
  }
  if (is_extended) {
    out->returns = text_or_none(&r);
    out->backward = text_or_none(&r);
  }
  kiln_layout_params(out);
  return kiln_read_done(&r) && !kiln_arena_failed(arena);
}

/// The numeric fields in order of the encoding.
#define CODE_NUMBERS(X) \
  X(block_threads)      \
  X(shared_bytes) X(dynamic_shared) X(scratch_bytes) X(registers) X(scalar_registers) X(spill_bytes) X(wave)

void kiln_code_info_encode(const kiln_code_info *info, kiln_buffer *out) {
  const uint32_t *most = info->most_programs;
  bool has_limit = most[0] || most[1] || most[2];
  bool has_more = has_limit || info->cluster || info->blocks || info->maps.size;
  kiln_buffer_u8(out, has_limit       ? CODE_INFO_WITH_LIMIT
                      : info->cluster ? CODE_INFO_WITH_CLUSTER
                      : has_more      ? CODE_INFO_WITH_MAPS
                      : info->why_ptx ? CODE_INFO_WHY_PTX
                                      : CODE_INFO_VERSION);
  kiln_buffer_u8(out, info->format);
  put_text(out, info->target);
  put_text(out, info->symbol);
#define X(field) kiln_buffer_varint(out, info->field);
  CODE_NUMBERS(X)
#undef X
  put_text(out, info->producer);
  if (info->why_ptx || has_more) put_text(out, info->why_ptx);
  if (!has_more) return;
  kiln_buffer_varint(out, info->blocks);
  kiln_buffer_block(out, info->maps.bytes, info->maps.size);
  if (has_limit || info->cluster) kiln_buffer_varint(out, info->cluster);
  for (unsigned axis = 0; has_limit && axis < 3; axis++) kiln_buffer_varint(out, most[axis]);
}

bool kiln_code_info_decode(const uint8_t *bytes, size_t size, kiln_code_info *out) {
  kiln_reader r = kiln_reader_of(bytes, size);
  memset(out, 0, sizeof *out);
  uint8_t version = kiln_read_u8(&r);
  if (version < CODE_INFO_VERSION || version > CODE_INFO_WITH_LIMIT) return false;
  out->format = kiln_read_u8(&r);
  out->target = get_text(&r);
  out->symbol = get_text(&r);
#define X(field) out->field = (uint32_t)kiln_read_count(&r, UINT32_MAX);
  CODE_NUMBERS(X)
#undef X
  out->producer = get_text(&r);
  if (version >= CODE_INFO_WHY_PTX) out->why_ptx = get_text(&r);
  if (version >= CODE_INFO_WITH_MAPS) {
    if (out->why_ptx && !out->why_ptx[0]) out->why_ptx = NULL;
    out->blocks = (uint32_t)kiln_read_count(&r, UINT32_MAX);
    out->maps.bytes = kiln_read_block(&r, &out->maps.size);
    if (version >= CODE_INFO_WITH_CLUSTER) out->cluster = (uint32_t)kiln_read_count(&r, MOST_CLUSTER);
    for (unsigned axis = 0; version == CODE_INFO_WITH_LIMIT && axis < 3; axis++)
      out->most_programs[axis] = (uint32_t)kiln_read_count(&r, UINT32_MAX);
  }
  return kiln_read_done(&r);
}

kiln_status kiln_record_refuse(kiln_error *err, kiln_record_kind kind, const uint8_t *bytes, size_t size,
                               const char *format, ...) {
  char what[512];
  unsigned newest = kind == KILN_RECORD_INTERFACE ? INTERFACE_WITH_KEPT : CODE_INFO_WITH_LIMIT - kind,
           version = size && bytes[0] > kind ? bytes[0] - kind : 0;
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (version <= newest || version >= CODE_INFO_VERSION - 1)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "%s is damaged", what);
  return kiln_fail(err, KILN_STATUS_VERSION, "%s has version %u of a newer Kiln, this program reads up to %u",
                   what, version, newest);
}

const char *kiln_format_name(unsigned format) {
  static const char *const names[] = {[0] = "auto",
                                      [KILN_FORMAT_PTX] = "ptx",
                                      [KILN_FORMAT_CUBIN] = "cubin",
                                      [KILN_FORMAT_HSACO] = "hsaco",
                                      [KILN_FORMAT_HOST] = "host",
                                      [KILN_FORMAT_IR] = "ir",
                                      [KILN_FORMAT_LLVM] = "llvm",
                                      [KILN_FORMAT_ASM] = "asm"};
  return format < sizeof names / sizeof *names ? names[format] : "?";
}
