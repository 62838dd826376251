// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that is freed all at once. One arena a compilation, one scratch arena a stage. Not thread safe.
#ifndef KILN_BASE_ARENA_H
#define KILN_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kiln_arena kiln_arena;

/// An empty arena whose functions call `exhausted`, which does not return, when memory is exhausted. With
/// NULL they return NULL then, and from then on (kiln_arena_failed): what a library needs. NULL when memory
/// is exhausted.
kiln_arena *kiln_arena_create_with(void (*exhausted)(size_t size));
/// One that ends the process with a message: a compile runs in a worker whose death is an error of that
/// kernel only. Never returns NULL. arena_fatal.c, which libkiln does not link.
kiln_arena *kiln_arena_create(void);
/// True when memory was exhausted.
bool kiln_arena_failed(const kiln_arena *arena);
/// Frees the arena and all that was taken from it. NULL is allowed.
void kiln_arena_destroy(kiln_arena *arena);

/// `size` zeroed bytes aligned to 16; not NULL for size 0.
void *kiln_arena_alloc(kiln_arena *arena, size_t size);
/// `count` zeroed elements of `size` bytes; the product is checked.
void *kiln_arena_array(kiln_arena *arena, size_t count, size_t size);
/// A copy of `size` bytes.
void *kiln_arena_copy(kiln_arena *arena, const void *bytes, size_t size);
/// A copy of a text of `length` bytes, ended by a NUL.
char *kiln_arena_text(kiln_arena *arena, const char *text, size_t length);
/// A formatted text.
char *kiln_arena_format(kiln_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define KILN_NEW(arena, type) ((type *)kiln_arena_alloc((arena), sizeof(type)))
#define KILN_NEW_ARRAY(arena, type, count) ((type *)kiln_arena_array((arena), (count), sizeof(type)))

/// Grows an arena array `items` of `count` used and `capacity` allocated elements so that one more fits. An
/// arena that returns NULL is to be asked with kiln_arena_failed before the element is written; `items` stays
/// then.
#define KILN_GROW(arena, items, count, capacity) \
  ((count) < (capacity)                          \
       ? (void)0                                 \
       : (void)((items) = kiln_arena_grow((arena), (items), (count), &(capacity), sizeof *(items))))
void *kiln_arena_grow(kiln_arena *arena, void *items, size_t count, uint32_t *capacity, size_t size);

#endif
