// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Host objects in memory, for tests: maps the load segments, applies relative relocations, finds the kernel.
// Insists on what libkiln insists on: no undefined symbol, no other relocation.
#ifndef KILN_TESTS_CODEGEN_HOST_MAPPING_H
#define KILN_TESTS_CODEGEN_HOST_MAPPING_H

#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include "base/record.h"
#include "compiler/codegen.h"
#include "tests/harness.h"

static const Elf64_Shdr *mapping_section(const uint8_t *bytes, uint32_t type, uint32_t from,
                                         uint32_t *out_index) {
  const Elf64_Ehdr *e = (const Elf64_Ehdr *)bytes;
  const Elf64_Shdr *s = (const Elf64_Shdr *)(bytes + e->e_shoff);
  for (uint32_t i = from; i < e->e_shnum; i++)
    if (s[i].sh_type == type) {
      *out_index = i;
      return &s[i];
    }
  return NULL;
}

/// Fails the test when the object has undefined symbols; returns the offset of `symbol`.
static inline uint64_t mapping_symbol(const uint8_t *bytes, const char *symbol) {
  const Elf64_Ehdr *e = (const Elf64_Ehdr *)bytes;
  const Elf64_Shdr *all = (const Elf64_Shdr *)(bytes + e->e_shoff);
  uint32_t index;
  const Elf64_Shdr *table = mapping_section(bytes, SHT_DYNSYM, 0, &index);
  uint64_t found = 0;
  CHECK(table != NULL);
  const char *names = (const char *)bytes + all[table->sh_link].sh_offset;
  const Elf64_Sym *s = (const Elf64_Sym *)(bytes + table->sh_offset);
  for (uint64_t i = 1; i < table->sh_size / sizeof *s; i++) {
    if (s[i].st_shndx == SHN_UNDEF) FAIL("undefined symbol %s", names + s[i].st_name);
    if (!strcmp(names + s[i].st_name, symbol)) found = s[i].st_value;
  }
  if (!found) FAIL("no symbol %s", symbol);
  return found;
}

static inline kiln_host_kernel *mapping_open(const kiln_buffer *code, const char *symbol) {
  const uint8_t *bytes = code->bytes;
  const Elf64_Ehdr *e = (const Elf64_Ehdr *)bytes;
  const Elf64_Phdr *p = (const Elf64_Phdr *)(bytes + e->e_phoff);
  uint64_t end = 0;
  for (unsigned i = 0; i < e->e_phnum; i++)
    if (p[i].p_type == PT_LOAD && p[i].p_vaddr + p[i].p_memsz > end) end = p[i].p_vaddr + p[i].p_memsz;
  uint8_t *base = mmap(NULL, end, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(base != MAP_FAILED);
  for (unsigned i = 0; i < e->e_phnum; i++)
    if (p[i].p_type == PT_LOAD) memcpy(base + p[i].p_vaddr, bytes + p[i].p_offset, p[i].p_filesz);
  uint32_t index = 0;
  for (const Elf64_Shdr *s; (s = mapping_section(bytes, SHT_RELA, index, &index)); index++)
    for (uint64_t at = 0; at < s->sh_size; at += sizeof(Elf64_Rela)) {
      const Elf64_Rela *r = (const Elf64_Rela *)(bytes + s->sh_offset + at);
      CHECK_INT(ELF64_R_TYPE(r->r_info), R_X86_64_RELATIVE);
      uint64_t value = (uint64_t)base + (uint64_t)r->r_addend;
      memcpy(base + r->r_offset, &value, 8);
    }
  union {
    void *data;
    kiln_host_kernel *code;
  } kernel = {.data = base + mapping_symbol(bytes, symbol)};
  return kernel.code;
}

/// Runs all programs of a grid one after another; returns the first result that is not 0.
static inline int32_t mapping_run(kiln_host_kernel *kernel, const void *args, const uint32_t grid[3],
                                  uint32_t scratch_bytes) {
  void *scratch = NULL;
  if (scratch_bytes) {
    scratch = mmap(NULL, scratch_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(scratch != MAP_FAILED);
  }
  int32_t result = 0;
  uint32_t id[3];
  for (id[2] = 0; id[2] < grid[2]; id[2]++)
    for (id[1] = 0; id[1] < grid[1]; id[1]++)
      for (id[0] = 0; id[0] < grid[0] && !result; id[0]++) result = kernel(args, id, grid, scratch);
  if (scratch) munmap(scratch, scratch_bytes);
  return result;
}

/// True when this machine runs code for the target.
static inline bool mapping_can_run(const char *target) {
#if defined(__x86_64__)
  if (!strcmp(target, "x86-64-v2")) return true;
  if (!strcmp(target, "x86-64-v3")) return __builtin_cpu_supports("x86-64-v3");
  if (!strcmp(target, "x86-64-v4")) return __builtin_cpu_supports("x86-64-v4");
#endif
  (void)target;
  return false;
}

#endif
