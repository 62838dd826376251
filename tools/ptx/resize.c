// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// setmaxnreg: registers move between the warps of a block through a pool of the block, which is empty at
// first. Registers are counted per thread; a warp's share is that many.
#include "tools/ptx/handlers.h"

enum { STEP = 8, LEAST = 24, MOST = 256, OF_BLOCKS = 1 << 16, GROUP = 4 };

// What the assembler gives a kernel that uses setmaxnreg: all that its bounds leave. 0: nothing bounds it.
uint32_t ptx_start_registers(const ptx_kernel *kernel) {
  uint64_t threads = (uint64_t)kernel->block[0] * kernel->block[1] * kernel->block[2],
           blocks = kernel->least_blocks ? kernel->least_blocks : 1;
  if (kernel->most_registers) return kernel->most_registers;
  if (!threads) return 0;
  threads = (threads + PTX_LANES - 1) / PTX_LANES * PTX_LANES;
  uint64_t share = OF_BLOCKS / (threads * blocks) / STEP * STEP;
  return share < MOST ? (uint32_t)share : MOST;
}

// All warps of a warpgroup run the same setmaxnreg, and meet before the next.
static bool is_even(ptx_exec *x) {
  const ptx_warp *w = x->warp, *first = &x->block->warps[w->index / GROUP * GROUP];
  for (uint32_t k = 0; k < GROUP && w->index / GROUP * GROUP + k < x->block->warp_count; k++) {
    const ptx_warp *other = &first[k];
    if (other->resizes < w->resizes) {
      ptx_find(x->run, PTX_BARRIER,
               "warp %u of block %u runs its next setmaxnreg before warp %u has run that of line %u",
               w->index, x->block->number, other->index, w->resized->line);
      return false;
    }
    if (other->resizes == w->resizes + 1 && other->resized != x->i) {
      ptx_find(
          x->run, PTX_BARRIER,
          "warps %u and %u of block %u are of one warpgroup, and the other's setmaxnreg is that of line %u",
          w->index, other->index, x->block->number, other->resized->line);
      return false;
    }
  }
  return true;
}

void ptx_do_setmaxnreg(ptx_exec *x) {
  const ptx_instruction *i = x->i;
  ptx_warp *w = x->warp;
  uint32_t count = (uint32_t)i->operands[0].immediate, held = w->held;
  bool is_more = ptx_has_word(i, WORD_inc);
  if (i->operands[0].kind != OPERAND_IMMEDIATE || count % STEP || count < LEAST || count > MOST) {
    ptx_find(x->run, PTX_BARRIER, "%u registers; expected a constant, a multiple of 8 from 24 to 256", count);
  } else if (!held) {
    ptx_find(x->run, PTX_BARRIER,
             "neither .maxnreg nor a bound of its threads says what the kernel starts with");
  } else if (is_more ? count < held : count > held) {
    ptx_find(x->run, PTX_BARRIER, "warp %u of block %u has %u registers per thread already", w->index,
             x->block->number, held);
  } else if (is_even(x)) {
    if (is_more && count - held > x->block->pool) {
      ptx_sleep(x);
      return;
    }
    x->block->pool += held - count;
    w->held = count;
    w->resizes++;
    w->resized = i;
    ptx_wake(x->block);
  }
}

void ptx_resizes_check_end(ptx_run *run, const ptx_block *block) {
  for (uint32_t k = 0; k < block->warp_count; k++) {
    const ptx_warp *w = &block->warps[k], *first = &block->warps[k / GROUP * GROUP];
    if (w->resizes == first->resizes) continue;
    run->at = w->resizes > first->resizes ? w->resized : first->resized;
    ptx_find(run, PTX_BARRIER, "not all warps of the warpgroup of warps %u and %u of block %u ran it",
             first->index, w->index, block->number);
    return;
  }
}
