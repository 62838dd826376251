// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter on the host: values are added to a copy of the tile, one after the other.
#include "compiler/codegen/host/host.h"

#define B h->builder

void host_scatter(host *h, ir_op *op) {
  ir_type to = op->results[0].type, indices = op->operands[1]->type;
  LLVMTypeRef type = host_memory_type(h, ir_element(to));
  host_buffer *index = host_keep_now(h, op->operands[1]), *values = host_keep_now(h, op->operands[2]),
              *out = host_copied(h, op->operands[0]);
  host_loop loop;
  host_loop_begin(h, &loop, (uint64_t)1 << ir_log2_elements(indices), 1);
  LLVMValueRef from = LLVMBuildInBoundsGEP2(B, h->i32, index->pointer, &loop.counter, 1, "");
  LLVMValueRef i = LLVMBuildZExt(B, LLVMBuildLoad2(B, h->i32, from, ""), h->i64, "");
  // Nothing is added to the first element where there is none to add to.
  LLVMValueRef is_there =
      LLVMBuildICmp(B, LLVMIntULT, i, host_i64(h, (int64_t)1 << ir_log2_elements(to)), "");
  from = LLVMBuildInBoundsGEP2(B, type, values->pointer, &loop.counter, 1, "");
  LLVMValueRef v = LLVMBuildSelect(B, is_there, LLVMBuildLoad2(B, type, from, ""), LLVMConstNull(type), "");
  i = LLVMBuildSelect(B, is_there, i, host_i64(h, 0), "");
  LLVMValueRef at = LLVMBuildInBoundsGEP2(B, type, out->pointer, &i, 1, "");
  LLVMBuildStore(B, LLVMBuildAdd(B, LLVMBuildLoad2(B, type, at, ""), v, ""), at);
  host_loop_end(h, &loop);
  host_info(&op->results[0])->buffer = out;
}
