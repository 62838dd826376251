// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The names of a module, each once. Reserved words and element types are in the table from the start.
#include <string.h>

#include "compiler/front/lex.h"

enum { FIRST_BUCKETS = 256 };

static const struct word {
  char text[12];
  uint8_t length, kind;
} words[] = {
#define TOKEN(name, text)
#define KEYWORD(name, text) {text, sizeof text - 1, KILN_TOKEN_##name},
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD
};
#define TOKEN(name, text)
#define KEYWORD(name, word) _Static_assert(sizeof word <= sizeof words->text, "it has room: " word);
#include "compiler/front/token.def"
#undef TOKEN
#undef KEYWORD

static uint32_t hash_of(const char *text, size_t length) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < length; i++) h = (h ^ (uint8_t)text[i]) * 16777619u;
  return h;
}

static kiln_atom *look(const kiln_atoms *atoms, const char *text, size_t length, uint32_t hash) {
  for (kiln_atom *a = atoms->buckets[hash & (atoms->bucket_count - 1)]; a; a = a->next)
    if (a->hash == hash && a->length == length && !memcmp(a->text, text, length)) return a;
  return NULL;
}

static void grow(kiln_atoms *atoms) {
  uint32_t count = atoms->bucket_count * 4;
  kiln_atom **buckets = KILN_NEW_ARRAY(atoms->arena, kiln_atom *, count);
  for (uint32_t i = 0; i < atoms->bucket_count; i++) {
    for (kiln_atom *a = atoms->buckets[i], *next; a; a = next) {
      next = a->next;
      a->next = buckets[a->hash & (count - 1)];
      buckets[a->hash & (count - 1)] = a;
    }
  }
  atoms->buckets = buckets;
  atoms->bucket_count = count;
}

kiln_atom *kiln_atoms_find(const kiln_atoms *atoms, const char *text, size_t length) {
  return look(atoms, text, length, hash_of(text, length));
}

kiln_atom *kiln_atoms_get(kiln_atoms *atoms, const char *text, size_t length) {
  uint32_t hash = hash_of(text, length);
  kiln_atom *a = look(atoms, text, length, hash);
  if (a) return a;
  if (atoms->count >= atoms->bucket_count) grow(atoms);
  a = KILN_NEW(atoms->arena, kiln_atom);
  *a = (kiln_atom){.text = kiln_arena_text(atoms->arena, text, length),
                   .length = (uint32_t)length,
                   .hash = hash,
                   .id = atoms->count++};
  kiln_atom **bucket = &atoms->buckets[hash & (atoms->bucket_count - 1)];
  a->next = *bucket;
  return *bucket = a;
}

void kiln_atoms_init(kiln_atoms *atoms, kiln_arena *arena) {
  *atoms = (kiln_atoms){.arena = arena, .bucket_count = FIRST_BUCKETS};
  atoms->buckets = KILN_NEW_ARRAY(arena, kiln_atom *, FIRST_BUCKETS);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    kiln_atoms_get(atoms, words[i].text, words[i].length)->keyword = words[i].kind;
  for (unsigned i = 0; i < KILN_SCALAR_COUNT; i++) {
    kiln_atom *a = kiln_atoms_get(atoms, kiln_scalars[i].spelling, strlen(kiln_scalars[i].spelling));
    a->keyword = KILN_TOKEN_SCALAR;
    a->scalar = (uint8_t)i;
  }
}
