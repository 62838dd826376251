// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values during the GPU lowering: types, numbers of threads, scalars, tiles in their layouts; and elements as bits: packed
// into words for memory and back, and moved between lanes.
#include <stdio.h>

#include "compiler/codegen/gpu/gpu_lower.h"

// ----------------------------------------------------------------------------------- failures and intrinsics

void gpu_fail(gpu *g, kiln_status status, const char *format, ...) {
  if (g->status != KILN_OK) return;
  char text[KILN_ERROR_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!g->current) g->status = kiln_fail(g->error, status, "%s", text);
  else
    g->status = kiln_fail_at(g->error, status, ir_operation(g->current), "operation %u: %s",
                             ir_operation(g->current), text);
}

void gpu_fail_at(gpu *g, const ir_op *op, kiln_status status, const char *format, ...) {
  if (g->status != KILN_OK) return;
  char text[KILN_ERROR_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  g->status = kiln_fail_at(g->error, status, ir_operation(op), "%s", text);
}

LLVMValueRef gpu_intrinsic(gpu *g, const char *name, LLVMTypeRef *types, unsigned type_count,
                           const LLVMValueRef *arguments, unsigned count) {
  LLVMValueRef made = kiln_llvm_intrinsic(g->builder, g->module, name, types, type_count, arguments, count);
  if (made) return made;
  gpu_fail(g, KILN_STATUS_UNSUPPORTED, "this LLVM has no %s", name);
  return LLVMGetUndef(type_count ? types[0] : g->i32);
}

// ------------------------------------------------------------------------------------------- types

LLVMTypeRef gpu_type(gpu *g, ir_type element) {
  return element.pointer ? g->global_pointer : g->elements.types[element.scalar];
}
LLVMValueRef gpu_i32(gpu *g, uint32_t value) { return LLVMConstInt(g->i32, value, false); }
LLVMValueRef gpu_i1(gpu *g, bool value) { return LLVMConstInt(g->i1, value, false); }

LLVMBasicBlockRef gpu_block(gpu *g, const char *name) {
  return LLVMAppendBasicBlockInContext(g->context, g->function, name);
}

// ---------------------------------------------------------------------------------- thread numbers

/// Bits [from, from + count) of the thread number moved to bit `to`.
static LLVMValueRef thread_run(gpu *g, unsigned from, unsigned count, unsigned to) {
  LLVMValueRef v = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, ((1u << count) - 1) << from), "");
  if (to > from) return LLVMBuildShl(g->builder, v, gpu_i32(g, to - from), "");
  return to < from ? LLVMBuildLShr(g->builder, v, gpu_i32(g, from - to), "") : v;
}

/// A basis of several bits: all of them or none.
static LLVMValueRef thread_spread(gpu *g, unsigned bit, uint32_t basis) {
  LLVMValueRef v = LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, bit), "");
  v = LLVMBuildAnd(g->builder, v, gpu_i32(g, 1), "");
  return LLVMBuildAnd(g->builder, LLVMBuildNeg(g->builder, v, ""), gpu_i32(g, basis), "");
}

LLVMValueRef gpu_thread_bits(gpu *g, const uint32_t *basis, unsigned count) {
  LLVMValueRef sum = NULL;
  for (unsigned i = 0; i < count;) {
    unsigned run = 1;
    if (!basis[i]) {
      i++;
      continue;
    }
    bool is_single = (basis[i] & (basis[i] - 1)) == 0;
    while (is_single && i + run < count && basis[i + run] == basis[i] << run) run++;
    LLVMValueRef part =
        is_single ? thread_run(g, i, run, (unsigned)__builtin_ctz(basis[i])) : thread_spread(g, i, basis[i]);
    sum = sum ? LLVMBuildXor(g->builder, sum, part, "") : part;
    i += run;
  }
  return sum ? sum : gpu_i32(g, 0);
}

LLVMValueRef gpu_is_owner(gpu *g, const kiln_layout *layout) {
  uint32_t replicas = layout_replicas(layout);
  if (!replicas) return NULL;
  LLVMValueRef bits = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, replicas), "");
  return LLVMBuildICmp(g->builder, LLVMIntEQ, bits, gpu_i32(g, 0), "");
}

// ------------------------------------------------------------------------------------------ values

gpu_value *gpu_value_of(gpu *g, ir_value *value) {
  if (!value->slot) value->slot = KILN_NEW(g->arena, gpu_value);
  return value->slot;
}

gpu_tile gpu_tile_new(gpu *g, const kiln_layout *layout) {
  gpu_tile tile = {.layout = *layout};
  tile.regs = KILN_NEW_ARRAY(g->arena, LLVMValueRef, (size_t)1 << layout->registers);
  return tile;
}

/// Stands for what cannot be made after a failure.
static gpu_tile poison_tile(gpu *g, ir_type type, const kiln_layout *layout) {
  gpu_tile tile = gpu_tile_new(g, layout);
  for (uint32_t i = 0; i < 1u << layout->registers; i++)
    tile.regs[i] = LLVMGetPoison(gpu_type(g, ir_element(type)));
  return tile;
}

LLVMValueRef gpu_scalar(gpu *g, ir_value *value) {
  gpu_value *v = gpu_value_of(g, value);
  if (v->scalar) return v->scalar;
  if (g->status == KILN_OK)
    gpu_fail(g, KILN_STATUS_INTERNAL, "value %u is used before it is computed", value->id);
  return LLVMGetPoison(gpu_type(g, ir_element(value->type)));
}

void gpu_set_scalar(gpu *g, ir_value *value, LLVMValueRef scalar) {
  gpu_value *v = gpu_value_of(g, value);
  v->scalar = scalar;
  v->is_ready = true;
}

void gpu_set_home(gpu *g, ir_value *value, gpu_tile tile) {
  gpu_value *v = gpu_value_of(g, value);
  KILN_ASSERT(value->layout && layout_equal(value->layout, &tile.layout)); // as the pass chose
  v->is_ready = true;
  v->home_tile = tile;
}

gpu_tile gpu_result(gpu *g, ir_value *value) {
  gpu_value *v = gpu_value_of(g, value);
  v->is_ready = true;
  return v->home_tile = gpu_tile_new(g, value->layout);
}

bool gpu_words_fit(gpu *g, const ir_op *op, const char *what, ir_type type, unsigned registers,
                   uint64_t most) {
  uint64_t bits = type.pointer ? 32 : ir_type_bits(type), words = (bits << registers) / 32,
           warps = 1u << g->warps, enough = warps;
  most >>= g->machine->lanes - 5;
  if (words <= most) return true;
  char text[IR_TYPE_TEXT];
  while (words * warps > most * enough) enough *= 2;
  gpu_fail_at(
      g, op, KILN_STATUS_LIMIT,
      "operation %u: a %s %s needs %llu registers a thread at %llu warps, expected at most %llu%s%.0llu%s",
      ir_operation(op), what, ir_type_text(type, text), (unsigned long long)words, (unsigned long long)warps,
      (unsigned long long)most, enough <= g->machine->max_warps ? "; " : "",
      enough <= g->machine->max_warps ? (unsigned long long)enough : 0,
      enough <= g->machine->max_warps ? " warps have room" : "");
  return false;
}

bool gpu_has_room(gpu *g, const ir_value *value) {
  const ir_op *op = value->def ? value->def : g->current ? g->current : value->block->parent;
  return gpu_words_fit(g, op, "value", value->type, value->layout->registers, KILN_MOST_TILE_REGISTERS);
}

gpu_tile gpu_tile_of(gpu *g, ir_value *value) {
  const gpu_value *v = gpu_value_of(g, value);
  if (v->is_ready) return v->home_tile;
  if (g->status == KILN_OK)
    gpu_fail(g, KILN_STATUS_INTERNAL, "tile value %u is used before it is computed", value->id);
  return poison_tile(g, value->type, value->layout);
}

gpu_tile gpu_operand(gpu *g, const ir_op *op, uint32_t i) {
  // kiln_conversions_verify has seen to it, after the last pass
  KILN_ASSERT_DEEP(layout_equal(op->operands[i]->layout, op->operand_layouts[i]));
  return gpu_tile_of(g, op->operands[i]);
}

// ------------------------------------------------------------------------------------------ elements as bits

// ------------------------------------------------------------------------------ elements and words

LLVMTypeRef gpu_packed_type(gpu *g, unsigned bytes) {
  if (bytes <= 2) return bytes == 1 ? g->i8 : g->i16;
  return bytes == 4 ? g->i32 : LLVMVectorType(g->i32, bytes / 4);
}

/// An element as an integer of its size in memory.
static LLVMValueRef to_bits(gpu *g, LLVMValueRef v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  if (type == g->i1) return LLVMBuildZExt(g->builder, v, g->i8, "");
  if (type == g->half) return LLVMBuildBitCast(g->builder, v, g->i16, "");
  if (type == g->f32) return LLVMBuildBitCast(g->builder, v, g->i32, "");
  if (type == g->f64) return LLVMBuildBitCast(g->builder, v, g->i64, "");
  return type == g->global_pointer ? LLVMBuildPtrToInt(g->builder, v, g->i64, "") : v;
}

static LLVMValueRef from_bits(gpu *g, LLVMValueRef v, LLVMTypeRef type) {
  if (type == LLVMTypeOf(v)) return v;
  if (type == g->i1) return LLVMBuildTrunc(g->builder, v, g->i1, "");
  return type == g->global_pointer ? LLVMBuildIntToPtr(g->builder, v, type, "")
                                   : LLVMBuildBitCast(g->builder, v, type, "");
}

unsigned gpu_bytes_of(gpu *g, LLVMTypeRef type) {
  if (type == g->i1 || type == g->i8) return 1;
  if (type == g->i16 || type == g->half) return 2;
  return type == g->i32 || type == g->f32 ? 4 : 8;
}

/// Bits that were cut out of a word, from bit `at` on. `word` NULL: they come from elsewhere.
typedef struct piece {
  LLVMValueRef word;
  unsigned at;
} piece;

static piece piece_of(gpu *g, LLVMValueRef bits) {
  while (LLVMIsABitCastInst(bits)) bits = LLVMGetOperand(bits, 0);
  LLVMValueRef word = LLVMIsATruncInst(bits) ? LLVMGetOperand(bits, 0) : NULL;
  if (!word || LLVMTypeOf(word) != g->i32) return (piece){NULL, 0};
  bool is_shifted = LLVMIsABinaryOperator(word) && LLVMGetInstructionOpcode(word) == LLVMLShr &&
                    LLVMIsAConstantInt(LLVMGetOperand(word, 1));
  if (!is_shifted) return (piece){word, 0};
  return (piece){LLVMGetOperand(word, 0), (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(word, 1))};
}

static bool is_same_word(LLVMValueRef a, LLVMValueRef b) {
  bool are_parts = LLVMIsAExtractElementInst(a) && LLVMIsAExtractElementInst(b);
  return a == b || (are_parts && LLVMGetOperand(a, 0) == LLVMGetOperand(b, 0) &&
                    LLVMGetOperand(a, 1) == LLVMGetOperand(b, 1));
}

/// The word that all elements were cut out of, in order, or halves of two words by one instruction where the
/// machine has it. NULL: they are neither. LLVM would find the word too, but has to be given several
/// instructions for each element of a matrix operand first.
static LLVMValueRef join_pieces(gpu *g, const LLVMValueRef *elements, unsigned count) {
  piece pieces[4];
  bool are_halves = count == 2, is_whole = true;
  if (LLVMTypeOf(elements[0]) == g->i1) return NULL; // these are bytes only once they are packed
  for (unsigned i = 0; i < count; i++) {
    pieces[i] = piece_of(g, elements[i]);
    if (!pieces[i].word) return NULL;
    are_halves &= pieces[i].at % 16 == 0;
    is_whole &= pieces[i].at == i * (32 / count) && is_same_word(pieces[0].word, pieces[i].word);
  }
  if (is_whole) return pieces[0].word;
  if (!are_halves || !g->machine->join_halves) return NULL;
  return g->machine->join_halves(g, (LLVMValueRef[]){pieces[0].word, pieces[1].word},
                                 (bool[]){pieces[0].at != 0, pieces[1].at != 0});
}

/// `count` elements narrower than a word in one i32, the first in the low bits.
static LLVMValueRef pack_word(gpu *g, const LLVMValueRef *elements, unsigned count) {
  LLVMValueRef word = join_pieces(g, elements, count);
  if (word) return word;
  unsigned width = 32 / count;
  for (unsigned i = 0; i < count; i++) {
    LLVMValueRef part = LLVMBuildZExt(g->builder, to_bits(g, elements[i]), g->i32, "");
    if (i) part = LLVMBuildShl(g->builder, part, gpu_i32(g, i * width), "");
    word = word ? LLVMBuildOr(g->builder, word, part, "") : part;
  }
  return word;
}

LLVMValueRef gpu_pack(gpu *g, const LLVMValueRef *elements, unsigned count) {
  LLVMValueRef words[4];
  unsigned bytes = gpu_bytes_of(g, LLVMTypeOf(elements[0])), total = bytes * count, word_count = total / 4;
  if (total < 4 && count == 1) return to_bits(g, elements[0]);
  if (total < 4) { // two bytes
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(elements[0]));
    const LLVMValueRef four[4] = {elements[0], elements[1], zero, zero};
    return LLVMBuildTrunc(g->builder, pack_word(g, four, 4), g->i16, "");
  }
  for (unsigned w = 0; w < word_count; w++) {
    if (bytes == 8) {
      LLVMValueRef bits = to_bits(g, elements[w / 2]);
      if (w & 1) bits = LLVMBuildLShr(g->builder, bits, LLVMConstInt(g->i64, 32, false), "");
      words[w] = LLVMBuildTrunc(g->builder, bits, g->i32, "");
    } else {
      words[w] = bytes == 4 ? to_bits(g, elements[w]) : pack_word(g, elements + w * (4 / bytes), 4 / bytes);
    }
  }
  if (word_count == 1) return words[0];
  LLVMValueRef vector = LLVMGetPoison(gpu_packed_type(g, total));
  for (unsigned w = 0; w < word_count; w++)
    vector = LLVMBuildInsertElement(g->builder, vector, words[w], gpu_i32(g, w), "");
  return vector;
}

static LLVMValueRef word_of(gpu *g, LLVMValueRef packed, unsigned total, unsigned w) {
  return total == 4 ? packed : LLVMBuildExtractElement(g->builder, packed, gpu_i32(g, w), "");
}

void gpu_unpack(gpu *g, LLVMValueRef packed, LLVMTypeRef type, LLVMValueRef *elements, unsigned count) {
  unsigned bytes = gpu_bytes_of(g, type), total = bytes * count;
  LLVMTypeRef narrow = LLVMIntTypeInContext(g->context, 8 * bytes);
  for (unsigned i = 0; i < count; i++) {
    LLVMValueRef bits;
    if (total < 4) {
      bits = i ? LLVMBuildLShr(g->builder, packed, LLVMConstInt(g->i16, 8, false), "") : packed;
      if (count > 1) bits = LLVMBuildTrunc(g->builder, bits, g->i8, "");
    } else if (bytes == 8) {
      LLVMValueRef low = LLVMBuildZExt(g->builder, word_of(g, packed, total, 2 * i), g->i64, "");
      LLVMValueRef high = LLVMBuildZExt(g->builder, word_of(g, packed, total, 2 * i + 1), g->i64, "");
      bits = LLVMBuildOr(g->builder, low, LLVMBuildShl(g->builder, high, LLVMConstInt(g->i64, 32, false), ""),
                         "");
    } else {
      unsigned each = 4 / bytes, at = i % each;
      bits = word_of(g, packed, total, i / each);
      if (at) bits = LLVMBuildLShr(g->builder, bits, gpu_i32(g, at * 8 * bytes), "");
      if (bytes < 4) bits = LLVMBuildTrunc(g->builder, bits, narrow, "");
    }
    elements[i] = from_bits(g, bits, type);
  }
}

// ---------------------------------------------------------------------------------------- shuffles

/// Applies a shuffle of i32 to any element.
static LLVMValueRef shuffle(gpu *g, LLVMValueRef value, LLVMValueRef lane, bool is_xor, unsigned mask) {
  LLVMTypeRef type = LLVMTypeOf(value);
  LLVMValueRef bits = to_bits(g, value), words[2], arguments[2];
  unsigned count = gpu_bytes_of(g, type) == 8 ? 2 : 1;
  words[0] = LLVMTypeOf(bits) == g->i32 ? bits
             : count == 2               ? LLVMBuildTrunc(g->builder, bits, g->i32, "")
                                        : LLVMBuildZExt(g->builder, bits, g->i32, "");
  if (count == 2)
    words[1] = LLVMBuildTrunc(
        g->builder, LLVMBuildLShr(g->builder, bits, LLVMConstInt(g->i64, 32, false), ""), g->i32, "");
  for (unsigned i = 0; i < count; i++) {
    arguments[0] = words[i];
    arguments[1] = is_xor ? gpu_i32(g, mask) : lane;
    if (is_xor && g->machine->shuffle_xor) words[i] = g->machine->shuffle_xor(g, words[i], mask);
    else words[i] = kl_call(&g->prelude, is_xor ? KL_kl_shfl_xor_i32 : KL_kl_shfl_idx_i32, arguments, 2);
  }
  if (count == 2) {
    LLVMValueRef high = LLVMBuildShl(g->builder, LLVMBuildZExt(g->builder, words[1], g->i64, ""),
                                     LLVMConstInt(g->i64, 32, false), "");
    bits = LLVMBuildOr(g->builder, LLVMBuildZExt(g->builder, words[0], g->i64, ""), high, "");
  } else {
    bits = LLVMTypeOf(bits) == g->i32 ? words[0] : LLVMBuildTrunc(g->builder, words[0], LLVMTypeOf(bits), "");
  }
  return from_bits(g, bits, type);
}

LLVMValueRef gpu_shuffle_xor(gpu *g, LLVMValueRef value, unsigned mask) {
  return shuffle(g, value, NULL, true, mask);
}
LLVMValueRef gpu_shuffle_idx(gpu *g, LLVMValueRef value, LLVMValueRef lane) {
  return shuffle(g, value, lane, false, 0);
}
