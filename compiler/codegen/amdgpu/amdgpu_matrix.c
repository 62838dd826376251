// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emission of MFMA and WMMA (compiler/passes/gpu/matrix_forms.c).
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "compiler/codegen/amdgpu/amdgpu.h"

// ---------------------------------------------------------------------------------------- emission

static LLVMValueRef gather(gpu *g, const LLVMValueRef *elements, unsigned count, kiln_scalar scalar) {
  if (count == 1) return elements[0];
  LLVMValueRef v = LLVMGetUndef(LLVMVectorType(g->elements.types[scalar], count));
  for (unsigned i = 0; i < count; i++)
    v = LLVMBuildInsertElement(g->builder, v, elements[i], gpu_i32(g, i), "");
  return v;
}

static void scatter(gpu *g, LLVMValueRef vector, LLVMValueRef *elements, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    elements[i] = LLVMBuildExtractElement(g->builder, vector, gpu_i32(g, i), "");
}

static unsigned register_count(const kiln_fragment *f) {
  unsigned bits = 0;
  while (f->registers[bits] != KILN_FRAGMENT_END) bits++;
  return 1u << bits;
}

/// How an intrinsic is called. Its arguments in order: A and B the operands, C the sums, a and b the formats
/// of fp8 operands, + and - flags of one bit, h and 0 zeros of 16 and 32 bits. Its overloads are types of
/// such.
typedef struct matrix_call {
  const char *arguments, *overloads;
  bool has_whole_bytes; ///< bytes are one integer, else a vector of words
  bool has_bfloat;      ///< bf16 is called so, else 16-bit integers
  bool rounds;          ///< f32 operands to tf32 first, where the unit would leave the rest out
  /// Where LLVM has no form of the instruction whose sums begin with the constant 0: what stands after its
  /// operands, in assembly.
  const char *flags;
} matrix_call;

static const matrix_call calls[KILN_EMISSIONS] = {
    // After the sums of MFMA: broadcasts and exchanges of blocks; of fp8 the operands' formats (0 e4m3, 1
    // e5m2)
    // and selections and scales: constant zeros for both scales mean the instruction without.
    [KILN_EMIT_MFMA] = {"ABC000", "", .has_whole_bytes = true},
    [KILN_EMIT_MFMA_XF32] = {"ABC000", "", .rounds = true},
    [KILN_EMIT_MFMA_950] = {"ABC000", "", .has_bfloat = true},
    [KILN_EMIT_MFMA_FP8] = {"ABCab0000", "AB"},
    // Before an operand of integers: it is signed; after their sums: they do not saturate.
    [KILN_EMIT_WMMA] = {"ABC", "CA"},
    [KILN_EMIT_WMMA_INTEGER] = {"+A+BC-", "CA"},
    [KILN_EMIT_WMMA_11] = {"ABC", "CA", .flags = ""},
    [KILN_EMIT_WMMA_11_INTEGER] = {"+A+BC-", "CA", .flags = " neg_lo:[1,1,0]"},
    // gfx1250: floats of 16 and 32 bits have sign changes of both operands and of the sums, fp8 of the sums
    // alone; the last two are hints that an operand is the last instruction's.
    [KILN_EMIT_WMMA_1250] = {"-A-BhC--", "CA", .has_bfloat = true},
    [KILN_EMIT_WMMA_1250_FP8] = {"ABhC--", "CA"},
    [KILN_EMIT_WMMA_1250_INTEGER] = {"+A+BC---", "CA"},
};

enum { MOST_ARGUMENTS = 9, MOST_OVERLOADS = 2 };

static LLVMValueRef splat(gpu *g, uint32_t bits, unsigned count) {
  LLVMValueRef all[16];
  assert(count <= sizeof all / sizeof *all);
  for (unsigned i = 0; i < count; i++) all[i] = gpu_i32(g, bits);
  return LLVMConstVector(all, count);
}

/// To ten bits of the fraction, ties away from zero, as cvt.rna.tf32 does; a NaN is the quiet one, of whose
/// payload nothing is lost. gfx942 leaves the lower bits out (ROCm's rocm-libraries, pull request 9176), and
/// NaNs whose payload lies there become infinities.
static LLVMValueRef round_to_tf32(gpu *g, LLVMValueRef floats, unsigned count) {
  LLVMBuilderRef b = g->builder;
  LLVMTypeRef type = LLVMTypeOf(floats);
  LLVMValueRef bits = LLVMBuildBitCast(b, floats, LLVMVectorType(g->i32, count), ""),
               raised = LLVMBuildAdd(b, bits, splat(g, 0x1000, count), ""),
               rounded = LLVMBuildAnd(b, raised, splat(g, 0xffffe000, count), ""),
               is_nan = LLVMBuildFCmp(b, LLVMRealUNO, floats, floats, "");
  return LLVMBuildBitCast(b, LLVMBuildSelect(b, is_nan, splat(g, 0x7fc00000, count), rounded, ""), type, "");
}

static LLVMValueRef gather_operand(gpu *g, const matrix_call *c, const LLVMValueRef *elements, unsigned count,
                                   kiln_scalar scalar) {
  LLVMValueRef v = gather(g, elements, count, scalar);
  LLVMTypeRef type = LLVMTypeOf(v);
  if (c->rounds) return round_to_tf32(g, v, count);
  if (kiln_scalars[scalar].bytes == 1)
    type =
        c->has_whole_bytes ? LLVMIntTypeInContext(g->context, 8 * count) : LLVMVectorType(g->i32, count / 4);
  if (scalar == KILN_BF16 && c->has_bfloat) type = LLVMVectorType(LLVMBFloatTypeInContext(g->context), count);
  return LLVMBuildBitCast(g->builder, v, type, "");
}

static bool is_nothing(LLVMValueRef vector) { return LLVMIsConstant(vector) && LLVMIsNull(vector); }

/// The first product of a sum: else a vector of zeros keeps registers for all of a loop. LLVM does not see
/// two hazards of gfx11 here, and neither occurs: operands are never sums of the product before, nor what a
/// function (v_exp, v_sqrt) gives, as both are f32 or i32 and are converted first.
static LLVMValueRef begin_sums(gpu *g, const kiln_matrix_form *form, const matrix_call *c,
                               LLVMValueRef *operands) {
  static const char prefix[] = "llvm.amdgcn.";
  char text[96], *at = text;
  at += snprintf(text, sizeof text, "v_%s $0, $1, $2, 0%s", form->name + strlen(prefix), c->flags);
  assert(at < text + sizeof text);
  for (char *dot = text; *dot && *dot != ' '; dot++)
    if (*dot == '.') *dot = '_';
  return kiln_llvm_asm(g->builder, KILN_ASM_TOGETHER, text, "=&v,v,v", LLVMTypeOf(operands[2]), operands, 2);
}

void amdgpu_emit_product(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                         const LLVMValueRef *right, LLVMValueRef *accumulator) {
  const matrix_call *c = &calls[form->emission];
  unsigned count = register_count(&form->left_fragment), sums = register_count(&form->accumulator_fragment),
           argument_count = 0, overload_count = 0;
  LLVMValueRef operands[] = {gather_operand(g, c, left, count, form->left),
                             gather_operand(g, c, right, count, form->right),
                             gather(g, accumulator, sums, form->accumulator)},
               arguments[MOST_ARGUMENTS];
  LLVMTypeRef overloads[MOST_OVERLOADS];
  if (c->flags && is_nothing(operands[2])) {
    scatter(g, begin_sums(g, form, c, operands), accumulator, sums);
    return;
  }
  for (const char *at = c->arguments; *at; at++) {
    assert(argument_count < MOST_ARGUMENTS);
    LLVMValueRef *to = &arguments[argument_count++];
    switch (*at) {
    case 'a': *to = gpu_i32(g, form->left == KILN_E5M2); break;
    case 'b': *to = gpu_i32(g, form->right == KILN_E5M2); break;
    case '+':
    case '-': *to = gpu_i1(g, *at == '+'); break;
    case 'h': *to = LLVMConstInt(g->i16, 0, false); break;
    case '0': *to = gpu_i32(g, 0); break;
    default: *to = operands[*at - 'A'];
    }
  }
  for (const char *at = c->overloads; *at; at++) {
    assert(overload_count < MOST_OVERLOADS);
    overloads[overload_count++] = LLVMTypeOf(operands[*at - 'A']);
  }
  LLVMValueRef made = kiln_llvm_intrinsic(g->builder, g->module, form->name, overloads, overload_count,
                                          arguments, argument_count);
  if (made) scatter(g, made, accumulator, sums);
  else gpu_fail(g, KILN_STATUS_UNSUPPORTED, "this LLVM has no %s", form->name);
}

void amdgpu_finish_product(gpu *g, const kiln_matrix_form *form, LLVMValueRef *accumulator) {
  const unsigned of_waves_of_32 = 32, sums = register_count(&form->accumulator_fragment);
  if (form->lanes != of_waves_of_32 || form->units & 1u << KILN_MATRIX_WMMA_1250) return;
  scatter(g, amdgpu_pin(g, gather(g, accumulator, sums, form->accumulator)), accumulator, sums);
}
