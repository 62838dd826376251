// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the interpreter's memory: regions of bytes with the state of each byte, found by address.
#include "tools/ptx/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { ALIGNMENT = 256, GAP = 1 << 20 };
static const uint64_t first_address = 0x700000000000;

static size_t page_count(const ptx_region *r) { return (size_t)(r->size / PTX_SHADOW_PAGE + 1); }

bool ptx_region_init(ptx_region *r, uint64_t address, uint64_t size, bool is_defined) {
  *r = (ptx_region){.address = address, .size = size};
  r->bytes = calloc(1, size + 1);
  r->defined = is_defined ? NULL : calloc(1, size + 1);
  r->shadows = calloc(page_count(r), sizeof *r->shadows);
  r->is_saved = calloc(page_count(r), sizeof *r->is_saved);
  if (r->bytes && r->shadows && r->is_saved && (is_defined || r->defined)) return true;
  ptx_region_deinit(r);
  return false;
}

void ptx_region_forget(ptx_region *r) {
  for (size_t i = 0; r->shadows && i < page_count(r); i++) {
    free(r->shadows[i]);
    r->shadows[i] = NULL;
  }
  if (r->is_saved) memset(r->is_saved, 0, page_count(r) * sizeof *r->is_saved);
}

void ptx_region_each_shadow(ptx_region *r, void (*change)(ptx_shadow *shadow, bool flag), bool flag) {
  for (size_t i = 0; i < page_count(r); i++)
    for (size_t k = 0; r->shadows[i] && k < PTX_SHADOW_PAGE; k++) change(r->shadows[i] + k, flag);
  memset(r->is_saved, 0, page_count(r) * sizeof *r->is_saved);
}

void ptx_region_deinit(ptx_region *r) {
  ptx_region_forget(r);
  free(r->name);
  free(r->bytes);
  free(r->defined);
  free(r->shadows);
  free(r->is_saved);
  *r = (ptx_region){0};
}

ptx_shadow *ptx_region_shadow(ptx_region *r, uint64_t offset) {
  ptx_shadow **page = &r->shadows[offset / PTX_SHADOW_PAGE];
  if (!*page) *page = calloc(PTX_SHADOW_PAGE, sizeof **page);
  KILN_ASSERT(*page);
  return *page + offset % PTX_SHADOW_PAGE;
}

typedef struct ptx_saved_page {
  uint64_t address;
  uint32_t size;
  uint8_t bytes[PTX_SHADOW_PAGE], defined[PTX_SHADOW_PAGE];
} ptx_saved_page;

void ptx_journal_keep(ptx_journal *j, ptx_region *r, uint64_t offset) {
  uint64_t page = offset / PTX_SHADOW_PAGE, begin = page * PTX_SHADOW_PAGE;
  if (r->is_saved[page]) return;
  r->is_saved[page] = true;
  if (j->count == j->capacity) {
    j->capacity = j->capacity ? 2 * j->capacity : 64;
    j->pages = realloc(j->pages, j->capacity * sizeof *j->pages);
    KILN_ASSERT(j->pages);
  }
  ptx_saved_page *s = &j->pages[j->count++];
  s->address = r->address + begin;
  s->size = r->size - begin < PTX_SHADOW_PAGE ? (uint32_t)(r->size - begin) : PTX_SHADOW_PAGE;
  memcpy(s->bytes, r->bytes + begin, s->size);
  if (r->defined) memcpy(s->defined, r->defined + begin, s->size);
}

void ptx_journal_undo(ptx_journal *j, ptx_memory *memory) {
  for (size_t k = 0; k < j->count; k++) {
    const ptx_saved_page *s = &j->pages[k];
    ptx_region *r = ptx_memory_find(memory, s->address, s->size);
    KILN_ASSERT(r);
    memcpy(r->bytes + (s->address - r->address), s->bytes, s->size);
    if (r->defined) memcpy(r->defined + (s->address - r->address), s->defined, s->size);
  }
  ptx_journal_deinit(j);
}

void ptx_journal_deinit(ptx_journal *j) {
  free(j->pages);
  *j = (ptx_journal){0};
}

ptx_memory *ptx_memory_create(void) {
  ptx_memory *m = calloc(1, sizeof *m);
  if (m) m->next = first_address;
  return m;
}

void ptx_memory_destroy(ptx_memory *m) {
  if (!m) return;
  for (size_t i = 0; i < m->count; i++) ptx_region_deinit(&m->regions[i]);
  free(m->regions);
  free(m);
}

uint64_t ptx_memory_alloc(ptx_memory *m, uint64_t size, bool is_defined) {
  ptx_region r;
  if (m->count == m->capacity) {
    size_t capacity = m->capacity ? 2 * m->capacity : 64;
    ptx_region *grown = realloc(m->regions, capacity * sizeof *grown);
    if (!grown) return 0;
    m->regions = grown;
    m->capacity = capacity;
  }
  if (size > 1ull << 40 || !ptx_region_init(&r, m->next, size, is_defined)) return 0;
  m->next += (size + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  m->regions[m->count++] = r; // addresses only grow
  return r.address;
}

// The last region that begins at or before `address`; count when there is none.
static size_t find_below(const ptx_memory *m, uint64_t address) {
  size_t low = 0, high = m->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (m->regions[middle].address <= address) low = middle + 1;
    else high = middle;
  }
  return low ? low - 1 : m->count;
}

// The region that an address is in, or that begins or ends nearest to it; NULL when there are none.
static const ptx_region *find_nearest(const ptx_memory *m, uint64_t address) {
  size_t i = find_below(m, address);
  if (i == m->count) return m->count ? m->regions : NULL;
  const ptx_region *below = &m->regions[i], *above = i + 1 < m->count ? below + 1 : NULL;
  const uint64_t into = address - below->address;
  return above && into > below->size && above->address - address < into - below->size ? above : below;
}

const char *ptx_memory_where(const ptx_memory *m, uint64_t address) {
  static char text[200];
  const ptx_region *r = find_nearest(m, address);
  if (!r)
    snprintf(text, sizeof text, "0x%llx of global memory, where nothing is", (unsigned long long)address);
  else if (r->name)
    snprintf(text, sizeof text, "byte %lld of %.100s, which has %llu", (long long)(address - r->address),
             r->name, (unsigned long long)r->size);
  else
    snprintf(text, sizeof text, "0x%llx; the allocation nearest to it is 0x%llx of %llu bytes",
             (unsigned long long)address, (unsigned long long)r->address, (unsigned long long)r->size);
  return text;
}

static bool holds(const ptx_region *r, uint64_t address, uint64_t size) {
  return address >= r->address && address - r->address <= r->size && size <= r->size - (address - r->address);
}

ptx_region *ptx_memory_find(ptx_memory *m, uint64_t address, uint64_t size) {
  if (m->last_hit < m->count && holds(&m->regions[m->last_hit], address, size))
    return &m->regions[m->last_hit];
  size_t i = find_below(m, address);
  if (i == m->count || !holds(&m->regions[i], address, size)) return NULL;
  m->last_hit = i;
  return &m->regions[i];
}

bool ptx_memory_free(ptx_memory *m, uint64_t address) {
  size_t i = find_below(m, address);
  if (i == m->count || m->regions[i].address != address) return false;
  ptx_region_deinit(&m->regions[i]);
  memmove(&m->regions[i], &m->regions[i + 1], (m->count - i - 1) * sizeof *m->regions);
  m->count--;
  return true;
}

bool ptx_memory_name(ptx_memory *m, uint64_t address, const char *name) {
  size_t i = find_below(m, address);
  if (i == m->count || m->regions[i].address != address) return false;
  free(m->regions[i].name);
  return (m->regions[i].name = strdup(name)) != NULL;
}

uint8_t *ptx_memory_bytes(ptx_memory *m, uint64_t address, uint64_t size, bool is_written) {
  ptx_region *r = ptx_memory_find(m, address, size);
  if (!r) return NULL;
  if (is_written && r->defined) memset(r->defined + (address - r->address), 1, size);
  return r->bytes + (address - r->address);
}
