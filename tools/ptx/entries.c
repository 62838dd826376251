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

/// What may follow an instruction, by number; false: there are no more. Past the end the kernel ends, UNSEEN.
static bool follows(const ptx_kernel *k, uint32_t at, uint32_t number, uint32_t *out) {
  const ptx_instruction *i = &k->code[at];
  const bool branches = i->op->handler == ptx_do_bra, chooses = i->op->handler == ptx_do_brx;
  const uint32_t targets = chooses ? i->operands[1].count : branches;
  if (number < targets) *out = (uint32_t)(chooses ? i->operands[1].items[number] : i->operands[0]).index;
  else if (number == targets && (i->guard >= 0 || !(targets || i->op->handler == ptx_do_exit))) *out = at + 1;
  else return false;
  if (*out >= k->code_count) *out = UNSEEN;
  return true;
}

static void visit_all(flow *f) {
  const ptx_kernel *k = f->kernel;
  size_t edges = 1;
  uint32_t to;
  for (uint32_t at = 0; at < k->code_count; at++)
    for (uint32_t s = 0; follows(k, at, s, &to); s++) edges++;
  uint32_t *stack = malloc(edges * sizeof *stack);
  size_t depth = 0;
  if (!stack) return;
  stack[depth++] = 0;
  while (depth) {
    const uint32_t at = stack[depth - 1];
    if (f->place[at] == UNSEEN) {
      f->place[at] = OPEN;
      for (uint32_t s = 0; follows(k, at, s, &to); s++)
        if (to != UNSEEN && f->place[to] == UNSEEN) stack[depth++] = to;
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
      const uint32_t at = f->order[n];
      uint32_t to;
      for (uint32_t s = 0; f->dominator[at] != UNSEEN && follows(f->kernel, at, s, &to); s++) {
        if (to == UNSEEN) continue;
        const uint32_t was = f->dominator[to];
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
      const uint32_t at = f->order[n];
      uint32_t next;
      if (at == top || at == to || f->kernel->code[at].loop == number || !dominates(f, top, at)) continue;
      for (uint32_t s = 0; follows(f->kernel, at, s, &next); s++)
        if (next != UNSEEN && next != to && f->kernel->code[next].loop == number)
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
    const uint32_t at = f.order[k];
    uint32_t to;
    for (uint32_t s = 0; follows(kernel, at, s, &to); s++)
      if (to != UNSEEN && f.place[to] >= k && !dominates(&f, to, at)) mark(&f, at, to, ++number);
  }
  free(words);
}
