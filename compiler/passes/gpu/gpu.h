// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPU form of the IR: passes that rewrite a kernel with matrix products in loops into machine operations
// (ops.def, after the line "Machine operations"). No LLVM here; what code generation does afterwards is
// emission.
//
//   recover   before views are lowered: tiles of pointers that are accesses of views
//   promote   before views are lowered: which accesses go through the copy engine and tensor maps
//   persist   a block computes one program after another
//   split     the iterations of a loop are shared out among the blocks of a cluster, where it says so
//   roles     one warp group copies, the others compute; they meet at barriers of slots in shared memory
//   order     of two chained products the second runs while the values for the next iteration are computed
//   wait      of several products in a row each is waited for where its result is wanted
//
// Where there is none of this, or a kernel does not fit it:
//
//   fetch     operands of products through slots of shared memory that threads fill some iterations ahead
//   slots     or that they store to what they have loaded an iteration ahead
//   prefetch  else in registers, loaded an iteration ahead
//
// And on processors of several dies:
//
//   dies      neighbours of the grid run on one die, at one time
//
// And everywhere:
//
//   between       a tile between two bounds is compared once
//   memory-order  barriers between accesses of the same memory by different threads
//   defer         a large tile that only a reduction needs is loaded and folded a part at a time
//
// A kernel that does not fit is left as it was, and the reason is kept for the report (compiler/report.h).
#ifndef KILN_COMPILER_PASSES_GPU_GPU_H
#define KILN_COMPILER_PASSES_GPU_GPU_H

#include "base/buffer.h"
#include "base/expr.h"
#include "compiler/target_info.h"
#include "compiler/passes/pass.h"
#include "compiler/report.h"
#include "targets/targets.h"

/// How many elements along an axis of its tile an access of a view is about; 0: all.
static inline unsigned kiln_part_of(const ir_op *access, unsigned axis) {
  const ir_view_access *a = &access->attrs.access;
  if (a->first && a->axis == axis) return (unsigned)a->first;
  return axis + 1u == ir_view_tile(access->operands[0]->type).rank ? (unsigned)a->across : 0;
}

/// How one product is done.
/// A transposed matrix that nothing else takes.
static inline bool kiln_is_turned_once(const ir_value *value) {
  return value->def && value->def->code == IR_TRANS && value->type.rank == 2 && value->uses == 1;
}

typedef struct kiln_product {
  ir_op *left, *right;    ///< mapped loads of the operands; left NULL: from registers, or put
  ir_op *put;             ///< transposition of a computed left operand, which goes through shared memory
  unsigned rows, columns; ///< of the result that the operands have elements for: the others stay
  bool is_beside;         ///< of a left operand without some of its rows each group has all
  bool is_divided;        ///< of an operand without some of its columns two groups have some each
  bool left_mn, right_mn; ///< contiguous along rows, columns instead of the reduced index
  bool is_partial; ///< the unit keeps fewer bits than the accumulator has: sums of one product each are added
} kiln_product;

/// Why the product `dot` can't be issued from shared memory although its operands were mapped loads; NONE: it
/// can.
kiln_report_reason kiln_judge_product(const kiln_matrix_machine *machine, const ir_kernel *kernel,
                                      const ir_op *dot, kiln_product *out);
/// The same of its shape and types alone, wherever the operands come from; sets rows, columns and is_partial.
kiln_report_reason kiln_judge_shape(const kiln_matrix_machine *machine, const ir_kernel *kernel,
                                    const ir_op *dot, kiln_product *out);
/// Whether `op` is a product that can be.
bool kiln_product_of(const kiln_matrix_machine *machine, const ir_kernel *kernel, const ir_op *op,
                     kiln_product *out);

/// Blocks of a cluster that share a program, each with some of its rows and columns: 2 where sixteen warps
/// compute, 4 where 32 do, and nothing has to pass between the blocks; else 1. Wants mapped accesses and the
/// uses of values. They stand below each other where there are rows for all, else two side by side: with
/// `columns` side by side, block r is in row r / columns, column r % columns.
typedef struct kiln_spread {
  unsigned blocks, columns;
} kiln_spread;
kiln_spread kiln_gpu_blocks_of_program(const kiln_matrix_machine *machine, ir_kernel *kernel);
/// Visits each load of one axis whose elements are spread by `broadcast` over a tile of two, as they are or
/// computed with element by element; `expand` says along which axis. A load may be visited several times.
void kiln_gpu_visit_lines(const ir_op *broadcast,
                          void (*visit)(ir_op *load, const ir_op *expand, void *context), void *context);

/// Accumulators of a thread that the product needs at a time.
unsigned kiln_product_registers(const ir_kernel *kernel, const ir_op *dot, const kiln_product *how);

/// Accumulators of a thread that the products of a block need, counted one product after another. What a
/// product gets through shared memory has left its registers: it needs its own besides those that loops carry.
typedef struct kiln_sums {
  unsigned all, carried, put;
} kiln_sums;
void kiln_count_sums(kiln_sums *sums, const ir_kernel *kernel, const ir_op *dot, const kiln_product *how);
unsigned kiln_most_sums(const kiln_sums *sums);

enum { KILN_PUT_SLOTS = 2 }; ///< of a computed operand: one is read while the next is written
enum {
  KILN_PARTIAL_COLUMNS = 7
}; ///< log2 of the columns that a group sums at a time before they are added (is_partial of mma)
enum { KILN_SPARE_REGISTERS = 48 }; ///< of a thread, besides accumulators

/// Of loads of products and stores through tiles of pointers.
typedef struct kiln_unrecovered {
  unsigned count;      ///< that stay
  bool fewer_programs; ///< fewer would if fewer programs were launched, or 32 bits were known to be enough
} kiln_unrecovered;

/// Makes them accesses of views where that is the same. Wants views split into operations. Returns how many it made;
/// `out_left` may be NULL.
unsigned kiln_gpu_recover_views(ir_kernel *kernel, kiln_unrecovered *out_left);

/// What loops carry and advance like their counter becomes the counter and a constant.
void kiln_gpu_level_counters(ir_kernel *kernel);
/// Parameters that masks compare with are from 0 to `most`, which the launch tests. False: there is none that
/// may be anything else.
bool kiln_gpu_limit_extents(ir_kernel *kernel, int64_t most);

/// Whether an access of the kernel is marked; whether it is, or the kernel has machine operations already.
bool kiln_gpu_has_mapped(ir_kernel *kernel);
bool kiln_gpu_has_form(ir_kernel *kernel);

/// Whether one of the operations stands in the other's block, or in a block within that.
bool kiln_gpu_are_nested(const ir_op *a, const ir_op *b);

/// What stands after a loop, for a part of the columns.
typedef struct kiln_slice {
  const ir_op *loop;
  ir_value **sums;     ///< for each result of the loop, the part's columns of it
  ir_value *first;     ///< first column of the part, i32
  int64_t columns;     ///< that a part has, where the stores are of a part of the tile; 0: all
  unsigned log2_parts; ///< of the columns of tiles by those of the part's
  unsigned beside;     ///< warpgroups side by side, each with a part of its own columns
  unsigned shares;     ///< parts
} kiln_slice;

/// What each of the stores from `first` up to `end` has of its tile.
typedef struct kiln_stored {
  int64_t rows;    ///< 0: all
  int64_t columns; ///< 0: they differ, or are of other tiles
} kiln_stored;
kiln_stored kiln_gpu_stored(const ir_op *first, const ir_op *end);
/// Emits with `b` what the operations from `first` up to `end` store of the part. False: it can't be; what
/// was emitted up to then is of no use.
bool kiln_gpu_slice(ir_builder *b, const kiln_slice *how, ir_op *first, const ir_op *end);

/// The scalar as a launch expression over the parameters (base/expr.h), appended to `out`; false when it is
/// none. `scale` multiplies it. What the IR computes in 32 bits wraps in it, too.
bool kiln_launch_expression(const ir_kernel *kernel, const ir_value *value, int64_t scale, kiln_buffer *out);

/// `value`, of 64 bits, `compare` `end` becomes a condition of the launch. False when it is no launch
/// expression, or the conditions together are too long for one.
bool kiln_add_condition(ir_kernel *kernel, const ir_value *value, kiln_expr_op compare, int64_t end);
/// An expression that is 0, and fails where a condition does not hold.
void kiln_write_conditions(const ir_kernel *kernel, kiln_buffer *out);

/// Row width of a tile in shared memory: bytes of the innermost axis, at most `row_bytes`. Wider tiles lie as
/// several such columns one after another.
unsigned kiln_memory_row(ir_type tile, unsigned row_bytes);
/// Rows of a tile in shared memory, of which only `rows` are copied (0: all).
unsigned kiln_memory_rows(ir_type tile, uint32_t rows);
/// Bytes of a tile in shared memory, of which only so many rows and columns are copied (0: all).
uint32_t kiln_memory_bytes(ir_type tile, uint32_t rows, uint32_t columns);
enum { KILN_BARRIER_BYTES = 8 }; ///< of a barrier in shared memory
/// How many of its tile's elements along an axis a load through a view copies; 0: all.
uint32_t kiln_copied(const ir_op *load, unsigned axis);
/// Bytes that a slot of tiles takes in each block.
uint32_t kiln_slot_bytes(const ir_op *alloc);
/// What a copy brings to a block: a box for each column of `row` bytes.
typedef struct kiln_boxes {
  unsigned count, row;
  uint32_t rows; ///< of a box: the tile's, or this block's share of them where blocks share the program
  uint32_t part_rows, part_columns; ///< of the part of the tile that the block has in shared memory
} kiln_boxes;
kiln_boxes kiln_boxes_of(const ir_op *copy, unsigned row_bytes);

/// Columns of a warpgroup of a store by the copy engine; bytes of a row while they are staged, of which
/// they are a multiple; rows of a box. Those of a turned store are the tile's rows.
unsigned kiln_stage_columns(const kiln_matrix_machine *machine, const ir_kernel *kernel, const ir_op *op);
/// Rows of the products' tile that a staged store writes.
unsigned kiln_stage_rows(const ir_op *op);
unsigned kiln_stage_row(const kiln_matrix_machine *machine, const ir_kernel *kernel, const ir_op *op);
unsigned kiln_stage_box_rows(const kiln_matrix_machine *machine, const ir_kernel *kernel, const ir_op *op);

/// Columns of a group that are staged at a time; bytes of its part of the memory for them.
unsigned kiln_stage_at_a_time(const kiln_matrix_machine *machine, const ir_kernel *kernel, const ir_op *op);

/// What a store by the copy engine stages: its value, or what a transposition before it transposes.
ir_value *kiln_staged_value(const ir_op *store);

#endif
