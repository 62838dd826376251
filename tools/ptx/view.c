// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps views: what is ordered before something, as clocks of the threads of blocks. Joins, copies, counts.
#include "tools/ptx/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void *must(void *memory) {
  KILN_ASSERT(memory);
  return memory;
}

ptx_view *ptx_view_hold(ptx_view *v) {
  if (v) v->references++;
  return v;
}

void ptx_view_drop(ptx_view *v) {
  if (!v || --v->references) return;
  for (uint32_t i = 0; i < v->count; i++) free(v->items[i].clocks);
  ptx_view_drop(v->reads);
  ptx_view_drop(v->waits);
  free(v->items);
  free(v);
}

void ptx_view_replace(ptx_view **to, ptx_view *v) {
  ptx_view_drop(*to);
  *to = v;
}

ptx_view *ptx_view_create(void) {
  ptx_view *v = must(calloc(1, sizeof *v));
  v->references = 1;
  return v;
}

ptx_view_item *ptx_view_take(ptx_view *v, uint32_t block, uint32_t thread_count) {
  uint32_t at = 0;
  while (at < v->count && v->items[at].block < block) at++;
  if (at < v->count && v->items[at].block == block) return &v->items[at];
  v->items = must(realloc(v->items, (v->count + 1) * sizeof *v->items));
  memmove(&v->items[at + 1], &v->items[at], (v->count - at) * sizeof *v->items);
  v->count++;
  v->items[at] = (ptx_view_item){.block = block, .thread_count = thread_count};
  return &v->items[at];
}

const ptx_view_item *ptx_view_find(const ptx_view *v, uint32_t block) {
  for (uint32_t i = 0; v && i < v->count; i++)
    if (v->items[i].block == block) return &v->items[i];
  return NULL;
}

static void join_items(ptx_view *to, const ptx_view *from) {
  for (uint32_t i = 0; from && i < from->count; i++) {
    const ptx_view_item *f = &from->items[i];
    ptx_view_item *t = ptx_view_take(to, f->block, f->thread_count);
    if (f->epoch < t->epoch) continue;
    if (f->epoch > t->epoch) {
      free(t->clocks);
      t->clocks = NULL;
      t->epoch = f->epoch;
    }
    if (!f->clocks) continue;
    if (!t->clocks) t->clocks = must(calloc(t->thread_count, sizeof *t->clocks));
    for (uint32_t k = 0; k < t->thread_count; k++)
      if (f->clocks[k] > t->clocks[k]) t->clocks[k] = f->clocks[k];
  }
}

void ptx_view_join(ptx_view *to, const ptx_view *from) {
  join_items(to, from);
  if (from && from->reads) ptx_view_replace(&to->reads, ptx_view_joined(to->reads, from->reads));
  if (from && from->waits) ptx_view_replace(&to->waits, ptx_view_joined(to->waits, from->waits));
}

ptx_view *ptx_view_joined(ptx_view *a, ptx_view *b) {
  if (!a || a == b) return ptx_view_hold(b);
  if (!b) return ptx_view_hold(a);
  ptx_view *v = ptx_view_create();
  ptx_view_join(v, a);
  ptx_view_join(v, b);
  return v;
}

void ptx_view_add(ptx_view **to, ptx_view *view) {
  if (view) ptx_view_replace(to, ptx_view_joined(*to, view));
}

ptx_view *ptx_view_of_waits(const ptx_view *view) {
  ptx_view *of_waits = ptx_view_create();
  of_waits->waits = ptx_view_create();
  if (!view) return of_waits; // nothing was waited for
  join_items(of_waits->waits, view);
  join_items(of_waits->waits, view->reads);
  join_items(of_waits->waits, view->waits);
  return of_waits;
}

ptx_view *ptx_view_of_reads(ptx_view *view) {
  if (!view) return NULL;
  ptx_view *of_reads = ptx_view_create();
  of_reads->reads = ptx_view_create();
  join_items(of_reads->reads, view);
  join_items(of_reads->reads, view->reads);
  of_reads->waits = ptx_view_hold(view->waits);
  return of_reads;
}
