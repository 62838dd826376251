// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums over the blocks of a cluster. Each block but the first copies its accumulators
// to the shared memory of the first, whose barrier counts their bytes; the first adds them in the order of
// the ranks and tells the others that their places are empty: they have been copied then, too. Group of warps
// by group: the same thread of each block has the same elements. Sources: PTX ISA, "cp.async.bulk", "mapa",
// "mbarrier".
//
// Or each block has the sums of a part of the columns: every thread stores each part of its accumulators into
// the memory of the block that adds it ("st.async": data and count arrive together), its own part too, so
// that all add in the order of the ranks, but without the network. Where that memory is slots of rings, all
// groups of all blocks first tell each other that they have read them.
#include "compiler/codegen/nvptx/nvptx_async.h"

enum {
  BARRIER_BYTES = 8,
  PIECE = 4,      ///< elements of 4 bytes in a piece
  MOST_BLOCKS = 8 ///< of a cluster
};

typedef struct exchange {
  gpu_tile tile;
  unsigned blocks, pieces; ///< of a cluster; of a thread
  uint32_t tile_bytes;     ///< from what one block sent to what the next did
  bool is_float, is_overlaid;
  LLVMValueRef group_memory; ///< where the group's sums of the second block lie
  LLVMValueRef memory;       ///< the thread's first piece
  LLVMValueRef full, empty;  ///< the group's barriers
  LLVMValueRef phase, is_leader;
} exchange;

static LLVMValueRef add(gpu *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->builder, a, b, ""); }

// -------------------------------------------------------------------------------------------- sums

/// Pieces of a thread lie 128 pieces apart, so that those of a warp are neighbours.
static LLVMValueRef piece_at(gpu *g, LLVMValueRef start, unsigned i) {
  return add(g, start, gpu_i32(g, i * NVPTX_GROUP_THREADS * PIECE * 4));
}

/// `address` of this block's shared memory, in that of the block with the iterations of number `share`.
static LLVMValueRef in_block(gpu *g, LLVMValueRef address, unsigned share) {
  return kl_call(&g->prelude, KL_kl_cluster_address,
                 (LLVMValueRef[2]){address, nvptx_block_of_share(g, share)}, 2);
}

/// Into the block's own memory first, where the first block has the same place: one bulk copy then counts its
/// bytes at once, where each remote store would count its own.
static void send(gpu *g, const exchange *x) {
  static const char write[] = "st.shared::cta.v4.b32 [$0], {$1, $2, $3, $4};";
  static const char copy[] = "{ .reg .pred p; setp.ne.b32 p, $4, 0; "
                             "@p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                             "[$0], [$1], $2, [$3]; }";
  LLVMTypeRef nothing = LLVMVoidTypeInContext(g->context);
  LLVMValueRef before = LLVMBuildXor(g->builder, x->phase, gpu_i32(g, 1), "");
  LLVMValueRef number = LLVMBuildSub(g->builder, g->share, gpu_i32(g, 1), "");
  LLVMValueRef turn = LLVMBuildMul(g->builder, number, gpu_i32(g, x->tile_bytes), "");
  LLVMValueRef own = add(g, x->memory, turn), group = add(g, x->group_memory, turn);
  kl_call(&g->prelude, KL_kl_mbar_wait, (LLVMValueRef[2]){x->empty, before}, 2);
  for (unsigned i = 0; i < x->pieces; i++) {
    LLVMValueRef arguments[1 + PIECE] = {piece_at(g, own, i)};
    for (unsigned k = 0; k < PIECE; k++)
      arguments[1 + k] = LLVMBuildBitCast(g->builder, x->tile.regs[i * PIECE + k], g->i32, "");
    kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, write, "r,r,r,r,r,~{memory}", nothing, arguments,
                  1 + PIECE);
  }
  kl_call(&g->prelude, KL_kl_proxy_fence, NULL, 0);
  nvptx_group_barrier(g);
  LLVMValueRef arguments[5] = {in_block(g, group, 0), group,
                               gpu_i32(g, x->pieces * PIECE * 4 * NVPTX_GROUP_THREADS),
                               in_block(g, x->full, 0), x->is_leader};
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, copy, "r,r,r,r,r,~{memory}", nothing, arguments, 5);
}

static void add_from(gpu *g, const exchange *x, unsigned rank, LLVMValueRef *sums) {
  static const char text[] = "ld.shared::cta.v4.b32 {$0, $1, $2, $3}, [$4];";
  LLVMTypeRef words[PIECE] = {g->i32, g->i32, g->i32, g->i32};
  LLVMTypeRef piece = LLVMStructTypeInContext(g->context, words, PIECE, false);
  LLVMValueRef place = add(g, x->memory, gpu_i32(g, (rank - 1) * x->tile_bytes));
  for (unsigned i = 0; i < x->pieces; i++) {
    LLVMValueRef from = piece_at(g, place, i);
    LLVMValueRef read = kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, text, "=r,=r,=r,=r,r,~{memory}",
                                      piece, &from, 1);
    for (unsigned k = 0; k < PIECE; k++) {
      LLVMValueRef word = LLVMBuildExtractValue(g->builder, read, k, ""), *sum = &sums[i * PIECE + k];
      *sum = x->is_float ? LLVMBuildFAdd(g->builder, *sum, LLVMBuildBitCast(g->builder, word, g->f32, ""), "")
                         : add(g, *sum, word);
    }
  }
}

static void gather(gpu *g, const exchange *x, LLVMValueRef *sums) {
  uint32_t bytes = (x->blocks - 1) * x->pieces * PIECE * 4 * NVPTX_GROUP_THREADS;
  LLVMValueRef expected = LLVMBuildMul(g->builder, x->is_leader, gpu_i32(g, bytes), "");
  LLVMValueRef before = LLVMBuildXor(g->builder, x->phase, gpu_i32(g, 1), "");
  // It has told itself, too: no barrier goes on without somebody who waits.
  kl_call(&g->prelude, KL_kl_mbar_wait, (LLVMValueRef[2]){x->empty, before}, 2);
  kl_call(&g->prelude, KL_kl_mbar_expect_if, (LLVMValueRef[3]){x->full, expected, x->is_leader}, 3);
  kl_call(&g->prelude, KL_kl_mbar_wait_cluster, (LLVMValueRef[2]){x->full, x->phase}, 2);
  for (unsigned rank = 1; rank < x->blocks; rank++) add_from(g, x, rank, sums);
  nvptx_group_barrier(g);
  for (unsigned rank = 0; rank < x->blocks; rank++) // itself, too: all wait for it at their end
    kl_call(&g->prelude, KL_kl_cluster_release_if,
            (LLVMValueRef[2]){in_block(g, x->empty, rank), x->is_leader}, 2);
}

/// `registers` of a thread are exchanged.
static exchange open_exchange(gpu *g, const ir_op *op, gpu_tile tile, uint32_t registers) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef thread = LLVMBuildAnd(b, g->thread, gpu_i32(g, NVPTX_GROUP_THREADS - 1), "");
  exchange x = {.tile = tile, .blocks = op->attrs.cluster.blocks, .pieces = registers / PIECE};
  x.tile_bytes = (4u << ir_log2_elements(op->operands[0]->type)) / (g->spread ? g->spread : 1);
  x.is_float = op->results[0].type.scalar == KILN_F32;
  x.is_overlaid = op->attrs.cluster.is_overlaid;
  LLVMValueRef group = LLVMBuildMul(b, g->group, gpu_i32(g, NVPTX_GROUP_THREADS * registers * 4), "");
  x.group_memory = add(g, nvptx_slot_address(g, op->operands[2], NULL), group);
  x.memory = add(g, x.group_memory, LLVMBuildMul(b, thread, gpu_i32(g, PIECE * 4), ""));
  LLVMValueRef own = LLVMBuildMul(b, g->group, gpu_i32(g, BARRIER_BYTES), "");
  x.full = add(g, add(g, g->shared_address, gpu_i32(g, op->operands[3]->def->attrs.alloc.at)), own);
  x.empty = add(g, add(g, g->shared_address, gpu_i32(g, op->operands[4]->def->attrs.alloc.at)), own);
  x.phase = gpu_scalar(g, op->operands[1]);
  x.is_leader = LLVMBuildZExt(b, LLVMBuildICmp(b, LLVMIntEQ, thread, gpu_i32(g, 0), ""), g->i32, "");
  return x;
}

void nvptx_lower_cluster_sum(gpu *g, ir_op *op) {
  LLVMBuilderRef b = g->builder;
  const gpu_tile tile = gpu_operand(g, op, 0);
  if (g->status != KILN_OK) return;
  const gpu_tile out = gpu_result(g, &op->results[0]);
  uint32_t count = 1u << tile.layout.registers;
  exchange x = open_exchange(g, op, tile, count);
  LLVMValueRef *sums = kiln_arena_copy(g->arena, tile.regs, count * sizeof *sums);
  LLVMBasicBlockRef first = gpu_block(g, "gather"), other = gpu_block(g, "send"), after = gpu_block(g, "sum");
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, g->share, gpu_i32(g, 0), ""), first, other);
  LLVMPositionBuilderAtEnd(b, other);
  send(g, &x);
  LLVMBuildBr(b, after);
  other = LLVMGetInsertBlock(b);
  LLVMPositionBuilderAtEnd(b, first);
  gather(g, &x, sums);
  LLVMBuildBr(b, after);
  first = LLVMGetInsertBlock(b);
  LLVMPositionBuilderAtEnd(b, after);
  for (uint32_t i = 0; i < count; i++) {
    out.regs[i] = LLVMBuildPhi(b, LLVMTypeOf(sums[i]), "");
    LLVMAddIncoming(out.regs[i], (LLVMValueRef[2]){sums[i], tile.regs[i]},
                    (LLVMBasicBlockRef[2]){first, other}, 2);
  }
}

// ---------------------------------------------------------------------------------- parts for everybody

/// A part of the columns in registers of a thread: `width` of each 64 rows of the group, `blocks` times.
typedef struct part_registers {
  unsigned width, whole, part; ///< of the part that counts; of 64 rows of the tile, of the result
  unsigned blocks;
} part_registers;

static part_registers registers_of_part(const gpu *g, const ir_op *op) {
  kiln_mma_split whole = kiln_mma_split_of(g->layouts, op->operands[0]->type),
                 part = kiln_mma_split_of(g->layouts, op->results[0].type);
  KILN_ASSERT(op->attrs.cluster.beside ? op->attrs.cluster.beside == 1u << part.groups_n : !part.groups_n);
  unsigned columns =
               op->attrs.cluster.columns ? op->attrs.cluster.columns >> part.groups_n : 1u << part.columns,
           rows = op->attrs.cluster.rows; // of all groups, which stand side by side then
  return (part_registers){.width = columns / 2,
                          .whole = 1u << (whole.columns - 1),
                          .part = 1u << (part.columns - 1),
                          .blocks = rows ? rows / 64 : 1u << part.blocks};
}

/// Over slots, a group of each block is told by all groups of all blocks that they have read theirs.
static void tell_that_read(gpu *g, const ir_op *op, const exchange *x) {
  unsigned groups = op->operands[4]->type.slots;
  LLVMValueRef first = gpu_i32(g, op->operands[4]->def->attrs.alloc.at);
  for (unsigned rank = 0; rank < x->blocks; rank++)
    for (unsigned group = 0; group < groups; group++) {
      LLVMValueRef there = add(g, add(g, g->shared_address, first), gpu_i32(g, group * BARRIER_BYTES));
      kl_call(&g->prelude, KL_kl_cluster_release_if,
              (LLVMValueRef[2]){in_block(g, there, rank), x->is_leader}, 2);
    }
}

/// A piece goes to block `part` of those that share the iterations: by the network, with its count of bytes,
/// or straight into this block's own memory, where the thread itself reads it.
static void send_piece(gpu *g, unsigned part, LLVMValueRef there, LLVMValueRef full, LLVMValueRef own,
                       const LLVMValueRef *sums) {
  static const char text[] = "{ .reg .pred p; setp.ne.b32 p, $7, 0; "
                             "@p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                             "[$0], {$1, $2, $3, $4}, [$5]; "
                             "@!p st.shared::cta.v4.b32 [$6], {$1, $2, $3, $4}; }";
  LLVMValueRef arguments[PIECE + 4] = {there};
  for (unsigned k = 0; k < PIECE; k++) arguments[1 + k] = LLVMBuildBitCast(g->builder, sums[k], g->i32, "");
  arguments[1 + PIECE] = full;
  arguments[2 + PIECE] = own;
  arguments[3 + PIECE] = LLVMBuildXor(g->builder, g->share, gpu_i32(g, part), "");
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, text, "r,r,r,r,r,r,r,r,~{memory}",
                LLVMVoidTypeInContext(g->context), arguments, PIECE + 4);
}

/// Waits until all have read what this block sent before; over slots, until these have been read this time.
/// The blocks get their pieces in turn: all of one part first would be more than its block takes in, from
/// everybody at a time, while the others get nothing.
static void scatter(gpu *g, const exchange *x, const part_registers *r) {
  unsigned pieces = x->pieces / x->blocks;
  LLVMValueRef before = x->is_overlaid ? x->phase : LLVMBuildXor(g->builder, x->phase, gpu_i32(g, 1), "");
  LLVMValueRef turn = LLVMBuildMul(g->builder, g->share, gpu_i32(g, x->tile_bytes), "");
  LLVMValueRef own = add(g, x->memory, turn), there[MOST_BLOCKS], full[MOST_BLOCKS];
  for (unsigned part = 0; part < x->blocks; part++)
    there[part] = in_block(g, own, part), full[part] = in_block(g, x->full, part);
  kl_call(&g->prelude, KL_kl_mbar_wait_cluster, (LLVMValueRef[2]){x->empty, before}, 2);
  for (unsigned i = 0; i < pieces; i++)
    for (unsigned part = 0; part < x->blocks; part++) {
      unsigned at = i * PIECE, first = at / r->width * r->whole + part * r->width + at % r->width;
      send_piece(g, part, piece_at(g, there[part], i), full[part], piece_at(g, own, i), x->tile.regs + first);
    }
}

void nvptx_lower_cluster_scatter(gpu *g, ir_op *op) {
  const kiln_layout part = *op->results[0].layout;
  part_registers r = registers_of_part(g, op);
  const gpu_tile tile = gpu_operand(g, op, 0);
  if (g->status != KILN_OK) return;
  const gpu_tile out = gpu_result(g, &op->results[0]);
  uint32_t count = 1u << part.registers, own = r.blocks * r.width;
  exchange x = open_exchange(g, op, tile, own * op->attrs.cluster.blocks);
  uint32_t bytes = x.pieces * PIECE * 4 * NVPTX_GROUP_THREADS;
  x.tile_bytes = bytes / x.blocks; // a group's parts lie one after another
  LLVMValueRef expected = LLVMBuildMul(g->builder, x.is_leader, gpu_i32(g, bytes - x.tile_bytes), "");
  kl_call(&g->prelude, KL_kl_mbar_expect_if, (LLVMValueRef[3]){x.full, expected, x.is_leader}, 3);
  if (x.is_overlaid) tell_that_read(g, op, &x);
  scatter(g, &x, &r);
  kl_call(&g->prelude, KL_kl_mbar_wait_cluster, (LLVMValueRef[2]){x.full, x.phase}, 2);
  x.pieces /= x.blocks;
  LLVMValueRef *sums = KILN_NEW_ARRAY(g->arena, LLVMValueRef, count), zero = gpu_i32(g, 0);
  if (x.is_float) zero = LLVMConstReal(g->f32, -0.0);
  for (uint32_t i = 0; i < count; i++) sums[i] = out.regs[i] = zero;
  for (unsigned rank = 0; rank < x.blocks; rank++) add_from(g, &x, rank + 1, sums);
  for (uint32_t i = 0; i < own; i++) out.regs[i / r.width * r.part + i % r.width] = sums[i];
  if (x.is_overlaid)
    kl_call(&g->prelude, KL_kl_proxy_fence, NULL, 0); // the next to write there is the copy engine
  nvptx_group_barrier(g);
  for (unsigned rank = 0; rank < x.blocks && !x.is_overlaid; rank++)
    kl_call(&g->prelude, KL_kl_cluster_release_if, (LLVMValueRef[2]){in_block(g, x.empty, rank), x.is_leader},
            2);
}
