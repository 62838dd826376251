// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emission of mma.sync (compiler/passes/gpu/mma.def).
#include "compiler/codegen/nvptx/nvptx_matrix.h"

#include <string.h>

static unsigned put_words(gpu *g, const LLVMValueRef *elements, unsigned count, unsigned each,
                          LLVMValueRef *out) {
  for (unsigned i = 0; i < count / each; i++)
    out[i] = LLVMBuildBitCast(g->builder, gpu_pack(g, elements + (size_t)i * each, each), g->i32, "");
  return count / each;
}

static void emit(gpu *g, kl_function function, unsigned left_count, unsigned each, const LLVMValueRef *left,
                 const LLVMValueRef *right, LLVMValueRef *accumulator) {
  LLVMValueRef arguments[4 + 2 + 4];
  unsigned count = put_words(g, left, left_count, each, arguments);
  count += put_words(g, right, left_count / 2, each, arguments + count);
  memcpy(arguments + count, accumulator, 4 * sizeof *accumulator);
  LLVMValueRef sum = kl_call(&g->prelude, function, arguments, count + 4);
  // An instruction of assembly gives a struct; a function that stands in for it, in simulations, a vector.
  const bool is_struct = LLVMGetTypeKind(LLVMTypeOf(sum)) == LLVMStructTypeKind;
  for (unsigned i = 0; i < 4; i++)
    accumulator[i] = is_struct ? LLVMBuildExtractValue(g->builder, sum, i, "")
                               : LLVMBuildExtractElement(g->builder, sum, gpu_i32(g, i), "");
}

#define EMIT(name, function, left_count, each)                                     \
  static void name(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left, \
                   const LLVMValueRef *right, LLVMValueRef *accumulator) {         \
    (void)form;                                                                    \
    emit(g, KL_##function, left_count, each, left, right, accumulator);            \
  }
EMIT(emit_f16, kl_mma_m16n8k16_f16, 8, 2)
EMIT(emit_bf16, kl_mma_m16n8k16_bf16, 8, 2)
EMIT(emit_f16_k8, kl_mma_m16n8k8_f16, 4, 2)
EMIT(emit_s8, kl_mma_m16n8k32_s8, 16, 4)

/// The matrix unit keeps fewer bits of a sum of fp8 products than f32 has, so that each instruction sums its
/// 32 products alone and the accumulator grows by additions in f32.
static void emit_fp8(gpu *g, kl_function function, const LLVMValueRef *left, const LLVMValueRef *right,
                     LLVMValueRef *accumulator) {
  LLVMValueRef zero = LLVMConstNull(g->f32), products[4] = {zero, zero, zero, zero};
  emit(g, function, 16, 4, left, right, products);
  for (unsigned i = 0; i < 4; i++)
    accumulator[i] = LLVMBuildFAdd(g->builder, accumulator[i], products[i], "");
}

#define EMIT_FP8(name, function)                                                   \
  static void name(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left, \
                   const LLVMValueRef *right, LLVMValueRef *accumulator) {         \
    (void)form;                                                                    \
    emit_fp8(g, KL_##function, left, right, accumulator);                          \
  }
EMIT_FP8(emit_e4m3_e4m3, kl_mma_m16n8k32_e4m3_e4m3)
EMIT_FP8(emit_e4m3_e5m2, kl_mma_m16n8k32_e4m3_e5m2)
EMIT_FP8(emit_e5m2_e4m3, kl_mma_m16n8k32_e5m2_e4m3)
EMIT_FP8(emit_e5m2_e5m2, kl_mma_m16n8k32_e5m2_e5m2)

/// Operands are rounded to tf32 first.
static void emit_tf32(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                      const LLVMValueRef *right, LLVMValueRef *accumulator) {
  LLVMValueRef a[4], b[2];
  (void)form;
  for (unsigned i = 0; i < 4; i++) a[i] = kl_call(&g->prelude, KL_kl_f32_to_tf32, &left[i], 1);
  for (unsigned i = 0; i < 2; i++) b[i] = kl_call(&g->prelude, KL_kl_f32_to_tf32, &right[i], 1);
  emit(g, KL_kl_mma_m16n8k8_tf32, 4, 1, a, b, accumulator);
}

/// Four steps of a row and of four columns, in the order of the reduced index.
static void emit_fma(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                     const LLVMValueRef *right, LLVMValueRef *accumulator) {
  const bool is_by_steps = form->right_fragment.registers[0] == KILN_K(0);
  for (unsigned i = 0; i < 16; i++) {
    const unsigned k = i / 4, n = i % 4;
    LLVMValueRef x = left[k], y = right[is_by_steps ? n * 4 + k : i];
    accumulator[n] = gpu_intrinsic(g, "llvm.fma", &g->f32, 1, (LLVMValueRef[3]){x, y, accumulator[n]}, 3);
  }
}

void nvptx_emit_product(gpu *g, const kiln_matrix_form *form, const LLVMValueRef *left,
                        const LLVMValueRef *right, LLVMValueRef *accumulator) {
  static void (*const emitters[KILN_EMISSIONS])(gpu *, const kiln_matrix_form *, const LLVMValueRef *,
                                                const LLVMValueRef *, LLVMValueRef *) = {
      [KILN_EMIT_F16] = emit_f16,
      [KILN_EMIT_BF16] = emit_bf16,
      [KILN_EMIT_F16_K8] = emit_f16_k8,
      [KILN_EMIT_TF32] = emit_tf32,
      [KILN_EMIT_S8] = emit_s8,
      [KILN_EMIT_E4M3_E4M3] = emit_e4m3_e4m3,
      [KILN_EMIT_E4M3_E5M2] = emit_e4m3_e5m2,
      [KILN_EMIT_E5M2_E4M3] = emit_e5m2_e4m3,
      [KILN_EMIT_E5M2_E5M2] = emit_e5m2_e5m2,
      [KILN_EMIT_FMA] = emit_fma,
  };
  emitters[form->emission](g, form, left, right, accumulator);
}
