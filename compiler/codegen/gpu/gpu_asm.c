// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inline assembly on scalars and tiles: one instance for each `pack` elements. Elements below 32 bits are
// packed into 32-bit operands when an instance takes several of them.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

enum { MAX_OPERANDS = 64 };

/// `count` elements as operands of an instance; returns how many operands.
static unsigned pack_operands(gpu *g, const LLVMValueRef *elements, unsigned count, unsigned bits,
                              LLVMValueRef *out) {
  unsigned each = bits < 32 && count > 1 ? 32 / bits : 1, made = 0;
  if (each > count) each = count;
  for (unsigned i = 0; i < count; i += each) {
    LLVMValueRef operand = each > 1 || bits == 16 ? gpu_pack(g, elements + i, each) : elements[i];
    out[made++] =
        each * bits < g->machine->least_register ? LLVMBuildZExt(g->builder, operand, g->i32, "") : operand;
  }
  return made;
}

/// The type an instance returns, and how the elements come out of it.
static LLVMTypeRef result_type(gpu *g, ir_type element, unsigned count, unsigned *out_each) {
  unsigned bits = ir_type_bits(element), each = bits < 32 && count > 1 ? 32 / bits : 1, made;
  LLVMTypeRef types[MAX_OPERANDS], one;
  if (each > count) each = count;
  *out_each = each;
  made = count / each;
  one = each > 1 ? gpu_packed_type(g, each * bits / 8) : bits == 16 ? g->i16 : gpu_type(g, element);
  if (each * bits < g->machine->least_register) one = g->i32;
  for (unsigned i = 0; i < made; i++) types[i] = one;
  return made == 1 ? one : LLVMStructTypeInContext(g->context, types, made, false);
}

static void unpack_result(gpu *g, LLVMValueRef result, ir_type element, unsigned count, unsigned each,
                          LLVMValueRef *out) {
  unsigned bits = ir_type_bits(element);
  bool is_packed = each > 1 || bits == 16;
  for (unsigned i = 0; i < count / each; i++) {
    LLVMValueRef part = count == each ? result : LLVMBuildExtractValue(g->builder, result, i, "");
    if (each * bits < g->machine->least_register)
      part = LLVMBuildTrunc(g->builder, part, LLVMIntTypeInContext(g->context, each * bits), "");
    if (is_packed) gpu_unpack(g, part, gpu_type(g, element), out + (size_t)i * each, each);
    else out[i] = part;
  }
}

/// LLVM's messages on assembly end in the number that stands here: kiln_llvm_context turns it back.
static void name_operation(gpu *g, const ir_op *op, LLVMValueRef call) {
  LLVMMetadataRef number = LLVMValueAsMetadata(LLVMConstInt(g->i64, ir_operation(op) + 1u, false));
  kiln_llvm_note(call, "srcloc", LLVMMDNodeInContext2(g->context, &number, 1));
}

/// The call of an instance. The text and its constraints are the target's own.
static LLVMValueRef assembly(gpu *g, const ir_op *op, LLVMValueRef *operands, unsigned count,
                             LLVMTypeRef result) {
  const ir_asm *words = &op->attrs.assembly;
  LLVMValueRef call = kiln_llvm_asm(g->builder, words->is_pure ? KILN_ASM_PURE : KILN_ASM_EFFECTS,
                                    words->text ? words->text : "",
                                    words->constraints ? words->constraints : "", result, operands, count);
  name_operation(g, op, call);
  return call;
}

static void instance(gpu *g, ir_op *op, const gpu_tile *tiles, uint32_t first, unsigned count,
                     LLVMValueRef *out) {
  LLVMValueRef operands[MAX_OPERANDS], elements[MAX_OPERANDS];
  unsigned made = 0, each;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    ir_type type = op->operands[i]->type;
    for (unsigned j = 0; j < count; j++)
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without tiles all operands are scalars
      elements[j] = type.rank ? tiles[i].regs[first + j] : gpu_scalar(g, op->operands[i]);
    made += pack_operands(g, elements, type.rank ? count : 1, ir_type_bits(type), operands + made);
  }
  ir_type element = ir_element(op->results[0].type);
  LLVMTypeRef type = result_type(g, element, count, &each);
  unpack_result(g, assembly(g, op, operands, made, type), element, count, each, out);
}

void gpu_lower_asm(gpu *g, ir_op *op) {
  unsigned pack = op->attrs.assembly.pack ? op->attrs.assembly.pack : 1;
  ir_value *result = &op->results[0];
  LLVMValueRef one[1];
  if (pack > 16 || pack & (pack - 1) || pack * (op->operand_count + 1) > MAX_OPERANDS) {
    gpu_fail_at(g, op, KILN_STATUS_LIMIT,
                "operation %u: asm takes at most %d registers an instance, found %u operands of %u elements",
                ir_operation(op), MAX_OPERANDS, op->operand_count, pack);
    return;
  }
  if (!result->type.rank) {
    instance(g, op, NULL, 0, 1, one);
    gpu_set_scalar(g, result, one[0]);
    return;
  }
  const kiln_layout *layout = result->layout;
  gpu_tile out = gpu_tile_new(g, layout), *tiles = KILN_NEW_ARRAY(g->arena, gpu_tile, op->operand_count);
  uint32_t count = 1u << layout->registers;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.rank) tiles[i] = gpu_operand(g, op, i);
  if (pack > count) {
    gpu_fail_at(g, op, KILN_STATUS_UNSUPPORTED,
                "operation %u: asm takes %u elements an instance, and the tile has %u in a thread",
                ir_operation(op), pack, count);
    return;
  }
  for (uint32_t r = 0; r < count && g->status == KILN_OK; r += pack)
    instance(g, op, tiles, r, pack, out.regs + r);
  gpu_set_home(g, result, out);
}
