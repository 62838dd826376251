// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Defines functions of glibc 2.35 and 2.36 that libraries in kiln-codegen and kiln-tool call, so that both
// programs start where glibc is 2.34: LLVM's support library and libarchive call arc4random, the unwinder
// of GCC 12 _dl_find_object. The program's own definitions come before those of libc.
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

// As <dlfcn.h> of 2.35 has it; older headers have none.
struct found_object {
  unsigned long long flags;
  void *start, *end;
  struct link_map *link_map;
  void *eh_frame;
  unsigned long long reserved[7];
};

uint32_t old_libc_random(void) __asm__("arc4random");
void old_libc_random_bytes(void *out, size_t size) __asm__("arc4random_buf");
int old_libc_find_object(void *address, struct found_object *out) __asm__("_dl_find_object");

void old_libc_random_bytes(void *out, size_t size) {
  for (uint8_t *at = out; size;) {
    ssize_t given = getrandom(at, size, 0);
    if (given <= 0) continue; // a signal came
    at += given;
    size -= (size_t)given;
  }
}

uint32_t old_libc_random(void) {
  uint32_t number;
  old_libc_random_bytes(&number, sizeof number);
  return number;
}

typedef struct search {
  uintptr_t address;
  struct found_object *out;
} search;

static int look(struct dl_phdr_info *info, size_t size, void *user) {
  (void)size;
  const search *s = user;
  const ElfW(Phdr) *inside = NULL, *frames = NULL;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && s->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) inside = p;
    if (p->p_type == PT_GNU_EH_FRAME) frames = p;
  }
  if (!inside || !frames) return 0;
  *s->out = (struct found_object){.eh_frame = (void *)(info->dlpi_addr + frames->p_vaddr)};
  s->out->start = (void *)(info->dlpi_addr + inside->p_vaddr);
  s->out->end = (char *)s->out->start + inside->p_memsz;
  return 1;
}

int old_libc_find_object(void *address, struct found_object *out) {
  search s = {(uintptr_t)address, out};
  return dl_iterate_phdr(look, &s) ? 0 : -1;
}
