// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds loops that have several entries (irreducible control flow). Where the lanes of a warp enter such a loop apart, no
// place of it is sure to bring them together again: ptxas does not make a convergence point, and a barrier inside, which a warp
// has to reach as a whole, never opens. Dominators: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
#include <stdlib.h>
#include <string.h>

#include "tools/ptx/handlers.h"
#include "tools/ptx/parser.h"

typedef struct flow {
  ptx_kernel *kernel;
  uint32_t *order;     ///< instructions that can be reached, each after what follows it (but for loops)
  uint32_t *place;     ///< of an instruction in `order`
  uint32_t *dominator; ///< by instruction; its own: the first
  uint32_t count;
} flow;

enum { UNSEEN = UINT32_MAX, OPEN = UINT32_MAX - 1 };

static uint32_t successors(const ptx_kernel *k, uint32_t at, uint32_t out[2]) {
  const ptx_instruction *i = &k->code[at];
  uint32_t count = 0;
  bool branches = i->op->handler == ptx_do_bra;
  if (branches) out[count++] = (uint32_t)i->operands[0].index;
  if (i->guard >= 0 || !(branches || i->op->handler == ptx_do_exit)) out[count++] = at + 1;
  while (count && out[count - 1] >= k->code_count) count--; // past the end: the kernel ends
  return count;
}

static void visit_all(flow *f) {
  const ptx_kernel *k = f->kernel;
  uint32_t *stack = malloc(2 * (k->code_count + 1) * sizeof *stack), depth = 0;
  if (!stack) return;
  stack[depth++] = 0;
  while (depth) {
    uint32_t at = stack[depth - 1], next[2], n = successors(k, at, next);
    if (f->place[at] == UNSEEN) {
      f->place[at] = OPEN;
      for (uint32_t s = 0; s < n; s++)
        if (f->place[next[s]] == UNSEEN) stack[depth++] = next[s];
    } else {
      depth--;
      if (f->place[at] == OPEN) f->order[f->place[at] = f->count++] = at;
    }
  }
  free(stack);
}

static uint32_t common(const flow *f, uint32_t a, uint32_t b) {
  while (a != b) {
    while (f->place[a] < f->place[b]) a = f->dominator[a];
    while (f->place[b] < f->place[a]) b = f->dominator[b];
  }
  return a;
}

static void find_dominators(flow *f) {
  f->dominator[0] = 0;
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t n = f->count; n-- > 0;) {
      uint32_t at = f->order[n], next[2],
               count = f->dominator[at] == UNSEEN ? 0 : successors(f->kernel, at, next);
      for (uint32_t s = 0; s < count; s++) {
        uint32_t to = next[s], was = f->dominator[to];
        if (to) f->dominator[to] = was == UNSEEN ? at : common(f, was, at);
        changes |= f->dominator[to] != was;
      }
    }
  }
}

static bool dominates(const flow *f, uint32_t a, uint32_t b) {
  while (f->place[b] < f->place[a]) b = f->dominator[b];
  return a == b;
}

/// What lies between the entries of the loop that the edge closes: all that leads to `from` and does not dominate both ends.
static void mark(flow *f, uint32_t from, uint32_t to, uint32_t number) {
  const uint32_t top = common(f, from, to);
  f->kernel->code[from].loop = f->kernel->code[to].loop = number;
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t n = 0; n < f->count; n++) {
      uint32_t at = f->order[n], next[2], count = successors(f->kernel, at, next);
      if (at == top || at == to || f->kernel->code[at].loop == number || !dominates(f, top, at)) continue;
      for (uint32_t s = 0; s < count; s++)
        if (f->kernel->code[next[s]].loop == number && next[s] != to)
          f->kernel->code[at].loop = number, changes = true;
    }
  }
}

void ptx_find_entries(ptx_kernel *kernel) {
  const uint32_t n = kernel->code_count;
  uint32_t *words = n ? malloc(3 * (size_t)n * sizeof *words) : NULL;
  if (!words) return;
  memset(words, 0xff, 3 * (size_t)n * sizeof *words); // UNSEEN
  flow f = {.kernel = kernel, .order = words, .place = words + n, .dominator = words + 2 * n};
  visit_all(&f);
  find_dominators(&f);
  for (uint32_t k = 0, number = 0; k < f.count; k++) {
    uint32_t at = f.order[k], next[2], count = successors(kernel, at, next);
    for (uint32_t s = 0; s < count; s++)
      if (f.place[next[s]] >= k && !dominates(&f, next[s], at)) mark(&f, at, next[s], ++number);
  }
  free(words);
}
