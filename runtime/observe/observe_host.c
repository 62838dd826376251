// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds where libkiln has put the code of a host kernel, for profilers and debuggers: the event has the object
// that was mapped and the address of its kernel.
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/control_characters.h"
#include "runtime/observe/observe.h"

void observe_name(const kiln_event *e, char *out, size_t size) {
  char text[600];
  const kiln_choice *c = e->choice;
  snprintf(text, sizeof text, "%.300s%s%.100s%s%.100s", e->kernel_name, *c->config ? " " : "", c->config,
           *c->variant ? " if " : "", c->variant);
  kiln_show_controls(text, true, out, size);
}

static bool read_at(const kiln_event *e, uint64_t at, void *out, size_t size) {
  if (at > e->code_size || size > e->code_size - at) return false;
  memcpy(out, (const char *)e->code + at, size);
  return true;
}

// The address of the kernel's symbol in the object, from the dynamic symbols.
static bool find_symbol(const kiln_event *e, const Elf64_Ehdr *head, uint64_t *out) {
  Elf64_Shdr symbols, strings;
  size_t length = strlen(e->symbol) + 1;
  for (unsigned i = 0; i < head->e_shnum; i++) {
    if (!read_at(e, head->e_shoff + i * sizeof symbols, &symbols, sizeof symbols)) return false;
    if (symbols.sh_type != SHT_DYNSYM) continue;
    if (!read_at(e, head->e_shoff + symbols.sh_link * sizeof strings, &strings, sizeof strings)) return false;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym s;
      uint64_t name;
      if (!read_at(e, symbols.sh_offset + at, &s, sizeof s)) return false;
      if (__builtin_add_overflow(strings.sh_offset, s.st_name, &name) || name > e->code_size ||
          length > e->code_size - name || memcmp((const char *)e->code + name, e->symbol, length) != 0)
        continue;
      *out = s.st_value;
      return true;
    }
  }
  return false;
}

bool observe_host_code(const kiln_event *e, host_code *out) {
  Elf64_Ehdr head;
  uint64_t symbol;
  bool is_host = e->device_name && !strncmp(e->device_name, "host", 4) && e->status == KILN_OK && e->code;
  if (!is_host || !e->function || !e->symbol || !read_at(e, 0, &head, sizeof head) ||
      memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      !find_symbol(e, &head, &symbol))
    return false;
  for (unsigned i = 0; i < head.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_at(e, head.e_phoff + i * sizeof segment, &segment, sizeof segment)) return false;
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || symbol < segment.p_vaddr ||
        symbol - segment.p_vaddr >= segment.p_memsz)
      continue;
    out->begin = (const char *)e->function - (symbol - segment.p_vaddr);
    out->size = segment.p_memsz;
    return true;
  }
  return false;
}
