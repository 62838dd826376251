// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomic operations, one element after another: program instances run in parallel on threads.
#include "compiler/codegen/host/host.h"

#define B h->builder

void host_barrier(host *h) { LLVMBuildFence(B, LLVMAtomicOrderingAcquireRelease, false, ""); }

static LLVMAtomicOrdering ordering(const ir_op *op) {
  static const LLVMAtomicOrdering table[] = {[IR_ORDER_RELAXED] = LLVMAtomicOrderingMonotonic,
                                             [IR_ORDER_ACQUIRE] = LLVMAtomicOrderingAcquire,
                                             [IR_ORDER_RELEASE] = LLVMAtomicOrderingRelease,
                                             [IR_ORDER_ACQ_REL] = LLVMAtomicOrderingAcquireRelease};
  return table[op->attrs.order];
}

static LLVMAtomicOrdering failure_ordering(const ir_op *op) {
  bool acquires = op->attrs.order == IR_ORDER_ACQUIRE || op->attrs.order == IR_ORDER_ACQ_REL;
  return acquires ? LLVMAtomicOrderingAcquire : LLVMAtomicOrderingMonotonic;
}

static LLVMTypeRef bits_type(host *h, ir_type type) {
  return LLVMIntTypeInContext(h->context, 8 * host_memory_bytes(type));
}

static LLVMValueRef to_bits(host *h, ir_type type, LLVMValueRef x) {
  if (type.pointer) return LLVMBuildPtrToInt(B, x, h->i64, "");
  return LLVMBuildBitCast(B, x, bits_type(h, type), "");
}

static LLVMValueRef from_bits(host *h, ir_type type, LLVMValueRef x) {
  if (type.pointer) return LLVMBuildIntToPtr(B, x, h->pointer, "");
  return LLVMBuildBitCast(B, x, h->elements.types[type.scalar], "");
}

static LLVMValueRef exchange(host *h, const ir_op *op, LLVMValueRef p, LLVMValueRef expected,
                             LLVMValueRef desired) {
  return LLVMBuildAtomicCmpXchg(B, p, expected, desired, ordering(op), failure_ordering(op), false);
}

// Floats: compute, and exchange when nobody came between.
static LLVMValueRef by_exchange(host *h, const ir_op *op, ir_type type, LLVMValueRef p, LLVMValueRef v) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(B), again = host_block(h, "again"),
                    done = host_block(h, "exchanged");
  LLVMValueRef first = LLVMBuildLoad2(B, bits_type(h, type), p, "");
  LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
  LLVMSetAlignment(first, host_memory_bytes(type));
  LLVMBuildBr(B, again);
  LLVMPositionBuilderAtEnd(B, again);
  LLVMValueRef old = LLVMBuildPhi(B, bits_type(h, type), "");
  LLVMValueRef next =
      kiln_element_combine(&h->elements, op, (kiln_scalar)type.scalar, from_bits(h, type, old), v);
  LLVMValueRef pair = exchange(h, op, p, old, to_bits(h, type, next));
  LLVMValueRef seen = LLVMBuildExtractValue(B, pair, 0, "");
  LLVMBasicBlockRef end = LLVMGetInsertBlock(B);
  LLVMAddIncoming(old, &first, &before, 1);
  LLVMAddIncoming(old, &seen, &end, 1);
  LLVMBuildCondBr(B, LLVMBuildExtractValue(B, pair, 1, ""), done, again);
  LLVMPositionBuilderAtEnd(B, done);
  return from_bits(h, type, seen);
}

static LLVMValueRef modify(host *h, const ir_op *op, ir_type type, LLVMValueRef p, LLVMValueRef v) {
  bool unsign = (op->attrs.flags & IR_UNSIGNED) != 0;
  LLVMAtomicRMWBinOp table[] = {[IR_COMBINE_ADD] = LLVMAtomicRMWBinOpAdd,
                                [IR_COMBINE_MAX] = unsign ? LLVMAtomicRMWBinOpUMax : LLVMAtomicRMWBinOpMax,
                                [IR_COMBINE_MIN] = unsign ? LLVMAtomicRMWBinOpUMin : LLVMAtomicRMWBinOpMin,
                                [IR_COMBINE_AND] = LLVMAtomicRMWBinOpAnd,
                                [IR_COMBINE_OR] = LLVMAtomicRMWBinOpOr,
                                [IR_COMBINE_XOR] = LLVMAtomicRMWBinOpXor,
                                [IR_COMBINE_XCHG] = LLVMAtomicRMWBinOpXchg};
  if (op->attrs.kind != IR_COMBINE_XCHG && ir_type_class(type) == KILN_CLASS_FLOAT)
    return by_exchange(h, op, type, p, v);
  LLVMValueRef old =
      LLVMBuildAtomicRMW(B, table[op->attrs.kind], p, to_bits(h, type, v), ordering(op), false);
  LLVMSetAlignment(old, host_memory_bytes(type));
  return from_bits(h, type, old);
}

static LLVMValueRef one(host *h, const ir_op *op, const host_map *map) {
  ir_type type = ir_element(op->results[0].type);
  LLVMValueRef x[3] = {NULL};
  for (uint32_t i = 0; i < op->operand_count; i++) x[i] = host_pull(h, op->operands[i], map).value;
  if (op->code == IR_CAS) {
    LLVMValueRef pair = exchange(h, op, x[0], to_bits(h, type, x[1]), to_bits(h, type, x[2]));
    return from_bits(h, type, LLVMBuildExtractValue(B, pair, 0, ""));
  }
  if (op->operand_count < 3) return modify(h, op, type, x[0], x[1]);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(B), live = host_block(h, "live"),
                    done = host_block(h, "done");
  LLVMBuildCondBr(B, x[2], live, done);
  LLVMPositionBuilderAtEnd(B, live);
  LLVMValueRef old = modify(h, op, type, x[0], x[1]), none = LLVMConstNull(host_element_type(h, type));
  LLVMBasicBlockRef end = LLVMGetInsertBlock(B);
  LLVMBuildBr(B, done);
  LLVMPositionBuilderAtEnd(B, done);
  LLVMValueRef result = LLVMBuildPhi(B, LLVMTypeOf(none), "");
  LLVMAddIncoming(result, &none, &before, 1);
  LLVMAddIncoming(result, &old, &end, 1);
  return result;
}

void host_atomic(host *h, ir_op *op) {
  ir_type type = op->results[0].type;
  unsigned bits = ir_log2_elements(type);
  host_value *info = host_info(&op->results[0]);
  host_map map = host_identity(bits);
  host_point point;
  host_loop loop;
  host_flush(h);
  host_buffer *buffer = type.rank && info->user_count ? host_buffer_create(h, type) : NULL;
  host_loop_begin(h, &loop, (uint64_t)1 << bits, 1);
  host_point_init(h, &point, 0);
  host_point_digit(&point, loop.counter, 0, bits);
  h->point = &point;
  LLVMValueRef old = one(h, op, &map);
  if (buffer) host_buffer_store(h, buffer, &map, (host_lanes){old, 0, HOST_UNIFORM});
  h->point = NULL;
  host_loop_end(h, &loop);
  info->buffer = buffer;
  if (!type.rank) host_set_scalar(&op->results[0], old);
}
