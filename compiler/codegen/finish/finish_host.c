// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The promises of a host object, checked after linking: libkiln maps it without a dynamic linker.
#include <inttypes.h>
#include <string.h>

#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/finish/finish_elf.h"

static kiln_status refuse(kiln_error *err, const char *symbol, const char *what, const char *detail) {
  return kiln_fail(err, KILN_STATUS_CORRUPT, "host object of %s: %s%s", symbol, what, detail);
}

// Every symbol but the first, which is empty, is defined; the kernel is among them.
static kiln_status check_symbols(const elf_file *file, const char *symbol, kiln_error *err) {
  elf_section table, strings;
  bool found = false;
  if (!elf_section_find(file, NULL, SHT_DYNSYM, &table) || !elf_section_at(file, table.link, &strings))
    return refuse(err, symbol, "expected a dynamic symbol table, found none", "");
  for (size_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= table.bytes.size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym s;
    memcpy(&s, table.bytes.bytes + at, sizeof s);
    const char *name = elf_text(strings.bytes, s.st_name);
    if (s.st_shndx == SHN_UNDEF) return refuse(err, symbol, "expected no undefined symbols, found ", name);
    found = found || strcmp(name, symbol) == 0;
  }
  return found ? KILN_OK : refuse(err, symbol, "expected it to be exported, but it is not", "");
}

static kiln_status check_relocations(const elf_file *file, const char *symbol, kiln_error *err) {
  for (uint32_t i = 0; i < file->section_count; i++) {
    elf_section s;
    if (!elf_section_at(file, i, &s) || s.type != SHT_RELA) continue;
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= s.bytes.size; at += sizeof(Elf64_Rela)) {
      Elf64_Rela r;
      memcpy(&r, s.bytes.bytes + at, sizeof r);
      uint32_t type = ELF64_R_TYPE(r.r_info);
      if (type != R_X86_64_RELATIVE && type != R_AARCH64_RELATIVE)
        return kiln_fail(err, KILN_STATUS_CORRUPT,
                         "host object of %s: expected relative relocations only, found type %" PRIu32
                         " in %s",
                         symbol, type, s.name);
    }
  }
  return KILN_OK;
}

// Entries of the dynamic section that ask for a dynamic linker's work.
static kiln_status check_dynamic(const elf_file *file, const char *symbol, kiln_error *err) {
  static const struct {
    int64_t tag;
    const char *name;
  } refused[] = {
      {DT_NEEDED, "DT_NEEDED"},         {DT_INIT, "DT_INIT"},     {DT_FINI, "DT_FINI"},
      {DT_INIT_ARRAY, "DT_INIT_ARRAY"}, {DT_JMPREL, "DT_JMPREL"}, {DT_FINI_ARRAY, "DT_FINI_ARRAY"},
      {DT_TEXTREL, "DT_TEXTREL"},       {DT_REL, "DT_REL"},       {DT_PREINIT_ARRAY, "DT_PREINIT_ARRAY"}};
  elf_section s;
  if (!elf_section_find(file, NULL, SHT_DYNAMIC, &s))
    return refuse(err, symbol, "expected a dynamic section, found none", "");
  for (size_t at = 0; at + sizeof(Elf64_Dyn) <= s.bytes.size; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn d;
    memcpy(&d, s.bytes.bytes + at, sizeof d);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
      if (d.d_tag == refused[i].tag) return refuse(err, symbol, "expected no ", refused[i].name);
  }
  return KILN_OK;
}

kiln_status kiln_finish_check_host(const uint8_t *object, size_t size, const char *symbol, kiln_error *err) {
  elf_file file;
  if (!elf_open(object, size, &file)) return refuse(err, symbol, "expected an ELF file", "");
  if (!elf_is_whole(&file)) return refuse(err, symbol, "expected all sections and segments inside of it", "");
  KILN_TRY(check_symbols(&file, symbol, err));
  KILN_TRY(check_relocations(&file, symbol, err));
  return check_dynamic(&file, symbol, err);
}
