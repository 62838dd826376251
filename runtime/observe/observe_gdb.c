// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names host kernels for gdb, by its interface for JIT compilers: a list of objects in memory, and a function
// that gdb stops in when the list changes. An object is an ELF with the place of the code and one symbol.
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/observe/observe.h"

// ---------------------------------------------------------------------------------------- the interface

typedef struct jit_entry {
  struct jit_entry *next, *previous;
  const char *object;
  uint64_t size;
} jit_entry;

struct jit_descriptor {
  uint32_t version, action;
  jit_entry *relevant, *first;
};
enum { NOTHING, REGISTER, UNREGISTER };

// By these names. The function is not to be optimised away: gdb has a breakpoint in it.
KILN_API struct jit_descriptor __jit_debug_descriptor;
struct jit_descriptor __jit_debug_descriptor = {.version = 1};
KILN_API void __jit_debug_register_code(void);
__attribute__((noinline)) void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }

// ------------------------------------------------------------------------------------------- an object

enum { NO_SECTION, TEXT, SYMBOLS, STRINGS, SECTIONS };
enum { NAME_TEXT = 1, NAME_SYMBOLS = 7, NAME_STRINGS = 15 };     // where names of sections begin, below
static const char fixed_strings[] = "\0.text\0.symtab\0.strtab"; // its NUL ends the last
enum { NAME_KERNEL = sizeof fixed_strings };

typedef struct object {
  jit_entry entry;
  const void *function; // what UNLOAD names it by
  struct {
    Elf64_Ehdr head;
    Elf64_Shdr sections[SECTIONS];
    Elf64_Sym symbols[2];
    char strings[NAME_KERNEL + 512];
  } elf;
} object;

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_AARCH64 };
#endif

static object *create(const kiln_event *e, const host_code *code) {
  object *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->function = e->function;
  o->entry.object = (const char *)&o->elf;
  o->entry.size = sizeof o->elf;
  Elf64_Ehdr *head = &o->elf.head;
  memcpy(head->e_ident, ELFMAG, SELFMAG);
  head->e_ident[EI_CLASS] = ELFCLASS64;
  head->e_ident[EI_DATA] = ELFDATA2LSB;
  head->e_ident[EI_VERSION] = head->e_version = EV_CURRENT;
  head->e_type = ET_REL; // symbols are counted from the section's address
  head->e_machine = MACHINE;
  head->e_ehsize = sizeof *head;
  head->e_shoff = offsetof(object, elf.sections) - offsetof(object, elf);
  head->e_shentsize = sizeof(Elf64_Shdr);
  head->e_shnum = SECTIONS;
  head->e_shstrndx = STRINGS;
  memcpy(o->elf.strings, fixed_strings, sizeof fixed_strings);
  observe_name(e, o->elf.strings + NAME_KERNEL, sizeof o->elf.strings - NAME_KERNEL);
  o->elf.sections[TEXT] = (Elf64_Shdr){.sh_name = NAME_TEXT,
                                       .sh_type = SHT_NOBITS,
                                       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                       .sh_addr = (uintptr_t)code->begin,
                                       .sh_size = code->size,
                                       .sh_addralign = 16};
  o->elf.sections[SYMBOLS] = (Elf64_Shdr){.sh_name = NAME_SYMBOLS,
                                          .sh_type = SHT_SYMTAB,
                                          .sh_offset = offsetof(object, elf.symbols) - offsetof(object, elf),
                                          .sh_size = sizeof o->elf.symbols,
                                          .sh_link = STRINGS,
                                          .sh_info = 1,
                                          .sh_addralign = 8,
                                          .sh_entsize = sizeof(Elf64_Sym)};
  o->elf.sections[STRINGS] = (Elf64_Shdr){.sh_name = NAME_STRINGS,
                                          .sh_type = SHT_STRTAB,
                                          .sh_offset = offsetof(object, elf.strings) - offsetof(object, elf),
                                          .sh_size = sizeof o->elf.strings,
                                          .sh_addralign = 1};
  o->elf.symbols[1] = (Elf64_Sym){.st_name = NAME_KERNEL,
                                  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                  .st_shndx = TEXT,
                                  .st_size = code->size};
  return o;
}

// ------------------------------------------------------------------------------------------- the list

static void tell_gdb(uint32_t action, jit_entry *entry) {
  __jit_debug_descriptor.action = action;
  __jit_debug_descriptor.relevant = entry;
  __jit_debug_register_code();
  __jit_debug_descriptor.action = NOTHING;
  __jit_debug_descriptor.relevant = NULL;
}

static void link_in(object *o) {
  jit_entry *first = __jit_debug_descriptor.first;
  o->entry.next = first;
  if (first) first->previous = &o->entry;
  __jit_debug_descriptor.first = &o->entry;
  tell_gdb(REGISTER, &o->entry);
}

static void unlink_it(object *o) {
  jit_entry *next = o->entry.next, *previous = o->entry.previous;
  if (next) next->previous = previous;
  *(previous ? &previous->next : &__jit_debug_descriptor.first) = next;
  tell_gdb(UNREGISTER, &o->entry);
  free(o);
}

void observe_gdb(const kiln_event *e) {
  host_code code;
  object *made = e->kind == KILN_EVENT_LOADED && observe_host_code(e, &code) ? create(e, &code) : NULL;
  observe_lock();
  if (made) link_in(made);
  for (jit_entry *entry = e->kind == KILN_EVENT_UNLOAD ? __jit_debug_descriptor.first : NULL, *next; entry;
       entry = next) {
    next = entry->next;
    if (((object *)entry)->function == e->function) unlink_it((object *)entry);
  }
  observe_unlock();
}

void observe_gdb_end(void) {
  observe_lock();
  for (jit_entry *entry = __jit_debug_descriptor.first, *next; entry; entry = next) {
    next = entry->next;
    unlink_it((object *)entry);
  }
  observe_unlock();
}
