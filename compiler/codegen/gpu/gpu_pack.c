// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements as bits: packed into words for memory and registers and back, and moved between lanes.
#include "compiler/codegen/gpu/gpu_lower.h"

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

/// Halves of two words.
static LLVMValueRef join_halves(gpu *g, const piece pieces[2]) {
  const uint8_t low = (uint8_t)(pieces[0].at / 8), high = (uint8_t)(4 + pieces[1].at / 8);
  return g->machine->join_bytes(g, (LLVMValueRef[]){pieces[0].word, pieces[1].word},
                                (uint8_t[]){low, (uint8_t)(low + 1), high, (uint8_t)(high + 1)});
}

/// Byte `at` of four words, of which the byte's neighbour is wanted too: both come out of the same two words, each of
/// which has the two bytes of two of the four. So four columns of four words take eight instructions.
static LLVMValueRef join_column(gpu *g, const piece pieces[4]) {
  const uint8_t first = (uint8_t)(pieces[0].at / 16 * 2), next = (uint8_t)(first + 1),
                half = pieces[0].at % 16 ? 2 : 0;
  LLVMValueRef both[2];
  for (unsigned i = 0; i < 2; i++)
    both[i] = g->machine->join_bytes(g, (LLVMValueRef[]){pieces[2 * i].word, pieces[2 * i + 1].word},
                                     (uint8_t[]){first, (uint8_t)(4 + first), next, (uint8_t)(4 + next)});
  return g->machine->join_bytes(
      g, both, (uint8_t[]){half, (uint8_t)(half + 1), (uint8_t)(4 + half), (uint8_t)(5 + half)});
}

/// The word that all elements were cut out of, in order, or halves of two words, or bytes of four at the same place, by
/// instructions that the machine has for it. NULL: they are none of these. LLVM would find the word too, but has to be
/// given several instructions for each element of a matrix operand first.
static LLVMValueRef join_pieces(gpu *g, const LLVMValueRef *elements, unsigned count) {
  piece pieces[4];
  bool are_halves = count == 2, are_column = count == 4, is_whole = true;
  if (LLVMTypeOf(elements[0]) == g->i1) return NULL; // these are bytes only once they are packed
  for (unsigned i = 0; i < count; i++) {
    pieces[i] = piece_of(g, elements[i]);
    if (!pieces[i].word) return NULL;
    are_halves &= pieces[i].at % 16 == 0;
    are_column &= pieces[i].at % 8 == 0 && pieces[i].at == pieces[0].at;
    // All of one word, which may have been taken out of one vector again for each.
    const LLVMValueRef first = pieces[0].word, word = pieces[i].word;
    const bool is_same_part = LLVMIsAExtractElementInst(first) && LLVMIsAExtractElementInst(word) &&
                              LLVMGetOperand(first, 0) == LLVMGetOperand(word, 0) &&
                              LLVMGetOperand(first, 1) == LLVMGetOperand(word, 1);
    is_whole &= pieces[i].at == i * (32 / count) && (word == first || is_same_part);
  }
  if (is_whole) return pieces[0].word;
  if (!g->machine->join_bytes) return NULL;
  return are_halves ? join_halves(g, pieces) : are_column ? join_column(g, pieces) : NULL;
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
