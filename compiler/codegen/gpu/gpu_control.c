// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops and branches. Conditions and bounds are scalars, the same in all threads, so barriers inside are met
// by all. A carried tile is one phi a register.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

/// The values of one variable: one for a scalar, else one per register. Neighbours of 8 or 16 bits are one
/// word, so that a register carries all of them.
typedef struct bundle {
  kiln_layout layout;
  LLVMValueRef *values;
  uint32_t count;
  LLVMTypeRef type;  ///< of each
  unsigned per_word; ///< elements of a value
} bundle;

enum { WORD_BITS = 32 };

static bundle new_bundle(gpu *g, ir_value *like) {
  bundle b = {.count = 1, .type = gpu_type(g, ir_element(like->type)), .per_word = 1};
  if (like->type.rank) {
    b.layout = *like->layout;
    b.count = 1u << b.layout.registers;
    unsigned bits = ir_type_bits(like->type);
    bool fits = g->has_roles ? bits == 16 : g->machine->carries_words && (bits == 16 || bits == 8);
    if (fits && b.count >= WORD_BITS / bits) b.per_word = WORD_BITS / bits;
  }
  if (b.per_word > 1) b.count /= b.per_word, b.type = g->i32;
  b.values = KILN_NEW_ARRAY(g->arena, LLVMValueRef, b.count);
  return b;
}

static void fill(gpu *g, bundle *b, ir_value *from) {
  if (!from->type.rank) {
    b->values[0] = gpu_scalar(g, from);
    return;
  }
  LLVMValueRef *regs = gpu_tile_of(g, from).regs; // in ir_op.operand_layouts of who hands it on
  if (b->per_word == 1) b->values = regs;
  else
    for (uint32_t i = 0; i < b->count; i++)
      b->values[i] =
          LLVMBuildBitCast(g->builder, gpu_pack(g, regs + b->per_word * i, b->per_word), g->i32, "");
}

/// The builder stands after the phis of its block.
static void define(gpu *g, ir_value *value, const bundle *b) {
  if (!value->type.rank) {
    gpu_set_scalar(g, value, b->values[0]);
    return;
  }
  gpu_tile tile = {.layout = b->layout, .regs = b->values};
  if (b->per_word > 1) {
    LLVMTypeRef element = gpu_type(g, ir_element(value->type));
    tile = gpu_tile_new(g, &b->layout);
    for (uint32_t i = 0; i < b->count; i++)
      gpu_unpack(g, b->values[i], element, tile.regs + b->per_word * i, b->per_word);
  }
  gpu_set_home(g, value, tile);
}

/// Phis for `arg`, to be completed by add_incoming, and defined after all phis.
static bundle make_phis(gpu *g, ir_value *arg) {
  bundle b = new_bundle(g, arg);
  for (uint32_t i = 0; i < b.count; i++) b.values[i] = LLVMBuildPhi(g->builder, b.type, "");
  return b;
}

static void add_incoming(const bundle *phis, const bundle *from, LLVMBasicBlockRef block) {
  for (uint32_t i = 0; i < phis->count; i++) LLVMAddIncoming(phis->values[i], &from->values[i], &block, 1);
}

/// The values of `sources` in the layouts of `likes`.
static bundle *gather(gpu *g, ir_value *const *sources, ir_value *const *likes, uint32_t count) {
  bundle *out = KILN_NEW_ARRAY(g->arena, bundle, count);
  for (uint32_t i = 0; i < count; i++) {
    out[i] = new_bundle(g, likes[i]);
    fill(g, &out[i], sources[i]);
  }
  return out;
}

static ir_value **results_of(gpu *g, ir_op *op) {
  ir_value **out = KILN_NEW_ARRAY(g->arena, ir_value *, op->result_count);
  for (uint32_t i = 0; i < op->result_count; i++) out[i] = &op->results[i];
  return out;
}

/// The block that enters a loop.
static LLVMBasicBlockRef open_loop(gpu *g) {
  LLVMBasicBlockRef enter = gpu_block(g, "enter");
  LLVMBuildBr(g->builder, enter);
  LLVMPositionBuilderAtEnd(g->builder, enter);
  g->shared_dirty = true;
  return enter;
}

/// The first product of the loop does not read this variable (is_first of mma), so it needs no start.
static bool starts_anywhere(const ir_op *loop, uint32_t i) {
  const ir_value *arg = loop->regions[0]->args[1 + i];
  for (const ir_op *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == IR_MMA && op->operands[0] == arg) return op->attrs.mma.is_first;
  return false;
}

/// Sums that are cast at most and stored by the copy engine. Where more is computed of them, the assembler of
/// NVIDIA moves that between the parts of the store, and spills, if the sums come from two blocks.
static bool is_only_stored(const ir_value *sums) {
  const ir_op *user = sums->uses == 1 ? sums->def->next : NULL;
  while (user && !(user->operand_count && user->operands[user->operand_count - 1] == sums)) user = user->next;
  if (!user) return false;
  return user->code == IR_STAGE || (user->code == IR_CAST && is_only_stored(&user->results[0]));
}

void gpu_expect_first(gpu *g, LLVMValueRef branch) {
  enum { OFTEN = 2000, SELDOM = 1 }; // LLVM's own weights of what is likely and what is not
  LLVMMetadataRef parts[3] = {LLVMMDStringInContext2(g->context, "branch_weights", strlen("branch_weights")),
                              LLVMValueAsMetadata(gpu_i32(g, OFTEN)),
                              LLVMValueAsMetadata(gpu_i32(g, SELDOM))};
  LLVMValueRef weights = LLVMMetadataAsValue(g->context, LLVMMDNodeInContext2(g->context, parts, 3));
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(g->context, "prof", strlen("prof")), weights);
}

/// A block that stays one: what a loop gives that does not run is made there and not before the loop.
static LLVMBasicBlockRef without_loop(gpu *g, LLVMBasicBlockRef after) {
  LLVMBasicBlockRef block = gpu_block(g, "none");
  LLVMPositionBuilderAtEnd(g->builder, block);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(g->context), NULL, 0, false);
  LLVMValueRef nothing = LLVMGetInlineAsm(type, "", 0, "", 0, true, false, LLVMInlineAsmDialectATT, false);
  LLVMBuildCall2(g->builder, type, nothing, NULL, 0, "");
  LLVMBuildBr(g->builder, after);
  return block;
}

/// Whether the loop goes on after the iteration of `iv`, so that the index never passes the upper bound: that is
/// (hi - iv) > step without sign. Where that is a comparison of a counter that may begin below zero with a constant,
/// the assembler of NVIDIA (ptxas 13.0) compares the counter of the next iteration, which has just become zero, and
/// leaves the loop an iteration early; it does not where the comparison has a sign.
static LLVMValueRef goes_on(gpu *g, const ir_op *op, LLVMValueRef iv, LLVMValueRef hi, LLVMValueRef step) {
  int64_t lower, upper, by;
  const bool is_64 = ir_for_step(op)->type.scalar == KILN_I64;
  const int64_t least = is_64 ? INT64_MIN : INT32_MIN, most = is_64 ? INT64_MAX : INT32_MAX;
  const bool is_constant = ir_constant_int(ir_for_upper(op), &upper) && ir_constant_int(ir_for_step(op), &by),
             may_be_negative = !ir_constant_int(ir_for_lower(op), &lower) || lower < 0;
  if (is_constant && may_be_negative && upper >= least + by && upper <= most - by)
    return LLVMBuildICmp(g->builder, LLVMIntSLT, iv,
                         LLVMConstInt(LLVMTypeOf(iv), (uint64_t)(upper - by), true), "");
  return LLVMBuildICmp(g->builder, LLVMIntUGT, LLVMBuildSub(g->builder, hi, iv, ""), step, "");
}

/// Bottom-tested.
void gpu_lower_for(gpu *g, ir_op *op) {
  ir_block *body = ir_loop_body(op);
  ir_value **args = ir_loop_args(op);
  LLVMBuilderRef b = g->builder;
  uint32_t count = op->result_count;
  LLVMValueRef lo = gpu_scalar(g, ir_for_lower(op)), hi = gpu_scalar(g, ir_for_upper(op)),
               step = gpu_scalar(g, ir_for_step(op));
  bundle *initial = gather(g, ir_loop_initials(op), args, count);
  if (g->machine->enter_loop) g->machine->enter_loop(g, op);
  const bool is_full = g->machine->warp && kiln_loop_is_full(g->layouts, op),
             is_outer = op->block == g->kernel->body;
  // After a loop that needs all registers, places and addresses are computed again, from a number of the
  // thread that LLVM takes for another one: else those from before the loop stay alive in it, or are spilled.
  LLVMValueRef warp = is_full && is_outer ? g->machine->warp(g) : NULL;
  LLVMBasicBlockRef enter = open_loop(g);
  LLVMBasicBlockRef header = gpu_block(g, "for"), after = gpu_block(g, "next");
  LLVMBasicBlockRef around = enter;
  for (uint32_t i = 0; i < count && around == enter; i++)
    if (starts_anywhere(op, i) && is_only_stored(&op->results[i])) around = without_loop(g, after);
  LLVMPositionBuilderAtEnd(b, enter);
  LLVMValueRef enters =
      LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, lo, hi, ""), header, around == enter ? after : around);
  if (around != enter) gpu_expect_first(g, enters);
  LLVMPositionBuilderAtEnd(b, header);
  LLVMValueRef iv = LLVMBuildPhi(b, LLVMTypeOf(lo), "");
  gpu_set_scalar(g, ir_for_counter(op), iv);
  bundle *phis = KILN_NEW_ARRAY(g->arena, bundle, count);
  for (uint32_t i = 0; i < count; i++) phis[i] = make_phis(g, args[i]);
  for (uint32_t i = 0; i < count; i++) define(g, args[i], &phis[i]);
  gpu_lower_block(g, body);
  bundle *next = gather(g, ir_loop_next(op)->operands, args, count);
  LLVMBasicBlockRef end = LLVMGetInsertBlock(b);
  if (end == header && g->machine->order_body) g->machine->order_body(g, header);
  LLVMValueRef advanced = LLVMBuildAdd(b, iv, step, "");
  LLVMBuildCondBr(b, goes_on(g, op, iv, hi, step), header, after);
  LLVMAddIncoming(iv, (LLVMValueRef[2]){lo, advanced}, (LLVMBasicBlockRef[2]){enter, end}, 2);
  g->shared_dirty = true;
  LLVMPositionBuilderAtEnd(b, after);
  bundle *out = KILN_NEW_ARRAY(g->arena, bundle, count);
  for (uint32_t i = 0; i < count; i++) {
    bundle start = initial[i];
    if (starts_anywhere(op, i)) {
      start.values = KILN_NEW_ARRAY(g->arena, LLVMValueRef, start.count);
      for (uint32_t k = 0; k < start.count; k++) start.values[k] = LLVMGetUndef(start.type);
    }
    add_incoming(&phis[i], &start, enter);
    add_incoming(&phis[i], &next[i], end);
    out[i] = make_phis(g, &op->results[i]);
    add_incoming(&out[i], &initial[i], around);
    add_incoming(&out[i], &next[i], end);
  }
  for (uint32_t i = 0; i < count; i++) define(g, &op->results[i], &out[i]);
  if (warp) g->thread = g->machine->thread_of_warp(g, warp);
}

void gpu_lower_while(gpu *g, ir_op *op) {
  ir_block *before = op->regions[0], *body = ir_loop_body(op);
  LLVMBuilderRef b = g->builder;
  bundle *initial = gather(g, op->operands, before->args, op->operand_count);
  LLVMBasicBlockRef enter = open_loop(g);
  LLVMBasicBlockRef header = gpu_block(g, "while"), inside = gpu_block(g, "body"),
                    after = gpu_block(g, "next");
  LLVMBuildBr(b, header);
  LLVMPositionBuilderAtEnd(b, header);
  bundle *phis = KILN_NEW_ARRAY(g->arena, bundle, op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++) phis[i] = make_phis(g, before->args[i]);
  for (uint32_t i = 0; i < op->operand_count; i++) define(g, before->args[i], &phis[i]);
  gpu_lower_block(g, before);
  const ir_op *test = ir_while_test(op);
  ir_value **results = results_of(g, op);
  bundle *passed = gather(g, ir_cond_passed(test), results, op->result_count);
  LLVMBuildCondBr(b, gpu_scalar(g, ir_cond_condition(test)), inside, after);
  LLVMPositionBuilderAtEnd(b, inside);
  for (uint32_t i = 0; i < op->result_count; i++) define(g, body->args[i], &passed[i]);
  gpu_lower_block(g, body);
  bundle *next = gather(g, ir_loop_next(op)->operands, before->args, op->operand_count);
  LLVMBasicBlockRef end = LLVMGetInsertBlock(b);
  LLVMBuildBr(b, header);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    add_incoming(&phis[i], &initial[i], enter);
    add_incoming(&phis[i], &next[i], end);
  }
  g->shared_dirty = true;
  LLVMPositionBuilderAtEnd(b, after);
  for (uint32_t i = 0; i < op->result_count; i++) define(g, &op->results[i], &passed[i]);
}

/// Lowers one side of a branch; what it yields.
static bundle *lower_side(gpu *g, ir_op *op, ir_block *block, ir_value **results, LLVMBasicBlockRef start,
                          LLVMBasicBlockRef *out_end) {
  LLVMPositionBuilderAtEnd(g->builder, start);
  gpu_lower_block(g, block);
  bundle *out = gather(g, ir_terminator(block)->operands, results, op->result_count);
  *out_end = LLVMGetInsertBlock(g->builder);
  return out;
}

void gpu_lower_if(gpu *g, ir_op *op) {
  LLVMBuilderRef b = g->builder;
  LLVMBasicBlockRef starts[2] = {gpu_block(g, "then"), gpu_block(g, "else")}, ends[2], after;
  ir_value **results = results_of(g, op);
  bundle *sides[2];
  bool dirty = g->shared_dirty, dirty_after = false;
  LLVMBuildCondBr(b, gpu_scalar(g, ir_if_condition(op)), starts[0], starts[1]);
  for (unsigned i = 0; i < 2; i++) {
    g->shared_dirty = dirty;
    sides[i] = lower_side(g, op, op->regions[i], results, starts[i], &ends[i]);
    dirty_after |= g->shared_dirty;
  }
  g->shared_dirty = dirty_after;
  after = gpu_block(g, "joined");
  for (unsigned i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(b, ends[i]);
    LLVMBuildBr(b, after);
  }
  LLVMPositionBuilderAtEnd(b, after);
  bundle *out = KILN_NEW_ARRAY(g->arena, bundle, op->result_count);
  for (uint32_t i = 0; i < op->result_count; i++) {
    out[i] = make_phis(g, results[i]);
    for (unsigned s = 0; s < 2; s++) add_incoming(&out[i], &sides[s][i], ends[s]);
  }
  for (uint32_t i = 0; i < op->result_count; i++) define(g, results[i], &out[i]);
}
