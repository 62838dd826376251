// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Short forms over LLVM's builder: constants of any width, intrinsics, stack slots, scratch buffers, counted
// loops.
#include "compiler/codegen/host/host.h"

#include <stdio.h>
#include <string.h>

unsigned host_log2(unsigned n) {
  unsigned log2 = 0;
  while (n >> (log2 + 1)) log2++;
  return log2;
}

LLVMTypeRef host_element_type(const host *h, ir_type type) {
  return type.pointer ? h->pointer : h->elements.types[type.scalar];
}

LLVMTypeRef host_memory_type(const host *h, ir_type type) {
  return !type.pointer && type.scalar == KILN_I1 ? h->i8 : host_element_type(h, type);
}

unsigned host_memory_bytes(ir_type type) { return type.pointer ? 8 : kiln_scalars[type.scalar].bytes; }

LLVMValueRef host_i64(const host *h, int64_t value) { return LLVMConstInt(h->i64, (uint64_t)value, true); }

LLVMValueRef host_constant(host *h, ir_type type, uint64_t bits) {
  if (type.pointer) return LLVMConstIntToPtr(LLVMConstInt(h->i64, bits, false), h->pointer);
  LLVMTypeRef element = h->elements.types[type.scalar];
  if (type.scalar != KILN_F32 && type.scalar != KILN_F64) return LLVMConstInt(element, bits, false);
  return LLVMConstBitCast(LLVMConstInt(type.scalar == KILN_F32 ? h->i32 : h->i64, bits, false), element);
}

LLVMValueRef host_splat(host *h, LLVMValueRef scalar, unsigned lanes) {
  if (LLVMIsConstant(scalar)) {
    LLVMValueRef copies[1024];
    for (unsigned i = 0; i < lanes; i++) copies[i] = scalar;
    return LLVMConstVector(copies, lanes);
  }
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
  LLVMValueRef one = LLVMBuildInsertElement(h->builder, LLVMGetPoison(type), scalar, host_i64(h, 0), "");
  return LLVMBuildShuffleVector(h->builder, one, LLVMGetPoison(type),
                                LLVMConstNull(LLVMVectorType(h->i32, lanes)), "");
}

LLVMValueRef host_intrinsic(host *h, const char *name, LLVMTypeRef *types, unsigned type_count,
                            LLVMValueRef *args, unsigned arg_count) {
  LLVMValueRef made = kiln_llvm_intrinsic(h->builder, h->module, name, types, type_count, args, arg_count);
  if (made) return made;
  host_fail(h, KILN_STATUS_INTERNAL, "this LLVM has no %s", name);
  return LLVMGetUndef(type_count ? types[0] : h->i32);
}

LLVMValueRef host_shuffle(host *h, LLVMValueRef a, LLVMValueRef b, const uint32_t *lanes, unsigned count) {
  LLVMValueRef mask[1024];
  for (unsigned i = 0; i < count; i++) mask[i] = LLVMConstInt(h->i32, lanes[i], false);
  return LLVMBuildShuffleVector(h->builder, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)),
                                LLVMConstVector(mask, count), "");
}

LLVMValueRef host_stack(host *h, LLVMTypeRef type) { return LLVMBuildAlloca(h->entry, type, ""); }

LLVMBasicBlockRef host_block(host *h, const char *name) {
  return LLVMAppendBasicBlockInContext(h->context, h->function, name);
}

LLVMValueRef host_set_by_loader(host *h, const char *suffix) {
  char name[512];
  snprintf(name, sizeof name, "%s%s", h->kernel->name, suffix);
  LLVMValueRef at = LLVMGetNamedGlobal(h->module, name);
  if (!at) {
    at = LLVMAddGlobal(h->module, h->pointer, name);
    LLVMSetInitializer(at, LLVMConstNull(h->pointer));
    LLVMSetGlobalConstant(at, true);
    LLVMSetExternallyInitialized(at, true);
    LLVMSetVisibility(at, LLVMProtectedVisibility);
  }
  return LLVMBuildLoad2(h->builder, h->pointer, at, "");
}

host_buffer *host_buffer_create(host *h, ir_type type) {
  host_buffer *buffer = KILN_NEW(h->arena, host_buffer);
  uint64_t size = ((uint64_t)host_memory_bytes(type) << ir_log2_elements(type)) + 63;
  LLVMValueRef offset = host_i64(h, (int64_t)h->scratch_at);
  buffer->pointer = LLVMBuildInBoundsGEP2(h->entry, h->i8, h->scratch, &offset, 1, "");
  buffer->scalar = (kiln_scalar)type.scalar;
  buffer->is_pointer = type.pointer != 0;
  h->scratch_at += size & ~(uint64_t)63;
  if (h->scratch_at > h->scratch_bytes) h->scratch_bytes = h->scratch_at;
  if (h->scratch_at > HOST_SCRATCH_LIMIT)
    host_fail(h, KILN_STATUS_LIMIT,
              "kept tiles need %llu bytes of scratch memory a program, the host allows %d",
              (unsigned long long)h->scratch_at, HOST_SCRATCH_LIMIT);
  return buffer;
}

void host_loop_begin(host *h, host_loop *loop, uint64_t count, uint64_t step) {
  *loop = (host_loop){.count = count, .step = step, .counter = host_i64(h, 0)};
  if (count <= step) return;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(h->builder);
  loop->body = host_block(h, "loop");
  loop->done = host_block(h, "done");
  LLVMBuildBr(h->builder, loop->body);
  LLVMPositionBuilderAtEnd(h->builder, loop->body);
  loop->counter = LLVMBuildPhi(h->builder, h->i64, "");
  LLVMValueRef zero = host_i64(h, 0);
  LLVMAddIncoming(loop->counter, &zero, &before, 1);
}

void host_loop_end(host *h, host_loop *loop) {
  if (!loop->body) return;
  LLVMValueRef next = LLVMBuildNUWAdd(h->builder, loop->counter, host_i64(h, (int64_t)loop->step), "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(h->builder);
  LLVMAddIncoming(loop->counter, &next, &latch, 1);
  LLVMValueRef more = LLVMBuildICmp(h->builder, LLVMIntULT, next, host_i64(h, (int64_t)loop->count), "");
  LLVMBuildCondBr(h->builder, more, loop->body, loop->done);
  LLVMPositionBuilderAtEnd(h->builder, loop->done);
}
