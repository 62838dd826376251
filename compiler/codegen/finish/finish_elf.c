// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bounded ELF reading. Headers are copied out, so alignment in the file does not matter.
#include "compiler/codegen/finish/finish_elf.h"

#include <string.h>

static bool inside(kiln_span all, uint64_t offset, uint64_t size) {
  return offset <= all.size && size <= all.size - offset;
}

const char *elf_text(kiln_span strings, uint64_t offset) {
  if (offset >= strings.size || !memchr(strings.bytes + offset, 0, strings.size - offset)) return "";
  return (const char *)strings.bytes + offset;
}

static bool read_header(const elf_file *file, uint32_t index, Elf64_Shdr *out) {
  uint64_t offset = file->section_offset + (uint64_t)index * sizeof *out;
  if (index >= file->section_count || !inside(file->all, offset, sizeof *out)) return false;
  memcpy(out, file->all.bytes + offset, sizeof *out);
  return out->sh_type == SHT_NOBITS || inside(file->all, out->sh_offset, out->sh_size);
}

bool elf_open(const uint8_t *bytes, size_t size, elf_file *out) {
  static const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  Elf64_Ehdr header;
  *out = (elf_file){.all = {bytes, size}};
  if (size < sizeof header) return false;
  memcpy(&header, bytes, sizeof header);
  if (memcmp(header.e_ident, ident, sizeof ident) != 0 || header.e_shentsize != sizeof(Elf64_Shdr))
    return false;
  if (!inside(out->all, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr))) return false;
  out->section_offset = header.e_shoff;
  out->section_count = header.e_shnum;
  Elf64_Shdr names;
  if (!read_header(out, header.e_shstrndx, &names) || names.sh_type == SHT_NOBITS) return false;
  out->names = (kiln_span){bytes + names.sh_offset, names.sh_size};
  return true;
}

bool elf_is_whole(const elf_file *file) {
  Elf64_Ehdr header;
  Elf64_Phdr segment;
  Elf64_Shdr section;
  memcpy(&header, file->all.bytes, sizeof header);
  for (uint32_t i = 0; i < file->section_count; i++)
    if (!read_header(file, i, &section)) return false;
  if (header.e_phnum && header.e_phentsize != sizeof segment) return false;
  if (!inside(file->all, header.e_phoff, (uint64_t)header.e_phnum * sizeof segment)) return false;
  for (uint32_t i = 0; i < header.e_phnum; i++) {
    memcpy(&segment, file->all.bytes + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!inside(file->all, segment.p_offset, segment.p_filesz)) return false;
  }
  return true;
}

bool elf_section_at(const elf_file *file, uint32_t index, elf_section *out) {
  Elf64_Shdr header;
  memset(out, 0, sizeof *out);
  if (!read_header(file, index, &header)) return false;
  *out = (elf_section){.name = elf_text(file->names, header.sh_name),
                       .type = header.sh_type,
                       .info = header.sh_info,
                       .link = header.sh_link,
                       .flags = header.sh_flags,
                       .address = header.sh_addr};
  if (header.sh_type != SHT_NOBITS)
    out->bytes = (kiln_span){file->all.bytes + header.sh_offset, header.sh_size};
  return true;
}

bool elf_section_find(const elf_file *file, const char *name, uint32_t type, elf_section *out) {
  for (uint32_t i = 0; i < file->section_count; i++)
    if (elf_section_at(file, i, out) && (name ? strcmp(out->name, name) == 0 : out->type == type))
      return true;
  memset(out, 0, sizeof *out);
  return false;
}
