// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes commands and reads replies of Redis's protocol RESP2, within limits that the caller sets.
#include "cache/remote/resp.h"

#include <stdlib.h>
#include <string.h>

void kiln_resp_command(kiln_buffer *out, size_t count) { kiln_buffer_format(out, "*%zu\r\n", count); }

void kiln_resp_word(kiln_buffer *out, const void *bytes, size_t size) {
  kiln_buffer_format(out, "$%zu\r\n", size);
  kiln_buffer_bytes(out, bytes, size);
  kiln_buffer_bytes(out, "\r\n", 2);
}

static bool fill(kiln_resp *r) {
  if (r->at < r->end) return true;
  r->at = 0;
  r->end = r->source(r->context, r->window, sizeof r->window);
  return r->end != 0;
}

/// The rest of a line, without its end.
static bool read_line(kiln_resp *r) {
  for (size_t size = 0; fill(r);) {
    char c = (char)r->window[r->at++];
    if (c == '\n') {
      if (size && r->line[size - 1] == '\r') size--;
      r->line[size] = 0;
      return true;
    }
    if (size == sizeof r->line - 1) return r->is_refused = true, false;
    r->line[size++] = (c >= ' ' && c != 0x7f) || c == '\r' ? c : '?';
  }
  return false;
}

/// The line as a number, -1 or more.
static bool read_number(kiln_resp *r, int64_t *out) {
  char *end;
  if (!read_line(r)) return false;
  *out = strtoll(r->line, &end, 10);
  bool good = end != r->line && !*end && *out >= -1;
  r->is_refused |= !good;
  return good;
}

/// `size` bytes and the end of a line.
static bool read_bytes(kiln_resp *r, uint64_t size, const char *begins, kiln_buffer *out) {
  size_t start = out->size, wanted = begins ? strlen(begins) : 0;
  for (uint64_t left = size; left;) {
    if (!fill(r)) return false;
    size_t part = r->end - r->at < left ? r->end - r->at : (size_t)left;
    kiln_buffer_bytes(out, r->window + r->at, part);
    if (out->failed) return false;
    r->at += part;
    left -= part;
    size_t there = out->size - start < wanted ? out->size - start : wanted;
    if (memcmp(out->bytes + start, begins ? begins : "", there)) return r->is_refused = true, false;
  }
  return read_line(r) && !*r->line;
}

static kiln_resp_kind read_list(kiln_resp *r, const kiln_resp_limits *limits, kiln_buffer *out) {
  int64_t count, size;
  kiln_buffer element = {0};
  bool good = read_number(r, &count) && count >= 0 && count <= (int64_t)limits->elements;
  r->is_refused |= !good;
  for (int64_t i = 0; i < count && good; i++) {
    good = fill(r) && r->window[r->at++] == '$' && read_number(r, &size) && size >= 0 &&
           (uint64_t)size <= limits->bytes;
    r->is_refused |= !good;
    kiln_buffer_clear(&element);
    good = good && read_bytes(r, (uint64_t)size, NULL, &element);
    if (good) kiln_buffer_block(out, element.bytes, element.size);
  }
  kiln_buffer_deinit(&element);
  return good && !out->failed ? KILN_RESP_LIST : KILN_RESP_NONE;
}

kiln_resp_kind kiln_resp_read(kiln_resp *r, const kiln_resp_limits *limits, kiln_buffer *out) {
  int64_t size;
  r->is_refused = false;
  *r->line = 0;
  if (!fill(r)) return KILN_RESP_NONE;
  switch (r->window[r->at++]) {
  case '+': return read_line(r) ? KILN_RESP_STATUS : KILN_RESP_NONE;
  case '-': return read_line(r) ? KILN_RESP_ERROR : KILN_RESP_NONE;
  case ':':
    if (!read_line(r)) return KILN_RESP_NONE;
    r->number = strtoll(r->line, NULL, 10);
    return KILN_RESP_NUMBER;
  case '$':
    if (!read_number(r, &size)) return KILN_RESP_NONE;
    if (size < 0) return KILN_RESP_NIL;
    if ((uint64_t)size > limits->bytes) return r->is_refused = true, KILN_RESP_NONE;
    return read_bytes(r, (uint64_t)size, limits->begins, out) ? KILN_RESP_STRING : KILN_RESP_NONE;
  case '*':
    if (!limits->elements) break;
    return read_list(r, limits, out);
  default: break;
  }
  r->is_refused = true;
  return KILN_RESP_NONE;
}
