// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes that grow, and bytes that are read with bounds. Integers are little-endian and are written one by
// one.
//
// Both keep one sticky failure flag, so that code writes or reads freely and tests once at the end. Not
// thread safe.
#ifndef KILN_BASE_BUFFER_H
#define KILN_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A growing byte buffer on the heap. A zeroed struct is an empty buffer. `failed` is set when memory ran
/// out; later writes do nothing.
typedef struct kiln_buffer {
  uint8_t *bytes; // owned
  size_t size, capacity;
  bool failed;
} kiln_buffer;

void kiln_buffer_deinit(kiln_buffer *b);
/// Forgets the contents, keeps the memory.
void kiln_buffer_clear(kiln_buffer *b);
bool kiln_buffer_reserve(kiln_buffer *b, size_t more);
void kiln_buffer_bytes(kiln_buffer *b, const void *bytes, size_t size);
void kiln_buffer_u8(kiln_buffer *b, uint8_t v);
void kiln_buffer_u16(kiln_buffer *b, uint16_t v);
void kiln_buffer_u32(kiln_buffer *b, uint32_t v);
void kiln_buffer_u64(kiln_buffer *b, uint64_t v);
/// Unsigned LEB128; the shortest form.
void kiln_buffer_varint(kiln_buffer *b, uint64_t v);
/// Zigzag LEB128 of a signed value.
void kiln_buffer_svarint(kiln_buffer *b, int64_t v);
/// A varint length, then the bytes.
void kiln_buffer_block(kiln_buffer *b, const void *bytes, size_t size);
/// kiln_buffer_block of a NUL-terminated text (NULL is written as empty).
void kiln_buffer_text(kiln_buffer *b, const char *text);
/// Zero bytes until size is a multiple of `alignment` (a power of two).
void kiln_buffer_align(kiln_buffer *b, size_t alignment);
/// Formatted text. The terminator after it is not counted.
void kiln_buffer_format(kiln_buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// Bounded reading of bytes that are borrowed. After the first read past the end (or malformed varint)
/// `failed` is set, every read yields zero and `left` is zero.
typedef struct kiln_reader {
  const uint8_t *at; // borrowed
  size_t left;
  bool failed;
} kiln_reader;

kiln_reader kiln_reader_of(const void *bytes, size_t size);
uint8_t kiln_read_u8(kiln_reader *r);
uint16_t kiln_read_u16(kiln_reader *r);
uint32_t kiln_read_u32(kiln_reader *r);
uint64_t kiln_read_u64(kiln_reader *r);
uint64_t kiln_read_varint(kiln_reader *r);
int64_t kiln_read_svarint(kiln_reader *r);
/// The next `size` bytes in place, or NULL.
const uint8_t *kiln_read_bytes(kiln_reader *r, size_t size);
/// A block in place; its size in `out_size`. NULL on failure.
const uint8_t *kiln_read_block(kiln_reader *r, size_t *out_size);
/// A varint that must be at most `limit`: a count to allocate for. Sets failed otherwise.
uint64_t kiln_read_count(kiln_reader *r, uint64_t limit);
/// True when nothing failed and nothing is left.
bool kiln_read_done(const kiln_reader *r);

#ifdef __cplusplus
}
#endif
#endif
