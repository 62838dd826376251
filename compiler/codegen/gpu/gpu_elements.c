// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles that are made register by register: indices, splats, shape operations, elementwise operations. What has
// no layout is not made: nothing uses it, or a product reads it in another shape from its slot.
#include "compiler/codegen/gpu/gpu_lower.h"

static uint32_t count_of(const gpu_tile *tile) { return 1u << tile->layout.registers; }

static void make_iota(gpu *g, gpu_tile *tile) {
  const kiln_layout *l = &tile->layout;
  LLVMValueRef base = gpu_thread_bits(g, l->basis + l->registers, layout_thread_bits(l));
  uint32_t thread_mask = 0;
  for (unsigned i = 0; i < layout_thread_bits(l); i++) thread_mask |= l->basis[l->registers + i];
  for (uint32_t r = 0; r < count_of(tile); r++) {
    uint32_t own = layout_element(l, r);
    if (own & thread_mask) {
      tile->regs[r] = LLVMBuildXor(g->builder, base, gpu_i32(g, own), "");
      continue;
    }
    tile->regs[r] = own ? LLVMBuildNUWAdd(g->builder, base, gpu_i32(g, own), "") : base;
    if (own && LLVMIsAInstruction(tile->regs[r])) LLVMSetNSW(tile->regs[r], true);
  }
}

static void make_same(gpu_tile *tile, LLVMValueRef scalar) {
  for (uint32_t r = 0; r < count_of(tile); r++) tile->regs[r] = scalar;
}

/// Expand, reshape, trans, broadcast: registers of the operand, renamed.
static void make_shape(gpu *g, const ir_op *op, gpu_tile *tile) {
  if (!op->operands[0]->type.rank) {
    make_same(tile, gpu_scalar(g, op->operands[0]));
    return;
  }
  gpu_tile operand = gpu_operand(g, op, 0);
  for (uint32_t r = 0; r < count_of(tile); r++) {
    uint32_t element = layout_element(&tile->layout, r);
    int from = op->code == IR_BROADCAST
                   ? layout_register_of(&operand.layout, layout_backward_element(op, element))
                   : (int)r;
    tile->regs[r] = operand.regs[from < 0 ? 0 : from];
  }
}

/// The last element bit says which operand: known from the register, or chosen by thread bits.
static void make_join(gpu *g, const ir_op *op, gpu_tile *tile) {
  const kiln_layout *l = &tile->layout;
  gpu_tile parts[2] = {gpu_operand(g, op, 0), gpu_operand(g, op, 1)};
  uint32_t bits[LAYOUT_MAX_PLACES] = {0};
  bool varies = false;
  for (unsigned i = 0; i < layout_thread_bits(l); i++)
    varies |= (bits[i] = l->basis[l->registers + i] & 1) != 0;
  LLVMValueRef odd =
      varies ? LLVMBuildTrunc(g->builder, gpu_thread_bits(g, bits, layout_thread_bits(l)), g->i1, "") : NULL;
  for (uint32_t r = 0; r < count_of(tile); r++) {
    uint32_t element = layout_element(l, r);
    int from = layout_register_of(&parts[0].layout, element >> 1);
    LLVMValueRef same = parts[element & 1].regs[from < 0 ? 0 : from],
                 other = parts[~element & 1].regs[from < 0 ? 0 : from];
    tile->regs[r] = odd ? LLVMBuildSelect(g->builder, odd, other, same, "") : same;
  }
}

/// The operand has one more register bit, for its last axis.
static void make_split(gpu *g, const ir_op *op, unsigned index, gpu_tile *tile) {
  gpu_tile operand = gpu_operand(g, op, 0);
  for (uint32_t r = 0; r < count_of(tile); r++) tile->regs[r] = operand.regs[2 * r + index];
}

/// Conversions of two neighbours at a time, where the machine has them: one at a time f16 takes the slow unit of NVIDIA's
/// GPUs, and fp8 needs twice the instructions.
static const struct pair_cast {
  kiln_scalar from, to;
  kl_function function;
} pair_casts[] = {{KILN_F32, KILN_BF16, KL_kl_f32_to_bf16x2},   {KILN_F32, KILN_F16, KL_kl_f32_to_f16x2},
                  {KILN_F32, KILN_E4M3, KL_kl_f32_to_e4m3x2},   {KILN_F32, KILN_E5M2, KL_kl_f32_to_e5m2x2},
                  {KILN_E4M3, KILN_F16, KL_kl_e4m3x2_to_f16x2}, {KILN_E5M2, KILN_F16, KL_kl_e5m2x2_to_f16x2},
                  {KILN_E4M3, KILN_F32, KL_kl_e4m3x2_to_f16x2}, {KILN_E5M2, KILN_F32, KL_kl_e5m2x2_to_f16x2}};

/// The row for the cast; NULL: its elements are converted one by one.
static const struct pair_cast *pair_cast_of(const gpu *g, const ir_op *op) {
  const ir_type from = op->operands[0]->type;
  if (op->code != IR_CAST || from.pointer || op->attrs.round != IR_ROUND_NEAREST) return NULL;
  for (size_t i = 0; i < sizeof pair_casts / sizeof *pair_casts; i++)
    if (pair_casts[i].from == from.scalar && pair_casts[i].to == op->results[0].type.scalar)
      return kl_has(&g->prelude, pair_casts[i].function) ? &pair_casts[i] : NULL;
  return NULL;
}

/// Two bytes of fp8, the second above the first. Four come out of one word.
static LLVMValueRef fp8_pair(gpu *g, const gpu_tile *from, uint32_t r) {
  if (count_of(from) < 4) return gpu_pack(g, from->regs + r, 2);
  LLVMValueRef word = gpu_pack(g, from->regs + r / 4 * 4, 4);
  if (r % 4) word = LLVMBuildLShr(g->builder, word, gpu_i32(g, 16), "");
  return LLVMBuildTrunc(g->builder, word, g->i16, "");
}

static bool make_pairs(gpu *g, const ir_op *op, gpu_tile *tile) {
  const struct pair_cast *how = count_of(tile) < 2 ? NULL : pair_cast_of(g, op);
  if (!how) return false;
  const bool is_widening = how->from != KILN_F32;
  LLVMTypeRef made = is_widening || how->to == KILN_F16 ? g->half : how->to == KILN_BF16 ? g->i16 : g->i8;
  gpu_tile operand = gpu_operand(g, op, 0);
  for (uint32_t r = 0; r < count_of(tile); r += 2) {
    LLVMValueRef pair = is_widening ? fp8_pair(g, &operand, r) : NULL,
                 both = kl_call(&g->prelude, how->function, pair ? &pair : &operand.regs[r], pair ? 1 : 2);
    gpu_unpack(g, both, made, tile->regs + r, 2);
    for (uint32_t i = r; how->to == KILN_F32 && i < r + 2; i++)
      tile->regs[i] = LLVMBuildFPExt(g->builder, tile->regs[i], g->f32, "");
  }
  return true;
}

/// Sums and products of bf16 two at a time, where the target can.
static bool make_sums(gpu *g, const ir_op *op, gpu_tile *tile) {
  kl_function function = op->code == IR_ADD   ? KL_kl_add_bf16x2
                         : op->code == IR_SUB ? KL_kl_sub_bf16x2
                         : op->code == IR_MUL ? KL_kl_mul_bf16x2
                                              : KL_COUNT;
  bool are_tiles = op->operand_count == 2 && op->operands[0]->type.rank && op->operands[1]->type.rank;
  if (function == KL_COUNT || !are_tiles || op->results[0].type.scalar != KILN_BF16 || count_of(tile) < 2 ||
      !kl_has(&g->prelude, function))
    return false;
  gpu_tile operands[2] = {gpu_operand(g, op, 0), gpu_operand(g, op, 1)};
  for (uint32_t r = 0; r < count_of(tile); r += 2) {
    LLVMValueRef words[2];
    for (unsigned i = 0; i < 2; i++) words[i] = gpu_pack(g, &operands[i].regs[r], 2);
    gpu_unpack(g, kl_call(&g->prelude, function, words, 2), g->i16, tile->regs + r, 2);
  }
  return true;
}

static void make_elements(gpu *g, const ir_op *op, gpu_tile *tile) {
  gpu_tile operands[3];
  LLVMValueRef values[3];
  for (uint32_t i = 0; i < op->operand_count; i++) {
    bool is_tile = op->operands[i]->type.rank != 0;
    if (is_tile) operands[i] = gpu_operand(g, op, i);
    else values[i] = gpu_scalar(g, op->operands[i]);
  }
  for (uint32_t r = 0; r < count_of(tile); r++) {
    for (uint32_t i = 0; i < op->operand_count; i++)
      if (op->operands[i]->type.rank) values[i] = operands[i].regs[r];
    tile->regs[r] = gpu_element(g, op, values);
  }
}

static void make(gpu *g, const ir_op *op, unsigned index, gpu_tile *tile) {
  switch (op->code) {
  case IR_IOTA: make_iota(g, tile); break;
  case IR_SPLAT: make_same(tile, gpu_scalar(g, op->operands[0])); break;
  case IR_EXPAND:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_BROADCAST: make_shape(g, op, tile); break;
  case IR_JOIN: make_join(g, op, tile); break;
  case IR_SPLIT: make_split(g, op, index, tile); break;
  default:
    if (!make_pairs(g, op, tile) && !make_sums(g, op, tile)) make_elements(g, op, tile);
    break;
  }
}

/// An elementwise operation on scalars, or the one element of a tile.
static LLVMValueRef scalar_of(gpu *g, const ir_op *op, unsigned index) {
  LLVMValueRef operands[3];
  if (ir_has(op->code, IR_RENAMES))
    return op->operands[0]->type.rank ? gpu_operand(g, op, 0).regs[index] : gpu_scalar(g, op->operands[0]);
  for (uint32_t i = 0; i < op->operand_count; i++) operands[i] = gpu_scalar(g, op->operands[i]);
  return gpu_element(g, op, operands);
}

void gpu_lower_elements(gpu *g, ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *result = &op->results[i];
    if (!result->type.rank) gpu_set_scalar(g, result, scalar_of(g, op, i));
    if (!result->layout || g->layouts->notes[result->id]->is_deferred || !gpu_has_room(g, result)) continue;
    gpu_tile tile = gpu_result(g, result);
    make(g, op, i, &tile);
  }
}
