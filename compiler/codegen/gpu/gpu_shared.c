// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles in shared memory: barriers, scratch, and how registers go in and come out.
//
// Scratch is at offset 0 and lives within one operation. Writing it needs a barrier when threads may still
// read what was there (g->shared_dirty); reading needs one after the writes; afterwards it is dirty.
#include "compiler/codegen/gpu/gpu_shared.h"

void gpu_barrier(gpu *g) {
  static const kl_function functions[2] = {KL_kl_barrier, KL_kl_barrier_shared};
  LLVMValueRef arguments[2];
  if (g->barrier_threads)
    arguments[0] = gpu_i32(g, g->barrier), arguments[1] = gpu_i32(g, g->barrier_threads);
  if (g->barrier_threads) kl_call(&g->prelude, KL_kl_named_barrier, arguments, 2);
  else kl_call(&g->prelude, functions[kl_has(&g->prelude, KL_kl_barrier_shared)], NULL, 0);
  g->shared_dirty = false;
}

void gpu_scratch_begin(gpu *g, uint64_t bytes) {
  if (g->spread) gpu_fail(g, KILN_STATUS_INTERNAL, "an exchange between blocks that share a program");
  KILN_ASSERT(g->scratch_base % KILN_MOST_VECTOR_BYTES == 0);
  bytes += g->scratch_base;
  if (bytes > g->machine->max_shared)
    gpu_fail(g, KILN_STATUS_LIMIT,
             "an exchange between threads needs %llu bytes of shared memory, expected at most %u on %s",
             (unsigned long long)bytes, g->machine->max_shared, g->machine->name);
  else if (bytes > g->shared_bytes) g->shared_bytes = (uint32_t)bytes;
  if (g->shared_dirty) gpu_barrier(g);
}

/// layout_padded of a place that differs between threads, in bytes.
static LLVMValueRef padded(gpu *g, const layout_memory *memory, unsigned log2_bytes, LLVMValueRef place) {
  LLVMValueRef row = LLVMBuildLShr(g->builder, place, gpu_i32(g, memory->row + log2_bytes), "");
  LLVMValueRef free = LLVMBuildMul(g->builder, row, gpu_i32(g, (uint32_t)memory->pad << log2_bytes), "");
  return LLVMBuildAdd(g->builder, place, free, "");
}

gpu_shared_tile gpu_shared_tile_open(gpu *g, const layout_memory *memory, const kiln_layout *layout,
                                     unsigned log2_bytes, uint32_t start) {
  gpu_shared_tile p = {.start = start, .memory = memory, .layout = layout, .log2_bytes = log2_bytes};
  uint32_t basis[LAYOUT_MAX_PLACES] = {0};
  p.pieces.vector = layout_memory_vector(memory, layout, 4 - log2_bytes, p.pieces.bits);
  for (unsigned i = 0; i < p.pieces.vector; i++) p.pieces.mask |= 1u << p.pieces.bits[i];
  for (unsigned i = 0; i < layout_thread_bits(layout); i++) {
    basis[i] = layout_offset(memory, layout->basis[layout->registers + i]) << log2_bytes;
    p.base_bits |= basis[i];
  }
  p.base = p.plain = gpu_thread_bits(g, basis, layout_thread_bits(layout));
  if (memory->pad) p.base = padded(g, memory, log2_bytes, p.plain);
  return p;
}

static bool starts_piece(const gpu_shared_tile *p, uint32_t r) { return !(r & p->pieces.mask); }

LLVMValueRef gpu_shared_tile_pointer(gpu *g, const gpu_shared_tile *p, uint32_t r) {
  const uint32_t own = layout_offset(p->memory, layout_element(p->layout, r)), bytes = own << p->log2_bytes,
                 both = bytes & p->base_bits;
  uint32_t more = p->start;
  LLVMValueRef base = p->base;
  if (!both) {
    more += layout_padded(p->memory, own) << p->log2_bytes;
  } else if (p->shares_base && !p->memory->pad) {
    base = LLVMBuildXor(g->builder, p->plain, gpu_i32(g, both), "");
    more += bytes & ~both;
  } else {
    base = LLVMBuildXor(g->builder, p->plain, gpu_i32(g, bytes), "");
    if (p->memory->pad) base = padded(g, p->memory, p->log2_bytes, base);
  }
  LLVMValueRef at = LLVMBuildGEP2(g->builder, g->i8, g->shared, &base, 1, ""), last = gpu_i32(g, more);
  if (p->slot) at = LLVMBuildGEP2(g->builder, g->i8, at, (LLVMValueRef[1]){p->slot}, 1, "");
  return LLVMBuildGEP2(g->builder, g->i8, at, &last, 1, "");
}

void gpu_write_tile_in_slot(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                            uint32_t start, LLVMValueRef slot) {
  gpu_shared_tile p = gpu_shared_tile_open(g, memory, &tile->layout, log2_bytes, start);
  p.slot = slot;
  LLVMValueRef owner = gpu_is_owner(g, &tile->layout), elements[16];
  LLVMBasicBlockRef after = NULL;
  if (owner) {
    LLVMBasicBlockRef body = gpu_block(g, "own");
    after = gpu_block(g, "written");
    LLVMBuildCondBr(g->builder, owner, body, after);
    LLVMPositionBuilderAtEnd(g->builder, body);
  }
  // Where loads complete in order, what was loaded last is written first: then there is one wait.
  const uint32_t count = 1u << tile->layout.registers;
  for (uint32_t n = 0; n < count; n++) {
    const uint32_t r = g->machine->hold_loads ? count - 1 - n : n;
    if (!starts_piece(&p, r)) continue;
    for (unsigned i = 0; i < 1u << p.pieces.vector; i++)
      elements[i] = tile->regs[kiln_piece_register(&p.pieces, r, i)];
    LLVMValueRef store = LLVMBuildStore(g->builder, gpu_pack(g, elements, 1u << p.pieces.vector),
                                        gpu_shared_tile_pointer(g, &p, r));
    LLVMSetAlignment(store, 1u << (p.pieces.vector + log2_bytes));
  }
  if (!owner) return;
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

void gpu_write_tile(gpu *g, const gpu_tile *tile, const layout_memory *memory, unsigned log2_bytes,
                    uint32_t start) {
  gpu_write_tile_in_slot(g, tile, memory, log2_bytes, start, NULL);
}

void gpu_shared_tile_read(gpu *g, const gpu_shared_tile *p, LLVMTypeRef type, uint32_t r,
                          LLVMValueRef *regs) {
  LLVMValueRef elements[16];
  unsigned bytes = 1u << (p->pieces.vector + p->log2_bytes);
  LLVMValueRef load =
      LLVMBuildLoad2(g->builder, gpu_packed_type(g, bytes), gpu_shared_tile_pointer(g, p, r), "");
  LLVMSetAlignment(load, bytes);
  // Else LLVM reads four integers of 16 bits by one load of these. Where all threads read the same, ptxas 13.0 takes
  // the second of a word from a register that nothing has written.
  if (g->machine->reads_words && bytes == 8 && p->log2_bytes == 1 &&
      LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
    LLVMSetVolatile(load, true);
  gpu_unpack(g, load, type, elements, 1u << p->pieces.vector);
  for (unsigned i = 0; i < 1u << p->pieces.vector; i++)
    regs[kiln_piece_register(&p->pieces, r, i)] = elements[i];
}

gpu_tile gpu_read_tile(gpu *g, const layout_memory *memory, LLVMTypeRef type, const kiln_layout *layout,
                       unsigned log2_bytes) {
  gpu_tile out = gpu_tile_new(g, layout);
  gpu_shared_tile p = gpu_shared_tile_open(g, memory, layout, log2_bytes, g->scratch_base);
  for (uint32_t r = 0; r < 1u << layout->registers; r++)
    if (starts_piece(&p, r)) gpu_shared_tile_read(g, &p, type, r, out.regs);
  return out;
}

unsigned gpu_log2_bytes_of(gpu *g, LLVMTypeRef type) {
  return (unsigned)__builtin_ctz(gpu_bytes_of(g, type));
}
