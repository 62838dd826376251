// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles that are made register by register: indices, splats, shape operations, elementwise operations. What has no layout
// is not made: nothing uses it, or a product reads it in another shape from its slot. One element is computed by
// compiler/codegen/llvm/llvm_element.h; here is how GPUs do what machines do in ways of their own, conversions and
// functions of the prelude.
#include <string.h>

#include "compiler/codegen/gpu/gpu_lower.h"

// -------------------------------------------------------------------------------------------------- elements

static LLVMValueRef call(gpu *g, kl_function function, LLVMValueRef a) {
  return kl_call(&g->prelude, function, &a, 1);
}

static LLVMValueRef intrinsic(const kiln_elements *e, const char *name, LLVMTypeRef type,
                              const LLVMValueRef *arguments, unsigned count) {
  return gpu_intrinsic(e->owner, name, &type, 1, arguments, count);
}

// ------------------------------------------------------------------------------------- conversions

LLVMValueRef gpu_to_f32(gpu *g, kiln_scalar from, LLVMValueRef value) {
  switch (from) {
  case KILN_F16: return LLVMBuildFPExt(g->builder, value, g->f32, "");
  case KILN_BF16: return call(g, KL_kl_bf16_to_f32, value);
  case KILN_F64: return LLVMBuildFPTrunc(g->builder, value, g->f32, "");
  case KILN_E4M3: return call(g, KL_kl_e4m3_to_f32, value);
  case KILN_E5M2: return call(g, KL_kl_e5m2_to_f32, value);
  default: return value;
  }
}

LLVMValueRef gpu_from_f32(gpu *g, kiln_scalar to, LLVMValueRef value) {
  switch (to) {
  case KILN_F16: return LLVMBuildFPTrunc(g->builder, value, g->half, "");
  case KILN_BF16: return call(g, KL_kl_f32_to_bf16, value);
  case KILN_F64: return LLVMBuildFPExt(g->builder, value, g->f64, "");
  case KILN_E4M3: return call(g, KL_kl_f32_to_e4m3, value);
  case KILN_E5M2: return call(g, KL_kl_f32_to_e5m2, value);
  default: return value;
  }
}

/// f64 to f32 so that a later rounding to a narrower type is right: to odd, that is the last bit is set when
/// anything was lost.
static LLVMValueRef f64_to_odd(gpu *g, LLVMValueRef value) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef near = LLVMBuildFPTrunc(b, value, g->f32, ""), back = LLVMBuildFPExt(b, near, g->f64, "");
  LLVMValueRef bits = LLVMBuildBitCast(b, near, g->i32, "");
  LLVMValueRef size = intrinsic(&g->elements, "llvm.fabs", g->f64, &value, 1),
               back_size = intrinsic(&g->elements, "llvm.fabs", g->f64, &back, 1);
  LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGT, back_size, size, ""),
               lost = LLVMBuildFCmp(b, LLVMRealONE, back, value, "");
  LLVMValueRef down = LLVMBuildSub(b, bits, LLVMBuildZExt(b, above, g->i32, ""), "");
  LLVMValueRef odd = LLVMBuildOr(b, down, LLVMBuildZExt(b, lost, g->i32, ""), "");
  return LLVMBuildBitCast(b, odd, g->f32, "");
}

static LLVMValueRef float_cast(const kiln_elements *e, kiln_scalar from, kiln_scalar to, const ir_attrs *how,
                               LLVMValueRef value) {
  gpu *g = e->owner;
  bool towards_zero = how->round == IR_ROUND_ZERO;
  if (to == KILN_F64) return LLVMBuildFPExt(g->builder, gpu_to_f32(g, from, value), g->f64, "");
  if (from == KILN_F64 && to == KILN_F32)
    return towards_zero ? call(g, KL_kl_f64_to_f32_rz, value) : gpu_to_f32(g, from, value);
  LLVMValueRef f32 = from != KILN_F64 ? gpu_to_f32(g, from, value)
                     : towards_zero   ? call(g, KL_kl_f64_to_f32_rz, value)
                                      : f64_to_odd(g, value);
  if (towards_zero && to == KILN_F16) return call(g, KL_kl_f32_to_f16_rz, f32);
  if (towards_zero && to == KILN_BF16) return call(g, KL_kl_f32_to_bf16_rz, f32);
  return gpu_from_f32(g, to, f32);
}

static LLVMValueRef widen(const kiln_elements *e, kiln_scalar from, LLVMValueRef x) {
  return gpu_to_f32(e->owner, from, x);
}

static LLVMValueRef narrow(const kiln_elements *e, kiln_scalar to, LLVMValueRef x) {
  return gpu_from_f32(e->owner, to, x);
}

static LLVMValueRef float_to_int(const kiln_elements *e, kiln_scalar to, bool is_unsigned, LLVMValueRef x) {
  LLVMTypeRef types[2] = {e->types[to], LLVMTypeOf(x)};
  return gpu_intrinsic(e->owner, is_unsigned ? "llvm.fptoui.sat" : "llvm.fptosi.sat", types, 2, &x, 1);
}

static LLVMValueRef bits_of_float(const kiln_elements *e, LLVMValueRef x) {
  gpu *g = e->owner;
  return call(g, LLVMTypeOf(x) == g->f64 ? KL_kl_bits_of_f64 : KL_kl_bits_of_f32, x);
}

// -------------------------------------------------------------------------------------- arithmetic

/// Division that never traps: a divisor of 0 or (signed) -1 is replaced, -1 is answered by negation.
static LLVMValueRef divide_integers(const kiln_elements *e, kiln_scalar s, bool is_unsigned, bool is_rem,
                                    LLVMValueRef a, LLVMValueRef d) {
  LLVMBuilderRef b = e->builder;
  LLVMTypeRef type = e->types[s];
  LLVMValueRef zero = LLVMConstInt(type, 0, true), one = LLVMConstInt(type, 1, true),
               all = LLVMConstInt(type, UINT64_MAX, true);
  LLVMValueRef bad = LLVMBuildICmp(b, LLVMIntEQ, d, zero, "");
  LLVMOpcode code = is_unsigned ? (is_rem ? LLVMURem : LLVMUDiv) : (is_rem ? LLVMSRem : LLVMSDiv);
  if (is_unsigned) return LLVMBuildBinOp(b, code, a, LLVMBuildSelect(b, bad, one, d, ""), "");
  LLVMValueRef minus = LLVMBuildICmp(b, LLVMIntEQ, d, all, "");
  LLVMValueRef safe = LLVMBuildSelect(b, LLVMBuildOr(b, bad, minus, ""), one, d, "");
  LLVMValueRef plain = LLVMBuildBinOp(b, code, a, safe, "");
  return LLVMBuildSelect(b, minus, is_rem ? zero : LLVMBuildNeg(b, a, ""), plain, "");
}

static LLVMValueRef divide(const kiln_elements *e, const ir_attrs *how, LLVMValueRef a, LLVMValueRef b) {
  gpu *g = e->owner;
  LLVMValueRef arguments[2] = {a, b};
  if (LLVMTypeOf(a) == g->f64) return LLVMBuildFDiv(g->builder, a, b, "");
  kl_function function = how->flags & IR_PRECISE ? KL_kl_div_rn_f32 : KL_kl_div_f32;
  return kl_call(&g->prelude, function, arguments, 2);
}

static LLVMValueRef extreme(const kiln_elements *e, const ir_op *op, bool is_max, LLVMValueRef a,
                            LLVMValueRef b) {
  LLVMValueRef arguments[2] = {a, b};
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef number = intrinsic(e, is_max ? "llvm.maxnum" : "llvm.minnum", type, arguments, 2);
  if (!(op->attrs.flags & IR_NAN)) return number;
  LLVMValueRef is_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, a, b, "");
  return LLVMBuildSelect(e->builder, is_nan, LLVMConstReal(type, __builtin_nan("")), number, "");
}

static LLVMValueRef function(const kiln_elements *e, ir_opcode code, const ir_attrs *how, LLVMValueRef x) {
  gpu *g = e->owner;
  const bool is_precise = how->flags & IR_PRECISE, is_ftz = how->flags & IR_FTZ;
  if (LLVMTypeOf(x) == g->f64) {
    if (code != IR_SQRT && code != IR_RSQRT) return NULL;
    LLVMValueRef root = intrinsic(e, "llvm.sqrt", g->f64, &x, 1);
    return code == IR_SQRT ? root : LLVMBuildFDiv(g->builder, LLVMConstReal(g->f64, 1), root, "");
  }
  switch (code) {
  case IR_SQRT: return call(g, is_precise ? KL_kl_sqrt_rn_f32 : KL_kl_sqrt_f32, x);
  case IR_RSQRT: return call(g, KL_kl_rsqrt_f32, x);
  case IR_EXP2: return call(g, is_ftz ? KL_kl_ex2_ftz_f32 : KL_kl_ex2_f32, x);
  default: return call(g, KL_kl_lg2_f32, x);
  }
}

const kiln_element_machine gpu_element_machine = {.widen = widen,
                                                  .narrow = narrow,
                                                  .float_cast = float_cast,
                                                  .float_to_int = float_to_int,
                                                  .bits_of_float = bits_of_float,
                                                  .divide_integers = divide_integers,
                                                  .divide = divide,
                                                  .extreme = extreme,
                                                  .function = function,
                                                  .intrinsic = intrinsic};

// -------------------------------------------------------------------------------------- operations

static LLVMValueRef pointer_add(gpu *g, const ir_op *op, LLVMValueRef pointer, LLVMValueRef offset) {
  ir_type pointee = ir_pointee(ir_element(op->operands[0]->type));
  LLVMTypeRef element = pointee.pointer ? g->i64 : g->elements.types[pointee.scalar];
  if (!pointee.pointer && pointee.scalar == KILN_I1) element = g->i8;
  if (LLVMTypeOf(offset) != g->i64) offset = LLVMBuildSExt(g->builder, offset, g->i64, "");
  return LLVMBuildGEP2(g->builder, element, pointer, &offset, 1, "");
}

static LLVMValueRef unsupported(gpu *g, const ir_op *op) {
  char text[IR_TYPE_TEXT];
  gpu_fail_at(
      g, op, KILN_STATUS_UNSUPPORTED, "operation %u: %s on %s is not supported on %s", ir_operation(op),
      ir_ops[op->code].text,
      ir_type_text(op->operand_count ? ir_element(op->operands[0]->type) : ir_element(op->results[0].type),
                   text),
      g->machine->name);
  return LLVMGetPoison(gpu_type(g, ir_element(op->results[0].type)));
}

/// Tells LLVM of a sum, difference or product that the facts keep within its type: an index that does not wrap may be widened,
/// and then addresses of neighbours differ by constants.
static LLVMValueRef without_wrap(gpu *g, const ir_op *op, LLVMValueRef result) {
  const kiln_fact *a = kiln_fact_of(g->layouts->facts, op->operands[0]),
                  *b = kiln_fact_of(g->layouts->facts, op->operands[1]);
  const int64_t least = INT64_MIN >> (64 - ir_type_bits(op->results[0].type)),
                bounds[4][2] = {{a->lo, b->lo}, {a->lo, b->hi}, {a->hi, b->lo}, {a->hi, b->hi}};
  if (!LLVMIsABinaryOperator(result)) return result; // it was folded
  for (unsigned i = 0; i < 4; i++) {
    const int64_t x = bounds[i][0], y = bounds[i][1];
    int64_t end;
    const bool is_beyond = op->code == IR_ADD   ? __builtin_add_overflow(x, y, &end)
                           : op->code == IR_SUB ? __builtin_sub_overflow(x, y, &end)
                                                : __builtin_mul_overflow(x, y, &end);
    if (is_beyond || end < least || end > ~least) return result;
  }
  LLVMSetNSW(result, true);
  if (op->code != IR_SUB && a->lo >= 0 && b->lo >= 0) LLVMSetNUW(result, true);
  return result;
}

LLVMValueRef gpu_element(gpu *g, const ir_op *op, const LLVMValueRef *operands) {
  if (op->code == IR_PTRADD) return pointer_add(g, op, operands[0], operands[1]);
  LLVMValueRef result = kiln_element(&g->elements, op, operands);
  if (!result) return unsupported(g, op);
  const ir_type type = op->results[0].type;
  bool is_sum = op->code == IR_ADD || op->code == IR_SUB || op->code == IR_MUL;
  return is_sum && ir_type_class(type) == KILN_CLASS_INT ? without_wrap(g, op, result) : result;
}

// ----------------------------------------------------------------------------------------------------- tiles

static uint32_t count_of(const gpu_tile *tile) { return 1u << tile->layout.registers; }

void gpu_number_elements(gpu *g, gpu_tile *tile) {
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
  case IR_IOTA: gpu_number_elements(g, tile); break;
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

void gpu_lower_elements(gpu *g, ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *result = &op->results[i];
    if (!result->type.rank) { // of scalars, or the one element of a tile
      LLVMValueRef operands[3];
      const bool renames = ir_has(op->code, IR_RENAMES), is_of_tile = renames && op->operands[0]->type.rank;
      for (uint32_t k = 0; !is_of_tile && k < op->operand_count; k++)
        operands[k] = gpu_scalar(g, op->operands[k]);
      gpu_set_scalar(g, result,
                     is_of_tile ? gpu_operand(g, op, 0).regs[i]
                     : renames  ? operands[0]
                                : gpu_element(g, op, operands));
    }
    if (!result->layout || g->layouts->notes[result->id]->is_deferred || !gpu_has_room(g, result)) continue;
    gpu_tile tile = gpu_result(g, result);
    make(g, op, i, &tile);
  }
}
