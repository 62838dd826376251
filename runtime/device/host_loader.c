// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps the shared objects of the host back end into memory, applies their relative relocations and sets the
// protection of pages.
#include "runtime/device/host_loader.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/record.h"
#include "runtime/more/more.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, RELATIVE = R_X86_64_RELATIVE };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64, RELATIVE = R_AARCH64_RELATIVE };
#else
#error "libkiln runs host kernels on x86-64 and aarch64"
#endif

enum { MOST_SEGMENTS = 64, MOST_IMAGE = 1 << 30 };

typedef struct image {
  const uint8_t *file;
  size_t file_size;
  const Elf64_Phdr *segments; // copied, see read_headers
  unsigned segment_count;
  uint8_t *base;
  size_t span; // bytes of the mapping
} image;

static kiln_status bad(kiln_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static kiln_status bad(kiln_error *err, const char *format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  __builtin_vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return kiln_fail(err, KILN_STATUS_CORRUPT, "host object: %s", text);
}

typedef unsigned long long ull;

static kiln_status read_headers(image *im, Elf64_Phdr *segments, kiln_error *err) {
  Elf64_Ehdr h;
  if (im->file_size < sizeof h) return bad(err, "%zu bytes, an ELF header has %zu", im->file_size, sizeof h);
  memcpy(&h, im->file, sizeof h);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_ident[EI_DATA] != ELFDATA2LSB)
    return bad(err, "not a little-endian 64-bit ELF file");
  if (h.e_machine != MACHINE)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "host object: machine %u, this is %d", h.e_machine,
                     MACHINE);
  if (h.e_type != ET_DYN) return bad(err, "type %u, expected a shared object (%d)", h.e_type, ET_DYN);
  if (h.e_phentsize != sizeof(Elf64_Phdr) || !h.e_phnum || h.e_phnum > MOST_SEGMENTS)
    return bad(err, "%u program headers of %u bytes", h.e_phnum, h.e_phentsize);
  size_t bytes = h.e_phnum * sizeof(Elf64_Phdr);
  if (h.e_phoff > im->file_size || bytes > im->file_size - h.e_phoff)
    return bad(err, "program headers at %llu are outside", (ull)h.e_phoff);
  memcpy(segments, im->file + h.e_phoff, bytes);
  im->segments = segments;
  im->segment_count = h.e_phnum;
  return KILN_OK;
}

static kiln_status measure(image *im, size_t page, kiln_error *err) {
  im->span = 0;
  for (unsigned i = 0; i < im->segment_count; i++) {
    const Elf64_Phdr *s = &im->segments[i];
    if (s->p_type == PT_TLS || s->p_type == PT_INTERP)
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "host object: a segment of type %u is not supported",
                       s->p_type);
    if (s->p_type != PT_LOAD) continue;
    if (s->p_memsz > MOST_IMAGE || s->p_vaddr > MOST_IMAGE || s->p_filesz > s->p_memsz ||
        s->p_offset > im->file_size || s->p_filesz > im->file_size - s->p_offset)
      return bad(err, "segment %u (%llu of %llu bytes at %llu, file offset %llu) is outside", i,
                 (ull)s->p_filesz, (ull)s->p_memsz, (ull)s->p_vaddr, (ull)s->p_offset);
    if ((s->p_flags & (PF_W | PF_X)) == (PF_W | PF_X))
      return bad(err, "segment %u can be written and executed", i);
    size_t end = (s->p_vaddr + s->p_memsz + page - 1) & ~(page - 1);
    if (end > im->span) im->span = end;
  }
  return im->span ? KILN_OK : bad(err, "no segment to load");
}

static kiln_status fill(image *im, kiln_error *err) {
  void *base = mmap(NULL, im->span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "host object: mapping %zu bytes: %s", im->span,
                     strerror(errno));
  im->base = base;
  for (unsigned i = 0; i < im->segment_count; i++) {
    const Elf64_Phdr *s = &im->segments[i];
    if (s->p_type == PT_LOAD && s->p_filesz)
      memcpy(im->base + s->p_vaddr, im->file + s->p_offset, s->p_filesz);
  }
  return KILN_OK;
}

static bool inside(const image *im, uint64_t at, uint64_t size) {
  return at <= im->span && size <= im->span - at;
}

typedef struct dynamic {
  uint64_t rela, rela_size, relr, relr_size, symbols, strings, strings_size, hash, gnu_hash, plt_size;
} dynamic;

static kiln_status read_dynamic(const image *im, dynamic *out, kiln_error *err) {
  memset(out, 0, sizeof *out);
  for (unsigned i = 0; i < im->segment_count; i++) {
    const Elf64_Phdr *s = &im->segments[i];
    if (s->p_type != PT_DYNAMIC) continue;
    if (!inside(im, s->p_vaddr, s->p_memsz))
      return bad(err, "the dynamic section at %llu is outside", (ull)s->p_vaddr);
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= s->p_memsz; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn d;
      memcpy(&d, im->base + s->p_vaddr + at, sizeof d);
      if (d.d_tag == DT_NULL) break;
      switch (d.d_tag) {
      case DT_RELA: out->rela = d.d_un.d_ptr; break;
      case DT_RELASZ: out->rela_size = d.d_un.d_val; break;
      case DT_SYMTAB: out->symbols = d.d_un.d_ptr; break;
      case DT_STRTAB: out->strings = d.d_un.d_ptr; break;
      case DT_STRSZ: out->strings_size = d.d_un.d_val; break;
      case DT_HASH: out->hash = d.d_un.d_ptr; break;
      case DT_GNU_HASH: out->gnu_hash = d.d_un.d_ptr; break;
      case DT_PLTRELSZ: out->plt_size = d.d_un.d_val; break;
      case DT_NEEDED: return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "host object: it needs another library");
      case DT_INIT:
      case DT_INIT_ARRAY:
      case DT_FINI:
      case DT_FINI_ARRAY:
        return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "host object: it has constructors or destructors");
      case DT_REL:
      case 36 /* DT_RELR */:
        return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                         "host object: relocations of a kind that is not supported");
      default: break;
      }
    }
  }
  if (out->plt_size)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "host object: it calls through a procedure linkage table");
  return KILN_OK;
}

static kiln_status relocate(const image *im, const dynamic *d, kiln_error *err) {
  if (!inside(im, d->rela, d->rela_size))
    return bad(err, "relocations at %llu + %llu are outside", (ull)d->rela, (ull)d->rela_size);
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= d->rela_size; at += sizeof(Elf64_Rela)) {
    Elf64_Rela r;
    memcpy(&r, im->base + d->rela + at, sizeof r);
    if (ELF64_R_TYPE(r.r_info) != RELATIVE)
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED,
                       "host object: relocation type %u; only relative ones are supported",
                       (unsigned)ELF64_R_TYPE(r.r_info));
    if (!inside(im, r.r_offset, 8) || !inside(im, (uint64_t)r.r_addend, 0))
      return bad(err, "a relocation at %llu to %lld is outside", (ull)r.r_offset, (long long)r.r_addend);
    uint64_t value = (uint64_t)(uintptr_t)im->base + (uint64_t)r.r_addend;
    memcpy(im->base + r.r_offset, &value, sizeof value);
  }
  return KILN_OK;
}

// The number of dynamic symbols, from whichever hash table there is; 0 when neither can be read.
static uint64_t symbol_count(const image *im, const dynamic *d) {
  uint32_t words[4];
  if (d->hash && inside(im, d->hash, 8)) {
    memcpy(words, im->base + d->hash, 8);
    return words[1];
  }
  if (!d->gnu_hash || !inside(im, d->gnu_hash, 16)) return 0;
  memcpy(words, im->base + d->gnu_hash, 16); // buckets, first symbol, bloom words, shift
  uint64_t buckets = d->gnu_hash + 16 + (uint64_t)words[2] * 8, chains = buckets + (uint64_t)words[0] * 4,
           last = 0;
  if (!inside(im, buckets, (uint64_t)words[0] * 4)) return 0;
  for (uint32_t i = 0; i < words[0]; i++) {
    uint32_t first;
    memcpy(&first, im->base + buckets + (uint64_t)i * 4, 4);
    if (first > last) last = first;
  }
  if (last < words[1]) return words[1];
  for (uint32_t end = 0; !(end & 1); last++) {
    uint64_t at = chains + (last - words[1]) * 4;
    if (!inside(im, at, 4)) return 0;
    memcpy(&end, im->base + at, 4);
  }
  return last;
}

static kiln_status find_symbol(const image *im, const dynamic *d, const char *name, void **out,
                               kiln_error *err) {
  uint64_t count = symbol_count(im, d);
  size_t length = strlen(name) + 1;
  if (count > im->span / sizeof(Elf64_Sym) || !inside(im, d->symbols, count * sizeof(Elf64_Sym)) ||
      !inside(im, d->strings, d->strings_size))
    return bad(err, "the symbol table is outside");
  *out = NULL;
  for (uint64_t i = 1; i < count; i++) { // every one is looked at: none may be undefined
    Elf64_Sym s;
    memcpy(&s, im->base + d->symbols + i * sizeof s, sizeof s);
    bool is_named = s.st_name < d->strings_size && length <= d->strings_size - s.st_name &&
                    !memcmp(im->base + d->strings + s.st_name, name, length);
    if (s.st_shndx == SHN_UNDEF)
      return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "host object: it has an undefined symbol (number %llu)",
                       (ull)i);
    if (is_named && inside(im, s.st_value, 1)) *out = im->base + s.st_value;
  }
  return *out ? KILN_OK : bad(err, "no symbol '%s' among %llu", name, (ull)count);
}

// A symbol that an object may have besides its kernel, with `size` bytes after it; NULL without.
static kiln_status find_beside(const image *im, const dynamic *d, const char *symbol, const char *suffix,
                               size_t size, void **out, kiln_error *err) {
  size_t length = strlen(symbol) + strlen(suffix) + 1;
  char *name = malloc(length);
  if (!name) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  snprintf(name, length, "%s%s", symbol, suffix);
  if (find_symbol(im, d, name, out, NULL) != KILN_OK ||
      !inside(im, (uint64_t)((uint8_t *)*out - im->base), size))
    *out = NULL;
  free(name);
  return KILN_OK;
}

static bool is_executable(const image *im, const void *at) {
  uint64_t offset = (uint64_t)((const uint8_t *)at - im->base);
  for (unsigned i = 0; i < im->segment_count; i++) {
    const Elf64_Phdr *s = &im->segments[i];
    if (s->p_type == PT_LOAD && s->p_flags & PF_X && offset >= s->p_vaddr && offset - s->p_vaddr < s->p_memsz)
      return true;
  }
  return false;
}

static kiln_status protect(const image *im, size_t page, kiln_error *err) {
  for (unsigned i = 0; i < im->segment_count; i++) {
    const Elf64_Phdr *s = &im->segments[i];
    if (s->p_type != PT_LOAD && s->p_type != PT_GNU_RELRO) continue;
    uint64_t begin = s->p_vaddr & ~(uint64_t)(page - 1), end = s->p_vaddr + s->p_memsz;
    if (!inside(im, s->p_vaddr, s->p_memsz)) return bad(err, "segment %u is outside", i);
    // What is read-only after relocation ends at a page that it fills.
    end = s->p_type == PT_LOAD ? (end + page - 1) & ~(uint64_t)(page - 1) : end & ~(uint64_t)(page - 1);
    int mode = PROT_READ | (s->p_flags & PF_W && s->p_type == PT_LOAD ? PROT_WRITE : 0) |
               (s->p_flags & PF_X ? PROT_EXEC : 0);
    if (end > begin && mprotect(im->base + begin, end - begin, mode) < 0)
      return kiln_fail(err, kiln_status_of_errno(errno), "host object: protecting %llu bytes: %s",
                       (ull)(end - begin), strerror(errno));
  }
  __builtin___clear_cache((char *)im->base, (char *)im->base + im->span);
  return KILN_OK;
}

// Where libkiln-more is absent, nothing is printed.
static void print_lines(const void *what, const uint32_t program_id[3], const void *elements) {
  kiln_error err;
  (void)kiln_host_print(what, program_id, elements, &err);
}

kiln_status kiln_host_object_map(const uint8_t *bytes, size_t size, const char *symbol, kiln_host_wait *wait,
                                 kiln_host_object *out, void **out_function, kiln_error *err) {
  Elf64_Phdr segments[MOST_SEGMENTS];
  image im = {.file = bytes, .file_size = size};
  dynamic d;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *out = (kiln_host_object){0};
  *out_function = NULL;
  KILN_TRY(read_headers(&im, segments, err));
  KILN_TRY(measure(&im, page, err));
  KILN_TRY(fill(&im, err));
  kiln_status status = read_dynamic(&im, &d, err);
  if (status == KILN_OK) status = relocate(&im, &d, err);
  if (status == KILN_OK) status = find_symbol(&im, &d, symbol, out_function, err);
  if (status == KILN_OK && !is_executable(&im, *out_function))
    status = bad(err, "'%s' is not in an executable segment", symbol);
  void *asserts = NULL, *waits = NULL, *prints = NULL;
  kiln_host_printer *const print = print_lines;
  if (status == KILN_OK) status = find_beside(&im, &d, symbol, KILN_HOST_ASSERTS, 1, &asserts, err);
  if (status == KILN_OK) status = find_beside(&im, &d, symbol, KILN_HOST_WAIT, sizeof wait, &waits, err);
  if (status == KILN_OK) status = find_beside(&im, &d, symbol, KILN_HOST_PRINT, sizeof print, &prints, err);
  if (waits) memcpy(waits, &wait, sizeof wait);
  if (prints) memcpy(prints, &print, sizeof print);
  if (status == KILN_OK) status = protect(&im, page, err);
  *out = (kiln_host_object){im.base, im.span, asserts};
  if (status != KILN_OK) kiln_host_object_unmap(out);
  return status;
}

void kiln_host_object_unmap(kiln_host_object *object) {
  if (object->base) munmap(object->base, object->size);
  *object = (kiln_host_object){0};
}
