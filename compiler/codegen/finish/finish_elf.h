// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bounded reading of 64-bit little-endian ELF files: sections and nothing else. What a linker or a vendor's
// tool gave is read, not trusted.
#ifndef KILN_COMPILER_CODEGEN_FINISH_ELF_H
#define KILN_COMPILER_CODEGEN_FINISH_ELF_H

#include <elf.h>

#include "base/record.h"

typedef struct elf_file {
  kiln_span all; // borrowed
  uint64_t section_offset;
  uint16_t section_count;
  kiln_span names; // section name strings
} elf_file;

typedef struct elf_section {
  const char *name; // in the file, ends in NUL; "" when it cannot be read
  uint32_t type, info, link;
  uint64_t flags, address;
  kiln_span bytes; // empty for SHT_NOBITS
} elf_section;

/// False when the bytes are no ELF file or a table lies outside of it.
bool elf_open(const uint8_t *bytes, size_t size, elf_file *out);
/// True when every section and segment that has bytes lies inside of the file.
bool elf_is_whole(const elf_file *file);
/// False when section `index` is not there or lies outside of the file.
bool elf_section_at(const elf_file *file, uint32_t index, elf_section *out);
/// The first section called `name` (or, with name NULL, of type `type`).
bool elf_section_find(const elf_file *file, const char *name, uint32_t type, elf_section *out);
/// A text at `offset` of a string table; "" when it does not end inside.
const char *elf_text(kiln_span strings, uint64_t offset);

#endif
