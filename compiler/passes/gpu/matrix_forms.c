// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The matrix instructions of NVIDIA (mma.sync) and AMD (MFMA of gfx9 in waves of 64, WMMA of gfx11, gfx12 and
// gfx1250 in waves of 32) as linear maps.
//
// A fragment says, for each bit of register and lane number, which bit of row, column or reduced index it is.
// Left and right operand permute the reduced index alike, which is all that a product asks for. Sources: the
// PTX ISA ("mma") and the instruction set guides of CDNA 1 to 4 and RDNA 3 and 4; for gfx1250 the operands'
// symmetry is all that is used.
#include "compiler/passes/gpu/matrix_forms.h"

enum { NO = KILN_NO_BIT, END = KILN_FRAGMENT_END };
#define M(i) KILN_M(i)
#define N(i) KILN_N(i)
#define K(i) KILN_K(i)

// ------------------------------------------------------------------------------------------ NVIDIA

// mma.def. A lane is group = lane / 4 and member = lane % 4; a 32-bit register of an operand holds neighbours
// along the reduced index.
#define ACCUMULATOR                                          \
  {                                                          \
    {N(0), M(3), END}, { N(1), N(2), M(0), M(1), M(2), END } \
  }
// Operands of 16, 32 and 8 bits: how many low bits of the reduced index a register holds decides the rest.
#define LEFT_16                                                    \
  {                                                                \
    {K(0), M(3), K(3), END}, { K(1), K(2), M(0), M(1), M(2), END } \
  }
#define RIGHT_16                                             \
  {                                                          \
    {K(0), K(3), END}, { K(1), K(2), N(0), N(1), N(2), END } \
  }
#define LEFT_16_K8                                           \
  {                                                          \
    {K(0), M(3), END}, { K(1), K(2), M(0), M(1), M(2), END } \
  }
#define RIGHT_16_K8                                    \
  {                                                    \
    {K(0), END}, { K(1), K(2), N(0), N(1), N(2), END } \
  }
#define LEFT_32                                              \
  {                                                          \
    {M(3), K(2), END}, { K(0), K(1), M(0), M(1), M(2), END } \
  }
#define RIGHT_32                                       \
  {                                                    \
    {K(2), END}, { K(0), K(1), N(0), N(1), N(2), END } \
  }
#define LEFT_8                                                           \
  {                                                                      \
    {K(0), K(1), M(3), K(4), END}, { K(2), K(3), M(0), M(1), M(2), END } \
  }
#define RIGHT_8                                                    \
  {                                                                \
    {K(0), K(1), K(4), END}, { K(2), K(3), N(0), N(1), N(2), END } \
  }

#define UNITS_FROM(first) ((1u << (KILN_MATRIX_WGMMA + 1)) - (1u << KILN_MATRIX_MMA_##first))
#define MMA(first, l, r, sum, precision, m, n, k, fragments, emission)                            \
  {#l,          UNITS_FROM(first),   32, KILN_##l, KILN_##r, KILN_##sum,       KILN_##l,          \
   KILN_##r,    IR_PREC_##precision, m,  n,        k,        LEFT_##fragments, RIGHT_##fragments, \
   ACCUMULATOR, KILN_EMIT_##emission},

// --------------------------------------------------------------------------------------------- AMD

#define UNIT(name) (1u << KILN_MATRIX_##name)
#define MFMA_94 (UNIT(MFMA_942) | UNIT(MFMA_950) | UNIT(MFMA_9_4))
#define MFMA_90 (UNIT(MFMA_90A) | MFMA_94)
#define MFMA_ALL (UNIT(MFMA_908) | MFMA_90)
#define NO_XF32 (UNIT(MFMA_908) | UNIT(MFMA_90A) | UNIT(MFMA_950) | UNIT(MFMA_9_4))
#define MFMA_OLD (UNIT(MFMA_908) | UNIT(MFMA_90A))

// MFMA: lanes count rows (columns), then what is left of the reduced index; accumulators of 32 rows
// interleave by 4 between the halves.
#define OPERANDS_32(registers, ...)                                                  \
  .left_fragment = {{registers}, {M(0), M(1), M(2), M(3), M(4), __VA_ARGS__, END}},  \
  .right_fragment = {{registers}, {N(0), N(1), N(2), N(3), N(4), __VA_ARGS__, END}}, \
  .accumulator_fragment = {{M(0), M(1), M(3), M(4), END}, {N(0), N(1), N(2), N(3), N(4), M(2), END}}
#define OPERANDS_16(registers, ...)                                           \
  .left_fragment = {{registers}, {M(0), M(1), M(2), M(3), __VA_ARGS__, END}}, \
  .right_fragment = {{registers}, {N(0), N(1), N(2), N(3), __VA_ARGS__, END}}
#define SUMS_16 .accumulator_fragment = {{M(0), M(1), END}, {N(0), N(1), N(2), N(3), M(2), M(3), END}}
#define LIST(...) __VA_ARGS__

#define PAIR(l, r, c) \
  .left = KILN_##l, .right = KILN_##r, .from_left = KILN_##l, .from_right = KILN_##r, .accumulator = KILN_##c
#define TYPES(t, c) PAIR(t, t, c)
#define MFMA(n, u, ...) \
  { .name = "llvm.amdgcn.mfma." n, .units = u, .lanes = 64, .emission = KILN_EMIT_MFMA, __VA_ARGS__ }
#define MFMA_XF32(n, ...)                                                                             \
  {                                                                                                   \
    .name = "llvm.amdgcn.mfma.f32." n ".xf32", .units = UNIT(MFMA_942), .lanes = 64, TYPES(F32, F32), \
    .emission = KILN_EMIT_MFMA_XF32, .precision = IR_PREC_TF32, __VA_ARGS__                           \
  }
#define MFMA_950(n, ...)                                                                                 \
  {                                                                                                      \
    .name = "llvm.amdgcn.mfma." n, .units = UNIT(MFMA_950), .lanes = 64, .emission = KILN_EMIT_MFMA_950, \
    __VA_ARGS__                                                                                          \
  }
#define MKN(a, b, c) .m = a, .n = b, .k = c

// Both sizes of 16 bits and of fp8, on gfx950.
#define MFMA_950_16(t, type)                                      \
  MFMA_950("f32.32x32x16." t, TYPES(type, F32), MKN(5, 5, 4),     \
           OPERANDS_32(LIST(K(0), K(1), K(2), END), K(3))),       \
      MFMA_950("f32.16x16x32." t, TYPES(type, F32), MKN(4, 4, 5), \
               OPERANDS_16(LIST(K(0), K(1), K(2), END), K(3), K(4)), SUMS_16)
#define MFMA_950_WIDE(n, l, r, ...)                                                          \
  {                                                                                          \
    .name = "llvm.amdgcn.mfma.scale.f32." n ".f8f6f4", .units = UNIT(MFMA_950), .lanes = 64, \
    .emission = KILN_EMIT_MFMA_FP8, PAIR(l, r, F32), __VA_ARGS__                             \
  }
#define MFMA_950_8(t, l, r)                                                                                  \
  MFMA_950_WIDE("32x32x64", l, r, MKN(5, 5, 6), OPERANDS_32(LIST(K(0), K(1), K(2), K(3), K(4), END), K(5))), \
      MFMA_950_WIDE("16x16x128", l, r, MKN(4, 4, 7),                                                         \
                    OPERANDS_16(LIST(K(0), K(1), K(2), K(3), K(4), END), K(5), K(6)), SUMS_16),              \
      MFMA("f32.32x32x16." t, UNIT(MFMA_950), PAIR(l, r, F32), MKN(5, 5, 4),                                 \
           OPERANDS_32(LIST(K(0), K(1), K(2), END), K(3))),                                                  \
      MFMA("f32.16x16x32." t, UNIT(MFMA_950), PAIR(l, r, F32), MKN(4, 4, 5),                                 \
           OPERANDS_16(LIST(K(0), K(1), K(2), END), K(3), K(4)), SUMS_16)

// Both sizes of f32.
#define MFMA_F32(u, p)                                                                                    \
  MFMA("f32.32x32x2f32", u, TYPES(F32, F32), .precision = p, MKN(5, 5, 1), OPERANDS_32(LIST(END), K(0))), \
      MFMA("f32.16x16x4f32", u, TYPES(F32, F32), .precision = p, MKN(4, 4, 2),                            \
           OPERANDS_16(LIST(END), K(0), K(1)), SUMS_16)

// WMMA of gfx11: each lane has 16 elements of a row, the upper half-wave the same again. Accumulators: rows
// alternate between the halves.
#define WMMA_11(n, e, types)                                                                              \
  {                                                                                                       \
    .name = "llvm.amdgcn.wmma." n, .units = UNIT(WMMA_11), .lanes = 32, .emission = KILN_EMIT_##e, types, \
    MKN(4, 4, 4), .left_fragment = {{K(0), K(1), K(2), K(3), END}, {M(0), M(1), M(2), M(3), NO, END}},    \
    .right_fragment = {{K(0), K(1), K(2), K(3), END}, {N(0), N(1), N(2), N(3), NO, END}},                 \
    .accumulator_fragment = {                                                                             \
      {M(1), M(2), M(3), END},                                                                            \
      {N(0), N(1), N(2), N(3), M(0), END}                                                                 \
    }                                                                                                     \
  }
// WMMA of gfx12: the halves share the reduced index, and each has eight rows that follow one another.
#define WMMA_12(n, e, types)                                                                              \
  {                                                                                                       \
    .name = "llvm.amdgcn.wmma." n, .units = UNIT(WMMA_12), .lanes = 32, .emission = KILN_EMIT_##e, types, \
    MKN(4, 4, 4), .left_fragment = {{K(0), K(1), K(2), END}, {M(0), M(1), M(2), M(3), K(3), END}},        \
    .right_fragment = {{K(0), K(1), K(2), END}, {N(0), N(1), N(2), N(3), K(3), END}},                     \
    .accumulator_fragment = {                                                                             \
      {M(0), M(1), M(2), END},                                                                            \
      {N(0), N(1), N(2), N(3), M(3), END}                                                                 \
    }                                                                                                     \
  }

// WMMA of gfx1250: accumulators as on gfx12; of the reduced index the halves share the bit `half`, whichever
// it is.
#define WMMA_1250(n, e, types, k_bits, half, ...)                                                           \
  {                                                                                                         \
    .name = "llvm.amdgcn.wmma." n, .units = UNIT(WMMA_1250), .lanes = 32, .emission = KILN_EMIT_##e, types, \
    MKN(4, 4, k_bits), .left_fragment = {{__VA_ARGS__, END}, {M(0), M(1), M(2), M(3), half, END}},          \
    .right_fragment = {{__VA_ARGS__, END}, {N(0), N(1), N(2), N(3), half, END}}, .accumulator_fragment = {  \
      {M(0), M(1), M(2), END},                                                                              \
      {N(0), N(1), N(2), N(3), M(3), END}                                                                   \
    }                                                                                                       \
  }
#define WMMA_1250_F32(p) \
  WMMA_1250("f32.16x16x4.f32", WMMA_1250, LIST(TYPES(F32, F32), .precision = p), 2, K(1), K(0))
#define WMMA_1250_16(t, type) \
  WMMA_1250("f32.16x16x32." t, WMMA_1250, LIST(TYPES(type, F32)), 5, K(3), K(0), K(1), K(2), K(4))
#define WMMA_1250_8(t, l, r)                                                                                 \
  WMMA_1250("f32.16x16x128." t, WMMA_1250_FP8, LIST(PAIR(l, r, F32)), 7, K(4), K(0), K(1), K(2), K(3), K(5), \
            K(6)),                                                                                           \
      WMMA_1250("f32.16x16x64." t, WMMA_1250_FP8, LIST(PAIR(l, r, F32)), 6, K(4), K(0), K(1), K(2), K(3),    \
                K(5))

const kiln_matrix_form kiln_matrix_forms[] = {
#include "compiler/passes/gpu/mma.def"

    MFMA_950_16("f16", F16),
    MFMA_950_16("bf16", BF16),
    MFMA_950("i32.32x32x32.i8", TYPES(I8, I32), MKN(5, 5, 5),
             OPERANDS_32(LIST(K(0), K(1), K(2), K(3), END), K(4))),
    MFMA_950("i32.16x16x64.i8", TYPES(I8, I32), MKN(4, 4, 6),
             OPERANDS_16(LIST(K(0), K(1), K(2), K(3), END), K(4), K(5)), SUMS_16),
    MFMA_950_8("fp8.fp8", E4M3, E4M3),
    MFMA_950_8("fp8.bf8", E4M3, E5M2),
    MFMA_950_8("bf8.fp8", E5M2, E4M3),
    MFMA_950_8("bf8.bf8", E5M2, E5M2),
    MFMA("f32.32x32x8f16", MFMA_ALL, TYPES(F16, F32), MKN(5, 5, 3), OPERANDS_32(LIST(K(0), K(1), END), K(2))),
    MFMA("f32.16x16x16f16", MFMA_ALL, TYPES(F16, F32), MKN(4, 4, 4),
         OPERANDS_16(LIST(K(0), K(1), END), K(2), K(3)), SUMS_16),
    MFMA("f32.32x32x8bf16.1k", MFMA_90, TYPES(BF16, F32), MKN(5, 5, 3),
         OPERANDS_32(LIST(K(0), K(1), END), K(2))),
    MFMA("f32.16x16x16bf16.1k", MFMA_90, TYPES(BF16, F32), MKN(4, 4, 4),
         OPERANDS_16(LIST(K(0), K(1), END), K(2), K(3)), SUMS_16),
    MFMA("f32.32x32x4bf16", UNIT(MFMA_908), TYPES(BF16, F32), MKN(5, 5, 2),
         OPERANDS_32(LIST(K(0), END), K(1))),
    MFMA("f32.16x16x8bf16", UNIT(MFMA_908), TYPES(BF16, F32), MKN(4, 4, 3),
         OPERANDS_16(LIST(K(0), END), K(1), K(2)), SUMS_16),
    MFMA("i32.32x32x16.i8", MFMA_94, TYPES(I8, I32), MKN(5, 5, 4),
         OPERANDS_32(LIST(K(0), K(1), K(2), END), K(3))),
    MFMA("i32.16x16x32.i8", MFMA_94, TYPES(I8, I32), MKN(4, 4, 5),
         OPERANDS_16(LIST(K(0), K(1), K(2), END), K(3), K(4)), SUMS_16),
    MFMA("i32.32x32x8i8", MFMA_OLD, TYPES(I8, I32), MKN(5, 5, 3), OPERANDS_32(LIST(K(0), K(1), END), K(2))),
    MFMA("i32.16x16x16i8", MFMA_OLD, TYPES(I8, I32), MKN(4, 4, 4),
         OPERANDS_16(LIST(K(0), K(1), END), K(2), K(3)), SUMS_16),
    // tf32 is what xf32 is called here; where there is none, and for three-fold tf32, f32 itself is exact
    // enough.
    MFMA_XF32("32x32x4", MKN(5, 5, 2), OPERANDS_32(LIST(K(0), END), K(1))),
    MFMA_XF32("16x16x8", MKN(4, 4, 3), OPERANDS_16(LIST(K(0), END), K(1), K(2)), SUMS_16),
    MFMA_F32(MFMA_ALL, IR_PREC_IEEE),
    MFMA_F32(NO_XF32, IR_PREC_TF32),
    MFMA_F32(MFMA_ALL, IR_PREC_TF32X3),
    // Accumulators of f64 have their rows the other way round: lanes first.
    MFMA("f64.16x16x4f64", MFMA_90, TYPES(F64, F64), MKN(4, 4, 2), OPERANDS_16(LIST(END), K(0), K(1)),
         .accumulator_fragment = {{M(2), M(3), END}, {N(0), N(1), N(2), N(3), M(0), M(1), END}}),

    WMMA_11("f32.16x16x16.f16", WMMA_11, LIST(TYPES(F16, F32))),
    WMMA_11("f32.16x16x16.bf16", WMMA_11, LIST(TYPES(BF16, F32))),
    WMMA_11("i32.16x16x16.iu8", WMMA_11_INTEGER, LIST(TYPES(I8, I32))),

    WMMA_12("f32.16x16x16.f16", WMMA, LIST(TYPES(F16, F32))),
    WMMA_12("f32.16x16x16.bf16", WMMA, LIST(TYPES(BF16, F32))),
    WMMA_12("i32.16x16x16.iu8", WMMA_INTEGER, LIST(TYPES(I8, I32))),
    WMMA_12("f32.16x16x16.fp8.fp8", WMMA, LIST(PAIR(E4M3, E4M3, F32))),
    WMMA_12("f32.16x16x16.fp8.bf8", WMMA, LIST(PAIR(E4M3, E5M2, F32))),
    WMMA_12("f32.16x16x16.bf8.fp8", WMMA, LIST(PAIR(E5M2, E4M3, F32))),
    WMMA_12("f32.16x16x16.bf8.bf8", WMMA, LIST(PAIR(E5M2, E5M2, F32))),

    WMMA_1250_16("f16", F16),
    WMMA_1250_16("bf16", BF16),
    WMMA_1250("i32.16x16x64.iu8", WMMA_1250_INTEGER, LIST(TYPES(I8, I32)), 6, K(4), K(0), K(1), K(2), K(3),
              K(5)),
    WMMA_1250_8("fp8.fp8", E4M3, E4M3),
    WMMA_1250_8("fp8.bf8", E4M3, E5M2),
    WMMA_1250_8("bf8.fp8", E5M2, E4M3),
    WMMA_1250_8("bf8.bf8", E5M2, E5M2),
    WMMA_1250_F32(IR_PREC_IEEE),
    WMMA_1250_F32(IR_PREC_TF32),
    WMMA_1250_F32(IR_PREC_TF32X3),
};
const size_t kiln_matrix_form_count = sizeof kiln_matrix_forms / sizeof *kiln_matrix_forms;

const kiln_matrix_form *kiln_matrix_form_of(kiln_matrix matrix, unsigned lanes, const ir_op *dot,
                                            kiln_report_reason *out_why) {
  const ir_type a = dot->operands[0]->type, b = dot->operands[1]->type;
  const unsigned m = a.log2[a.rank - 2], n = b.log2[b.rank - 1], k = a.log2[a.rank - 1];
  const kiln_matrix_form *found = NULL;
  kiln_report_reason why = KILN_REASON_TYPES;
  for (size_t i = 0; i < kiln_matrix_form_count && !found; i++) {
    const kiln_matrix_form *f = &kiln_matrix_forms[i];
    const bool has_types = f->units >> matrix & 1 && f->lanes == 1u << lanes && f->from_left == a.scalar &&
                           f->from_right == b.scalar;
    const bool is_exact = a.scalar != KILN_F32 || f->precision == dot->attrs.precision;
    if (!has_types) continue;
    if (is_exact && f->m <= m && f->n <= n && f->k <= k) found = f;
    else if (is_exact) why = KILN_REASON_SMALL;
    else if (why == KILN_REASON_TYPES) why = KILN_REASON_EXACT;
  }
  if (out_why) *out_why = found ? KILN_REASON_NONE : why;
  return found;
}
