// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics: once an element where a layout replicates it.
#include "compiler/codegen/gpu/gpu_lower.h"

static LLVMValueRef atomic_one(gpu *g, const ir_op *op, LLVMValueRef pointer, LLVMValueRef value,
                               LLVMValueRef desired) {
  ir_type type = op->operands[1]->type;
  if (op->code != IR_CAS) return g->machine->atomic(g, op, type.scalar, pointer, value);
  if (!type.pointer) return g->machine->cas(g, op, type.scalar, pointer, value, desired);
  // Addresses are swapped as numbers: the scalar is what they lead to.
  LLVMValueRef old =
      g->machine->cas(g, op, KILN_I64, pointer, LLVMBuildPtrToInt(g->builder, value, g->i64, ""),
                      LLVMBuildPtrToInt(g->builder, desired, g->i64, ""));
  return LLVMBuildIntToPtr(g->builder, old, LLVMTypeOf(value), "");
}

/// Under `mask` (NULL: always); elsewhere the result is zero.
static LLVMValueRef masked_atomic(gpu *g, const ir_op *op, LLVMValueRef pointer, LLVMValueRef value,
                                  LLVMValueRef desired, LLVMValueRef mask) {
  if (!mask) return atomic_one(g, op, pointer, value, desired);
  LLVMTypeRef type = LLVMTypeOf(value);
  LLVMBasicBlockRef from = LLVMGetInsertBlock(g->builder), body = gpu_block(g, "atomic"),
                    after = gpu_block(g, "done");
  LLVMBuildCondBr(g->builder, mask, body, after);
  LLVMPositionBuilderAtEnd(g->builder, body);
  LLVMValueRef values[2] = {LLVMConstNull(type), atomic_one(g, op, pointer, value, desired)};
  LLVMBasicBlockRef blocks[2] = {from, LLVMGetInsertBlock(g->builder)};
  LLVMBuildBr(g->builder, after);
  LLVMPositionBuilderAtEnd(g->builder, after);
  LLVMValueRef phi = LLVMBuildPhi(g->builder, type, "");
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}

static bool has_order(const ir_op *op, ir_order order) {
  return op->attrs.order == order || op->attrs.order == IR_ORDER_ACQ_REL;
}

/// Orders the other threads of the program around an atomic that releases or acquires.
static void fence(gpu *g, const ir_op *op, ir_order order) {
  if (has_order(op, order)) gpu_barrier(g);
}

/// Orders this thread's atomics of a tile: one fence instead of one an element.
static void fence_thread(gpu *g, const ir_op *op, ir_order order) {
  static const kl_function fences[] = {[IR_SCOPE_GPU] = KL_kl_fence_gpu,
                                       [IR_SCOPE_CTA] = KL_kl_fence_cta,
                                       [IR_SCOPE_SYSTEM] = KL_kl_fence_system};
  if (has_order(op, order)) kl_call(&g->prelude, fences[op->attrs.scope], NULL, 0);
}

static void scalar_atomic(gpu *g, ir_op *op) {
  LLVMValueRef mask = op->code == IR_ATOMIC && op->operand_count > 2 ? gpu_scalar(g, op->operands[2]) : NULL;
  LLVMValueRef desired = op->code == IR_CAS ? gpu_scalar(g, op->operands[2]) : NULL;
  LLVMValueRef old = masked_atomic(g, op, gpu_scalar(g, op->operands[0]), gpu_scalar(g, op->operands[1]),
                                   desired, gpu_both(g, gpu_first_thread(g), mask));
  if (op->results[0].uses) old = gpu_from_first(g, old, ir_element(op->results[0].type));
  gpu_set_scalar(g, &op->results[0], old);
}

/// All elements of which `owner` says that they are this thread's, in pieces. False: the machine has no way.
static bool tile_in_pieces(gpu *g, const ir_op *op, const kiln_layout *layout, const gpu_tile *pointer,
                           const gpu_tile *value, const gpu_tile *mask, LLVMValueRef owner) {
  if (op->code == IR_CAS || op->results[0].uses || !g->machine->atomic_piece) return false;
  kiln_pieces p = kiln_pieces_of(g->layouts, op, layout, false);
  for (uint32_t r = 0; r < 1u << layout->registers; r++) {
    LLVMValueRef elements[16], live = gpu_both(g, owner, mask->regs ? mask->regs[r] : NULL);
    if (r & p.mask) continue;
    for (unsigned i = 0; i < 1u << p.vector; i++) elements[i] = value->regs[kiln_piece_register(&p, r, i)];
    if (!g->machine->atomic_piece(g, op, op->operands[1]->type.scalar, pointer->regs[r], elements,
                                  1u << p.vector, live))
      return false;
  }
  return true;
}

static void tile_atomic(gpu *g, ir_op *op) {
  kiln_layout layout = *op->results[0].layout;
  gpu_tile out = gpu_tile_new(g, &layout), third = {0};
  gpu_tile pointer = gpu_operand(g, op, 0), value = gpu_operand(g, op, 1);
  if (op->operand_count > 2) third = gpu_operand(g, op, 2);
  bool is_cas = op->code == IR_CAS;
  LLVMValueRef owner = gpu_is_owner(g, &layout);
  ir_op each = *op; // relaxed between two fences, where there are several
  if (layout.registers) {
    each.attrs.order = IR_ORDER_RELAXED;
    fence_thread(g, op, IR_ORDER_RELEASE);
  }
  bool is_done = tile_in_pieces(g, &each, &layout, &pointer, &value, &third, owner);
  for (uint32_t r = 0; r < 1u << layout.registers; r++) {
    LLVMValueRef mask = !is_cas && third.regs ? third.regs[r] : NULL;
    if (is_done) {
      out.regs[r] = LLVMConstNull(LLVMTypeOf(value.regs[r]));
      continue;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a cas has three operands
    out.regs[r] = masked_atomic(g, &each, pointer.regs[r], value.regs[r], is_cas ? third.regs[r] : NULL,
                                gpu_both(g, owner, mask));
  }
  if (layout.registers) fence_thread(g, op, IR_ORDER_ACQUIRE);
  if (owner && op->results[0].uses) gpu_share_owned(g, &out, ir_element(op->results[0].type));
  gpu_set_home(g, &op->results[0], out);
}

void gpu_lower_atomic(gpu *g, ir_op *op) {
  if (!(op->code == IR_CAS ? (void *)g->machine->cas : (void *)g->machine->atomic)) {
    gpu_fail_at(g, op, KILN_STATUS_UNSUPPORTED, "operation %u: atomics are not supported on %s",
                ir_operation(op), g->machine->name);
    return;
  }
  fence(g, op, IR_ORDER_RELEASE);
  if (op->operands[0]->type.rank) tile_atomic(g, op);
  else scalar_atomic(g, op);
  fence(g, op, IR_ORDER_ACQUIRE);
}
