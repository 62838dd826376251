// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU lowering: the kernel function, its parameters, and one walk over the operations, with loops and branches. Their
// conditions and bounds are scalars, the same in all threads, so barriers inside are met by all. A carried tile is one
// phi a register.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

#include "base/printed.h"
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"

// ---------------------------------------------------------------------------------------- loops and branches

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
  // Where sums are only stored, what the loop gives if it does not run is made in a block of its own and not
  // before the loop. The empty text keeps LLVM from removing that block.
  LLVMBasicBlockRef around = enter;
  for (uint32_t i = 0; i < count && around == enter; i++) {
    if (!starts_anywhere(op, i) || !is_only_stored(&op->results[i])) continue;
    around = gpu_block(g, "none");
    LLVMPositionBuilderAtEnd(b, around);
    kiln_llvm_asm(b, KILN_ASM_EFFECTS, "", "", LLVMVoidTypeInContext(g->context), NULL, 0);
    LLVMBuildBr(b, after);
  }
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

// -------------------------------------------------------------------------------------- operations

static void lower_const(gpu *g, ir_op *op) {
  ir_type type = op->results[0].type;
  LLVMTypeRef llvm = gpu_type(g, type);
  LLVMValueRef bits =
      LLVMConstInt(LLVMIntTypeInContext(g->context, type.pointer ? 64 : kiln_scalars[type.scalar].bits),
                   op->attrs.bits, false);
  if (type.pointer) bits = LLVMConstIntToPtr(bits, llvm);
  else if (LLVMTypeOf(bits) != llvm) bits = LLVMConstBitCast(bits, llvm);
  gpu_set_scalar(g, &op->results[0], bits);
}

static void lower_pid(gpu *g, ir_op *op) {
  static const kl_function functions[2][3] = {{KL_kl_pid_0, KL_kl_pid_1, KL_kl_pid_2},
                                              {KL_kl_npid_0, KL_kl_npid_1, KL_kl_npid_2}};
  unsigned axis = op->attrs.axis < 3 ? op->attrs.axis : 2;
  if (op->code == IR_NPID && g->grid[axis]) {
    gpu_set_scalar(g, &op->results[0], g->grid[axis]);
    return;
  }
  gpu_set_scalar(g, &op->results[0], kl_call(&g->prelude, functions[op->code == IR_NPID][axis], NULL, 0));
}

static void lower_barrier(gpu *g, ir_op *op) {
  bool is_shared = op->attrs.barrier.is_shared || g->barrier_threads;
  if (op->attrs.barrier.is_engine && g->machine->meet_engine) g->machine->meet_engine(g);
  if (op->attrs.barrier.is_for_products) kl_call(&g->prelude, KL_kl_proxy_fence, NULL, 0);
  if (is_shared) gpu_barrier(g);
  else kl_call(&g->prelude, KL_kl_barrier, NULL, 0);
  g->shared_dirty = false;
}

/// A failing thread says which operation it was, where the machine has a way, and stops the kernel.
static void lower_assert(gpu *g, ir_op *op) {
  ir_value *condition = op->operands[0];
  LLVMValueRef holds = NULL;
  if (condition->type.rank) {
    gpu_tile tile = gpu_operand(g, op, 0);
    for (uint32_t r = 0; r < 1u << tile.layout.registers; r++)
      holds = holds ? LLVMBuildAnd(g->builder, holds, tile.regs[r], "") : tile.regs[r];
  } else {
    holds = gpu_scalar(g, condition);
  }
  LLVMBasicBlockRef stop = gpu_block(g, "stop"), after = gpu_block(g, "held");
  LLVMBuildCondBr(g->builder, holds, after, stop);
  LLVMPositionBuilderAtEnd(g->builder, stop);
  if (g->machine->report_assert) g->machine->report_assert(g, op);
  kl_call(&g->prelude, KL_kl_trap, NULL, 0);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

/// What printf makes the lines of base/printed.h from.
static void put_format(kiln_buffer *out, const ir_op *op) {
  const ir_print_line *print = &op->attrs.print;
  const ir_value *v = ir_printed(op);
  const ir_type type = v ? v->type : (ir_type){0};
  const char *size = type.scalar == KILN_I64 ? "ll" : "";
  const bool is_unsigned = op->attrs.flags & IR_UNSIGNED;
  kiln_buffer_format(out, "pid (%%u, %%u, %%u)%s", v ? " idx (" : "");
  for (unsigned i = 0; i < type.rank; i++)
    kiln_buffer_format(out, "%s%%%du", i ? ", " : "", kiln_printed_width(type.log2[i]));
  if (v) kiln_buffer_u8(out, ')');
  for (const char *c = print->text ? print->text : ""; *c; c++)
    kiln_buffer_bytes(out, *c == '%' ? "%%" : c, *c == '%' ? 2 : 1);
  if (!v) (void)0;
  else if (type.pointer) kiln_buffer_format(out, "0x%%llx");
  else if (kiln_scalars[type.scalar].type_class == KILN_CLASS_FLOAT) kiln_buffer_format(out, "%%f");
  else if (print->digits) kiln_buffer_format(out, "0x%%0%u%sx", print->digits, size);
  else kiln_buffer_format(out, "%%%s%c", size, is_unsigned ? 'u' : 'd');
  kiln_buffer_bytes(out, "\n", 2);
}

/// One line: of element `number` (i32; NULL: there is no tile) of the value.
static void print_line(gpu *g, const ir_op *op, const char *format, LLVMValueRef number, LLVMValueRef x) {
  LLVMValueRef values[4 + IR_MAX_RANK];
  unsigned count = 0, below = 0;
  const ir_value *v = ir_printed(op);
  const ir_type type = v ? v->type : (ir_type){0};
  for (; count < 3; count++) values[count] = gpu_scalar(g, op->operands[op->operand_count - 3 + count]);
  for (unsigned i = 0; i < type.rank; i++) below += type.log2[i];
  for (unsigned i = 0; i < type.rank; i++) {
    below -= type.log2[i];
    LLVMValueRef index = LLVMBuildLShr(g->builder, number, gpu_i32(g, below), "");
    values[count++] = LLVMBuildAnd(g->builder, index, gpu_i32(g, (1 << type.log2[i]) - 1), "");
  }
  if (x && type.pointer) x = LLVMBuildPtrToInt(g->builder, x, g->i64, "");
  else if (x && type.scalar == KILN_F32) x = LLVMBuildFPExt(g->builder, x, g->f64, "");
  if (x) values[count++] = x;
  g->machine->print(g, format, values, count);
}

/// The owner of an element prints it; of what all threads have, the first one.
static void lower_print(gpu *g, ir_op *op) {
  ir_value *v = ir_printed(op);
  const bool is_tile = v && v->type.rank;
  if (!g->machine->print) {
    gpu_fail_at(g, op, KILN_STATUS_UNSUPPORTED, "operation %u: code for %s prints nothing", ir_operation(op),
                g->machine->name);
    return;
  }
  gpu_tile tile = {0}, numbers = {0};
  if (is_tile) {
    tile = gpu_operand(g, op, 0);
    numbers = gpu_tile_new(g, &tile.layout);
    gpu_number_elements(g, &numbers);
  }
  kiln_buffer format = {0};
  put_format(&format, op);
  LLVMValueRef prints = is_tile ? gpu_is_owner(g, &tile.layout) : gpu_first_thread(g);
  LLVMBasicBlockRef body = gpu_block(g, "print"), after = gpu_block(g, "printed");
  if (prints) LLVMBuildCondBr(g->builder, prints, body, after);
  else LLVMBuildBr(g->builder, body);
  LLVMPositionBuilderAtEnd(g->builder, body);
  for (uint32_t r = 0; is_tile && r < 1u << tile.layout.registers; r++)
    print_line(g, op, (const char *)format.bytes, numbers.regs[r], tile.regs[r]);
  if (!is_tile) print_line(g, op, (const char *)format.bytes, NULL, v ? gpu_scalar(g, v) : NULL);
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
  kiln_buffer_deinit(&format);
}

static void (*const lowerings[IR_OPCODE_COUNT])(gpu *, ir_op *) = {
    [IR_PID] = lower_pid,
    [IR_NPID] = lower_pid,
    [IR_CONST] = lower_const,
    [IR_LOAD] = gpu_lower_load,
    [IR_STORE] = gpu_lower_store,
    [IR_ATOMIC] = gpu_lower_atomic,
    [IR_CAS] = gpu_lower_atomic,
    [IR_BARRIER] = lower_barrier,
    [IR_DOT] = gpu_lower_dot,
    [IR_REDUCE] = gpu_lower_reduce,
    [IR_SCAN] = gpu_lower_scan,
    [IR_ASM] = gpu_lower_asm,
    [IR_ASSERT] = lower_assert,
    [IR_PRINT] = lower_print,
    [IR_FOR] = gpu_lower_for,
    [IR_WHILE] = gpu_lower_while,
    [IR_IF] = gpu_lower_if,
    [IR_CONVERT] = gpu_lower_convert,
    [IR_IOTA] = gpu_lower_elements,
    [IR_SPLAT] = gpu_lower_elements,
    [IR_EXPAND] = gpu_lower_elements,
    [IR_BROADCAST] = gpu_lower_elements,
    [IR_RESHAPE] = gpu_lower_elements,
    [IR_TRANS] = gpu_lower_elements,
    [IR_JOIN] = gpu_lower_elements,
    [IR_SPLIT] = gpu_lower_elements,
    [IR_SORT] = gpu_lower_sort,
    [IR_GATHER] = gpu_lower_gather,
    [IR_SCATTER] = gpu_lower_scatter,
    [IR_FETCH] = gpu_lower_fetch,
    [IR_FETCH_COMMIT] = gpu_lower_fetch_commit,
    [IR_FETCH_WAIT] = gpu_lower_fetch_wait,
    [IR_FETCH_END] = gpu_lower_fetch_end,
    [IR_SLOT_LOAD] = gpu_lower_slot_load,
    [IR_SLOT_STORE] = gpu_lower_slot_store,
};

void gpu_lower_op(gpu *g, ir_op *op) {
  const ir_op *outer = g->current;
  if (g->status != KILN_OK) return;
  // Loads that come before a short operation may be under way meanwhile.
  const bool is_short = op->code == IR_LOAD || (ir_ops[op->code].effect == IR_PURE && !op->region_count &&
                                                op->code != IR_DOT && op->code != IR_CONVERT);
  if (!is_short || gpu_reads_shifted(g, op)) gpu_shift_loaded(g);
  g->current = op;
  LLVMMetadataRef place = kiln_llvm_lines_at(g->lines, g->builder, op);
  if (lowerings[op->code]) lowerings[op->code](g, op);
  else if (ir_has(op->code, IR_EACH)) gpu_lower_elements(g, op);
  else if (op->code == IR_VIEW || op->code == IR_ALLOC || op->code == IR_ASSUME)
    (void)0; // others look at them
  else if (op->code >= IR_TILE_COUNT && g->machine->lower_machine) g->machine->lower_machine(g, op);
  else
    gpu_fail_at(g, op, KILN_STATUS_UNSUPPORTED, "operation %u: %s is not supported on %s", ir_operation(op),
                ir_ops[op->code].text, g->machine->name);
  kiln_llvm_lines_back(g->lines, g->builder, place);
  g->current = outer;
}

void gpu_lower_block(gpu *g, ir_block *block) {
  const ir_op *end = ir_terminator(block);
  for (ir_op *op = block->first; op && op != end; op = op->next) gpu_lower_op(g, op);
  gpu_shift_loaded(g);
}

// --------------------------------------------------------------------------------- kernel function

/// After the parameters: the logical grid of a kernel whose blocks compute several programs, then the maps.
static void make_function(gpu *g) {
  uint32_t count = g->kernel->param_count, extras = (g->has_roles ? 3 : 0) + g->map_count;
  LLVMTypeRef *types = KILN_NEW_ARRAY(g->arena, LLVMTypeRef, count + extras);
  for (uint32_t i = 0; i < count; i++) {
    ir_type param = g->kernel->params[i].type;
    types[i] = !param.pointer && param.scalar == KILN_I1 ? g->i8 : gpu_type(g, param);
  }
  for (unsigned i = 0; i < extras; i++)
    types[count + i] = g->has_roles && i < 3 ? g->i32 : LLVMPointerTypeInContext(g->context, 0);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(g->context), types, count + extras, false);
  LLVMValueRef function = LLVMAddFunction(g->module, g->kernel->name, type);
  kiln_llvm_attribute(function, KILN_LLVM_ITSELF, "nounwind", 0);
  for (uint32_t i = 0; i < count; i++) {
    const ir_param *p = &g->kernel->params[i];
    if (!p->type.pointer) continue;
    uint32_t align = p->align ? p->align : p->type.pointer > 1 ? 8 : kiln_scalars[p->type.scalar].bytes;
    kiln_llvm_attribute(function, (int)i + 1, "align", align > 1u << 30 ? 1u << 30 : align);
    if (p->noalias) kiln_llvm_attribute(function, (int)i + 1, "noalias", 0);
  }
  uint32_t at = count;
  for (unsigned axis = 0; g->has_roles && axis < 3; axis++) g->grid[axis] = LLVMGetParam(function, at++);
  for (unsigned i = 0; i < g->map_count; i++) g->maps[i].param = LLVMGetParam(function, at + i);
  if (g->map_count) g->machine->mark_maps(g, function, at);
  if (g->kernel->fp_flush) kiln_llvm_mark(function, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
  g->machine->finish_kernel(g, function);
  kiln_llvm_lines_begin(g->lines, function);
  LLVMPositionBuilderAtEnd(g->builder, LLVMAppendBasicBlockInContext(g->context, function, "entry"));
  for (uint32_t i = 0; i < g->kernel->param_count; i++) {
    LLVMValueRef value = LLVMGetParam(function, i);
    ir_type param = g->kernel->params[i].type;
    if (!param.pointer && param.scalar == KILN_I1)
      value = LLVMBuildICmp(g->builder, LLVMIntNE, value, LLVMConstInt(g->i8, 0, false), "");
    gpu_set_scalar(g, g->kernel->body->args[i], value);
  }
}

/// Shared memory is one array whose size is known at the end: within the module when the launch need not ask
/// for it, else external.
static void place_shared(gpu *g, kiln_code_info *info) {
  uint32_t size = (g->shared_bytes + 15) & ~15u;
  bool is_dynamic = size > g->machine->static_shared;
  info->shared_bytes = size;
  info->dynamic_shared = is_dynamic ? size : 0;
  if (size && !is_dynamic) {
    LLVMTypeRef type = LLVMArrayType2(g->i8, size);
    LLVMValueRef array = LLVMAddGlobalInAddressSpace(g->module, type, "kiln_shared_static", 3);
    LLVMSetInitializer(array, LLVMGetUndef(type));
    LLVMSetLinkage(array, LLVMInternalLinkage);
    LLVMSetAlignment(array, LLVMGetAlignment(g->shared));
    LLVMReplaceAllUsesWith(g->shared, array);
  }
  if (!is_dynamic && !LLVMGetFirstUse(g->shared)) LLVMDeleteGlobal(g->shared);
}

// ------------------------------------------------------------------------------------------- entry

static void init_types(gpu *g) {
  LLVMContextRef c = g->context;
  g->i1 = LLVMInt1TypeInContext(c);
  g->i8 = LLVMInt8TypeInContext(c);
  g->i16 = LLVMInt16TypeInContext(c);
  g->i32 = LLVMInt32TypeInContext(c);
  g->i64 = LLVMInt64TypeInContext(c);
  g->half = LLVMHalfTypeInContext(c);
  g->f32 = LLVMFloatTypeInContext(c);
  g->f64 = LLVMDoubleTypeInContext(c);
  g->global_pointer = LLVMPointerTypeInContext(c, 1);
  g->shared_pointer = LLVMPointerTypeInContext(c, 3);
}

/// Decides before code is made how fetches copy to slots and how products read from them. The report says both.
static void plan_copies_and_products(gpu *g) {
  kiln_layouts *c = g->kernel->layouts;
  for (const ir_op *op = ir_next(g->kernel->body, NULL); op; op = ir_next(g->kernel->body, op)) {
    if (op->code == IR_ALLOC && c->notes[op->results[0].id]->slots) {
      c->notes[op->results[0].id]->slots->fetches = NULL;
    } else if (op->code == IR_FETCH) {
      const kiln_slot_layouts *s = kiln_slot_layouts_of(c, op->operands[2]);
      gpu_note_copy(g, op, KILN_ENGINE_COPY, 1u << (s->log2_bytes + kiln_plan_fetch(c, op)->vector));
    } else if (op->code == IR_DOT) {
      kiln_report_reason why;
      kiln_dot_layouts *l = c->notes[op->results[0].id]->product;
      l->form = kiln_matrix_form_of(g->machine->matrix, g->lanes, op, &why);
      const bool is_fma = !l->form || l->form->emission == KILN_EMIT_FMA;
      gpu_note_product(g, op, is_fma ? KILN_ENGINE_FMA : KILN_ENGINE_MATRIX, is_fma ? "" : l->form->name,
                       why);
      if (l->form) kiln_plan_product(c, op);
      for (uint32_t i = 0; l->form && i < 2; i++)
        if (l->sources[i].load)
          gpu_note_slot_read(g, op, kiln_slot_layouts_of(c, l->sources[i].load->def->operands[0]),
                             &l->sources[i].read);
    } else if (op->code == IR_MMA) {
      gpu_note_product(g, op, KILN_ENGINE_MATRIX, g->has_roles ? "wgmma" : "wgmma from slots",
                       KILN_REASON_NONE);
    }
  }
}

/// A producer's group stands after the warps that the tiles know.
uint32_t gpu_block_threads(const gpu *g) {
  uint32_t warps = g->kernel->warps / (g->spread ? g->spread : 1);
  return (warps + (g->has_roles ? 4 : 0)) << g->lanes;
}

kiln_status gpu_lower_kernel(const kiln_lowering *l, const gpu_machine *machine, kiln_error *err) {
  ir_kernel *kernel = l->kernel;
  kiln_code_info *info = l->info;
  KILN_ASSERT(kernel->layouts && kernel->layouts->lanes == machine->lanes); // the pass has run
  kiln_arena *arena = kiln_arena_create();
  ir_number(kernel); // no slot has what an earlier lowering of it left there
  gpu g = {.machine = machine,
           .target = l->target,
           .options = l->options,
           .arena = arena,
           .kernel = kernel,
           .error = err,
           .context = l->context,
           .module = l->module,
           .lines = l->lines,
           .report = l->report,
           .refusals = l->refusals};
  g.lanes = machine->lanes;
  g.warps = kernel->layouts->warps;
  g.layouts = kernel->layouts;
  g.builder = LLVMCreateBuilderInContext(l->context);
  g.prelude = (kl_prelude){.context = l->context,
                           .module = l->module,
                           .builder = g.builder,
                           .bodies = machine->bodies,
                           .body_count = machine->body_count,
                           .processor = machine->processor,
                           .flush = kernel->fp_flush};
  kl_prelude_open(&g.prelude);
  init_types(&g);
  g.elements = (kiln_elements){.machine = &gpu_element_machine,
                               .owner = &g,
                               .context = l->context,
                               .builder = g.builder,
                               .pointer = g.global_pointer};
  kiln_elements_set_types(&g.elements, g.half);
  g.has_roles = kernel->body->last && kernel->body->last->code == IR_ROLES;
  const ir_roles *roles = g.has_roles ? &kernel->body->last->attrs.roles : NULL;
  if (roles) g.spread = roles->spread, g.split = roles->cluster;
  g.spread_columns = roles && roles->is_beside ? 2 : 1;
  if (g.has_roles) ir_walk(kernel->body, gpu_collect_map, &g);
  for (const ir_op *op = ir_next(kernel->body, NULL); op && !g.has_writes; op = ir_next(kernel->body, op)) {
    const bool is_pure_text = op->code == IR_ASM && op->attrs.assembly.is_pure;
    const bool is_said = op->code == IR_ASSERT || op->code == IR_PRINT;
    g.has_writes = ir_ops[op->code].effect == IR_WRITE && !is_said && !is_pure_text;
  }
  plan_copies_and_products(&g);
  make_function(&g);
  g.thread = kl_call(&g.prelude, KL_kl_thread, NULL, 0);
  g.shared = LLVMAddGlobalInAddressSpace(g.module, LLVMArrayType2(g.i8, 0), "kiln_shared", 3);
  LLVMSetAlignment(g.shared, g.has_roles ? 1024 : 128);
  if (g.has_roles) g.shared_address = LLVMBuildPtrToInt(g.builder, g.shared, g.i32, "");
  gpu_lower_block(&g, kernel->body);
  LLVMBuildRetVoid(g.builder);
  gpu_write_report(&g);
  LLVMDisposeBuilder(g.builder);
  place_shared(&g, info);
  info->block_threads = gpu_block_threads(&g);
  if (roles && (g.split || g.spread))
    info->cluster = (uint8_t)((g.split ? g.split : 1) * (g.spread ? g.spread : 1));
  if (roles) { // as many as the kernel's form wants, unless exchanges took more shared memory than was foreseen
    unsigned room = kiln_blocks_within(kiln_matrix_machine_of(l->target), l->target, info->shared_bytes);
    info->blocks = room < roles->resident && room ? room : roles->resident;
  }
  info->maps = g.map_count ? gpu_map_record(&g, l->texts) : (kiln_span){0};
  info->wave = 1u << machine->lanes;
  kiln_status status = g.status;
  if (status == KILN_OK && g.shared_bytes > machine->max_shared)
    status = kiln_fail(err, KILN_STATUS_LIMIT, "expected at most %u bytes of shared memory on %s, found %u",
                       machine->max_shared, machine->name, g.shared_bytes);
  if (status == KILN_OK) status = kl_link(&g.prelude, err);
  kiln_arena_destroy(arena);
  return status;
}

kiln_status gpu_lower(const kiln_lowering *l, kiln_error *err) {
  gpu_machine storage;
  return gpu_lower_kernel(l, kiln_backend_of(l->target)->machine(l->target, &storage), err);
}
