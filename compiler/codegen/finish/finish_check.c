// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an assembler or linker wrote is read back before anybody keeps it: a tool that ran out of disk, was
// killed or is broken may leave a file that is empty, cut or of another kernel, and still end with 0.
//
// Cubins: the PTX that went in says what must come out. The section .nv.info.KERNEL lists attributes, each
// a form (1..3: no, 8 or 16 bits of value in the last two bytes; 4: a size in them, and that many bytes), a
// number and a value:
//
//   0x0a, form 4: where parameters lie: u32 symbol, u16 address, u16 bytes; alignment counts from address 0
//   0x17, form 4: one parameter: u32 0, u16 place in the list, u16 offset, u32 with the size from bit 18 on
//   0x19, form 3: bytes of all parameters
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen/finish/finish.h"
#include "compiler/codegen/finish/finish_elf.h"

enum {
  NAME = 1024,
  MACHINE_CUDA = 190,
  FORM_16 = 3,
  FORM_BYTES = 4,
  BANK = 0x0a,
  ONE_PARAMETER = 0x17,
  ALL_PARAMETERS = 0x19
};
enum { DESCRIPTOR = 64, DESCRIPTOR_ARGUMENTS = 8 }; // of AMDGPU: its size, where the bytes of arguments stand

static kiln_status refuse(kiln_error *err, const char *what, const char *symbol, const char *why) {
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s of %s: %s", what, symbol, why);
}

// ----------------------------------------------------------------------------------------- symbols

/// Finds a defined symbol with all of its bytes in its section.
static bool find_symbol(const elf_file *file, uint32_t table_type, const char *name, Elf64_Sym *out,
                        elf_section *out_section) {
  elf_section table, strings;
  if (!elf_section_find(file, NULL, table_type, &table) || !elf_section_at(file, table.link, &strings))
    return false;
  for (size_t at = 0; at + sizeof *out <= table.bytes.size; at += sizeof *out) {
    memcpy(out, table.bytes.bytes + at, sizeof *out);
    if (out->st_shndx != SHN_UNDEF && !strcmp(elf_text(strings.bytes, out->st_name), name))
      return elf_section_at(file, out->st_shndx, out_section) && out->st_size &&
             out->st_size <= out_section->bytes.size;
  }
  return false;
}

// --------------------------------------------------------------------------------------------- PTX

static const char *skip_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

static size_t word_length(const char *at) {
  return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$%.");
}

/// Bytes of ".u64", ".b8", ...; 0 for other words.
static uint32_t type_bytes(const char *word, size_t length) {
  if (length < 3 || length > 4 || !strchr("bsuf", word[1])) return 0;
  unsigned long bits = strtoul(word + 2, NULL, 10);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? (uint32_t)bits / 8 : 0;
}

typedef struct parameter {
  uint32_t size, align;
} parameter;

/// ".param .align 64 .b8 k_param_0[128]", with any marks between type and name. Moves `at` after it.
static parameter read_parameter(const char **at) {
  parameter p = {0, 0};
  const char *s = *at;
  for (size_t length; *s && *s != ',' && *s != ')'; s += length) {
    s = skip_blanks(s);
    length = word_length(s);
    if (*s == '[') p.size *= (uint32_t)strtoul(s + 1, NULL, 10), length = strcspn(s, "]") + 1;
    else if (length == 6 && !memcmp(s, ".align", 6) && !p.size) p.align = (uint32_t)strtoul(s + 6, NULL, 10);
    else if (!p.size) p.size = type_bytes(s, length);
    if (!length && *s && *s != ',' && *s != ')') length = 1;
  }
  if (!p.align) p.align = p.size;
  *at = s;
  return p;
}

// ------------------------------------------------------------------------------------------ cubins

typedef struct attribute {
  uint8_t form, number;
  uint32_t value;       // or the size of `bytes`
  const uint8_t *bytes; // of form FORM_BYTES
} attribute;

/// False at the end of the list, or where it is damaged.
static bool next_attribute(kiln_reader *r, attribute *out) {
  if (!r->left) return false;
  out->form = kiln_read_u8(r), out->number = kiln_read_u8(r);
  out->value = kiln_read_u8(r);
  out->value |= (uint32_t)kiln_read_u8(r) << 8;
  out->bytes = out->form == FORM_BYTES ? kiln_read_bytes(r, out->value) : NULL;
  return !r->failed;
}

/// Where the parameters begin, and how many bytes they have.
static void find_bank(kiln_span list, uint32_t *out_base, uint32_t *out_size) {
  kiln_reader r = kiln_reader_of(list.bytes, list.size);
  *out_base = *out_size = 0;
  for (attribute a; next_attribute(&r, &a);) {
    if (a.form == FORM_16 && a.number == ALL_PARAMETERS) *out_size = a.value;
    if (a.bytes && a.number == BANK && a.value == 8) *out_base = a.bytes[4] | (uint32_t)a.bytes[5] << 8;
  }
}

static bool find_parameter(kiln_span list, uint32_t place, uint32_t *out_offset, uint32_t *out_size) {
  kiln_reader r = kiln_reader_of(list.bytes, list.size);
  for (attribute a; next_attribute(&r, &a);) {
    if (!a.bytes || a.number != ONE_PARAMETER || a.value != 12) continue;
    kiln_reader one = kiln_reader_of(a.bytes, a.value);
    (void)kiln_read_u32(&one);
    uint32_t ordinal = kiln_read_u32(&one), size = kiln_read_u32(&one) >> 18;
    if ((ordinal & 0xffff) == place) return *out_offset = ordinal >> 16, *out_size = size, true;
  }
  return false;
}

static kiln_status check_parameters(kiln_span list, const char *symbol, const char **at, kiln_error *err) {
  uint32_t base, all, end = 0, offset = 0, size = 0, place = 0;
  find_bank(list, &base, &all);
  for (const char *s = skip_blanks(*at); *s && *s != ')' && *s != '{'; s = skip_blanks(*at), place++) {
    *at = *s == ',' ? s + 1 : s;
    parameter p = read_parameter(at);
    if (!p.size || !p.align) return refuse(err, "PTX", symbol, "a parameter has no type");
    end = (base + end + p.align - 1) / p.align * p.align - base;
    if (!find_parameter(list, place, &offset, &size) || offset != end || size != p.size)
      return kiln_fail(err, KILN_STATUS_CORRUPT,
                       "cubin of %s: expected parameter %" PRIu32 " to have %" PRIu32 " bytes at %" PRIu32
                       ", found %" PRIu32 " at %" PRIu32,
                       symbol, place, p.size, end, size, offset);
    end += p.size;
  }
  if (end != all)
    return kiln_fail(err, KILN_STATUS_CORRUPT,
                     "cubin of %s: expected %" PRIu32 " bytes of parameters, found %" PRIu32, symbol, end,
                     all);
  return KILN_OK;
}

/// One kernel that the PTX declares; `at` is after ".entry" and moves after its parameters.
static kiln_status check_entry(const elf_file *file, const char **at, kiln_error *err) {
  char symbol[NAME], section[NAME + 16] = ".nv.info.";
  elf_section code, info;
  Elf64_Sym s;
  *at = skip_blanks(*at);
  size_t length = word_length(*at);
  if (length >= sizeof symbol)
    return kiln_fail(err, KILN_STATUS_LIMIT, "a kernel's name has %zu bytes, at most %d are taken", length,
                     NAME - 1);
  memcpy(symbol, *at, length);
  symbol[length] = 0;
  if (!find_symbol(file, SHT_SYMTAB, symbol, &s, &code) || ELF64_ST_TYPE(s.st_info) != STT_FUNC ||
      !(code.flags & SHF_EXECINSTR))
    return refuse(err, "cubin", symbol, "expected its code, found none");
  if (!elf_section_find(file, strcat(section, symbol), 0, &info))
    return refuse(err, "cubin", symbol, "expected a section of its attributes, found none");
  *at = skip_blanks(*at + length);
  if (**at == '(') ++*at; // a kernel without parameters may have no list
  return check_parameters(info.bytes, symbol, at, err);
}

kiln_status kiln_finish_check_cubin(const uint8_t *cubin, size_t size, const char *ptx, kiln_error *err) {
  static const char word[] = ".entry ";
  elf_file file;
  if (!elf_open(cubin, size, &file))
    return kiln_fail(err, KILN_STATUS_CORRUPT, "cubin: expected an ELF file, found %zu bytes of none", size);
  Elf64_Ehdr header;
  memcpy(&header, cubin, sizeof header);
  if (header.e_machine != MACHINE_CUDA)
    return kiln_fail(err, KILN_STATUS_CORRUPT, "cubin: expected machine %d, found %u", MACHINE_CUDA,
                     header.e_machine);
  if (!elf_is_whole(&file))
    return kiln_fail(err, KILN_STATUS_CORRUPT,
                     "cubin: expected all sections and segments inside of %zu bytes", size);
  for (const char *at = strstr(ptx, word); at; at = strstr(at, word)) {
    at += sizeof word - 1;
    KILN_TRY(check_entry(&file, &at, err));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ AMDGPU

kiln_status kiln_finish_check_amdgpu(const uint8_t *object, size_t size, const char *symbol,
                                     const kiln_amdgpu_facts *facts, kiln_error *err) {
  char name[NAME + 4];
  elf_file file;
  elf_section code, data;
  Elf64_Sym s;
  if (!elf_open(object, size, &file)) return refuse(err, "code object", symbol, "expected an ELF file");
  if (!elf_is_whole(&file))
    return refuse(err, "code object", symbol, "expected all sections and segments inside of it");
  if (!find_symbol(&file, SHT_DYNSYM, symbol, &s, &code) || !(code.flags & SHF_EXECINSTR))
    return refuse(err, "code object", symbol, "expected its code, found none");
  int length = snprintf(name, sizeof name, "%s.kd", symbol);
  if (length >= (int)sizeof name || !find_symbol(&file, SHT_DYNSYM, name, &s, &data) ||
      s.st_size != DESCRIPTOR || s.st_value < data.address ||
      s.st_value - data.address > data.bytes.size - DESCRIPTOR)
    return refuse(err, "code object", symbol, "expected a descriptor of 64 bytes, found none");
  kiln_reader r =
      kiln_reader_of(data.bytes.bytes + (s.st_value - data.address) + DESCRIPTOR_ARGUMENTS, sizeof(uint32_t));
  uint32_t found = kiln_read_u32(&r);
  return found == facts->kernarg_bytes
             ? KILN_OK
             : kiln_fail(err, KILN_STATUS_CORRUPT,
                         "code object of %s: expected %" PRIu32 " bytes of arguments, found %" PRIu32, symbol,
                         facts->kernarg_bytes, found);
}
