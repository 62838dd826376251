// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter: values are added to a tile in shared memory, by atomics.
//
// Threads of a warp that add to one element wait for each other. So there are several copies of the tile where they
// are small compared with what is added; neighbouring lanes add to different ones, which lie in different banks, and
// whoever reads an element adds its copies.
#include "compiler/codegen/gpu/gpu_tile.h"

/// Elements after those of a copy: they keep copies in different banks, and what names no element is added to them. Lanes
/// take turns among them.
enum { SPARE = 4 };
enum {
  MOST_COPIES = 3,        ///< logarithm; with SPARE words between them eight copies are in all 32 banks
  MOST_BYTES = 16 * 1024, ///< of copies: several blocks share a multiprocessor
  LEAST_ADDED = 2,        ///< logarithm of values for each element of all copies, which is cleared and read
};

typedef struct scatter {
  unsigned bits; ///< of a copy, logarithm of its elements
  unsigned log2_bytes, log2_copies;
  uint32_t stride; ///< bytes of a copy
  LLVMTypeRef type;
  layout_memory memory;
} scatter;

static scatter plan(gpu *g, const ir_op *op) {
  const ir_type into = op->results[0].type;
  const unsigned added = ir_log2_elements(op->operands[1]->type);
  scatter s = {.bits = ir_log2_elements(into), .type = gpu_type(g, ir_element(into))};
  s.log2_bytes = gpu_log2_bytes_of(g, s.type);
  s.stride = ((1u << s.bits) + SPARE) << s.log2_bytes;
  s.memory.bits = s.bits;
  for (unsigned i = 0; i < s.bits; i++) s.memory.offset[i] = 1u << i;
  while (s.log2_copies < MOST_COPIES && s.bits + s.log2_copies + 1 + LEAST_ADDED <= added &&
         s.stride << (s.log2_copies + 1) <= MOST_BYTES &&
         g->scratch_base + (s.stride << (s.log2_copies + 1)) <= g->machine->max_shared)
    s.log2_copies++;
  return s;
}

static uint32_t start_of(const gpu *g, const scatter *s, uint32_t copy) {
  return g->scratch_base + copy * s->stride;
}

/// What follows runs in the threads of which `mask` (NULL: all) says so, up to where end_part is called with the result.
static LLVMBasicBlockRef begin_part(gpu *g, LLVMValueRef mask) {
  if (!mask) return NULL;
  LLVMBasicBlockRef body = gpu_block(g, "part"), after = gpu_block(g, "all");
  LLVMBuildCondBr(g->builder, mask, body, after);
  LLVMPositionBuilderAtEnd(g->builder, body);
  return after;
}

static void end_part(gpu *g, LLVMBasicBlockRef after) {
  if (!after) return;
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

/// The first copy has the tile, the others zeros.
static void write_copies(gpu *g, const scatter *s, const gpu_tile *into) {
  gpu_tile zeros = gpu_tile_new(g, &into->layout);
  for (uint32_t r = 0; r < 1u << into->layout.registers; r++) zeros.regs[r] = LLVMConstNull(s->type);
  for (uint32_t copy = 0; copy < 1u << s->log2_copies; copy++)
    gpu_write_tile(g, copy ? &zeros : into, &s->memory, s->log2_bytes, start_of(g, s, copy));
}

/// What is never written is never added to either.
static void write_spare(gpu *g, const scatter *s) {
  LLVMBuilderRef b = g->builder;
  LLVMBasicBlockRef after = begin_part(g, LLVMBuildICmp(b, LLVMIntULT, g->thread, gpu_i32(g, SPARE), ""));
  for (uint32_t copy = 0; copy < 1u << s->log2_copies; copy++) {
    LLVMValueRef end = gpu_i32(g, start_of(g, s, copy) + (1u << (s->bits + s->log2_bytes)));
    LLVMValueRef at = LLVMBuildGEP2(b, g->i8, g->shared, &end, 1, "");
    LLVMBuildStore(b, LLVMConstNull(s->type), LLVMBuildGEP2(b, s->type, at, &g->thread, 1, ""));
  }
  end_part(g, after);
}

static void add_values(gpu *g, const scatter *s, const gpu_tile *index, const gpu_tile *values) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef spare = LLVMBuildAnd(b, g->thread, gpu_i32(g, SPARE - 1), ""),
               copy = LLVMBuildAnd(b, g->thread, gpu_i32(g, (1u << s->log2_copies) - 1), "");
  LLVMBasicBlockRef after = begin_part(g, gpu_is_owner(g, &index->layout));
  LLVMValueRef first = LLVMBuildMul(b, copy, gpu_i32(g, s->stride), ""),
               most = LLVMBuildAdd(b, spare, gpu_i32(g, 1u << s->bits), "");
  first = LLVMBuildAdd(b, first, gpu_i32(g, g->scratch_base), "");
  first = LLVMBuildGEP2(b, g->i8, g->shared, &first, 1, "");
  for (uint32_t r = 0; r < 1u << index->layout.registers; r++) {
    LLVMValueRef pair[2] = {index->regs[r], most}, // negative ones are above all others
        at = gpu_intrinsic(g, "llvm.umin", &g->i32, 1, pair, 2);
    at = LLVMBuildGEP2(b, s->type, first, &at, 1, "");
    LLVMBuildAtomicRMW(b, LLVMAtomicRMWBinOpAdd, at, values->regs[r], LLVMAtomicOrderingMonotonic, false);
  }
  end_part(g, after);
}

static gpu_tile read_sums(gpu *g, const scatter *s, const kiln_layout *layout) {
  gpu_tile sums = gpu_tile_new(g, layout), one = gpu_tile_new(g, layout);
  for (uint32_t copy = 0; copy < 1u << s->log2_copies; copy++) {
    gpu_shared_tile p = gpu_shared_tile_open(g, &s->memory, layout, s->log2_bytes, start_of(g, s, copy));
    for (uint32_t r = 0; r < 1u << layout->registers; r++)
      if (!(r & p.pieces.mask)) gpu_shared_tile_read(g, &p, s->type, r, one.regs);
    for (uint32_t r = 0; r < 1u << layout->registers; r++)
      sums.regs[r] = copy ? LLVMBuildAdd(g->builder, sums.regs[r], one.regs[r], "") : one.regs[r];
  }
  return sums;
}

void gpu_lower_scatter(gpu *g, ir_op *op) {
  const scatter s = plan(g, op);
  gpu_tile into = gpu_operand(g, op, 0), index = gpu_operand(g, op, 1), values = gpu_operand(g, op, 2);
  if (g->status != KILN_OK) return;
  gpu_scratch_begin(g, (uint64_t)s.stride << s.log2_copies);
  write_copies(g, &s, &into);
  write_spare(g, &s);
  gpu_barrier(g);
  add_values(g, &s, &index, &values);
  gpu_barrier(g);
  gpu_set_home(g, &op->results[0], read_sums(g, &s, op->results[0].layout));
  g->shared_dirty = true;
}
