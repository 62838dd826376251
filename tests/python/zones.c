// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of malloc with a zone before and after each block, for tests of kernels on arrays that frameworks
// allocate themselves (LD_PRELOAD, support.py). A zone is NaN in every float type, so that what is read there
// shows in a result; a byte of it that changes is found when the block is freed, when kiln_zones_check is
// called, and when the process ends.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // they are the C library's

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { ZONE = 128, LEAST_ALIGNMENT = 16 };
static const uint64_t MARK = 0x6b696c6e7a6f6e65;

/// Before the zone that is before the block.
typedef struct block {
  struct block *next, *previous;
  void *base; ///< of the C library's block
  size_t size;
  uint64_t mark, unused;
} block;

static uint8_t pattern[ZONE];
static block live = {.next = &live, .previous = &live};
static char found[200];
static int lock;

static void take(void) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}
static void give(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

/// Elements of 2, 4 and 8 bytes are NaN, and so are e4m3 and e5m2; half of the bytes are no byte of -1.
static const uint8_t *zone(void) {
  if (!pattern[0])
    for (int i = ZONE - 1; i >= 0; i--) pattern[i] = i % 4 == 1 ? 0x7f : 0xff;
  return pattern;
}

static uint8_t *memory_of(block *b) { return (uint8_t *)(b + 1) + ZONE; }
static block *block_of(void *memory) { return (block *)((uint8_t *)memory - ZONE) - 1; }

/// Names the first byte that is written outside of the block, unless another one was found before.
static void look(block *b) {
  const uint8_t *memory = memory_of(b), *want = zone();
  const uint8_t *before = memory - ZONE, *after = memory + b->size;
  if (found[0] || (!memcmp(before, want, ZONE) && !memcmp(after, want, ZONE))) return;
  size_t count = 0;
  long first = 0;
  for (int side = 0; side < 2; side++)
    for (long i = 0; i < ZONE; i++)
      if ((side ? after : before)[i] != want[i] && !count++) first = side ? (long)b->size + i : i - ZONE;
  snprintf(found, sizeof found, "outside of a block of %zu bytes %zu are written, the first is byte %ld",
           b->size, count, first);
}

static void *enclose(uint8_t *base, size_t head, size_t size) {
  block *b = block_of(base + head);
  *b = (block){.base = base, .size = size, .mark = MARK};
  memcpy(base + head - ZONE, zone(), ZONE);
  memcpy(base + head + size, zone(), ZONE);
  take();
  b->next = &live, b->previous = live.previous;
  live.previous->next = b, live.previous = b;
  give();
  return base + head;
}

static size_t head_of(size_t alignment) {
  const size_t least = sizeof(block) + ZONE;
  return (least + alignment - 1) / alignment * alignment;
}

static void *aligned(size_t alignment, size_t size) {
  if (alignment < LEAST_ALIGNMENT) alignment = LEAST_ALIGNMENT;
  const size_t head = head_of(alignment);
  if (size > PTRDIFF_MAX - head - ZONE) return errno = ENOMEM, NULL;
  void *base = alignment == LEAST_ALIGNMENT ? __libc_malloc(head + size + ZONE)
                                            : __libc_memalign(alignment, head + size + ZONE);
  return base ? enclose(base, head, size) : NULL;
}

PUBLIC void *malloc(size_t size) { return aligned(LEAST_ALIGNMENT, size); }
PUBLIC void *memalign(size_t alignment, size_t size) { return aligned(alignment, size); }
PUBLIC void *aligned_alloc(size_t alignment, size_t size) { return aligned(alignment, size); }
PUBLIC void *valloc(size_t size) { return aligned((size_t)sysconf(_SC_PAGESIZE), size); }

PUBLIC int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!alignment || alignment & (alignment - 1) || alignment % sizeof(void *)) return EINVAL;
  const int before = errno;
  void *memory = aligned(alignment, size);
  errno = before;
  if (!memory) return ENOMEM;
  *out = memory;
  return 0;
}

PUBLIC void *calloc(size_t count, size_t size) {
  const size_t head = head_of(LEAST_ALIGNMENT);
  if (size && count > (PTRDIFF_MAX - head - ZONE) / size) return errno = ENOMEM, NULL;
  void *base = __libc_calloc(1, head + count * size + ZONE);
  return base ? enclose(base, head, count * size) : NULL;
}

PUBLIC void free(void *memory) {
  if (!memory) return;
  block *b = block_of(memory);
  if (b->mark != MARK) { // the loader's own, from before this library was there
    __libc_free(memory);
    return;
  }
  const int before = errno;
  take();
  look(b);
  b->previous->next = b->next, b->next->previous = b->previous;
  b->mark = 0;
  give();
  __libc_free(b->base);
  errno = before;
}

PUBLIC void *realloc(void *memory, size_t size) {
  if (!memory) return malloc(size);
  if (!size) return free(memory), NULL;
  const size_t old = block_of(memory)->size;
  void *moved = malloc(size);
  if (!moved) return NULL;
  memcpy(moved, memory, old < size ? old : size);
  free(memory);
  return moved;
}

PUBLIC size_t malloc_usable_size(void *memory) { return memory ? block_of(memory)->size : 0; }

/// What was found since the last call, "" for nothing; the zones of all blocks are compared. Each is whole
/// again afterwards.
PUBLIC void kiln_zones_check(char *out, size_t capacity) {
  take();
  for (block *b = live.next; b != &live; b = b->next) {
    look(b);
    memcpy(memory_of(b) - ZONE, zone(), ZONE);
    memcpy(memory_of(b) + b->size, zone(), ZONE);
  }
  snprintf(out, capacity, "%s", found);
  found[0] = 0;
  give();
}

__attribute__((constructor)) static void begin(void) { pthread_atfork(take, give, give); }

__attribute__((destructor)) static void end(void) {
  char text[sizeof found + 20];
  take();
  for (block *b = live.next; b != &live; b = b->next) look(b);
  const bool is_damaged = found[0];
  const int size = snprintf(text, sizeof text, "zones.c: %s\n", found);
  give();
  if (!is_damaged) return;
  if (write(STDERR_FILENO, text, (size_t)size) < 0) _exit(98);
  _exit(99);
}
