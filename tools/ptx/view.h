// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views: what is ordered before something, as clocks of the threads of blocks (race.h). Counted, and
// immutable once others hold them.
#ifndef KILN_TOOLS_PTX_VIEW_H
#define KILN_TOOLS_PTX_VIEW_H

#include "tools/ptx/race.h"

typedef struct ptx_view_item {
  uint32_t block, epoch; // all epochs of the block before this one are known
  uint32_t *clocks;      // owned, one a thread, of this epoch; NULL: none
  uint32_t thread_count;
} ptx_view_item;

struct ptx_view {
  uint32_t references, count;
  ptx_view_item *items; // owned, by block
  ptx_view *reads;      // counted; of what it has, only the reads are ordered. It has no such view itself
  ptx_view *waits;      // counted; the same of waits at mbarriers
};

ptx_view *ptx_view_create(void);
/// Drops what `to` held.
void ptx_view_replace(ptx_view **to, ptx_view *view);
/// The item of a block in a view that nobody else holds; made when missing.
ptx_view_item *ptx_view_take(ptx_view *view, uint32_t block, uint32_t thread_count);
/// NULL when the view, which may be NULL, has none.
const ptx_view_item *ptx_view_find(const ptx_view *view, uint32_t block);
/// Adds to a view that nobody else holds.
void ptx_view_join(ptx_view *to, const ptx_view *from);
/// What either has; the caller drops it. Each may be NULL.
ptx_view *ptx_view_joined(ptx_view *a, ptx_view *b);

#endif
