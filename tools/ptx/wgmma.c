// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs wgmma: products of a warpgroup from shared memory, by descriptors. Each of the four warps computes
// its 16 rows when it arrives; until it waits, its registers may not be touched. What the product reads may
// not be written until a warp's wait has ended, which happens when all four have arrived: the product
// belongs to all of them.
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/ptx/matrix.h"

enum { MOST_N = 256, CHUNK = 16, MOST_CHUNKS = (1 << 18) / CHUNK };

// Bits 0-13 start, 16-29 leading and 32-45 stride offset, each in 16 bytes; 62-63 the swizzle.
typedef struct descriptor {
  uint64_t start, leading, stride;
  uint32_t width; // of the swizzle; 0: none
  bool is_across; // rows of memory run along M or N, not along K
  uint32_t bytes; // of an element
} descriptor;

static descriptor descriptor_of(uint64_t bits, bool is_across, uint32_t bytes) {
  static const uint32_t widths[4] = {0, 128, 64, 32};
  return (descriptor){(bits & 0x3fff) << 4,
                      (bits >> 16 & 0x3fff) << 4,
                      (bits >> 32 & 0x3fff) << 4,
                      widths[bits >> 62],
                      is_across,
                      bytes};
}

// Where element (row, k) begins. Swizzled: eight rows of `width` bytes are an atom. Else bricks of 8 x 16
// bytes.
static uint64_t address_of(const descriptor *d, uint32_t row, uint32_t k) {
  uint64_t along = (uint64_t)(d->is_across ? row : k) * d->bytes, line = d->is_across ? k : row,
           at = d->start;
  if (d->width) {
    at += line / 8 * d->stride + line % 8 * d->width;
    at += d->is_across ? along / d->width * d->leading + along % d->width : along;
  } else {
    uint64_t brick = along / 16;
    at += line % 8 * 16 + along % 16;
    at +=
        d->is_across ? line / 8 * d->leading + brick * d->stride : line / 8 * d->stride + brick * d->leading;
  }
  uint64_t bits = d->width == 128 ? 7 : d->width == 64 ? 3 : d->width == 32 ? 1 : 0;
  return at ^ (at >> 7 & bits) << 4;
}

static void read_shared(ptx_exec *x, const descriptor *d, ptx_type type, uint32_t first, uint32_t rows,
                        ptx_factor (*out)[PTX_MOST_K], bool *is_chunk) {
  const ptx_region *shared = &x->block->shared;
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t k = 0; k < x->i->shape[2]; k++) {
      uint64_t at = address_of(d, first + row, k), bits = 0;
      if (at + d->bytes > shared->size || at / CHUNK >= MOST_CHUNKS || shared->defined[at] > 1) {
        ptx_find(x->run, PTX_OUTSIDE, "element (%u, %u) lies at 0x%llx of shared memory, where nothing is",
                 first + row, k, (unsigned long long)at);
        return;
      }
      memcpy(&bits, shared->bytes + at, d->bytes);
      bool is_defined = true;
      for (uint32_t byte = 0; byte < d->bytes; byte++) is_defined &= shared->defined[at + byte] == 1;
      out[row][k] = ptx_factor_of(type, bits, is_defined);
      is_chunk[at / CHUNK] = true;
    }
}

static void begin_reads(ptx_exec *x, ptx_product *p, const bool *is_chunk) {
  uint32_t thread = x->warp->index * PTX_LANES;
  for (uint32_t k = 0; k < MOST_CHUNKS; k++) p->chunk_count += is_chunk[k];
  p->chunks = malloc((p->chunk_count + 1) * sizeof *p->chunks);
  KILN_ASSERT(p->chunks);
  p->chunk_count = 0;
  for (uint32_t k = 0; k < MOST_CHUNKS; k++) {
    if (!is_chunk[k]) continue;
    p->chunks[p->chunk_count++] = k * CHUNK;
    ptx_race_async_read(x->run, x->block, thread, (uint64_t)k * CHUNK, CHUNK);
  }
}

void ptx_products_deinit(ptx_warp *w) {
  for (uint32_t k = 0; k < w->product_count; k++) {
    free(w->products[k].chunks);
    ptx_view_drop(w->products[k].ended);
  }
  free(w->products);
  for (uint32_t k = 0; k < PTX_COMMITS; k++) ptx_view_drop(w->commits[k]);
}

static void mark(ptx_warp *w, const ptx_product *p, uint32_t line) {
  for (uint32_t r = 0; r < p->to->count; r++)
    if (p->to->items[r].kind == OPERAND_REGISTER) w->registers[p->to->items[r].index].product = line;
}

// Ends the reads of one warp's products of the groups before `target`.
static void end_reads(ptx_exec *x, ptx_warp *w, uint32_t target) {
  for (uint32_t k = 0; k < w->product_count; k++) {
    ptx_product *p = &w->products[k];
    if (p->group >= target) continue;
    for (uint32_t c = 0; c < p->chunk_count; c++)
      ptx_race_async_read_end(x->run, x->block, x->warp->index * PTX_LANES, p->chunks[c], CHUNK);
    p->chunk_count = 0;
  }
}

// What the reads' end knows, for the waits of the other warps.
static void pass_on(ptx_warp *w, uint32_t target, ptx_view *known) {
  for (uint32_t k = 0; k < w->product_count; k++)
    if (w->products[k].group < target && !w->products[k].ended) w->products[k].ended = ptx_view_hold(known);
}

static void forget(ptx_exec *x, uint32_t target) {
  ptx_warp *w = x->warp;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < w->product_count; k++) {
    ptx_product *p = &w->products[k];
    if (p->group >= target) {
      w->products[kept++] = *p;
      continue;
    }
    PTX_EACH_LANE(lane, x->mask) ptx_race_acquire(x->block, ptx_thread_of(x, lane), p->ended);
    ptx_view_drop(p->ended);
    free(p->chunks);
    mark(w, p, 0);
  }
  w->product_count = kept;
  for (uint32_t k = 0; k < kept; k++) mark(w, &w->products[k], x->i->line);
}

static void commit(ptx_exec *x) {
  ptx_warp *w = x->warp;
  ptx_view *done = ptx_race_moment_of(x->run, x->block, w->index * PTX_LANES, x->mask);
  ptx_view_drop(w->commits[w->product_groups % PTX_COMMITS]);
  w->commits[w->product_groups % PTX_COMMITS] = done;
  w->product_groups++;
  ptx_wake(x->block);
}

// All four warps have come to the commit of the group before `target`, so their waits before it are over.
static void learn_of_waits(ptx_exec *x, uint32_t first, uint32_t target) {
  ptx_view *done = NULL;
  for (uint32_t w = first; target && w < first + 4 && w < x->block->warp_count; w++)
    ptx_view_add(&done, x->block->warps[w].commits[(target - 1) % PTX_COMMITS]);
  PTX_EACH_LANE(lane, x->mask) ptx_race_acquire_waits(x->block, ptx_thread_of(x, lane), done);
  ptx_view_drop(done);
}

static void wait(ptx_exec *x, uint32_t open_groups) {
  ptx_block *block = x->block;
  ptx_view *known = NULL;
  uint32_t first = x->warp->index / 4 * 4;
  uint32_t target = x->warp->product_groups > open_groups ? x->warp->product_groups - open_groups : 0;
  for (uint32_t w = first; w < first + 4 && w < block->warp_count; w++)
    if (block->warps[w].live && block->warps[w].product_groups < target) {
      ptx_sleep(x);
      return;
    }
  for (uint32_t w = first; w < first + 4 && w < block->warp_count; w++)
    end_reads(x, &block->warps[w], target);
  ptx_race_release_to(x->run, block, x->warp->index * PTX_LANES, &known);
  for (uint32_t w = first; w < first + 4 && w < block->warp_count; w++)
    pass_on(&block->warps[w], target, known);
  ptx_view_drop(known);
  learn_of_waits(x, first, target);
  forget(x, target);
}

static void keep(ptx_exec *x, const bool *is_chunk) {
  ptx_warp *w = x->warp;
  if (w->product_count == w->product_capacity) {
    w->product_capacity = w->product_capacity ? 2 * w->product_capacity : 16;
    w->products = realloc(w->products, w->product_capacity * sizeof *w->products);
    KILN_ASSERT(w->products);
  }
  ptx_product *p = &w->products[w->product_count++];
  *p = (ptx_product){.group = w->product_groups, .to = &x->i->operands[0]};
  begin_reads(x, p, is_chunk);
  mark(w, p, x->i->line);
}

// Registers that something else wrote since the last wgmma.fence.
static void check_fence(ptx_exec *x, const ptx_operand *o) {
  for (uint32_t k = 0; o->kind == OPERAND_VECTOR && k < o->count; k++)
    if (o->items[k].kind == OPERAND_REGISTER &&
        x->warp->registers[o->items[k].index].written > x->warp->product_fence) {
      ptx_find(x->run, PTX_BARRIER, "a register of the product was written with no wgmma.fence since");
      return;
    }
}

typedef struct form {
  bool is_a_shared, has_transposes, is_a_across, is_b_across, adds;
  int a_sign, b_sign;
} form;

static bool form_of(ptx_exec *x, form *out) {
  const ptx_instruction *i = x->i;
  const ptx_operand *o = i->operands;
  uint64_t buffer[PTX_LANES];
  uint32_t n = i->shape[1], bits = ptx_bits(i->types[1]), per = 32 / ptx_bits(i->types[0]);
  bool is_float = ptx_types[i->types[1]].kind == PTX_CLASS_FLOAT;
  if (i->type_count != 3 || i->shape[0] != 64 || n % 8 || !n || n > MOST_N || i->shape[2] * bits != 256 ||
      x->mask != ~0u || i->operand_count < (is_float ? 6u : 4u))
    return false;
  if (o[0].kind != OPERAND_VECTOR || o[0].count != n / 2 / per || o[2].kind != OPERAND_REGISTER) return false;
  *out = (form){.is_a_shared = o[1].kind == OPERAND_REGISTER, .a_sign = 1, .b_sign = 1};
  out->adds = ptx_decider(x, &o[3], buffer, "the scale of the accumulator")[0] & 1;
  if (is_float)
    out->a_sign = (int64_t)o[4].immediate < 0 ? -1 : 1, out->b_sign = (int64_t)o[5].immediate < 0 ? -1 : 1;
  uint32_t next = 6;
  if (bits == 16 && out->is_a_shared && next < i->operand_count) out->is_a_across = o[next++].immediate == 1;
  if (bits == 16 && next < i->operand_count) out->is_b_across = o[next].immediate == 1;
  return true;
}

static void negate(ptx_factor (*f)[PTX_MOST_K], uint32_t rows, int sign) {
  for (uint32_t row = 0; sign < 0 && row < rows; row++)
    for (uint32_t k = 0; k < PTX_MOST_K; k++) f[row][k].real = -f[row][k].real;
}

static void write_sums(ptx_exec *x, const form *f, ptx_factor (*a)[PTX_MOST_K], ptx_factor (*b)[PTX_MOST_K]) {
  const ptx_instruction *i = x->i;
  uint32_t per = 32 / ptx_bits(i->types[0]), count = i->operands[0].count;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    for (uint32_t r = 0; r < count; r++) {
      uint64_t value = 0;
      bool is_defined = true;
      for (uint32_t e = 0; e < per; e++) {
        uint32_t n = r * per + e, row = lane / 4 + 8 * (n / 2 % 2), column = n / 4 * 8 + lane % 4 * 2 + n % 2;
        bool here;
        ptx_factor zero = {.is_defined = true},
                   c = f->adds ? ptx_read_sum(x, &i->operands[0], i->types[0], lane, n) : zero;
        value |= ptx_sum_of(i, a[row], b[column], &c, &here) << (e ? ptx_bits(i->types[0]) : 0);
        is_defined &= here;
      }
      ptx_write(x, &i->operands[0].items[r], lane, value, is_defined);
    }
}

static void multiply(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  const ptx_operand *o = i->operands;
  static ptx_factor a[16][PTX_MOST_K], b[MOST_N][PTX_MOST_K];
  static bool is_chunk[MOST_CHUNKS];
  uint64_t buffer[PTX_LANES];
  form f;
  if (!form_of(x, &f)) {
    ptx_find(x->run, PTX_UNKNOWN, "this form, or with lanes missing (0x%08x), is not modelled", x->mask);
    return;
  }
  if (!x->warp->product_fence)
    ptx_find(x->run, PTX_BARRIER, "no wgmma.fence before the warp's first product");
  check_fence(x, &o[0]);
  check_fence(x, &o[1]);
  memset(is_chunk, 0, sizeof is_chunk);
  uint32_t bytes = ptx_bits(i->types[1]) / 8;
  if (f.is_a_shared) {
    descriptor d = descriptor_of(ptx_decider(x, &o[1], buffer, "the descriptor")[0], f.is_a_across, bytes);
    read_shared(x, &d, i->types[1], x->warp->index % 4 * 16, 16, a, is_chunk);
  } else {
    ptx_read_factor(x, &o[1], i->types[1], true, a);
  }
  descriptor d = descriptor_of(ptx_decider(x, &o[2], buffer, "the descriptor")[0], f.is_b_across, bytes);
  read_shared(x, &d, i->types[2], 0, i->shape[1], b, is_chunk);
  if (x->run->is_stopped) return;
  negate(a, 16, f.a_sign);
  negate(b, i->shape[1], f.b_sign);
  write_sums(x, &f, a, b);
  keep(x, is_chunk);
}

void ptx_do_wgmma(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  switch (i->words[0]) {
  case WORD_mma_async: multiply(x); break;
  case WORD_fence: x->warp->product_fence = x->run->steps; break;
  case WORD_commit_group: commit(x); break;
  case WORD_wait_group: wait(x, (uint32_t)i->operands[0].immediate); break;
  default: ptx_find(x->run, PTX_UNKNOWN, "this form of wgmma is not modelled");
  }
}
