// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The matrix instructions of processors that multiply fragments in registers, one row each: which products
// they compute and how operands and sums lie. Who emits a row is its back end's table
// (gpu_machine.emit_product). Products from shared memory are gpu.h's.
#ifndef KILN_COMPILER_PASSES_GPU_MATRIX_FORMS_H
#define KILN_COMPILER_PASSES_GPU_MATRIX_FORMS_H

#include "compiler/ir/ir.h"
#include "compiler/report.h"
#include "targets/targets.h"

/// Elements named in fragments: bit i of the row, column or reduced index.
#define KILN_M(i) (i)
#define KILN_N(i) (32 + (i))
#define KILN_K(i) (64 + (i))
enum { KILN_NO_BIT = 0xff, KILN_FRAGMENT_REGISTERS = 8, KILN_FRAGMENT_LANES = 6 };

/// Which element a (register, lane) place of one instruction's operand holds. Lists end with
/// KILN_FRAGMENT_END; KILN_NO_BIT: a replicated bit.
enum { KILN_FRAGMENT_END = 0xfe };
typedef struct kiln_fragment {
  uint8_t registers[KILN_FRAGMENT_REGISTERS + 1], lanes[KILN_FRAGMENT_LANES + 1];
} kiln_fragment;

/// Kinds of rows that are emitted alike.
typedef enum kiln_matrix_emission {
  KILN_EMIT_F16, ///< NVIDIA's, by the operands' types
  KILN_EMIT_BF16,
  KILN_EMIT_F16_K8,
  KILN_EMIT_TF32,
  KILN_EMIT_S8,
  KILN_EMIT_E4M3_E4M3,
  KILN_EMIT_E4M3_E5M2,
  KILN_EMIT_E5M2_E4M3,
  KILN_EMIT_E5M2_E5M2,
  KILN_EMIT_MFMA, ///< AMD's, by the intrinsics' signatures
  KILN_EMIT_MFMA_XF32,
  KILN_EMIT_MFMA_950,
  KILN_EMIT_MFMA_FP8,
  KILN_EMIT_WMMA,
  KILN_EMIT_WMMA_INTEGER,
  KILN_EMIT_WMMA_11,
  KILN_EMIT_WMMA_11_INTEGER,
  KILN_EMIT_WMMA_1250,
  KILN_EMIT_WMMA_1250_FP8,
  KILN_EMIT_WMMA_1250_INTEGER,
  KILN_EMISSIONS
} kiln_matrix_emission;

/// One matrix instruction. The first row that fits is taken, so wide forms stand first.
typedef struct kiln_matrix_form {
  const char *name;
  uint32_t units; ///< set of 1 << kiln_matrix that have it
  uint8_t lanes;  ///< wave size it is for
  uint8_t left, right,
      accumulator; ///< kiln_scalar that the instruction takes; operands are cast to it when that is exact
  uint8_t from_left, from_right; ///< kiln_scalar that the operation has
  uint8_t precision;             ///< ir_precision that it satisfies (for f32)
  uint8_t m, n, k;               ///< logarithms
  kiln_fragment left_fragment, right_fragment, accumulator_fragment;
  kiln_matrix_emission emission;
} kiln_matrix_form;

extern const kiln_matrix_form kiln_matrix_forms[];
extern const size_t kiln_matrix_form_count;

/// The instruction by which processors with that unit and waves of 1 << `lanes` compute `dot`; NULL: there is
/// none, and `out_why` (may be NULL) says why.
const kiln_matrix_form *kiln_matrix_form_of(kiln_matrix matrix, unsigned lanes, const ir_op *dot,
                                            kiln_report_reason *out_why);

#endif
