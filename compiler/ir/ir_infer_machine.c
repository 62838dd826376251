// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typing of the operations that only passes for GPUs make: shared memory, barriers, products in it, clusters.
#include "compiler/ir/ir_infer.h"

static bool is_barriers(ir_type type) { return type.slots && !type.rank && type.scalar == KILN_I64; }

/// view, one index an axis, then for COPY memory, slot, barriers; for STAGE memory, value.
kiln_status ir_rule_copy(ir_typing *t) {
  ir_type view = operand(t, 0);
  bool loads = t->op->code == IR_COPY;
  if (!view.is_view) return refuse(t, "a view", view);
  uint32_t rest = 1u + view.rank;
  if (t->op->operand_count != rest + (loads ? 3u : 2u))
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected %u operands, found %u", name(t),
                     rest + (loads ? 3u : 2u), t->op->operand_count);
  for (uint32_t i = 1; i < rest; i++)
    if (!is_scalar(operand(t, i), KILN_I64)) return refuse(t, "indices of i64", operand(t, i));
  ir_type memory = operand(t, rest), tile = ir_view_tile(view);
  if (!memory.slots || memory.scalar != tile.scalar)
    return refuse(t, "shared memory of that element", memory);
  if (!loads) return expect_type(t, "value", ir_staged_type(t->op), operand(t, rest + 1));
  KILN_TRY(expect_type(t, "memory", ir_memory_type(tile, memory.slots), memory));
  if (!is_scalar(operand(t, rest + 1), KILN_I32)) return refuse(t, "a slot of i32", operand(t, rest + 1));
  return is_barriers(operand(t, rest + 2)) ? KILN_OK : refuse(t, "barriers", operand(t, rest + 2));
}

kiln_status ir_rule_barrier(ir_typing *t) {
  if (!is_barriers(operand(t, 0))) return refuse(t, "barriers", operand(t, 0));
  for (uint32_t i = 1; i < t->op->operand_count; i++)
    if (!is_scalar(operand(t, i), KILN_I32)) return refuse(t, "i32", operand(t, i));
  return KILN_OK;
}

kiln_status ir_rule_mma(ir_typing *t) {
  ir_type acc = operand(t, 0), a = operand(t, 2), b;
  uint32_t at = 3;
  if (!is_scalar(operand(t, 1), KILN_I1)) return refuse(t, "keep as a scalar i1", operand(t, 1));
  if (a.slots && !is_scalar(operand(t, at++), KILN_I32)) return refuse(t, "a slot of i32", operand(t, 3));
  if (t->op->operand_count != at + 2)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "mma: expected %u operands, found %u", at + 2,
                     t->op->operand_count);
  b = operand(t, at);
  if (!b.slots || !is_scalar(operand(t, at + 1), KILN_I32))
    return refuse(t, "b in shared memory, and its slot", b);
  if (acc.rank != 2 || a.rank != 2 || b.rank != 2) return refuse(t, "operands of rank 2", acc);
  unsigned a_mn = t->op->attrs.mma.a_mn, b_mn = t->op->attrs.mma.b_mn;
  if (a.log2[a_mn] != acc.log2[0] || b.log2[b_mn] != acc.log2[1] || a.log2[1 - a_mn] != b.log2[1 - b_mn])
    return wrong(t, "extents do not fit", a, b);
  return yield_type(t, acc);
}

kiln_status ir_rule_wait(ir_typing *t) {
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(yield_type(t, operand(t, i)));
  return KILN_OK;
}

/// From the tile to a part of its columns for each block.
static bool narrow_to_part(ir_type *tile, const ir_cluster *c) {
  int64_t all = (int64_t)1 << tile->log2[1], blocks = c->blocks;
  int64_t columns = c->columns ? c->columns : blocks ? all / blocks : 0;
  bool fits = tile->rank == 2 && columns > 0 && columns * blocks <= all;
  if (!fits || (!c->columns && columns * blocks != all)) return false;
  while (columns << 1 <= (int64_t)1 << tile->log2[1]) tile->log2[1]--;
  return true;
}

kiln_status ir_rule_cluster(ir_typing *t) {
  ir_type value = operand(t, 0), sum = value;
  bool is_scatter = t->op->code == IR_CLUSTER_SCATTER;
  unsigned blocks = t->op->attrs.cluster.blocks;
  if (is_scatter && !narrow_to_part(&sum, &t->op->attrs.cluster))
    return refuse(t, "a tile with columns for all blocks", value);
  if (!is_scalar(operand(t, 1), KILN_I32)) return refuse(t, "a phase of i32", operand(t, 1));
  if (t->op->operand_count == 2) return yield_type(t, sum);
  if (t->op->operand_count != 5)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected 2 or 5 operands, found %u", name(t),
                     t->op->operand_count);
  if (blocks < 2)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected 2 blocks or more, found %u", name(t),
                     blocks);
  KILN_TRY(expect_type(t, "memory", ir_memory_type(value, is_scatter ? 1 : blocks - 1u), operand(t, 2)));
  for (uint32_t i = 3; i < 5; i++)
    if (!is_barriers(operand(t, i))) return refuse(t, "barriers", operand(t, i));
  return yield_type(t, sum);
}

/// Shared memory of tiles, not barriers.
static kiln_status expect_memory(ir_typing *t, uint32_t i) {
  ir_type type = operand(t, i);
  return type.slots && type.rank ? KILN_OK : refuse(t, "shared memory of tiles", type);
}

/// p, mask, memory, slot, and left where there is a fifth.
kiln_status ir_rule_fetch(ir_typing *t) {
  ir_type pointer = operand(t, 0), memory = operand(t, 2);
  KILN_TRY(expect_memory(t, 2));
  if (!pointer.rank || pointer.pointer != 1) return refuse(t, "a tile of pointers to elements", pointer);
  KILN_TRY(expect_type(t, "mask", ir_with_element(pointer, ir_scalar_type(KILN_I1)), operand(t, 1)));
  ir_type tile = ir_with_element(pointer, ir_pointee(ir_element(pointer)));
  KILN_TRY(expect_type(t, "memory", ir_memory_type(tile, memory.slots), memory));
  if (!is_scalar(operand(t, 3), KILN_I32)) return refuse(t, "a slot of i32", operand(t, 3));
  if (t->op->operand_count == 4) return KILN_OK;
  return expect_type(t, "left", ir_with_element(pointer, ir_scalar_type(KILN_I32)), operand(t, 4));
}

kiln_status ir_rule_slot(ir_typing *t) {
  ir_type tile = operand(t, 0);
  KILN_TRY(expect_memory(t, 0));
  if (!is_scalar(operand(t, 1), KILN_I32)) return refuse(t, "a slot of i32", operand(t, 1));
  tile.slots = 0;
  return yield_type(t, tile);
}

kiln_status ir_rule_put(ir_typing *t) {
  ir_type memory = operand(t, 0);
  KILN_TRY(expect_memory(t, 0));
  if (!is_scalar(operand(t, 1), KILN_I32)) return refuse(t, "a slot of i32", operand(t, 1));
  return expect_type(t, "memory", ir_memory_type(operand(t, 2), memory.slots), memory);
}

kiln_status ir_rule_memory(ir_typing *t) {
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(expect_memory(t, i));
  return KILN_OK;
}
