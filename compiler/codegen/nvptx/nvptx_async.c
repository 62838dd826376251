// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine operations on Hopper: roles, barriers in shared memory, copies by tensor maps, staged stores; and what all of
// them need of a warpgroup, its place in the cluster and its shared memory. Products are in nvptx_wgmma.c, sums over a
// cluster in nvptx_cluster.c. Sources: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "setmaxnreg",
// "stmatrix".
#include "compiler/codegen/nvptx/nvptx_async.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

#include <string.h>

#include "compiler/passes/gpu/gpu.h"

// ------------------------------------------------------------------- threads, groups, blocks, addresses

static LLVMValueRef plus(gpu *g, LLVMValueRef a, uint32_t constant) {
  return LLVMBuildAdd(g->builder, a, gpu_i32(g, constant), "");
}
static LLVMValueRef scale(gpu *g, LLVMValueRef a, uint32_t factor) {
  return LLVMBuildMul(g->builder, a, gpu_i32(g, factor), "");
}
static LLVMValueRef plus_times(gpu *g, LLVMValueRef a, LLVMValueRef count, uint32_t factor) {
  return LLVMBuildAdd(g->builder, a, scale(g, count, factor), "");
}

/// Whether the thread is the first of its `threads`, a power of two.
static LLVMValueRef is_first_of(gpu *g, unsigned threads) {
  LLVMValueRef inside = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, threads - 1), "");
  return LLVMBuildICmp(g->builder, LLVMIntEQ, inside, gpu_i32(g, 0), "");
}

void nvptx_find_group(gpu *g) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder), entry = LLVMGetInstructionParent(g->thread);
  LLVMValueRef next = LLVMGetNextInstruction(g->thread);
  if (next) LLVMPositionBuilderBefore(g->builder, next);
  else LLVMPositionBuilderAtEnd(g->builder, entry);
  g->group = g->program_group = LLVMBuildLShr(g->builder, nvptx_warp(g), gpu_i32(g, 2), "");
  g->shared_address = LLVMBuildPtrToInt(g->builder, g->shared, g->i32, "");
  LLVMSetAlignment(g->shared, NVPTX_SHARED_ALIGN);
  LLVMPositionBuilderAtEnd(g->builder, here);
}

LLVMValueRef nvptx_warp(gpu *g) {
  LLVMValueRef warp = LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, 5), "");
  return kl_call(&g->prelude, KL_kl_shfl_idx_i32, (LLVMValueRef[2]){warp, gpu_i32(g, 0)}, 2);
}

LLVMValueRef nvptx_slot_address(gpu *g, ir_value *memory, ir_value *slot) {
  LLVMValueRef start = plus(g, g->shared_address, memory->def->attrs.alloc.at);
  if (!slot) return start;
  return plus_times(g, start, gpu_scalar(g, slot), kiln_slot_bytes(memory->def));
}

void nvptx_group_barrier(gpu *g) {
  LLVMValueRef arguments[2] = {plus(g, g->group, NVPTX_GROUP_BARRIER), gpu_i32(g, NVPTX_GROUP_THREADS)};
  kl_call(&g->prelude, KL_kl_named_barrier, arguments, 2);
}

LLVMValueRef nvptx_group_row(gpu *g, const kiln_mma_split *s, LLVMValueRef group, unsigned from) {
  LLVMValueRef v = LLVMBuildLShr(g->builder, group, gpu_i32(g, from), "");
  v = LLVMBuildAnd(g->builder, v, gpu_i32(g, (1u << s->groups_m) - 1), "");
  return LLVMBuildMul(g->builder, v, gpu_i32(g, 64u << s->blocks), "");
}

LLVMValueRef nvptx_group_column(gpu *g, const kiln_mma_split *s, unsigned columns) {
  LLVMValueRef v = LLVMBuildAnd(g->builder, g->program_group, gpu_i32(g, (1u << s->groups_n) - 1), "");
  return LLVMBuildMul(g->builder, v, gpu_i32(g, columns), "");
}

LLVMValueRef nvptx_block_at(gpu *g, LLVMValueRef place) {
  return LLVMBuildAdd(g->builder, scale(g, g->share, g->spread ? g->spread : 1), place, "");
}

LLVMValueRef nvptx_block_of_share(gpu *g, unsigned share) {
  LLVMValueRef number = gpu_i32(g, share * (g->spread ? g->spread : 1));
  if (!g->spread) return number;
  LLVMValueRef row = scale(g, g->block_row, g->spread_columns);
  return LLVMBuildAdd(g->builder, number, LLVMBuildAdd(g->builder, row, g->block_column, ""), "");
}

/// Blocks that share iterations come after those that share a program; groups side by side come one after another
/// (kiln_mma_split_of).
void nvptx_find_place(gpu *g, unsigned groups) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef block = kl_call(&g->prelude, KL_kl_pid_0, NULL, 0);
  const unsigned spread = g->spread ? g->spread : 1, split = g->split ? g->split : 1;
  g->share = LLVMBuildLShr(b, block, gpu_i32(g, __builtin_ctz(spread)), "");
  g->share = LLVMBuildURem(b, g->share, gpu_i32(g, split), "");
  LLVMValueRef place = LLVMBuildAnd(b, block, gpu_i32(g, spread - 1), "");
  if (!g->spread) return;

  unsigned columns = g->spread_columns;
  g->block_row = LLVMBuildLShr(b, place, gpu_i32(g, __builtin_ctz(columns)), "");
  g->block_column = LLVMBuildAnd(b, place, gpu_i32(g, columns - 1), "");
  g->program_group =
      g->kernel->groups_beside
          ? plus_times(g, g->group, place, groups)
          : plus_times(g, g->block_column, plus_times(g, g->group, g->block_row, groups), columns);
  g->thread = LLVMBuildAdd(g->builder, LLVMBuildAnd(b, g->thread, gpu_i32(g, NVPTX_GROUP_THREADS - 1), ""),
                           scale(g, g->program_group, NVPTX_GROUP_THREADS), "");
}

// ------------------------------------------------------------------------------------------- roles

/// One thread makes the barriers; blocks of a cluster tell each other.
static void open_barriers(gpu *g, bool is_cluster) {
  LLVMBasicBlockRef init = gpu_block(g, "init"), ready = gpu_block(g, "ready");
  LLVMValueRef first = LLVMBuildICmp(g->builder, LLVMIntEQ, g->thread, gpu_i32(g, 0), "");
  LLVMBuildCondBr(g->builder, first, init, ready);
  LLVMPositionBuilderAtEnd(g->builder, init);
  for (unsigned i = 0; i < g->map_count; i++)
    kl_call(&g->prelude, KL_kl_tensor_prefetch, &g->maps[i].param, 1);
  for (const ir_op *op = ir_next(g->kernel->body, NULL); op; op = ir_next(g->kernel->body, op)) {
    if (op->code != IR_ALLOC || op->results[0].type.rank) continue;
    for (unsigned i = 0; i < op->results[0].type.slots; i++) {
      LLVMValueRef at = gpu_i32(g, op->attrs.alloc.at + i * KILN_BARRIER_BYTES);
      LLVMValueRef arguments[2] = {LLVMBuildGEP2(g->builder, g->i8, g->shared, &at, 1, ""),
                                   gpu_i32(g, op->attrs.alloc.arrivals)};
      kl_call(&g->prelude, KL_kl_mbar_init, arguments, 2);
    }
  }
  kl_call(&g->prelude, KL_kl_mbar_fence, NULL, 0);
  LLVMBuildBr(g->builder, ready);
  LLVMPositionBuilderAtEnd(g->builder, ready);
  if (is_cluster) kl_call(&g->prelude, KL_kl_cluster_arrive, NULL, 0);
}

/// Until the barriers are there, of all blocks of the cluster. Warps come to it in different places, so
/// neither is `aligned`: of such a barrier all threads of a block run the same one (PTX ISA, "barrier").
static void meet(gpu *g, bool is_cluster) {
  LLVMValueRef all[2] = {gpu_i32(g, NVPTX_ROLES_BARRIER), gpu_i32(g, gpu_block_threads(g))};
  if (is_cluster) kl_call(&g->prelude, KL_kl_cluster_wait, NULL, 0);
  else kl_call(&g->prelude, KL_kl_meeting, all, 2);
}

static void branch_unless(gpu *g, LLVMValueRef condition, LLVMBasicBlockRef otherwise, const char *name) {
  LLVMBasicBlockRef then = gpu_block(g, name);
  LLVMBuildCondBr(g->builder, condition, then, otherwise);
  LLVMPositionBuilderAtEnd(g->builder, then);
}

static void set_registers(gpu *g, unsigned count, bool more) {
  if (!count) return;
  char text[64];
  snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %u;", more ? "inc" : "dec", count);
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, text, "", LLVMVoidTypeInContext(g->context), NULL, 0);
}

/// LLVM and the assembler compute a value where it is first read. Where there is time for that before and
/// none then, this reads it.
static void pin(gpu *g, ir_value *value) {
  uint64_t bits;
  const bool is_index = ir_type_equal(value->type, ir_scalar_type(KILN_I32)) ||
                        ir_type_equal(value->type, ir_scalar_type(KILN_I64));
  if (!is_index || ir_constant_bits(value, &bits)) return;
  LLVMValueRef scalar = gpu_scalar(g, value);
  const char *constraint = ir_type_bits(value->type) == 64 ? "l" : "r";
  kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, "", constraint, LLVMVoidTypeInContext(g->context),
                &scalar, 1);
}

/// Pins what is read after a loop of products: there a thread waits for copies, after the loop others wait for
/// what it stores.
void nvptx_enter_loop(gpu *g, ir_op *loop) {
  if (!ir_find(ir_loop_body(loop), IR_MMA)) return;
  for (ir_op *op = loop->block->first; op != loop; op = op->next) {
    bool is_read = false;
    for (const ir_op *user = loop->next; user && !is_read; user = ir_next(loop->block, user))
      for (uint32_t i = 0; user->code != IR_VIEW && i < user->operand_count; i++)
        is_read |= user->operands[i] == op->results;
    if (is_read && op->result_count == 1) pin(g, op->results);
  }
}

/// Copies are one thread's. What their indices need of the first program all threads of the warp compute
/// before the barriers have to be there.
static void lower_producer(gpu *g, ir_block *block, bool is_cluster, LLVMBasicBlockRef idle,
                           LLVMBasicBlockRef end) {
  ir_op *op = block->first;
  for (; ir_is_pure(op); op = op->next) gpu_lower_op(g, op);
  KILN_ASSERT(op->code == IR_FOR);
  for (uint32_t i = 0; i < op->operand_count; i++) pin(g, op->operands[i]);
  LLVMValueRef first = gpu_scalar(g, ir_for_lower(op)), programs = gpu_scalar(g, ir_for_upper(op));
  branch_unless(g, LLVMBuildICmp(g->builder, LLVMIntSLT, first, programs, ""), idle, "program");
  meet(g, is_cluster);
  LLVMValueRef elected = kl_call(&g->prelude, KL_kl_elect, NULL, 0);
  branch_unless(g, LLVMBuildICmp(g->builder, LLVMIntNE, elected, gpu_i32(g, 0), ""), end, "copying");
  g->is_alone = true;
  for (; op != block->last; op = op->next) gpu_lower_op(g, op);
  g->is_alone = false;
  LLVMBuildBr(g->builder, end);
}

/// Consumers are the threads whose numbers the kernel's tiles know; the producer's group stands after them,
/// and one thread of it copies.
static void lower_roles(gpu *g, ir_op *op) {
  unsigned blocks = g->spread ? g->spread : 1, groups = g->kernel->warps / 4 / blocks;
  bool is_cluster = nvptx_cluster(&op->attrs.roles) > 1;
  LLVMBasicBlockRef end = gpu_block(g, "end"), consumer = gpu_block(g, "consumer"),
                    idle = gpu_block(g, "idle");
  g->scratch_base = g->scratch_floor = kiln_roles_end(g->layouts);
  if (g->scratch_base > g->shared_bytes) g->shared_bytes = g->scratch_base;
  open_barriers(g, is_cluster);
  LLVMValueRef warp = nvptx_warp(g);
  g->group = g->program_group = LLVMBuildLShr(g->builder, warp, gpu_i32(g, 2), "");
  nvptx_find_place(g, groups);
  LLVMValueRef is_producer = LLVMBuildICmp(g->builder, LLVMIntEQ, g->group, gpu_i32(g, groups), "");
  branch_unless(g, is_producer, consumer, "producer");
  set_registers(g, op->attrs.roles.producer_registers, false);
  branch_unless(g, LLVMBuildICmp(g->builder, LLVMIntEQ, warp, gpu_i32(g, 4 * groups), ""), idle, "warp");
  lower_producer(g, op->regions[0], is_cluster, idle, end);
  LLVMPositionBuilderAtEnd(g->builder, idle);
  meet(g, is_cluster);
  LLVMBuildBr(g->builder, end);
  LLVMPositionBuilderAtEnd(g->builder, consumer);
  meet(g, is_cluster);
  set_registers(g, op->attrs.roles.consumer_registers, true);
  g->barrier = NVPTX_BLOCK_BARRIER;
  g->barrier_threads = groups * NVPTX_GROUP_THREADS;
  g->shared_dirty = false;
  gpu_lower_block(g, op->regions[1]);
  LLVMBuildBr(g->builder, end);
  LLVMPositionBuilderAtEnd(g->builder, end);
}

static void lower_block_number(gpu *g, ir_op *op) {
  kl_function f = op->attrs.axis ? KL_kl_npid_0 : KL_kl_pid_0;
  gpu_set_scalar(g, &op->results[0], kl_call(&g->prelude, f, NULL, 0));
}

// ---------------------------------------------------------------------------------------- barriers

static LLVMValueRef barrier_address(gpu *g, ir_value *barriers, ir_value *slot) {
  LLVMValueRef start = plus(g, g->shared_address, barriers->def->attrs.alloc.at);
  return plus_times(g, start, gpu_scalar(g, slot), KILN_BARRIER_BYTES);
}

/// The copying thread expects bytes at a barrier; threads wait for its phase, or arrive.
static void lower_barrier(gpu *g, ir_op *op) {
  LLVMValueRef arguments[2] = {barrier_address(g, op->operands[0], op->operands[1]), NULL};

  if (op->code == IR_BAR_EXPECT) {
    arguments[1] = gpu_i32(g, op->attrs.expect.part);
    kl_call(&g->prelude, KL_kl_mbar_expect, arguments, 2);
    return;
  }

  const bool is_cluster = op->attrs.arrive.is_cluster;
  if (op->code == IR_BAR_WAIT) {
    arguments[1] = gpu_scalar(g, op->operands[2]);
    if (op->attrs.arrive.is_own) arguments[0] = plus_times(g, arguments[0], g->group, KILN_BARRIER_BYTES);
    kl_call(&g->prelude, is_cluster ? KL_kl_mbar_wait_cluster : KL_kl_mbar_wait, arguments, 2);
    return;
  }

  const bool by_warps = op->attrs.arrive.by_warps;
  arguments[1] = gpu_i32(g, 1);
  if (!g->is_alone) { // of a warp or a group the first thread arrives
    if (by_warps) kl_call(&g->prelude, KL_kl_warp_meet, NULL, 0);
    arguments[1] = LLVMBuildZExt(g->builder, is_first_of(g, by_warps ? 32 : NVPTX_GROUP_THREADS), g->i32, "");
  }
  if (!op->attrs.arrive.blocks) kl_call(&g->prelude, KL_kl_mbar_arrive_if, arguments, 2);
  for (unsigned place = 0; place < op->attrs.arrive.blocks; place++) {
    LLVMValueRef there[2] = {arguments[0], nvptx_block_at(g, gpu_i32(g, place))};
    kl_call(&g->prelude, is_cluster ? KL_kl_cluster_release_writes_if : KL_kl_cluster_release_if,
            (LLVMValueRef[2]){kl_call(&g->prelude, KL_kl_cluster_address, there, 2), arguments[1]}, 2);
  }
}

// ------------------------------------------------------------------------------------------ copies

/// Coordinates innermost first, the innermost at `column` elements from the index, the next at `row`.
static unsigned coordinates(gpu *g, const ir_op *op, ir_type view, LLVMValueRef column, LLVMValueRef row,
                            LLVMValueRef *out) {
  unsigned rank = view.rank, row_axis = rank - 1;
  while (row_axis-- > 0 && view.log2[row_axis] == IR_DROPPED) {
  }
  for (unsigned i = 0; i < rank; i++) {
    unsigned axis = rank - 1 - i;
    out[i] = LLVMBuildTrunc(g->builder, gpu_scalar(g, ir_view_indices(op)[axis]), g->i32, "");
    if (!i) out[i] = LLVMBuildAdd(g->builder, out[i], column, "");
    else if (axis == row_axis) out[i] = LLVMBuildAdd(g->builder, out[i], row, "");
  }
  return rank;
}

static const kl_function loads[] = {KL_kl_tensor_load_2, KL_kl_tensor_load_3, KL_kl_tensor_load_4,
                                    KL_kl_tensor_load_5};
/// To the same place in all blocks of a set, and to the barrier of each.
static const kl_function loads_for_all[] = {KL_kl_tensor_load_all_2, KL_kl_tensor_load_all_3,
                                            KL_kl_tensor_load_all_4, KL_kl_tensor_load_all_5};
static const kl_function stores[] = {KL_kl_tensor_store_2, KL_kl_tensor_store_3, KL_kl_tensor_store_4,
                                     KL_kl_tensor_store_5};
static const kl_function additions[] = {KL_kl_tensor_add_2, KL_kl_tensor_add_3, KL_kl_tensor_add_4,
                                        KL_kl_tensor_add_5};

/// What a block that shares the program copies of an operand. All blocks of a row (left operands) or column of
/// blocks have the same part of the tile, and each of them copies some of the part's rows to all of them.
typedef struct share {
  LLVMValueRef row, column; ///< in the tile: of the first element that it copies
  LLVMValueRef inside;      ///< that row's number in the part
  LLVMValueRef blocks;      ///< that it goes to, a set
} share;

/// `rows`: that it copies; `part`: rows of the part, or columns, where it is columns that the tile is divided by.
static share share_of(gpu *g, const ir_op *op, uint32_t rows, uint32_t part) {
  LLVMValueRef zero = gpu_i32(g, 0);
  if (!op->attrs.copy.parts) return (share){.row = zero, .column = zero, .inside = zero};
  uint32_t columns = g->spread_columns, set = 0;
  bool is_left = op->attrs.copy.operand == 0;
  LLVMValueRef number = is_left ? g->block_row : g->block_column,
               turn = is_left ? g->block_column : g->block_row;
  for (uint32_t i = 0; i < g->spread; i++)
    if (is_left ? i < columns : i % columns == 0) set |= 1u << i;
  share s = {.inside = scale(g, turn, rows)};
  LLVMValueRef first = scale(g, number, part);
  s.row = op->attrs.copy.is_mn ? s.inside : LLVMBuildAdd(g->builder, first, s.inside, "");
  s.column = op->attrs.copy.is_mn ? first : zero;
  s.blocks = LLVMBuildShl(g->builder, gpu_i32(g, set),
                          nvptx_block_at(g, scale(g, number, is_left ? columns : 1)), "");
  return s;
}

/// One box per column of `row` bytes; each is as long as the tile has rows, or as the rows that the block copies.
static void lower_copy(gpu *g, ir_op *op) {
  const ir_copy *how = &op->attrs.copy;
  const ir_type view = op->operands[0]->type;
  const kiln_boxes boxes = kiln_boxes_of(op, NVPTX_ROW);
  const unsigned elements = boxes.row / kiln_scalars[view.scalar].bytes;
  ir_value **memory = op->operands + 1 + view.rank, *slot = memory[1], *barriers = memory[2];
  share mine = share_of(g, op, boxes.rows, how->is_mn ? boxes.part_columns : boxes.part_rows);
  LLVMValueRef to = nvptx_slot_address(g, memory[0], slot);
  to = plus_times(g, to, mine.inside, boxes.row);
  LLVMValueRef barrier = barrier_address(g, barriers, slot);
  for (unsigned i = 0; i < boxes.count; i++) {
    LLVMValueRef arguments[9] = {plus(g, to, i * boxes.row * boxes.part_rows), g->maps[how->map].param,
                                 barrier};
    unsigned rank = coordinates(g, op, view, plus(g, mine.column, i * elements), mine.row, arguments + 3);
    arguments[3 + rank] = mine.blocks;
    if (how->is_multicast) kl_call(&g->prelude, loads_for_all[rank - 2], arguments, 4 + rank);
    else kl_call(&g->prelude, loads[rank - 2], arguments, 3 + rank);
  }
}

// ----------------------------------------------------------------------------------- staged stores

typedef struct staging {
  gpu_tile tile;
  unsigned slots;   ///< that the group's part is divided into; one is read while the next is written
  unsigned columns; ///< staged at a time, in one slot
  unsigned row;     ///< bytes of a row in shared memory
  unsigned box_rows;
  uint32_t box;        ///< bytes from one column of `row` bytes to the next
  LLVMValueRef memory; ///< the group's part, or one of its two slots
} staging;

/// Four words of two neighbouring columns: rows l / 4, rows 8 + l / 4 of a warp; both 8 columns further.
static void pack_words(gpu *g, const staging *s, uint32_t first, LLVMValueRef *words) {
  for (unsigned w = 0; w < 4; w++)
    words[w] = LLVMBuildBitCast(g->builder, gpu_pack(g, s->tile.regs + first + 2 * w, 2), g->i32, "");
}

static LLVMValueRef warp_of_group(gpu *g) {
  LLVMValueRef warp = LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, 5), "");
  return LLVMBuildAnd(g->builder, warp, gpu_i32(g, 3), "");
}

/// Writes 64 rows and `columns` columns from register `first` on in the interleaved form that the map reads:
/// 16-byte pieces of a row are exchanged by the low bits of the row. Each lane of a warp gives the address of
/// one row of 16 bytes: rows l % 16, columns 8 (l / 16).
static void write_part(gpu *g, const staging *s, uint32_t first, unsigned columns) {
  LLVMBuilderRef b = g->builder;
  unsigned pieces = s->row / 16;
  LLVMValueRef lane = LLVMBuildAnd(b, g->thread, gpu_i32(g, 31), "");
  LLVMValueRef row =
      LLVMBuildAdd(g->builder, LLVMBuildAnd(b, lane, gpu_i32(g, 15), ""), scale(g, warp_of_group(g), 16), "");
  LLVMValueRef right = LLVMBuildLShr(b, lane, gpu_i32(g, 4), "");
  LLVMValueRef start = plus_times(g, s->memory, row, s->row), turn = nvptx_turn_of_row(g, s->row, row);
  for (unsigned c = 0; c < columns / 16; c++) {
    LLVMValueRef arguments[5];
    unsigned column = 2 * c % pieces, box = 2 * c / pieces;
    LLVMValueRef piece = LLVMBuildXor(b, LLVMBuildOr(b, right, gpu_i32(g, column), ""), turn, "");
    arguments[0] = plus(g, plus_times(g, start, piece, 16), box * s->box);
    pack_words(g, s, first + 8 * c, arguments + 1);
    kl_call(&g->prelude, KL_kl_stmatrix_x4, arguments, 5);
  }
}

/// The same of 32-bit elements, two neighbours at a time: a thread has columns 8 j + 2 (l % 4) and the next
/// of rows l / 4 and 8 more, which are turned alike. Threads of odd rows write columns 16 away from those
/// that even rows write, so that those that write at a time meet no bank twice.
static void write_sums(gpu *g, const staging *s, uint32_t first, unsigned columns) {
  LLVMBuilderRef b = g->builder;
  unsigned pieces = s->row / 16, swap = pieces == 8 ? 2 : 0; // of j
  LLVMValueRef lane = LLVMBuildAnd(b, g->thread, gpu_i32(g, 31), ""),
               low = LLVMBuildLShr(b, lane, gpu_i32(g, 2), "");
  LLVMValueRef row = plus_times(g, low, warp_of_group(g), 16), turn = nvptx_turn_of_row(g, s->row, row);
  LLVMValueRef right = LLVMBuildAnd(b, LLVMBuildLShr(b, lane, gpu_i32(g, 1), ""), gpu_i32(g, 1), "");
  LLVMValueRef odd = LLVMBuildTrunc(b, low, g->i1, "");
  LLVMValueRef inside = scale(g, LLVMBuildAnd(b, lane, gpu_i32(g, 1), ""), 8);
  LLVMValueRef start = LLVMBuildAdd(g->builder, plus_times(g, s->memory, row, s->row), inside, "");
  if (swap) turn = LLVMBuildXor(b, turn, scale(g, LLVMBuildAnd(b, low, gpu_i32(g, 1), ""), 2 * swap), "");
  for (unsigned j = 0; j < columns / 8; j++) {
    unsigned piece = 2 * j % pieces, box = 2 * j / pieces;
    LLVMValueRef at = LLVMBuildXor(b, LLVMBuildOr(b, right, gpu_i32(g, piece), ""), turn, "");
    LLVMValueRef to = plus_times(g, start, at, 16);
    for (unsigned half = 0; half < 2; half++) {
      LLVMValueRef both = LLVMGetUndef(LLVMVectorType(g->f32, 2));
      for (unsigned i = 0; i < 2; i++) {
        const LLVMValueRef *regs = s->tile.regs + first + 2 * half + i;
        LLVMValueRef v = swap ? LLVMBuildSelect(b, odd, regs[4 * (j ^ swap)], regs[4 * j], "") : regs[4 * j];
        both = LLVMBuildInsertElement(b, both, v, gpu_i32(g, i), "");
      }
      LLVMValueRef address = plus(g, to, box * s->box + half * 8 * s->row);
      LLVMValueRef pointer = LLVMBuildIntToPtr(b, address, LLVMPointerTypeInContext(g->context, 3), "");
      LLVMSetAlignment(LLVMBuildStore(b, both, pointer), 8);
    }
  }
}

/// The same turned: column c of the group is row c in memory, of 64 elements. Lanes give the addresses of
/// rows l % 8 + 8 (l / 16) of 16, of their pieces 2 warp + l / 8 % 2.
static void write_turned(gpu *g, const staging *s, uint32_t first, unsigned columns) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef lane = LLVMBuildAnd(b, g->thread, gpu_i32(g, 31), "");
  LLVMValueRef turn = LLVMBuildAnd(b, lane, gpu_i32(g, 7), "");
  LLVMValueRef right = LLVMBuildAnd(b, LLVMBuildLShr(b, lane, gpu_i32(g, 3), ""), gpu_i32(g, 1), "");
  LLVMValueRef row = plus_times(g, turn, LLVMBuildLShr(b, lane, gpu_i32(g, 4), ""), 8);
  LLVMValueRef piece =
      LLVMBuildXor(b, LLVMBuildAdd(g->builder, scale(g, warp_of_group(g), 2), right, ""), turn, "");
  LLVMValueRef start =
      LLVMBuildAdd(g->builder, plus_times(g, s->memory, row, s->row), scale(g, piece, 16), "");
  for (unsigned c = 0; c < columns / 16; c++) {
    LLVMValueRef arguments[5] = {plus(g, start, c * 16 * s->row)};
    pack_words(g, s, first + 8 * c, arguments + 1);
    kl_call(&g->prelude, KL_kl_stmatrix_x4_trans, arguments, 5);
  }
}

/// Box i is where its columns begin, or its rows where the store is turned.
static void send_part(gpu *g, const ir_op *op, const staging *s, unsigned columns, LLVMValueRef row,
                      LLVMValueRef column) {
  bool is_turned = op->attrs.access.is_turned, adds = op->attrs.access.adds;
  unsigned bytes = kiln_scalars[op->operands[0]->type.scalar].bytes;
  unsigned boxes = is_turned ? columns / s->box_rows : bytes * columns / s->row;
  for (unsigned i = 0; i < boxes; i++) {
    LLVMValueRef arguments[8] = {g->maps[op->attrs.access.map].param,
                                 plus(g, s->memory, i * s->box_rows * s->row)};
    LLVMValueRef at = plus(g, column, i * (is_turned ? s->box_rows : s->row / bytes));
    unsigned rank =
        coordinates(g, op, op->operands[0]->type, is_turned ? row : at, is_turned ? at : row, arguments + 2);
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): `coordinates` wrote as many as it says
    kl_call(&g->prelude, (adds ? additions : stores)[rank - 2], arguments, 2 + rank);
  }
  kl_call(&g->prelude, KL_kl_bulk_commit, NULL, 0);
}

/// What the engine does not write of the part that it has been sent.
static void store_rest(gpu *g, const ir_op *op, const staging *s, unsigned columns, LLVMValueRef row,
                       LLVMValueRef column) {
  bool is_turned = op->attrs.access.is_turned;
  nvptx_staged staged = {.memory = s->memory,
                         .row = s->row,
                         .box = s->box,
                         .rows = is_turned ? columns : 64,
                         .columns = is_turned ? 64 : columns,
                         .first_row = is_turned ? column : row,
                         .first_column = is_turned ? row : column};
  if (op->attrs.access.is_ragged) nvptx_store_rest(g, op, &staged);
}

/// The leader waits, `wait` says for which of its stores; then the group knows.
static void meet_after(gpu *g, LLVMValueRef leader, kl_function wait) {
  LLVMBasicBlockRef drain = gpu_block(g, "drain"), write = gpu_block(g, "stage");
  LLVMBuildCondBr(g->builder, leader, drain, write);
  LLVMPositionBuilderAtEnd(g->builder, drain);
  kl_call(&g->prelude, wait, NULL, 0);
  LLVMBuildBr(g->builder, write);
  LLVMPositionBuilderAtEnd(g->builder, write);
  nvptx_group_barrier(g);
}

static staging open_staging(gpu *g, ir_op *op) {
  const kiln_matrix_machine *machine = kiln_matrix_machine_of(g->target);
  ir_value *memory = op->operands[op->operand_count - 2];
  unsigned bytes = kiln_memory_bytes(memory->type, 0, 0),
           at_a_time = kiln_stage_at_a_time(machine, g->kernel, op);
  const bool has_two_rows =
      at_a_time * kiln_scalars[op->operands[0]->type.scalar].bytes == 2 * machine->row_bytes;
  staging s = {.row = kiln_stage_row(machine, g->kernel, op),
               .box_rows = kiln_stage_box_rows(machine, g->kernel, op),
               .slots = has_two_rows ? 2 : 1};
  s.columns = at_a_time / s.slots;
  s.box = 64 * s.row;
  s.tile = gpu_operand(g, op, op->operand_count - 1);
  s.memory = LLVMBuildAdd(g->builder, nvptx_slot_address(g, memory, NULL),
                          scale(g, g->group, bytes >> (memory->type.log2[0] - 6)), "");
  return s;
}

/// In parts of 64 rows, by two slots in turn: wait until a slot has been read, write, let the copy engine see
/// it, send.
static void lower_stage(gpu *g, ir_op *op) {
  const kiln_matrix_machine *machine = kiln_matrix_machine_of(g->target);
  kiln_mma_split split = kiln_mma_split_of(g->layouts, op->operands[op->operand_count - 1]->type);
  unsigned all = kiln_stage_columns(machine, g->kernel, op), number = 0;
  // Of a group's columns, which lie between it and the next; this is one of them.
  unsigned shares = op->attrs.access.split ? op->attrs.access.split : 1;
  staging s = open_staging(g, op);
  if (g->status != KILN_OK) return;
  LLVMValueRef leader = is_first_of(g, NVPTX_GROUP_THREADS), memory = s.memory;
  const unsigned bytes = kiln_scalars[op->operands[0]->type.scalar].bytes,
                 slot_bytes = 64 * s.columns * bytes;
  void (*write)(gpu *, const staging *, uint32_t, unsigned) = op->attrs.access.is_turned ? write_turned
                                                              : bytes == 4               ? write_sums
                                                                                         : write_part;
  unsigned blocks = g->kernel->groups_beside ? kiln_stage_rows(op) / 64 : 1u << split.blocks;
  for (unsigned block = 0; block < blocks; block++)
    for (unsigned at = 0; at < all; at += s.columns, number++) {
      unsigned columns = all - at < s.columns ? all - at : s.columns,
               first = (block << (split.columns - 1)) + at / 2;
      // Part `number` goes where the part before the last was. Before the first, all that was staged has been
      // read, so that both slots are free then.
      if (!number || number >= s.slots)
        meet_after(g, leader, number && s.slots > 1 ? KL_kl_bulk_wait_read_1 : KL_kl_bulk_wait_read);
      s.memory = plus(g, memory, number % s.slots * slot_bytes);
      write(g, &s, first, columns);
      kl_call(&g->prelude, KL_kl_proxy_fence, NULL, 0);
      nvptx_group_barrier(g);
      LLVMBasicBlockRef send = gpu_block(g, "send"), after = gpu_block(g, "sent");
      LLVMValueRef row = plus(g, nvptx_group_row(g, &split, g->program_group, split.groups_n), 64 * block);
      LLVMValueRef column = plus(g, nvptx_group_column(g, &split, all * shares), at);
      LLVMBuildCondBr(g->builder, leader, send, after);
      LLVMPositionBuilderAtEnd(g->builder, send);
      send_part(g, op, &s, columns, row, column);
      LLVMBuildBr(g->builder, after);
      LLVMPositionBuilderAtEnd(g->builder, after);
      store_rest(g, op, &s, columns, row, column);
    }
}

/// Groups write their rows where descriptors of a product find them.
static void lower_put(gpu *g, ir_op *op) {
  ir_value *value = op->operands[2];
  kiln_mma_split split = kiln_mma_split_of(g->layouts, value->type);
  staging s = {.tile = gpu_operand(g, op, 2), .row = kiln_memory_row(value->type, NVPTX_ROW)};
  s.box = s.row << value->type.log2[0];
  LLVMValueRef start =
      LLVMBuildAdd(g->builder, nvptx_slot_address(g, op->operands[0], op->operands[1]),
                   scale(g, nvptx_group_row(g, &split, g->program_group, split.groups_n), s.row), "");
  for (unsigned block = 0; g->status == KILN_OK && block < 1u << split.blocks; block++) {
    s.memory = plus(g, start, 64 * block * s.row);
    write_part(g, &s, block << (split.columns - 1), 1u << split.columns);
  }
  kl_call(&g->prelude, KL_kl_proxy_fence, NULL, 0);
}

/// What is on its way to global memory needs the block no longer: the end of the launch waits for it.
static void lower_stage_wait(gpu *g, ir_op *op) {
  (void)op;
  LLVMBasicBlockRef wait = gpu_block(g, "drain"), after = gpu_block(g, "drained");
  LLVMBuildCondBr(g->builder, is_first_of(g, NVPTX_GROUP_THREADS), wait, after);
  LLVMPositionBuilderAtEnd(g->builder, wait);
  kl_call(&g->prelude, KL_kl_bulk_wait_read, NULL, 0);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

/// Threads that sent nothing have nothing to wait for. Sources: PTX ISA, "cp.async.bulk.wait_group",
/// "membar / fence".
void nvptx_meet_engine(gpu *g) {
  kl_call(&g->prelude, KL_kl_bulk_wait, NULL, 0);
  kl_call(&g->prelude, KL_kl_proxy_fence_all, NULL, 0);
}

void nvptx_lower_machine(gpu *g, ir_op *op) {
  static void (*const lowerings[IR_OPCODE_COUNT])(gpu *, ir_op *) = {
      [IR_ROLES] = lower_roles,
      [IR_BLOCK] = lower_block_number,
      [IR_BAR_EXPECT] = lower_barrier,
      [IR_BAR_WAIT] = lower_barrier,
      [IR_BAR_ARRIVE] = lower_barrier,
      [IR_COPY] = lower_copy,
      [IR_STAGE] = lower_stage,
      [IR_PUT] = lower_put,
      [IR_STAGE_WAIT] = lower_stage_wait,
      [IR_MMA] = nvptx_lower_mma,
      [IR_MMA_WAIT] = nvptx_lower_mma_wait,
      [IR_CLUSTER_SUM] = nvptx_lower_cluster_sum,
      [IR_CLUSTER_SCATTER] = nvptx_lower_cluster_scatter,
  };
  if (lowerings[op->code]) lowerings[op->code](g, op);
}
