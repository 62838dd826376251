// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements arenas: memory is handed out from blocks that grow, and all of it is freed at once.
#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct chunk {
  struct chunk *next; // owned; older chunk
  size_t size, used;  // of `bytes`
  _Alignas(16) char bytes[];
} chunk;

struct kiln_arena {
  chunk *top; // owned
  bool failed;
  void (*exhausted)(size_t size); // may be NULL
};

enum { FIRST_CHUNK = 16 << 10, LARGEST_STEP = 4 << 20 };

static void *fail(kiln_arena *arena, size_t size) {
  arena->failed = true;
  if (arena->exhausted) arena->exhausted(size);
  return NULL;
}

kiln_arena *kiln_arena_create_with(void (*exhausted)(size_t size)) {
  kiln_arena *arena = calloc(1, sizeof *arena);
  if (arena) arena->exhausted = exhausted;
  return arena;
}

bool kiln_arena_failed(const kiln_arena *arena) { return arena->failed; }

void kiln_arena_destroy(kiln_arena *arena) {
  chunk *next = arena ? arena->top : NULL;
  for (chunk *c = next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(arena);
}

static chunk *push(kiln_arena *arena, size_t least) {
  size_t size = arena->top ? arena->top->size * 2 : FIRST_CHUNK;
  if (size > LARGEST_STEP) size = LARGEST_STEP;
  if (size < least) size = least;
  chunk *c = malloc(sizeof(chunk) + size);
  if (!c) return fail(arena, size);
  c->next = arena->top;
  c->size = size;
  c->used = 0;
  return arena->top = c;
}

void *kiln_arena_alloc(kiln_arena *arena, size_t size) {
  if (arena->failed || size > SIZE_MAX / 2) return fail(arena, size);
  size = (size + 15) & ~(size_t)15;
  chunk *c = arena->top;
  if (!c || c->size - c->used < size) c = push(arena, size);
  if (!c) return NULL;
  void *at = c->bytes + c->used;
  c->used += size;
  return memset(at, 0, size);
}

void *kiln_arena_array(kiln_arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return fail(arena, SIZE_MAX);
  return kiln_arena_alloc(arena, bytes);
}

void *kiln_arena_copy(kiln_arena *arena, const void *bytes, size_t size) {
  void *at = kiln_arena_array(arena, size, 1);
  if (at && size) memcpy(at, bytes, size);
  return at;
}

char *kiln_arena_text(kiln_arena *arena, const char *text, size_t length) {
  char *at = kiln_arena_alloc(arena, length + 1);
  if (at && length) memcpy(at, text, length);
  return at;
}

char *kiln_arena_format(kiln_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *at = kiln_arena_alloc(arena, (size_t)(length < 0 ? 0 : length) + 1);
  if (at && length > 0) vsnprintf(at, (size_t)length + 1, format, again);
  va_end(again);
  return at;
}

void *kiln_arena_grow(kiln_arena *arena, void *items, size_t count, uint32_t *capacity, size_t size) {
  uint32_t wanted = *capacity ? *capacity * 2 : 8;
  void *bigger = kiln_arena_array(arena, wanted, size);
  if (!bigger) return items;
  if (count) memcpy(bigger, items, count * size);
  *capacity = wanted;
  return bigger;
}
