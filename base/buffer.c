// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements growing byte buffers and bounds-checked readers, with the little-endian encoding of numbers,
// texts and blocks.
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle_format.h"

void kiln_buffer_deinit(kiln_buffer *b) {
  free(b->bytes);
  memset(b, 0, sizeof *b);
}

void kiln_buffer_clear(kiln_buffer *b) {
  b->size = 0;
  b->failed = false;
}

bool kiln_buffer_reserve(kiln_buffer *b, size_t more) {
  if (b->failed) return false;
  if (more <= b->capacity - b->size) return true;
  size_t wanted = b->capacity ? b->capacity : 256;
  if (more > SIZE_MAX / 4 - b->size) return b->failed = true, false;
  while (wanted < b->size + more) wanted *= 2;
  uint8_t *bytes = realloc(b->bytes, wanted);
  if (!bytes) return b->failed = true, false;
  b->bytes = bytes;
  b->capacity = wanted;
  return true;
}

void kiln_buffer_bytes(kiln_buffer *b, const void *bytes, size_t size) {
  if (!size || !kiln_buffer_reserve(b, size)) return;
  memcpy(b->bytes + b->size, bytes, size);
  b->size += size;
}

void kiln_buffer_u8(kiln_buffer *b, uint8_t v) {
  if (kiln_buffer_reserve(b, 1)) b->bytes[b->size++] = v;
}

void kiln_buffer_u16(kiln_buffer *b, uint16_t v) {
  uint8_t bytes[sizeof v];
  kiln_put16(bytes, v);
  kiln_buffer_bytes(b, bytes, sizeof bytes);
}

void kiln_buffer_u32(kiln_buffer *b, uint32_t v) {
  uint8_t bytes[sizeof v];
  kiln_put32(bytes, v);
  kiln_buffer_bytes(b, bytes, sizeof bytes);
}

void kiln_buffer_u64(kiln_buffer *b, uint64_t v) {
  uint8_t bytes[sizeof v];
  kiln_put64(bytes, v);
  kiln_buffer_bytes(b, bytes, sizeof bytes);
}

void kiln_buffer_varint(kiln_buffer *b, uint64_t v) {
  uint8_t bytes[10];
  unsigned size = 0;
  do {
    bytes[size++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
    v >>= 7;
  } while (v);
  kiln_buffer_bytes(b, bytes, size);
}

void kiln_buffer_svarint(kiln_buffer *b, int64_t v) {
  kiln_buffer_varint(b, ((uint64_t)v << 1) ^ (v < 0 ? ~(uint64_t)0 : 0));
}

void kiln_buffer_block(kiln_buffer *b, const void *bytes, size_t size) {
  kiln_buffer_varint(b, size);
  kiln_buffer_bytes(b, bytes, size);
}

void kiln_buffer_text(kiln_buffer *b, const char *text) {
  kiln_buffer_block(b, text, text ? strlen(text) : 0);
}

void kiln_buffer_align(kiln_buffer *b, size_t alignment) {
  size_t more = (alignment - b->size % alignment) % alignment;
  if (!more || !kiln_buffer_reserve(b, more)) return;
  memset(b->bytes + b->size, 0, more);
  b->size += more;
}

void kiln_buffer_format(kiln_buffer *b, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length >= 0 && kiln_buffer_reserve(b, (size_t)length + 1)) {
    vsnprintf((char *)b->bytes + b->size, (size_t)length + 1, format, again);
    b->size += (size_t)length;
  }
  va_end(again);
}

kiln_reader kiln_reader_of(const void *bytes, size_t size) { return (kiln_reader){bytes, size, false}; }

const uint8_t *kiln_read_bytes(kiln_reader *r, size_t size) {
  if (size > r->left) {
    r->failed = true;
    r->left = 0;
    return NULL;
  }
  const uint8_t *at = r->at;
  r->at += size;
  r->left -= size;
  return at;
}

uint8_t kiln_read_u8(kiln_reader *r) {
  const uint8_t *at = kiln_read_bytes(r, 1);
  return at ? *at : 0;
}

uint16_t kiln_read_u16(kiln_reader *r) {
  const uint8_t *at = kiln_read_bytes(r, 2);
  return at ? kiln_le16(at) : 0;
}

uint32_t kiln_read_u32(kiln_reader *r) {
  const uint8_t *at = kiln_read_bytes(r, 4);
  return at ? kiln_le32(at) : 0;
}

uint64_t kiln_read_u64(kiln_reader *r) {
  const uint8_t *at = kiln_read_bytes(r, 8);
  return at ? kiln_le64(at) : 0;
}

// The longest and the padded forms are refused, so that a value has one spelling only.
uint64_t kiln_read_varint(kiln_reader *r) {
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint8_t byte = kiln_read_u8(r);
    if (r->failed) return 0;
    if ((shift == 63 && byte > 1) || (shift && !byte)) break;
    v |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return v;
  }
  r->failed = true;
  r->left = 0;
  return 0;
}

int64_t kiln_read_svarint(kiln_reader *r) {
  uint64_t v = kiln_read_varint(r);
  return (int64_t)((v >> 1) ^ (0 - (v & 1)));
}

const uint8_t *kiln_read_block(kiln_reader *r, size_t *out_size) {
  uint64_t size = kiln_read_varint(r);
  *out_size = 0;
  if (size > r->left) {
    r->failed = true;
    r->left = 0;
  }
  if (r->failed) return NULL;
  *out_size = (size_t)size;
  return kiln_read_bytes(r, (size_t)size);
}

uint64_t kiln_read_count(kiln_reader *r, uint64_t limit) {
  uint64_t v = kiln_read_varint(r);
  if (v <= limit) return v;
  r->failed = true;
  r->left = 0;
  return 0;
}

bool kiln_read_done(const kiln_reader *r) { return !r->failed && !r->left; }
