// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The identity of this code generator: LLVM's version and the build-id of the program or library that this
// code is in.
#include <elf.h>
#include <link.h>
#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "compiler/codegen.h"

static char fingerprint[160];

// Writes the hex of a build-id note in one PT_NOTE segment; false when it is not there.
static bool build_id_of(const uint8_t *at, size_t left, char *out, size_t capacity) {
  while (left >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof note);
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3, bytes = ((size_t)note.n_descsz + 3) & ~(size_t)3;
    if (name + bytes > left - sizeof note) return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at + sizeof note, "GNU", 4) == 0) {
      for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < capacity; i++)
        snprintf(out + 2 * i, 3, "%02x", at[sizeof note + name + i]);
      return true;
    }
    at += sizeof note + name + bytes, left -= sizeof note + name + bytes;
  }
  return false;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type == PT_LOAD && address - (info->dlpi_addr + h->p_vaddr) < h->p_memsz) return true;
  }
  return false;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *p) {
  (void)size;
  if (!holds(info, (uintptr_t)&kiln_codegen_fingerprint)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type == PT_NOTE &&
        build_id_of((const uint8_t *)(info->dlpi_addr + h->p_vaddr), h->p_memsz, p, 2 * 40 + 1))
      break;
  }
  return 1;
}

static void make_fingerprint(void) {
  char build_id[2 * 40 + 1] = "none";
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  dl_iterate_phdr(look_at_object, build_id);
  snprintf(fingerprint, sizeof fingerprint, "llvm=%u.%u.%u build-id=%s", major, minor, patch, build_id);
}

const char *kiln_codegen_fingerprint(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_fingerprint);
  return fingerprint;
}
