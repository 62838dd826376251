// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rings of slots in shared memory: their allocation, the turn of their slots, reads of them.
#include "compiler/passes/gpu/ring.h"

#include "base/check.h"
#include "compiler/passes/gpu/gpu.h"

unsigned kiln_ring_add(kiln_ring *ring, ir_type tile) {
  KILN_ASSERT(ring->count < KILN_RING_TILES);
  ring->tiles[ring->count] = tile;
  return ring->count++;
}

void kiln_ring_alloc(kiln_ring *ring, unsigned i, ir_alloc where, ir_builder *b) {
  const ir_type type = ir_memory_type(ring->tiles[i], ring->slots);
  ir_op *made = ir_emit(b, IR_ALLOC, &(ir_attrs){.alloc = where}, NULL, 0, &type, NULL, 0);
  ring->memory[i] = made ? &made->results[0] : NULL;
}

ir_value *kiln_ring_after(const kiln_ring *ring, ir_value *slot, ir_builder *b, ir_value **out_wraps) {
  ir_value *next = ir_binary_int(b, IR_ADD, 0, slot, 1);
  ir_value *wraps = ir_compare(b, IR_EQ, 0, next, ir_const_int(b, KILN_I32, ring->slots));
  if (out_wraps) *out_wraps = wraps;
  return ir_ternary(b, IR_SELECT, 0, wraps, ir_const_int(b, KILN_I32, 0), next);
}

ir_value *kiln_ring_before(const kiln_ring *ring, ir_value *slot, ir_builder *b) {
  ir_value *wraps = ir_compare(b, IR_EQ, 0, slot, ir_const_int(b, KILN_I32, 0)),
           *last = ir_const_int(b, KILN_I32, (int64_t)ring->slots - 1);
  return ir_ternary(b, IR_SELECT, 0, wraps, last, ir_binary_int(b, IR_SUB, 0, slot, 1));
}

void kiln_ring_replace_load(const kiln_ring *ring, unsigned i, ir_op *load, ir_value *slot, bool is_turned,
                            ir_builder *b) {
  ir_value *operands[2] = {ring->memory[i], slot};
  b->place = load->place;
  ir_op *made = ir_emit(b, IR_SLOT_LOAD, NULL, operands, 2, NULL, NULL, 0);
  if (made && is_turned) {
    ir_value *tile = &made->results[0];
    made = ir_emit(b, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, &tile, 1, NULL, NULL, 0);
  }
  if (!made) return;
  ir_forward(&load->results[0], &made->results[0]);
  ir_remove(load);
}

/// The memory is in use until after `loop`, which stands in its block.
static bool ends_after(const ir_value *memory, const ir_op *loop) {
  for (const ir_op *op = loop; op; op = op->next)
    for (uint32_t i = 0; op->code == IR_FETCH_END && i < op->operand_count; i++)
      if (op->operands[i] == memory) return true;
  return false;
}

uint32_t kiln_ring_floor(const ir_op *loop) {
  uint32_t floor = 0;
  for (const ir_op *outer = loop->block->parent; outer; outer = outer->block->parent)
    for (const ir_op *op = outer->block->first; op != outer; op = op->next) {
      if (op->code != IR_ALLOC || !ends_after(&op->results[0], outer)) continue;
      const ir_type type = op->results[0].type;
      const uint32_t end = op->attrs.alloc.at + type.slots * kiln_memory_bytes(type, 0, 0);
      if (end > floor) floor = end;
    }
  return (floor + KILN_RING_ALIGN - 1) / KILN_RING_ALIGN * KILN_RING_ALIGN;
}

void kiln_ring_end(const kiln_ring *ring, ir_op *loop, ir_builder *b) {
  b->block = loop->block, b->before = loop->next, b->place = loop->place;
  ir_emit(b, IR_FETCH_END, NULL, (ir_value **)ring->memory, ring->count, NULL, NULL, 0);
}
