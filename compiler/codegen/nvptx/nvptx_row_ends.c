// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of rows that are no multiple of 16 bytes.
//
// The copy engine writes pieces of 16 bytes, all of each in which a row of the tensor ends (seen on an H100).
// So the map of a store whose rows may end within a piece (is_ragged) ends before that piece (gpu_maps.c),
// and the elements of the rows in it, of each row fewer than 16 bytes, are stored from where they are staged
// by the threads of the group.
#include "compiler/analysis/provenance.h"
#include "compiler/codegen/nvptx/nvptx_async.h"

#include <string.h>

enum { PIECE = 16 }; ///< bytes that the engine writes

static LLVMValueRef i64(gpu *g, uint64_t value) { return LLVMConstInt(g->i64, value, false); }

static LLVMValueRef wide(gpu *g, const ir_value *value) {
  return LLVMBuildSExt(g->builder, gpu_scalar(g, (ir_value *)value), g->i64, "");
}

/// An extent or stride, without wrapping around, as the map has it (compiler/passes/gpu/launch_expression.c).
static LLVMValueRef exact(gpu *g, const ir_value *value) {
  LLVMBuilderRef b = g->builder;
  int64_t constant;
  value = kiln_behind(value);
  if (ir_constant_int(value, &constant)) return i64(g, (uint64_t)constant);
  const ir_op *op = value->def;
  if (!op) return wide(g, value);
  KILN_ASSERT(op->operand_count == 2);
  LLVMValueRef x = exact(g, op->operands[0]), y = exact(g, op->operands[1]);
  switch (op->code) {
  case IR_ADD: return LLVMBuildAdd(b, x, y, "");
  case IR_SUB: return LLVMBuildSub(b, x, y, "");
  case IR_MUL: return LLVMBuildMul(b, x, y, "");
  case IR_SHL: return LLVMBuildShl(b, x, y, "");
  case IR_MIN: return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, x, y, ""), x, y, "");
  default: KILN_ASSERT(op->code == IR_MAX);
  }
  return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, x, y, ""), x, y, "");
}

static LLVMValueRef both(gpu *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAnd(g->builder, a, b, "");
}

static LLVMValueRef is_within(gpu *g, LLVMValueRef index, LLVMValueRef extent) {
  return both(g, LLVMBuildICmp(g->builder, LLVMIntSGE, index, i64(g, 0), ""),
              LLVMBuildICmp(g->builder, LLVMIntSLT, index, extent, ""));
}

/// The value, of which LLVM knows nothing and before this point has nothing: what is computed with it stays
/// in the branch that most launches do not take, and needs no registers before.
static LLVMValueRef made_here(gpu *g, LLVMValueRef value) {
  bool is_wide = LLVMTypeOf(value) == g->i64;
  const char *text = is_wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;";
  return kiln_llvm_asm(g->builder, KILN_ASM_EFFECTS_TOGETHER, text, is_wide ? "=l,l" : "=r,r",
                       LLVMTypeOf(value), &value, 1);
}

/// What all threads of the group know: of the staged rows, `first` is the first column, and `rest` of their
/// columns from `whole` on are in the last piece.
typedef struct ending {
  unsigned bytes, log2_piece; ///< of an element; elements of a piece, logarithm
  unsigned row_axis;
  LLVMValueRef first, whole, rest, row; ///< i64
} ending;

static LLVMValueRef sum(gpu *g, ir_value *index, LLVMValueRef more) {
  return LLVMBuildAdd(g->builder, wide(g, index), LLVMBuildSExt(g->builder, more, g->i64, ""), "");
}

/// Opens the branch for launches whose rows end within a piece.
static ending find_end(gpu *g, const ir_op *op, const nvptx_staged *s, LLVMBasicBlockRef otherwise) {
  const ir_op *view = op->operands[0]->def;
  ir_type type = view->results[0].type;
  const unsigned last = type.rank - 1u, bytes = kiln_scalars[type.scalar].bytes;
  ending e = {.bytes = bytes, .log2_piece = (unsigned)__builtin_ctz(PIECE / bytes), .row_axis = last - 1u};
  while (e.row_axis && type.log2[e.row_axis] == IR_DROPPED) e.row_axis--;
  LLVMBasicBlockRef ragged = gpu_block(g, "ragged");
  LLVMValueRef extent = exact(g, ir_view_extents(view)[last]),
               rest = both(g, extent, i64(g, PIECE / bytes - 1));
  LLVMValueRef is_whole = LLVMBuildICmp(g->builder, LLVMIntEQ, rest, i64(g, 0), "");
  gpu_expect_first(g, LLVMBuildCondBr(g->builder, is_whole, otherwise, ragged));
  LLVMPositionBuilderAtEnd(g->builder, ragged);
  e.rest = made_here(g, rest);
  e.whole = LLVMBuildSub(g->builder, extent, e.rest, "");
  e.first = sum(g, ir_view_indices(op)[last], s->first_column);
  e.row = sum(g, ir_view_indices(op)[e.row_axis], s->first_row);
  return e;
}

/// The last piece of rows is among the staged ones.
static LLVMValueRef has_rest(gpu *g, const ir_op *op, const nvptx_staged *s, const ending *e) {
  const ir_op *view = op->operands[0]->def;
  LLVMValueRef from = LLVMBuildSub(g->builder, e->whole, e->first, "");
  LLVMValueRef has = both(g, LLVMBuildICmp(g->builder, LLVMIntSGE, e->whole, i64(g, 0), ""),
                          is_within(g, from, i64(g, s->columns)));
  for (unsigned i = 0; i + 1u < view->results[0].type.rank; i++)
    if (i != e->row_axis)
      has = both(g, has, is_within(g, wide(g, ir_view_indices(op)[i]), exact(g, ir_view_extents(view)[i])));
  return has;
}

/// Address of an element of the staged row `row`, which is `inside` bytes into the piece.
static LLVMValueRef staged_at(gpu *g, const nvptx_staged *s, const ending *e, LLVMValueRef row,
                              LLVMValueRef inside) {
  LLVMBuilderRef b = g->builder;
  const unsigned pieces = s->row / PIECE, log2_pieces = (unsigned)__builtin_ctz(pieces);
  LLVMValueRef from = LLVMBuildTrunc(b, LLVMBuildSub(b, e->whole, e->first, ""), g->i32, "");
  LLVMValueRef number = LLVMBuildLShr(b, from, gpu_i32(g, e->log2_piece), "");
  LLVMValueRef box = LLVMBuildLShr(b, number, gpu_i32(g, log2_pieces), "");
  LLVMValueRef piece = LLVMBuildAnd(b, number, gpu_i32(g, pieces - 1), "");
  piece = LLVMBuildXor(b, piece, nvptx_turn_of_row(g, s->row, row), "");
  LLVMValueRef at = LLVMBuildAdd(b, s->memory, LLVMBuildMul(b, box, gpu_i32(g, s->box), ""), "");
  at = LLVMBuildAdd(b, at, LLVMBuildMul(b, row, gpu_i32(g, s->row), ""), "");
  at = LLVMBuildAdd(b, at, LLVMBuildMul(b, piece, gpu_i32(g, PIECE), ""), "");
  return LLVMBuildAdd(b, at, inside, "");
}

/// Where column `column` of row `row` of the view lies.
static LLVMValueRef place_of(gpu *g, const ir_op *op, const ending *e, LLVMValueRef row,
                             LLVMValueRef column) {
  const ir_op *view = op->operands[0]->def;
  LLVMValueRef offset = column;
  for (unsigned i = 0; i + 1u < view->results[0].type.rank; i++) {
    LLVMValueRef index = i == e->row_axis ? row : wide(g, ir_view_indices(op)[i]);
    LLVMValueRef part = LLVMBuildMul(g->builder, index, exact(g, ir_view_strides(view)[i]), "");
    offset = LLVMBuildAdd(g->builder, offset, part, "");
  }
  LLVMTypeRef type = g->elements.types[view->results[0].type.scalar];
  return LLVMBuildGEP2(g->builder, type, gpu_scalar(g, view->operands[0]), &offset, 1, "");
}

static void write_one(gpu *g, const ir_op *op, const ending *e, LLVMValueRef from, LLVMValueRef to) {
  kiln_scalar scalar = op->operands[0]->type.scalar;
  LLVMTypeRef type = g->elements.types[scalar];
  LLVMValueRef staged = LLVMBuildIntToPtr(g->builder, from, LLVMPointerTypeInContext(g->context, 3), "");
  LLVMValueRef value = LLVMBuildLoad2(g->builder, type, staged, "");
  LLVMSetAlignment(value, e->bytes);
  if (op->attrs.access.adds) {
    ir_value old = {.uses = 0};
    ir_op adding = {.code = IR_ATOMIC, .attrs = {.kind = IR_COMBINE_ADD}, .results = &old, .result_count = 1};
    g->machine->atomic(g, &adding, scalar, to, value);
  } else {
    LLVMSetAlignment(LLVMBuildStore(g->builder, value, to), e->bytes);
  }
}

/// The row `number` of the staged ones.
static void write_row(gpu *g, const ir_op *op, const nvptx_staged *s, const ending *e, LLVMValueRef element,
                      LLVMValueRef number) {
  LLVMBuilderRef b = g->builder;
  const ir_op *view = op->operands[0]->def;
  LLVMBasicBlockRef write = gpu_block(g, "rest"), after = gpu_block(g, "row_done");
  LLVMValueRef row = LLVMBuildAdd(b, e->row, LLVMBuildZExt(b, number, g->i64, ""), "");
  LLVMBuildCondBr(b, is_within(g, row, exact(g, ir_view_extents(view)[e->row_axis])), write, after);
  LLVMPositionBuilderAtEnd(b, write);
  LLVMValueRef column = LLVMBuildAdd(b, e->whole, LLVMBuildZExt(b, element, g->i64, ""), ""),
               inside = LLVMBuildMul(b, element, gpu_i32(g, e->bytes), "");
  write_one(g, op, e, staged_at(g, s, e, number, inside), place_of(g, op, e, row, column));
  LLVMBuildBr(b, after);
  LLVMPositionBuilderAtEnd(b, after);
}

/// Threads that follow each other have the elements of a piece, and the rows, a group's threads some at a
/// time.
static void write_rows(gpu *g, const ir_op *op, const nvptx_staged *s, const ending *e,
                       LLVMBasicBlockRef after) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef thread = made_here(g, LLVMBuildAnd(b, g->thread, gpu_i32(g, NVPTX_GROUP_THREADS - 1), ""));
  LLVMValueRef element = LLVMBuildAnd(b, thread, gpu_i32(g, (1u << e->log2_piece) - 1), "");
  LLVMValueRef first = LLVMBuildLShr(b, thread, gpu_i32(g, e->log2_piece), "");
  LLVMValueRef is_mine = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildZExt(b, element, g->i64, ""), e->rest, "");
  LLVMBasicBlockRef start = LLVMGetInsertBlock(b), loop = gpu_block(g, "rows");
  LLVMBuildCondBr(b, is_mine, loop, after);
  LLVMPositionBuilderAtEnd(b, loop);
  LLVMValueRef number = LLVMBuildPhi(b, g->i32, "");
  write_row(g, op, s, e, element, number);
  LLVMValueRef next = LLVMBuildAdd(b, number, gpu_i32(g, NVPTX_GROUP_THREADS >> e->log2_piece), "");
  LLVMAddIncoming(number, (LLVMValueRef[2]){first, next},
                  (LLVMBasicBlockRef[2]){start, LLVMGetInsertBlock(b)}, 2);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, next, gpu_i32(g, s->rows), ""), loop, after);
}

void nvptx_store_rest(gpu *g, const ir_op *op, const nvptx_staged *s) {
  LLVMBasicBlockRef rest = gpu_block(g, "last_piece"), after = gpu_block(g, "whole");
  ending e = find_end(g, op, s, after);
  LLVMBuildCondBr(g->builder, has_rest(g, op, s, &e), rest, after);
  LLVMPositionBuilderAtEnd(g->builder, rest);
  write_rows(g, op, s, &e, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}
