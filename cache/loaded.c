// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the parts of an ELF file that are loaded when the program runs, so that stripping does not change a
// program's identity.
#include "cache/loaded.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

enum { PROGRAM_HEADER = 56 };

_Static_assert(sizeof(Elf64_Ehdr) == KILN_LOADED_HEADER && sizeof(Elf64_Phdr) == PROGRAM_HEADER, "ELF64");

static bool read_at(int fd, uint8_t *out, size_t size, uint64_t at) {
  for (size_t done = 0; done < size;) {
    ssize_t got = pread(fd, out + done, size - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

static bool is_inside(kiln_loaded_part p, uint64_t size) { return p.at <= size && p.size <= size - p.at; }

/// Reads the ELF header: where the program headers are.
static bool read_header(int fd, uint64_t file_size, kiln_loaded_part *out) {
  static const uint8_t ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  uint8_t bytes[KILN_LOADED_HEADER];
  if (file_size < sizeof bytes || !read_at(fd, bytes, sizeof bytes, 0)) return false;
  if (memcmp(bytes, ident, sizeof ident)) return false;
  kiln_reader r = kiln_reader_of(bytes + EI_NIDENT, sizeof bytes - EI_NIDENT);
  uint16_t type = kiln_read_u16(&r);
  kiln_read_bytes(&r, sizeof(Elf64_Half) + sizeof(Elf64_Word) + sizeof(Elf64_Addr));
  out->at = kiln_read_u64(&r);
  kiln_read_bytes(&r, sizeof(Elf64_Off) + sizeof(Elf64_Word));
  uint16_t header = kiln_read_u16(&r), entry = kiln_read_u16(&r), count = kiln_read_u16(&r);
  out->size = (uint64_t)count * PROGRAM_HEADER;
  return (type == ET_EXEC || type == ET_DYN) && header == sizeof bytes && entry == PROGRAM_HEADER && count &&
         count <= KILN_LOADED_SEGMENTS && is_inside(*out, file_size);
}

static int by_place(const void *a, const void *b) {
  const kiln_loaded_part *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

bool kiln_loaded_find(int fd, uint64_t size, kiln_loaded *out) {
  uint8_t table[KILN_LOADED_SEGMENTS * PROGRAM_HEADER];
  kiln_loaded_part headers;
  bool is_loaded = false;
  if (!read_header(fd, size, &headers) || !read_at(fd, table, headers.size, headers.at)) return false;
  out->count = 0;
  out->parts[out->count++] = (kiln_loaded_part){0, KILN_LOADED_HEADER};
  out->parts[out->count++] = headers;
  for (kiln_reader r = kiln_reader_of(table, headers.size); r.left;) {
    uint32_t type = kiln_read_u32(&r);
    kiln_read_u32(&r); // flags
    uint64_t at = kiln_read_u64(&r);
    kiln_read_bytes(&r, 2 * sizeof(Elf64_Addr));
    kiln_loaded_part part = {at, kiln_read_u64(&r)};
    kiln_read_bytes(&r, 2 * sizeof(Elf64_Xword)); // size in memory, alignment
    is_loaded |= type == PT_LOAD && part.size;
    if (type == PT_NULL || !part.size) continue;
    if (!is_inside(part, size)) return false;
    out->parts[out->count++] = part;
  }
  // Sorts the parts and joins those that overlap or touch: segments lie in each other.
  unsigned count = 1;
  qsort(out->parts, out->count, sizeof *out->parts, by_place);
  for (unsigned i = 1; i < out->count; i++) {
    kiln_loaded_part *last = &out->parts[count - 1], next = out->parts[i];
    if (next.at > last->at + last->size) out->parts[count++] = next;
    else if (next.at + next.size > last->at + last->size) last->size = next.at + next.size - last->at;
  }
  out->count = count;
  return is_loaded;
}

void kiln_loaded_mask(uint8_t *bytes, uint64_t at, size_t size) {
  static const struct {
    uint8_t at, end;
  } fields[] = {{offsetof(Elf64_Ehdr, e_shoff), offsetof(Elf64_Ehdr, e_flags)},
                {offsetof(Elf64_Ehdr, e_shentsize), sizeof(Elf64_Ehdr)}};
  for (unsigned f = 0; f < sizeof fields / sizeof *fields; f++)
    for (uint64_t i = fields[f].at; i < fields[f].end; i++)
      if (i >= at && i - at < size) bytes[i - at] = 0;
}
