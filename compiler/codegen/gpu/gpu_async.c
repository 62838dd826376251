// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rings in shared memory: copies from global memory that the target makes by itself, several iterations ahead
// of the dots that read them.
//
// Every iteration commits one group, also an empty one, so that at the start of iteration i all but the last
// stages - 2 groups are those of iterations up to i. The barrier after the wait makes them seen by all
// threads, and says that slot i - 1 has been read by all, which is the one filled next.
#include "compiler/codegen/gpu/gpu_lower.h"

static void call(gpu *g, kl_function function) { kl_call(&g->prelude, g->builder, function, NULL, 0); }

/// The layout in which the load's value is wanted: that of the dot, back through the shape operations
/// between.
static kiln_layout wanted_layout(gpu *g, const gpu_ring *ring) {
  kiln_layout layout = gpu_dot_operand(g, ring->dot, ring->operand);
  for (const ir_value *v = ring->dot->operands[ring->operand]; v->def != ring->read;
       v = v->def->operands[0]) {
    kiln_layout there = layout_backward(v->def, &layout);
    layout = there;
  }
  return layout;
}

/// Register bits that both the global access and the slot keep together, in order.
static unsigned piece_of(gpu *g, const ir_op *op, const gpu_ring *ring, uint8_t bits[8]) {
  uint8_t inside[8];
  unsigned log2_bytes = (unsigned)__builtin_ctz(ring->bytes) - ring->memory.bits,
           count = gpu_access_bits(g, op, &ring->writer, bits), same = 0;
  unsigned there = layout_memory_vector(&ring->memory, &ring->writer, 4 - log2_bytes, inside);
  while (same < count && same < there && bits[same] == inside[same]) same++;
  return same;
}

/// A copy moves words. Where what suits the reader would cut them (bytes whose neighbours in global memory
/// are not neighbours in the dot), what the copy has in a row stays in a row, and the reader takes single
/// elements.
static void keep_words(gpu *g, const ir_op *copy, gpu_ring *ring, const kiln_layout *to,
                       unsigned log2_bytes) {
  uint8_t bits[8];
  uint32_t row[8];
  if (log2_bytes + piece_of(g, copy, ring, bits) >= 2) return;
  unsigned count = gpu_access_bits(g, copy, &ring->writer, bits), most = 4 - log2_bytes;
  if (count > most) count = most;
  for (unsigned i = 0; i < count; i++) row[i] = ring->writer.basis[bits[i]];
  if (count) ring->memory = layout_swizzle(&ring->writer, to, log2_bytes, row, count);
}

/// Claims memory above what is open already.
static void open_ring(gpu *g, const ir_op *copy, gpu_ring *ring) {
  ir_type type = ring->read->results[0].type;
  unsigned log2_bytes = (unsigned)__builtin_ctz(kiln_scalars[type.scalar].bytes);
  kiln_layout to = wanted_layout(g, ring);
  ring->writer = gpu_value_of(g, (ir_value *)&ring->read->results[0])->home;
  ring->memory = gpu_staged_memory(g, &ring->writer, &to, log2_bytes);
  ring->bytes = 1u << (ring->writer.bits + log2_bytes);
  keep_words(g, copy, ring, &to, log2_bytes);
  ring->start = g->scratch_base;
  gpu_scratch_begin(g, (uint64_t)ring->bytes * ring->stages);
  g->scratch_base += ring->bytes * ring->stages;
  ring->is_open = true;
}

/// Bytes from a mask: all, or none, which fills with zeros.
static LLVMValueRef size_of(gpu *g, LLVMValueRef mask, unsigned bytes) {
  return mask ? LLVMBuildSelect(g->builder, mask, gpu_i32(g, bytes), gpu_i32(g, 0), "") : gpu_i32(g, bytes);
}

static void copy_pieces(gpu *g, const ir_op *op, const gpu_ring *ring, LLVMValueRef slot) {
  const kiln_layout *layout = &ring->writer;
  uint8_t bits[8];
  unsigned vector = piece_of(g, op, ring, bits), bytes = (ring->bytes >> ring->memory.bits) << vector;
  gpu_tile pointer = gpu_tile_in(g, op->operands[0], layout), mask = {.regs = NULL};
  uint32_t inside = 0;
  if (op->operand_count > 1) mask = gpu_tile_in(g, op->operands[1], layout);
  for (unsigned i = 0; i < vector; i++) inside |= 1u << bits[i];
  if (bytes < 4)
    gpu_fail_at(g, op, KILN_STATUS_INTERNAL,
                "operation %u: a copy has pieces of %u bytes, expected at least 4", ir_operation(op), bytes);
  gpu_note_copy(g, op, KILN_ENGINE_COPY, bytes);
  for (uint32_t r = 0; g->status == KILN_OK && r < 1u << layout->registers; r++) {
    if (r & inside) continue;
    LLVMValueRef arguments[3] = {gpu_ring_pointer(g, ring, slot, r), pointer.regs[r],
                                 size_of(g, mask.regs ? mask.regs[r] : NULL, bytes)};
    kl_call(&g->prelude, g->builder,
            bytes == 16  ? KL_kl_copy_16
            : bytes == 8 ? KL_kl_copy_8
                         : KL_kl_copy_4,
            arguments, 3);
  }
}

bool gpu_async_load(gpu *g, ir_op *op) {
  for (gpu_ring *ring = g->rings; ring; ring = ring->next)
    if (ring->read == op) {
      gpu_value_of(g, &op->results[0])->ring = ring;
      return true;
    }
  gpu_copy *copy = g->copies;
  while (copy && copy->load != op) copy = copy->next;
  if (!copy) return false;
  if (!copy->ring->is_open) open_ring(g, op, copy->ring);
  copy_pieces(g, op, copy->ring, copy->write_slot ? gpu_scalar(g, copy->write_slot) : gpu_i32(g, copy->slot));
  if (copy->commits) call(g, KL_kl_copy_commit);
  return true;
}

static gpu_ring *ring_of(gpu *g, const ir_block *body) {
  for (gpu_ring *ring = g->rings; ring; ring = ring->next)
    if (ring->body == body) return ring;
  return NULL;
}

void gpu_async_wait(gpu *g, const ir_block *body) {
  static const kl_function waits[] = {KL_kl_copy_wait_0, KL_kl_copy_wait_1, KL_kl_copy_wait_2};
  const gpu_ring *ring = ring_of(g, body);
  if (!ring) return;
  call(g, waits[ring->stages - 2]);
  gpu_barrier(g);
}

void gpu_async_close(gpu *g, const ir_block *body) {
  if (!ring_of(g, body)) return;
  call(g, KL_kl_copy_wait_0);
  for (gpu_ring *ring = g->rings; ring; ring = ring->next)
    if (ring->body == body && ring->start < g->scratch_base) g->scratch_base = ring->start;
  g->shared_dirty = true;
}
