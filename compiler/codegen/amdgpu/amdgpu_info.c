// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of AMD's processors without LLVM: the matrix instructions MFMA (gfx9, waves of 64) and WMMA
// (gfx11, gfx12 and gfx1250, waves of 32), registers, clocks. Sources: the instruction set guides of CDNA 1 to
// 4 and RDNA 3 and 4; for gfx1250 the operands' symmetry is all that is used.
#include "compiler/target_info.h"

// --------------------------------------------------------------------------------------- MFMA, WMMA

enum { NO = KILN_NO_BIT, END = KILN_FRAGMENT_END };
#define M(i) KILN_M(i)
#define N(i) KILN_N(i)
#define K(i) KILN_K(i)

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

static const kiln_matrix_form forms[] = {
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

// ----------------------------------------------------------------------------------- matrix units

// Partitions of a device, and an MI300A, have fewer dies.
static const kiln_matrix_unit units[] = {
    {KILN_MATRIX_MFMA_908, .has_bf16 = true},
    {KILN_MATRIX_MFMA_90A, .has_bf16 = true, .has_sum_registers = true},
    {KILN_MATRIX_MFMA_942, .has_bf16 = true, .has_sum_registers = true, .dies = 8},
    {KILN_MATRIX_MFMA_950, .has_bf16 = true, .has_fp8 = true, .has_sum_registers = true, .dies = 8,
     .turns = true},
    {KILN_MATRIX_MFMA_9_4, .has_bf16 = true, .has_sum_registers = true, .dies = 8},
    {KILN_MATRIX_WMMA_11, .has_bf16 = true},
    {KILN_MATRIX_WMMA_12, .has_bf16 = true, .has_fp8 = true},
    {KILN_MATRIX_WMMA_1250, .has_bf16 = true, .has_fp8 = true},
};

/// Registers of a SIMD for each lane: on gfx9 512 with a matrix unit, half of them for sums, else 256; on RDNA
/// twice as many lanes of half a wave each. One thread may have 256 of RDNA's, all of gfx9's. A SIMD belongs to
/// a unit of four, on gfx9 the compute unit, from gfx10 on two of them, whose shared memory is twice what a
/// block may have.
static void set_fetch(kiln_fetch_machine *m, const kiln_processor *p) {
  enum { ADDRESSABLE = 256, RDNA = 512 };
  const bool is_rdna = p->major >= 10;
  bool has_sum_registers = false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (units[i].matrix == p->matrix) has_sum_registers = units[i].has_sum_registers;
  // gfx11 and gfx12 have no instruction for waves of 64: products by additions need the memory of slots.
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].units >> p->matrix & 1 && forms[i].lanes == 1u << m->lanes)
      m->slot_scalars |= 1u << forms[i].from_left & (1u << KILN_F16 | 1u << KILN_BF16 | 1u << KILN_I8);
  m->small_file = is_rdna;
  m->resident_shared = is_rdna ? 2 * p->shared_bytes : p->shared_bytes;
  m->most_registers = has_sum_registers ? 2 * ADDRESSABLE : ADDRESSABLE;
  m->register_file = !is_rdna ? m->most_registers : m->lanes == 5 ? 2 * RDNA : RDNA;
}

// ------------------------------------------------------------------------------- special registers

#define CLOCK_9 "s_memrealtime $0\ns_waitcnt lgkmcnt(0)"
#define CLOCK_11 "s_sendmsg_rtn_b64 $0, sendmsg(MSG_RTN_GET_REALTIME)\ns_waitcnt lgkmcnt(0)"
#define CLOCK_12 "s_sendmsg_rtn_b64 $0, sendmsg(MSG_RTN_GET_REALTIME)\ns_wait_kmcnt 0x0"

// Nanoseconds of a clock of 100 MHz, 25 MHz on gfx906, gfx908 and gfx90a; the compute unit within its shader
// array and engine (HW_ID).
static const kiln_special_register registers[] = {
    {PTX_GLOBALTIMER, NULL, 9, 9, KILN_MATRIX_MFMA_942, 64, 10, "=s", CLOCK_9},
    {PTX_GLOBALTIMER, NULL, 9, 9, KILN_MATRIX_MFMA_950, 64, 10, "=s", CLOCK_9},
    {PTX_GLOBALTIMER, NULL, 9, 9, KILN_MATRIX_MFMA_9_4, 64, 10, "=s", CLOCK_9},
    {PTX_GLOBALTIMER, NULL, 9, 9, KILN_MATRIX_NONE, 64, 40, "=s", CLOCK_9},
    {PTX_GLOBALTIMER, NULL, 10, 10, KILN_MATRIX_NONE, 64, 10, "=s", CLOCK_9},
    {PTX_GLOBALTIMER, NULL, 11, 11, KILN_MATRIX_NONE, 64, 10, "=s", CLOCK_11},
    {PTX_GLOBALTIMER, NULL, 12, 12, KILN_MATRIX_NONE, 64, 10, "=s", CLOCK_12},
    {PTX_SMID, NULL, 9, 9, KILN_MATRIX_NONE, 32, 1, "=s", "s_getreg_b32 $0, hwreg(HW_REG_HW_ID, 8, 8)"},
    {PTX_SMID, NULL, 10, 12, KILN_MATRIX_NONE, 32, 1, "=s", "s_getreg_b32 $0, hwreg(HW_REG_HW_ID1, 10, 11)"},
};

const kiln_target_info kiln_amdgpu_info = {.units = units,
                                           .unit_count = sizeof units / sizeof *units,
                                           .forms = forms,
                                           .form_count = sizeof forms / sizeof *forms,
                                           .registers = registers,
                                           .register_count = sizeof registers / sizeof *registers,
                                           .set_fetch = set_fetch};
