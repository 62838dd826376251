// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known of NVIDIA's processors without LLVM: mma.sync of each compute capability, wgmma and what
// feeds it. Sources: the PTX ISA ("mma", "wgmma.mma_async"), the CUDA programming guide's table of compute
// capabilities.
#include "compiler/target_info.h"

// ---------------------------------------------------------------------------------------- mma.sync

enum { END = KILN_FRAGMENT_END };
#define M(i) KILN_M(i)
#define N(i) KILN_N(i)
#define K(i) KILN_K(i)

// mma.def has the instructions. A lane is group = lane / 4 and member = lane % 4; a 32-bit register of an operand holds neighbours
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

// Multiply-adds: a lane has four steps of a row, and four steps of each of four neighbouring columns. The
// lanes are four rows of eight or eight rows of four.
#define SAME KILN_NO_BIT
#define BY_STEPS K(0), K(1), N(0), N(1)
#define BY_COLUMNS N(0), N(1), K(0), K(1)
#define LEFT_4_8 SAME, SAME, SAME, M(0), M(1)
#define RIGHT_4_8 N(2), N(3), N(4), SAME, SAME
#define SUMS_4_8 N(2), N(3), N(4), M(0), M(1)
#define LEFT_8_4 SAME, SAME, M(0), M(1), M(2)
#define RIGHT_8_4 N(2), N(3), SAME, SAME, SAME
#define SUMS_8_4 N(2), N(3), M(0), M(1), M(2)
#define FMA(sums, log2_rows, log2_columns, order, lanes_)             \
  {.name = "fma",                                                     \
   .units = UNITS_FROM(75),                                           \
   .lanes = 32,                                                       \
   .left = KILN_F32,                                                  \
   .right = KILN_F32,                                                 \
   .accumulator = KILN_F32,                                           \
   .from_left = KILN_F32,                                             \
   .from_right = KILN_F32,                                            \
   .precision = IR_PREC_IEEE,                                         \
   .m = log2_rows,                                                    \
   .n = log2_columns,                                                 \
   .k = 2,                                                            \
   .least = sums,                                                     \
   .left_fragment = {{K(0), K(1), END}, {LEFT_##lanes_, END}},        \
   .right_fragment = {{order, END}, {RIGHT_##lanes_, END}},           \
   .accumulator_fragment = {{N(0), N(1), END}, {SUMS_##lanes_, END}}, \
   .emission = KILN_EMIT_FMA},

static const kiln_matrix_form forms[] = {
#include "compiler/codegen/nvptx/mma.def"
};

// ----------------------------------------------------------------------------------- matrix units

// 64 rows a warpgroup, 8 to 256 columns, 32 bytes of the reduced index.
static const kiln_matrix_machine wgmma = {.group_warps = 4,
                                          .log2_rows = 6,
                                          .least_n = 4,
                                          .most_n = 8,
                                          .part_columns = 16,
                                          .step_bytes = 32,
                                          .row_bytes = 128,
                                          .most_partial = 128,
                                          .threads = 1024,
                                          .registers = 65536,
                                          .block_reserve = 1024,
                                          .producer_registers = 24,
                                          .most_thread_registers = 240};

static const kiln_matrix_unit units[] = {
    {KILN_MATRIX_MMA_75, .has_matrix_loads = true, .shifts_pieces = true},
    {KILN_MATRIX_MMA_80, .has_bf16 = true, .has_fetch = true, .has_matrix_loads = true,
     .shifts_pieces = true},
    {KILN_MATRIX_MMA_89, .has_bf16 = true, .has_fp8 = true, .has_fp8_casts = true, .has_fetch = true,
     .has_matrix_loads = true, .shifts_pieces = true},
    {KILN_MATRIX_WGMMA, .has_bf16 = true, .has_fp8 = true, .has_fp8_casts = true, .has_fetch = true,
     .has_matrix_loads = true, .shifts_pieces = true, .shared = &wgmma},
};

const kiln_target_info kiln_nvptx_info = {.units = units,
                                          .unit_count = sizeof units / sizeof *units,
                                          .forms = forms,
                                          .form_count = sizeof forms / sizeof *forms,
                                          .bf16_sums = 90};
